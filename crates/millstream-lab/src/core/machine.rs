//! The machine of a record, as far as numbers depend on it.
//!
//! No names, no paths.

use crate::core::Spread;
use crate::limits::{FLUSH_BYTES, FLUSH_TIME_MAX, FLUSHES, FLUSHES_MIN};
use serde::{Deserialize, Serialize};
use std::io::{Seek, Write};
use std::path::Path;
use std::time::Instant;

/// Facts of a machine. Unknown facts are `null`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Operating system and its kernel's release.
    pub kernel: String,
    /// Architecture.
    pub architecture: String,
    /// Model of the processor.
    pub processor: Option<String>,
    /// Processors that we may use.
    pub cores: u32,
    /// Memory that programs may use, in bytes: the smaller of the machine's memory and the tightest cgroup's limit.
    pub memory_bytes: u64,
    /// Load average of the last minute when the run began: processes that ran or waited to run.
    pub load_average: Option<f64>,
    /// The disk that the probe measured.
    pub disk: Disk,
}

/// Facts of a disk.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Disk {
    /// It holds the server's data; otherwise it holds the temporary directory.
    pub holds_data: bool,
    /// Name of the file system.
    pub file_system: Option<String>,
    /// It is a rotating disk.
    pub rotational: bool,
    /// Median time in microseconds until a page of 8 KiB is on the disk (`fdatasync`).
    pub flush_us: Option<f64>,
}

impl Machine {
    /// Examines this machine. The disk is that of `data` if we may write next to it, else that of `temporary`.
    pub fn look(data: Option<&Path>, temporary: &Path) -> Self {
        let beside = data.and_then(Path::parent).and_then(|dir| Some((dir, flush_us(dir)?)));
        let holds_data = beside.is_some();
        let (dir, flush_us) = beside.map_or_else(|| (temporary, flush_us(temporary)), |(dir, us)| (dir, Some(us)));
        let facts = millstream_host::facts(dir);
        Self {
            architecture: std::env::consts::ARCH.to_owned(),
            cores: facts.cores,
            memory_bytes: facts.usable_bytes(),
            load_average: facts.load_average,
            disk: Disk { holds_data, file_system: facts.file_system, rotational: facts.rotational, flush_us },
            kernel: facts.kernel,
            processor: facts.processor,
        }
    }

    /// Short name for a directory: cores and processor.
    pub fn slug(&self) -> String {
        let words = self.processor.as_deref().unwrap_or(&self.architecture).to_lowercase();
        let words = words.replace("(r)", "").replace("(tm)", "");
        let kept = words.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
        let kept: Vec<&str> = kept.take_while(|word| *word != "cpu" && *word != "processor").take(4).collect();
        format!("{}x-{}", self.cores, kept.join("-"))
    }
}

/// Median time in microseconds until a page is on the disk of a directory; `None` if no file can be written there. As of the
/// WAL, and as `pg_test_fsync` does it: the pages are there already, so that a flush does not also write a new size.
pub(crate) fn flush_us(dir: &Path) -> Option<f64> {
    let mut file = tempfile::tempfile_in(dir).ok()?;
    let page = [0x5a; FLUSH_BYTES];
    for _ in 0..FLUSHES {
        file.write_all(&page).ok()?;
    }
    file.sync_all().ok()?;
    file.rewind().ok()?;
    let mut times = Vec::with_capacity(FLUSHES);
    let begun = Instant::now();
    while times.len() < FLUSHES && (times.len() < FLUSHES_MIN || begun.elapsed() < FLUSH_TIME_MAX) {
        let start = Instant::now();
        file.write_all(&page).ok()?;
        file.sync_data().ok()?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    Spread::of(times).map(|times| times.median.round())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_described() {
        let dir = tempfile::tempdir().unwrap();
        let machine = Machine::look(Some(Path::new("/proc/nowhere/data")), dir.path());
        assert!(machine.cores >= 1 && !machine.kernel.is_empty(), "{machine:?}");
        assert!(!machine.disk.holds_data && machine.disk.flush_us.is_some(), "{machine:?}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "the probe leaves nothing");
        assert!(machine.slug().chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'));
    }

    #[test]
    fn a_slug_is_short() {
        let mut machine = Machine::look(None, Path::new("/tmp"));
        machine.cores = 2;
        machine.processor = Some("Intel(R) Xeon(R) Platinum 8370C CPU @ 2.80GHz".to_owned());
        assert_eq!(machine.slug(), "2x-intel-xeon-platinum-8370c");
    }
}
