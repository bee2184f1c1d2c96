//! The archive that a kernel unpacks into memory as its file system: cpio in the form `newc`.
//!
//! Source: `Documentation/driver-api/early-userspace/buffer-format.rst` of Linux.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

/// Type and rights of a directory that everybody may enter.
const DIRECTORY: u32 = 0o040_755;

/// Type and rights of a file that everybody may read and run.
const FILE: u32 = 0o100_755;

/// Bytes of a header: six of the magic number, and 13 fields of eight digits.
const HEADER: usize = 6 + 13 * 8;

/// The archive while it is written. Everything in it belongs to root.
#[derive(Debug)]
pub(super) struct Archive<W> {
    to: W,
    /// What it has.
    names: BTreeSet<PathBuf>,
}

impl<W: Write> Archive<W> {
    pub(super) fn new(to: W) -> Self {
        Self { to, names: BTreeSet::new() }
    }

    /// Adds a file with this text.
    pub(super) fn text(&mut self, path: &Path, text: &str) -> io::Result<()> {
        self.file(path, text.len(), text.as_bytes())
    }

    /// Adds a file of this machine.
    pub(super) fn copy(&mut self, from: &Path, path: &Path) -> io::Result<()> {
        let file = File::open(from)?;
        let bytes = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        self.file(path, bytes, file)
    }

    /// Writes the end, and returns where the archive was written to.
    pub(super) fn end(mut self) -> io::Result<W> {
        self.head(Path::new("TRAILER!!!"), 0, 0)?;
        self.to.flush()?;
        Ok(self.to)
    }

    /// Adds a file, after the directories above it. What the archive has already stays.
    fn file(&mut self, path: &Path, bytes: usize, content: impl Read) -> io::Result<()> {
        let path = inside(path);
        let mut above: Vec<&Path> = path.ancestors().skip(1).filter(|dir| *dir != Path::new("")).collect();
        above.reverse();
        for dir in above {
            if self.names.insert(dir.to_owned()) {
                self.head(dir, DIRECTORY, 0)?;
            }
        }
        if !self.names.insert(path.clone()) {
            return Ok(());
        }
        self.head(&path, FILE, bytes)?;
        let copied = io::copy(&mut content.take(bytes as u64), &mut self.to)?;
        if copied != bytes as u64 {
            return Err(io::Error::other("it became shorter meanwhile"));
        }
        self.pad(bytes)
    }

    fn head(&mut self, path: &Path, mode: u32, bytes: usize) -> io::Result<()> {
        let name = path.as_os_str().as_bytes();
        let number = |bytes: usize| u32::try_from(bytes).map_err(io::Error::other);
        let (bytes, name_bytes) = (number(bytes)?, number(name.len() + 1)?);
        // Inode, mode, user, group, links, time, size, four numbers of devices, size of the name, checksum.
        let fields = [0, mode, 0, 0, 1, 0, bytes, 0, 0, 0, 0, name_bytes, 0];
        self.to.write_all(b"070701")?;
        for field in fields {
            write!(self.to, "{field:08x}")?;
        }
        self.to.write_all(name)?;
        self.to.write_all(&[0])?;
        self.pad(HEADER + name.len() + 1)
    }

    /// After so many bytes, fills up to a multiple of four.
    fn pad(&mut self, bytes: usize) -> io::Result<()> {
        self.to.write_all(&[0; 3][..bytes.next_multiple_of(4) - bytes])
    }
}

/// The path from the root of the archive, without `..`.
fn inside(path: &Path) -> PathBuf {
    let mut inside = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => inside.push(name),
            Component::ParentDir => _ = inside.pop(),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    inside
}

/// Name, mode and content of each member of an archive, without the end.
#[cfg(test)]
pub(super) fn members(mut archive: &[u8]) -> Vec<(String, u32, Vec<u8>)> {
    let mut members = Vec::new();
    loop {
        let field = |n: usize| {
            let digits = std::str::from_utf8(&archive[6 + 8 * n..14 + 8 * n]).unwrap();
            u32::from_str_radix(digits, 16).unwrap()
        };
        assert_eq!(&archive[..6], b"070701");
        let (mode, size, name_size) = (field(1), field(6) as usize, field(11) as usize);
        let name = String::from_utf8(archive[HEADER..HEADER + name_size - 1].to_vec()).unwrap();
        assert_eq!(archive[HEADER + name_size - 1], 0);
        archive = &archive[(HEADER + name_size).next_multiple_of(4)..];
        if name == "TRAILER!!!" {
            assert!(archive.is_empty());
            return members;
        }
        members.push((name, mode, archive[..size].to_vec()));
        archive = &archive[size.next_multiple_of(4)..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_as_the_kernel_reads_it() {
        let mut archive = Archive::new(Vec::new());
        archive.text(Path::new("/init"), "ok\n").unwrap();
        let bytes = archive.end().unwrap();
        let zeros = "00000000";
        let begin = format!("070701{zeros}000081ed{zeros}{zeros}00000001{zeros}00000003");
        // 115 bytes of header and name are filled up to 116, and three of content to four.
        let rest = format!("{}00000005{zeros}init\0\0", zeros.repeat(4));
        assert_eq!(bytes[..116], *format!("{begin}{rest}").as_bytes());
        assert_eq!(bytes[116..126], *b"ok\n\x00070701");
    }

    #[test]
    fn directories_come_before_what_is_in_them_and_nothing_comes_twice() {
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().join("own");
        std::fs::write(&own, "12345").unwrap();
        let mut archive = Archive::new(Vec::new());
        archive.copy(&own, Path::new("/usr/lib/one")).unwrap();
        archive.text(Path::new("/usr/bin/../lib/../../etc/two"), "").unwrap();
        archive.text(Path::new("usr/lib/one"), "again").unwrap();
        archive.text(Path::new("/usr/three"), "abcd").unwrap();
        let members = members(&archive.end().unwrap());
        let found: Vec<_> = members.iter().map(|(name, mode, text)| (name.as_str(), *mode, text.as_slice())).collect();
        let expected: &[(&str, u32, &[u8])] = &[
            ("usr", DIRECTORY, b""),
            ("usr/lib", DIRECTORY, b""),
            ("usr/lib/one", FILE, b"12345"),
            ("etc", DIRECTORY, b""),
            ("etc/two", FILE, b""),
            ("usr/three", FILE, b"abcd"),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_file_that_becomes_shorter_is_an_error() {
        let error = Archive::new(Vec::new()).file(Path::new("a"), 3, &b"12"[..]).unwrap_err();
        assert_eq!(error.to_string(), "it became shorter meanwhile");
    }
}
