//! What reading a connection string uses from outside: variables, home directory, user, socket directories.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::Address;

/// A snapshot of the surroundings, so that reading a connection string depends on nothing else.
#[derive(Debug, Clone, Default)]
pub struct Environment {
    variables: BTreeMap<String, String>,
    home: Option<PathBuf>,
    user: Option<String>,
    socket_dirs: Vec<PathBuf>,
}

/// Where servers keep their socket: Debian's and Red Hat's packages, then PostgreSQL's own default.
const SOCKET_DIRS: &[&str] = &["/var/run/postgresql", "/tmp"];

impl Environment {
    /// The surroundings of this process. Variables that are not UTF-8 are left out.
    pub fn from_process() -> Environment {
        Environment {
            variables: std::env::vars_os()
                .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
                .collect(),
            home: std::env::home_dir().filter(|home| !home.as_os_str().is_empty()),
            user: whoami::username().ok(),
            socket_dirs: SOCKET_DIRS.iter().map(PathBuf::from).collect(),
        }
    }

    /// Surroundings made of these variables and nothing else.
    pub fn from_variables<'a>(variables: impl IntoIterator<Item = (&'a str, &'a str)>) -> Environment {
        let variables = variables.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Environment { variables, ..Environment::default() }
    }

    /// The same with this home directory.
    #[must_use]
    pub fn with_home(self, home: impl Into<PathBuf>) -> Environment {
        Environment { home: Some(home.into()), ..self }
    }

    /// The same with this operating system user.
    #[must_use]
    pub fn with_user(self, user: impl Into<String>) -> Environment {
        Environment { user: Some(user.into()), ..self }
    }

    /// The same with these directories searched for a server's socket when no host is named.
    #[must_use]
    pub fn with_socket_dirs(self, dirs: Vec<PathBuf>) -> Environment {
        Environment { socket_dirs: dirs, ..self }
    }

    /// The value of a variable.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    pub(super) fn home(&self) -> Option<&Path> {
        self.home.as_deref()
    }

    pub(super) fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    pub(super) fn is_default_socket_dir(&self, dir: &Path) -> bool {
        self.socket_dirs.iter().any(|d| d == dir)
    }

    /// Where to look for a server if no host is named: the first directory with its socket, else the first that exists,
    /// else this machine's loopback. libpq has one directory compiled in. We do not know which, so we search. A socket that
    /// somebody else may have put there does not count.
    pub(super) fn default_address(&self, port: u16) -> Address {
        let socket = format!(".s.PGSQL.{port}");
        let has_socket =
            |dir: &&PathBuf| fs::symlink_metadata(dir.join(&socket)).is_ok_and(|facts| may_serve(dir, facts.uid()));
        let found = self.socket_dirs.iter().find(has_socket);
        match found.or_else(|| self.socket_dirs.iter().find(|dir| dir.is_dir())) {
            Some(dir) => Address::Socket(dir.clone()),
            None => Address::Name("localhost".to_owned()),
        }
    }
}

/// Whether a socket in a directory that nobody has named may be that of a server of this account. Everybody may make one
/// in `/tmp`, and would be sent the password. Where others may make one, it must be root's, ours, or that of the
/// directory's owner.
pub(crate) fn may_serve(dir: &Path, uid: u32) -> bool {
    let ours = rustix::process::geteuid().as_raw();
    fs::metadata(dir).is_ok_and(|facts| facts.mode() & 0o022 == 0 || [0, ours, facts.uid()].contains(&uid))
}
