//! The WAL of a stopped server of the lab: moved to another device for an arm, and back.
//!
//! Where it is, is known from `pg_wal` alone: a link to a directory with our name. Moves copy first and then exchange two
//! names at once, so that after a kill `pg_wal` is complete, at one place or the other.
//!
//! The data directory belongs to the server's account, which can put links to any place there. So its files are copied and
//! removed as that account.

use millstream_host::{Account, Ended, PRIVATE, check_ours};
use rustix::fs::{CWD, RenameFlags, renameat_with, sync};
use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

/// How the names of our directories on the other device begin.
const PREFIX: &str = "millstream-lab-wal-";

/// Copies what is in a directory, with modes and times, into another one, which is made if it is missing.
const COPY: &str = "umask 077 && mkdir -p -- \"$2\" && exec cp -a -- \"$1/.\" \"$2\"";

/// Empties a directory.
const EMPTY: &str = "exec find \"$1\" -mindepth 1 -delete";

/// The WAL of a data directory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wal<'a>(pub(crate) &'a Path);

impl Wal<'_> {
    /// Whether the lab has moved it.
    pub(crate) fn is_away(self) -> bool {
        self.there().is_some()
    }

    /// Whether a run that was killed has left it on the other device, or was about to move it.
    pub(crate) fn is_left(self) -> bool {
        self.is_away() || fs::symlink_metadata(self.spare()).is_ok()
    }

    /// Why it cannot be moved below `dir`, if so.
    pub(crate) fn unfit(self, dir: &Path) -> Option<String> {
        let shown = dir.display();
        let Ok(mut entries) = fs::read_dir(dir) else {
            return Some(format!("{shown} is not a directory that we can read"));
        };
        // We make a directory there and give it away.
        if let Err(why) = check_ours(dir) {
            return Some(why.to_string());
        }
        let device = |dir: &Path| fs::metadata(dir).ok().map(|facts| facts.dev());
        if device(dir) == device(self.0) {
            return Some(format!("{shown} is on the device of the server's data"));
        }
        let ours = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with(PREFIX);
        let taken = entries.any(|entry| entry.is_ok_and(|entry| !ours(&entry))) || dir.join(self.name()).exists();
        taken.then(|| format!("{shown} is not empty"))
    }

    /// Moves it to a directory of its own below `dir`, whose path is absolute.
    pub(crate) fn send(self, dir: &Path, account: &Account) -> io::Result<()> {
        let there = dir.join(self.name());
        self.tidy(account)?;
        // From here on a later `bring_back` finds what a kill leaves.
        symlink(&there, self.spare())?;
        DirBuilder::new().mode(PRIVATE).create(&there)?;
        account.own(&there)?;
        run(account, COPY, &[&self.home(), &there])?;
        self.exchange()?;
        self.tidy(account)
    }

    /// Moves it back, and removes what a run that was killed has left on the other device.
    pub(crate) fn bring_back(self, account: &Account) -> io::Result<()> {
        self.tidy(account)?;
        if let Some(there) = self.there() {
            run(account, COPY, &[&there, &self.spare()])?;
            self.exchange()?;
            self.tidy(account)?;
        }
        Ok(())
    }

    /// Removes the place that is not in use.
    fn tidy(self, account: &Account) -> io::Result<()> {
        let spare = self.spare();
        let place = match fs::read_link(&spare) {
            Ok(there) if is_named_by_us(&there) => there,
            // Somebody else has made the link.
            Ok(_) => return fs::remove_file(spare),
            Err(_) => spare.clone(),
        };
        match fs::remove_dir(&place) {
            Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => {
                run(account, EMPTY, &[&place])?;
                present(fs::remove_dir(&place))?;
            }
            removed => present(removed)?,
        }
        if place == spare { Ok(()) } else { fs::remove_file(spare) }
    }

    fn exchange(self) -> io::Result<()> {
        sync();
        renameat_with(CWD, self.home(), CWD, self.spare(), RenameFlags::EXCHANGE)?;
        sync();
        Ok(())
    }

    fn home(self) -> PathBuf {
        self.0.join("pg_wal")
    }

    /// Beside it: what takes its place, and then what was there.
    fn spare(self) -> PathBuf {
        self.0.join("pg_wal.millstream-lab")
    }

    /// Where it is, if the lab has moved it.
    fn there(self) -> Option<PathBuf> {
        fs::read_link(self.home()).ok().filter(|there| is_named_by_us(there))
    }

    /// Its name on the other device, unlike that of other servers of the lab.
    fn name(self) -> String {
        let server = self.0.parent().and_then(Path::file_name).unwrap_or_default();
        format!("{PREFIX}{}", server.to_string_lossy())
    }
}

/// Runs a line of shell about directories as the account.
fn run(account: &Account, line: &str, dirs: &[&Path]) -> io::Result<()> {
    let ended = account.command("/bin/sh").args(["-c", line, "sh"]).args(dirs).run_blocking();
    ended.and_then(Ended::succeeded).map(drop).map_err(io::Error::other)
}

fn is_named_by_us(place: &Path) -> bool {
    place.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(PREFIX))
}

/// A result, where what is absent counts as removed.
fn present(result: io::Result<()>) -> io::Result<()> {
    result.or_else(|error| if error.kind() == ErrorKind::NotFound { Ok(()) } else { Err(error) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A data directory with WAL, and an empty directory.
    fn place() -> (tempfile::TempDir, tempfile::TempDir) {
        let (home, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir_all(home.path().join("pg_wal/archive_status")).unwrap();
        fs::write(home.path().join("pg_wal/000000010000000000000001"), "wal").unwrap();
        (home, other)
    }

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    const FILES: [&str; 2] = ["000000010000000000000001", "archive_status"];

    #[test]
    fn wal_is_moved_to_another_place_and_back() {
        let (home, other) = place();
        let wal = Wal(home.path());
        let us = Account::current().unwrap();
        assert!(!wal.is_away());
        wal.send(other.path(), &us).unwrap();
        assert!(wal.is_away());
        assert_eq!(
            (names(home.path()), names(&home.path().join("pg_wal"))),
            (vec!["pg_wal".to_owned()], FILES.map(str::to_owned).to_vec())
        );
        fs::write(home.path().join("pg_wal/000000010000000000000002"), "more").unwrap();
        wal.bring_back(&us).unwrap();
        assert!(!wal.is_away() && home.path().join("pg_wal").symlink_metadata().unwrap().is_dir());
        assert_eq!(fs::read_to_string(home.path().join("pg_wal/000000010000000000000002")).unwrap(), "more");
        assert_eq!((names(home.path()), names(other.path())), (vec!["pg_wal".to_owned()], Vec::new()));
    }

    #[test]
    fn what_a_kill_leaves_is_put_in_order() {
        // Killed while it copied to the other place.
        let (home, other) = place();
        let (wal, us) = (Wal(home.path()), Account::current().unwrap());
        let there = other.path().join(wal.name());
        symlink(&there, wal.spare()).unwrap();
        run(&us, COPY, &[&wal.home(), &there]).unwrap();
        assert!(wal.is_left() && !wal.is_away());
        wal.bring_back(&us).unwrap();
        assert!(!wal.is_left());
        assert_eq!((names(home.path()), names(other.path())), (vec!["pg_wal".to_owned()], Vec::new()));
        // Killed after the exchange: the old directory is left.
        wal.send(other.path(), &us).unwrap();
        run(&us, COPY, &[&wal.home(), &wal.spare()]).unwrap();
        fs::write(wal.home().join("000000010000000000000002"), "more").unwrap();
        wal.bring_back(&us).unwrap();
        assert_eq!((names(home.path()), names(other.path())), (vec!["pg_wal".to_owned()], Vec::new()));
        assert_eq!(names(&wal.home()).len(), 3);
        // A link that is not ours stays.
        fs::rename(wal.home(), other.path().join("mine")).unwrap();
        symlink(other.path().join("mine"), wal.home()).unwrap();
        wal.bring_back(&us).unwrap();
        assert!(!wal.is_away() && names(&wal.home()).len() == 3 && wal.home().is_symlink());
    }

    #[test]
    fn a_link_of_somebody_else_in_the_place_of_ours_costs_nothing_but_itself() {
        let (home, other) = place();
        let (wal, us) = (Wal(home.path()), Account::current().unwrap());
        fs::create_dir(other.path().join("precious")).unwrap();
        fs::write(other.path().join("precious/file"), "precious").unwrap();
        symlink(other.path().join("precious"), wal.spare()).unwrap();
        assert!(wal.is_left());
        wal.bring_back(&us).unwrap();
        assert!(!wal.is_left() && other.path().join("precious/file").exists());
        assert_eq!(names(&wal.home()), FILES);
    }

    #[test]
    fn an_unfit_place_is_refused() {
        let (home, other) = place();
        let wal = Wal(home.path());
        let why = |dir: &Path| wal.unfit(dir).unwrap();
        assert!(why(&home.path().join("none")).ends_with("is not a directory that we can read"));
        assert!(why(other.path()).ends_with("is on the device of the server's data"));
        let memory = Path::new("/dev/shm");
        if fs::metadata(memory).is_ok_and(|facts| facts.dev() != fs::metadata(home.path()).unwrap().dev()) {
            let other = tempfile::tempdir_in(memory).unwrap();
            assert_eq!(wal.unfit(other.path()), None);
            fs::create_dir(other.path().join(format!("{PREFIX}another"))).unwrap();
            assert_eq!(wal.unfit(other.path()), None, "another server of the lab may use it");
            fs::write(other.path().join("mine"), "").unwrap();
            assert!(why(other.path()).ends_with("is not empty"));
        }
    }
}
