//! An object in the version that was found, of which every read demands that version.

use crate::cause::CauseKind;
use crate::error::Error;
use crate::stores::Store;
use bytes::Bytes;
use millstream_input::Replaced;
use object_store::path::Path;
use object_store::{GetOptions, ObjectMeta};
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// An object of a store. Copies are the same one.
#[derive(Clone)]
pub(crate) struct Stored(Arc<Facts>);

struct Facts {
    store: Arc<Store>,
    path: Path,
    name: String,
    size: u64,
    /// Without quotes. Some stores list it with quotes, and some without.
    tag: String,
}

impl Stored {
    /// The object that a store describes.
    ///
    /// # Errors
    /// It has no tag, or one that may be that of another version, too.
    pub(crate) fn of(store: Arc<Store>, name: String, meta: ObjectMeta) -> Result<Self, Error> {
        let tag = meta.e_tag.as_deref().map(bare).filter(|tag| !tag.is_empty() && !tag.starts_with("W/"));
        let Some(tag) = tag else {
            let problem = format!("{name} has no strong ETag, by which every read demands the same version of it");
            let hint = "let another program read it: curl -sSf URL | millstream load - --source-name NAME ..";
            return Err(Error::refused(problem, hint));
        };
        let tag = tag.to_owned();
        Ok(Self(Arc::new(Facts { store, path: meta.location, name, size: meta.size, tag })))
    }

    pub(crate) fn name(&self) -> &str {
        &self.0.name
    }

    /// Bytes.
    pub(crate) fn size(&self) -> u64 {
        self.0.size
    }

    pub(crate) fn tag(&self) -> &str {
        &self.0.tag
    }

    /// Requests at once.
    pub(crate) fn ranges(&self) -> usize {
        self.0.store.ranges
    }

    /// Reads these bytes.
    ///
    /// # Errors
    /// [`Replaced`]; what the store said.
    pub(crate) async fn bytes(self, range: Range<u64>) -> io::Result<Bytes> {
        let Facts { store, path, size, tag, .. } = &*self.0;
        let length = range.end - range.start;
        // Some servers answer with 200, and not with 206, if the range is the whole object.
        let part = (length < *size).then_some(range);
        let options = GetOptions::new().with_if_match(Some(format!("\"{tag}\""))).with_range(part);
        let failed = |error: object_store::Error| self.failed(&error);
        let got = store.client.get_opts(path, options).await.map_err(failed)?;
        // Some servers do not know If-Match.
        if got.meta.size != *size || got.meta.e_tag.as_deref().map(bare) != Some(tag.as_str()) {
            return Err(io::Error::other(Replaced));
        }
        let bytes = got.bytes().await.map_err(failed)?;
        match bytes.len() as u64 == length {
            true => Ok(bytes),
            false => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the store sent fewer bytes than it should")),
        }
    }

    fn failed(&self, error: &object_store::Error) -> io::Error {
        let cause = self.0.store.cause(error);
        match cause.kind {
            CauseKind::Replaced => io::Error::other(Replaced),
            CauseKind::Missing => io::Error::new(io::ErrorKind::NotFound, cause.text),
            CauseKind::Denied => io::Error::new(io::ErrorKind::PermissionDenied, cause.text),
            _ => io::Error::other(cause.text),
        }
    }
}

/// A tag without its quotes.
fn bare(tag: &str) -> &str {
    tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"')).unwrap_or(tag)
}

impl fmt::Debug for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Facts { name, size, tag, .. } = &*self.0;
        f.debug_struct("Stored").field("name", name).field("size", size).field("tag", tag).finish_non_exhaustive()
    }
}
