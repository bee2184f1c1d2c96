//! The Debian package. It has no scripts: nothing is set up when it comes, and nothing is removed with it but its files.

use super::components::Components;
use super::contents::{COMPONENTS, NOTICES, Places, describe, files, lay_out, put, put_file};
use super::programs::{cannot, printed, run};
use super::release::Release;
use super::wheel::Wheel;
use std::fs;
use std::path::{Path, PathBuf};

const PLACES: Places = Places {
    bash: "bash-completion/completions/millstream",
    fish: "fish/vendor_completions.d/millstream.fish",
    zsh: "zsh/vendor-completions/_millstream",
};

/// Who packages, unless `DEBFULLNAME` and `DEBEMAIL` say so, as for Debian's own tools.
const NAME: &str = "The Millstream developers";
const ADDRESS: &str = "millstream@example.org";

/// Of which package of Debian a library is; what begins with `libc` and the like is of the C library.
const LIBRARIES: &[(&str, &str)] = &[
    ("ld-linux", "libc6"),
    ("libc.", "libc6"),
    ("libdl.", "libc6"),
    ("libgcc_s.", "libgcc-s1"),
    ("libm.", "libc6"),
    ("libpthread.", "libc6"),
    ("libresolv.", "libc6"),
    ("librt.", "libc6"),
    ("libutil.", "libc6"),
];

/// Builds the package of the wheel's program.
pub(super) fn make(release: &Release, components: &Components, wheel: &Wheel) -> Result<PathBuf, String> {
    let root = release.new_folder("deb")?;
    let (usr, words) = (root.join("usr"), root.join("usr/share/doc/millstream"));
    lay_out(release, &wheel.program, &usr, &PLACES)?;
    describe(release, components, &words)?;
    put_file(&release.root.join("CHANGELOG.md"), &words.join("changelog"))?;
    put(&words.join("changelog.Debian"), changelog(release)?.as_bytes())?;
    let mut packed: Vec<PathBuf> =
        ["changelog", "changelog.Debian", NOTICES, COMPONENTS].map(|name| words.join(name)).into();
    packed.extend(files(&usr.join("share/man"))?);
    run(release.command("gzip").args(["-9", "-n"]).args(&packed))?;
    put(&words.join("copyright"), copyright(&release.root)?.as_bytes())?;

    let all = files(&usr)?;
    let names: Vec<&Path> = all.iter().filter_map(|file| file.strip_prefix(&root).ok()).collect();
    let sums = printed(release.command("md5sum").args(&names).current_dir(&root))?;
    let control = control(release, &depends(wheel)?, kibibytes(&all)?);
    put(&root.join("DEBIAN/md5sums"), sums.as_bytes())?;
    put(&root.join("DEBIAN/control"), control.as_bytes())?;
    files(&root)?;
    let name = format!("millstream_{}_{}.deb", release.debian_version, release.target.debian);
    let end = format!("_{}.deb", release.target.debian);
    let file = release.place(&name, &|other| other.starts_with("millstream_") && other.ends_with(&end))?;
    let mut pack = release.command("dpkg-deb");
    // Several threads would cut the data in another way.
    pack.env("DPKG_DEB_THREADS_MAX", "1").args(["--root-owner-group", "-Zxz", "--build"]).arg(&root).arg(&file);
    printed(&mut pack)?;
    Ok(file)
}

fn control(release: &Release, depends: &str, kibibytes: u64) -> String {
    format!(
        "Package: millstream\n\
         Version: {}\n\
         Architecture: {}\n\
         Maintainer: {}\n\
         Installed-Size: {kibibytes}\n\
         Depends: {depends}\n\
         Suggests: postgresql (>= 15)\n\
         Section: database\n\
         Priority: optional\n\
         Description: loader of JSON documents into PostgreSQL\n \
         Millstream loads JSON, NDJSON, CSV and TSV into plain tables of PostgreSQL, under\n \
         a key that you name. It inserts new keys and updates those that are stored, it\n \
         resumes after a crash without storing anything twice, and it accounts for every\n \
         document.\n \
         .\n \
         The same program makes read models with indexes, looks up IP addresses in ranges,\n \
         examines servers, measures them, and copies files and clusters. Without a server,\n \
         it starts one of its own.\n",
        release.debian_version,
        release.target.debian,
        maintainer(),
    )
}

fn maintainer() -> String {
    let said = |name, otherwise: &str| std::env::var(name).unwrap_or_else(|_| otherwise.to_owned());
    format!("{} <{}>", said("DEBFULLNAME", NAME), said("DEBEMAIL", ADDRESS))
}

fn changelog(release: &Release) -> Result<String, String> {
    Ok(format!(
        "millstream ({}) unstable; urgency=medium\n\n  * Packaged {}; changelog.gz says what has changed.\n\n -- {}  {}\n",
        release.debian_version,
        release.version,
        maintainer(),
        release.date("-R")?,
    ))
}

/// What the package says of licences, in words. Debian has the text of Apache's.
fn copyright(root: &Path) -> Result<String, String> {
    let file = root.join("LICENSE-MIT");
    let terms = fs::read_to_string(&file).map_err(cannot("read", &file))?;
    Ok(format!(
        "Millstream may be used under the terms of the MIT licence or of the Apache License, Version 2.0, as you like.\n\
         On Debian systems, /usr/share/common-licenses/Apache-2.0 has the text of the latter. The former:\n\
         \n\
         {terms}\n\
         {NOTICES}.gz has the licences of the libraries in the program, and {COMPONENTS}.gz their list.\n",
    ))
}

/// What the program needs, as Debian's packages.
fn depends(wheel: &Wheel) -> Result<String, String> {
    let (major, minor) = wheel.glibc;
    let mut packages = vec![format!("libc6 (>= {major}.{minor})")];
    for library in &wheel.libraries {
        let known = LIBRARIES.iter().find(|(begin, _)| library.starts_with(begin));
        let (_, package) = known.ok_or_else(|| format!("the program needs {library}, whose package is not known"))?;
        if *package != "libc6" && !packages.iter().any(|one| one == package) {
            packages.push((*package).to_owned());
        }
    }
    Ok(packages.join(", "))
}

/// The room that the files take, as Debian counts it.
fn kibibytes(files: &[PathBuf]) -> Result<u64, String> {
    files
        .iter()
        .map(|file| fs::metadata(file).map(|facts| facts.len().div_ceil(1024)).map_err(cannot("look at", file)))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copyright_has_the_whole_licence() {
        let text = copyright(&crate::workspace_root()).unwrap();
        let licence = include_str!("../../../LICENSE-MIT");
        assert!(text.contains(licence) && licence.contains("\nCopyright (c) "), "{text}");
        assert!(text.contains("/usr/share/common-licenses/Apache-2.0") && text.contains(NOTICES), "{text}");
    }

    #[test]
    fn the_package_depends_on_what_the_program_needs() {
        let wheel = |libraries: &[&str]| Wheel {
            file: PathBuf::new(),
            program: PathBuf::new(),
            glibc: (2, 27),
            libraries: libraries.iter().map(|name| (*name).to_owned()).collect(),
        };
        assert_eq!(depends(&wheel(&["libc.so.6", "ld-linux-x86-64.so.2"])).unwrap(), "libc6 (>= 2.27)");
        assert_eq!(depends(&wheel(&["libgcc_s.so.1", "libm.so.6"])).unwrap(), "libc6 (>= 2.27), libgcc-s1");
        assert!(depends(&wheel(&["libssl.so.3"])).unwrap_err().contains("libssl.so.3"));
    }
}
