//! The wheel: the program and the Python package, linked against an old C library.

use super::components::{Components, FEATURES};
use super::contents::put;
use super::notices;
use super::programs::{cannot, printed, run};
use super::python;
use super::release::Release;
use super::spdx;
use super::tools::Tools;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The C library against which the program is linked. Distributions from 2019 on have it.
const GLIBC: (u32, u32) = (2, 28);

/// A finished wheel.
pub(super) struct Wheel {
    pub(super) file: PathBuf,
    /// The program that is in it. Every other package has the same.
    pub(super) program: PathBuf,
    /// The C library that the program needs at least.
    pub(super) glibc: (u32, u32),
    /// The libraries from which it takes symbols.
    pub(super) libraries: Vec<String>,
}

/// What auditwheel says of a wheel.
#[derive(Debug, Deserialize)]
struct Audit {
    overall_tag: String,
    versioned_symbols: BTreeMap<String, Vec<String>>,
}

/// Builds the program and the wheel.
pub(super) fn make(release: &Release, components: &Components) -> Result<Wheel, String> {
    let tools = Tools::ready(release)?;
    let project = release.new_folder("python")?;
    python::lay_out(release, &project, &builder(release))?;
    // The licences of others go to the wheel's own.
    put(&project.join("NOTICE.txt"), notices::text(components)?.as_bytes())?;
    let made = release.new_folder("wheel")?;
    let platform = format!("manylinux_{}_{}", GLIBC.0, GLIBC.1);
    let mut maturin = tools.command(release, "maturin");
    maturin.args(["build", "--release", "--locked", "--zig", "--auditwheel", "check", "--features", FEATURES]);
    maturin.arg("--compatibility").arg(&platform).args(["--target", release.target.triple]);
    maturin.arg("--target-dir").arg(release.work.join("build"));
    maturin.arg("--sbom-include").arg(spdx::write(release, components)?);
    maturin.arg("--out").arg(&made).arg("--strip");
    // The caches of zig, too, are made below `target`.
    maturin.env("XDG_CACHE_HOME", release.work.join("cache"));
    let places = places(release, components);
    maturin.env("CARGO_ENCODED_RUSTFLAGS", rust_flags(&places));
    // Quoted, because a path may have spaces.
    maturin.env("CFLAGS", c_flags(&places)).env("CC_SHELL_ESCAPED_FLAGS", "1");
    run(maturin.current_dir(&project))?;

    let name = format!("millstream-{}-py3-none-{platform}_{}.whl", release.version, release.target.machine);
    let found = made.join(&name);
    if !found.is_file() {
        let there = fs::read_dir(&made).map_err(cannot("list", &made))?;
        let there: Vec<String> =
            there.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        return Err(format!("maturin made {}, not {name}", there.join(", ")));
    }
    let audit = printed(tools.module(release, "auditwheel").args(["show", "--json"]).arg(&found))?;
    let (glibc, libraries) = judged(&audit, release.target.machine)?;
    let program = unpacked(release, &found)?;
    let end = format!("_{}.whl", release.target.machine);
    let file = release.place(&name, &|other| other.starts_with("millstream-") && other.ends_with(&end))?;
    fs::copy(&found, &file).map_err(cannot("write", &file))?;
    Ok(Wheel { file, program, glibc, libraries })
}

/// What makes a wheel of the Python package and of the program, which is not one of its modules.
fn builder(release: &Release) -> String {
    let manifest = release.root.join("crates/millstream/Cargo.toml");
    // A string of JSON is one of TOML, too. maturin would list the crates with paths of this machine.
    let manifest = serde_json::Value::from(manifest.to_string_lossy());
    format!(
        "[build-system]\nrequires = [\"maturin>=1.16,<2\"]\nbuild-backend = \"maturin\"\n\n\
         [tool.maturin]\nbindings = \"bin\"\nmanifest-path = {manifest}\npython-source = \".\"\n\
         python-packages = [\"millstream\", \"pyspark_millstream\"]\n\n\
         [tool.maturin.sbom]\nrust = false\nauditwheel = false\n"
    )
}

/// The folders from which the program is compiled, each with the name under which it may appear in the program: where a
/// clone lies is nobody's business, and must not change the bytes.
fn places<'a>(release: &'a Release, components: &'a Components) -> Vec<(&'a Path, &'static str)> {
    let mut places = vec![(release.root.as_path(), "/millstream")];
    places.extend(components.registry().map(|registry| (registry, "/registry")));
    places
}

/// Flags of rustc for messages and debug information. Cargo separates them so, because a path may have spaces.
fn rust_flags(places: &[(&Path, &str)]) -> OsString {
    let mut flags = OsString::new();
    for (path, name) in places {
        if !flags.is_empty() {
            flags.push("\u{1f}");
        }
        flags.push("--remap-path-prefix=");
        flags.push(path);
        flags.push("=");
        flags.push(name);
    }
    flags
}

/// Flags of the C compiler for the same, also for `__FILE__`, quoted for a shell.
fn c_flags(places: &[(&Path, &str)]) -> String {
    let quoted = |(path, name): &(&Path, &str)| {
        let path = path.to_string_lossy().replace('\'', r"'\''");
        format!("'-ffile-prefix-map={path}={name}'")
    };
    places.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// The C library and the libraries that a wheel needs, if it may have its name.
fn judged(audit: &str, machine: &str) -> Result<((u32, u32), Vec<String>), String> {
    let audit: Audit = serde_json::from_str(audit.trim())
        .map_err(|error| format!("auditwheel said what cannot be read: {error}: {}", audit.trim()))?;
    let tag = audit.overall_tag.strip_suffix(machine).unwrap_or_default();
    let allowed = tag.strip_prefix("manylinux_").and_then(|tag| version(&tag.trim_end_matches('_').replace('_', ".")));
    if allowed.is_none_or(|allowed| allowed > GLIBC) {
        return Err(format!(
            "auditwheel calls the wheel {}, but it must run with glibc {}.{}",
            audit.overall_tag, GLIBC.0, GLIBC.1
        ));
    }
    let symbols = audit.versioned_symbols.values().flatten();
    let needed = symbols.filter_map(|symbol| version(symbol.strip_prefix("GLIBC_")?)).max();
    Ok((needed.unwrap_or(GLIBC), audit.versioned_symbols.into_keys().collect()))
}

/// The first two numbers of a version.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split('.').map(str::parse::<u32>);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

/// Takes the program out of a wheel, which is a zip file.
fn unpacked(release: &Release, wheel: &Path) -> Result<PathBuf, String> {
    let folder = release.new_folder("unpacked")?;
    run(release.command("python3").args(["-m", "zipfile", "-e"]).arg(wheel).arg(&folder))?;
    for package in ["millstream", "pyspark_millstream"] {
        let package = folder.join(package).join("__init__.py");
        if !package.is_file() {
            return Err(format!("the wheel lacks a Python package: {} is missing", package.display()));
        }
    }
    let inside = folder.join(format!("millstream-{}.data/scripts/millstream", release.version));
    let program = release.new_folder("program")?.join("millstream");
    fs::copy(&inside, &program).map_err(cannot("take from the wheel", &inside))?;
    fs::set_permissions(&program, Permissions::from_mode(0o755)).map_err(cannot("open up", &program))?;
    Ok(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn audit(tag: &str) -> String {
        format!(
            r#"{{"version": 1, "overall_tag": "{tag}", "pure": false, "external_libs": {{}},
               "versioned_symbols": {{"libc.so.6": ["GLIBC_2.2.5", "GLIBC_2.17", "GLIBC_2.9"], "libm.so.6": ["GLIBC_2.27"]}}}}"#
        )
    }

    #[test]
    fn compilers_are_told_where_a_clone_does_not_lie() {
        let places = [(Path::new("/a b/it's"), "/millstream"), (Path::new("/r"), "/registry")];
        let rust = "--remap-path-prefix=/a b/it's=/millstream\u{1f}--remap-path-prefix=/r=/registry";
        assert_eq!(rust_flags(&places), rust);
        let c = r"'-ffile-prefix-map=/a b/it'\''s=/millstream' '-ffile-prefix-map=/r=/registry'";
        assert_eq!(c_flags(&places), c);
    }

    #[test]
    fn a_wheel_says_what_it_needs() {
        let libraries = ["libc.so.6", "libm.so.6"].map(str::to_owned).to_vec();
        for tag in ["manylinux_2_28_x86_64", "manylinux_2_5_x86_64"] {
            assert_eq!(judged(&audit(tag), "x86_64"), Ok(((2, 27), libraries.clone())), "{tag}");
        }
    }

    #[test]
    fn a_wheel_for_newer_machines_is_refused() {
        for tag in ["manylinux_2_34_x86_64", "linux_x86_64", "manylinux_2_28_aarch64", "manylinux_3_0_x86_64"] {
            assert!(judged(&audit(tag), "x86_64").unwrap_err().contains(tag), "{tag}");
        }
        assert!(judged("{}", "x86_64").unwrap_err().starts_with("auditwheel said"));
    }
}
