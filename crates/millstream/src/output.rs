//! What a command prints: data on stdout, everything else on stderr.

use crate::event_line;
use crate::failure::Failure;
use crate::screen::{self, COLUMNS_DEFAULT};
use crate::secret::masked;
use crate::table::{Column, Table, wrap};
use millstream_host::write_target;
use serde::Serialize;
use serde_json::json;
use std::collections::BTreeSet;
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Stdout, in the form that the user asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Output {
    /// For people.
    Text,
    /// For programs.
    Json,
}

impl Output {
    /// Whether a program reads the data.
    pub fn is_json(self) -> bool {
        self == Self::Json
    }

    /// Prints a line of text.
    pub fn line(self, text: &str) -> Result<(), Failure> {
        write(screen::stdout(), format!("{text}\n")).map(drop)
    }

    /// Prints data: a pipe or a file gets it byte for byte.
    pub fn data(self, text: &str) -> Result<(), Failure> {
        write(screen::data(), text).map(drop)
    }

    /// Prints bytes as they are. `false`: nobody reads them any more.
    pub fn bytes(self, bytes: &[u8]) -> Result<bool, Failure> {
        write(screen::data(), bytes)
    }

    /// Begins a list that is printed item by item.
    pub fn list(self) -> List {
        List { output: self, begun: false }
    }

    /// Prints a table, as wide as the terminal if stdout is one.
    pub fn table(self, table: &Table) -> Result<(), Failure> {
        write(screen::stdout(), table.text(screen::stdout_columns())).map(drop)
    }

    /// Prints a value as indented JSON.
    pub fn json(self, value: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(value)
            .map_err(|error| Failure::bug("cannot write the answer as JSON").because(&error))?;
        self.line(&text)
    }

    /// Prints a value as JSON, or as a text for people.
    pub fn print(self, value: &impl Serialize, text: &str) -> Result<(), Failure> {
        if self.is_json() { self.json(value) } else { self.line(text) }
    }

    /// Prints a list as JSON or as a table. For people, `none` says on stderr that there is nothing.
    pub fn rows<T: Serialize>(self, rows: &[T], columns: &[Column<T>], none: &str) -> Result<(), Failure> {
        if self.is_json() {
            return self.json(&rows);
        }
        if rows.is_empty() {
            note(none);
            return Ok(());
        }
        self.table(&Table::of(rows, columns))
    }
}

/// A list that is printed item by item, as lines of text or as a JSON array.
#[derive(Debug)]
pub struct List {
    output: Output,
    begun: bool,
}

impl List {
    /// Prints items, each as a line of text or as a JSON value, and flushes them. `false`: nobody reads the list any more,
    /// so a list without end can stop.
    pub fn add(&mut self, items: impl IntoIterator<Item = String>) -> Result<bool, Failure> {
        let mut text = String::new();
        for item in items {
            let (before, after) = match (self.output.is_json(), self.begun) {
                (false, _) => ("", "\n"),
                (true, false) => ("[\n  ", ""),
                (true, true) => (",\n  ", ""),
            };
            text.extend([before, item.as_str(), after]);
            self.begun = true;
        }
        write(screen::stdout(), &text)
    }

    /// Ends the array.
    pub fn end(self) -> Result<(), Failure> {
        match (self.output.is_json(), self.begun) {
            (false, _) => Ok(()),
            (true, false) => self.output.line("[]"),
            (true, true) => self.output.line("\n]"),
        }
    }
}

/// Writes a text and flushes it. `false`: its reader has gone away (`| head`), which is no error and does not end the
/// command. What the command finds decides its exit code, and whether anybody reads it does not.
fn write(mut out: impl Write, text: impl AsRef<[u8]>) -> Result<bool, Failure> {
    match out.write_all(text.as_ref()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Writes a report as a page to a file, and says so on stderr.
///
/// # Errors
/// The file cannot be written.
pub fn write_page(path: &Path, page: &str) -> Result<(), Failure> {
    write_target(path, page).map_err(Failure::cannot("write", path))?;
    note(&format!("report: {}", path.display()));
    Ok(())
}

/// Prints a message on stderr. If it has several lines, the later ones are indented.
pub fn note(text: &str) {
    if event_line::prints_as_lines() {
        // If stderr is closed, nobody can read the message.
        event_line::print("note", json!({ "text": text }));
        return;
    }
    // If stderr is closed, nobody can read the message.
    let _ = screen::stderr().write_all(format!("{}\n", screen::indented(&masked(text))).as_bytes());
}

/// A text for [`note`] whose lines end where the terminal ends, or at 80 columns.
pub fn wrapped(text: &str) -> String {
    // The later lines are indented.
    let room = screen::stderr_columns().unwrap_or(COLUMNS_DEFAULT).saturating_sub(2);
    // A password that is cut in two would not be seen as one.
    masked(text).lines().flat_map(|line| wrap(line, room)).collect::<Vec<_>>().join("\n")
}

/// As [`note`], once in the life of the process. For what is true again and again; each text is kept.
pub fn note_once(text: &str) {
    static PRINTED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
    let is_new = PRINTED.lock().unwrap_or_else(PoisonError::into_inner).insert(text.to_owned());
    if is_new {
        note(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn only_a_reader_that_goes_away_is_no_error() {
        struct Failing(ErrorKind);
        impl Write for Failing {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(self.0.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        assert!(write(Vec::new(), "text").unwrap());
        assert!(!write(Failing(ErrorKind::BrokenPipe), "text").unwrap());
        assert!(write(Failing(ErrorKind::StorageFull), "text").is_err());
    }
}
