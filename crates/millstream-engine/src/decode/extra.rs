//! What a merge mode needs from a document besides its key: its version, and whether it deletes.

use super::path_scan::Found;
use super::value::{self, Unfit};
use crate::limits::VERSION_BYTES_MAX;
use crate::merge::Mode;
use millstream_model::key_bytes::put_text;
use millstream_model::{Fault, KeyRequest, KeyType, LiteralError, Reason, VersionType, put_literal, put_version};

/// The paths of a mode. They come after those of the key.
#[derive(Debug, Clone)]
pub(super) struct Extra {
    mode: Mode,
    version_type: VersionType,
    /// Canonical bytes of the text that makes a tombstone.
    deleting: Option<Vec<u8>>,
    text: Vec<u8>,
}

impl Extra {
    pub(super) fn new(mode: &Mode) -> Self {
        let deleting = mode.tombstone().map(|tombstone| {
            let mut text = Vec::new();
            put_text(tombstone.value.as_bytes(), &mut text);
            text
        });
        let version_type = mode.version_type().unwrap_or_default();
        Self { mode: mode.clone(), version_type, deleting, text: Vec::new() }
    }

    /// The paths, in the order in which [`Self::read`] expects their values.
    pub(super) fn paths(&self) -> impl Iterator<Item = &[String]> {
        let version = self.mode.version().map(|version| version.path.as_slice());
        version.into_iter().chain(self.mode.tombstone().map(|tombstone| tombstone.path.path.as_slice()))
    }

    /// Appends the version's canonical bytes. Returns whether the document deletes.
    #[inline]
    pub(super) fn read(
        &mut self,
        document: &[u8],
        found: &[Found],
        scratch: &mut Vec<u8>,
        version: &mut Vec<u8>,
    ) -> Result<bool, Fault> {
        let mut found = found.iter();
        if let Some(wanted) = self.mode.version() {
            let found = found.next().unwrap_or(&Found::Missing);
            read_version(wanted, self.version_type, document, found, scratch, version)?;
        }
        let deletes = match (&self.deleting, found.next()) {
            (Some(deleting), Some(found)) => {
                self.text.clear();
                value::put_typed(KeyType::Text, document, found, scratch, &mut self.text, put_literal).is_ok()
                    && self.text == *deleting
            }
            _ => false,
        };
        if !deletes {
            self.mode.check(document)?;
        }
        Ok(deletes)
    }
}

fn read_version(
    wanted: &KeyRequest,
    version_type: VersionType,
    document: &[u8],
    found: &Found,
    scratch: &mut Vec<u8>,
    version: &mut Vec<u8>,
) -> Result<(), Fault> {
    let start = version.len();
    let put = value::put_typed(version_type.0, document, found, scratch, version, put_version);
    let bytes = version.len() - start;
    let fault = match put {
        Ok(()) if bytes <= VERSION_BYTES_MAX => return Ok(()),
        Ok(()) => long_version(wanted, bytes),
        Err(unfit) => unfit_version(wanted, version_type, found, &unfit),
    };
    version.truncate(start);
    Err(fault)
}

#[cold]
fn unfit_version(wanted: &KeyRequest, version_type: VersionType, found: &Found, unfit: &Unfit) -> Fault {
    let path = wanted.path_text();
    let fault = |reason, detail| Fault::new(reason, detail);
    match (found, unfit) {
        (Found::Missing, _) => fault(Reason::VersionMissing, format!("version: nothing at {path}")),
        (Found::Null(_), _) => fault(Reason::VersionMissing, format!("version: null at {path}")),
        (_, Unfit::Literal(error @ LiteralError::LeapSecond)) => {
            fault(Reason::VersionType, format!("version: {error}, at {path}"))
        }
        (found, _) => {
            let (expected, what) = (version_type.expectation(), value::kind_with_article(found));
            fault(Reason::VersionType, format!("version: expected {expected}, found {what} that is not one at {path}"))
        }
    }
}

#[cold]
fn long_version(wanted: &KeyRequest, bytes: usize) -> Fault {
    let path = wanted.path_text();
    let detail = format!("version: {bytes} bytes at {path}, more than the limit of {VERSION_BYTES_MAX}");
    Fault::new(Reason::VersionType, detail)
}
