//! A regular file that is opened by its own name: a link, a pipe or a device in its place is refused.
//!
//! Whoever owns a directory can put anything under a name there. Root reads files of a server's data directory, which
//! belongs to the server's account, and must not be led to other files, or wait for ever for a pipe.

use crate::limits::NOTE_BYTES_MAX;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Opens a regular file for reading.
///
/// # Errors
/// It cannot be opened. It is a link or no regular file. It has another name, too, and does not belong to the owner of its
/// directory, who may have given it this one.
pub fn open_plain(path: &Path) -> io::Result<File> {
    opened(path, File::options().read(true))
}

/// The bytes of such a file, of which there may be so many; `None` if there is no file.
///
/// # Errors
/// As [`open_plain`], or it is larger.
pub fn read_plain_bytes(path: &Path, most: u64) -> io::Result<Option<Vec<u8>>> {
    let file = match open_plain(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let mut bytes = Vec::new();
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::other(format!("it has more than {most} bytes")));
    }
    Ok(Some(bytes))
}

/// The same as text.
///
/// # Errors
/// As [`read_plain_bytes`], or it is not UTF-8.
pub fn read_plain(path: &Path, most: u64) -> io::Result<Option<String>> {
    let text = |bytes| String::from_utf8(bytes).map_err(|error| io::Error::new(ErrorKind::InvalidData, error));
    read_plain_bytes(path, most)?.map(text).transpose()
}

/// The text of a note that we keep; `None` if there is none.
///
/// # Errors
/// As [`read_plain`]; it has more than [`NOTE_BYTES_MAX`].
pub fn read_note(path: &Path) -> io::Result<Option<String>> {
    read_plain(path, NOTE_BYTES_MAX)
}

/// Opens a file of ours for writing, which is made if it does not exist. Nobody else may read or write it, whatever the
/// umask is. `options`: how it is written, and whether what it holds is kept.
///
/// # Errors
/// As [`open_plain`], or it cannot be made.
pub fn open_private(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let file = opened(path, options.create(true).mode(0o600))?;
    file.set_permissions(Permissions::from_mode(0o600))?;
    Ok(file)
}

/// An empty file of ours that nobody else may read or write. What it held is lost.
///
/// # Errors
/// As [`open_private`].
pub fn create_private(path: &Path) -> io::Result<File> {
    let file = open_private(path, File::options().write(true))?;
    file.set_len(0)?;
    Ok(file)
}

fn opened(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    // Nothing waits for the other end of a pipe.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = options.custom_flags(flags.bits().cast_signed()).open(path).map_err(|error| {
        match error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) {
            true => io::Error::other("it is a link"),
            false => error,
        }
    })?;
    let facts = file.metadata()?;
    if !facts.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if facts.nlink() > 1 && facts.uid() != fs::metadata(dir)?.uid() {
        return Err(io::Error::other(
            "it is another name of a file that does not belong to the owner of its directory",
        ));
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Command;
    use millstream_testkit::{Need, machine_has};
    use std::io::Write;
    use std::os::unix::fs::{chown, symlink};

    /// A user who is not root.
    const NOBODY: u32 = 65_534;

    #[test]
    fn a_file_is_read_up_to_its_limit() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        assert_eq!(read_plain(&file, 4).unwrap(), None);
        fs::write(&file, "four").unwrap();
        assert_eq!(read_plain(&file, 4).unwrap().as_deref(), Some("four"));
        assert_eq!(read_plain(&file, 3).unwrap_err().to_string(), "it has more than 3 bytes");
        assert_eq!(read_note(&file).unwrap().as_deref(), Some("four"));
        File::options().write(true).open(&file).unwrap().set_len(NOTE_BYTES_MAX + 1).unwrap();
        assert!(read_note(&file).unwrap_err().to_string().starts_with("it has more than"));
        fs::write(&file, [0xff]).unwrap();
        assert_eq!(read_plain(&file, 3).unwrap_err().kind(), ErrorKind::InvalidData);
        assert_eq!(read_plain_bytes(&file, 3).unwrap(), Some(vec![0xff]));
    }

    #[test]
    fn neither_a_link_nor_a_pipe_nor_a_directory_is_opened() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("secret"), "secret").unwrap();
        symlink(at("secret"), at("link")).unwrap();
        let made = Command::new("mkfifo").arg(at("pipe")).run_blocking().unwrap();
        assert!(made.status.success(), "{made:?}");
        assert_eq!(read_plain(&at("link"), 100).unwrap_err().to_string(), "it is a link");
        assert_eq!(read_plain(&at("pipe"), 100).unwrap_err().to_string(), "it is not a regular file");
        assert_eq!(read_plain(dir.path(), 100).unwrap_err().to_string(), "it is not a regular file");
        for name in ["link", "pipe"] {
            assert!(create_private(&at(name)).is_err(), "{name}");
        }
        assert_eq!(fs::read_to_string(at("secret")).unwrap(), "secret");
    }

    #[test]
    fn a_second_name_of_a_file_of_somebody_else_is_not_opened() {
        if !machine_has(&[Need::Root]) {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let theirs = dir.path().join("theirs");
        fs::create_dir(&theirs).unwrap();
        chown(&theirs, Some(NOBODY), Some(NOBODY)).unwrap();
        fs::write(dir.path().join("secret"), "secret").unwrap();
        fs::hard_link(dir.path().join("secret"), theirs.join("pid")).unwrap();
        let error = read_plain(&theirs.join("pid"), 100).unwrap_err().to_string();
        assert!(error.starts_with("it is another name of a file"), "{error}");
        assert_eq!(read_plain(&dir.path().join("secret"), 100).unwrap().as_deref(), Some("secret"));
    }

    #[test]
    fn a_file_of_ours_is_private_also_if_it_was_not() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o666)).unwrap();
        open_private(&file, File::options().append(true)).unwrap().write_all(b"er").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "older");
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o600);
        create_private(&file).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "");
    }
}
