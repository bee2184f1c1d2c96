//! A line of a file of ours, found by its beginning.

use crate::refusal::Refusal;
use millstream_host::{remove_whole, write_whole};
use std::fs;
use std::io::ErrorKind;
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
        return match remove_whole(file) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(failed(error)),
            Ok(()) | Err(_) => Ok(()),
        };
    }
    if let Some(dir) = file.parent() {
        fs::create_dir_all(dir).map_err(failed)?;
    }
    write_whole(file, &(lines.join("\n") + "\n")).map_err(failed)
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
