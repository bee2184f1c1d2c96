//! The operating-system account that runs the server: ourselves, or an unprivileged one for root.

use crate::error::Error;
use crate::limits::ROOT_HOME;
use millstream_host::{Account, Command, Ended, in_path};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Accounts that run the server if we are root, in order of preference. The last one is created if none exists.
const ACCOUNTS: &[&str] = &["postgres", "millstream"];

/// An account without rights that every Linux has.
const STAND_IN: &str = "nobody";

/// The account that runs a new server: our own, or for root `postgres` if it exists, else `millstream`, which is
/// created if needed. PostgreSQL refuses to run as root, and `initdb` needs a passwd entry.
///
/// # Errors
/// [`Error::Account`] if root has no such account and cannot create one.
pub fn server_account() -> Result<Account, Error> {
    if let Some(account) = existing_account()? {
        return Ok(account);
    }
    let why = create(ACCOUNTS[ACCOUNTS.len() - 1]);
    existing_account()?.ok_or(Error::Account { why })
}

/// The same for whoever only looks: if root would have to create the account, one that has no more rights.
///
/// # Errors
/// [`Error::Account`] if there is no such account either, or if none could be created.
pub(crate) fn account_to_look() -> Result<Account, Error> {
    if let Some(account) = existing_account()? {
        return Ok(account);
    }
    if in_path("useradd").or_else(|| in_path("adduser")).is_none() {
        return Err(Error::Account { why: "neither useradd nor adduser is on the PATH".to_owned() });
    }
    Account::named(STAND_IN).ok_or_else(|| Error::Account { why: format!("there is no account {STAND_IN}") })
}

/// Our own account; for root the first of [`ACCOUNTS`] that exists.
fn existing_account() -> Result<Option<Account>, Error> {
    if rustix::process::geteuid().is_root() {
        return Ok(ACCOUNTS.iter().find_map(|name| Account::named(name)));
    }
    let why = "this user has no passwd entry";
    Account::current().map(Some).ok_or_else(|| Error::Account { why: why.to_owned() })
}

/// The account that owns a data directory. It may differ from the account that a new server would get.
///
/// # Errors
/// [`Error::NoRights`] if it is another one and we are not root; [`Error::NotData`] if a link that the account has made is in
/// the place of the directory.
pub fn owner_of(data: &Path) -> Result<Account, Error> {
    let us = rustix::process::geteuid();
    let look = || Error::io("look at", data);
    let link = std::fs::symlink_metadata(data).map_err(look())?;
    // While a cluster is made, its account may write to the directory from which it is moved here.
    if link.is_symlink() && ![0, us.as_raw()].contains(&link.uid()) {
        return Err(Error::NotData { data: data.to_owned() });
    }
    let metadata = std::fs::metadata(data).map_err(look())?;
    let (uid, gid) = (metadata.uid(), metadata.gid());
    if uid == us.as_raw() {
        return server_account();
    }
    if !us.is_root() {
        return Err(Error::NoRights { path: data.to_owned(), source: ErrorKind::PermissionDenied.into() });
    }
    let mut known = ACCOUNTS.iter().filter_map(|name| Account::named(name));
    let named = known.find(|account| account.other_uid() == Some(uid));
    Ok(named.unwrap_or_else(|| Account::numbered(uid, gid)))
}

/// Checks that the account can enter a directory.
pub(crate) fn check_reach(account: &Account, dir: &Path) -> Result<(), Error> {
    match account.reaches(dir) {
        true => Ok(()),
        false => Err(Error::Unreachable { path: dir.to_owned(), account: account.name.clone() }),
    }
}

/// Creates a system account without home or shell. Returns what was tried, and the answers.
fn create(name: &str) -> String {
    let mut tried = Vec::new();
    let useradd =
        ["--system", "--user-group", "--no-create-home", "--home-dir", ROOT_HOME, "--shell", "/usr/sbin/nologin"];
    let adduser = ["-S", "-D", "-H", "-h", ROOT_HOME, "-s", "/sbin/nologin"];
    for (program, args) in [("useradd", useradd), ("adduser", adduser)] {
        match Command::new(program).args(args).arg(name).run_blocking().and_then(Ended::succeeded) {
            Ok(_) => return String::new(),
            Err(error) => tried.push(error.to_string()),
        }
    }
    tried.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_drop_root_and_its_groups() {
        let account = server_account().unwrap();
        let script = "id -u; id -G; echo ${PGPORT:-none}";
        let ended = account.command("/bin/sh").args(["-c", script]).run_blocking().unwrap();
        let lines: Vec<&str> = ended.stdout.lines().collect();
        assert_ne!(lines[0], "0");
        if account.other_uid().is_some() {
            assert_eq!(lines[1].split(' ').count(), 1, "only its own group: {ended:?}");
        }
        assert_eq!(lines[2], "none");
    }

    #[test]
    fn an_unreachable_directory_is_named() {
        let account = server_account().unwrap();
        assert!(check_reach(&account, Path::new("/")).is_ok());
        if account.other_uid().is_some() {
            let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
            let dir = tempfile::Builder::new().permissions(private).tempdir().unwrap();
            let error = check_reach(&account, dir.path()).unwrap_err();
            assert!(error.to_string().contains(&account.name), "{error}");
        }
    }
}
