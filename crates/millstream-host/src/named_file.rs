//! A file that a user names, and that is read.

use millstream_model::Refusal;
use rustix::fs::{OFlags, fcntl_setfl, fstatfs};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// Opens a file that a user names, for reading. A link is followed. A named pipe is refused, because perhaps nobody ever
/// writes to it. A pipe that somebody has opened for us, such as `/dev/stdin` or that of a shell's `<(COMMAND)`, is read as it
/// is, and so is a device.
///
/// # Errors
/// It cannot be opened, or is a named pipe.
pub fn open_named(path: &Path) -> io::Result<File> {
    let file = File::options().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)?;
    // A pipe without a name is on a file system of its own: PIPEFS_MAGIC of linux/magic.h.
    if file.metadata()?.file_type().is_fifo() && fstatfs(&file)?.f_type != 0x5049_5045 {
        return Err(io::Error::other("it is a named pipe, and must be a file"));
    }
    // Only opening must not wait.
    fcntl_setfl(&file, OFlags::empty())?;
    Ok(file)
}

/// The text of such a file, of so many bytes at most. `hint`: what helps if it is larger.
///
/// # Errors
/// As [`open_named`], or it cannot be read, is not UTF-8, or is larger.
pub fn read_at_most(path: &Path, most: u64, hint: Option<&str>) -> Result<String, Refusal> {
    let failed = |error: io::Error| match (Refusal::file("read", path, &error), error.kind()) {
        (refusal, io::ErrorKind::NotFound) => refusal.hint("check the path"),
        (refusal, _) => refusal,
    };
    let mut text = String::new();
    // What a file says about its length does not count: a device has none.
    let length = open_named(path).and_then(|file| file.take(most + 1).read_to_string(&mut text)).map_err(failed)?;
    if length as u64 > most {
        let problem = format!("{} has more than {most} bytes", path.display());
        return Err(Refusal { problem, hint: hint.map(str::to_owned) });
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Command;
    use std::fs;
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_file_without_an_end_is_read_up_to_its_limit() {
        let endless = Path::new("/dev/zero");
        let refused = read_at_most(endless, 1_000, Some("a hint")).unwrap_err();
        assert_eq!(refused, Refusal::new("/dev/zero has more than 1000 bytes").hint("a hint"));
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("a"), dir.path().join("link"));
        fs::write(&file, "12345").unwrap();
        symlink("a", &link).unwrap();
        assert_eq!(read_at_most(&link, 5, None).unwrap(), "12345");
        assert!(read_at_most(&file, 4, None).is_err());
        assert!(read_at_most(dir.path(), 4, None).is_err_and(|refused| refused.hint.is_none()), "a directory");
        let missing = read_at_most(&dir.path().join("b"), 4, None).unwrap_err();
        assert_eq!(missing.hint.as_deref(), Some("check the path"));
    }

    #[test]
    fn a_named_pipe_is_refused_and_one_that_is_open_is_read_to_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        let made = Command::new("mkfifo").arg(&pipe).run_blocking().unwrap();
        assert!(made.status.success(), "{made:?}");
        let refused = read_at_most(&pipe, 10, None).unwrap_err();
        assert!(refused.to_string().ends_with("pipe: it is a named pipe, and must be a file"), "{refused}");

        let (reader, mut writer) = io::pipe().unwrap();
        let open = format!("/dev/fd/{}", reader.as_raw_fd());
        let reading = std::thread::spawn(move || read_at_most(Path::new(&open), 10, None));
        writer.write_all(b"text").unwrap();
        drop(writer);
        assert_eq!(reading.join().unwrap().unwrap(), "text");
    }
}
