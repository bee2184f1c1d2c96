//! An account of the operating system: our own, or another one that root becomes.

use crate::command::{Command, Ended};
use rustix::process::{getegid, geteuid};
use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::sync::OnceLock;

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

/// The name of a user, or its number if it has none.
pub(crate) fn name_of(uid: u32) -> String {
    let uid = uid.to_string();
    id(&["-un", uid.as_str()]).unwrap_or_else(|| format!("user {uid}"))
}

/// The group of our own account, if we alone are in it: it has our name, and no other member. Root has none.
pub(crate) fn private_group() -> Option<u32> {
    static GROUP: OnceLock<Option<u32>> = OnceLock::new();
    *GROUP.get_or_init(|| {
        if geteuid().is_root() {
            return None;
        }
        let (gid, us) = (getegid().as_raw(), Account::current()?.name);
        let mut getent = Command::new("getent");
        let listed = getent.args(["group", &gid.to_string()]).run_blocking().and_then(Ended::succeeded).ok()?.stdout;
        is_of_alone(listed.trim(), &us).then_some(gid)
    })
}

/// Whether a line `NAME:PASSWORD:NUMBER:MEMBERS` is that of a group of one account alone.
fn is_of_alone(group: &str, account: &str) -> bool {
    let fields: Vec<&str> = group.split(':').collect();
    matches!(fields.as_slice(), [name, _, _, members] if *name == account && (members.is_empty() || *members == account))
}

/// What `id` prints. It asks every source of accounts that the machine has.
fn id(args: &[&str]) -> Option<String> {
    let ended = Command::new("id").args(args).run_blocking().ok()?.succeeded().ok()?;
    Some(ended.stdout.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_of_an_account_alone_has_its_name_and_no_other_member() {
        for (group, is_alone) in [
            ("ann:x:1000:", true),
            ("ann:x:1000:ann", true),
            ("ann:x:1000:ann,bob", false),
            ("ann:x:1000:bob", false),
            ("users:x:100:", false),
            ("", false),
        ] {
            assert_eq!(is_of_alone(group, "ann"), is_alone, "{group}");
        }
    }

    #[test]
    fn a_user_without_a_name_is_named_by_its_number() {
        assert_eq!(name_of(0), "root");
        assert_eq!(name_of(4_000_000_123), "user 4000000123");
    }
}
