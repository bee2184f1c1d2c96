//! What a merge mode wants of a document besides its key: its version, and whether it deletes.

use super::decimal::put_decimal;
use super::value;
use super::walk::Found;
use crate::limits::VERSION_BYTES_MAX;
use crate::merge::{Mode, VersionType};
use millstream_model::key_bytes::put_text;
use millstream_model::{Fault, KeyRequest, KeyType, Reason};

/// The paths of a mode, which stand behind those of the key.
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
            put_text(tombstone.value().as_bytes(), &mut text);
            text
        });
        let version_type = mode.version_type().unwrap_or_default();
        Self { mode: mode.clone(), version_type, deleting, text: Vec::new() }
    }

    /// The paths, in the order in which [`Self::judge`] expects what they lead to.
    pub(super) fn paths(&self) -> impl Iterator<Item = &[String]> {
        let version = self.mode.version().map(|version| version.path.as_slice());
        version.into_iter().chain(self.mode.tombstone().map(|tombstone| tombstone.path()))
    }

    /// Appends the version's canonical bytes; whether the document deletes.
    #[inline]
    pub(super) fn judge(
        &mut self,
        document: &[u8],
        found: &[Found],
        scratch: &mut Vec<u8>,
        version: &mut Vec<u8>,
    ) -> Result<bool, Fault> {
        let mut found = found.iter();
        if let Some(wanted) = self.mode.version() {
            let found = found.next().unwrap_or(&Found::Missing);
            put_version(wanted, self.version_type, document, found, scratch, version)?;
        }
        let deletes = match (&self.deleting, found.next()) {
            (Some(deleting), Some(found)) => {
                self.text.clear();
                value::put_typed(KeyType::Text, document, found, scratch, &mut self.text).is_ok()
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

fn put_version(
    wanted: &KeyRequest,
    version_type: VersionType,
    document: &[u8],
    found: &Found,
    scratch: &mut Vec<u8>,
    version: &mut Vec<u8>,
) -> Result<(), Fault> {
    let start = version.len();
    let unfit = match version_type {
        VersionType::Key(key_type) => value::put_typed(key_type, document, found, scratch, version).is_err(),
        VersionType::Numeric => {
            !value::spelled(document, found, scratch).is_some_and(|text| put_decimal(text, version))
        }
    };
    let bytes = version.len() - start;
    if unfit || bytes > VERSION_BYTES_MAX {
        version.truncate(start);
        return Err(if unfit { unfit_version(wanted, version_type, found) } else { long_version(wanted, bytes) });
    }
    Ok(())
}

#[cold]
fn unfit_version(wanted: &KeyRequest, version_type: VersionType, found: &Found) -> Fault {
    let path = wanted.path_text();
    let fault = |reason, detail| Fault::new(reason, detail);
    match found {
        Found::Missing => fault(Reason::VersionMissing, format!("version: nothing at {path}")),
        Found::Null => fault(Reason::VersionMissing, format!("version: null at {path}")),
        found => {
            let (expected, what) = (version_type.expectation(), value::kind_with_article(found));
            fault(Reason::VersionType, format!("version: expected {expected}, found {what} that is none at {path}"))
        }
    }
}

#[cold]
fn long_version(wanted: &KeyRequest, bytes: usize) -> Fault {
    let path = wanted.path_text();
    let detail = format!("version: {bytes} bytes at {path}, more than the limit of {VERSION_BYTES_MAX}");
    Fault::new(Reason::VersionType, detail)
}
