//! A record of an experiment with pgbench: its conditions and every run, as a file.

use super::conditions::{Conditions, Request};
use super::files::Source;
use crate::core::{Disk, Machine, Run, record_file};
use crate::error::Error;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Version of the format.
const FORMAT: u32 = 3;

/// What such a record says of its kind.
const KIND: &str = "pgbench";

/// An experiment with pgbench, as it was run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Version of the format.
    pub format: u32,
    /// `pgbench`.
    pub kind: String,
    /// When it began, UTC, RFC 3339.
    pub date: String,
    /// The command, without directories and passwords.
    pub argv: Vec<String>,
    /// The version of Millstream that ran it.
    pub version: String,
    /// The machine of pgbench, and of the server if that is the lab's own.
    pub machine: Machine,
    /// What was asked, and how it was run.
    pub conditions: Conditions,
    /// Every run, in chronological order.
    pub runs: Vec<Run>,
}

impl Record {
    /// Whether the text of a file is such a record.
    pub fn is_kind(text: &serde_json::Value) -> bool {
        text.get("kind").and_then(serde_json::Value::as_str) == Some(KIND)
    }

    /// Reads a record: a file, plain or compressed with zstd, or the directory that holds it. `None` if it is a record
    /// of another kind.
    ///
    /// # Errors
    /// Errors of the disk; [`Error::Record`] if a later version wrote it, or it is damaged.
    pub fn read(path: &Path) -> Result<Option<Self>, Error> {
        let path = record_file::file_of(path);
        let text = record_file::read(&path)?;
        let wrong = |why: String| Error::Record { path: path.clone(), why };
        let value: serde_json::Value = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        if !Self::is_kind(&value) {
            return Ok(None);
        }
        let format = value.get("format").and_then(serde_json::Value::as_u64).unwrap_or(0);
        if format > u64::from(FORMAT) {
            return Err(wrong(format!("its format is {format}, this version knows those up to {FORMAT}")));
        }
        serde_json::from_value(value).map(Some).map_err(|error| wrong(error.to_string()))
    }

    /// The disk that numbers depend on: that of the lab's own server, else that of the temporary directory.
    pub fn disk(&self) -> &Disk {
        self.conditions.disk.as_ref().unwrap_or(&self.machine.disk)
    }

    /// Writes the record into a directory. A reader sees the old file or the new one, never a part of one.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn write(&self, dir: &Path) -> Result<PathBuf, Error> {
        let text = serde_json::to_string_pretty(self).map_err(|error| Error::Wrong(error.to_string()))?;
        record_file::write(&(text + "\n"), dir)
    }

    /// The directory and the record of a new run; or those of an interrupted one of the same experiment, to go on with.
    ///
    /// # Errors
    /// The directory holds another run, or cannot be made.
    pub fn open(
        source: &Source,
        request: &Request,
        conditions: Conditions,
        out: Option<&Path>,
        argv: Vec<String>,
    ) -> Result<(PathBuf, Self), Error> {
        let machine = Machine::look(None, &std::env::temp_dir());
        if let Some(dir) = out.filter(|dir| record_file::file_of(dir).exists()) {
            let path = record_file::file_of(dir);
            let refuse = |why: &str| Error::Record { path: path.clone(), why: why.to_owned() };
            let found = Self::read(dir)?.ok_or_else(|| refuse("it holds a record of another kind"))?;
            let same = found.conditions.experiment == source.experiment
                && found.conditions.files == source.files
                && found.conditions.seed == request.seed
                && found.conditions.seconds == conditions.seconds
                && found.conditions.quick == conditions.quick;
            if !same {
                return Err(refuse("it holds another run; records are never overwritten"));
            }
            if found.machine.kernel != machine.kernel || found.machine.processor != machine.processor {
                return Err(refuse("it was begun on another machine or kernel"));
            }
            return Ok((dir.to_owned(), found));
        }
        let date = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        let slug = format!("{}-{}", machine.slug(), source.experiment.name);
        let dir = record_file::new_dir(out, &date, &slug)?;
        let (kind, version) = (KIND.to_owned(), env!("CARGO_PKG_VERSION").to_owned());
        let record = Self { format: FORMAT, kind, date, argv, version, machine, conditions, runs: Vec::new() };
        Ok((dir, record))
    }
}
