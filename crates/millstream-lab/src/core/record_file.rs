//! Files of records: where they are kept, their names, how they are read and written.

use crate::error::Error;
use crate::limits::{NAME_TRIES_MAX, RECORD_BYTES_MAX};
use millstream_host::{make_folder, open_named, write_target};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Name of the file that a run writes into its record's directory.
const FILE_NAME: &str = "record.json";

/// Name of the same file after `zstd --rm record.json`.
const COMPRESSED: &str = "record.json.zst";

/// How a zstd frame begins: RFC 8878, section 3.1.1.
const ZSTD_MAGIC: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// Where records are kept in the repository.
const RECORDS: &str = "lab/records";

/// Where records are kept if there is no such directory.
const RECORDS_ELSEWHERE: &str = "millstream-records";

/// The file that is meant: the path itself, or the record in this directory.
pub(crate) fn file_of(path: &Path) -> PathBuf {
    let inside = |name: &str| Some(path.join(name)).filter(|file| file.exists());
    match path.is_dir() {
        true => inside(FILE_NAME).or_else(|| inside(COMPRESSED)).unwrap_or_else(|| path.join(FILE_NAME)),
        false => path.to_owned(),
    }
}

/// The text of a record's file, plain or compressed, as its content shows.
///
/// # Errors
/// Errors of the disk, and if the file is larger than [`RECORD_BYTES_MAX`].
pub(crate) fn read(path: &Path) -> Result<String, Error> {
    text(path).map_err(Error::io("read", path))
}

fn text(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    open_named(path)?.take(RECORD_BYTES_MAX).read_to_end(&mut bytes)?;
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

/// Writes a record's text into a directory. A reader sees the old file or the new one, never a part of one.
///
/// # Errors
/// Errors of the disk.
pub(crate) fn write(text: &str, dir: &Path) -> Result<(), Error> {
    let path = dir.join(FILE_NAME);
    write_target(&path, text).map_err(Error::io("write", &path))
}

/// Makes the directory of a new record, or of several: the given one, else one named after the day and the machine's
/// short name. A given directory must hold no record; any other is one that held nothing.
///
/// # Errors
/// The directory cannot be made, or holds a record.
pub(crate) fn new_dir(given: Option<&Path>, date: &str, machine: &str) -> Result<PathBuf, Error> {
    let taken = |dir: &Path| file_of(dir).exists();
    let dir = if let Some(dir) = given {
        if dir.is_dir() && taken(dir) {
            return Err(Error::Taken { path: file_of(dir), why: "a record of an earlier run".to_owned() });
        }
        dir.to_owned()
    } else {
        let home = if Path::new(RECORDS).is_dir() { RECORDS } else { RECORDS_ELSEWHERE };
        let day = date.get(..10).unwrap_or(date);
        let name = |n: u32| match n {
            1 => format!("{day}-{machine}"),
            _ => format!("{day}-{machine}-{n}"),
        };
        let used = |dir: &Path| fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some());
        let free = (1..=NAME_TRIES_MAX).map(|n| Path::new(home).join(name(n))).find(|dir| !used(dir));
        free.unwrap_or_else(|| Path::new(home).join(name(NAME_TRIES_MAX)))
    };
    make_folder(&dir).map_err(Error::io("create", &dir))?;
    Ok(dir)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_plain_or_compressed_by_file_or_directory() {
        let dir = tempfile::tempdir().unwrap();
        write("text\n", dir.path()).unwrap();
        let plain = dir.path().join(FILE_NAME);
        assert_eq!((file_of(dir.path()), read(&plain).unwrap().as_str()), (plain.clone(), "text\n"));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no other file stays");
        let compressed = dir.path().join(COMPRESSED);
        fs::write(&compressed, zstd::encode_all(&b"other"[..], 19).unwrap()).unwrap();
        assert_eq!((file_of(dir.path()), read(&compressed).unwrap().as_str()), (plain.clone(), "other"));
        fs::remove_file(&plain).unwrap();
        assert_eq!(file_of(dir.path()), compressed);
        assert!(new_dir(Some(dir.path()), "2026-01-01", "x").is_err(), "a compressed record is one, too");
        fs::write(&compressed, &fs::read(&compressed).unwrap()[..8]).unwrap();
        assert!(read(&compressed).unwrap_err().to_string().contains(COMPRESSED));
        fs::remove_file(&compressed).unwrap();
        assert!(read(&file_of(dir.path())).unwrap_err().to_string().contains(FILE_NAME));
    }

    #[test]
    fn a_record_is_never_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("a/b");
        assert_eq!(new_dir(Some(&inner), "2026-01-01", "x").unwrap(), inner);
        assert_eq!(new_dir(Some(&inner), "2026-01-01", "x").unwrap(), inner, "still empty");
        write("text", &inner).unwrap();
        assert!(new_dir(Some(&inner), "2026-01-01", "x").is_err());
    }
}
