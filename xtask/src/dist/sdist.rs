//! The source distribution: the Python package alone, for machines without a wheel. It runs the `millstream` that it finds
//! on the path.

use super::contents::{put, put_file};
use super::programs::cannot;
use super::release::Release;
use super::tarball::pack;
use super::wheel::PROJECT;
use crate::tree::Tree;
use std::fs;
use std::path::PathBuf;

/// What builds the package where it is installed, instead of maturin.
const BACKEND: &str = "\
[build-system]
requires = [\"setuptools>=77\"]
build-backend = \"setuptools.build_meta\"

[tool.setuptools.packages.find]
include = [\"millstream*\"]

[tool.setuptools.package-data]
millstream = [\"py.typed\"]
";

/// Packs the files of the Python package.
pub(super) fn make(release: &Release) -> Result<PathBuf, String> {
    let name = format!("millstream-{}", release.version);
    let above = release.new_folder("sdist")?;
    let folder = above.join(&name);
    let below = format!("{PROJECT}/");
    for path in Tree::read(&release.root)?.paths {
        let Some(place) = path.strip_prefix(&below).filter(|place| *place != "pyproject.toml") else { continue };
        let from = release.root.join(&path);
        // A file removed but not yet committed is still listed by git.
        if from.is_file() {
            put_file(&from, &folder.join(place))?;
        }
    }
    let settings = release.root.join(&below).join("pyproject.toml");
    let text = fs::read_to_string(&settings).map_err(cannot("read", &settings))?;
    put(&folder.join("pyproject.toml"), without_maturin(&text, &release.version)?.as_bytes())?;
    let facts = format!("Metadata-Version: 2.1\nName: millstream\nVersion: {}\n", release.version);
    put(&folder.join("PKG-INFO"), facts.as_bytes())?;
    pack(release, &above, &name)
}

/// The package's settings with another builder, which does not know the version of the program.
fn without_maturin(settings: &str, version: &str) -> Result<String, String> {
    let mut text = String::new();
    let mut section = "";
    let mut is_versioned = false;
    for line in settings.lines() {
        if line.starts_with('[') {
            section = line.trim();
        }
        let is_left_out = section == "[build-system]" || section.starts_with("[tool.maturin");
        if is_left_out || (section == "[project]" && line.starts_with("dynamic")) {
            continue;
        }
        text.extend([line, "\n"]);
        if line == "[project]" {
            text.push_str(&format!("version = \"{version}\"\n"));
            is_versioned = true;
        }
    }
    if !is_versioned || settings.lines().any(|line| line.starts_with("version = ")) {
        return Err(format!("{PROJECT}/pyproject.toml must have a [project] whose version is dynamic"));
    }
    Ok(format!("{}\n\n{BACKEND}", text.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_settings_get_a_version_and_another_builder() {
        let settings = "[build-system]\nrequires = [\"maturin\"]\n\n[project]\nname = \"millstream\"\n\
                        dynamic = [\"version\"]\n\n[tool.maturin]\nbindings = \"bin\"\n\n[tool.maturin.sbom]\nrust = false\n\n\
                        [tool.mypy]\nstrict = true\n";
        let expected =
            "[project]\nversion = \"1.2.3\"\nname = \"millstream\"\n\n[tool.mypy]\nstrict = true\n\n[build-system]\n";
        let changed = without_maturin(settings, "1.2.3").unwrap();
        assert!(changed.starts_with(expected) && changed.ends_with(BACKEND), "{changed}");
        assert!(!changed.contains("maturin"), "{changed}");
    }

    #[test]
    fn a_second_version_is_refused() {
        for settings in ["[project]\nversion = \"9\"\n", "[build-system]\n"] {
            assert!(without_maturin(settings, "1.2.3").unwrap_err().contains("dynamic"), "{settings}");
        }
    }
}
