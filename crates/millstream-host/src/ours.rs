//! What only we and root may change: the one rule for directories and programs that we believe.
//!
//! Files say what we do next. The journal of changes says what an undo writes, and the home of a server where its programs
//! are. Whoever can change such a file, or put another one in its place, acts with our rights. So a path is believed only
//! if nobody else can do that:
//!
//! - It and every directory on the way to it belong to us or to root, and nobody else may write there.
//! - A directory such as `/tmp`, where everybody may write, may lie on the way if it is sticky: only the owner of an entry
//!   can replace it there, and the entry must be ours or root's.
//! - A link belongs to us or to root, and its target is checked in the same way.
//!
//! Below a directory that was checked, plain paths are safe, and no descriptor of the directory has to be kept: to lead us
//! elsewhere, somebody would have to replace an entry on the way, and the check says that no other account can. What lies
//! there is opened without following a link all the same (see [`crate::open_plain`]).

use crate::account::{name_of, private_group};
use crate::limits::LINKS_MAX;
use crate::shell::shell_word;
use millstream_model::Refusal;
use rustix::process::geteuid;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, Metadata, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

/// Rights of a directory that is ours alone.
pub const PRIVATE: u32 = 0o700;

/// Why we do not believe what is at a path.
#[derive(Debug, thiserror::Error)]
pub enum NotOurs {
    /// It, or something on the way to it, belongs to somebody else.
    #[error("{} belongs to {owner}, who could change what is there", path.display())]
    Owner {
        /// What belongs to somebody else.
        path: PathBuf,
        /// The name of the owner.
        owner: String,
    },
    /// Others may write to it, or to a directory on the way to it.
    #[error("others than its owner may write to {}", path.display())]
    Writable {
        /// What they may write to.
        path: PathBuf,
    },
    /// It cannot be looked at, or not be made.
    #[error("cannot {what} {}: {source}", path.display())]
    File {
        /// What was tried, a verb.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
}

impl NotOurs {
    /// What to do about it, if that is known.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Owner { owner, .. } => Some(format!("run this as {owner}")),
            Self::Writable { path } => Some(format!(
                "look at what others have put there, and then run: chmod go-w {}",
                shell_word(&path.display())
            )),
            Self::File { .. } => None,
        }
    }

    /// Converts the system's error.
    fn file(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { what, path, source }
    }
}

impl From<NotOurs> for Refusal {
    fn from(why: NotOurs) -> Self {
        Self { problem: why.to_string(), hint: why.hint() }
    }
}

/// Checks that only we and root may change what is at a path: a directory, or a program. Returns the path without links,
/// and `None` if nothing is there. Then what exists of the way to it is checked.
///
/// # Errors
/// Somebody else may change it.
pub fn check_ours(path: &Path) -> Result<Option<PathBuf>, NotOurs> {
    let path = std::path::absolute(path).map_err(NotOurs::file("find", path))?;
    let mut at = PathBuf::from("/");
    let mut links_left = LINKS_MAX;
    // The last name comes first.
    let mut names = names_of(&path);
    check_owner(&at, &looked_at(&at)?)?;
    while let Some(name) = names.pop() {
        // There is no link in the path so far.
        if name == ".." {
            at.pop();
            continue;
        }
        let here = at.join(&name);
        let facts = match fs::symlink_metadata(&here) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            facts => facts.map_err(NotOurs::file("find", &here))?,
        };
        check_owner(&here, &facts)?;
        if facts.is_symlink() {
            let too_many = || NotOurs::file("find", &path)(io::Error::other("too many links"));
            links_left = links_left.checked_sub(1).ok_or_else(too_many)?;
            let target = fs::read_link(&here).map_err(NotOurs::file("read", &here))?;
            if target.is_absolute() {
                at = PathBuf::from("/");
            }
            names.extend(names_of(&target));
        } else if is_shared(&facts) && !is_sticky(&facts) {
            return Err(NotOurs::Writable { path: here });
        } else {
            at = here;
        }
    }
    // In a sticky directory others may make new entries.
    if is_shared(&looked_at(&at)?) {
        return Err(NotOurs::Writable { path: at });
    }
    Ok(Some(at))
}

/// Makes a directory that only we and root may change, and what is missing on the way to it, whatever the umask is. One that
/// is there is only checked. `mode`: its rights, such as [`PRIVATE`]; what is above it gets [`enterable`].
///
/// # Errors
/// Somebody else may change it, or it cannot be made.
pub fn make_ours(dir: &Path, mode: u32) -> Result<(), NotOurs> {
    if check_ours(dir)?.is_some() {
        return Ok(());
    }
    let dir = std::path::absolute(dir).map_err(NotOurs::file("find", dir))?;
    let is_missing = |path: &&Path| fs::symlink_metadata(path).is_err_and(|error| error.kind() == ErrorKind::NotFound);
    let missing: Vec<&Path> = dir.ancestors().take_while(is_missing).collect();
    for path in missing.into_iter().rev() {
        make_one(path, if path == dir { mode } else { enterable() })?;
    }
    // A link that leads nowhere is not replaced.
    let none = || NotOurs::file("find", &dir)(ErrorKind::NotFound.into());
    check_ours(&dir)?.ok_or_else(none).map(drop)
}

/// Rights of a directory that the account of a server has to enter: of root everybody may, because the server runs under
/// another account; of others nobody else.
pub fn enterable() -> u32 {
    if geteuid().is_root() { 0o755 } else { PRIVATE }
}

/// The names in a path, the last one first.
fn names_of(path: &Path) -> Vec<OsString> {
    let names = path.components().rev().filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir));
    names.map(|part| part.as_os_str().to_owned()).collect()
}

fn looked_at(path: &Path) -> Result<Metadata, NotOurs> {
    fs::symlink_metadata(path).map_err(NotOurs::file("find", path))
}

fn check_owner(path: &Path, facts: &Metadata) -> Result<(), NotOurs> {
    if facts.uid() == 0 || facts.uid() == geteuid().as_raw() {
        return Ok(());
    }
    Err(NotOurs::Owner { path: path.to_owned(), owner: name_of(facts.uid()) })
}

/// Whether somebody else than the owner may write. Many distributions give each user a group of its own and let it write
/// whatever the user makes: then the group is nobody else.
fn is_shared(facts: &Metadata) -> bool {
    let is_own_group = || facts.uid() == geteuid().as_raw() && private_group() == Some(facts.gid());
    facts.mode() & 0o002 != 0 || (facts.mode() & 0o020 != 0 && !is_own_group())
}

fn is_sticky(facts: &Metadata) -> bool {
    facts.is_dir() && facts.mode() & 0o1000 != 0
}

fn make_one(path: &Path, mode: u32) -> Result<(), NotOurs> {
    match DirBuilder::new().mode(PRIVATE).create(path) {
        // Another process was faster. Whose it is will be checked.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(()),
        made => made.map_err(NotOurs::file("make", path))?,
    }
    fs::set_permissions(path, Permissions::from_mode(mode)).map_err(NotOurs::file("make", path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_testkit::{Need, machine_has};
    use std::os::unix::fs::{chown, symlink};

    /// A user who is not root.
    const NOBODY: u32 = 65_534;

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    fn why(path: &Path) -> String {
        check_ours(path).unwrap_err().to_string()
    }

    #[test]
    fn a_directory_is_made_private_and_found_through_links_of_ours() {
        let dir = tempfile::tempdir().unwrap();
        let (home, link) = (dir.path().join("a/home"), dir.path().join("link"));
        assert_eq!(check_ours(&home).unwrap(), None);
        make_ours(&home, PRIVATE).unwrap();
        make_ours(&home, 0o755).unwrap();
        assert_eq!((mode(&home), mode(&dir.path().join("a"))), (PRIVATE, enterable()));
        symlink("a/../a/home", &link).unwrap();
        let found = home.canonicalize().unwrap();
        assert_eq!(check_ours(&link).unwrap(), Some(found.clone()));
        assert_eq!(check_ours(&link.join("../home")).unwrap(), Some(found));
        symlink(dir.path().join("nowhere"), dir.path().join("dangling")).unwrap();
        assert!(make_ours(&dir.path().join("dangling"), PRIVATE).is_err());
        assert!(!dir.path().join("nowhere").exists());
        symlink("circle", dir.path().join("circle")).unwrap();
        assert!(why(&dir.path().join("circle")).ends_with("too many links"));
    }

    #[test]
    fn where_others_may_write_nothing_is_believed_but_own_entries_of_a_sticky_directory() {
        let dir = tempfile::tempdir().unwrap();
        let (shared, home) = (dir.path().join("shared"), dir.path().join("shared/home"));
        make_ours(&home, PRIVATE).unwrap();
        set_mode(&shared, 0o777);
        assert_eq!(why(&home), format!("others than its owner may write to {}", shared.display()));
        assert_eq!(why(&shared.join("missing")), why(&home), "what is missing could be made by anybody");
        let hint = check_ours(&home).unwrap_err().hint().unwrap();
        assert!(hint.ends_with(&format!("chmod go-w {}", shared.display())), "{hint}");
        set_mode(&shared, 0o1777);
        assert!(check_ours(&home).unwrap().is_some());
        assert!(why(&shared).contains("may write to"), "others may make entries there");
        set_mode(&home, 0o702);
        assert!(why(&home).contains("may write to"));
        fs::write(shared.join("program"), "").unwrap();
        set_mode(&shared.join("program"), 0o757);
        assert!(why(&shared.join("program")).contains("may write to"));
    }

    #[test]
    fn what_belongs_to_another_user_is_not_believed_and_neither_is_what_is_below() {
        if !machine_has(&[Need::Root]) {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        make_ours(&at("theirs/home"), PRIVATE).unwrap();
        chown(at("theirs"), Some(NOBODY), Some(NOBODY)).unwrap();
        for path in ["theirs", "theirs/home", "theirs/missing"] {
            assert!(why(&at(path)).contains(&format!("{} belongs to ", at("theirs").display())), "{path}");
        }
        assert!(make_ours(&at("theirs/missing"), PRIVATE).is_err() && !at("theirs/missing").exists());
        make_ours(&at("ours"), PRIVATE).unwrap();
        symlink("ours", at("link")).unwrap();
        std::os::unix::fs::lchown(at("link"), Some(NOBODY), Some(NOBODY)).unwrap();
        assert!(why(&at("link")).contains(&format!("{} belongs to ", at("link").display())));
        set_mode(&at("ours"), 0o770);
        assert!(why(&at("ours")).contains("may write to"), "root has no group of its own");
    }
}
