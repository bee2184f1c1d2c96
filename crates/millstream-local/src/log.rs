//! The end of the server's log, for errors and progress.

use crate::limits::LOG_TAIL_LINES;
use millstream_host::open_plain;
use std::fs;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// Most bytes that are read from the end of the log.
const TAIL_BYTES: u64 = 16 << 10;

/// Length in bytes; 0 if there is no log.
pub(crate) fn length(log: &Path) -> u64 {
    fs::symlink_metadata(log).map_or(0, |metadata| metadata.len())
}

/// The last lines that were written after the log had length `begin`. The log is in a directory of the server's account, which
/// could have put a link to another file there.
pub(crate) fn tail(log: &Path, begin: u64) -> String {
    let begin = begin.max(length(log).saturating_sub(TAIL_BYTES));
    let mut bytes = Vec::new();
    let read = open_plain(log).and_then(|mut file| {
        file.seek(SeekFrom::Start(begin))?;
        file.take(TAIL_BYTES).read_to_end(&mut bytes)
    });
    if let Err(error) = read {
        return format!("(it cannot be read: {error})");
    }
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(LOG_TAIL_LINES)..].join("\n")
}

/// The last line; empty if there is none.
pub(crate) fn last_line(log: &Path) -> String {
    tail(log, 0).lines().last().unwrap_or_default().to_owned()
}

/// Renames a long log, so that a new one begins. Replaces the one renamed before.
pub(crate) fn begin_anew_if_longer(log: &Path, bytes: u64) {
    if length(log) > bytes {
        let _ = fs::rename(log, log.with_extension("log.1"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_is_what_was_written_since_an_offset() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("server.log");
        assert_eq!(length(&log), 0);
        assert!(tail(&log, 0).contains("cannot be read"));
        fs::write(&log, "old\nnew one\nnew two\n").unwrap();
        assert_eq!(tail(&log, 4), "new one\nnew two");
        assert_eq!(last_line(&log), "new two");
        let many: String = (0..100_000).map(|n| format!("line {n}\n")).collect();
        fs::write(&log, many).unwrap();
        let end = tail(&log, 0);
        assert_eq!(end.lines().count(), LOG_TAIL_LINES);
        assert!(end.ends_with("line 99999"));
    }

    #[test]
    fn a_link_in_the_place_of_the_log_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("server.log");
        fs::write(dir.path().join("secret"), "secret").unwrap();
        std::os::unix::fs::symlink(dir.path().join("secret"), &log).unwrap();
        assert_eq!(tail(&log, 0), "(it cannot be read: it is a link)");
    }

    #[test]
    fn a_long_log_is_rotated() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("server.log");
        fs::write(&log, "0123456789").unwrap();
        begin_anew_if_longer(&log, 10);
        assert!(log.exists());
        begin_anew_if_longer(&log, 9);
        assert!(!log.exists() && dir.path().join("server.log.1").exists());
    }
}
