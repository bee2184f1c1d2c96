//! An object in the version that was found, of which every read demands that version.

use crate::address::require_short;
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
    /// It has no tag, or one that may be that of another version, too; no request can hold its tag or its name.
    pub(crate) fn of(store: Arc<Store>, name: String, meta: ObjectMeta) -> Result<Self, Error> {
        require_short(&name)?;
        let is_strong =
            |tag: &&str| !tag.is_empty() && !tag.starts_with("W/") && tag.bytes().all(|b| b.is_ascii_graphic());
        let tag = meta.e_tag.as_deref().map(bare).filter(is_strong);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::ADDRESS_BYTES_MAX;
    use crate::runtime::begin;
    use object_store::memory::InMemory;
    use object_store::{ObjectStore, PutOptions, PutPayload};

    #[test]
    fn what_a_store_says_of_an_object_must_fit_into_a_request() {
        let memory: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let (store, path) = (Arc::new(Store::of(Arc::clone(&memory), 1)), Path::from("a"));
        let filled = async move {
            memory.put_opts(&path, PutPayload::from(b"{}".to_vec()), PutOptions::default()).await?;
            memory.get_opts(&path, GetOptions::new().with_head(true)).await
        };
        let meta = begin(filled).unwrap().wait(&|| {}).unwrap().unwrap().meta;
        let of = |name: &str, tag: &str| {
            let meta = ObjectMeta { e_tag: Some(tag.to_owned()), ..meta.clone() };
            Stored::of(Arc::clone(&store), name.to_owned(), meta).map(|stored| stored.tag().to_owned())
        };
        for tag in ["\"a-1\"", "a-1"] {
            assert_eq!(of("s3://b/a", tag).unwrap(), "a-1");
        }
        for tag in ["", "\"\"", "W/\"a\"", "\"a\nb\"", "\"a\0\"", "ü"] {
            assert!(of("s3://b/a", tag).unwrap_err().to_string().contains("has no strong ETag"), "{tag:?}");
        }
        let long = of(&"a".repeat(ADDRESS_BYTES_MAX + 1), "a-1").unwrap_err();
        assert!(long.to_string().contains("bytes"), "{long}");
    }
}
