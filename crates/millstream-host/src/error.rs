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
    /// A setting of the kernel, or the journal of its changes, cannot be read or written.
    #[error("cannot {what} the setting {}: {source}", setting.display())]
    Setting {
        /// What failed, as a verb.
        what: &'static str,
        /// The file.
        setting: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// Another process changes settings of the kernel.
    #[error("another process changes settings of this machine; it has locked {}", journal.display())]
    Busy {
        /// The file in which it notes them.
        journal: PathBuf,
    },
    /// A slow disk cannot be made, or no longer answers.
    #[error("no slow disk: cannot {what} {}: {source}", path.display())]
    SlowDisk {
        /// What failed, as a verb.
        what: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A program that was to be left alone.
    #[error("{} ended before it was ready, or took too long", program.display())]
    NotReady {
        /// The program.
        program: PathBuf,
    },
    /// The program took too long and was killed.
    #[error("{} had not ended after {limit:?} and was killed", program.display())]
    Late {
        /// The program.
        program: PathBuf,
        /// The time it had.
        limit: Duration,
    },
    /// The program printed more than is kept, and was ended.
    #[error("{} printed more than {most} bytes and was ended", program.display())]
    TooMuch {
        /// The program.
        program: PathBuf,
        /// Bytes that are kept.
        most: u64,
    },
}

impl Error {
    /// Converts the system's error about a setting.
    pub(crate) fn setting(what: &'static str, setting: &Path) -> impl Fn(io::Error) -> Self + use<> {
        let setting = setting.to_owned();
        move |source| Self::Setting { what, setting: setting.clone(), source }
    }

    /// Converts the system's error about a slow disk.
    pub(crate) fn slow_disk(what: &'static str, path: &Path) -> impl Fn(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::SlowDisk { what, path: path.clone(), source }
    }

    /// Converts the system's error.
    pub(crate) fn run(program: &Path) -> impl FnOnce(io::Error) -> Self {
        let program = program.to_owned();
        move |source| match source.kind() {
            io::ErrorKind::NotFound => Self::Missing { program },
            _ => Self::Run { program, source },
        }
    }

    /// Converts the system's error about a program of whose output so many bytes are kept.
    pub(crate) fn ended(program: &Path, most: u64) -> impl FnOnce(io::Error) -> Self {
        let program = program.to_owned();
        move |source| match source.kind() {
            io::ErrorKind::FileTooLarge => Self::TooMuch { program, most },
            _ => Self::run(&program)(source),
        }
    }
}

impl From<Error> for millstream_model::Refusal {
    fn from(error: Error) -> Self {
        Self::new(error.to_string())
    }
}
