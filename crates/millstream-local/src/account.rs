//! The operating-system account that runs the server: ourselves, or an unprivileged one for root.

use crate::error::Error;
use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Accounts that run the server if we are root, in order of preference. The last one is created if none exists.
const ACCOUNTS: &[&str] = &["postgres", "millstream"];

/// Variables of our environment that PostgreSQL's programs inherit. `PG*` must not reach them, because they would
/// change what a server does.
const VARIABLES_KEPT: &[&str] = &["TZ", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"];

/// Who runs the server. PostgreSQL refuses to run as root, and `initdb` needs a passwd entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Its name.
    pub name: String,
    /// User and group to switch to; `None` if it is our own account.
    become_ids: Option<(u32, u32)>,
}

impl Account {
    /// The account for this process: our own, or for root `postgres` if it exists, else `millstream`, which is created
    /// if needed.
    ///
    /// # Errors
    /// [`Error::Account`] if root has no such account and cannot create one.
    pub fn for_server() -> Result<Self, Error> {
        if !rustix::process::geteuid().is_root() {
            let name =
                id(&["-un"]).ok_or_else(|| Error::Account { why: "this user has no passwd entry".to_owned() })?;
            return Ok(Self { name, become_ids: None });
        }
        if let Some(account) = ACCOUNTS.iter().find_map(|name| Self::lookup(name)) {
            return Ok(account);
        }
        let name = ACCOUNTS[ACCOUNTS.len() - 1];
        let why = create(name);
        Self::lookup(name).ok_or(Error::Account { why })
    }

    /// The account that owns a data directory. It may differ from the account that a new server would get.
    ///
    /// # Errors
    /// [`Error::NoRights`] if another user owns it and we are not root.
    pub(crate) fn owner_of(data: &Path) -> Result<Self, Error> {
        let metadata = std::fs::metadata(data).map_err(Error::io("look at", data))?;
        let (uid, gid) = (metadata.uid(), metadata.gid());
        if uid == rustix::process::geteuid().as_raw() {
            return Self::for_server();
        }
        if !rustix::process::geteuid().is_root() {
            let source = std::io::Error::from(std::io::ErrorKind::PermissionDenied);
            return Err(Error::NoRights { path: data.to_owned(), source });
        }
        let known = ACCOUNTS.iter().filter_map(|name| Self::lookup(name));
        let named = known.into_iter().find(|account| account.become_ids.is_some_and(|ids| ids.0 == uid));
        Ok(named.unwrap_or_else(|| Self { name: uid.to_string(), become_ids: Some((uid, gid)) }))
    }

    /// The account of that name, if there is one and it is not root.
    fn lookup(name: &str) -> Option<Self> {
        let uid: u32 = id(&["-u", name])?.parse().ok()?;
        let gid: u32 = id(&["-g", name])?.parse().ok()?;
        (uid != 0).then(|| Self { name: name.to_owned(), become_ids: Some((uid, gid)) })
    }

    /// Whether the server runs under another account than ours.
    pub fn is_other(&self) -> bool {
        self.become_ids.is_some()
    }

    /// A command that runs as this account, with a clean environment, no input, and a working directory that every
    /// account can enter.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("LC_ALL", "C").env("HOME", "/");
        for name in VARIABLES_KEPT {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        // Needed even if the caller's own path is empty: a listing of processes that fails looks like one that found no
        // living server.
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{path}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin").trim_start_matches(':'));
        command.current_dir("/").stdin(Stdio::null());
        if let Some((uid, gid)) = self.become_ids {
            command.gid(gid).uid(uid);
        }
        command
    }

    /// Makes the account the owner of a file or directory.
    ///
    /// # Errors
    /// The system's error.
    pub fn own(&self, path: &Path) -> Result<(), Error> {
        let Some((uid, gid)) = self.become_ids else {
            return Ok(());
        };
        std::os::unix::fs::lchown(path, Some(uid), Some(gid)).map_err(Error::io("give away", path))
    }

    /// Checks that the account can enter a directory.
    ///
    /// # Errors
    /// [`Error::Unreachable`] if it cannot.
    pub fn reaches(&self, dir: &Path) -> Result<(), Error> {
        if !self.is_other() {
            return Ok(());
        }
        let entered =
            self.command("/bin/sh").args(["-c", "cd -- \"$1\"", "sh"]).arg(dir).stderr(Stdio::null()).status();
        match entered {
            Ok(status) if status.success() => Ok(()),
            _ => Err(Error::Unreachable { path: dir.to_owned(), account: self.name.clone() }),
        }
    }
}

/// What `id` prints. It asks every source of accounts that the machine has.
fn id(args: &[&str]) -> Option<String> {
    let output = Command::new("id").args(args).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// Creates a system account without home or shell. Returns what was tried, and the answers.
fn create(name: &str) -> String {
    let commands: [&[&str]; 2] = [
        &[
            "useradd",
            "--system",
            "--user-group",
            "--no-create-home",
            "--home-dir",
            crate::limits::ROOT_HOME,
            "--shell",
            "/usr/sbin/nologin",
            name,
        ],
        &["adduser", "-S", "-D", "-H", "-h", crate::limits::ROOT_HOME, "-s", "/sbin/nologin", name],
    ];
    let mut tried = Vec::new();
    for words in commands {
        match Command::new(words[0]).args(&words[1..]).output() {
            Ok(output) if output.status.success() => return String::new(),
            Ok(output) => tried.push(format!("{}: {}", words[0], String::from_utf8_lossy(&output.stderr).trim())),
            Err(error) => tried.push(format!("{}: {error}", words[0])),
        }
    }
    tried.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_leave_root_and_all_its_groups() {
        let account = Account::for_server().unwrap();
        let output = account
            .command("/bin/sh")
            .args(["-c", "id -u; id -G; echo ${PGPORT:-none}"])
            .env_remove("PGPORT")
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_ne!(lines[0], "0");
        if account.is_other() {
            assert_eq!(lines[1].split(' ').count(), 1, "only its own group: {text}");
        }
        assert_eq!(lines[2], "none");
    }

    #[test]
    fn an_unreachable_directory_is_named() {
        let account = Account::for_server().unwrap();
        assert!(account.reaches(Path::new("/")).is_ok());
        if account.is_other() {
            let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
            let dir = tempfile::Builder::new().permissions(private).tempdir().unwrap();
            let error = account.reaches(dir.path()).unwrap_err();
            assert!(error.to_string().contains(&account.name), "{error}");
        }
    }
}
