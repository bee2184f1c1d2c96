//! Where the rejects of a build go: the first ones to stderr, all of them to a file.

use crate::commands::rejects::export::create;
use crate::failure::Failure;
use crate::limits::RANGE_REJECTS_SHOWN;
use crate::output::note;
use crate::progress::Printer;
use crate::quantity;
use crate::screen::visible;
use millstream_host::TargetFile;
use millstream_ranges::Reject;
use std::io::{self, BufWriter, IntoInnerError, Write};
use std::path::{Path, PathBuf};

/// The rejects of one build.
#[derive(Debug)]
pub struct Rejects {
    count: u64,
    file: Option<(PathBuf, BufWriter<TargetFile>)>,
    failed: Option<io::Error>,
}

impl Rejects {
    /// Begins the file, if one is named. What an earlier build wrote there stays until there is something to replace it.
    ///
    /// # Errors
    /// The file cannot be written, or holds anything but rejects.
    pub fn open(path: Option<&Path>) -> Result<Self, Failure> {
        let open = |path: &Path| Ok::<_, Failure>((path.to_owned(), BufWriter::new(create(path, is_reject)?)));
        Ok(Self { count: 0, file: path.map(open).transpose()?, failed: None })
    }

    /// Takes a reject.
    pub fn add(&mut self, reject: &Reject, printer: &Printer) {
        if self.count < RANGE_REJECTS_SHOWN {
            printer.line(&visible(&format!("{}:{}: {}", reject.source, reject.line, reject.reason)));
        }
        self.count += 1;
        if let Some((_, file)) = &mut self.file
            && self.failed.is_none()
        {
            let written = serde_json::to_writer(&mut *file, reject).map_err(io::Error::from);
            self.failed = written.and_then(|()| file.write_all(b"\n")).err();
        }
    }

    /// Whether the file cannot be written. Then the build must end: its rejects would be lost.
    pub fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Ends the file, and says how many rejects were not printed.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(&mut self, is_built: bool) -> Result<(), Failure> {
        let Some((path, file)) = self.file.take() else {
            if self.count > RANGE_REJECTS_SHOWN {
                let all = quantity::things(self.count, "reject");
                note(&format!("these are {RANGE_REJECTS_SHOWN} of {all}; --rejects FILE writes all"));
            }
            return Ok(());
        };
        let ended = match self.failed.take() {
            Some(error) => Err(error),
            // A build that never began, because another one runs, must not replace the other one's file.
            None if self.count == 0 && !is_built => Ok(()),
            None => file.into_inner().map_err(IntoInnerError::into_error).and_then(TargetFile::finish),
        };
        ended.map_err(Failure::cannot("write", &path))?;
        if self.count > 0 {
            note(&format!("{} in {}", quantity::things(self.count, "reject"), path.display()));
        }
        Ok(())
    }
}

/// Whether a line is a reject as we write it.
fn is_reject(line: &str) -> bool {
    let value: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
    ["source", "line", "reason", "text"].iter().all(|member| value.get(member).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::{Progress, ProgressChoice};
    use millstream_engine::Tally;
    use std::sync::Arc;

    fn reject(line: u64) -> Reject {
        Reject { source: "a.csv".into(), line, reason: "the address is empty".into(), text: ",,".into() }
    }

    #[test]
    fn rejects_of_an_earlier_build_are_replaced_and_other_files_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("rejects.ndjson");
        let printer = Progress::start(ProgressChoice::None, Arc::new(Tally::default())).printer();
        let run = |lines: &[u64], is_built: bool| {
            let mut rejects = Rejects::open(Some(&path)).unwrap();
            lines.iter().for_each(|line| rejects.add(&reject(*line), &printer));
            rejects.finish(is_built).unwrap();
            std::fs::read_to_string(&path).unwrap().lines().count()
        };
        assert_eq!(run(&[1, 2, 3], true), 3);
        assert_eq!(run(&[], false), 3, "a build that did not begin");
        assert_eq!(run(&[4], false), 1);
        assert_eq!(run(&[], true), 0);
        std::fs::write(&path, "1.0.0.0,1.0.0.255,AU\n").unwrap();
        assert!(Rejects::open(Some(&path)).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "1.0.0.0,1.0.0.255,AU\n");
    }
}
