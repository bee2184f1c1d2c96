//! Earlier looks at a server: a report of the doctor, or the record of `doctor watch`.

use crate::failure::Failure;
use millstream_change::State;
use millstream_doctor::limits::{FILE_BYTES_MAX, RECORDED_LOOKS_MAX};
use millstream_doctor::{Report, Snapshot};
use millstream_host::{read_at_most, write_target};
use std::path::Path;

/// What a report is compared with.
#[derive(Debug)]
pub enum Earlier {
    /// A report of the doctor.
    Report(Box<Report>),
    /// The oldest look of a record.
    Record(Snapshot),
}

impl Earlier {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or is neither.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let text = read_at_most(path, FILE_BYTES_MAX, None)?;
        if let Some(first) = recorded(&text).next() {
            return Ok(Self::Record(first));
        }
        serde_json::from_str(&text).map(|report| Self::Report(Box::new(report))).map_err(|error| {
            Failure::user(format!("{} is neither a report nor a record of the doctor: {error}", path.display()))
                .hint("make one with millstream doctor --output json > FILE, or with doctor watch --record FILE")
        })
    }

    /// What the server had counted then.
    pub fn snapshot(&self) -> Option<&Snapshot> {
        match self {
            Self::Report(report) => report.snapshot.as_ref(),
            Self::Record(snapshot) => Some(snapshot),
        }
    }

    /// Adds to a report what differs from it, with the changes of ours that did it.
    ///
    /// # Errors
    /// It is of another server.
    pub fn compared(&self, report: Report) -> Result<Report, Failure> {
        let both = self.snapshot().zip(report.snapshot.as_ref());
        if both.is_some_and(|(before, now)| !before.is_of_same_server(now)) {
            return Err(Failure::user("the earlier look is of another server")
                .hint("give --since a report or a record of this server"));
        }
        let mut report = match self {
            Self::Report(earlier) => report.since(earlier),
            Self::Record(snapshot) => report.since_snapshot(snapshot),
        };
        let since = self.snapshot().map_or(0.0, |snapshot| snapshot.at);
        let made = crate::changes::journal().ok().and_then(|journal| journal.entries().ok()).unwrap_or_default();
        let made: Vec<_> = made
            .iter()
            .filter(|entry| entry.kind == "setting" && entry.since() as f64 >= since.floor())
            .filter(|entry| entry.server.as_ref().is_none_or(|server| *server == report.target))
            .collect();
        let settings = report.changes.iter_mut().filter_map(|changes| changes.difference.as_mut());
        for setting in settings.flat_map(|difference| &mut difference.settings) {
            let is_it = |state: State| matches!(state, State::Verified | State::Confirmed | State::Closed);
            let last = made.iter().rev().find(|entry| entry.target == setting.name && is_it(entry.state));
            setting.change = last.map(|entry| entry.number);
        }
        Ok(report)
    }
}

/// Adds a look to a record. The oldest ones go, so that the file keeps its size.
///
/// # Errors
/// It cannot be written, or holds something else.
pub fn record(path: &Path, look: &Snapshot) -> Result<(), Failure> {
    let text = if path.exists() { read_at_most(path, FILE_BYTES_MAX, None)? } else { String::new() };
    let lines: Vec<&str> = text.lines().collect();
    if let Some(first) = recorded(&text).next().filter(|first| !first.is_of_same_server(look)) {
        return Err(Failure::user(format!("{} has looks at another server, {}", path.display(), first.system))
            .hint("name another file, one for each server"));
    }
    if let Some(at) = lines.iter().position(|line| serde_json::from_str::<Snapshot>(line).is_err()) {
        return Err(Failure::user(format!("{}, line {}: this is no look of doctor watch", path.display(), at + 1))
            .hint("name another file, or one that does not exist"));
    }
    let look = serde_json::to_string(look).map_err(|error| Failure::user("cannot write a look").because(&error))?;
    let mut kept: Vec<&str> = lines.into_iter().chain([look.as_str()]).collect();
    let size = |kept: &[&str]| kept.iter().map(|line| line.len() as u64 + 1).sum::<u64>();
    while kept.len() > 1 && (kept.len() > RECORDED_LOOKS_MAX || size(&kept) > FILE_BYTES_MAX) {
        kept.remove(0);
    }
    let failed = Failure::cannot("write", path);
    write_target(path, &(kept.join("\n") + "\n")).map_err(failed)
}

fn recorded(text: &str) -> impl Iterator<Item = Snapshot> {
    text.lines().map_while(|line| serde_json::from_str(line).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_keeps_the_latest_looks_and_refuses_other_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("looks");
        for at in 0..=RECORDED_LOOKS_MAX {
            record(&path, &Snapshot { at: at as f64, ..Snapshot::default() }).unwrap();
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let looks: Vec<Snapshot> = recorded(&text).collect();
        assert_eq!((looks.len(), looks[0].at), (RECORDED_LOOKS_MAX, 1.0));
        assert!(matches!(Earlier::read(&path).unwrap(), Earlier::Record(first) if first == looks[0]));

        let other = dir.path().join("other");
        std::fs::write(&other, "hello\n").unwrap();
        let refused = record(&other, &Snapshot::default()).unwrap_err().to_string();
        assert!(refused.contains("line 1: this is no look"), "{refused}");
        assert_eq!(std::fs::read_to_string(&other).unwrap(), "hello\n");
        let refused = Earlier::read(&other).unwrap_err().to_string();
        assert!(refused.contains("is neither a report nor a record"), "{refused}");
    }
}
