//! Writes the file of a generation.

use super::Sweeping;
use crate::error::Error;
use crate::limits::{MAP_BYTES_MAX, PROBE_BYTES, WRITE_BYTES, WRITE_ROWS};
use crate::store::{FORMAT, Layout, META, Receipt, environment, key};
use crate::value;
use heed::types::Bytes;
use heed::{CommitOrAbort, Database, EnvFlags, MdbError, PutFlags};
use millstream_failpoint as failpoint;
use millstream_host::own_file;
use millstream_model::range::{FAMILIES, Range};
use std::io::{self, Write};
use std::path::Path;

/// A range to store, with the members of its value.
pub(crate) struct Stored<'a> {
    pub(crate) range: Range,
    pub(crate) members: &'a str,
}

/// How writing ended.
pub(crate) enum Written {
    /// Everything is on the disk.
    Whole,
    /// The address space was too small: write again with more.
    MapFull,
}

/// Where ranges to store go.
pub(crate) type Put<'a> = &'a mut dyn FnMut(Stored<'_>) -> Result<(), Error>;

/// Writes ranges into a new file and syncs it.
///
/// # Errors
/// Errors of LMDB, the disk and the content.
pub(super) fn write(
    path: &Path,
    layout: Layout,
    map_bytes: usize,
    content: &mut Sweeping<'_>,
) -> Result<Written, Error> {
    if map_bytes > MAP_BYTES_MAX {
        return Err(Error::TooLarge { path: path.to_owned() });
    }
    let failed = |error| Error::lmdb("write", path)(error);
    // LMDB would make it for this user alone; here the umask decides who may read it. Nothing is there: see `discard`.
    own_file(0o644).write(true).create_new(true).open(path).map_err(Error::file("write", path))?;
    let flags = EnvFlags::NO_LOCK | EnvFlags::NO_SYNC | EnvFlags::NO_META_SYNC;
    let env = environment(path, flags, Some(map_bytes))?;
    let result = (|| {
        let creating = env.write_txn().map_err(failed)?;
        let created = env.create_databases_and_commit(creating, |opener, creating| {
            let mut create =
                |name: &str| opener.create_database(creating, Some(name).filter(|_| layout == Layout::Named));
            let [v4, v6] = FAMILIES.map(|family| create(family.name()));
            Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit([v4?, v6?, create(META)?]))
        });
        let [v4, v6, meta]: [Database<'_, Bytes, Bytes>; 3] = created.map_err(failed)?.unwrap_commit();
        let ranges = [v4, v6];
        let mut transaction = env.write_txn().map_err(failed)?;
        // Ranges come in the order of their keys, except in one database for both families.
        let append = if layout == Layout::Named { PutFlags::APPEND } else { PutFlags::empty() };
        let (mut rows, mut bytes, mut value) = (0, 0, String::new());
        let mut ended = false;
        while !ended {
            let put = &mut |stored: Stored<'_>| {
                let Range { family, start, end } = stored.range;
                value.clear();
                value::put(family, end, stored.members, &mut value);
                let (key, length) = key(family, start);
                rows += 1;
                bytes += length + value.len();
                ranges[family as usize]
                    .put_with_flags(&mut transaction, append, &key[..length], value.as_bytes())
                    .map_err(failed)
            };
            ended = !content.next(put)?;
            // What a transaction has changed is in memory until it commits.
            if rows >= WRITE_ROWS || bytes >= WRITE_BYTES {
                transaction.commit().map_err(failed)?;
                transaction = env.write_txn().map_err(failed)?;
                (rows, bytes) = (0, 0);
            }
        }
        failpoint::hit_on_thread("ranges-filled");
        if layout == Layout::Named {
            for (name, text) in described(&content.receipt) {
                meta.put(&mut transaction, name.as_bytes(), text.as_bytes()).map_err(failed)?;
            }
        }
        transaction.commit().map_err(failed)?;
        env.force_sync().map_err(failed)
    })();
    // The next try opens the same path.
    env.prepare_for_closing().wait();
    match result {
        Ok(()) => Ok(Written::Whole),
        Err(Error::Lmdb { source: heed::Error::Mdb(MdbError::MapFull), .. }) => Ok(Written::MapFull),
        Err(error @ Error::File { .. }) => Err(disk_error(path).map_or(error, Error::file("write", path))),
        Err(error) => Err(error),
    }
}

/// The error that the disk gives now. LMDB reports a write that a full disk cut short as an error of the device.
fn disk_error(path: &Path) -> Option<io::Error> {
    let probe = tempfile::tempfile_in(path.parent()?);
    probe.and_then(|mut probe| probe.write_all(&[0; PROBE_BYTES]).and_then(|()| probe.sync_all())).err()
}

/// What the database `meta` says: values are JSON.
fn described(receipt: &Receipt) -> [(&'static str, String); 4] {
    let counts = serde_json::json!({
        "read": receipt.read, "whole": receipt.whole, "merged": receipt.merged, "cut": receipt.cut,
        "covered": receipt.covered, "rejected": receipt.rejected, "stored": receipt.stored,
        "stored_v4": receipt.stored_v4, "stored_v6": receipt.stored_v6,
    });
    [
        ("format", FORMAT.to_string()),
        ("generation", receipt.generation.to_string()),
        ("sources", serde_json::json!(receipt.sources).to_string()),
        ("counts", counts.to_string()),
    ]
}
