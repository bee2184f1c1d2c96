//! The local server's home: its directories and files.

use crate::error::Error;
use crate::limits::{DATA_FILE_BYTES_MAX, ROOT_HOME};
use millstream_host::{Account, check_ours, enterable, make_ours, read_plain};
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Environment variable that names the home.
pub const HOME_VARIABLE: &str = "MILLSTREAM_HOME";

/// The folder of downloaded builds.
pub(crate) const BUILDS: &str = "builds";

/// The directory that holds everything of the local server: data, log, socket, password, downloaded builds; and what other
/// commands keep, such as the journal of changes.
///
/// Only we and root may change it: see [`check_ours`]. What the server writes (data, log, socket) belongs to the account that
/// runs the server. If we are root, that is another account, and nothing there is believed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    /// The directory, absolute.
    pub dir: PathBuf,
}

impl Home {
    /// The given home, else the one that `MILLSTREAM_HOME` names, else [`ROOT_HOME`] for root and `millstream` below
    /// the XDG data directory for other users. It may not exist yet.
    ///
    /// # Errors
    /// [`Error::NoHome`] if none of these is known; [`Error::NotOurs`] if somebody else than we and root may change it.
    pub fn choose(given: Option<&Path>) -> Result<Self, Error> {
        let root = rustix::process::geteuid().is_root();
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let dir = given
            .map(Path::to_owned)
            .or_else(|| variable(HOME_VARIABLE).map(PathBuf::from))
            .or_else(|| default_dir(root, variable("XDG_DATA_HOME"), variable("HOME")))
            .ok_or(Error::NoHome)?;
        let dir = std::path::absolute(&dir).map_err(Error::io("resolve", &dir))?;
        check_ours(&dir)?;
        Ok(Self { dir })
    }

    /// A folder of ours in it, such as `changes`. It may not exist yet.
    ///
    /// # Errors
    /// [`Error::NotOurs`] if somebody else than we and root may change it.
    pub fn folder(&self, name: &str) -> Result<PathBuf, Error> {
        let dir = self.dir.join(name);
        check_ours(&dir)?;
        Ok(dir)
    }

    /// Makes the directory if it is missing. If we are root, everyone may enter it, because the server runs as another
    /// account; otherwise it is private.
    ///
    /// # Errors
    /// [`Error::NotOurs`] if somebody else than we and root may change it; errors of the disk.
    pub fn create(&self) -> Result<(), Error> {
        Ok(make_ours(&self.dir, enterable())?)
    }

    /// The data directory of the server.
    pub fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// Downloaded builds, one directory each.
    pub fn builds(&self) -> PathBuf {
        self.dir.join(BUILDS)
    }

    /// The server's own log.
    pub fn log(&self) -> PathBuf {
        self.log_dir().join("server.log")
    }

    pub(crate) fn log_dir(&self) -> PathBuf {
        self.dir.join("log")
    }

    /// The generated settings, which the data directory includes.
    pub fn conf(&self) -> PathBuf {
        self.dir.join("millstream.conf")
    }

    /// The generated password, readable by us alone.
    pub fn password(&self) -> PathBuf {
        self.dir.join("password")
    }

    /// The port used last.
    pub(crate) fn port(&self) -> PathBuf {
        self.dir.join("port")
    }

    /// Held by whoever starts or stops the server.
    pub(crate) fn lock(&self) -> PathBuf {
        self.dir.join("lock")
    }

    /// This file exists from the moment the server is asked to stop until it is started again.
    pub(crate) fn stopped(&self) -> PathBuf {
        self.dir.join("stopped")
    }

    /// Directory of the unix socket.
    pub(crate) fn socket_dir(&self) -> PathBuf {
        self.dir.join("run")
    }

    /// Major version of the data directory; `None` if it is missing or empty.
    pub(crate) fn data_major(&self) -> Result<Option<String>, Error> {
        let data = self.data();
        let file = data.join("PG_VERSION");
        match read_plain(&file, DATA_FILE_BYTES_MAX) {
            Ok(Some(text)) => {
                let version = text.trim();
                let is_version = version.chars().all(|c| c.is_ascii_digit() || c == '.');
                return if is_version { Ok(Some(version.to_owned())) } else { Err(Error::NotData { data }) };
            }
            Ok(None) => {}
            Err(error) if error.kind() == ErrorKind::NotADirectory => return Err(Error::NotData { data }),
            Err(error) => return Err(Error::io("read", &file)(error)),
        }
        let holds_something = fs::read_dir(&data).is_ok_and(|mut entries| entries.next().is_some());
        if holds_something { Err(Error::NotData { data }) } else { Ok(None) }
    }

    /// Makes a private directory of the account, if it is missing.
    pub(crate) fn create_for(account: &Account, dir: &Path) -> Result<(), Error> {
        match DirBuilder::new().mode(0o700).create(dir) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
            Err(error) => Err(Error::io("create", dir)(error)),
            Ok(()) => account.own(dir).map_err(Error::io("give away", dir)),
        }
    }

    /// Replaces one of our files as a whole, so that nobody reads half of it.
    pub(crate) fn replace(path: &Path, mode: u32, text: &str) -> Result<(), Error> {
        let new = path.with_extension(format!("{:08x}.new", fastrand::u32(..)));
        let write = || {
            let mut file = File::options().write(true).create_new(true).mode(mode).open(&new)?;
            // The caller's umask must not hide the settings from the account.
            file.set_permissions(Permissions::from_mode(mode))?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, path)
        };
        write().map_err(|error| {
            let _ = fs::remove_file(&new);
            Error::io("write", path)(error)
        })
    }
}

fn default_dir(root: bool, xdg: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    if root {
        return Some(PathBuf::from(ROOT_HOME));
    }
    // The XDG specification says to ignore a relative path.
    let xdg = xdg.map(PathBuf::from).filter(|dir| dir.is_absolute());
    let base = xdg.or_else(|| home.map(|home| PathBuf::from(home).join(".local/share")))?;
    Some(base.join("millstream"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_lives_under_var_lib_and_users_under_xdg() {
        let dir = |root, xdg: Option<&str>, home: Option<&str>| {
            default_dir(root, xdg.map(OsString::from), home.map(OsString::from))
        };
        assert_eq!(dir(true, Some("/x"), Some("/root")), Some(ROOT_HOME.into()));
        assert_eq!(dir(false, Some("/x"), Some("/h")), Some("/x/millstream".into()));
        let default = Some("/h/.local/share/millstream".into());
        assert_eq!(dir(false, None, Some("/h")), default);
        assert_eq!(dir(false, Some("relative"), Some("/h")), default);
        assert_eq!(dir(false, None, None), None);
    }
}
