//! The manifest of a copy in PostgreSQL's own form ("Backup Manifest Format"), by which `pg_verifybackup` compares it.

use super::wal::{Range, lsn_text};
use crate::entry::Hash;
use crate::hasher::hex;
use jiff::Timestamp;
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

/// A file that has arrived.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Arrived {
    /// Below the data directory.
    pub(super) path: Vec<u8>,
    pub(super) size: u64,
    /// When it was changed, in seconds since 1970.
    pub(super) modified: i64,
    /// SHA-256 of its bytes.
    pub(super) hash: Hash,
}

impl Arrived {
    /// A file that is made for the copy.
    pub(super) fn made(path: impl Into<Vec<u8>>, bytes: &[u8]) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        Self {
            path: path.into(),
            size: bytes.len() as u64,
            modified: i64::try_from(now).unwrap_or_default(),
            hash: Sha256::digest(bytes).into(),
        }
    }
}

/// The text of a manifest.
pub(super) fn text(files: &[Arrived], wal: &Range, version_num: i32, system: u64) -> String {
    let mut text = String::from("{ \"PostgreSQL-Backup-Manifest-Version\": ");
    // Since 17 it names the cluster.
    match version_num >= 170_000 {
        true => _ = write!(text, "2,\n\"System-Identifier\": {system},\n"),
        false => text.push_str("1,\n"),
    }
    text.push_str("\"Files\": [");
    for (n, file) in files.iter().enumerate() {
        text.push_str(if n == 0 { "\n" } else { ",\n" });
        match std::str::from_utf8(&file.path) {
            Ok(path) => _ = write!(text, "{{ \"Path\": {}", serde_json::Value::from(path)),
            Err(_) => _ = write!(text, "{{ \"Encoded-Path\": \"{}\"", hex(&file.path)),
        }
        let time = Timestamp::from_second(file.modified).unwrap_or_default().strftime("%Y-%m-%d %H:%M:%S GMT");
        let hash = hex(&file.hash);
        _ = write!(
            text,
            ", \"Size\": {}, \"Last-Modified\": \"{time}\", \"Checksum-Algorithm\": \"SHA256\", \"Checksum\": \"{hash}\" }}",
            file.size
        );
    }
    let (start, end) = (lsn_text(wal.start), lsn_text(wal.stop));
    _ = write!(
        text,
        "\n],\n\"WAL-Ranges\": [\n{{ \"Timeline\": {}, \"Start-LSN\": \"{start}\", \"End-LSN\": \"{end}\" }}\n],\n",
        wal.timeline
    );
    let checksum = hex(&Sha256::digest(text.as_bytes()));
    _ = writeln!(text, "\"Manifest-Checksum\": \"{checksum}\"}}");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_is_json_with_the_checksum_of_what_is_before_it() {
        let file = |path: &[u8]| Arrived { path: path.to_vec(), size: 3, modified: 1_795_767_500, hash: [0xab; 32] };
        let wal = Range { timeline: 1, start: 0x0200_0028, stop: 0x0200_0100 };
        let text = text(&[file(b"a \"b\""), file(b"\xff")], &wal, 180_000, 7);
        let read: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(read["Files"][0]["Path"], "a \"b\"");
        assert_eq!(read["Files"][0]["Last-Modified"], "2026-11-27 08:18:20 GMT");
        assert_eq!((&read["Files"][1]["Encoded-Path"], &read["System-Identifier"]), (&"ff".into(), &7.into()));
        assert_eq!(read["WAL-Ranges"][0]["End-LSN"], "0/2000100");
        let at = text.find("\"Manifest-Checksum\"").unwrap();
        assert_eq!(read["Manifest-Checksum"], hex(&Sha256::digest(&text.as_bytes()[..at])));
    }
}
