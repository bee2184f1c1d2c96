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
use rustix::fs::{CWD, Mode, OFlags, mkdirat, openat};
use rustix::io::Errno;
use rustix::process::geteuid;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
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
        /// What to do about it.
        way_out: String,
    },
    /// Others may write to it, or to a directory on the way to it.
    #[error("others than its owner may write to {}: {rights}", path.display())]
    Writable {
        /// What they may write to.
        path: PathBuf,
        /// Its owner and its mode, and who they are.
        rights: String,
        /// What to do about it.
        way_out: String,
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
            Self::Owner { way_out, .. } | Self::Writable { way_out, .. } => Some(way_out.clone()),
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
    let Some(found) = found(path)? else { return Ok(None) };
    // In a sticky directory others may make new entries.
    check_writers(&found, &looked_at(&found)?, true)?;
    Ok(Some(found))
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
    let none = || NotOurs::file("find", &dir)(ErrorKind::NotFound.into());
    let missing: Vec<&Path> = dir.ancestors().take_while(|path| is_missing(path)).collect();
    // A link that leads nowhere is not replaced.
    let above = dir.ancestors().nth(missing.len()).map_or(Ok(None), found)?.ok_or_else(none)?;
    let mut at = opened(CWD, above.as_os_str(), OFlags::PATH).map_err(NotOurs::file("open", &above))?;
    for path in missing.into_iter().rev() {
        at = make_one(&at, path, if path == dir { mode } else { enterable() })?;
    }
    check_ours(&dir)?.ok_or_else(none).map(drop)
}

/// Rights of a directory that the account of a server has to enter: of root everybody may, because the server runs under
/// another account; of others nobody else.
pub fn enterable() -> u32 {
    if geteuid().is_root() { 0o755 } else { PRIVATE }
}

/// What a path leads to, without links; `None` if nothing is there. What exists of the way is checked. The end may be a
/// sticky directory.
fn found(path: &Path) -> Result<Option<PathBuf>, NotOurs> {
    let path = std::path::absolute(path).map_err(NotOurs::file("find", path))?;
    let mut at = PathBuf::from("/");
    let mut links_left = LINKS_MAX;
    // The last name comes first.
    let mut names = names_of(&path);
    check_owner(&at, &looked_at(&at)?, false)?;
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
        let is_end = facts.is_dir() && names.last().is_none_or(|next| is_missing(&here.join(next)));
        check_owner(&here, &facts, is_end)?;
        if facts.is_symlink() {
            let too_many = || NotOurs::file("find", &path)(io::Error::other("too many links"));
            links_left = links_left.checked_sub(1).ok_or_else(too_many)?;
            let target = fs::read_link(&here).map_err(NotOurs::file("read", &here))?;
            if target.is_absolute() {
                at = PathBuf::from("/");
            }
            names.extend(names_of(&target));
            continue;
        }
        if !is_sticky(&facts) {
            check_writers(&here, &facts, is_end)?;
        }
        at = here;
    }
    Ok(Some(at))
}

/// The names in a path, the last one first.
fn names_of(path: &Path) -> Vec<OsString> {
    let names = path.components().rev().filter(|part| matches!(part, Component::Normal(_) | Component::ParentDir));
    names.map(|part| part.as_os_str().to_owned()).collect()
}

fn is_missing(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

fn looked_at(path: &Path) -> Result<Metadata, NotOurs> {
    fs::symlink_metadata(path).map_err(NotOurs::file("find", path))
}

/// `is_end`: whether it is a directory that we write to, and not only pass.
fn check_owner(path: &Path, facts: &Metadata, is_end: bool) -> Result<(), NotOurs> {
    let us = geteuid().as_raw();
    if facts.uid() == 0 || facts.uid() == us {
        return Ok(());
    }
    let owner = name_of(facts.uid());
    let mut way_out = format!("run this as {owner}");
    if is_end {
        let who = if us == 0 { "run" } else { "let root run" };
        let word = shell_word(&path.display());
        way_out += &format!("; or, if you trust what is in the directory, {who}: chown {us} {word}");
    }
    Err(NotOurs::Owner { path: path.to_owned(), owner, way_out })
}

/// Whether somebody else than the owner may write. `is_end`: as for [`check_owner`].
fn check_writers(path: &Path, facts: &Metadata, is_end: bool) -> Result<(), NotOurs> {
    let is_group = facts.mode() & 0o020 != 0 && !is_own_group(facts);
    let (bits, who) = match (is_group, facts.mode() & 0o002 != 0) {
        (false, false) => return Ok(()),
        (true, false) => ("g", format!("group {}", facts.gid())),
        (false, true) => ("o", "everybody".to_owned()),
        (true, true) => ("go", "everybody".to_owned()),
    };
    let mode = facts.mode() & 0o7777;
    let rights = format!("it belongs to {}, and its mode {mode:o} lets {who} write", name_of(facts.uid()));
    let way_out = match is_sticky(facts) {
        true => format!("use a directory in it, such as {}", shell_word(&path.join("millstream").display())),
        false => keep_out(path, bits, facts.uid(), geteuid().as_raw(), is_end),
    };
    Err(NotOurs::Writable { path: path.to_owned(), rights, way_out })
}

/// How to keep others from writing to a path. `bits`: who they are, as for `chmod`. If we are not its owner, root is.
fn keep_out(path: &Path, bits: &str, owner: u32, us: u32, is_end: bool) -> String {
    let path = shell_word(&path.display());
    let chmod = format!("chmod {bits}-w {path}");
    match us == owner || us == 0 {
        true => format!("look at what others have put there, and then run: {chmod}"),
        // Without the group's right, we could not write there either.
        false if is_end => {
            format!("let root look at what others have put there, and then run: chown {us} {path} && {chmod}")
        }
        false => format!("let root look at what others have put there, and then run: {chmod}"),
    }
}

/// Many distributions give each user a group of its own and let it write whatever the user makes: then the group is nobody
/// else.
fn is_own_group(facts: &Metadata) -> bool {
    facts.uid() == geteuid().as_raw() && private_group() == Some(facts.gid())
}

fn is_sticky(facts: &Metadata) -> bool {
    facts.is_dir() && facts.mode() & 0o1000 != 0
}

/// Makes a directory in an open one, and opens it. What somebody puts in the place of either keeps its rights. `path`: its
/// whole path.
fn make_one(above: &File, path: &Path, mode: u32) -> Result<File, NotOurs> {
    let failed = |error: io::Error| NotOurs::file("make", path)(error);
    let name = path.components().next_back().map_or(OsStr::new("."), Component::as_os_str);
    let is_made = match mkdirat(above, name, Mode::from_raw_mode(PRIVATE)) {
        Ok(()) => true,
        // Another process was faster. Whose it is will be checked.
        Err(Errno::EXIST) => false,
        Err(error) => return Err(failed(error.into())),
    };
    let dir = opened(above, name, OFlags::RDONLY).map_err(failed)?;
    if is_made {
        check_owner(path, &dir.metadata().map_err(failed)?, true)?;
        dir.set_permissions(Permissions::from_mode(mode)).map_err(failed)?;
    }
    Ok(dir)
}

/// Opens a directory, whose name is no link.
fn opened(above: impl AsFd, name: &OsStr, how: OFlags) -> io::Result<File> {
    let flags = how | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat(above, name, flags, Mode::empty())?.into())
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

    fn hint(path: &Path) -> String {
        check_ours(path).unwrap_err().hint().unwrap()
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
        let begins = format!("others than its owner may write to {}: it belongs to ", shared.display());
        let ends = ", and its mode 777 lets everybody write";
        assert!(why(&home).starts_with(&begins) && why(&home).ends_with(ends), "{}", why(&home));
        assert_eq!(why(&shared.join("missing")), why(&home), "what is missing could be made by anybody");
        // An account may have a group of its own, whose right is none of others.
        assert!(hint(&home).ends_with(&format!("o-w {}", shared.display())), "{}", hint(&home));
        set_mode(&shared, 0o1777);
        assert!(check_ours(&home).unwrap().is_some());
        assert!(why(&shared).contains("may write to"), "others may make entries there");
        assert_eq!(hint(&shared), format!("use a directory in it, such as {}/millstream", shared.display()));
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
    }

    #[test]
    fn an_error_names_the_rights_that_are_wrong_and_the_command_that_mends_them() {
        if !machine_has(&[Need::Root]) {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let (volume, home) = (dir.path().join("volume"), dir.path().join("volume/home"));
        make_ours(&home, PRIVATE).unwrap();
        chown(&volume, Some(0), Some(2_000)).unwrap();
        let shown = volume.display();
        // Root has no group of its own.
        for (mode, who, bits) in [
            (0o770, "group 2000", "g"),
            (0o2775, "group 2000", "g"),
            (0o702, "everybody", "o"),
            (0o2777, "everybody", "go"),
        ] {
            set_mode(&volume, mode);
            for path in [&volume, &home, &volume.join("new")] {
                let rights = format!("{shown}: it belongs to root, and its mode {mode:o} lets {who} write");
                assert_eq!(why(path), format!("others than its owner may write to {rights}"));
                let mends = format!("look at what others have put there, and then run: chmod {bits}-w {shown}");
                assert_eq!(hint(path), mends);
            }
        }
        set_mode(&volume, 0o755);
        chown(&volume, Some(4_000_000_123), None).unwrap();
        let other = "run this as user 4000000123";
        assert_eq!(hint(&home), other, "only what we write to has to be ours");
        for path in [&volume, &volume.join("new")] {
            let mends = format!("{other}; or, if you trust what is in the directory, run: chown 0 {shown}");
            assert_eq!(hint(path), mends);
        }
    }

    #[test]
    fn root_helps_if_the_directory_is_not_ours() {
        let of = |owner, is_end| keep_out(Path::new("/my data"), "g", owner, 1_000, is_end);
        let chmod = "look at what others have put there, and then run: chmod g-w '/my data'";
        assert_eq!(of(1_000, true), chmod);
        assert_eq!(of(0, false), format!("let root {chmod}"));
        let both =
            "let root look at what others have put there, and then run: chown 1000 '/my data' && chmod g-w '/my data'";
        assert_eq!(of(0, true), both);
    }

    #[test]
    fn a_directory_is_made_in_the_one_that_was_opened_and_what_took_its_place_keeps_its_rights() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        for name in ["above", "victim"] {
            fs::create_dir(at(name)).unwrap();
            set_mode(&at(name), 0o700);
        }
        let above = opened(CWD, at("above").as_os_str(), OFlags::PATH).unwrap();
        fs::rename(at("above"), at("moved")).unwrap();
        symlink("victim", at("above")).unwrap();
        make_one(&above, &at("above/new"), 0o755).unwrap();
        assert!(!at("victim/new").exists() && mode(&at("moved/new")) == 0o755);
        assert!(opened(CWD, at("above").as_os_str(), OFlags::PATH).is_err(), "it is a link now");
        symlink("../victim", at("moved/link")).unwrap();
        assert!(make_one(&above, &at("above/link"), 0o755).is_err());
        assert_eq!(mode(&at("victim")), 0o700);
    }
}
