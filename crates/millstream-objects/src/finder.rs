//! Finds the objects that an address or a pattern means, in the version that is there now.

use crate::address::Address;
use crate::error::Error;
use crate::limits::OBJECTS_MAX;
use crate::object::Found;
use crate::pattern::{KeyPattern, has_wildcards};
use crate::runtime::begin;
use crate::stored::Stored;
use crate::stores::Store;
use futures_util::StreamExt;
use millstream_input::Object;
use object_store::path::Path;
use object_store::{Error as StoreError, GetOptions, ObjectMeta};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Finds objects, and keeps the way to each store that it has opened.
#[derive(Default)]
pub struct Finder {
    stores: BTreeMap<String, Arc<Store>>,
    /// What follows the path of each web address.
    queries: BTreeMap<String, Option<String>>,
}

impl Finder {
    /// The objects that an address means: one, or those that match it if it is a pattern, sorted by name. Objects without
    /// bytes are not among the latter: most of them stand for folders, and the others hold no documents. `says` gets a line
    /// while it takes long.
    ///
    /// # Errors
    /// [`Error`] when there is none, or the store does not give it.
    pub fn find(&mut self, typed: &str, says: &dyn Fn(String)) -> Result<Vec<Arc<dyn Object>>, Error> {
        let address = Address::of(typed)?;
        let store = self.store(&address)?;
        self.require_one_query(&address)?;
        match store.kind.lists && has_wildcards(&address.key) {
            true => matching(&store, &address, says),
            false => Ok(vec![one(&store, &address, says)?]),
        }
    }

    fn store(&mut self, address: &Address) -> Result<Arc<Store>, Error> {
        let key = format!("{}?{}", address.root(), address.query.as_deref().unwrap_or_default());
        if let Some(store) = self.stores.get(&key) {
            return Ok(Arc::clone(store));
        }
        let store = Arc::new(Store::open(address)?);
        self.stores.insert(key, Arc::clone(&store));
        Ok(store)
    }

    /// Requires that two addresses that are called the same are the same.
    fn require_one_query(&mut self, address: &Address) -> Result<(), Error> {
        let known = self.queries.entry(address.name.clone()).or_insert_with(|| address.query.clone());
        if *known == address.query {
            return Ok(());
        }
        let problem =
            format!("two addresses of {} differ only behind the question mark, which may be a secret", address.name);
        Err(Error::refused(problem, "load them one after the other, or through pipes with a --source-name each"))
    }
}

impl fmt::Debug for Finder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not what it keeps: a query may be a secret.
        f.debug_struct("Finder").finish_non_exhaustive()
    }
}

/// The object of an address.
fn one(store: &Arc<Store>, address: &Address, says: &dyn Fn(String)) -> Result<Arc<dyn Object>, Error> {
    let name = &address.name;
    let path = match store.kind.lists {
        true => Path::parse(&address.key),
        false => Path::from_url_path(&address.key),
    };
    let path = path.map_err(|source| store.error(name, &StoreError::InvalidPath { source }))?;
    let asked = look(Arc::clone(store), path);
    let waits = || says(format!("waiting for an answer about {name}"));
    let meta = begin(asked).and_then(|asked| asked.wait(&waits)).map_err(|error| failed(name, &error))?;
    let meta = meta.map_err(|error| store.error(name, &error))?;
    Ok(Arc::new(Found::of(Stored::of(Arc::clone(store), name.clone(), meta)?)))
}

/// What a store knows about an object.
async fn look(store: Arc<Store>, path: Path) -> Result<ObjectMeta, StoreError> {
    let looked = store.client.get_opts(&path, GetOptions::new().with_head(true)).await;
    let may_deny_head = matches!(looked, Err(StoreError::PermissionDenied { .. } | StoreError::NotFound { .. }));
    match looked {
        // A signature is good for one method only.
        Err(_) if may_deny_head && !store.kind.lists => {
            Ok(store.client.get_opts(&path, GetOptions::new().with_range(Some(0..1_u64))).await?.meta)
        }
        looked => Ok(looked?.meta),
    }
}

/// The objects that match a pattern.
fn matching(store: &Arc<Store>, address: &Address, says: &dyn Fn(String)) -> Result<Vec<Arc<dyn Object>>, Error> {
    let name = &address.name;
    let pattern = KeyPattern::of(&address.key).map_err(|error| {
        Error::refused(format!("{name} is not a pattern of keys: {error}"), "* ? and [..] match characters")
    })?;
    let listed = Arc::new(AtomicU64::new(0));
    let asked = list(Arc::clone(store), pattern, Arc::clone(&listed));
    let waits = || says(format!("looking for {name}: {} keys so far", listed.load(Ordering::Relaxed)));
    let found = begin(asked).and_then(|asked| asked.wait(&waits)).map_err(|error| failed(name, &error))?;
    let mut found = found.map_err(|error| store.error(name, &error))?;
    if found.is_empty() {
        let hint = "check the bucket and the pattern; a name that begins with a dot matches only a pattern with that dot, \
                    and objects without bytes are left out";
        return Err(Error::refused(format!("no object matches {name}"), hint));
    }
    if found.len() > OBJECTS_MAX {
        let problem = format!("more than {OBJECTS_MAX} objects match {name}");
        return Err(Error::refused(problem, "load them in several commands, with narrower patterns"));
    }
    found.sort_by(|a, b| a.location.cmp(&b.location));
    // A store may list a key on two pages while others write.
    found.dedup_by(|a, b| a.location == b.location);
    let object = |meta: ObjectMeta| -> Result<Arc<dyn Object>, Error> {
        let name = format!("{}/{}", address.root(), meta.location);
        Ok(Arc::new(Found::of(Stored::of(Arc::clone(store), name, meta)?)))
    };
    found.into_iter().map(object).collect()
}

/// What a store knows about the objects that match, and at most one more than may match. A key may have such characters,
/// too: as with files, one that is there is meant.
async fn list(store: Arc<Store>, pattern: KeyPattern, listed: Arc<AtomicU64>) -> Result<Vec<ObjectMeta>, StoreError> {
    let folder = Path::parse(&pattern.folder).map_err(|source| StoreError::InvalidPath { source })?;
    let mut stream = store.client.list(Some(&folder).filter(|folder| !folder.is_root()));
    let mut found = Vec::new();
    while let Some(meta) = stream.next().await {
        let meta = meta?;
        listed.fetch_add(1, Ordering::Relaxed);
        let key: &str = meta.location.as_ref();
        if key == pattern.text {
            return Ok(vec![meta]);
        }
        if meta.size > 0 && pattern.matches(key) {
            found.push(meta);
        }
        if found.len() > OBJECTS_MAX {
            break;
        }
    }
    Ok(found)
}

fn failed(name: &str, error: &io::Error) -> Error {
    Error::Store { name: name.to_owned(), cause: error.to_string(), hint: "run the same command again".to_owned() }
}
