//! Why a program could not run, or failed.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

/// Why a program did not do its work. The messages say which program.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program is not on this machine.
    #[error("there is no program {}", program.display())]
    Missing {
        /// The program.
        program: PathBuf,
    },
    /// The system could not start the program, or could not read its output.
    #[error("cannot run {}: {source}", program.display())]
    Run {
        /// The program.
        program: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// The program ended with another exit code than 0, or by a signal.
    #[error("{} failed ({status}): {said}", program.display())]
    Failed {
        /// The program.
        program: PathBuf,
        /// How it ended.
        status: ExitStatus,
        /// What it printed.
        said: String,
    },
    /// The program took too long and was killed.
    #[error("{} had not ended after {limit:?} and was killed", program.display())]
    Late {
        /// The program.
        program: PathBuf,
        /// The time it had.
        limit: Duration,
    },
}

impl Error {
    /// Converts the system's error.
    pub(crate) fn run(program: &Path) -> impl FnOnce(io::Error) -> Self {
        let program = program.to_owned();
        move |source| match source.kind() {
            io::ErrorKind::NotFound => Self::Missing { program },
            _ => Self::Run { program, source },
        }
    }
}
