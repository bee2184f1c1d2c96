//! What every package has besides the program: manual pages, completions, and words about it.

use super::components::Components;
use super::notices;
use super::programs::{cannot, printed};
use super::release::Release;
use super::spdx;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Where a system looks for the completions of a shell, below `share`.
pub(super) struct Places {
    pub(super) bash: &'static str,
    pub(super) fish: &'static str,
    pub(super) zsh: &'static str,
}

/// The name of the file with the licences of others.
pub(super) const NOTICES: &str = "third-party.txt";

/// The name of the list of components.
pub(super) const COMPONENTS: &str = "components.spdx.json";

/// Puts the program and what belongs to it below a folder such as `usr`. The program itself writes its manual pages and
/// completions, so it must run on this machine.
pub(super) fn lay_out(release: &Release, program: &Path, folder: &Path, places: &Places) -> Result<(), String> {
    put_file(program, &folder.join("bin/millstream"))?;
    let share = folder.join("share");
    let ask = |words: &[&str]| {
        printed(release.command(program).arg("self").args(words)).map_err(|error| {
            format!(
                "{error}\n  hint: a package is made where its program runs, on a {} machine",
                release.target.machine
            )
        })
    };
    let pages = share.join("man/man1");
    ask(&["man", &pages.to_string_lossy()])?;
    for (shell, place) in [("bash", places.bash), ("fish", places.fish), ("zsh", places.zsh)] {
        put(&share.join(place), ask(&["completions", shell])?.as_bytes())?;
    }
    Ok(())
}

/// Puts the list of components and the notices of others into a folder.
pub(super) fn describe(release: &Release, components: &Components, folder: &Path) -> Result<(), String> {
    put(&folder.join(NOTICES), notices::text(components)?.as_bytes())?;
    put_file(&spdx::write(release, components)?, &folder.join(COMPONENTS))
}

/// Writes a file, and makes the folders above it.
pub(super) fn put(path: &Path, bytes: &[u8]) -> Result<(), String> {
    make_above(path)?;
    fs::write(path, bytes).map_err(cannot("write", path))
}

/// Copies a file, and makes the folders above it.
pub(super) fn put_file(from: &Path, path: &Path) -> Result<(), String> {
    make_above(path)?;
    fs::copy(from, path).map(drop).map_err(cannot("copy", from))
}

fn make_above(path: &Path) -> Result<(), String> {
    let above = path.parent().unwrap_or(path);
    fs::create_dir_all(above).map_err(cannot("make", above))
}

/// The files below a folder, in order. All get the rights that they have in a package, whatever the umask is: what lies in
/// a folder `bin` may be run.
pub(super) fn files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    allow(folder, 0o755)?;
    let listed = fs::read_dir(folder).and_then(|entries| entries.collect::<Result<Vec<_>, _>>());
    let mut entries = listed.map_err(cannot("list", folder))?;
    entries.sort_by_key(fs::DirEntry::path);
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files(&path)?);
        } else {
            allow(&path, if folder.ends_with("bin") { 0o755 } else { 0o644 })?;
            found.push(path);
        }
    }
    Ok(found)
}

fn allow(path: &Path, mode: u32) -> Result<(), String> {
    fs::set_permissions(path, Permissions::from_mode(mode)).map_err(cannot("set the rights of", path))
}
