//! What the program is made of: its crates, and those of others that are linked into it.

use super::options::Options;
use super::programs::printed;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The package of the program.
const PROGRAM: &str = "millstream";

/// What a build of the packages has beyond the default.
pub(super) const FEATURES: &str = "full";

/// The program's crate with every crate that it uses, directly or not, in a build of the packages.
pub(super) struct Components {
    /// By name and version, the program among them.
    pub(super) all: Vec<Component>,
    /// Which one uses which, as indexes of `all`.
    pub(super) uses: Vec<(usize, usize)>,
    program: usize,
    /// What is linked into the program besides crates, once the tools that bring it are there.
    pub(super) linked: Vec<Linked>,
}

/// What is linked into the program and is no crate.
pub(super) struct Linked {
    pub(super) name: &'static str,
    /// Of what brings it: Rust or zig.
    pub(super) version: String,
    /// An SPDX expression.
    pub(super) license: &'static str,
    /// Licences and notices.
    pub(super) notice: String,
}

/// One crate.
pub(super) struct Component {
    pub(super) name: String,
    pub(super) version: String,
    /// An SPDX expression, if it says one.
    pub(super) license: Option<String>,
    /// Where its files are.
    pub(super) folder: PathBuf,
    /// The checksum of the archive that the registry has. Our own crates have none.
    pub(super) checksum: Option<String>,
    /// Whether it comes from a registry.
    pub(super) is_foreign: bool,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    manifest_path: PathBuf,
    source: Option<String>,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Link>,
}

#[derive(Deserialize)]
struct Link {
    pkg: String,
    dep_kinds: Vec<Kind>,
}

#[derive(Deserialize)]
struct Kind {
    /// `null`, `dev` or `build`.
    kind: Option<String>,
}

impl Components {
    /// Asks cargo.
    pub(super) fn read(root: &Path, options: &Options) -> Result<Self, String> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut metadata = Command::new(cargo);
        metadata.args(["metadata", "--locked", "--format-version=1", "--filter-platform", options.target.triple]);
        metadata.args(["--features", &format!("{PROGRAM}/{FEATURES}")]);
        let text = printed(metadata.arg("--manifest-path").arg(root.join("Cargo.toml")))?;
        let lock = root.join("Cargo.lock");
        let lock =
            std::fs::read_to_string(&lock).map_err(|error| format!("cannot read {}: {error}", lock.display()))?;
        Self::of(&text, &lock)
    }

    /// The components in what cargo says and in what it has locked.
    fn of(metadata: &str, lock: &str) -> Result<Self, String> {
        let Metadata { packages, resolve } = serde_json::from_str(metadata)
            .map_err(|error| format!("cargo metadata said what cannot be read: {error}"))?;
        let root = packages.iter().find(|package| package.name == PROGRAM && package.source.is_none());
        let root = root.ok_or_else(|| format!("cargo metadata names no package {PROGRAM}"))?.id.clone();
        let used = used(&resolve, &root);
        let checksums = checksums(lock);
        let mut chosen: Vec<Package> = packages.into_iter().filter(|package| used.contains(&package.id)).collect();
        chosen.sort_by(|one, other| (&one.name, &one.version).cmp(&(&other.name, &other.version)));
        let places: BTreeMap<String, usize> =
            (0..).zip(&chosen).map(|(at, package)| (package.id.clone(), at)).collect();
        let mut uses = Vec::new();
        for Node { id, deps } in &resolve.nodes {
            let Some(from) = places.get(id) else { continue };
            uses.extend(
                deps.iter().filter(|link| link.is_normal()).filter_map(|link| Some((*from, *places.get(&link.pkg)?))),
            );
        }
        uses.sort_unstable();
        let all = chosen.into_iter().map(|package| package.into_component(&checksums)).collect();
        Ok(Self { all, uses, program: places[&root], linked: Vec::new() })
    }

    /// The program's own crate.
    pub(super) fn program(&self) -> &Component {
        &self.all[self.program]
    }

    /// The folder that holds what came from the registry.
    pub(super) fn registry(&self) -> Option<&Path> {
        self.all.iter().find(|component| component.is_foreign)?.folder.parent()
    }
}

impl Package {
    fn into_component(self, checksums: &BTreeMap<(String, String), String>) -> Component {
        let Self { name, version, license, manifest_path, source, .. } = self;
        let folder = manifest_path.parent().unwrap_or(Path::new(".")).to_owned();
        // Older crates separate licences so.
        let license = license.map(|license| license.split('/').map(str::trim).collect::<Vec<_>>().join(" OR "));
        let checksum = checksums.get(&(name.clone(), version.clone())).cloned();
        Component { name, version, license, folder, checksum, is_foreign: source.is_some() }
    }
}

impl Link {
    /// Whether the program needs it when it runs, not only its tests or its build.
    fn is_normal(&self) -> bool {
        self.dep_kinds.iter().any(|kind| kind.kind.is_none())
    }
}

/// The packages that one needs, itself among them.
fn used(resolve: &Resolve, root: &str) -> BTreeSet<String> {
    let nodes: BTreeMap<&str, &Node> = resolve.nodes.iter().map(|node| (node.id.as_str(), node)).collect();
    let mut found = BTreeSet::new();
    let mut left = vec![root];
    while let Some(id) = left.pop() {
        if found.insert(id.to_owned()) {
            let deps = nodes.get(id).map(|node| node.deps.as_slice()).unwrap_or_default();
            left.extend(deps.iter().filter(|link| link.is_normal()).map(|link| link.pkg.as_str()));
        }
    }
    found
}

/// The checksums in a lock file, by name and version.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let mut found = BTreeMap::new();
    for package in lock.split("[[package]]").skip(1) {
        let value = |key: &str| {
            let line = package.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""));
            line.and_then(|line| line.strip_suffix('"')).map(str::to_owned)
        };
        if let (Some(name), Some(version), Some(checksum)) = (value("name"), value("version"), value("checksum")) {
            found.insert((name, version), checksum);
        }
    }
    found
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    const METADATA: &str = r#"{
        "packages": [
            {"id": "m", "name": "millstream", "version": "0.1.0", "license": "MIT", "manifest_path": "/r/m/Cargo.toml", "source": null},
            {"id": "b", "name": "b", "version": "2.0.0", "license": "MIT / Apache-2.0", "manifest_path": "/c/b-2/Cargo.toml", "source": "registry"},
            {"id": "a", "name": "a", "version": "1.0.0+x", "license": null, "manifest_path": "/c/a-1/Cargo.toml", "source": "registry"},
            {"id": "t", "name": "t", "version": "1.0.0", "license": "MIT", "manifest_path": "/c/t-1/Cargo.toml", "source": "registry"}
        ],
        "resolve": {"nodes": [
            {"id": "m", "deps": [
                {"pkg": "b", "dep_kinds": [{"kind": "build", "target": null}, {"kind": null, "target": null}]},
                {"pkg": "t", "dep_kinds": [{"kind": "dev", "target": null}]}
            ]},
            {"id": "b", "deps": [{"pkg": "a", "dep_kinds": [{"kind": null, "target": null}]}]},
            {"id": "a", "deps": []},
            {"id": "t", "deps": [{"pkg": "a", "dep_kinds": [{"kind": null, "target": null}]}]}
        ]}
    }"#;

    const LOCK: &str = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0+x\"\nsource = \"s\"\nchecksum = \"12ab\"\n\n\
                        [[package]]\nname = \"millstream\"\nversion = \"0.1.0\"\n";

    /// The program with two crates of others, and something that is no crate.
    pub(in crate::dist) fn three() -> Components {
        let mut found = Components::of(METADATA, LOCK).unwrap();
        let notice = "Use it.".to_owned();
        found.linked = vec![Linked { name: "rust-std", version: "1.2.3".to_owned(), license: "MIT", notice }];
        found
    }

    #[test]
    fn what_only_tests_use_is_no_component() {
        let found = three();
        let names: Vec<&str> = found.all.iter().map(|component| component.name.as_str()).collect();
        assert_eq!(names, ["a", "b", "millstream"]);
        assert_eq!(found.uses, [(1, 0), (2, 1)]);
        assert_eq!((found.program().name.as_str(), found.program().version.as_str()), ("millstream", "0.1.0"));
        assert_eq!(found.registry(), Some(Path::new("/c")));
    }

    #[test]
    fn licences_and_checksums_are_read() {
        let found = three();
        assert_eq!(found.all[1].license.as_deref(), Some("MIT OR Apache-2.0"));
        let checksums: Vec<Option<&str>> = found.all.iter().map(|component| component.checksum.as_deref()).collect();
        assert_eq!(checksums, [Some("12ab"), None, None]);
    }
}
