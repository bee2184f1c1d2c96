//! What makes a value last beyond a restart: a line of a file, found by its beginning, or whole files of ours.
//!
//! What was there is on the disk before anything is written: an undo puts it back.

use crate::journal::{Entry, Journal, LastingFile, LastingLine};
use crate::kind::Lasting;
use millstream_host::{make_ours, read_whole, remove_whole, write_whole};
use millstream_model::Refusal;
use std::path::{Path, PathBuf};

/// Rights of a directory that is made for such a file: everybody may read what is in `/etc`.
const READABLE: u32 = 0o755;

/// Notes in an entry what is there now. A confirmation that was interrupted has noted it already.
pub(crate) fn note(lasting: &Lasting, journal: &Journal, entry: &mut Entry) -> Result<(), Refusal> {
    if entry.lasts_by_file() {
        return Ok(());
    }
    match lasting {
        Lasting::Always | Lasting::UntilRestart(_) => return Ok(()),
        Lasting::Line { file, beginning, line } => {
            let before = find(file, beginning)?;
            let (file, beginning, line) = (file.clone(), beginning.clone(), line.clone());
            entry.line = Some(LastingLine { file, beginning, line, before });
        }
        Lasting::Files(files) => {
            for (n, (file, new)) in files.iter().enumerate() {
                let before = whole(file)?;
                let had_before = before.is_some();
                if let Some(before) = before {
                    journal.write_beside(entry.number, &beside(n), &before)?;
                }
                journal.write_beside(entry.number, &format!("{}.new", beside(n)), new)?;
                entry.files.push(LastingFile { file: file.clone(), had_before });
            }
        }
    }
    journal.write(entry)
}

/// Makes a value last, as noted.
pub(crate) fn put(lasting: &Lasting) -> Result<(), Refusal> {
    match lasting {
        Lasting::Always | Lasting::UntilRestart(_) => Ok(()),
        Lasting::Line { file, beginning, line } => replace(file, beginning, Some(line)),
        Lasting::Files(files) => files.iter().try_for_each(|(file, text)| write(file, text)),
    }
}

/// Refuses an entry that its kind cannot have noted: it names another file than `own`, those of the kind, or something else than
/// a line. Whoever has written it wants us to write there.
pub(crate) fn check(entry: &Entry, own: &[PathBuf]) -> Result<(), Refusal> {
    let files = entry.files.iter().map(|one| &one.file).chain(entry.line.iter().map(|line| &line.file));
    let foreign = |what: &str| {
        let says = format!("change {} names {what}, which no change of the kind {} writes", entry.number, entry.kind);
        Refusal::new(says).hint("it is not as this program wrote it; find out who can write to the journal of changes")
    };
    if let Some(file) = files.into_iter().find(|file| !own.contains(file)) {
        return Err(foreign(&file.display().to_string()));
    }
    let Some(LastingLine { file, beginning, line, before }) = &entry.line else { return Ok(()) };
    let is_line = |text: &String| !text.contains('\n') && text.starts_with(beginning.as_str());
    if beginning.is_empty() || ![Some(line), before.as_ref()].into_iter().flatten().all(is_line) {
        return Err(foreign(&format!("a line of {}", file.display())));
    }
    Ok(())
}

/// Whether all that makes a change last is there as it was written.
pub(crate) fn is_there(journal: &Journal, entry: &Entry) -> Result<bool, Refusal> {
    let is_line = match &entry.line {
        Some(LastingLine { file, beginning, line, .. }) => find(file, beginning)?.as_ref() == Some(line),
        None => !entry.files.is_empty(),
    };
    let is_file = |(n, one): (usize, &LastingFile)| is_ours(journal, entry.number, n, one);
    let files: Result<Vec<bool>, Refusal> = entry.files.iter().enumerate().map(is_file).collect();
    Ok(is_line && files?.into_iter().all(|is_there| is_there))
}

/// Whether anything that makes a change last is there as it was written.
pub(crate) fn is_left(journal: &Journal, entry: &Entry) -> Result<bool, Refusal> {
    if let Some(LastingLine { file, beginning, line, .. }) = &entry.line
        && find(file, beginning)?.as_ref() == Some(line)
    {
        return Ok(true);
    }
    for (n, one) in entry.files.iter().enumerate() {
        if is_ours(journal, entry.number, n, one)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether two changes last by the same line or the same file, so that one writes over what the other has written.
pub(crate) fn meet(one: &Entry, other: &Entry) -> bool {
    let is_file = |file: &LastingFile| other.files.iter().any(|theirs| theirs.file == file.file);
    let lines = one.line.as_ref().zip(other.line.as_ref());
    let is_line = lines.is_some_and(|(one, other)| (&one.file, &one.beginning) == (&other.file, &other.beginning));
    is_line || one.files.iter().any(is_file)
}

/// Puts back what was there before. What somebody has changed since is theirs. `false` if nothing of ours was there.
pub(crate) fn take_back(journal: &Journal, entry: &Entry) -> Result<bool, Refusal> {
    let mut is_back = false;
    if let Some(LastingLine { file, beginning, line, before }) = &entry.line
        && find(file, beginning)?.as_ref() == Some(line)
    {
        replace(file, beginning, before.as_deref())?;
        is_back = true;
    }
    for (n, one) in entry.files.iter().enumerate() {
        if !is_ours(journal, entry.number, n, one)? {
            continue;
        }
        match one.had_before {
            true => write(&one.file, &journal.read_beside(entry.number, &beside(n))?)?,
            false => remove(&one.file)?,
        }
        is_back = true;
    }
    Ok(is_back)
}

/// The name of the old text of a file, beside an entry.
fn beside(n: usize) -> String {
    format!("file-{n}")
}

/// Whether a file is as it was written. What was written may be what was there before.
fn is_ours(journal: &Journal, number: u32, n: usize, one: &LastingFile) -> Result<bool, Refusal> {
    let new = journal.read_beside(number, &format!("{}.new", beside(n)))?;
    Ok(whole(&one.file)?.as_ref() == Some(&new))
}

/// The line of a file with a beginning. `None` also if there is no such file.
fn find(file: &Path, beginning: &str) -> Result<Option<String>, Refusal> {
    Ok(whole(file)?.unwrap_or_default().lines().find(|line| line.starts_with(beginning)).map(str::to_owned))
}

/// Replaces the line with a beginning by another one, or removes it. A reader sees the old file or the new one. A file
/// without lines is removed.
fn replace(file: &Path, beginning: &str, line: Option<&str>) -> Result<(), Refusal> {
    let text = whole(file)?.unwrap_or_default();
    let lines: Vec<&str> = text.lines().filter(|one| !one.starts_with(beginning)).chain(line).collect();
    if lines.is_empty() { remove(file) } else { write(file, &(lines.join("\n") + "\n")) }
}

fn write(file: &Path, text: &str) -> Result<(), Refusal> {
    let failed = |error: std::io::Error| Refusal::file("write", file, &error);
    if let Some(dir) = file.parent() {
        make_ours(dir, READABLE)?;
    }
    write_whole(file, text).map_err(failed)
}

fn remove(file: &Path) -> Result<(), Refusal> {
    remove_whole(file).map_err(|error| Refusal::file("remove", file, &error))
}

fn whole(file: &Path) -> Result<Option<String>, Refusal> {
    read_whole(file).map_err(|error| Refusal::file("read", file, &error))
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
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "a = 1\nb = 2\n");
        assert_eq!(find(&file, "b = ").unwrap().as_deref(), Some("b = 2"));
        replace(&file, "a = ", None).unwrap();
        replace(&file, "b = ", None).unwrap();
        assert!(!file.exists());
        replace(&file, "b = ", None).unwrap();
    }
}
