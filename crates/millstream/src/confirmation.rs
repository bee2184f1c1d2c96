//! Asks for a confirmation at the terminal.

use crate::failure::Failure;
use crate::screen;
use std::io::{BufRead, IsTerminal, Write};

/// Whether there is a terminal to ask on.
pub fn can_ask() -> bool {
    std::io::stdin().is_terminal() && screen::stderr_columns().is_some()
}

/// Asks a question. `alone` makes the failure if there is no terminal to ask on.
///
/// # Errors
/// There is no terminal, or the answer cannot be read.
pub fn confirmed(question: &str, alone: impl FnOnce() -> Failure) -> Result<bool, Failure> {
    if !can_ask() {
        return Err(alone());
    }
    // If stderr is closed, the answer is still read, and an empty one means no.
    let _ = screen::stderr().write_all(format!("{} [y/N] ", screen::indented(question)).as_bytes());
    let mut answer = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut answer)
        .map_err(|error| Failure::user("cannot read the answer").because(&error))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
