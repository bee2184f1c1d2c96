//! Runs a program and measures its time from start to exit, its processor time and its memory.

use crate::child::Child;
use crate::command::{Command, Ended};
use crate::error::Error;
use crate::limits::{CHILDREN_LOOK_MS, LOOK_MS, PART_BYTES_MAX};
use crate::process::{cpu_seconds, kilobytes};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::ioctl_fionread;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use std::fs;
use std::io::{self, PipeReader, Read};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

/// What a program took and printed.
#[derive(Debug)]
pub struct Measured {
    /// How it ended, and its output: of each stream the first and the last [`PART_BYTES_MAX`], and between them how many
    /// bytes are left out.
    pub ended: Ended,
    /// Nothing of its stdout is left out.
    pub is_whole: bool,
    /// From before its start to its exit.
    pub wall_seconds: f64,
    /// From before its start to the first byte that it wrote to stdout.
    pub first_seconds: Option<f64>,
    /// User and system time of all its threads and of the children it waited for, in steps of a clock tick (10 ms).
    pub cpu_seconds: Option<f64>,
    /// The largest resident memory, last read at most [`LOOK_MS`] before its end. If it has children: the memory of
    /// all, with shared pages counted once, read every [`CHILDREN_LOOK_MS`].
    pub peak_bytes: Option<u64>,
}

impl Command {
    /// Runs the program with an empty input to its end, and measures the processes. What it has left running in its
    /// process group is then killed. The program is killed with its children if it takes too long, or if the future is
    /// dropped. A daemon, which has made itself a group of its own, lives on; what it prints later is not kept.
    ///
    /// # Errors
    /// As for [`Command::run`].
    pub async fn measure(&mut self, limit: Duration) -> Result<Measured, Error> {
        self.capture();
        self.inner.stdin(Stdio::null());
        let start = Instant::now();
        let child = self.spawn_apart()?;
        let program = self.program();
        let measured = tokio::time::timeout(limit, watch(program, child, start)).await;
        measured.map_err(|_| Error::Late { program: program.to_owned(), limit })?.map_err(Error::run(program))
    }
}

async fn watch(program: &Path, mut child: Child, start: Instant) -> io::Result<Measured> {
    let pid = Pid::from_child(&child.0);
    let (out, err) = (child.0.stdout.take(), child.0.stderr.take());
    // The program's own pipes tell nothing of its end, because what it has started may have them open.
    let (ended, lives) = io::pipe()?;
    let also_ended = ended.try_clone()?;
    let out = tokio::task::spawn_blocking(move || first_and_kept(out, &ended));
    let err = tokio::task::spawn_blocking(move || first_and_kept(err, &also_ended));
    let mut exit = tokio::task::spawn_blocking(move || {
        let _lives = lives;
        exit_time(pid)
    });
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
    child.end_group();
    // The process has ended but was not waited for, so the kernel still has its times.
    let cpu_seconds = cpu_seconds(pid.as_raw_pid().cast_unsigned());
    let status = child.0.wait()?;
    let ((first, stdout), (_, stderr)) = (out.await??, err.await??);
    let (is_whole, [stdout, stderr]) = (stdout.left_out == 0, [stdout, stderr].map(Kept::bytes));
    let seconds = |then: Instant| then.duration_since(start).as_secs_f64();
    Ok(Measured {
        ended: Ended::of(program, Output { status, stdout, stderr }),
        is_whole,
        wall_seconds: seconds(end?),
        first_seconds: first.map(seconds),
        cpu_seconds,
        peak_bytes: own_bytes.max(family_bytes),
    })
}

/// The first and the last part of what a program writes, however much that is.
#[derive(Debug, Default)]
struct Kept {
    first: Vec<u8>,
    last: Vec<u8>,
    /// Bytes between them that were dropped.
    left_out: usize,
}

impl Kept {
    fn add(&mut self, bytes: &[u8]) {
        let (first, rest) = bytes.split_at(bytes.len().min(PART_BYTES_MAX - self.first.len()));
        self.first.extend_from_slice(first);
        self.last.extend_from_slice(rest);
        // Not at each piece, because what stays is moved.
        if self.last.len() > 2 * PART_BYTES_MAX {
            self.drop_more();
        }
    }

    fn drop_more(&mut self) {
        let more = self.last.len().saturating_sub(PART_BYTES_MAX);
        self.last.drain(..more);
        self.left_out += more;
    }

    /// All of it is there: of the last part only what is kept.
    fn ended(mut self) -> Self {
        self.drop_more();
        self
    }

    /// Both parts. Where something is left out, the rest of that line cannot be taken for a line of its own.
    fn bytes(self) -> Vec<u8> {
        let mut bytes = self.first;
        if self.left_out > 0 {
            bytes.extend_from_slice(format!("\n[{} bytes are left out here] ", self.left_out).as_bytes());
        }
        bytes.extend_from_slice(&self.last);
        bytes
    }
}

/// When the first byte arrived, and what was written until the other end of `ended` was closed.
fn first_and_kept(from: Option<impl Read + AsFd>, ended: &PipeReader) -> io::Result<(Option<Instant>, Kept)> {
    let Some(mut from) = from else { return Ok((None, Kept::default())) };
    let (mut first, mut kept, mut piece) = (None, Kept::default(), vec![0; 64 << 10]);
    loop {
        let mut both = [PollFd::new(&from, PollFlags::IN), PollFd::new(ended, PollFlags::IN)];
        match poll(&mut both, None) {
            Err(rustix::io::Errno::INTR) => continue,
            found => found?,
        };
        let [_, end] = both.map(|one| !one.revents().is_empty());
        // What the process has written is there by now.
        let there = ioctl_fionread(&from)?;
        if there == 0 && end {
            return Ok((first, kept.ended()));
        }
        let mut left = usize::try_from(there).unwrap_or(usize::MAX).max(1);
        while left > 0 {
            let room = left.min(piece.len());
            let read = match from.read(&mut piece[..room]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                read => read?,
            };
            if read == 0 {
                return Ok((first, kept.ended()));
            }
            first = first.or_else(|| Some(Instant::now()));
            kept.add(&piece[..read]);
            left -= read;
        }
        if end {
            return Ok((first, kept.ended()));
        }
    }
}

/// Waits until the process has ended, but does not reap it.
fn exit_time(pid: Pid) -> Instant {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    while matches!(waitid(WaitId::Pid(pid), options), Err(rustix::io::Errno::INTR)) {}
    Instant::now()
}

fn peak(pid: Pid) -> Option<u64> {
    kilobytes(&fs::read_to_string(format!("/proc/{}/status", pid.as_raw_pid())).ok()?, "VmHWM:")
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait_until;
    use rustix::process::Signal;

    const LIMIT: Duration = Duration::from_secs(1_000);

    fn shell(script: &str) -> Command {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        command
    }

    #[tokio::test]
    async fn a_process_is_accounted_for() {
        let script = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo done; echo odd >&2; exit 3";
        let measured = shell(script).measure(LIMIT).await.unwrap();
        let Ended { status, stdout, stderr, .. } = &measured.ended;
        assert_eq!((status.code(), stdout.as_str(), stderr.as_str()), (Some(3), "done\n", "odd\n"));
        assert!(measured.wall_seconds > 0.0);
        assert!(measured.cpu_seconds.unwrap() > 0.0, "{measured:?}");
        assert!(measured.peak_bytes.unwrap() > 100 << 10, "{measured:?}");
    }

    #[tokio::test]
    async fn an_answer_is_timed_from_its_first_byte_to_its_end() {
        // More than a pipe holds: the script ends only after its first bytes were read.
        let script = "echo a; head -c 400000 /dev/zero | tr '\\0' b; echo odd >&2; exit 3";
        let measured = shell(script).measure(LIMIT).await.unwrap();
        let Ended { status, stdout, stderr, .. } = &measured.ended;
        assert_eq!((status.code(), stdout.len(), stderr.as_str()), (Some(3), 400_002, "odd\n"));
        assert!(measured.first_seconds.unwrap() < measured.wall_seconds, "{measured:?}");
        assert_eq!(shell("true").measure(LIMIT).await.unwrap().first_seconds, None);
    }

    #[tokio::test]
    async fn of_an_endless_output_the_first_and_the_last_part_are_kept() {
        let long = "echo first; head -c 40000000 /dev/zero | tr '\\0' x; echo; echo last";
        let script = format!("for to in 1 2; do {{ {long}; }} >&$to; done");
        let measured = shell(&script).measure(LIMIT).await.unwrap();
        assert!(!measured.is_whole && shell("echo a").measure(LIMIT).await.unwrap().is_whole);
        for text in [measured.ended.stdout, measured.ended.stderr] {
            assert!(text.starts_with("first\nxxx") && text.ends_with("x\nlast\n"), "{}", text.len());
            assert!(text.len() < 2 * PART_BYTES_MAX + 100, "{}", text.len());
            let (_, rest) = text.split_once("\n[").unwrap();
            let left_out: usize = rest.split_once(' ').unwrap().0.parse().unwrap();
            assert_eq!(left_out + 2 * PART_BYTES_MAX, "first\n".len() + 40_000_000 + "\nlast\n".len());
        }
    }

    #[test]
    fn nothing_is_left_out_of_what_has_room_and_the_rest_of_a_cut_line_is_none_of_its_own() {
        let of = |pieces: &[usize]| {
            let mut kept = Kept::default();
            pieces.iter().for_each(|bytes| kept.add(&vec![b'{'; *bytes]));
            String::from_utf8(kept.ended().bytes()).unwrap()
        };
        for pieces in [&[][..], &[1], &[PART_BYTES_MAX], &[PART_BYTES_MAX - 1, 2], &[5, 2 * PART_BYTES_MAX - 5]] {
            assert_eq!(of(pieces), "{".repeat(pieces.iter().sum()));
        }
        for pieces in [&[2 * PART_BYTES_MAX + 1][..], &[1 << 20; 100], &[5 * PART_BYTES_MAX, 1]] {
            let text = of(pieces);
            let left_out = pieces.iter().sum::<usize>() - 2 * PART_BYTES_MAX;
            let last = text.lines().last().unwrap();
            assert!(last.starts_with(&format!("[{left_out} bytes are left out here] {{")), "{pieces:?}");
        }
    }

    #[tokio::test]
    async fn children_are_accounted_for() {
        let work = "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done; sleep 0.6";
        let own = shell("sleep 0.6; true").measure(LIMIT).await.unwrap();
        let measured = shell(&format!("({work}) & ({work}) & wait")).measure(LIMIT).await.unwrap();
        assert!(measured.cpu_seconds.unwrap() > own.cpu_seconds.unwrap(), "{measured:?}");
        assert!(family(Pid::from_raw(i32::MAX).unwrap()).is_none());
        assert!(measured.peak_bytes.unwrap() > 100 << 10, "{measured:?}");
    }

    /// Whether a process lives. Nobody of ours waits for a child of a child, so that it may be seen dead for a while.
    fn lives(pid: &str) -> bool {
        let status = fs::read_to_string(format!("/proc/{}/status", pid.trim()));
        status.is_ok_and(|status| !status.contains("State:\tZ"))
    }

    async fn dies(pid: &str) {
        let died = wait_until(LIMIT, Duration::from_millis(5), || (!lives(pid)).then_some(())).await;
        assert!(died.is_some(), "the child {pid} lives");
    }

    #[tokio::test]
    async fn a_process_that_is_abandoned_is_killed_with_its_children() {
        let dir = tempfile::tempdir().unwrap();
        let pid_file = dir.path().join("pid");
        let mut command = shell(&format!("sleep 60 & echo $! >{}; wait", pid_file.display()));
        let read = || fs::read_to_string(&pid_file).ok().filter(|pid| pid.ends_with('\n'));
        let pid = tokio::select! {
            _ = command.measure(LIMIT) => panic!("it sleeps"),
            pid = wait_until(LIMIT, Duration::from_millis(5), read) => pid.unwrap(),
        };
        dies(&pid).await;
    }

    #[tokio::test]
    async fn what_a_process_has_started_ends_with_it() {
        // All three have the output open; one of them would fill it for ever.
        let script = "sleep 300 & echo $!; sleep 300 | sleep 300 & echo done; yes & exit 3";
        let measured = shell(script).measure(LIMIT).await.unwrap();
        let Ended { status, stdout, .. } = &measured.ended;
        assert!(stdout.contains("done\n"), "{measured:?}");
        assert_eq!(status.code(), Some(3));
        dies(stdout.lines().next().unwrap()).await;
    }

    #[tokio::test]
    async fn a_daemon_lives_on_and_no_run_waits_for_it() {
        let dir = tempfile::tempdir().unwrap();
        let pid_file = dir.path().join("pid");
        let daemon =
            format!("setsid sh -c 'echo $$ >{0}; exec sleep 60' & until [ -s {0} ]; do :; done", pid_file.display());
        let measured = shell(&format!("{daemon}; echo done; echo odd >&2")).measure(LIMIT).await.unwrap();
        let pid = fs::read_to_string(&pid_file).unwrap();
        assert!(lives(&pid), "{measured:?}");
        rustix::process::kill_process(Pid::from_raw(pid.trim().parse().unwrap()).unwrap(), Signal::KILL).unwrap();
        assert_eq!((&*measured.ended.stdout, &*measured.ended.stderr), ("done\n", "odd\n"));
    }

    #[tokio::test]
    async fn a_process_that_hangs_is_killed_when_its_time_is_over() {
        let limit = Duration::from_millis(50);
        let hung = shell("echo here; sleep 60").measure(limit).await;
        assert!(matches!(hung, Err(Error::Late { .. })), "{hung:?}");
        assert_eq!(shell("echo here").measure(LIMIT).await.unwrap().ended.stdout, "here\n");
    }
}
