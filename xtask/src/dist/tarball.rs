//! The tarball, for systems that are not Debian's: unpack it anywhere.

use super::components::Components;
use super::contents::{Places, describe, files, lay_out, put_file};
use super::programs::printed;
use super::release::Release;
use super::wheel::Wheel;
use std::path::{Path, PathBuf};

const PLACES: Places = Places {
    bash: "bash-completion/completions/millstream",
    fish: "fish/vendor_completions.d/millstream.fish",
    zsh: "zsh/site-functions/_millstream",
};

/// Files of the repository that go with the program.
const WORDS: &[&str] = &["CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT", "README.md"];

/// Packs the wheel's program.
pub(super) fn make(release: &Release, components: &Components, wheel: &Wheel) -> Result<PathBuf, String> {
    let name = format!("millstream-{}-{}-linux", release.version, release.target.machine);
    let above = release.new_folder("tarball")?;
    let folder = above.join(&name);
    lay_out(release, &wheel.program, &folder, &PLACES)?;
    for word in WORDS {
        put_file(&release.root.join(word), &folder.join(word))?;
    }
    describe(release, components, &folder)?;
    let end = format!("-{}-linux.tar.gz", release.target.machine);
    pack(release, &above, &name, &|other| other.starts_with("millstream-") && other.ends_with(&end))
}

/// Packs a folder below another one, so that the same files make the same bytes. Returns the archive, which replaces those
/// of its kind.
pub(super) fn pack(
    release: &Release,
    above: &Path,
    name: &str,
    is_of_kind: &dyn Fn(&str) -> bool,
) -> Result<PathBuf, String> {
    files(&above.join(name))?;
    let file = release.place(&format!("{name}.tar.gz"), is_of_kind)?;
    let mut tar = release.command("tar");
    tar.args(["--create", "--format=ustar", "--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    tar.arg(format!("--mtime=@{}", release.moment)).arg("--use-compress-program=gzip -9 -n");
    printed(tar.arg("--file").arg(&file).arg("--directory").arg(above).arg(name))?;
    Ok(file)
}
