//! Where the local server lives: its directories and files.

use crate::error::Error;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Home of the server when we are root: root's own home cannot be reached by the account that
/// runs the server.
pub const ROOT_HOME: &str = "/var/lib/millstream";

/// Environment variable that names another home.
pub const HOME_VARIABLE: &str = "MILLSTREAM_HOME";

/// The directory that holds everything of the local server: data, log, socket, password,
/// downloaded programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    /// The directory, absolute.
    pub dir: PathBuf,
}

impl Home {
    /// The home given, else the one named by `MILLSTREAM_HOME`, else [`ROOT_HOME`] for root and
    /// `millstream` under the XDG data directory for other users.
    ///
    /// # Errors
    /// [`Error::NoHome`] if nothing says where a user's data belongs.
    pub fn choose(given: Option<&Path>) -> Result<Self, Error> {
        let root = rustix::process::geteuid().is_root();
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let dir = given
            .map(Path::to_owned)
            .or_else(|| variable(HOME_VARIABLE).map(PathBuf::from))
            .or_else(|| default_dir(root, variable("XDG_DATA_HOME"), variable("HOME")))
            .ok_or(Error::NoHome)?;
        let dir = std::path::absolute(&dir).map_err(Error::io("resolve", &dir))?;
        Ok(Self { dir })
    }

    /// The data directory of the server.
    pub fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// Downloaded builds, one directory each.
    pub fn builds(&self) -> PathBuf {
        self.dir.join("builds")
    }
}

fn default_dir(root: bool, xdg: Option<OsString>, home: Option<OsString>) -> Option<PathBuf> {
    if root {
        return Some(PathBuf::from(ROOT_HOME));
    }
    // The XDG specification says that a relative path is to be ignored.
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
        assert_eq!(
            dir(false, Some("/x"), Some("/h")),
            Some("/x/millstream".into())
        );
        let default = Some("/h/.local/share/millstream".into());
        assert_eq!(dir(false, None, Some("/h")), default);
        assert_eq!(dir(false, Some("relative"), Some("/h")), default);
        assert_eq!(dir(false, None, None), None);
    }
}
