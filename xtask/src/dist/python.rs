//! The files of the Python package, with the builder that a package of them needs.

use super::contents::{put, put_file};
use super::programs::cannot;
use super::release::Release;
use crate::tree::Tree;
use std::fs;
use std::path::Path;

/// The folder of the Python package.
const PROJECT: &str = "clients/python";

/// The file with its settings, for which a package gets one of its own.
const SETTINGS: &str = "pyproject.toml";

/// Sections of the settings that name a builder.
const BUILDERS: &[&str] = &["[build-system]", "[tool.maturin", "[tool.setuptools"];

/// Licences that go with the package.
const LICENCES: &[&str] = &["LICENSE-APACHE", "LICENSE-MIT"];

/// Copies the files into a folder, with settings that end with those of a builder.
pub(super) fn lay_out(release: &Release, folder: &Path, builder: &str) -> Result<(), String> {
    let below = format!("{PROJECT}/");
    for path in Tree::read(&release.root)?.paths {
        let Some(place) = path.strip_prefix(&below).filter(|place| *place != SETTINGS) else { continue };
        let from = release.root.join(&path);
        // A file removed but not yet committed is still listed by git.
        if from.is_file() {
            put_file(&from, &folder.join(place))?;
        }
    }
    for licence in LICENCES {
        put_file(&release.root.join(licence), &folder.join(licence))?;
    }
    let settings = release.root.join(PROJECT).join(SETTINGS);
    let text = fs::read_to_string(&settings).map_err(cannot("read", &settings))?;
    put(&folder.join(SETTINGS), settings_with(&text, &release.version, builder)?.as_bytes())
}

/// Settings with another builder and the version of the program.
fn settings_with(settings: &str, version: &str, builder: &str) -> Result<String, String> {
    let mut text = String::new();
    let mut section = "";
    let mut is_versioned = false;
    for line in settings.lines() {
        if line.starts_with('[') {
            section = line.trim();
        }
        if BUILDERS.iter().any(|builder| section.starts_with(builder)) {
            continue;
        }
        if section == "[project]" {
            let own = line.strip_prefix("version = ").map(|own| own.trim().trim_matches('"'));
            if let Some(own) = own.filter(|own| *own != version) {
                return Err(format!("{PROJECT}/{SETTINGS} has version {own}, and the program {version}: they are one"));
            }
            if own.is_some() || line.starts_with("dynamic = ") {
                continue;
            }
        }
        text.extend([line, "\n"]);
        if line.trim() == "[project]" {
            text.push_str(&format!("version = \"{version}\"\n"));
            is_versioned = true;
        }
    }
    match is_versioned {
        true => Ok(format!("{}\n\n{builder}", text.trim())),
        false => Err(format!("{PROJECT}/{SETTINGS} has no section [project]")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUILDER: &str = "[build-system]\nrequires = [\"other\"]\n";

    #[test]
    fn settings_get_another_builder_and_the_version() {
        for version in ["dynamic = [\"version\"]", "version = \"1.2.3\""] {
            let settings = format!(
                "[build-system]\nrequires = [\"maturin\"]\n\n[project]\nname = \"millstream\"\n{version}\n\n\
                 [tool.maturin]\nbindings = \"bin\"\n\n[tool.setuptools.package-data]\nmillstream = [\"py.typed\"]\n\n\
                 [tool.mypy]\nstrict = true\n"
            );
            let expected = format!(
                "[project]\nversion = \"1.2.3\"\nname = \"millstream\"\n\n[tool.mypy]\nstrict = true\n\n{BUILDER}"
            );
            assert_eq!(settings_with(&settings, "1.2.3", BUILDER), Ok(expected));
        }
    }

    #[test]
    fn another_version_is_refused() {
        let error = settings_with("[project]\nversion = \"9\"\n", "1.2.3", BUILDER).unwrap_err();
        assert!(error.contains("has version 9, and the program 1.2.3"), "{error}");
        assert!(settings_with("[tool.mypy]\n", "1.2.3", BUILDER).unwrap_err().contains("no section [project]"));
    }

    #[test]
    fn the_package_has_the_version_of_the_program() {
        let root = crate::workspace_root();
        let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
        let version = manifest.lines().find_map(|line| line.strip_prefix("version = \"")?.strip_suffix('"')).unwrap();
        let settings = fs::read_to_string(root.join(PROJECT).join(SETTINGS)).unwrap();
        settings_with(&settings, version, BUILDER).unwrap();
    }
}
