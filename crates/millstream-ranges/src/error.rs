//! Why a store cannot be built, opened or read.

use crate::limits::{DEPTH_MAX, MAP_BYTES_MAX};
use millstream_model::Refusal;
use millstream_pg::{ErrorKind, Explained};
use std::io;
use std::net::IpAddr;
use std::path::PathBuf;

/// What failed. The messages name the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be read, written or renamed.
    #[error("cannot {what} {}: {source}", path.display())]
    File {
        /// What failed, as a verb.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// There is no store, or no such generation in it.
    #[error("{} is not a store of ranges: {problem}", path.display())]
    NoStore {
        /// The folder.
        path: PathBuf,
        /// What is missing.
        problem: String,
        /// The way out.
        hint: String,
    },
    /// A generation that is not there, or not any more.
    #[error("{} has no generation {number}; it has {}", path.display(), listed(there))]
    NoGeneration {
        /// The store.
        path: PathBuf,
        /// The generation that was asked for.
        number: u64,
        /// Those that are there.
        there: Vec<u64>,
    },
    /// The file is not what the build wrote.
    #[error("{} is damaged: {problem}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// LMDB failed.
    #[error("cannot {what} {}: {source}", path.display())]
    Lmdb {
        /// What failed, as a verb.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// LMDB's answer.
        source: heed::Error,
    },
    /// The file would need more address space than is possible.
    #[error("{} would take more than {} TiB", path.display(), MAP_BYTES_MAX >> 40)]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// Another build writes the store.
    #[error("another build writes {}", path.display())]
    Busy {
        /// The store.
        path: PathBuf,
    },
    /// Something that was asked for is not possible.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Ranges overlap, and they must not.
    #[error("{}: {}", overlapping(*count), named.join("; "))]
    Overlap {
        /// How many.
        count: u64,
        /// The first of them, with both places.
        named: Vec<String>,
    },
    /// Too many ranges overlap at one address.
    #[error("more than {DEPTH_MAX} ranges overlap at {address}")]
    TooDeep {
        /// The address.
        address: IpAddr,
    },
    /// Too many entries of the input were rejected.
    #[error("{count} entries rejected, more than --max-rejects {most}")]
    Rejects {
        /// How many.
        count: u64,
        /// How many are allowed.
        most: u64,
    },
    /// The index would take too much memory.
    #[error("the ranges of {} take {bytes} bytes in memory, more than {most}", path.display())]
    Memory {
        /// The file.
        path: PathBuf,
        /// Bytes needed.
        bytes: usize,
        /// Bytes allowed.
        most: usize,
    },
    /// The input cannot be opened or read, or is no text.
    #[error(transparent)]
    Unread(#[from] millstream_input::Error),
    /// The input cannot be read on.
    #[error("{name}: {problem}")]
    Input {
        /// The file or query.
        name: String,
        /// What is wrong.
        problem: String,
    },
    /// Somebody stopped the build.
    #[error("the build was stopped; the store is as it was")]
    Stopped,
    /// The database failed.
    #[error(transparent)]
    Postgres(#[from] millstream_pg::Error),
}

impl Error {
    /// A request that is not done: why, and what to do instead.
    pub(crate) fn refused(problem: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Refused(Refusal::new(problem).hint(hint))
    }

    pub(crate) fn file(what: &'static str, path: &std::path::Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::File { what, path, source }
    }

    pub(crate) fn lmdb(what: &'static str, path: &std::path::Path) -> impl FnOnce(heed::Error) -> Self {
        let path = path.to_owned();
        move |source| match source {
            heed::Error::Io(source) => Self::File { what, path, source },
            source => Self::Lmdb { what, path, source },
        }
    }
}

impl Explained for Error {
    fn kind(&self) -> ErrorKind {
        match self {
            Self::Postgres(error) => error.kind(),
            _ => ErrorKind::Config,
        }
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoGeneration { .. } => "name another generation, or none for the current one".into(),
            // A generation's file is named by its number.
            Self::Damaged { path, .. } => match path.file_stem().and_then(|stem| stem.to_str()?.parse::<u64>().ok()) {
                Some(_) => {
                    "build the store again; millstream ranges stat lists its generations, and STORE@N reads another one"
                        .to_owned()
                }
                None => "correct it with the program that wrote it".into(),
            },
            Self::Unread(error) => error.hint("millstream ranges build STORE -"),
            Self::Busy { .. } => "wait for it to end".into(),
            Self::Memory { .. } => "choose members with pick, or make a store with fewer ranges".into(),
            Self::TooDeep { .. } => "leave out some of the ranges that hold this address".into(),
            Self::Refused(refusal) => return refusal.hint.clone(),
            Self::NoStore { hint, .. } => hint.clone(),
            Self::Overlap { .. } => {
                "choose which one counts: --overlap narrowest, --overlap first or --overlap last".to_owned()
            }
            Self::Rejects { .. } => "mend the input, or allow more with --max-rejects".to_owned(),
            Self::Lmdb { source: heed::Error::Mdb(heed::MdbError::Invalid), .. } => {
                "it is no database of LMDB: the name of a MaxMind database must end in .mmdb, and millstream ranges \
                 build makes a store of other files"
                    .to_owned()
            }
            Self::File { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                "free some space; the store is as it was".into()
            }
            _ => return None,
        })
    }
}

fn overlapping(count: u64) -> String {
    if count == 1 {
        "1 range overlaps one before it".into()
    } else {
        format!("{count} ranges overlap others before them")
    }
}

fn listed(numbers: &[u64]) -> String {
    let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
    if numbers.is_empty() { "none".into() } else { numbers.join(", ") }
}
