//! The machine of a record, as far as numbers depend on it.
//!
//! No names, no paths.

use crate::limits::{FLUSH_BYTES, FLUSHES};
use crate::spread::Spread;
use millstream_local::Facts;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::MetadataExt;
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
        let beside = data.and_then(Path::parent);
        let disk = beside.and_then(|dir| Disk::look(dir, true)).or_else(|| Disk::look(temporary, false));
        let facts = Facts::gather(temporary);
        let release = first_line("/proc/sys/kernel/osrelease").unwrap_or_default();
        Self {
            kernel: format!("{} {release}", std::env::consts::OS).trim().to_owned(),
            architecture: std::env::consts::ARCH.to_owned(),
            processor: colon_value("/proc/cpuinfo", "model name"),
            cores: facts.cores,
            memory_bytes: facts.usable_bytes(),
            load_average: first_line("/proc/loadavg").and_then(|line| line.split(' ').next()?.parse().ok()),
            disk: disk.unwrap_or(Disk { holds_data: false, file_system: None, rotational: false, flush_us: None }),
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

impl Disk {
    /// `None` if no file can be made there.
    fn look(dir: &Path, holds_data: bool) -> Option<Self> {
        let mut file = tempfile::tempfile_in(dir).ok()?;
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let device = fs::metadata(dir).ok()?.dev();
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        Some(Self {
            holds_data,
            file_system: file_system(&mounts, &format!("{major}:{minor}")),
            rotational: Facts::gather(dir).rotational,
            flush_us: flush_us(&mut file).ok().flatten(),
        })
    }
}

fn flush_us(file: &mut File) -> std::io::Result<Option<f64>> {
    let page = [0x5a; FLUSH_BYTES];
    let mut times = Vec::with_capacity(FLUSHES);
    for _ in 0..FLUSHES {
        file.write_all(&page)?;
        let start = Instant::now();
        file.sync_data()?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    Ok(Spread::of(times).map(|times| times.median.round()))
}

/// The type of the file system on a device, from proc(5)'s mountinfo.
fn file_system(mounts: &str, device: &str) -> Option<String> {
    let line = mounts.lines().find(|line| line.split(' ').nth(2) == Some(device))?;
    let (_, rest) = line.split_once(" - ")?;
    Some(rest.split(' ').next()?.to_owned())
}

fn first_line(path: &str) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.lines().next()?.to_owned())
}

/// The value of the first line `name : value` of one of the kernel's files.
fn colon_value(path: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let mut pairs = text.lines().filter_map(|line| line.split_once(':'));
    pairs.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_can_be_looked_at() {
        let dir = tempfile::tempdir().unwrap();
        let machine = Machine::look(Some(Path::new("/proc/nowhere/data")), dir.path());
        assert!(machine.cores >= 1 && !machine.kernel.is_empty(), "{machine:?}");
        assert!(!machine.disk.holds_data && machine.disk.flush_us.is_some(), "{machine:?}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "the probe leaves nothing");
        assert!(machine.slug().chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-'));
    }

    #[test]
    fn a_slug_is_short() {
        let mut machine = Machine::look(None, Path::new("/tmp"));
        machine.cores = 2;
        machine.processor = Some("Intel(R) Xeon(R) Platinum 8370C CPU @ 2.80GHz".to_owned());
        assert_eq!(machine.slug(), "2x-intel-xeon-platinum-8370c");
    }

    #[test]
    fn a_file_system_is_told_by_its_device() {
        let mounts = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n30 22 0:26 / /tmp rw shared:3 - tmpfs tmpfs rw\n";
        assert_eq!(file_system(mounts, "0:26").as_deref(), Some("tmpfs"));
        assert_eq!(file_system(mounts, "9:9"), None);
    }
}
