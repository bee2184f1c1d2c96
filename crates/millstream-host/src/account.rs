//! An account of the operating system: our own, or another one that root becomes.

use crate::command::Command;
use std::ffi::OsStr;
use std::io;
use std::path::Path;

/// Variables of our environment that an account's programs inherit. The others must not reach them: `PG*`, for example,
/// changes what PostgreSQL's programs do.
const VARIABLES_KEPT: &[&str] = &["TZ", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"];

/// Where system programs are, even if the caller's own path is empty: a listing of processes that fails looks like one
/// that found no living process.
const PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";

/// Who runs a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Its name.
    pub name: String,
    /// User and group to switch to; `None` if it is our own account.
    ids: Option<(u32, u32)>,
}

impl Account {
    /// Our own account. `None` if it has no passwd entry.
    pub fn current() -> Option<Self> {
        Some(Self { name: id(&["-un"])?, ids: None })
    }

    /// Another account, if there is one of that name and it is not root. Only root can become another account.
    pub fn named(name: &str) -> Option<Self> {
        let uid: u32 = id(&["-u", name])?.parse().ok()?;
        let gid: u32 = id(&["-g", name])?.parse().ok()?;
        (uid != 0).then(|| Self { name: name.to_owned(), ids: Some((uid, gid)) })
    }

    /// Another account, by its user and group.
    pub fn numbered(uid: u32, gid: u32) -> Self {
        Self { name: uid.to_string(), ids: Some((uid, gid)) }
    }

    /// The user to switch to; `None` if it is our own account.
    pub fn other_uid(&self) -> Option<u32> {
        self.ids.map(|(uid, _)| uid)
    }

    /// A command that runs as this account, with a clean environment, and in a working directory that every account can
    /// enter.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        let own = std::env::var("PATH").unwrap_or_default();
        let kept = VARIABLES_KEPT.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
        command.inner.env_clear().env("LC_ALL", "C").env("HOME", "/").envs(kept).current_dir("/");
        command.env("PATH", format!("{own}:{PATH}").trim_start_matches(':'));
        if let Some((uid, gid)) = self.ids {
            command.inner.gid(gid).uid(uid);
        }
        command
    }

    /// Makes the account the owner of a file or directory.
    ///
    /// # Errors
    /// The system's error.
    pub fn own(&self, path: &Path) -> io::Result<()> {
        let (uid, gid) = self.ids.unzip();
        if uid.is_some() { std::os::unix::fs::lchown(path, uid, gid) } else { Ok(()) }
    }

    /// Whether the account can enter a directory. Our own account is not asked.
    pub fn reaches(&self, dir: &Path) -> bool {
        let enter = || self.command("/bin/sh").args(["-c", "cd -- \"$1\"", "sh"]).arg(dir).run_blocking();
        self.ids.is_none() || enter().is_ok_and(|ended| ended.status.success())
    }
}

/// What `id` prints. It asks every source of accounts that the machine has.
fn id(args: &[&str]) -> Option<String> {
    let ended = Command::new("id").args(args).run_blocking().ok()?.succeeded().ok()?;
    Some(ended.stdout.trim().to_owned())
}
