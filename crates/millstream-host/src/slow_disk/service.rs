//! The service of a slow disk: it answers the kernel's reads, writes and flushes when their time has come.

use super::message::{Asked, answer, begun, facts, opened, parsed, room, written};
use super::pace::{Schedule, Slowness, Work};
use crate::error::Error;
use crate::limits::{SLOW_DISK_ANSWERS_MAX, SLOW_DISK_HEAD_BYTES_MAX, SLOW_DISK_MESSAGE_BYTES_MAX, SLOW_DISK_POLL};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ffi::CString;
use std::fs::File;
use std::io::{self, BufRead, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

/// Where the kernel takes file systems from programs.
pub(super) const FUSE: &str = "/dev/fuse";

/// What the list of mounts says that it is.
const SOURCE: &str = "millstream-slow-disk";

/// What was said last of how slow the disk is, and how often something was said.
#[derive(Debug, Clone, Copy, Default)]
struct Told {
    slowness: Slowness,
    times: u64,
}

/// What several threads know of that.
type Pace = Arc<Mutex<Told>>;

/// When the time of an answer has come, how often something had been said then, and the answer.
type Due = (Instant, u64, Vec<u8>);

/// Shows the bytes of a file as those of another one, `device`, a little later. [`super::SlowDisk`] runs this in a process of
/// its own. Lines on stdin say how slow it is. It ends when `device` is unmounted: if whoever has started it is killed, what
/// uses the disk goes on, at full speed.
///
/// # Errors
/// [`Error::SlowDisk`] without FUSE, or without the right to mount.
pub fn serve_slow_disk(file: &Path, device: &Path) -> Result<(), Error> {
    let disk = open(file, OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty());
    let disk: File = disk.map_err(|error| Error::slow_disk("open", file)(error.into()))?.into();
    let bytes = disk.metadata().map_err(Error::slow_disk("read", file))?.len();
    let kernel = attached(device).map_err(Error::slow_disk("mount", device))?;
    // If the kernel wants memory of us and writes to this disk for it, it would wait for us.
    let _ = rustix::process::configure_io_flusher_behavior(true);
    let pace = Pace::default();
    let (told, kernel) = (Arc::clone(&pace), Arc::new(kernel));
    thread::spawn(move || follow(io::stdin().lock(), &told));
    let (sender, receiver) = sync_channel(SLOW_DISK_ANSWERS_MAX);
    let (answered, now) = (Arc::clone(&kernel), Arc::clone(&pace));
    thread::spawn(move || send(&receiver, &answered, &now));
    Service { disk, bytes, kernel, pace, schedule: Schedule::new(Instant::now()), times: 0 }.run(&sender);
    Ok(())
}

/// Mounts a file system that is one file, over a file.
fn attached(device: &Path) -> io::Result<File> {
    let kernel: File = open(FUSE, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?.into();
    let options = format!("fd={},rootmode=100600,user_id=0,group_id=0", kernel.as_raw_fd());
    let options = CString::new(options)?;
    mount(SOURCE, device, "fuse", MountFlags::NOSUID | MountFlags::NODEV, options.as_c_str())?;
    Ok(kernel)
}

/// Takes over how slow the disk is to be, line by line. When nobody says so any more, it is not.
fn follow(lines: impl BufRead, pace: &Mutex<Told>) {
    let set = |slowness| {
        let mut told = pace.lock().unwrap_or_else(PoisonError::into_inner);
        *told = Told { slowness, times: told.times + 1 };
    };
    lines.lines().map_while(Result::ok).filter_map(|line| Slowness::parsed(&line)).for_each(set);
    set(Slowness::default());
}

fn last(pace: &Mutex<Told>) -> Told {
    *pace.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends each answer when its time has come, or when the disk gets another pace: what waits is of the old one. A disk that
/// begins one thing a second would otherwise keep a server and an unmount for minutes.
fn send(receiver: &Receiver<Due>, kernel: &File, pace: &Mutex<Told>) {
    let (mut waiting, mut seen) = (BinaryHeap::<Reverse<Due>>::new(), 0);
    loop {
        let next = match waiting.peek() {
            None => receiver.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(Reverse((due, ..))) => {
                receiver.recv_timeout(due.saturating_duration_since(Instant::now()).min(SLOW_DISK_POLL))
            }
        };
        let times = last(pace).times;
        match next {
            Ok((_, of, answer)) if of != times => write(kernel, &answer),
            Ok(answer) => waiting.push(Reverse(answer)),
            Err(RecvTimeoutError::Timeout) => {
                while waiting.peek().is_some_and(|Reverse((due, ..))| *due <= Instant::now()) {
                    if let Some(Reverse((.., answer))) = waiting.pop() {
                        write(kernel, &answer);
                    }
                }
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if std::mem::replace(&mut seen, times) != times {
            let (new, old): (Vec<_>, Vec<_>) =
                std::mem::take(&mut waiting).into_iter().partition(|Reverse((_, of, _))| *of == times);
            old.iter().for_each(|Reverse((.., answer))| write(kernel, answer));
            waiting = new.into();
        }
    }
}

/// Hands an answer to the kernel, which takes it whole. It refuses one that nobody waits for any more.
fn write(kernel: &File, answer: &[u8]) {
    let _ = rustix::io::write(kernel, answer);
}

struct Service {
    disk: File,
    bytes: u64,
    kernel: Arc<File>,
    pace: Pace,
    schedule: Schedule,
    /// How often something had been said of its pace when the schedule began.
    times: u64,
}

impl Service {
    /// Answers until the file system is unmounted.
    fn run(mut self, sender: &SyncSender<Due>) {
        let largest = usize::try_from(SLOW_DISK_MESSAGE_BYTES_MAX).unwrap_or(usize::MAX);
        let mut buffer = vec![0; largest.saturating_add(SLOW_DISK_HEAD_BYTES_MAX)];
        loop {
            let length = match (&*self.kernel).read(&mut buffer) {
                Ok(length) => length,
                // Nobody waits for this one any more.
                Err(error) if is_passing(&error) => continue,
                Err(_) => return,
            };
            let Some((request, asked)) = buffer.get(..length).and_then(parsed) else { continue };
            if let Some(due) = self.answer(request, asked)
                && sender.send(due).is_err()
            {
                return;
            }
        }
    }

    /// The answer to a request that has its time; every other one is answered at once.
    fn answer(&mut self, request: u64, asked: Asked<'_>) -> Option<Due> {
        let now = Instant::now();
        let work = match asked {
            Asked::Read { .. } => Some(Work::Read),
            Asked::Write { .. } => Some(Work::Write),
            Asked::Flush => Some(Work::Flush),
            _ => None,
        };
        let result: io::Result<Vec<u8>> = match asked {
            Asked::Begin { read_ahead, offered } => Ok(begun(read_ahead, offered)),
            Asked::Facts => Ok(facts(self.bytes)),
            Asked::Open => Ok(opened()),
            Asked::Read { at, length } => self.read(at, length),
            Asked::Write { at, bytes } => self.write(at, bytes),
            Asked::Flush => self.disk.sync_data().map(|()| Vec::new()),
            Asked::Room => Ok(room()),
            Asked::Nothing => Ok(Vec::new()),
            Asked::Note => return None,
            Asked::Unknown => Err(Errno::NOSYS.into()),
        };
        let whole = answer(request, result);
        let Told { slowness, times } = last(&self.pace);
        if std::mem::replace(&mut self.times, times) != times {
            // Its queue was of the old pace.
            self.schedule = Schedule::new(now);
        }
        let due = work.map(|work| self.schedule.due(work, now, &slowness));
        match due.filter(|due| *due > Instant::now()) {
            Some(due) => Some((due, times, whole)),
            None => {
                write(&self.kernel, &whole);
                None
            }
        }
    }

    fn read(&self, at: u64, length: u32) -> io::Result<Vec<u8>> {
        let left = self.bytes.saturating_sub(at).min(u64::from(length.min(SLOW_DISK_MESSAGE_BYTES_MAX)));
        let mut bytes = vec![0; usize::try_from(left).unwrap_or(0)];
        self.disk.read_exact_at(&mut bytes, at)?;
        Ok(bytes)
    }

    /// A disk does not grow.
    fn write(&self, at: u64, bytes: &[u8]) -> io::Result<Vec<u8>> {
        if at.saturating_add(bytes.len() as u64) > self.bytes {
            return Err(Errno::NOSPC.into());
        }
        self.disk.write_all_at(bytes, at)?;
        Ok(written(bytes.len()))
    }
}

/// Whether the kernel has only taken a request back, or was interrupted.
fn is_passing(error: &io::Error) -> bool {
    [Errno::NOENT, Errno::INTR, Errno::AGAIN].into_iter().any(|one| error.raw_os_error() == Some(one.raw_os_error()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const SLOW: Slowness = Slowness { read_ms: 0.0, write_ms: 0.0, flush_ms: 0.0, iops: 0.001 };

    fn told(slowness: Slowness) -> Mutex<Told> {
        Mutex::new(Told { slowness, times: 0 })
    }

    #[test]
    fn the_last_line_counts_and_without_anybody_to_say_so_the_disk_is_fast() {
        let pace = told(Slowness { flush_ms: 8.0, ..Slowness::default() });
        follow("nonsense\n1 2 3 4\n".as_bytes(), &pace);
        let Told { slowness, times } = last(&pace);
        assert_eq!((slowness, times), (Slowness::default(), 2), "the input has ended");
    }

    #[test]
    fn answers_are_sent_in_the_order_of_their_times_and_those_that_wait_end_with_the_service() {
        let file = tempfile::tempfile().unwrap();
        let (sender, receiver) = sync_channel(8);
        let (now, pace) = (Instant::now(), told(SLOW));
        sender.send((now + Duration::from_millis(20), 0, vec![2])).unwrap();
        sender.send((now, 0, vec![1])).unwrap();
        let (kernel, pace, written) = (&file, &pace, || file.metadata().unwrap().len());
        thread::scope(|scope| {
            scope.spawn(move || send(&receiver, kernel, pace));
            while written() < 2 {
                thread::yield_now();
            }
            sender.send((now + Duration::from_secs(1_000), 0, vec![3])).unwrap();
            drop(sender);
        });
        let mut bytes = [0; 2];
        file.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!((bytes, written()), ([1, 2], 2));
    }

    #[test]
    fn what_waits_is_answered_when_the_disk_gets_another_pace() {
        let file = tempfile::tempfile().unwrap();
        let (sender, receiver) = sync_channel(8);
        let (late, pace) = (Instant::now() + Duration::from_secs(1_000), told(SLOW));
        sender.send((late, 0, vec![1])).unwrap();
        let (kernel, pace, written) = (&file, &pace, || file.metadata().unwrap().len());
        thread::scope(|scope| {
            scope.spawn(move || send(&receiver, kernel, pace));
            follow("0 0 0 0.001\n".as_bytes(), pace);
            while written() < 1 {
                thread::yield_now();
            }
            // One whose time was found before, and comes after.
            sender.send((late, 1, vec![2])).unwrap();
            while written() < 2 {
                thread::yield_now();
            }
            drop(sender);
        });
    }

    #[test]
    fn a_disk_with_another_pace_begins_without_a_queue() {
        let (disk, kernel) = (tempfile::tempfile().unwrap(), Arc::new(tempfile::tempfile().unwrap()));
        let (bytes, pace) = (4_096, Arc::new(told(SLOW)));
        disk.set_len(bytes).unwrap();
        let schedule = Schedule::new(Instant::now());
        let mut service = Service { disk, bytes, kernel, pace: Arc::clone(&pace), schedule, times: 0 };
        let mut write = || service.answer(1, Asked::Write { at: 0, bytes: &[1; 512] });
        assert!(write().is_none(), "nothing is before it");
        assert!(write().is_some() && write().is_some());
        follow(io::empty(), &pace);
        assert!(write().is_none());
    }
}
