//! Finds the processes of a server by their working directory.
//!
//! A pid alone may belong to another program by now, or to a dead process that nobody has waited for.

use crate::account::Account;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Lists the working directories of all processes that the account may see.
const LIST: &str = "exec ls -ld /proc/[0-9]*/cwd";

/// The living processes of the server with that data directory: the postmaster and its children, even if the postmaster
/// is dead. Without `/proc`, only the postmaster.
pub fn processes(account: &Account, data: &Path) -> Vec<u32> {
    if !Path::new("/proc/self").exists() {
        return postmaster_by_ps(data).into_iter().collect();
    }
    // A user's shell may be in this directory too.
    living_in(account, data).into_iter().filter(|pid| is_postgres(*pid)).collect()
}

/// Whether a process is a living one of that server, as far as we can see it without asking as the account.
pub(crate) fn is_seen(pid: u32, data: &Path) -> bool {
    let dir = std::fs::read_link(format!("/proc/{pid}/cwd"));
    dir.is_ok_and(|dir| data.canonicalize().is_ok_and(|data| dir == data)) && is_postgres(pid)
}

fn is_postgres(pid: u32) -> bool {
    let name = std::fs::read_to_string(format!("/proc/{pid}/comm"));
    name.is_ok_and(|name| name.trim_end() == "postgres")
}

/// The process that the pid file names, if it is a living server.
fn postmaster_by_ps(data: &Path) -> Option<u32> {
    let text = std::fs::read_to_string(data.join("postmaster.pid")).ok()?;
    let pid = text.lines().next()?.trim();
    let output = Command::new("ps").args(["-o", "stat=,comm=", "-p", pid]).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let living = text.trim_end().ends_with("postgres") && !text.trim_start().starts_with('Z');
    living.then(|| pid.parse().ok())?
}

/// Living processes with that working directory. We ask as the account, because even root may lack the right to see
/// another user's processes.
fn living_in(account: &Account, dir: &Path) -> Vec<u32> {
    let Ok(dir) = dir.canonicalize() else {
        return Vec::new();
    };
    let output = account.command("/bin/sh").args(["-c", LIST]).stderr(Stdio::null()).output();
    output.map_or_else(|_| Vec::new(), |output| parse(&output.stdout, dir.as_os_str().as_bytes()))
}

/// Sends a signal as the account, so that it cannot reach another user's process. It is no error if a process has
/// ended.
pub(crate) fn signal(account: &Account, name: &str, pids: &[u32]) {
    let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
    let mut command = account.command("/bin/sh");
    command.args(["-c", "kill -s \"$@\"", "sh", name]).args(pids);
    let _ = command.stderr(Stdio::null()).status();
}

/// Pids in lines such as `lrwxrwxrwx 1 u g 0 Jan 1 00:00 /proc/123/cwd -> /directory`.
fn parse(listing: &[u8], data: &[u8]) -> Vec<u32> {
    let wanted = [b"/cwd -> ", data].concat();
    listing
        .split(|byte| *byte == b'\n')
        .filter_map(|line| line.strip_suffix(wanted.as_slice()))
        .filter_map(|line| std::str::from_utf8(line).ok()?.rsplit('/').next()?.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_processes_of_that_directory_count() {
        let listing = b"lrwxrwxrwx 1 pg pg 0 Nov 21 03:36 /proc/12/cwd -> /var/data\n\
            lrwxrwxrwx 1 pg pg 0 Nov 21 03:36 /proc/13/cwd\n\
            lrwxrwxrwx 1 pg pg 0 Nov 21 03:36 /proc/14/cwd -> /var/data/base\n\
            lrwxrwxrwx 1 pg pg 0 Nov 21 03:36 /proc/15/cwd -> /var/data\n";
        assert_eq!(parse(listing, b"/var/data"), [12, 15]);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_living_process_is_found_and_a_dead_one_is_not() {
        let account = Account::for_server().unwrap();
        let dir = tempfile::tempdir().unwrap();
        account.own(dir.path()).unwrap();
        let script = "cd \"$1\" && echo && exec sleep 600";
        let mut child = account
            .command("/bin/sh")
            .args(["-c", script, "sh"])
            .arg(dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        assert_eq!(living_in(&account, dir.path()), [child.id()]);
        assert!(processes(&account, dir.path()).is_empty(), "sleep is no server");
        assert!(!is_seen(child.id(), dir.path()), "nor here");
        signal(&account, "KILL", &[child.id()]);
        // Not waited for: the killed child is a zombie now, or about to be one.
        while !living_in(&account, dir.path()).is_empty() {
            std::thread::yield_now();
        }
        child.wait().unwrap();
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_server_of_ours_is_seen_in_its_directory_while_it_lives() {
        use std::os::unix::process::CommandExt;
        let (data, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        // A shell by the name of a server, which waits for its input to end.
        let program = other.path().join("postgres");
        std::os::unix::fs::symlink("/bin/sh", &program).unwrap();
        let mut child = Command::new(&program)
            .arg0("sh")
            .args(["-c", "read line"])
            .current_dir(data.path())
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        assert!(is_seen(child.id(), data.path()));
        assert!(!is_seen(child.id(), other.path()), "another's directory");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!is_seen(child.id(), data.path()), "it is dead");
    }
}
