//! A record: everything that a run measured and its conditions, as a file.

use crate::build::Build;
use crate::data_set::DataSet;
use crate::error::Error;
use crate::limits::{NAME_TRIES_MAX, RECORD_BYTES_MAX};
use crate::machine::Machine;
use crate::sample::Sample;
use crate::server::Server;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Version of the format that is written. All versions up to this one can be read.
pub const FORMAT: u32 = 2;

/// Name of the file that a run writes into its record's directory.
pub const FILE_NAME: &str = "record.json";

/// Name of the same file after `zstd --rm record.json`.
const COMPRESSED: &str = "record.json.zst";

/// How a zstd frame begins: RFC 8878, section 3.1.1.
const ZSTD_MAGIC: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// Where records are kept in the repository.
const RECORDS: &str = "lab/records";

/// Where records are kept if there is no such directory.
const RECORDS_ELSEWHERE: &str = "millstream-records";

/// A run of one or more experiments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// [`FORMAT`] of the file.
    pub format: u32,
    /// Names of the experiments, in the order in which they were run.
    pub experiments: Vec<String>,
    /// When it began, UTC, RFC 3339.
    pub date: String,
    /// The command, without directories and passwords.
    pub argv: Vec<String>,
    /// Requested rounds.
    pub rounds: u32,
    /// Connections of Millstream and of COPY.
    pub lanes: u16,
    /// Seed of the data and the orders.
    pub seed: u64,
    /// The measured binary.
    pub build: Build,
    /// The machine of the clients.
    pub machine: Machine,
    /// The server.
    pub server: Server,
    /// Versions of the other programs that were measured.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<String, String>,
    /// Subjects that could not be measured, each with the reason.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub absent: Vec<String>,
    /// The statement that made every subject's table, as the binary gave it.
    pub table: String,
    /// What was loaded.
    pub data_sets: Vec<DataSet>,
    /// Every measurement, in chronological order.
    pub samples: Vec<Sample>,
}

impl Record {
    /// Reads a record of any format so far: a file, plain or compressed with zstd, or the directory that holds it.
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Record`] if the file is not a record, or a later version wrote it.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let path = &file_of(path);
        let text = text(path).map_err(Error::io("read", path))?;
        let wrong = |why: String| Error::Record { path: path.to_owned(), why };
        let mut value: Value = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
        match value.get("format").and_then(Value::as_u64) {
            None => Err(wrong("it has no format".to_owned())),
            Some(format) if format > u64::from(FORMAT) => {
                Err(wrong(format!("its format is {format}, this version knows those up to {FORMAT}")))
            }
            Some(format) => {
                if format == 1 {
                    from_1(&mut value);
                }
                serde_json::from_value(value).map_err(|error| wrong(error.to_string()))
            }
        }
    }

    /// Writes the record into a directory. A reader sees the old file or the new one, never a part of one.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn write(&self, dir: &Path) -> Result<PathBuf, Error> {
        let path = dir.join(FILE_NAME);
        let text = serde_json::to_string_pretty(self).map_err(|error| Error::Wrong(error.to_string()))?;
        let new = dir.join(format!("{FILE_NAME}.new"));
        fs::write(&new, text + "\n").map_err(Error::io("write", &new))?;
        fs::rename(&new, &path).map_err(Error::io("write", &path))?;
        Ok(path)
    }
}

/// The file that is meant: the path itself, or the record in this directory.
fn file_of(path: &Path) -> PathBuf {
    let inside = |name: &str| Some(path.join(name)).filter(|file| file.exists());
    match path.is_dir() {
        true => inside(FILE_NAME).or_else(|| inside(COMPRESSED)).unwrap_or_else(|| path.join(FILE_NAME)),
        false => path.to_owned(),
    }
}

/// The text of a file, plain or compressed, as its content shows.
fn text(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?.take(RECORD_BYTES_MAX).read_to_end(&mut bytes)?;
    let mut text = String::new();
    if bytes.starts_with(ZSTD_MAGIC) {
        zstd::Decoder::new(&bytes[..])?.take(RECORD_BYTES_MAX).read_to_string(&mut text)?;
    } else {
        (&bytes[..]).read_to_string(&mut text)?;
    }
    if text.len() as u64 >= RECORD_BYTES_MAX {
        return Err(io::Error::other(format!("it is larger than {RECORD_BYTES_MAX} bytes")));
    }
    Ok(text)
}

/// Format 1 had a single experiment, which data sets and samples did not name, and another name for the third wave.
fn from_1(record: &mut Value) {
    let Some(record) = record.as_object_mut() else { return };
    let Some(name) = record.remove("experiment") else { return };
    record.insert("experiments".to_owned(), Value::from(vec![name.clone()]));
    record.insert("format".to_owned(), Value::from(FORMAT));
    for list in ["data_sets", "samples"] {
        let items = record.get_mut(list).and_then(Value::as_array_mut);
        for one in items.into_iter().flatten().filter_map(Value::as_object_mut) {
            one.insert("experiment".to_owned(), name.clone());
            if one.get("phase").is_some_and(|phase| phase == "changed again") {
                one.insert("phase".to_owned(), Value::from("changed 3"));
            }
        }
    }
}

/// Makes the directory of a new record: the given one, else one named after day and machine. A directory that holds a
/// record is never used again.
///
/// # Errors
/// The directory cannot be made, or holds a record.
pub(crate) fn new_dir(given: Option<&Path>, date: &str, machine: &Machine) -> Result<PathBuf, Error> {
    let taken = |dir: &Path| file_of(dir).exists();
    let dir = if let Some(dir) = given {
        if dir.is_dir() && taken(dir) {
            let why = "it holds another run; records are never overwritten".to_owned();
            return Err(Error::Record { path: file_of(dir), why });
        }
        dir.to_owned()
    } else {
        let home = if Path::new(RECORDS).is_dir() { RECORDS } else { RECORDS_ELSEWHERE };
        let day = date.get(..10).unwrap_or(date);
        let name = |n: u32| match n {
            1 => format!("{day}-{}", machine.slug()),
            _ => format!("{day}-{}-{n}", machine.slug()),
        };
        let free = (1..=NAME_TRIES_MAX).map(|n| Path::new(home).join(name(n))).find(|dir| !taken(dir));
        free.unwrap_or_else(|| Path::new(home).join(name(NAME_TRIES_MAX)))
    };
    fs::create_dir_all(&dir).map_err(Error::io("create", &dir))?;
    Ok(dir)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A record of format 1, made by hand with round numbers.
    pub(crate) fn fixture() -> Record {
        Record::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/record-1.json")).unwrap()
    }

    #[test]
    fn records_of_format_1_are_read_and_written_alike() {
        let record = fixture();
        assert_eq!((record.format, record.samples.len()), (FORMAT, 9));
        assert_eq!(record.experiments, ["ingest"]);
        assert!(record.data_sets.iter().all(|set| set.experiment == "ingest"));
        assert!(record.samples.iter().all(|one| one.experiment == "ingest" && one.phase != "changed again"));
        let dir = tempfile::tempdir().unwrap();
        let path = record.write(dir.path()).unwrap();
        assert_eq!(Record::read(&path).unwrap(), record);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_record_is_read_plain_or_compressed_by_file_or_directory() {
        let record = fixture();
        let dir = tempfile::tempdir().unwrap();
        let plain = record.write(dir.path()).unwrap();
        assert_eq!(Record::read(dir.path()).unwrap(), record);
        let compressed = dir.path().join(COMPRESSED);
        fs::write(&compressed, zstd::encode_all(&fs::read(&plain).unwrap()[..], 19).unwrap()).unwrap();
        assert_eq!(Record::read(&compressed).unwrap(), record);
        fs::remove_file(&plain).unwrap();
        assert_eq!(Record::read(dir.path()).unwrap(), record);
        assert!(new_dir(Some(dir.path()), "2026-01-01", &record.machine).is_err(), "a compressed record is one, too");
        fs::write(&compressed, &fs::read(&compressed).unwrap()[..40]).unwrap();
        assert!(Record::read(&compressed).unwrap_err().to_string().contains("record.json.zst"));
        fs::remove_file(&compressed).unwrap();
        assert!(Record::read(dir.path()).unwrap_err().to_string().contains(FILE_NAME));
    }

    #[test]
    fn every_kept_record_can_be_reported() {
        let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut lines = 0;
        for home in ["fixtures", "../../lab/records"] {
            for entry in fs::read_dir(crate_dir.join(home)).unwrap() {
                let path = file_of(&entry.unwrap().path());
                if path.exists() {
                    let report = crate::report::Report::of(&Record::read(&path).unwrap());
                    lines += report.sections.iter().map(|section| section.lines.len()).sum::<usize>();
                    assert!(!report.to_string().is_empty() && lines > 0, "{}", path.display());
                }
            }
        }
        let first = Record::read(&crate_dir.join("fixtures/record-1-measured.json.zst")).unwrap();
        assert_eq!((first.format, first.experiments.len()), (FORMAT, 1), "a run that wrote format 1");
    }

    #[test]
    fn files_that_are_no_records_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.json");
        for (text, word) in
            [("{", "EOF"), ("{}", "no format"), ("{\"format\":3}", "up to 2"), ("{\"format\":1}", "missing")]
        {
            fs::write(&path, text).unwrap();
            let error = Record::read(&path).unwrap_err().to_string();
            assert!(error.contains(word), "{text}: {error}");
        }
    }

    #[test]
    fn a_record_is_never_overwritten() {
        let record = fixture();
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("a/b");
        assert_eq!(new_dir(Some(&inner), "2026-01-01", &record.machine).unwrap(), inner);
        assert_eq!(new_dir(Some(&inner), "2026-01-01", &record.machine).unwrap(), inner, "still empty");
        record.write(&inner).unwrap();
        assert!(new_dir(Some(&inner), "2026-01-01", &record.machine).is_err());
    }
}
