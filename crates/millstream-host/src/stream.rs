//! A program that is fed and read while it runs.

use crate::child::Child;
use crate::command::{Command, Ended};
use crate::error::Error;
use crate::limits::{RECORD_BYTES_MAX, SAID_BYTES_MAX, STOPPED_MAX};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, Signal, kill_process_group};
use rustix::time::Timespec;
use std::io::{self, Read};
use std::path::PathBuf;
use std::process::{ChildStderr, ChildStdin, ChildStdout, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time between two looks whether the program is to be stopped.
const LOOK: Duration = Duration::from_millis(100);

/// A program that runs in a process group of its own, so that an interrupt from the terminal does not reach it.
#[derive(Debug)]
pub struct Stream {
    program: PathBuf,
    child: Child,
    input: Option<ChildStdin>,
    output: ChildStdout,
    said: JoinHandle<Vec<u8>>,
}

impl Command {
    /// Starts the program. What it reads is written to [`Stream::input`], and not what [`Command::input`] has set.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn stream(&mut self) -> Result<Stream, Error> {
        self.inner.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.spawn_apart()?;
        let (input, output, errors) = (child.0.stdin.take(), child.0.stdout.take(), child.0.stderr.take());
        let no_pipe = || Error::run(self.program())(io::ErrorKind::BrokenPipe.into());
        let (output, errors) = output.zip(errors).ok_or_else(no_pipe)?;
        // It would stop at a full pipe.
        let said = std::thread::spawn(move || first_of(errors));
        Ok(Stream { program: self.program().to_owned(), child, input, output, said })
    }
}

impl Stream {
    /// What the program reads. It ends when this is dropped. `None` the second time.
    pub fn input(&mut self) -> Option<ChildStdin> {
        self.input.take()
    }

    /// Gives each record of its output to `each`. Records end with `separator`; the last one may lack it.
    ///
    /// If `is_stopped` says so, the program is asked to end, and is killed if it does not in time.
    ///
    /// # Errors
    /// That of `each`; a record is too long; the output cannot be read.
    pub fn records(
        &mut self,
        separator: u8,
        is_stopped: impl Fn() -> bool,
        mut each: impl FnMut(&[u8]) -> io::Result<()>,
    ) -> io::Result<()> {
        let (mut buffer, mut pending) = (vec![0; 64 << 10], Vec::new());
        let mut asked: Option<Instant> = None;
        loop {
            if asked.is_none() && is_stopped() {
                asked = Some(Instant::now());
                let _ = kill_process_group(Pid::from_child(&self.child.0), Signal::TERM);
            }
            if asked.is_some_and(|asked| asked.elapsed() > STOPPED_MAX) {
                self.child.end_group();
                return Ok(());
            }
            if !has_bytes(&self.output)? {
                continue;
            }
            let len = match self.output.read(&mut buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                len => len?,
            };
            if len == 0 {
                return if pending.is_empty() { Ok(()) } else { each(&pending) };
            }
            let mut rest = &buffer[..len];
            while let Some(at) = rest.iter().position(|byte| *byte == separator) {
                match pending.is_empty() {
                    true => each(&rest[..at])?,
                    false => {
                        pending.extend_from_slice(&rest[..at]);
                        each(&pending)?;
                        pending.clear();
                    }
                }
                rest = &rest[at + 1..];
            }
            pending.extend_from_slice(rest);
            if pending.len() > RECORD_BYTES_MAX {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "it wrote a line without an end"));
            }
        }
    }

    /// Waits for its end. The output that was not read is lost.
    ///
    /// # Errors
    /// Its end cannot be waited for.
    pub fn finish(mut self) -> Result<Ended, Error> {
        drop(self.input.take());
        drop(self.output);
        let status = self.child.0.wait().map_err(Error::run(&self.program))?;
        let said = self.said.join().unwrap_or_default();
        let stderr = String::from_utf8_lossy(&said).into_owned();
        Ok(Ended { program: self.program, status, stdout: String::new(), stderr })
    }
}

fn has_bytes(output: &ChildStdout) -> io::Result<bool> {
    let wait = Timespec { tv_sec: 0, tv_nsec: i64::from(LOOK.subsec_nanos()) };
    match poll(&mut [PollFd::new(output, PollFlags::IN)], Some(&wait)) {
        Err(rustix::io::Errno::INTR) => Ok(false),
        ready => Ok(ready? > 0),
    }
}

/// The first bytes. The others are read and dropped.
fn first_of(mut errors: ChildStderr) -> Vec<u8> {
    let mut said = Vec::new();
    let _ = errors.by_ref().take(SAID_BYTES_MAX).read_to_end(&mut said);
    let _ = io::copy(&mut errors, &mut io::sink());
    said
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn shell(script: &str) -> Stream {
        Command::new("/bin/sh").args(["-c", script]).stream().unwrap()
    }

    #[test]
    fn records_are_read_as_bytes_while_the_program_is_fed() {
        let mut stream = shell("cat; echo odd >&2; exit 3");
        let mut input = stream.input().unwrap();
        let mut read = Vec::new();
        // More than a pipe holds, and a record longer than a read.
        let long = vec![b'x'; 200_000];
        std::thread::scope(|scope| {
            let long = &long;
            scope.spawn(move || {
                input.write_all(b"\xff\n").unwrap();
                input.write_all(&[&long[..], b"\0\nlast"].concat()).unwrap();
            });
            let each = |record: &[u8]| {
                read.push(record.to_vec());
                Ok(())
            };
            stream.records(b'\n', || false, each).unwrap();
        });
        assert_eq!(read, [b"\xff".to_vec(), [&long[..], b"\0"].concat(), b"last".to_vec()]);
        let ended = stream.finish().unwrap();
        assert_eq!((ended.status.code(), ended.stderr.as_str()), (Some(3), "odd\n"));
    }

    #[test]
    fn a_program_is_asked_to_end_and_a_line_without_an_end_is_refused() {
        let mut stream = shell("trap 'echo tidied; exit 1' TERM; echo ready; while :; do sleep 0.01; done");
        let read = std::cell::RefCell::new(Vec::new());
        let each = |record: &[u8]| {
            read.borrow_mut().push(record.to_vec());
            Ok(())
        };
        stream.records(b'\n', || !read.borrow().is_empty(), each).unwrap();
        assert_eq!(*read.borrow(), [&b"ready"[..], b"tidied"]);
        let mut endless = shell("exec cat /dev/zero");
        let error = endless.records(b'\n', || false, |_| Ok(())).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}
