//! The disk of an arm's server, as a file or a user names it, and as it was measured.

use super::plain_text::PlainText;
use crate::core::word::unknown;
use millstream_host::limits::SLOW_DISK_TIME_MS_MAX;
use millstream_host::{FILE_SYSTEMS, Format, SlowDisk, Slowness};
use serde::de::Deserializer;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The disk that the machine has.
pub(super) const OWN: &str = "own";

/// Disks with a name. A disk of 7,200 rotations a minute needs 8.3 ms for one. Sorted writes, such as those of a checkpoint, lie
/// near each other: it begins about 300 of them a second.
const NAMED: &[(&str, Slowness)] = &[("hdd", Slowness { read_ms: 8.0, write_ms: 0.0, flush_ms: 8.3, iops: 300.0 })];

/// What may be said of a disk.
const WORDS: &[&str] = &["read_ms", "write_ms", "flush_ms", "iops", "file_system", "mount"];

/// By how much a measured flush may differ from what was asked, before a report says that it does.
const DIFFERENCE_MAX: f64 = 0.2;

/// A slow disk.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Disk {
    /// How slow it is.
    pub(crate) slowness: Slowness,
    /// What is on it.
    pub(crate) format: Format,
}

/// A slow disk, as it was asked for and as it was measured before the first run on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeasuredDisk {
    /// What makes it slow.
    pub way: String,
    /// What is on it, with the options of its mount.
    pub file_system: String,
    /// Milliseconds that a written page of 8 KiB should need until it is on the disk (`fdatasync`).
    pub asked_flush_ms: f64,
    /// The median of those that it needed; `None` if it could not be measured.
    pub flush_ms: Option<f64>,
}

impl Disk {
    /// The disk that a text names: `own`, `hdd`, or words with their values such as `flush_ms=8,iops=200`, which may follow a
    /// name. `None`: the one that the machine has, which is `own` alone.
    ///
    /// # Errors
    /// What is wrong, and what is known.
    pub(crate) fn parsed(text: &str) -> Result<Option<Self>, String> {
        let mut slowness = Slowness::default();
        let usual = FILE_SYSTEMS.first().map_or("", |one| one.name);
        let mut format = Format { file_system: usual.to_owned(), options: String::new() };
        if text == OWN {
            return Ok(None);
        }
        for part in text.split(',') {
            let Some((word, value)) = part.split_once('=') else {
                slowness = named(part)?;
                continue;
            };
            let number = || time(word, value);
            match word {
                "read_ms" => slowness.read_ms = number()?,
                "write_ms" => slowness.write_ms = number()?,
                "flush_ms" => slowness.flush_ms = number()?,
                "iops" => slowness.iops = number()?,
                "file_system" => format.file_system = known_system(value)?,
                "mount" => format.options = options(value)?,
                other => return Err(unknown("word of a disk", other, WORDS)),
            }
        }
        Ok(Some(Self { slowness, format }))
    }

    /// What was measured of it.
    pub(crate) fn measured(&self, flush_us: Option<f64>) -> MeasuredDisk {
        let Format { file_system, options } = &self.format;
        let options = if options.is_empty() { String::new() } else { format!(" ({options})") };
        MeasuredDisk {
            way: SlowDisk::WAY.to_owned(),
            file_system: format!("{file_system}{options}"),
            asked_flush_ms: self.slowness.written_ms(),
            flush_ms: flush_us.map(|us| us / 1e3),
        }
    }
}

impl MeasuredDisk {
    /// What it is, for reports.
    pub fn sentence(&self) -> String {
        let Self { way, file_system, asked_flush_ms: asked, flush_ms } = self;
        let flush = match flush_ms {
            None => "a flush could not be measured".to_owned(),
            Some(ms) if *asked <= 0.0 => format!("a flush took {ms:.2} ms, and no delay was asked for"),
            Some(ms) => {
                let difference = ms / asked - 1.0;
                let than = if difference < 0.0 { "less" } else { "more" };
                let percent = 100.0 * difference.abs();
                let mark = if difference.abs() > DIFFERENCE_MAX { ": not the disk that was asked for" } else { "" };
                format!("a flush took {ms:.2} ms, {percent:.0} % {than} than the {asked:.2} ms asked for{mark}")
            }
        };
        format!("{way}, with {file_system}; {flush}")
    }
}

/// How slow a disk of this name is.
fn named(name: &str) -> Result<Slowness, String> {
    let known = || [(OWN, Slowness::default())].into_iter().chain(NAMED.iter().copied());
    let found = known().find(|(one, _)| *one == name);
    let names = || known().map(|(name, _)| name).collect::<Vec<_>>();
    found.map(|(_, slowness)| slowness).ok_or_else(|| unknown("disk", name, &names()))
}

/// A number of milliseconds, or of reads and writes in a second.
fn time(word: &str, value: &str) -> Result<f64, String> {
    let number = value.parse::<f64>().ok().filter(|number| (0.0..=SLOW_DISK_TIME_MS_MAX).contains(number));
    // A disk that does one thing in a minute is never ready.
    let number = number.filter(|number| word != "iops" || *number == 0.0 || *number >= 1.0);
    number.ok_or_else(|| format!("{word} of a disk must be a number up to {SLOW_DISK_TIME_MS_MAX}, not {value}"))
}

fn known_system(value: &str) -> Result<String, String> {
    let names: Vec<&str> = FILE_SYSTEMS.iter().map(|one| one.name).collect();
    if names.contains(&value) { Ok(value.to_owned()) } else { Err(unknown("file system", value, &names)) }
}

/// Options of a mount. A comma would end the word, so that there is a plus between them.
fn options(value: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "+_=-.".contains(c);
    let options = value.replace('+', ",");
    if value.chars().all(is_plain) { Ok(options) } else { Err(format!("mount of a disk cannot be {value}")) }
}

/// A disk in a file: a text, or a table of its words. Both are kept as a text, in which a sweep or a user puts values.
pub(super) fn text_if_there<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected a disk such as \"hdd\", or { flush_ms = 8, iops = 200 }")]
    enum Form {
        Text(String),
        Table(BTreeMap<String, PlainText>),
    }
    Ok(Some(match Form::deserialize(deserializer)? {
        Form::Text(text) => text,
        Form::Table(words) => {
            let words = words.into_iter().map(|(word, PlainText(value))| format!("{word}={}", value.replace(',', "+")));
            words.collect::<Vec<_>>().join(",")
        }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_is_named_or_said_in_words_and_words_follow_a_name() {
        assert_eq!(Disk::parsed("own"), Ok(None));
        let hdd = Disk::parsed("hdd").unwrap().unwrap();
        assert_eq!((hdd.slowness.flush_ms, hdd.format.file_system.as_str()), (8.3, "ext4"));
        let other = Disk::parsed("hdd,flush_ms=4,file_system=xfs,mount=noatime+inode64").unwrap().unwrap();
        assert_eq!(other.slowness, Slowness { flush_ms: 4.0, ..hdd.slowness });
        let expected = Format { file_system: "xfs".to_owned(), options: "noatime,inode64".to_owned() };
        assert_eq!(other.format, expected);
        let loops = Disk::parsed("own,file_system=xfs").unwrap().unwrap();
        assert_eq!(loops.slowness, Slowness::default(), "a disk of its own as fast as the machine's");
        for (text, said) in [
            ("hd", "unknown disk \"hd\": did you mean \"hdd\"?"),
            ("flush_mss=1", "unknown word of a disk \"flush_mss\": did you mean \"flush_ms\"?"),
            ("flush_ms=-1", "flush_ms of a disk must be a number up to 10000, not -1"),
            ("iops=0.5", "iops of a disk must be a number up to 10000, not 0.5"),
            ("file_system=ext5", "unknown file system \"ext5\""),
            ("mount=a b", "mount of a disk cannot be a b"),
        ] {
            let refused = Disk::parsed(text).unwrap_err();
            assert!(refused.starts_with(said), "{text}: {refused}");
        }
    }

    #[test]
    fn a_file_says_a_disk_as_a_text_or_as_a_table() {
        #[derive(Deserialize)]
        struct File {
            #[serde(default, deserialize_with = "text_if_there")]
            disk: Option<String>,
        }
        let disk = |text: &str| toml::from_str::<File>(text).unwrap().disk;
        assert_eq!(disk(""), None);
        assert_eq!(disk("disk = 'hdd'").as_deref(), Some("hdd"));
        let table = disk("disk = { flush_ms = 8, iops = '{rate}', mount = 'noatime,lazytime' }");
        assert_eq!(table.as_deref(), Some("flush_ms=8,iops={rate},mount=noatime+lazytime"));
        assert!(toml::from_str::<File>("disk = 3").is_err());
    }

    #[test]
    fn what_was_measured_is_said_beside_what_was_asked() {
        let disk = Disk::parsed("flush_ms=8,write_ms=2,mount=noatime").unwrap().unwrap();
        let said = |us| disk.measured(us).sentence();
        let way = SlowDisk::WAY;
        let asked = "than the 10.00 ms asked for";
        assert_eq!(
            said(Some(10_500.0)),
            format!("{way}, with ext4 (noatime); a flush took 10.50 ms, 5 % more {asked}")
        );
        assert!(said(Some(9_000.0)).ends_with(&format!("a flush took 9.00 ms, 10 % less {asked}")));
        assert!(said(Some(13_000.0)).ends_with(&format!("30 % more {asked}: not the disk that was asked for")));
        assert!(said(None).ends_with("a flush could not be measured"));
        let fast = Disk::parsed("file_system=xfs").unwrap().unwrap().measured(Some(100.0)).sentence();
        assert!(fast.ends_with("a flush took 0.10 ms, and no delay was asked for"), "{fast}");
    }
}
