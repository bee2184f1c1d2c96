//! Reads what is wanted of a document besides its key: its version, whether it deletes, and whether it holds numbers.

use super::path_scan::Found;
use super::sum;
use super::value::{self, Unfit};
use super::wanted::Wanted;
use crate::limits::VERSION_BYTES_MAX;
use crate::members::text;
use millstream_model::key_bytes::put_text;
use millstream_model::{Fault, KeyType, LiteralError, Reason, VersionType, path_text, put_literal, put_version};

/// What is wanted. Its paths come after those of the key.
#[derive(Debug, Clone)]
pub(super) struct Extra {
    wanted: Wanted,
    /// Canonical bytes of the text that makes a tombstone.
    deleting: Option<Vec<u8>>,
    text: Vec<u8>,
}

impl Extra {
    pub(super) fn new(wanted: Wanted) -> Self {
        let deleting = wanted.delete_when.as_ref().map(|(_, value)| {
            let mut text = Vec::new();
            put_text(value.as_bytes(), &mut text);
            text
        });
        Self { wanted, deleting, text: Vec::new() }
    }

    /// The paths, in the order in which [`Self::read`] expects their values.
    pub(super) fn paths(&self) -> impl Iterator<Item = &[String]> {
        let version = self.wanted.version.as_ref().map(|(path, _)| path.as_slice());
        version.into_iter().chain(self.wanted.delete_when.as_ref().map(|(path, _)| path.as_slice()))
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
        let start = version.len();
        let mut found = found.iter();
        if let Some((path, version_type)) = &self.wanted.version {
            let found = found.next().unwrap_or(&Found::Missing);
            read_version(path, *version_type, document, found, scratch, version)?;
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
            let mut sums = self.wanted.sums.iter();
            sums.try_for_each(|path| sum::check(path, text(document))).inspect_err(|_| version.truncate(start))?;
        }
        Ok(deletes)
    }
}

fn read_version(
    path: &[String],
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
        Ok(()) => long_version(path, bytes),
        Err(unfit) => unfit_version(path, version_type, found, &unfit),
    };
    version.truncate(start);
    Err(fault)
}

#[cold]
fn unfit_version(path: &[String], version_type: VersionType, found: &Found, unfit: &Unfit) -> Fault {
    let path = path_text(path);
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
fn long_version(path: &[String], bytes: usize) -> Fault {
    let path = path_text(path);
    let detail = format!("version: {bytes} bytes at {path}, more than the limit of {VERSION_BYTES_MAX}");
    Fault::new(Reason::VersionType, detail)
}

#[cfg(test)]
mod tests {
    use super::super::{DecodeLimits, Decoder};
    use super::*;
    use millstream_model::{KeyRequest, KeySpec};

    #[test]
    fn what_is_wanted_is_found_and_a_fault_leaves_nothing_behind() {
        let key = KeySpec::from_requests(&KeyRequest::parse_list("k:text").unwrap()).unwrap();
        let path = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let wanted = Wanted {
            version: Some((path(&["v"]), VersionType(KeyType::Bigint))),
            delete_when: Some((path(&["op"]), "d".to_owned())),
            sums: vec![path(&["n"]), path(&["m", "n"])],
        };
        let mut decoder = Decoder::wanting(&key, wanted, DecodeLimits::default());
        for (document, expected) in [
            (r#"{"k":"x","v":7,"n":1}"#, Ok(false)),
            (r#"{"k":"x","v":7,"op":"u"}"#, Ok(false)),
            (r#"{"k":"x","v":7,"op":"d","n":"no number"}"#, Ok(true)),
            (r#"{"k":"x","n":1}"#, Err(Reason::VersionMissing)),
            (r#"{"k":"x","v":"seven"}"#, Err(Reason::VersionType)),
            (r#"{"k":"x","v":7,"op":"u","m":[1]}"#, Err(Reason::NotNumber)),
        ] {
            let (mut bytes, mut version) = (b"key".to_vec(), b"version".to_vec());
            let found = decoder.decode_versioned(document.as_bytes(), &mut bytes, &mut version);
            assert_eq!(found.map_err(|fault| fault.reason), expected, "{document}");
            let unchanged = (&*bytes, &*version) == (&b"key"[..], &b"version"[..]);
            assert_eq!(unchanged, expected.is_err(), "{document}");
        }
    }
}
