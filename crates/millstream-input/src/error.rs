//! Why an input cannot be read: problems that the user must solve, without damage in the content.

use std::io;

/// An input that cannot be opened or read, or is not what it should be. [`Error::hint`] says what to do next.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be opened.
    #[error("cannot open {name}")]
    Open {
        /// The input as the user named it.
        name: String,
        /// What the system says.
        source: io::Error,
    },
    /// The path leads to a directory.
    #[error("{name} is a directory")]
    Directory {
        /// The input as the user named it.
        name: String,
    },
    /// Reading failed in mid-stream.
    #[error("cannot read {name} after its first {offset} bytes")]
    Read {
        /// The input as the user named it.
        name: String,
        /// Bytes read before the failure, as they are on disk.
        offset: u64,
        /// What the system says.
        source: io::Error,
    },
    /// The file was written into, and not only at its end.
    #[error("{name} was overwritten while it was read: what follows its byte {offset} may be of the new text")]
    Overwritten {
        /// The input as the user named it.
        name: String,
        /// Bytes, as they are on disk, that are of the text that it had when it was opened.
        offset: u64,
    },
    /// The object is no longer the version that was found when the command began.
    #[error("{name} was replaced while it was read; what was read of it, {offset} bytes, is of the version before")]
    Replaced {
        /// The input as the user named it.
        name: String,
        /// Bytes read before, as they are stored.
        offset: u64,
    },
    /// The text is UTF-16.
    #[error("{name} is UTF-16 text; Millstream reads UTF-8")]
    Utf16 {
        /// The input as the user named it.
        name: String,
    },
    /// The text is UTF-32.
    #[error("{name} is UTF-32 text; Millstream reads UTF-8")]
    Utf32 {
        /// The input as the user named it.
        name: String,
    },
    /// A container that we do not open.
    #[error("{name} is a {kind} file; Millstream opens gzip and zstd itself")]
    Container {
        /// The input as the user named it.
        name: String,
        /// What it is.
        kind: &'static str,
        /// What to do instead.
        way: Way,
    },
    /// A zstd frame that asks for more memory than we give.
    #[error("{name} is zstd data with a window above {limit_mib} MiB")]
    ZstdWindow {
        /// The input as the user named it.
        name: String,
        /// The limit.
        limit_mib: usize,
    },
    /// A zstd frame that only its dictionary opens.
    #[error("{name} is zstd data that was compressed with a dictionary")]
    ZstdDictionary {
        /// The input as the user named it.
        name: String,
    },
    /// Compressed data within compressed data.
    #[error("{name} is compressed twice: the {outer} data holds {inner} data")]
    CompressedTwice {
        /// The input as the user named it.
        name: String,
        /// The compression of the file.
        outer: &'static str,
        /// The compression of what it holds.
        inner: &'static str,
        /// The command that opens the outer one.
        writer: &'static str,
    },
    /// A file that is no text, and that this build does not read.
    #[error("{name} is a {kind} file, and this build of millstream has no feature '{feature}', which reads it")]
    Unbuilt {
        /// The input as the user named it.
        name: String,
        /// What it is.
        kind: &'static str,
        /// The feature of the build.
        feature: &'static str,
    },
    /// A file that is no text, and is not read as it is.
    #[error("{name} {problem}")]
    Refused {
        /// The input as the user named it.
        name: String,
        /// The rest of a sentence that begins with the name.
        problem: String,
        /// What to do instead.
        hint: String,
    },
    /// Text in UTF-16 whose bytes are in the other order.
    #[error("{name} is UTF-16 text in the other byte order")]
    OtherByteOrder {
        /// The input as the user named it.
        name: String,
    },
}

/// What to do with a file that is not read as it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Read what this command writes.
    Pipe(&'static str),
    /// Something else, as a sentence.
    Say(&'static str),
}

impl Error {
    /// What the user can do about it, as a sentence or a command. `reader` is the command of ours that reads standard
    /// input.
    pub fn hint(&self, reader: &str) -> String {
        let piped = |writer: &str| piped(writer, reader);
        match self {
            Self::Open { source, .. } => match source.kind() {
                io::ErrorKind::NotFound => "check the path".into(),
                io::ErrorKind::PermissionDenied => {
                    "give the account that runs this command the right to read it".into()
                }
                _ => "check that the file can be read, for instance with `head -c 100 FILE`".into(),
            },
            Self::Directory { .. } => "name the files in it".into(),
            Self::Read { .. } => "run the same command again once the file can be read".into(),
            Self::Overwritten { .. } => "run the same command again when nobody writes into the file".into(),
            Self::Replaced { .. } => {
                "begin again when nobody replaces the object; a load needs `--resume off` then".into()
            }
            Self::Utf16 { .. } => format!("convert it: {}", piped("iconv -f UTF-16 -t UTF-8 FILE")),
            Self::Utf32 { .. } => format!("convert it: {}", piped("iconv -f UTF-32 -t UTF-8 FILE")),
            Self::ZstdWindow { .. } => piped("zstd -dc --long=31 FILE"),
            Self::ZstdDictionary { .. } => piped("zstd -dc -D DICTIONARY FILE"),
            Self::CompressedTwice { writer, .. } => piped(writer),
            Self::OtherByteOrder { .. } => {
                "use --encoding utf-16, for which a byte order mark decides, or name the other one".to_owned()
            }
            Self::Unbuilt { feature, .. } => format!("build it with `cargo build --release --features {feature}`"),
            Self::Refused { hint, .. } => hint.clone(),
            Self::Container { way: Way::Pipe(writer), .. } => piped(writer),
            Self::Container { way: Way::Say(way), .. } => (*way).to_owned(),
        }
    }
}

/// How one of our commands reads what a command of another program writes.
pub fn piped(writer: &str, reader: &str) -> String {
    format!("{writer} | {reader}")
}
