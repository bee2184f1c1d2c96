//! Why a source cannot be read: errors that the user must solve, without damage in the content.

use millstream_model::words::{command, option, set};
use std::io;

/// A source that cannot be opened, read or recognised. [`SourceError::hint`] says what to do next.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The file cannot be opened.
    #[error("cannot open {name}")]
    Open {
        /// The source as the user named it.
        name: String,
        /// What the system says.
        source: io::Error,
    },
    /// The path leads to a directory.
    #[error("{name} is a directory")]
    Directory {
        /// The source as the user named it.
        name: String,
    },
    /// Reading failed in mid-stream.
    #[error("cannot read {name} after its first {offset} bytes")]
    Read {
        /// The source as the user named it.
        name: String,
        /// Bytes read before the failure, as they are on disk.
        offset: u64,
        /// What the system says.
        source: io::Error,
    },
    /// The text is UTF-16.
    #[error("{name} is UTF-16 text; Millstream reads UTF-8")]
    Utf16 {
        /// The source as the user named it.
        name: String,
    },
    /// The text is UTF-32.
    #[error("{name} is UTF-32 text; Millstream reads UTF-8")]
    Utf32 {
        /// The source as the user named it.
        name: String,
    },
    /// A container that we do not open.
    #[error("{name} is a {kind} file; Millstream opens gzip and zstd itself")]
    Container {
        /// The source as the user named it.
        name: String,
        /// What it is.
        kind: &'static str,
        /// What to do instead.
        hint: String,
    },
    /// A zstd frame that asks for more memory than we give.
    #[error("{name} is zstd data with a window above {limit_mib} MiB")]
    ZstdWindow {
        /// The source as the user named it.
        name: String,
        /// The limit.
        limit_mib: usize,
    },
    /// No format has this name.
    #[error("there is no format '{format}'; known are {known}")]
    UnknownFormat {
        /// The name given.
        format: String,
        /// The names there are.
        known: String,
    },
    /// The format was to be recognised, and the content fits no format or one that the user must ask for.
    #[error("{name} {found}")]
    Unclear {
        /// The source as the user named it.
        name: String,
        /// The rest of a sentence that begins with the name.
        found: String,
        /// What to do next.
        hint: String,
    },
    /// A CSV header from which no documents can be made.
    #[error("the CSV header of {name} {problem}")]
    CsvHeader {
        /// The source as the user named it.
        name: String,
        /// The rest of a sentence that begins with the name.
        problem: String,
        /// What to do next.
        hint: String,
    },
    /// A JSON object without the array that its documents should be in.
    #[error("in {name} the path {} {problem}", set("root", root))]
    Root {
        /// The source as the user named it.
        name: String,
        /// The path as it is typed.
        root: String,
        /// The rest of a sentence that begins with the path.
        problem: String,
    },
    /// The source no longer begins with the bytes that an earlier run of the load read.
    #[error("the first {length} bytes of {name} have changed since the load read them")]
    Changed {
        /// The source as the user named it.
        name: String,
        /// Length of the beginning that was compared.
        length: u64,
    },
    /// When an earlier run of the load read the source, it ended in the middle of a document.
    #[error(
        "{name} has grown in the middle of a document: the load took the end of its first {length} bytes for the end \
         of that document"
    )]
    Continued {
        /// The source as the user named it.
        name: String,
        /// Length of what was read.
        length: u64,
    },
}

impl SourceError {
    /// What the user can do about it, as a sentence or a command.
    pub fn hint(&self) -> String {
        match self {
            Self::Open { source, .. } => match source.kind() {
                io::ErrorKind::NotFound => "check the path".into(),
                io::ErrorKind::PermissionDenied => {
                    "give the account that runs this command the right to read it".into()
                }
                _ => "check that the file can be read, for instance with `head -c 100 FILE`".into(),
            },
            Self::Directory { .. } => "name the files in it, for instance DIR/*.ndjson".into(),
            Self::Read { .. } => {
                "run the same command again once the file can be read; it resumes where it stopped".into()
            }
            Self::Utf16 { .. } => {
                let converted = piped("iconv -f UTF-16 -t UTF-8 FILE");
                format!("add {}, or convert it: {converted}", set("encoding", "utf-16"))
            }
            Self::Utf32 { .. } => format!("convert it: {}", piped("iconv -f UTF-32 -t UTF-8 FILE")),
            Self::ZstdWindow { .. } => piped("zstd -dc --long=31 FILE"),
            Self::UnknownFormat { known, .. } => format!("use one of {}", set("format", known)),
            Self::Container { hint, .. } | Self::Unclear { hint, .. } | Self::CsvHeader { hint, .. } => hint.clone(),
            Self::Root { .. } => format!(
                "name the path from the outermost object to the array of documents, for instance {}",
                set("root", "data.items")
            ),
            Self::Changed { .. } => format!(
                "give the unchanged file, or begin a new load with {}; rows that only the old file had stay, and `{}` \
                 lists them",
                set("resume", "off"),
                command(format!("verify FILE .. {}", option("exact")))
            ),
            Self::Continued { length, .. } => format!(
                "give the file as it was, {length} bytes, and load the longer one afterwards; or begin a new load with \
                 {}",
                set("resume", "off")
            ),
        }
    }
}

/// How to load what a command of another program writes.
pub(super) fn piped(writer: &str) -> String {
    format!("{writer} | {}", command("load - .."))
}
