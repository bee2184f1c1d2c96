//! A workspace as the house rules see it: its text files, and what cargo reports of its crates.

use serde::Deserialize;
use std::path::Path;
use std::process::Command;

/// Folders and files that no rule checks: builds, fixtures that break rules on purpose, and inputs for fuzzing.
const SKIPPED: &[&str] = &["target", ".git", "Cargo.lock", "xtask/fixtures", "fuzz/corpus"];

/// A text file.
pub(crate) struct File {
    /// Path from the root, with `/` between parts.
    pub(crate) path: String,
    /// Its text.
    pub(crate) text: String,
}

impl File {
    /// The file's name without folders.
    pub(crate) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// The file's name without folders and extension.
    pub(crate) fn stem(&self) -> &str {
        self.name().split('.').next().unwrap_or_default()
    }

    /// The folder it lies in, without slash at the end; empty at the root.
    pub(crate) fn folder(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(folder, _)| folder)
    }

    /// Whether the path ends in `.extension`.
    pub(crate) fn is(&self, extension: &str) -> bool {
        self.path.rsplit_once('.').is_some_and(|(_, end)| end == extension)
    }

    /// The lines with their numbers, from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }

    /// The first line that holds `part`, or 1.
    pub(crate) fn line_of(&self, part: &str) -> usize {
        self.lines().find(|(_, line)| line.contains(part)).map_or(1, |(n, _)| n)
    }
}

/// A crate of the workspace.
pub(crate) struct Crate {
    /// Its name.
    pub(crate) name: String,
    /// Its folder from the root.
    pub(crate) folder: String,
    /// Path of its manifest from the root.
    pub(crate) manifest: String,
    /// The crates it names as dependencies.
    pub(crate) dependencies: Vec<Dependency>,
    /// Names of its test binaries.
    pub(crate) test_binaries: Vec<String>,
}

/// A dependency as cargo reports it.
#[derive(Deserialize)]
pub(crate) struct Dependency {
    /// The package's name.
    pub(crate) name: String,
    /// `null`, `dev` or `build`.
    kind: Option<String>,
}

impl Dependency {
    /// Whether it stands under `[dev-dependencies]`.
    pub(crate) fn is_dev(&self) -> bool {
        self.kind.as_deref() == Some("dev")
    }
}

/// A workspace.
pub(crate) struct Tree {
    /// Every text file, by path.
    pub(crate) files: Vec<File>,
    /// The paths of all files, also of those that are no text.
    pub(crate) paths: Vec<String>,
    /// Every crate, as cargo lists them.
    pub(crate) crates: Vec<Crate>,
}

impl Tree {
    /// Reads the workspace at `root`: what git tracks or would track, or every file if there is no git. Files that are
    /// not UTF-8 are skipped.
    pub(crate) fn read(root: &Path) -> Result<Self, String> {
        let mut paths = match listed_by_git(root) {
            Some(paths) => paths,
            None => files_below(root)?,
        };
        paths.retain(|path| !skipped(path));
        paths.sort_unstable();
        paths.dedup();
        let mut files = Vec::new();
        for path in &paths {
            // A file removed but not yet committed is still listed by git.
            let Ok(bytes) = std::fs::read(root.join(path)) else {
                continue;
            };
            if let Ok(text) = String::from_utf8(bytes) {
                files.push(File { path: path.clone(), text });
            }
        }
        Ok(Self { files, paths, crates: crates(root)? })
    }

    /// The file at `path`.
    pub(crate) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Every file with the extension.
    pub(crate) fn with_extension(&self, extension: &str) -> impl Iterator<Item = &File> {
        self.files.iter().filter(move |file| file.is(extension))
    }
}

fn skipped(path: &str) -> bool {
    SKIPPED.iter().any(|skip| path == *skip || path.strip_prefix(skip).is_some_and(|p| p.starts_with('/')))
}

fn listed_by_git(root: &Path) -> Option<Vec<String>> {
    if !root.join(".git").exists() {
        return None;
    }
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let list = text.split('\0').filter(|path| !path.is_empty());
    output.status.success().then(|| list.map(str::to_owned).collect())
}

fn files_below(root: &Path) -> Result<Vec<String>, String> {
    let mut paths = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        let here = root.join(&folder);
        let entries = std::fs::read_dir(&here).map_err(|error| format!("cannot list {}: {error}", here.display()))?;
        for entry in entries {
            let entry = entry.map_err(|error| format!("cannot list {}: {error}", here.display()))?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            let path = match folder.as_str() {
                "" => name,
                folder => format!("{folder}/{name}"),
            };
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_folder && !skipped(&path) {
                folders.push(path);
            } else if !is_folder {
                paths.push(path);
            }
        }
    }
    Ok(paths)
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    workspace_root: String,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: String,
    dependencies: Vec<Dependency>,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

fn crates(root: &Path) -> Result<Vec<Crate>, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--offline", "--format-version=1"])
        .arg("--manifest-path")
        .arg(root.join("Cargo.toml"))
        .output()
        .map_err(|error| format!("cannot run cargo metadata: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("cargo metadata failed\n  caused by: {}", said.trim()));
    }
    let metadata: Metadata = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("cargo metadata said what cannot be read: {error}"))?;
    let from_root =
        |path: &str| path.strip_prefix(&metadata.workspace_root).unwrap_or(path).trim_start_matches('/').to_owned();
    let is_test = |target: &Target| target.kind.iter().any(|kind| kind == "test");
    let of_package = |Package { name, manifest_path, dependencies, targets }: Package| {
        let manifest = from_root(&manifest_path);
        let folder = manifest.trim_end_matches("Cargo.toml").trim_end_matches('/').to_owned();
        let test_binaries = targets.into_iter().filter(is_test).map(|target| target.name).collect();
        Crate { name, folder, manifest, dependencies, test_binaries }
    };
    Ok(metadata.packages.into_iter().map(of_package).collect())
}
