//! A line of a file of ours, found by its beginning.

use super::kind::Refusal;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::Path;

/// The line of a file with a beginning. `None` also if there is no such file.
pub(super) fn find(file: &Path, beginning: &str) -> Result<Option<String>, Refusal> {
    Ok(text(file)?.lines().find(|line| line.starts_with(beginning)).map(str::to_owned))
}

/// Replaces the line with a beginning by another one, or removes it. A reader sees the old file or the new one. A file
/// without lines is removed.
pub(super) fn replace(file: &Path, beginning: &str, line: Option<&str>) -> Result<(), Refusal> {
    let failed = |error: std::io::Error| Refusal::file("write", file, &error);
    let text = text(file)?;
    let lines: Vec<&str> = text.lines().filter(|one| !one.starts_with(beginning)).chain(line).collect();
    if lines.is_empty() {
        return match fs::remove_file(file) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(failed(error)),
            Ok(()) | Err(_) => Ok(()),
        };
    }
    if let Some(dir) = file.parent() {
        fs::create_dir_all(dir).map_err(failed)?;
    }
    let new = file.with_extension("new");
    let written = File::create(&new).and_then(|mut made| {
        made.write_all((lines.join("\n") + "\n").as_bytes())?;
        made.sync_all()?;
        fs::rename(&new, file)?;
        // The name is on the disk only with its directory.
        file.parent().map_or(Ok(()), |dir| File::open(dir)?.sync_all())
    });
    written.map_err(failed)
}

fn text(file: &Path) -> Result<String, Refusal> {
    match fs::read_to_string(file) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
        read => read.map_err(|error| Refusal::file("read", file, &error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_replaced_and_removed_and_others_stay() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("d/ours.conf");
        assert_eq!(find(&file, "b = ").unwrap(), None);
        replace(&file, "a = ", Some("a = 1")).unwrap();
        replace(&file, "b = ", Some("b = 1")).unwrap();
        replace(&file, "b = ", Some("b = 2")).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "a = 1\nb = 2\n");
        assert_eq!(find(&file, "b = ").unwrap().as_deref(), Some("b = 2"));
        replace(&file, "a = ", None).unwrap();
        replace(&file, "b = ", None).unwrap();
        assert!(!file.exists());
        replace(&file, "b = ", None).unwrap();
    }
}
