//! A file that a connection string or a variable names.

use rustix::fs::OFlags;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// The bytes of a file, of so many at most. A pipe is refused: perhaps nobody ever writes to it, and each connection reads
/// its certificates again.
///
/// # Errors
/// It cannot be read, is a pipe, or is larger.
pub(crate) fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    // Nothing waits for the other end of a pipe.
    let file = File::options().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)?;
    if file.metadata()?.file_type().is_fifo() {
        return Err(io::Error::other("it is a pipe, and must be a file"));
    }
    let mut bytes = Vec::new();
    file.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::other(format!("it has more than {most} bytes")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_pipe_and_a_file_without_an_end_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (file, pipe) = (dir.path().join("file"), dir.path().join("pipe"));
        std::fs::write(&file, "four").unwrap();
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert_eq!(read(&file, 4).unwrap(), b"four");
        for (path, says) in [
            (file.as_path(), "it has more than 3 bytes"),
            (Path::new("/dev/zero"), "it has more than 3 bytes"),
            (pipe.as_path(), "it is a pipe, and must be a file"),
        ] {
            assert_eq!(read(path, 3).unwrap_err().to_string(), says, "{}", path.display());
        }
    }
}
