//! Names of files of WAL.

use crate::error::Error;
use crate::limits::WAL_FILES_MAX;
use millstream_model::Refusal;

/// The WAL that a backup needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Range {
    pub(super) timeline: u32,
    pub(super) start: u64,
    pub(super) stop: u64,
}

impl Range {
    /// The range from where the label of a backup says to where it was stopped.
    ///
    /// # Errors
    /// The label says nothing of the kind.
    pub(super) fn of(label: &str, stop: u64) -> Result<Self, Error> {
        let line = |name: &str| label.lines().find_map(|line| line.strip_prefix(name));
        let start = line("START WAL LOCATION: ").and_then(|rest| lsn(rest.split(' ').next()?));
        let timeline = line("START TIMELINE: ").and_then(|text| text.trim().parse().ok());
        let (Some(start), Some(timeline)) = (start, timeline) else {
            return Err(Refusal::new("the server's label of the backup has no start").into());
        };
        if start > stop {
            return Err(Refusal::new("the server says that the backup ended before it began").into());
        }
        Ok(Self { timeline, start, stop })
    }

    /// The names of its files, each of so many bytes.
    ///
    /// # Errors
    /// There are more than a backup can have made.
    pub(super) fn files(&self, segment_bytes: u64) -> Result<Vec<String>, Error> {
        let first = self.start / segment_bytes;
        // What ends at the beginning of a file is in the one before.
        let last = self.stop.saturating_sub(1) / segment_bytes;
        let of_id = (1_u64 << 32) / segment_bytes;
        let name = |number: u64| format!("{:08X}{:08X}{:08X}", self.timeline, number / of_id, number % of_id);
        if last.saturating_sub(first) >= WAL_FILES_MAX {
            let says = format!("the server says that the copy needs more than {WAL_FILES_MAX} files of WAL");
            return Err(Refusal::new(says).into());
        }
        Ok((first..=last).map(name).collect())
    }
}

/// A position in WAL as PostgreSQL prints it.
pub(super) fn lsn(text: &str) -> Option<u64> {
    let (high, low) = text.split_once('/')?;
    let number = |text: &str| u32::from_str_radix(text, 16).ok();
    Some(u64::from(number(high)?) << 32 | u64::from(number(low)?))
}

/// A position in WAL as PostgreSQL prints it.
pub(super) fn lsn_text(lsn: u64) -> String {
    format!("{:X}/{:X}", lsn >> 32, lsn & 0xffff_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_of_a_backup_are_those_between_its_ends() {
        let label = "START WAL LOCATION: 1/FE000028 (file 00000003000000010000007F)\nSTART TIMELINE: 3\n";
        let range = Range::of(label, lsn("2/2000000").unwrap()).unwrap();
        let files = range.files(16 << 20).unwrap();
        let expected = ["0000000300000001000000FE", "0000000300000001000000FF", "000000030000000200000000"];
        assert_eq!((&files[..3], files.len()), (&expected.map(str::to_owned)[..], 4));
        assert_eq!(files[3], "000000030000000200000001");
        assert_eq!(lsn_text(range.start), "1/FE000028");
        assert!(Range::of("LABEL: x", 1).is_err() && lsn("x/1").is_none());
        assert!(Range::of(label, 1).is_err() && Range::of(label, u64::MAX).unwrap().files(1 << 20).is_err());
    }
}
