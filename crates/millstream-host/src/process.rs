//! What the kernel knows of processes, and signals to them.

use crate::account::Account;
use rustix::param::clock_ticks_per_second;
use std::fs;
use std::path::Path;

/// Leaves the terminal for ever: neither its end nor its signals reach this process any more. Nothing happens in a process
/// that leads its process group.
pub fn leave_terminal() {
    let _ = rustix::process::setsid();
}

/// Lists the working directories of all processes that the account may see.
const LIST: &str = "exec ls -ld /proc/[0-9]*/cwd";

/// The living processes with that working directory and that name. `None` if this system does not list processes.
///
/// A pid alone may belong to another program by now, or to a dead process that nobody has waited for. We ask as the
/// account, because even root may lack the right to see another user's processes.
pub fn living_in(account: &Account, dir: &Path, name: &str) -> Option<Vec<u32>> {
    if !Path::new("/proc/self").exists() {
        return None;
    }
    let Ok(dir) = dir.canonicalize() else { return Some(Vec::new()) };
    let listed = account.command("/bin/sh").args(["-c", LIST]).run_blocking();
    let listing = listed.map_or_else(|_| String::new(), |ended| ended.stdout);
    Some(pids(&listing, &dir.to_string_lossy()).into_iter().filter(|pid| has_name(*pid, name)).collect())
}

/// Whether a process is a living one with that working directory and that name, as far as we can see it without asking
/// as another account.
pub fn is_living_in(pid: u32, dir: &Path, name: &str) -> bool {
    let cwd = fs::read_link(format!("/proc/{pid}/cwd"));
    cwd.is_ok_and(|cwd| dir.canonicalize().is_ok_and(|dir| cwd == dir)) && has_name(pid, name)
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
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let booted = stat.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse().ok()).unwrap_or(0);
    let mut next = rustix::process::getppid().map(|pid| pid.as_raw_pid().cast_unsigned());
    let mut found = Vec::new();
    while let Some(pid) = next.filter(|pid| *pid > 0) {
        let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { break };
        let Some((above, ancestor)) = ancestor(pid, &stat, booted) else { break };
        found.push(ancestor);
        next = Some(above);
    }
    found
}

/// A process by its `stat` file, and the one above it. `booted`: when the machine began, in seconds since 1970.
fn ancestor(pid: u32, stat: &str, booted: u64) -> Option<(u32, Ancestor)> {
    let (name, rest) = stat.split_once('(')?.1.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').collect();
    let ticks: u64 = fields.get(19)?.parse().ok()?;
    let started = booted + ticks / clock_ticks_per_second().max(1);
    Some((fields.get(1)?.parse().ok()?, Ancestor { pid, name: name.to_owned(), started }))
}

/// A variable of the environment with which a process was started; `None` also if this account may not see it.
pub(crate) fn variable_of(pid: u32, name: &str) -> Option<String> {
    let all = fs::read(format!("/proc/{pid}/environ")).ok()?;
    let own = all.split(|byte| *byte == 0).filter_map(|one| std::str::from_utf8(one).ok());
    own.into_iter().find_map(|one| Some(one.strip_prefix(name)?.strip_prefix('=')?.to_owned()))
}

/// Processor time of this process so far, in seconds.
pub fn own_cpu_seconds() -> Option<f64> {
    cpu_seconds("/proc/self/stat")
}

/// Processor time of another process so far, in seconds; `None` if there is no process of that number and name.
pub fn cpu_seconds_of(pid: u32, name: &str) -> Option<f64> {
    has_name(pid, name).then(|| cpu_seconds(&format!("/proc/{pid}/stat")))?
}

/// Whether this process began with SIGHUP ignored, as under `nohup`. Linux shows the ignored signals as bits, the first
/// one lowest.
pub fn hangup_is_ignored() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).is_some_and(|bits| bits & 1 == 1)
}

/// User and system time in a process's `stat` file, in seconds.
pub(crate) fn cpu_seconds(stat: &str) -> Option<f64> {
    let ticks = u32::try_from(cpu_ticks(&fs::read_to_string(stat).ok()?)?).ok()?;
    Some(f64::from(ticks) / f64::from(u32::try_from(clock_ticks_per_second()).ok()?))
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

/// Pids in lines such as `lrwxrwxrwx 1 u g 0 Jan 1 00:00 /proc/123/cwd -> /directory`.
fn pids(listing: &str, dir: &str) -> Vec<u32> {
    let wanted = format!("/cwd -> {dir}");
    let ours = listing.lines().filter_map(|line| line.strip_suffix(wanted.as_str()));
    ours.filter_map(|line| line.rsplit('/').next()?.parse().ok()).collect()
}

/// Sum of fields 14 to 17 of proc(5)'s stat: the process's own times and those of the children it waited for. The name
/// in field 2 may contain spaces and parentheses.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let times: Vec<u64> = rest.split(' ').skip(11).take(4).map_while(|ticks| ticks.parse().ok()).collect();
    (times.len() == 4).then(|| times.iter().sum())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Command;

    #[test]
    fn the_kernels_account_is_read() {
        let stat = "71 (a b) c) S 1 71 71 0 -1 4194304 100 200 3 4 250 50 7 8 20 0 4 0 99 1000 10";
        assert_eq!(cpu_ticks(stat), Some(315));
        assert_eq!(cpu_ticks("broken"), None);
        assert_eq!(kilobytes("Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t 1 kB\n", "VmHWM:"), Some(2 << 20));
        assert_eq!(kilobytes("Name:\tx\n", "VmHWM:"), None);
        assert!(own_cpu_seconds().is_some());
        let stat = "71 (a b) c) S 70 71 71 0 -1 4194304 100 200 3 4 250 50 7 8 20 0 4 0 9900 1000 10";
        let started = 1_000 + 9_900 / clock_ticks_per_second();
        assert_eq!(ancestor(7, stat, 1_000), Some((70, Ancestor { pid: 7, name: "a b) c".to_owned(), started })));
        assert!(ancestors().iter().all(|one| one.started > 1_000_000_000));
    }

    #[test]
    fn only_processes_of_that_directory_count() {
        let listing = "lrwxrwxrwx 1 pg pg 0 Nov 21 03:36 /proc/12/cwd -> /var/data\n\
            lrwxrwxrwx 1 pg pg 0 Nov 21 03:36 /proc/13/cwd\n\
            lrwxrwxrwx 1 pg pg 0 Nov 21 03:36 /proc/14/cwd -> /var/data/base\n\
            lrwxrwxrwx 1 pg pg 0 Nov 21 03:36 /proc/15/cwd -> /var/data\n";
        assert_eq!(pids(listing, "/var/data"), [12, 15]);
    }

    #[test]
    fn a_living_process_is_found_and_a_dead_one_is_not() {
        let account = Account::current().unwrap();
        let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let script = "cd \"$1\" && exec sleep 60";
        let mut child = Command::new("/bin/sh").args(["-c", script, "sh"]).arg(dir.path()).start().unwrap();
        // A child becomes its program after it was started.
        while !is_living_in(child.id(), dir.path(), "sleep") {
            std::thread::yield_now();
        }
        assert_eq!(living_in(&account, dir.path(), "sleep"), Some(vec![child.id()]));
        assert_eq!(living_in(&account, dir.path(), "postgres"), Some(Vec::new()), "another name");
        assert!(!is_living_in(child.id(), dir.path(), "postgres"));
        assert!(!is_living_in(child.id(), other.path(), "sleep"), "another directory");
        signal(&account, "KILL", &[child.id()]);
        // Not waited for: the killed child is a zombie now, or about to be one.
        while living_in(&account, dir.path(), "sleep") != Some(Vec::new()) {
            std::thread::yield_now();
        }
        assert!(!is_living_in(child.id(), dir.path(), "sleep"));
        child.finish();
    }
}
