//! The file of a recording: a line of JSON each second, read back as series.

use super::reading::Values;
use crate::core::series::Series;
use crate::error::Error;
use crate::limits::{
    RECORDER_FILE_BYTES_MAX, RECORDER_LINES_MAX, RECORDER_NOTES_MAX, RECORDER_STEP_MS, RECORDER_VALUES_MAX,
};
use millstream_host::own_file;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;

/// What was recorded beside a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Recording {
    /// When the series begin, in seconds since 1970.
    pub started: f64,
    /// Values by name, each second. The first one is that of the first second. The unit is last in the name.
    pub series: BTreeMap<String, Series>,
    /// The same values over the whole time, by the same names, and what the recorder itself cost (`recorder.*`).
    pub summary: BTreeMap<String, f64>,
    /// What could not be recorded, and why.
    pub notes: Vec<String>,
}

/// A line of the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Line {
    /// A second: `t` is the time since the start, in seconds.
    Second { t: f64, values: Values },
    /// The first line. It is written when the first readings were taken.
    Start { recorder: u32, started: f64 },
    /// The last line.
    End { summary: Values, notes: Vec<String> },
    /// The recorder could not start.
    Error { error: String },
}

/// Version of the file's format.
pub(super) const FORMAT: u32 = 1;

/// Room that is kept for the last line.
const END_BYTES: u64 = 256 << 10;

/// Kinds of values of which most are always zero; those are left out.
const SPARSE: &[&str] = &["io.", "wait."];

/// The file while it is written.
pub(super) struct Lines {
    file: File,
    bytes: u64,
}

impl Lines {
    /// Makes the file.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn create(path: &Path) -> Result<Self, Error> {
        let file = own_file(0o644).write(true).create(true).truncate(true).open(path);
        Ok(Self { file: file.map_err(Error::io("write", path))?, bytes: 0 })
    }

    /// Appends a line. `false` if the file is full or cannot be written.
    pub(super) fn write(&mut self, line: Line) -> bool {
        let room = if matches!(line, Line::Second { .. }) { END_BYTES } else { 0 };
        let Ok(mut text) = serde_json::to_string(&rounded(line)) else { return false };
        text.push('\n');
        let bytes = self.bytes + text.len() as u64;
        if bytes + room > RECORDER_FILE_BYTES_MAX || self.file.write_all(text.as_bytes()).is_err() {
            return false;
        }
        self.bytes = bytes;
        true
    }
}

/// The line with values of four decimals, which is more than they mean, and at most as many values as a line may have.
fn rounded(line: Line) -> Line {
    let short = |values: Values| -> Values {
        let finite = values.into_iter().filter(|(_, value)| value.is_finite());
        finite.take(RECORDER_VALUES_MAX).map(|(name, value)| (name, (value * 1e4).round() / 1e4)).collect()
    };
    match line {
        Line::Second { t, values } => Line::Second { t, values: short(values) },
        Line::End { summary, mut notes } => {
            notes.truncate(RECORDER_NOTES_MAX);
            Line::End { summary: short(summary), notes }
        }
        Line::Start { .. } | Line::Error { .. } => line,
    }
}

/// Whether the recorder has taken its first readings; its error if it could not.
pub(super) fn has_started(path: &Path) -> Option<Result<(), String>> {
    let mut first = String::new();
    BufReader::new(File::open(path).ok()?.take(RECORDER_FILE_BYTES_MAX)).read_line(&mut first).ok()?;
    match serde_json::from_str(first.strip_suffix('\n')?) {
        Ok(Line::Start { .. }) => Some(Ok(())),
        Ok(Line::Error { error }) => Some(Err(error)),
        Ok(_) | Err(_) => Some(Err("its file does not begin with its start".to_owned())),
    }
}

impl Recording {
    /// Reads a file. A second without a line is a gap in the series. A file without an end has no summary.
    ///
    /// # Errors
    /// The system's, and what the recorder wrote instead of a recording.
    pub(super) fn read(path: &Path) -> Result<Self, Error> {
        let file = File::open(path).map_err(Error::io("read", path))?;
        let (mut recording, mut seconds, mut ended) = (Self::default(), Vec::new(), false);
        for line in BufReader::new(file.take(RECORDER_FILE_BYTES_MAX)).lines() {
            // What was written last may be cut off.
            match serde_json::from_str(&line.map_err(Error::io("read", path))?) {
                Ok(Line::Second { t, values }) => seconds.push((t, values)),
                Ok(Line::Start { started, .. }) => recording.started = started,
                Ok(Line::End { summary, notes }) => {
                    (recording.summary, ended) = (summary, true);
                    recording.notes.extend(notes);
                }
                Ok(Line::Error { error }) => return Err(Error::Recorder(error)),
                Err(_) => {}
            }
        }
        if !ended {
            recording.notes.push("the recorder ended before the run".to_owned());
        }
        recording.series = series(&seconds);
        Ok(recording)
    }

    /// Means of the series from one second to another, the first one being 0; seconds without a value do not count.
    pub fn means(&self, seconds: std::ops::Range<usize>) -> BTreeMap<String, f64> {
        let mean = |series: &Series| {
            let part = series.values.get(seconds.start..seconds.end.min(series.values.len()))?;
            let there: Vec<f64> = part.iter().copied().flatten().collect();
            let count = u32::try_from(there.len()).ok().filter(|count| *count > 0)?;
            Some(there.iter().sum::<f64>() / f64::from(count))
        };
        self.series.iter().filter_map(|(name, series)| Some((name.clone(), mean(series)?))).collect()
    }
}

/// One series for each name. All have the same length.
fn series(seconds: &[(f64, Values)]) -> BTreeMap<String, Series> {
    let index = |t: f64| {
        let second = (t * 1e3 / RECORDER_STEP_MS as f64).round();
        (1.0..=f64::from(RECORDER_LINES_MAX)).contains(&second).then(|| place(second))
    };
    let placed: Vec<(usize, &Values)> = seconds.iter().filter_map(|(t, values)| Some((index(*t)?, values))).collect();
    let length = placed.iter().map(|(index, _)| index + 1).max().unwrap_or(0);
    let names: BTreeSet<&String> = placed.iter().flat_map(|(_, values)| values.keys()).collect();
    let of = |name: &str| {
        let mut list = vec![None; length];
        for (index, values) in &placed {
            // A wait event that is missing in a sampled second did not happen.
            let absent = (name.starts_with("wait.") && values.contains_key("sessions.active")).then_some(0.0);
            list[*index] = values.get(name).copied().or(absent);
        }
        list
    };
    let sparse = |name: &str| SPARSE.iter().any(|prefix| name.starts_with(prefix));
    let all = names.into_iter().map(|name| (name.clone(), of(name)));
    let some = all.filter(|(name, list)| !sparse(name) || list.iter().flatten().any(|value| *value != 0.0));
    some.map(|(name, list)| (name, Series { step_seconds: RECORDER_STEP_MS as f64 / 1e3, values: list })).collect()
}

/// Index of a second, which is a whole number from 1 to the most lines.
fn place(second: f64) -> usize {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the caller has checked the range")]
    let second = second as usize;
    second - 1
}

#[cfg(test)]
mod tests {
    use super::super::reading::values as list;
    use super::*;

    fn second(t: f64, values: &[(&str, f64)]) -> Line {
        Line::Second { t, values: list(values) }
    }

    #[test]
    fn lines_become_series_with_gaps_and_a_summary() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("recording");
        assert!(has_started(&path).is_none());
        let mut lines = Lines::create(&path).unwrap();
        assert!(has_started(&path).is_none());
        lines.write(Line::Start { recorder: FORMAT, started: 5.0 });
        assert_eq!(has_started(&path), Some(Ok(())));
        lines.write(second(1.0002, &[("a", 1.00004), ("wait.CPU", 2.0), ("sessions.active", 2.0), ("io.x", 0.0)]));
        lines.write(second(3.04, &[("a", f64::NAN), ("sessions.active", 0.0)]));
        lines.write(second(1e12, &[("a", 1.0)]));
        lines.write(Line::End { summary: list(&[("a", 7.0)]), notes: vec!["n".to_owned()] });
        let recording = Recording::read(&path).unwrap();
        let of = |name: &str| recording.series[name].values.clone();
        assert_eq!((of("a"), of("wait.CPU")), (vec![Some(1.0), None, None], vec![Some(2.0), None, Some(0.0)]));
        assert_eq!(recording.series.len(), 3, "what is always zero is left out: {recording:?}");
        assert_eq!((recording.started, recording.summary["a"], recording.notes.len()), (5.0, 7.0, 1));
        assert_eq!(recording.means(0..3)["wait.CPU"], 1.0);
        assert_eq!(recording.means(1..9)["wait.CPU"], 0.0);
        assert!(recording.means(5..9).is_empty());
    }

    #[test]
    fn a_recording_that_was_cut_off_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("recording");
        std::fs::write(&path, "{\"recorder\":1,\"started\":1}\n{\"t\":1,\"values\":{\"a\":2}}\n{\"t\":2,\"val")
            .unwrap();
        let recording = Recording::read(&path).unwrap();
        assert_eq!(recording.series["a"].values, [Some(2.0)]);
        assert_eq!(recording.notes, ["the recorder ended before the run"]);
        std::fs::write(&path, "{\"error\":\"no server\"}\n").unwrap();
        assert_eq!(has_started(&path), Some(Err("no server".to_owned())));
        assert!(Recording::read(&path).unwrap_err().to_string().contains("no server"));
    }
}
