//! Folders on another machine that a copy looks at: what is in them, and the hashes of their files.

use super::address::{Address, By, joined, quoted, quoted_path};
use super::listing::Listing;
use super::rsync::{Rsync, failure};
use crate::at_work::WORK;
use crate::crew::{Queue, crew};
use crate::entry::{Entry, EntryKind, Hash};
use crate::error::Error;
use crate::limits::{BUCKET_ENTRIES_MAX, HASHED_BYTES_MAX};
use crate::manifest::{Header, Reader};
use crate::owner::{Content, Look, NOTE, Owner};
use crate::path::{shown_path, split};
use crate::request::{Request, Workers};
use crate::tally::{Failures, Tally};
use crate::walk::Scope;
use millstream_host::scratch_folder;
use millstream_model::Refusal;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// A folder on another machine.
pub(crate) struct FarFolder {
    root: Address,
    host: OsString,
    rsync: Rsync,
    workers: usize,
}

/// Lets a shell say what is in its folder, or what is around the folder that it would make in it: then `$is` is empty. It is
/// one line, because not every login shell takes several.
const LOOKS: &str = "at=$(pwd -P); printf 'at %s\\0' \"$at\"; [ \"$is\" ] || at=$at/x; up=$at; \
    while [ \"$up\" ]; do up=${up%/*}; \
    for of in \"$up/PG_VERSION\" \"$up/archive_status\" \"$up/.millstream-copy.owner\" \"$up\"/PG_[0-9][0-9]_*; \
    do if [ -e \"$of\" ]; then printf 'in %s\\0' \"${up:-/}\"; up=; break; fi; done; done; \
    [ \"$is\" ] || { printf 'missing\\0'; exit 0; }; \
    [ \"$(ls -A | grep -v -x -e '[.]millstream-copy[.]owner' -e '[.]millstream-copy[.]work' | head -n 1)\" ] && \
    printf 'some\\0'; \
    [ \"$(ls -A | grep -v '^[.]millstream-copy[.]' | head -n 1)\" ] && printf 'full\\0'; \
    [ -e postmaster.pid ] && printf 'running\\0'; \
    [ -f .millstream-copy.owner ] && { printf 'owner '; head -c 4096 .millstream-copy.owner; printf '\\0'; }; exit 0";

/// Ends a script if it could not enter its folder, and lets it write only files that are new, and private.
const NO_FOLDER: &str = " || { echo 'there is no folder for the destination' >&2; exit 1; }; umask 077; set -C; ";

impl FarFolder {
    /// The root of a copy, if it lies on another machine.
    ///
    /// # Errors
    /// Only a daemon answers there, which tells no hashes; rsync is missing.
    pub(crate) fn of(request: &Request, target: &Path) -> Result<Option<Self>, Error> {
        let Some(root) = Address::parse(target)? else { return Ok(None) };
        let By::Shell(host) = root.by.clone() else {
            let says = "a daemon of rsync tells no hashes, by which a copy of a cluster is compared";
            return Err(Error::refused(says, "copy over ssh: HOST:PATH"));
        };
        let workers = match request.workers {
            Workers::Fixed(workers) => workers,
            Workers::Auto => millstream_host::cpus(),
        };
        Ok(Some(Self { root, host, rsync: Rsync::new(request)?, workers }))
    }

    /// A path of the same machine.
    pub(crate) fn beside(&self, path: &Path) -> PathBuf {
        self.root.at(path).text().into()
    }

    /// A name in the folder.
    pub(crate) fn inside(&self, name: &str) -> PathBuf {
        self.root.join(name.as_bytes()).text().into()
    }

    /// Looks at the folder.
    ///
    /// # Errors
    /// The machine cannot be reached.
    pub(crate) fn look(&self, tally: &Tally) -> Result<Look, Error> {
        let (root, above) = (quoted_path(&self.root.path), quoted_path(&self.root.parent().path));
        let enters = " 2>/dev/null && is=1 || { is=; cd ";
        let script = joined([&"cd ", &root, &enters, &above, &" 2>/dev/null || exit 0; }; ", &LOOKS]);
        // Without a folder to make it in, the copy says so.
        let path = PathBuf::from(OsStr::from_bytes(&self.root.path));
        let mut look = Look { content: Content::Empty, path, owner: None, within: None };
        self.rsync.script(&self.host, &script, b"", tally, &mut |record| {
            let path_behind =
                |word: &[u8]| record.strip_prefix(word).map(|path| PathBuf::from(OsStr::from_bytes(path)));
            if let Some(path) = path_behind(b"at ") {
                look.path = path;
            } else if let Some(path) = path_behind(b"in ") {
                look.within = Some(path);
            } else if let Some(text) = record.strip_prefix(b"owner ") {
                look.owner = std::str::from_utf8(text).ok().and_then(Owner::parse);
            }
            match (record, self.root.name()) {
                (b"missing", Some(name)) => look.path.push(OsStr::from_bytes(name)),
                (b"some", _) => look.content = Content::Unfinished,
                (b"full", _) => look.content = Content::Full,
                (b"running", _) => look.content = Content::Running,
                _ => {}
            }
            Ok(())
        })?;
        Ok(look)
    }

    /// Writes the note to which copy the folder belongs, unless there is one. One that is `stale` is removed first. Makes the
    /// folder.
    ///
    /// # Errors
    /// There is one; the folder cannot be made or written; the machine cannot be reached.
    pub(crate) fn take(&self, text: &str, is_stale: bool, tally: &Tally) -> Result<(), Error> {
        let removes = if is_stale { format!("rm -f {NOTE}; ") } else { String::new() };
        let root = quoted_path(&self.root.path);
        // Not every login shell takes a script of several lines.
        let writes = joined([&"printf '%s\\n' ", &quoted(text.trim_end().as_bytes()), &format!(" > {NOTE}")]);
        let script = joined([&"mkdir ", &root, &" 2>/dev/null; cd ", &root, &NO_FOLDER, &removes, &writes]);
        let ran = self.rsync.script(&self.host, &script, b"", tally, &mut |_| Ok(()))?;
        match ran.is_whole || tally.is_stopped() {
            true => Ok(()),
            false => Err(failure(&ran.said, "its shell cannot write there")),
        }
    }

    /// Writes a note of the process that works in the folder, in the place of one that is `stale`, unless there is another one.
    /// Makes the folder. Returns the note that is there.
    ///
    /// # Errors
    /// The folder cannot be made or written; the machine cannot be reached.
    pub(crate) fn hold(&self, note: &str, stale: Option<&str>, tally: &Tally) -> Result<String, Error> {
        let root = quoted_path(&self.root.path);
        let enters = joined([&"mkdir ", &root, &" 2>/dev/null; cd ", &root, &NO_FOLDER]);
        let is_stale = stale.map(|stale| joined([&format!("[ \"$(cat {WORK})\" = "), &quoted(stale.as_bytes())]));
        let removes =
            is_stale.map(|is_stale| joined([&is_stale, &format!(" ] && rm -f {WORK}; ")])).unwrap_or_default();
        let writes = joined([&"printf '%s\\n' ", &quoted(note.as_bytes()), &format!(" > {WORK}; ")]);
        let reads = format!("[ -f {WORK} ] || exit 1; printf 'note %s\\0' \"$(head -c 4096 {WORK})\"");
        let (mut found, script) = (None, joined([&enters, &removes, &writes, &reads]));
        let ran = self.rsync.script(&self.host, &script, b"", tally, &mut |record| {
            found = record.strip_prefix(b"note ").map(|note| String::from_utf8_lossy(note).into_owned());
            Ok(())
        })?;
        match found {
            None if !tally.is_stopped() => Err(failure(&ran.said, "its shell cannot write there")),
            found => Ok(found.unwrap_or_default()),
        }
    }

    /// Removes a file in the folder, if there is such a one.
    ///
    /// # Errors
    /// It cannot be removed, or the machine not be reached.
    pub(crate) fn remove(&self, name: &str, tally: &Tally) -> Result<(), Error> {
        let quoted = |name: &[u8]| quoted_path(&self.root.join(name).path);
        let (folder, path) = (quoted(split(name.as_bytes()).0), quoted(name.as_bytes()));
        // Whoever owns the root could have put a link to another folder there.
        let refused = " ]; then echo 'its folder is a link' >&2; exit 1; fi; rm -f ";
        self.rsync.order(&self.host, &joined([&"if [ -L ", &folder, &refused, &path]), tally)
    }

    /// Gives `each` the files in the folder, with their SHA-256 as the other machine computes it, in any order.
    ///
    /// # Errors
    /// The machine cannot be reached; a file cannot be read.
    pub(crate) fn files(
        &self,
        home: &Path,
        tally: &Tally,
        each: &mut (dyn FnMut(Entry, Hash) + Send),
    ) -> Result<(), Error> {
        let folder = scratch_folder(home, ".tmp", 0o700).map_err(Error::file("make a folder in", home))?;
        let path = folder.path().join("list");
        let (looked, failures) = (tally.aside(), Failures::default());
        let (rsync, root, scope) = (&self.rsync, &self.root, Scope::default());
        let listing = Listing { rsync, root, scope, tally: &looked, failures: &failures, is_source: false };
        listing.list(&Header::default(), &path, folder.path())?;
        let mut list = Reader::open(&path).map_err(Error::manifest(&path))?;
        let each = Mutex::new(each);
        in_batches(
            self.workers,
            tally,
            |entries| {
                let hashed = self.hash(entries, tally)?;
                let mut each = each.lock().unwrap_or_else(PoisonError::into_inner);
                hashed.into_iter().for_each(|(entry, hash)| each(entry, hash));
                Ok(())
            },
            |send| {
                while let Some(entry) = list.next().map_err(Error::manifest(&path))? {
                    let size = entry.facts.size();
                    if matches!(entry.facts.kind, EntryKind::File { .. }) && !send(entry, size) {
                        break;
                    }
                }
                Ok(())
            },
        )
        .map(drop)
    }

    fn hash(&self, entries: Vec<Entry>, tally: &Tally) -> Result<Vec<(Entry, Hash)>, Error> {
        let mut found: HashMap<Vec<u8>, Hash> = HashMap::new();
        let paths: Vec<&[u8]> = entries.iter().map(|entry| &entry.path[..]).collect();
        let said = sha256sum(&self.rsync, &self.host, &self.root, &paths, tally, &mut |path, hash| {
            if let Some(hash) = unhex(hash) {
                found.insert(path.to_vec(), hash);
            }
        })?;
        let with_hash = |entry: Entry| match found.get(&entry.path) {
            Some(hash) => Ok((entry, *hash)),
            None => {
                let why = said.lines().next().unwrap_or("there is no answer");
                let says = format!("{} cannot be read there: {why}", crate::path::shown(&entry.path));
                Err(Error::from(Refusal::new(says)))
            }
        };
        if tally.is_stopped() {
            return Ok(Vec::new());
        }
        entries.into_iter().map(with_hash).collect()
    }
}

/// Lets several processes hash files, as many at once as a connection is worth. `feed` gets what takes a file and its size,
/// and says whether more is taken. Returns what `hash` has made of each batch.
///
/// # Errors
/// The first error of `hash`, else that of `feed`.
pub(super) fn in_batches<T: Send, R: Send>(
    workers: usize,
    tally: &Tally,
    hash: impl Fn(Vec<T>) -> Result<R, Error> + Sync,
    feed: impl FnOnce(&mut dyn FnMut(T, u64) -> bool) -> Result<(), Error>,
) -> Result<Vec<R>, Error> {
    let hashed = crew(
        workers,
        0,
        |_, queue: Queue<Vec<T>>| std::iter::from_fn(|| queue.next()).map(&hash).collect::<Result<Vec<R>, Error>>(),
        |sender| {
            let (mut files, mut bytes) = (Vec::new(), 0);
            feed(&mut |file, size| {
                files.push(file);
                bytes += size;
                if bytes < HASHED_BYTES_MAX && files.len() < BUCKET_ENTRIES_MAX {
                    return !tally.is_stopped();
                }
                bytes = 0;
                !tally.is_stopped() && sender.send(std::mem::take(&mut files)).is_ok()
            })?;
            if !files.is_empty() && !tally.is_stopped() {
                // Workers that have ended say why.
                let _ = sender.send(files);
            }
            Ok(())
        },
    )?;
    Ok(hashed.into_iter().flatten().collect())
}

/// Lets a host hash files of a folder. Gives each path and its hash in hex to `each`, and returns what was said on stderr.
///
/// # Errors
/// The host cannot be reached, or has no sha256sum.
pub(super) fn sha256sum(
    rsync: &Rsync,
    host: &OsStr,
    root: &Address,
    paths: &[&[u8]],
    tally: &Tally,
    each: &mut dyn FnMut(&[u8], &[u8]),
) -> Result<String, Error> {
    let script = joined([&"cd ", &quoted_path(&root.path), &" && exec xargs -0 sha256sum -b -z --"]);
    let names: Vec<u8> = paths.iter().flat_map(|path| [b"./", *path, &[0]]).flatten().copied().collect();
    let ran = rsync.script(host, &script, &names, tally, &mut |record| {
        if let Some((hash, path)) = record.split_at_checked(64) {
            each(path.strip_prefix(b" *./").unwrap_or(path), hash);
        }
        Ok(())
    })?;
    if ran.said.contains("sha256sum: not found") || ran.said.contains("sha256sum: No such file") {
        let says = format!("{} has no sha256sum", shown_path(host));
        return Err(Error::refused(says, "install coreutils there"));
    }
    Ok(ran.said)
}

fn unhex(text: &[u8]) -> Option<Hash> {
    let text = std::str::from_utf8(text).ok()?;
    let mut hash = [0; 32];
    for (n, byte) in hash.iter_mut().enumerate() {
        *byte = u8::from_str_radix(text.get(2 * n..2 * n + 2)?, 16).ok()?;
    }
    Some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_note_of_an_owner_is_looked_for_by_its_name() {
        assert_eq!(LOOKS.matches(crate::owner::NOTE).count(), 3);
        assert!(!LOOKS.contains('\n'));
    }

    #[test]
    fn a_hash_is_read_as_it_is_printed() {
        let text = "0a".repeat(31) + "ff";
        let hash = unhex(text.as_bytes()).unwrap();
        assert_eq!((hash[0], hash[31]), (10, 255));
        assert_eq!((unhex(b"0a"), unhex("zz".repeat(32).as_bytes())), (None, None));
    }

    #[test]
    fn a_batch_is_full_with_so_many_bytes_and_none_is_lost() {
        let sizes = [HASHED_BYTES_MAX / 2, HASHED_BYTES_MAX / 2, 1, HASHED_BYTES_MAX, 1];
        let mut batches = in_batches(2, &Tally::default(), Ok, |send| {
            assert!(sizes.iter().zip(0..).all(|(size, file)| send(file, *size)));
            Ok(())
        })
        .unwrap();
        batches.sort();
        assert_eq!(batches, [vec![0, 1], vec![2, 3], vec![4]]);
    }
}
