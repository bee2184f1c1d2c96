//! Why a source cannot be read: errors that the user must solve, without damage in the content.

use millstream_input::Error as Unread;

/// The command that loads what another program writes.
const READER: &str = "millstream load - ..";

/// A source that cannot be opened, read or recognised. [`SourceError::hint`] says what to do next.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The input cannot be opened or read, or is no text.
    #[error(transparent)]
    Input(#[from] millstream_input::Error),
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
    #[error("in {name} the path --root {root} {problem}")]
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
            Self::Input(error) => {
                let hint = error.hint(READER);
                match error {
                    Unread::Read { .. } => format!("{hint}; it resumes where it stopped"),
                    Unread::Overwritten { .. } => {
                        "when nobody writes into the file, begin a new load of it with --resume off; rows that only \
                         the old text had stay, and `millstream verify FILE .. --exact` lists them"
                            .to_owned()
                    }
                    Unread::Replaced { .. } => {
                        "when nobody replaces the object, begin a new load of it with --resume off; rows that only the \
                         version before had stay, and `millstream verify FILE .. --exact` lists them"
                            .to_owned()
                    }
                    Unread::Utf16 { .. } => format!("add --encoding utf-16, or {hint}"),
                    _ => hint,
                }
            }
            Self::UnknownFormat { known, .. } => format!("use one of --format {known}"),
            Self::Unclear { hint, .. } | Self::CsvHeader { hint, .. } => hint.clone(),
            Self::Root { .. } => {
                "name the path from the outermost object to the array of documents, for instance --root data.items"
                    .to_owned()
            }
            Self::Changed { .. } => {
                "give the unchanged file, or begin a new load with --resume off; rows that only the old file had stay, \
                 and `millstream verify FILE .. --exact` lists them"
                    .to_owned()
            }
            Self::Continued { length, .. } => format!(
                "give the file as it was, {length} bytes, and load the longer one afterwards; or begin a new load with \
                 --resume off"
            ),
        }
    }
}
