//! A line of a file of rejects.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

/// One line of a rejects file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RejectLine {
    /// The load that rejected the document.
    pub load_id: i64,
    /// Name of the source.
    pub source: String,
    /// Offset of the document in the uncompressed source.
    pub byte_offset: u64,
    /// Line of the source on which the document begins, from 1.
    pub line: u64,
    /// Code of the reason.
    pub reason: String,
    /// What is wrong, for people.
    pub detail: String,
    /// The document's bytes, if they are text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document: Option<String>,
    /// The document's bytes in base64, if they are not text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document_base64: Option<String>,
    /// Length of the whole document.
    pub bytes: u64,
    /// Whether the document was too long to keep. Then only its head and tail are here.
    pub truncated: bool,
}

impl RejectLine {
    /// Stores the document's bytes, as text if they are UTF-8, else in base64.
    pub fn set_document(&mut self, document: &[u8]) {
        (self.document, self.document_base64) = match std::str::from_utf8(document) {
            Ok(text) => (Some(text.into()), None),
            Err(_) => (None, Some(STANDARD.encode(document))),
        };
    }
}
