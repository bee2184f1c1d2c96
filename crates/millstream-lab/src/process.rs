//! Runs a child process and measures its time from start to exit, its processor time and its memory.

use crate::error::Error;
use crate::limits::{CHILDREN_LOOK_MS, LOOK_MS};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use std::fs;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// What a process took and printed.
#[derive(Debug)]
pub(crate) struct Ended {
    /// How it ended.
    pub(crate) status: ExitStatus,
    /// From before its start to its exit.
    pub(crate) wall_seconds: f64,
    /// User and system time of all its threads and of the children it waited for, in steps of a clock tick (10 ms).
    pub(crate) cpu_seconds: Option<f64>,
    /// The largest resident memory, last read at most [`LOOK_MS`] before its end. If it has children: the memory of
    /// all, with shared pages counted once, read every [`CHILDREN_LOOK_MS`].
    pub(crate) peak_bytes: Option<u64>,
    /// What it wrote to stdout.
    pub(crate) stdout: String,
    /// What it wrote to stderr.
    pub(crate) stderr: String,
}

/// What a process took to answer, and the answer.
#[derive(Debug)]
pub(crate) struct Answer {
    /// How it ended.
    pub(crate) status: ExitStatus,
    /// From before its start to its exit.
    pub(crate) wall_seconds: f64,
    /// From before its start to the first byte of its answer.
    pub(crate) first_seconds: Option<f64>,
    /// What it wrote to stdout.
    pub(crate) stdout: String,
    /// What it wrote to stderr.
    pub(crate) stderr: String,
}

/// Kills the process and its children if it is dropped before the process ends, so that an abandoned experiment leaves
/// nothing behind.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Only while the process was not waited for is the group certainly still its own.
        if let Ok(None) = self.0.try_wait() {
            let _ = kill_process_group(Pid::from_child(&self.0), Signal::KILL);
        }
        let _ = self.0.wait();
    }
}

/// Runs a command to its end. Its output goes to files in `dir`, so that nobody has to read while the clock runs.
pub(crate) async fn run(command: &mut Command, dir: &Path) -> Result<Ended, Error> {
    let program = Path::new(command.get_program()).to_owned();
    let (out, err) = (dir.join("stdout"), dir.join("stderr"));
    let create = |path: &Path| fs::File::create(path).map_err(Error::io("write", path));
    command.process_group(0).stdin(Stdio::null()).stdout(create(&out)?).stderr(create(&err)?);
    let start = Instant::now();
    let mut running = Running(command.spawn().map_err(Error::io("start", &program))?);
    let pid = Pid::from_child(&running.0);
    let mut exit = tokio::task::spawn_blocking(move || exit_time(pid));
    let (mut own_bytes, mut family_bytes) = (None, None);
    let mut family_look = tokio::time::interval(Duration::from_millis(CHILDREN_LOOK_MS));
    let end = loop {
        tokio::select! {
            biased;
            end = &mut exit => break end,
            _ = family_look.tick() => family_bytes = family_bytes.max(family(pid)),
            () = tokio::time::sleep(Duration::from_millis(LOOK_MS)) => own_bytes = peak(pid).or(own_bytes),
        }
    };
    let end = end.unwrap_or_else(|_| Instant::now());
    // The process has ended but was not waited for, so the kernel still has its times.
    let cpu_seconds = cpu(&format!("/proc/{}/stat", pid.as_raw_pid()));
    let status = running.0.wait().map_err(Error::io("wait for", &program))?;
    let read = |path: &Path| fs::read(path).map_err(Error::io("read", path));
    Ok(Ended {
        status,
        wall_seconds: end.duration_since(start).as_secs_f64(),
        cpu_seconds,
        peak_bytes: own_bytes.max(family_bytes),
        stdout: String::from_utf8_lossy(&read(&out)?).into_owned(),
        stderr: String::from_utf8_lossy(&read(&err)?).into_owned(),
    })
}

/// As `run`, with a time limit. `None` if the limit was reached; the process and its children are then killed.
pub(crate) async fn run_within(limit: Duration, command: &mut Command, dir: &Path) -> Result<Option<Ended>, Error> {
    tokio::time::timeout(limit, run(command, dir)).await.ok().transpose()
}

/// Runs a command and reads its answer as it arrives, with a time limit. `None` if the limit was reached.
pub(crate) async fn answer_within(limit: Duration, command: &mut Command, dir: &Path) -> Result<Option<Answer>, Error> {
    tokio::time::timeout(limit, answer(command, dir)).await.ok().transpose()
}

async fn answer(command: &mut Command, dir: &Path) -> Result<Answer, Error> {
    let program = Path::new(command.get_program()).to_owned();
    let said = dir.join("stderr");
    let stderr = fs::File::create(&said).map_err(Error::io("write", &said))?;
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr);
    let start = Instant::now();
    let mut running = Running(command.spawn().map_err(Error::io("start", &program))?);
    let pid = Pid::from_child(&running.0);
    let stdout = running.0.stdout.take();
    let read = tokio::task::spawn_blocking(move || first_and_all(stdout));
    let end = tokio::task::spawn_blocking(move || exit_time(pid)).await.unwrap_or_else(|_| Instant::now());
    let status = running.0.wait().map_err(Error::io("wait for", &program))?;
    let read = read.await.map_err(|error| std::io::Error::other(error.to_string())).flatten();
    let (first, stdout) = read.map_err(Error::io("read what was printed by", &program))?;
    let seconds = |then: Instant| then.duration_since(start).as_secs_f64();
    Ok(Answer {
        status,
        wall_seconds: seconds(end),
        first_seconds: first.map(seconds),
        stdout: String::from_utf8_lossy(&stdout).into_owned(),
        stderr: fs::read_to_string(&said).map_err(Error::io("read", &said))?,
    })
}

/// When the first byte arrived, and all bytes.
fn first_and_all(from: Option<impl Read>) -> std::io::Result<(Option<Instant>, Vec<u8>)> {
    let Some(mut from) = from else { return Ok((None, Vec::new())) };
    let mut bytes = Vec::new();
    from.by_ref().take(1).read_to_end(&mut bytes)?;
    let first = (!bytes.is_empty()).then(Instant::now);
    from.read_to_end(&mut bytes)?;
    Ok((first, bytes))
}

/// Processor time of this process so far, in seconds.
pub(crate) fn own_cpu_seconds() -> Option<f64> {
    cpu("/proc/self/stat")
}

/// Waits until the process has ended, but does not reap it.
fn exit_time(pid: Pid) -> Instant {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while matches!(waitid(WaitId::Pid(pid), options), Err(rustix::io::Errno::INTR)) {}
    Instant::now()
}

fn peak(pid: Pid) -> Option<u64> {
    peak_of(&fs::read_to_string(format!("/proc/{}/status", pid.as_raw_pid())).ok()?)
}

/// Memory that a process and its children have now, in bytes; `None` if it has no children.
fn family(pid: Pid) -> Option<u64> {
    let pid = pid.as_raw_pid();
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    let shares = children.split_whitespace().filter_map(share).reduce(|sum, bytes| sum + bytes)?;
    Some(shares + share(&pid.to_string())?)
}

/// A process's memory in bytes, with its share of the pages that it shares with others.
fn share(pid: &str) -> Option<u64> {
    kilobytes(&fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?, "Pss:")
}

fn peak_of(status: &str) -> Option<u64> {
    kilobytes(status, "VmHWM:")
}

/// The bytes of a line such as `VmHWM:  2048 kB`.
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes << 10)
}

fn cpu(stat: &str) -> Option<f64> {
    let ticks = cpu_ticks(&fs::read_to_string(stat).ok()?)?;
    let ticks_per_second = rustix::param::clock_ticks_per_second();
    Some(crate::sample::number(ticks) / crate::sample::number(ticks_per_second))
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

    #[test]
    fn the_kernels_account_is_read() {
        let stat = "71 (a b) c) S 1 71 71 0 -1 4194304 100 200 3 4 250 50 7 8 20 0 4 0 99 1000 10";
        assert_eq!(cpu_ticks(stat), Some(315));
        assert_eq!(cpu_ticks("broken"), None);
        assert_eq!(peak_of("Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t 1 kB\n"), Some(2 << 20));
        assert_eq!(peak_of("Name:\tx\n"), None);
    }

    #[tokio::test]
    async fn a_process_is_accounted_for() {
        let dir = tempfile::tempdir().unwrap();
        let script = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo done; echo odd >&2; exit 3";
        let ended = run(Command::new("/bin/sh").args(["-c", script]), dir.path()).await.unwrap();
        assert_eq!(ended.status.code(), Some(3));
        assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("done\n", "odd\n"));
        assert!(ended.wall_seconds > 0.0);
        assert!(ended.cpu_seconds.unwrap() > 0.0, "{ended:?}");
        assert!(ended.peak_bytes.unwrap() > 100 << 10, "{ended:?}");
    }

    #[tokio::test]
    async fn an_answer_is_timed_from_its_first_byte_to_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let limit = Duration::from_secs(1_000);
        let ask = async |script: &str| {
            let mut command = Command::new("/bin/sh");
            answer_within(limit, command.args(["-c", script]), dir.path()).await.unwrap().unwrap()
        };
        let answer = ask("echo a; sleep 0.2; echo b; echo odd >&2; exit 3").await;
        assert_eq!(
            (answer.status.code(), answer.stdout.as_str(), answer.stderr.as_str()),
            (Some(3), "a\nb\n", "odd\n")
        );
        assert!(answer.first_seconds.unwrap() < answer.wall_seconds, "{answer:?}");
        assert_eq!(ask("true").await.first_seconds, None);
    }

    #[tokio::test]
    async fn children_are_accounted_for() {
        let dir = tempfile::tempdir().unwrap();
        let work = "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done; sleep 0.6";
        let own = run(Command::new("/bin/sh").args(["-c", "sleep 0.6; true"]), dir.path()).await.unwrap();
        let script = format!("({work}) & ({work}) & wait");
        let ended = run(Command::new("/bin/sh").args(["-c", &script]), dir.path()).await.unwrap();
        assert!(ended.cpu_seconds.unwrap() > own.cpu_seconds.unwrap(), "{ended:?}");
        assert!(family(Pid::from_raw(i32::MAX).unwrap()).is_none());
        assert!(ended.peak_bytes.unwrap() > 100 << 10, "{ended:?}");
    }

    #[tokio::test]
    async fn a_process_that_is_given_up_is_killed_with_its_children() {
        let dir = tempfile::tempdir().unwrap();
        let pid_file = dir.path().join("pid");
        let script = format!("sleep 1000 & echo $! >{}; wait", pid_file.display());
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &script]);
        let pid = tokio::select! {
            _ = run(&mut command, dir.path()) => panic!("it sleeps"),
            pid = async {
                loop {
                    match fs::read_to_string(&pid_file) {
                        Ok(pid) if pid.ends_with('\n') => break pid,
                        _ => tokio::time::sleep(Duration::from_millis(5)).await,
                    }
                }
            } => pid,
        };
        // Nobody of ours waits for a child of a child, so that it may be seen dead for a while.
        let status = format!("/proc/{}/status", pid.trim());
        let lives = || fs::read_to_string(&status).is_ok_and(|status| !status.contains("State:\tZ"));
        for _ in 0..1_000 {
            if !lives() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("the child of {} lives", pid.trim());
    }

    #[tokio::test]
    async fn a_process_that_hangs_is_killed_when_its_time_is_over() {
        let dir = tempfile::tempdir().unwrap();
        let limit = Duration::from_millis(50);
        let hung = run_within(limit, Command::new("/bin/sh").args(["-c", "echo here; sleep 1000"]), dir.path()).await;
        assert!(hung.unwrap().is_none());
        let limit = Duration::from_secs(1_000);
        let ended = run_within(limit, Command::new("/bin/sh").args(["-c", "echo here"]), dir.path()).await;
        assert_eq!(ended.unwrap().unwrap().stdout, "here\n");
    }

    #[tokio::test]
    async fn a_program_that_is_not_there_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let error = run(&mut Command::new("/nowhere/millstream"), dir.path()).await.unwrap_err();
        assert_eq!(error.to_string(), "cannot start /nowhere/millstream");
    }
}
