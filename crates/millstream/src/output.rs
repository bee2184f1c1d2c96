//! What a command prints: data on stdout, everything else on stderr.

use crate::failure::Failure;
use crate::screen;
use crate::secret::masked;
use crate::table::{Column, Table};
use millstream_host::write_target;
use serde::Serialize;
use std::io::{BufWriter, Write};
use std::path::Path;

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
        let mut stdout = screen::stdout();
        stdout.write_all(text.as_bytes())?;
        stdout.write_all(b"\n")?;
        Ok(stdout.flush()?)
    }

    /// Prints data: a pipe or a file gets it byte for byte.
    pub fn data(self, text: &str) -> Result<(), Failure> {
        let mut stdout = screen::data();
        stdout.write_all(text.as_bytes())?;
        Ok(stdout.flush()?)
    }

    /// Begins a list that is printed item by item.
    pub fn list(self) -> List {
        List { output: self, begun: false }
    }

    /// Prints a table, as wide as the terminal if stdout is one.
    pub fn table(self, table: &Table) -> Result<(), Failure> {
        let mut stdout = screen::stdout();
        stdout.write_all(table.text(screen::stdout_columns()).as_bytes())?;
        Ok(stdout.flush()?)
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
    /// Prints items, each as a line of text or as a JSON value, and flushes them.
    pub fn add(&mut self, items: impl IntoIterator<Item = String>) -> Result<(), Failure> {
        let mut stdout = BufWriter::new(screen::stdout());
        for item in items {
            let (before, after) = match (self.output.is_json(), self.begun) {
                (false, _) => ("", "\n"),
                (true, false) => ("[\n  ", ""),
                (true, true) => (",\n  ", ""),
            };
            write!(stdout, "{before}{item}{after}")?;
            self.begun = true;
        }
        Ok(stdout.flush()?)
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
    // If stderr is closed, nobody can read the message.
    let _ = screen::stderr().write_all(format!("{}\n", screen::indented(&masked(text))).as_bytes());
}
