//! What a command says: data on stdout, all else on stderr.

use crate::failure::Failure;
use crate::secret::masked;
use crate::table::Table;
use serde::Serialize;
use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;

/// Columns of a terminal that does not tell.
const COLUMNS_DEFAULT: usize = 80;

/// The form of the data on stdout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// Stdout in the form asked for.
#[derive(Debug, Clone, Copy)]
pub struct Output {
    /// The form of the data.
    pub format: Format,
}

impl Output {
    /// Whether a program reads the data.
    pub fn is_json(self) -> bool {
        self.format == Format::Json
    }

    /// Prints a line of text.
    pub fn line(self, text: &str) -> Result<(), Failure> {
        let mut stdout = std::io::stdout().lock();
        stdout.write_all(text.as_bytes())?;
        stdout.write_all(b"\n")?;
        Ok(stdout.flush()?)
    }

    /// Prints a table, as wide as the terminal if stdout is one.
    pub fn table(self, table: &Table) -> Result<(), Failure> {
        let mut stdout = std::io::stdout().lock();
        let columns = stdout.is_terminal().then(|| columns(&stdout));
        stdout.write_all(table.text(columns).as_bytes())?;
        Ok(stdout.flush()?)
    }

    /// Prints a value as indented JSON.
    pub fn json(self, value: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string_pretty(value)
            .map_err(|error| Failure::bug("cannot write the answer as JSON").because(&error))?;
        self.line(&text)
    }
}

/// Columns of a terminal, 80 where it does not know.
fn columns(terminal: impl AsFd) -> usize {
    let size = rustix::termios::tcgetwinsize(terminal).map_or(0, |size| usize::from(size.ws_col));
    if size > 0 { size } else { COLUMNS_DEFAULT }
}

/// Tells something on stderr.
pub fn note(text: &str) {
    // With stderr closed there is nobody left to tell.
    let _ = writeln!(std::io::stderr(), "{}", masked(text));
}
