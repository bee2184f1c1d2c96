//! The source distribution: the Python package alone, for machines without a wheel. It runs the `millstream` that it finds
//! on the path.

use super::contents::put;
use super::python;
use super::release::Release;
use super::tarball::pack;
use std::path::PathBuf;

/// What builds the package where it is installed.
const BUILDER: &str = "\
[build-system]
requires = [\"setuptools>=77\"]
build-backend = \"setuptools.build_meta\"

[tool.setuptools]
packages = [\"millstream\", \"pyspark_millstream\"]

[tool.setuptools.package-data]
millstream = [\"py.typed\"]
";

/// Packs the files of the Python package.
pub(super) fn make(release: &Release) -> Result<PathBuf, String> {
    let name = format!("millstream-{}", release.version);
    let above = release.new_folder("sdist")?;
    let folder = above.join(&name);
    python::lay_out(release, &folder, BUILDER)?;
    let facts = format!("Metadata-Version: 2.1\nName: millstream\nVersion: {}\n", release.version);
    put(&folder.join("PKG-INFO"), facts.as_bytes())?;
    // The tarballs of programs end with their system.
    let is_sdist = |other: &str| {
        other.starts_with("millstream-") && other.ends_with(".tar.gz") && !other.ends_with("-linux.tar.gz")
    };
    pack(release, &above, &name, &is_sdist)
}
