//! A record: everything that a run of the lab measured, and its conditions.

use super::build::Build;
use super::data_set::DataSet;
use super::format::{FORMAT, upgrade};
use super::machine::Machine;
use super::record_file;
use super::run::Run;
use super::server::Server;
use crate::error::Error;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// One or more experiments that were run one after the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// [`FORMAT`] of the file.
    pub format: u32,
    /// When it began, UTC, RFC 3339.
    pub date: String,
    /// The command, without directories and passwords.
    pub argv: Vec<String>,
    /// Seed of the data and the orders.
    pub seed: u64,
    /// Names of the experiments, in the order in which they were run.
    pub experiments: Vec<String>,
    /// The binary that was measured, or that ran the lab.
    pub build: Build,
    /// The machine of the clients.
    pub machine: Machine,
    /// The server.
    pub server: Server,
    /// Versions of the other programs that were measured, or that measured.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<String, String>,
    /// What could not be measured, each with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub absent: Vec<String>,
    /// Conditions of the experiments that load documents, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ingest: Option<IngestConditions>,
    /// Every measurement, in chronological order.
    pub runs: Vec<Run>,
}

/// Conditions that only experiments have that load documents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IngestConditions {
    /// Requested rounds.
    pub rounds: u32,
    /// Connections of Millstream and of COPY.
    pub lanes: u16,
    /// The statement that made every subject's table, as the binary gave it.
    pub table: String,
    /// What was loaded.
    pub data_sets: Vec<DataSet>,
}

impl Record {
    /// Reads a record of any format so far: a file, plain or compressed with zstd, or the directory that holds it.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Record`] if the file is not a record, or a later version wrote it.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let path = &record_file::file_of(path);
        let text = record_file::read(path)?;
        let wrong = |why: String| Error::Record { path: path.to_owned(), why };
        let value: Value = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        match value.get("format").and_then(Value::as_u64) {
            None => Err(wrong("it has no format".to_owned())),
            Some(format) if format > u64::from(FORMAT) => {
                Err(wrong(format!("its format is {format}, this version knows those up to {FORMAT}")))
            }
            Some(_) => serde_json::from_value(upgrade(value)).map_err(|error| wrong(error.to_string())),
        }
    }

    /// Writes the record into a directory. A reader sees the old file or the new one, never a part of one.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn write(&self, dir: &Path) -> Result<PathBuf, Error> {
        let text = serde_json::to_string_pretty(self).map_err(|error| Error::Wrong(error.to_string()))?;
        record_file::write(&(text + "\n"), dir)
    }

    /// What the experiments that load documents loaded.
    pub fn data_sets(&self) -> &[DataSet] {
        self.ingest.as_ref().map_or(&[], |ingest| &ingest.data_sets)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::core::Outcome;
    use std::fs;

    fn read(name: &str) -> Record {
        Record::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)).unwrap()
    }

    /// A record of format 1, made by hand with round numbers.
    pub(crate) fn fixture() -> Record {
        read("record-1.json")
    }

    #[test]
    fn records_of_every_format_are_read_and_written_alike() {
        for name in ["record-1.json", "record-1-measured.json.zst", "record-2.json"] {
            let record = read(name);
            assert_eq!((record.format, record.experiments.len()), (FORMAT, 1), "{name}");
            let dir = tempfile::tempdir().unwrap();
            let path = record.write(dir.path()).unwrap();
            assert_eq!(Record::read(&path).unwrap(), record, "{name}");
        }
    }

    #[test]
    fn a_record_of_format_2_keeps_its_conditions_and_its_numbers() {
        let record = read("record-2.json");
        let ingest = record.ingest.as_ref().unwrap();
        assert_eq!((ingest.rounds, ingest.lanes, record.data_sets()[0].documents), (1, 2, 1_000));
        assert!(ingest.table.starts_with("create table"));
        let [first, _, third, failed] = &record.runs[..] else { panic!("{record:?}") };
        assert_eq!((first.arm.as_str(), first.block, first.turn), ("copy", 1, 1));
        assert_eq!((first.factor("durability"), first.factor("round_trip_ms")), (Some("durable"), Some("0")));
        assert_eq!((first.value("rows"), first.value("stored")), (Some(1_000.0), Some(1_000.0)));
        assert_eq!((first.value("client_peak_bytes"), first.receipt_number("lanes")), (None, None));
        assert_eq!((third.factor("durability"), third.factor("round_trip_ms")), (Some("async"), Some("5")));
        assert_eq!((third.value("stored"), third.value("checkpoint_seconds")), (Some(990.0), Some(0.5)));
        assert_eq!(third.receipt_number("superseded"), Some(10.0));
        assert!(matches!(&failed.outcome, Outcome::Error(why) if why.contains("999 rows")));
    }

    #[test]
    fn files_that_are_no_records_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.json");
        let texts = [("{", "EOF"), ("{}", "no format"), ("{\"format\":4}", "up to 3"), ("{\"format\":1}", "missing")];
        for (text, word) in
            texts.into_iter().chain([("{\"format\":2,\"samples\":[7]}", "missing"), ("[]", "no format")])
        {
            fs::write(&path, text).unwrap();
            let error = Record::read(&path).unwrap_err().to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
    }
}
