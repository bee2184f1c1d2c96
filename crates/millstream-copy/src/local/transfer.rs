//! Moves the bytes of a file: read and hashed, or cloned by the file system.

use super::pace::Pace;
use crate::entry::{Hash, is_sparse, size_of};
use crate::hasher::{Hasher, Hashing};
use crate::limits::BUFFER_BYTES;
use crate::tally::Tally;
use rustix::fd::OwnedFd;
use rustix::fs::{SeekFrom, copy_file_range, fstat, fstatfs, ioctl_ficlone, seek};
use rustix::io::{Errno, pread, pwrite};
use std::io;
use std::ops::Range;

/// Why a transfer ended early.
#[derive(Debug)]
pub(super) enum Ended {
    /// The source cannot be read.
    Source(io::Error),
    /// The destination cannot be written.
    Destination(io::Error),
    /// Somebody has stopped the copy.
    Stopped,
}

/// Reads bytes of one file and writes them to the same place in another.
pub(super) struct Transfer<'a> {
    pub(super) source: &'a OwnedFd,
    pub(super) destination: &'a OwnedFd,
    /// Whether parts of the source take no room on its disk. They take none at the destination either.
    pub(super) is_sparse: bool,
    pub(super) pace: &'a Pace,
    pub(super) tally: &'a Tally,
}

impl Transfer<'_> {
    /// Moves a range, and gives its bytes to `hash`. Returns how many there were: fewer than asked for if the source has
    /// become shorter.
    pub(super) fn run(&self, range: Range<u64>, mut hash: impl FnMut(&[u8]), buffer: &mut [u8]) -> Result<u64, Ended> {
        let mut at = range.start;
        while at < range.end {
            let part = match self.is_sparse {
                true => part(self.source, at, range.end).map_err(Ended::Source)?,
                false => Part::Data(range.end),
            };
            let moved = match part {
                Part::Data(end) => self.data(at..end, &mut hash, buffer)?,
                Part::Hole(end) if zeros(end - at, &mut hash, self.tally) => end - at,
                Part::Hole(_) => return Err(Ended::Stopped),
            };
            let end = part.end();
            at += moved;
            if at < end {
                break;
            }
        }
        Ok(at - range.start)
    }

    fn data(&self, range: Range<u64>, mut hash: impl FnMut(&[u8]), buffer: &mut [u8]) -> Result<u64, Ended> {
        let mut at = range.start;
        while at < range.end {
            if self.tally.is_stopped() {
                return Err(Ended::Stopped);
            }
            let most = usize::try_from(range.end - at).map_or(buffer.len(), |left| left.min(buffer.len()));
            let read = match pread(self.source, &mut buffer[..most], at) {
                Ok(0) => break,
                Ok(read) => read,
                Err(Errno::INTR) => continue,
                Err(error) => return Err(Ended::Source(error.into())),
            };
            let bytes = &buffer[..read];
            hash(bytes);
            self.pace.take(read as u64, self.tally);
            write_all(self.destination, bytes, at).map_err(Ended::Destination)?;
            at += read as u64;
        }
        Ok(at - range.start)
    }
}

#[derive(Debug, Clone, Copy)]
enum Part {
    /// Bytes up to here.
    Data(u64),
    /// Nothing up to here.
    Hole(u64),
}

impl Part {
    fn end(self) -> u64 {
        match self {
            Self::Data(end) | Self::Hole(end) => end,
        }
    }
}

/// What begins at a place of a file, up to `most`.
fn part(file: &OwnedFd, at: u64, most: u64) -> io::Result<Part> {
    let data = match seek(file, SeekFrom::Data(at)) {
        Ok(data) => data,
        // There is only a hole up to the end.
        Err(Errno::NXIO) => return Ok(Part::Hole(most)),
        Err(Errno::INVAL | Errno::OPNOTSUPP) => at,
        Err(error) => return Err(error.into()),
    };
    if data > at {
        return Ok(Part::Hole(data.min(most)));
    }
    let hole = seek(file, SeekFrom::Hole(at)).unwrap_or(most);
    Ok(Part::Data(if hole > at { hole.min(most) } else { most }))
}

/// Gives so many zeros to `hash`, which nobody has to read. `false` if somebody has stopped the copy.
fn zeros(mut count: u64, mut hash: impl FnMut(&[u8]), tally: &Tally) -> bool {
    static ZEROS: [u8; BUFFER_BYTES] = [0; BUFFER_BYTES];
    while count > 0 {
        if tally.is_stopped() {
            return false;
        }
        let part = usize::try_from(count).map_or(ZEROS.len(), |count| count.min(ZEROS.len()));
        hash(&ZEROS[..part]);
        count -= part as u64;
    }
    true
}

fn write_all(file: &OwnedFd, mut bytes: &[u8], mut at: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match pwrite(file, bytes, at) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                bytes = &bytes[written..];
                at += written as u64;
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// The hash of a file's bytes. Holes are not read. `None` if somebody has stopped the copy.
pub(crate) fn hash(hashing: Hashing, file: &OwnedFd, tally: &Tally, buffer: &mut [u8]) -> io::Result<Option<Hash>> {
    let mut hasher = Hasher::new(hashing);
    let stat = fstat(file)?;
    let sparse = if is_sparse(&stat) { size_of(&stat) } else { 0 };
    let (mut at, mut data_end) = (0, 0);
    loop {
        if tally.is_stopped() {
            return Ok(None);
        }
        if at >= data_end && at < sparse {
            match part(file, at, sparse)? {
                Part::Data(end) => data_end = end,
                Part::Hole(end) if zeros(end - at, |bytes| hasher.update(bytes), tally) => {
                    at = end;
                    continue;
                }
                Part::Hole(_) => return Ok(None),
            }
        }
        let most = usize::try_from(data_end.saturating_sub(at)).unwrap_or(usize::MAX).min(buffer.len());
        let most = if most == 0 { buffer.len() } else { most };
        match pread(file, &mut buffer[..most], at) {
            Ok(0) => return Ok(Some(hasher.finish())),
            Ok(read) => {
                hasher.update(&buffer[..read]);
                at += read as u64;
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Bytes for a worker to read into.
pub(crate) fn buffer() -> Vec<u8> {
    vec![0; BUFFER_BYTES]
}

/// Lets the file system share the bytes of two files. `false` if it cannot.
pub(super) fn clone(source: &OwnedFd, destination: &OwnedFd) -> io::Result<bool> {
    match ioctl_ficlone(destination, source) {
        Ok(()) => Ok(true),
        Err(Errno::OPNOTSUPP | Errno::XDEV | Errno::INVAL | Errno::NOTTY | Errno::NOSYS | Errno::TXTBSY) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Lets the server of a network file system copy the bytes. Returns how many.
pub(super) fn copy_on_server(source: &OwnedFd, destination: &OwnedFd, size: u64) -> io::Result<u64> {
    let (mut from, mut to) = (0, 0);
    while from < size {
        let left = usize::try_from(size - from).unwrap_or(usize::MAX).min(1 << 30);
        match copy_file_range(source, Some(&mut from), destination, Some(&mut to), left) {
            Ok(0) => break,
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(from)
}

/// Whether a file lies on another machine, which can copy it by itself.
pub(super) fn is_on_server(folder: &OwnedFd) -> bool {
    // NFS, CIFS, SMB 2 and Ceph, by the numbers in linux/magic.h and their own headers.
    const SERVERS: [u32; 4] = [0x6969, 0xff53_4d42, 0xfe53_4d42, 0x00c3_6400];
    fstatfs(folder).is_ok_and(|found| SERVERS.iter().any(|magic| i128::from(*magic) == i128::from(found.f_type)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::unix::fs::{FileExt, MetadataExt};

    #[test]
    fn holes_stay_holes_and_hash_as_zeros() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        let file = File::create(&from).unwrap();
        file.set_len(9 << 20).unwrap();
        file.write_all_at(b"some bytes", 5 << 20).unwrap();
        let source: OwnedFd = File::open(&from).unwrap().into();
        let destination = File::create(&to).unwrap();
        destination.set_len(9 << 20).unwrap();
        let destination: OwnedFd = destination.into();
        let (pace, tally) = (Pace::new(None), Tally::default());
        let transfer =
            Transfer { source: &source, destination: &destination, is_sparse: true, pace: &pace, tally: &tally };
        let mut hasher = blake3::Hasher::new();
        assert_eq!(transfer.run(0..9 << 20, |bytes| _ = hasher.update(bytes), &mut buffer()).unwrap(), 9 << 20);
        let bytes = std::fs::read(&from).unwrap();
        assert_eq!(std::fs::read(&to).unwrap(), bytes);
        assert_eq!(hasher.finalize(), blake3::hash(&bytes));
        let read = hash(Hashing::Blake3, &source, &tally, &mut buffer()).unwrap();
        assert_eq!(read, Some(*blake3::hash(&bytes).as_bytes()));
        assert!(std::fs::metadata(&to).unwrap().blocks() <= std::fs::metadata(&from).unwrap().blocks());
        // A source that has become shorter.
        assert_eq!(transfer.run(8 << 20..10 << 20, |_| {}, &mut buffer()).map_err(|_| ()), Ok(2 << 20));
    }

    #[test]
    fn a_server_may_copy_a_file_by_itself() {
        let dir = tempfile::tempdir().unwrap();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        let bytes = b"0123456789".repeat(100_000);
        std::fs::write(&from, &bytes).unwrap();
        let source: OwnedFd = File::open(&from).unwrap().into();
        let destination: OwnedFd = File::create(&to).unwrap().into();
        assert_eq!(copy_on_server(&source, &destination, bytes.len() as u64).unwrap(), bytes.len() as u64);
        assert_eq!(std::fs::read(&to).unwrap(), bytes);
        assert!(!is_on_server(&source));
    }
}
