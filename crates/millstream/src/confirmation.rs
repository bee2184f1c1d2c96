//! A yes, asked for at the terminal.

use crate::failure::Failure;
use std::io::{BufRead, IsTerminal, Write};

/// Asks a question; `alone` is the failure where nobody can be asked.
///
/// # Errors
/// Nobody can be asked, or the answer cannot be read.
pub fn confirmed(question: &str, alone: impl FnOnce() -> Failure) -> Result<bool, Failure> {
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        return Err(alone());
    }
    let mut stderr = std::io::stderr();
    // With stderr closed the answer is read all the same, and an empty one means no.
    let _ = write!(stderr, "{question} [y/N] ");
    let _ = stderr.flush();
    let mut answer = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut answer)
        .map_err(|error| Failure::user("cannot read the answer").because(&error))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
