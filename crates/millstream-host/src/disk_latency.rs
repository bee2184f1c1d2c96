//! How fast a disk answers.

use std::fs::OpenOptions;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

/// Bytes of a read, and what its place in memory and on the disk must be a multiple of.
const BLOCK: usize = 4096;

/// The median time of reads of 4 KiB at random places of a device or a file, past the page cache. Stops after so many
/// reads, or when the time is over.
///
/// # Errors
/// It cannot be opened or read like that: a device belongs to root, and a file system may not allow it.
pub fn disk_latency(path: &Path, reads: usize, limit: Duration) -> io::Result<Duration> {
    // The flags of `open` are an int in C.
    let direct = rustix::fs::OFlags::DIRECT.bits() as i32;
    let mut file = OpenOptions::new().read(true).custom_flags(direct).open(path)?;
    let blocks = file.seek(SeekFrom::End(0))? / BLOCK as u64;
    if blocks == 0 {
        return Err(io::Error::other("it is empty"));
    }
    let mut memory = vec![0_u8; 2 * BLOCK];
    let start = memory.as_ptr().align_offset(BLOCK).min(BLOCK);
    let buffer = &mut memory[start..start + BLOCK];
    let (random, begun) = (RandomState::new(), Instant::now());
    let mut times = Vec::new();
    while times.len() < reads && (times.is_empty() || begun.elapsed() < limit) {
        let block = random.hash_one(times.len()) % blocks;
        let asked = Instant::now();
        file.read_exact_at(buffer, block * BLOCK as u64)?;
        times.push(asked.elapsed());
    }
    times.sort();
    times.get(times.len() / 2).copied().ok_or_else(|| io::Error::other("no reads were asked for"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_or_missing_file_has_no_latency() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("disk");
        assert!(disk_latency(&file, 8, Duration::from_secs(1)).is_err());
        std::fs::write(&file, "").unwrap();
        assert!(disk_latency(&file, 8, Duration::from_secs(1)).is_err());
    }
}
