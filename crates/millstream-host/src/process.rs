//! What the kernel knows of processes, and signals to them.

use crate::account::Account;
use crate::command::Ended;
use procfs::process::{Process, Stat};
use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Leaves the terminal for ever: neither its end nor its signals reach this process any more. Nothing happens in a process
/// that leads its process group.
pub fn leave_terminal() {
    let _ = rustix::process::setsid();
}

/// Lists the working directories of all processes that the account may see: where each lies, and whose it is.
const LIST: &str = "exec stat -L -c '%d:%i %n' /proc/[0-9]*/cwd";

/// The living processes with that working directory and that name.
///
/// A pid alone may belong to another program by now, or to a dead process that nobody has waited for. We ask as the
/// account, because even root may lack the right to see another user's processes.
pub fn living_in(account: &Account, dir: &Path, name: &str) -> Vec<u32> {
    let Some(place) = place(dir) else { return Vec::new() };
    let listed = account.command("/bin/sh").args(["-c", LIST]).run_blocking();
    let listing = listed.map_or_else(|_| String::new(), |ended| ended.stdout);
    pids(&listing, &place).into_iter().filter(|pid| has_name(*pid, name)).collect()
}

/// Whether a process is a living one with that working directory and that name, as far as we can see it without asking
/// as another account.
pub fn is_living_in(pid: u32, dir: &Path, name: &str) -> bool {
    let cwd = place(Path::new(&format!("/proc/{pid}/cwd")));
    cwd.is_some() && cwd == place(dir) && has_name(pid, name)
}

/// Where a directory lies: its device and its inode. Its path says less: that of a process with other mounts, as in a
/// container or a root of its own, is another one.
fn place(dir: &Path) -> Option<String> {
    fs::metadata(dir).ok().map(|found| format!("{}:{}", found.dev(), found.ino()))
}

/// The file of a process's program, as far as we can see it without asking as another account. If another file has taken its
/// place since, for example by an upgrade, its name ends with ` (deleted)`.
pub fn program_of(pid: u32) -> Option<PathBuf> {
    fs::read_link(exe(pid)).ok()
}

/// The same, as the account sees it. Processes of the account could make it another file: see [`crate::check_ours`].
pub fn program_seen_by(account: &Account, pid: u32) -> Option<PathBuf> {
    let read = account.command("readlink").arg(exe(pid)).run_blocking().and_then(Ended::succeeded).ok()?;
    Some(PathBuf::from(read.stdout.trim_end_matches('\n')))
}

/// Sends a signal, by its name without `SIG`, as the account, so that it cannot reach another user's process. It is no
/// error if a process has ended.
pub fn signal(account: &Account, name: &str, pids: &[u32]) {
    let pids = pids.iter().map(u32::to_string);
    let _ = account.command("/bin/sh").args(["-c", "kill -s \"$@\"", "sh", name]).args(pids).run_blocking();
}

/// A process that has started another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ancestor {
    /// Its number.
    pub pid: u32,
    /// Its name, cut to 15 bytes.
    pub name: String,
    /// When it began, in seconds since 1970.
    pub started: u64,
}

/// The process that has started this one, the one that has started that, and so on, as far as we can see.
pub fn ancestors() -> Vec<Ancestor> {
    let booted = procfs::boot_time_secs().unwrap_or(0);
    let mut next = stat(std::process::id()).map(|stat| stat.ppid);
    let mut found = Vec::new();
    while let Some(stat) = next.and_then(|pid| stat(u32::try_from(pid).ok()?)) {
        next = Some(stat.ppid);
        let (pid, started) = (stat.pid.cast_unsigned(), booted + stat.starttime / procfs::ticks_per_second().max(1));
        found.push(Ancestor { pid, name: stat.comm, started });
    }
    found
}

/// A variable of the environment with which a process was started; `None` also if this account may not see it.
pub(crate) fn variable_of(pid: u32, name: &str) -> Option<String> {
    let all = process(pid)?.environ().ok()?;
    all.get(OsStr::new(name))?.to_str().map(str::to_owned)
}

/// Processor time of this process so far, in seconds.
pub fn own_cpu_seconds() -> Option<f64> {
    cpu_seconds(std::process::id())
}

/// Processor time of another process so far, in seconds; `None` if there is no process of that number and name.
pub fn cpu_seconds_of(pid: u32, name: &str) -> Option<f64> {
    has_name(pid, name).then(|| cpu_seconds(pid))?
}

/// Whether this process began with SIGHUP ignored, as under `nohup`. Linux shows the ignored signals as bits, the first
/// one lowest.
pub fn hangup_is_ignored() -> bool {
    let status = process(std::process::id()).and_then(|process| process.status().ok());
    status.is_some_and(|status| status.sigign & 1 == 1)
}

/// Processor time of a process in seconds, with that of its ended children.
pub(crate) fn cpu_seconds(pid: u32) -> Option<f64> {
    let stat = stat(pid)?;
    let ticks = u64::try_from(stat.cutime + stat.cstime).ok()? + stat.utime + stat.stime;
    Some(ticks as f64 / procfs::ticks_per_second() as f64)
}

/// What the kernel counts of a process.
fn stat(pid: u32) -> Option<Stat> {
    process(pid)?.stat().ok()
}

fn exe(pid: u32) -> String {
    format!("/proc/{pid}/exe")
}

fn process(pid: u32) -> Option<Process> {
    Process::new(i32::try_from(pid).ok()?).ok()
}

/// The bytes of a line such as `VmHWM:  2048 kB`.
pub(crate) fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes << 10)
}

fn has_name(pid: u32, name: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim_end() == name)
}

/// Pids in lines such as `2049:131 /proc/123/cwd`.
fn pids(listing: &str, place: &str) -> Vec<u32> {
    let ours =
        listing.lines().filter_map(|line| line.strip_prefix(place)?.strip_prefix(" /proc/")?.strip_suffix("/cwd"));
    ours.filter_map(|pid| pid.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Command, wait_until};
    use std::time::Duration;

    #[test]
    fn the_kernels_account_is_read() {
        assert_eq!(kilobytes("Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t 1 kB\n", "VmHWM:"), Some(2 << 20));
        assert_eq!(kilobytes("Name:\tx\n", "VmHWM:"), None);
        assert!(own_cpu_seconds().is_some());
        assert!(ancestors().iter().all(|one| one.started > 1_000_000_000));
    }

    #[test]
    fn only_processes_of_that_directory_count() {
        let listing = "64768:12 /proc/12/cwd\n64768:1 /proc/13/cwd\n64768:123 /proc/14/cwd\n64768:12 /proc/15/cwd\n";
        assert_eq!(pids(listing, "64768:12"), [12, 15]);
    }

    #[tokio::test]
    async fn a_living_process_is_found_and_a_dead_one_is_not() {
        let account = Account::current().unwrap();
        let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let script = "cd \"$1\" && exec sleep 60";
        let (limit, step) = (Duration::from_secs(60), Duration::from_millis(5));
        let mut child = Command::new("/bin/sh").args(["-c", script, "sh"]).arg(dir.path()).start().unwrap();
        // A child becomes its program after it was started.
        let living = || is_living_in(child.id(), dir.path(), "sleep").then_some(());
        assert!(wait_until(limit, step, living).await.is_some(), "the child becomes its program");
        assert_eq!(living_in(&account, dir.path(), "sleep"), [child.id()]);
        assert!(living_in(&account, dir.path(), "postgres").is_empty(), "another name");
        assert!(!is_living_in(child.id(), dir.path(), "postgres"));
        assert!(!is_living_in(child.id(), other.path(), "sleep"), "another directory");
        let program = program_of(child.id()).unwrap();
        assert!(program.is_absolute() && program_seen_by(&account, child.id()) == Some(program));
        signal(&account, "KILL", &[child.id()]);
        // Not waited for: the killed child is a zombie now, or about to be one.
        let gone = || living_in(&account, dir.path(), "sleep").is_empty().then_some(());
        assert!(wait_until(limit, step, gone).await.is_some(), "the killed child does not live");
        assert!(!is_living_in(child.id(), dir.path(), "sleep"));
        child.finish();
    }
}
