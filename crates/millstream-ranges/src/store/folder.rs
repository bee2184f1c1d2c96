//! The folder of a store: its generations, which one is current, and who builds.
//!
//! ```text
//! STORE/current        -> 00000007.lmdb, a symbolic link
//! STORE/00000007.lmdb     a generation, never changed once it is current
//! STORE/00000007.json     its receipt, with the hash of the file
//! STORE/00000006.lmdb     the previous generation
//! STORE/lock              locked by a build while it runs
//! ```

use super::receipt::Receipt;
use crate::error::Error;
use crate::limits::GENERATIONS_KEPT;
use millstream_failpoint as failpoint;
use millstream_host::{FileLock, make_folder, write_whole};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

const CURRENT: &str = "current";
const LOCK: &str = "lock";
/// The file of LMDB that other programs keep in a folder.
pub(super) const FOREIGN: &str = "data.mdb";
const EXTENSION: &str = "lmdb";
/// Files that a build writes have this extension until they are complete.
const UNFINISHED: &str = "new";

/// The file of a generation.
pub(crate) fn file(store: &Path, generation: u64) -> PathBuf {
    store.join(format!("{generation:08}.{EXTENSION}"))
}

fn receipt_file(store: &Path, generation: u64) -> PathBuf {
    store.join(format!("{generation:08}.json"))
}

/// The generation that readers open.
///
/// # Errors
/// There is no store, or nothing was built in it.
pub fn current(store: &Path) -> Result<u64, Error> {
    let none = |problem: &str, hint: String| {
        let (path, problem) = (store.to_owned(), problem.to_owned());
        Err(Error::NoStore { path, problem, hint })
    };
    let build = || "build it first: millstream ranges build STORE FILE".to_owned();
    let link = store.join(CURRENT);
    // A copy without links still has its generations.
    let mend = || match numbers(store).unwrap_or_default().last() {
        Some(last) => format!("make the link again: ln -sfn {last:08}.{EXTENSION} {}", link.display()),
        None => build(),
    };
    let target = match fs::read_link(&link) {
        Ok(target) => target,
        Err(error) => {
            return match error.kind() {
                io::ErrorKind::NotFound if !store.exists() => none("it does not exist", build()),
                io::ErrorKind::NotFound if numbers(store)?.is_empty() => none("nothing was built in it", build()),
                io::ErrorKind::NotFound => none("its link \"current\" is missing", mend()),
                io::ErrorKind::NotADirectory => none("it is a file", build()),
                io::ErrorKind::InvalidInput => none("its file \"current\" is not a symbolic link", mend()),
                _ => Err(Error::file("read", &link)(error)),
            };
        }
    };
    number_of(&target).map_or_else(|| none("its link \"current\" names no generation", mend()), Ok)
}

/// All generations that a store keeps, the oldest first, with their files.
///
/// # Errors
/// The folder cannot be read.
pub fn generations(store: &Path) -> Result<Vec<(u64, PathBuf)>, Error> {
    Ok(numbers(store)?.into_iter().map(|number| (number, file(store, number))).collect())
}

/// Their numbers.
pub(crate) fn numbers(store: &Path) -> Result<Vec<u64>, Error> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(store).map_err(Error::file("read", store))? {
        let path = entry.map_err(Error::file("read", store))?.path();
        numbers.extend(number_of(&path));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// The number in the name of a generation's file.
fn number_of(path: &Path) -> Option<u64> {
    if path.extension()? != EXTENSION {
        return None;
    }
    path.file_stem()?.to_str().filter(|stem| stem.bytes().all(|b| b.is_ascii_digit()))?.parse().ok()
}

/// The store and the number of a generation, given its file or a link to it. `None`: it is another file.
pub(super) fn of_file(file: &Path) -> Option<(PathBuf, u64)> {
    let file = file.canonicalize().ok()?;
    let (store, number) = (file.parent()?, number_of(&file)?);
    receipt_file(store, number).is_file().then(|| (store.to_owned(), number))
}

/// The receipt of a generation.
///
/// # Errors
/// [`Error::Damaged`] when it cannot be read.
pub(crate) fn receipt(store: &Path, generation: u64) -> Result<Receipt, Error> {
    let path = receipt_file(store, generation);
    let damaged = |problem: String| Error::Damaged { path: path.clone(), problem };
    let text = fs::read_to_string(&path).map_err(|error| damaged(format!("it cannot be read: {error}")))?;
    serde_json::from_str(&text).map_err(|error| damaged(error.to_string()))
}

/// The right to build. It ends when it is dropped, or with the process.
#[derive(Debug)]
pub(crate) struct Building {
    store: PathBuf,
    /// The number of the generation that is built.
    pub(crate) generation: u64,
    /// The file to write.
    pub(crate) unfinished: PathBuf,
    _lock: FileLock,
}

impl Building {
    /// Makes the folder if it is missing, takes its lock, and removes what a killed build left.
    ///
    /// # Errors
    /// [`Error::Busy`] when another build runs; the folder has a file of another program; errors of the disk.
    pub(crate) fn begin(store: &Path) -> Result<Self, Error> {
        // Readers would open that file and not the store.
        if store.join(FOREIGN).exists() {
            let problem = format!("{} holds {FOREIGN}, a file of another program", store.display());
            return Err(Error::refused(problem, "build the store in another directory"));
        }
        let missing = store.ancestors().filter(|folder| !folder.as_os_str().is_empty());
        let made: Vec<&Path> = missing.take_while(|folder| !folder.exists()).collect();
        make_folder(store).map_err(Error::file("make", store))?;
        for folder in made {
            let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
            sync_folder(parent.unwrap_or(Path::new(".")))?;
        }
        let path = store.join(LOCK);
        let lock = FileLock::try_take(&path).map_err(Error::file("lock", &path))?;
        let lock = lock.ok_or_else(|| Error::Busy { path: store.to_owned() })?;
        let there = numbers(store)?;
        let serving = match current(store) {
            Ok(current) => Some(current),
            // The first build was killed before it became current.
            Err(_) if store.join(CURRENT).symlink_metadata().is_err() && there.len() < 2 => None,
            Err(error) => return Err(error),
        };
        let building = Self {
            store: store.to_owned(),
            // Never a number that was used before, even if its build was killed before it became current.
            generation: there.last().copied().max(serving).unwrap_or(0) + 1,
            unfinished: store.join(format!("build.{UNFINISHED}")),
            _lock: lock,
        };
        building.discard()?;
        // Complete, but its build was killed before it became current.
        for generation in there.into_iter().filter(|number| serving.is_some_and(|serving| *number > serving)) {
            building.remove(generation)?;
        }
        Ok(building)
    }

    /// Removes what was written so far.
    ///
    /// # Errors
    /// The file cannot be removed.
    pub(crate) fn discard(&self) -> Result<(), Error> {
        remove(&self.unfinished)
    }

    /// Makes the written file the current generation, and removes those that are too old. Everything is on the disk
    /// when this returns.
    ///
    /// # Errors
    /// Errors of the disk. The old generation is then current, as before.
    pub(crate) fn publish(self, receipt: &Receipt) -> Result<(), Error> {
        let Self { store, generation, unfinished, .. } = &self;
        let describe = receipt_file(store, *generation);
        let text = serde_json::to_string_pretty(receipt).expect("a receipt is JSON") + "\n";
        write_whole(&describe, &text).map_err(Error::file("write", &describe))?;
        let complete = file(store, *generation);
        fs::rename(unfinished, &complete).map_err(Error::file("rename", unfinished))?;
        sync_folder(store)?;
        failpoint::hit_on_thread("ranges-written");
        let link = store.join(format!("{CURRENT}.{UNFINISHED}"));
        let _ = fs::remove_file(&link);
        let name = complete.file_name().expect("the file has a name");
        std::os::unix::fs::symlink(name, &link).map_err(Error::file("write", &link))?;
        failpoint::hit_on_thread("ranges-linked");
        fs::rename(&link, store.join(CURRENT)).map_err(Error::file("rename", &link))?;
        sync_folder(store)?;
        failpoint::hit_on_thread("ranges-current");
        self.prune()
    }

    /// Removes generations that are too old. A reader that has one open keeps it until it closes it.
    fn prune(&self) -> Result<(), Error> {
        let there = numbers(&self.store)?;
        let old = there.len().saturating_sub(GENERATIONS_KEPT);
        there[..old].iter().try_for_each(|generation| self.remove(*generation))
    }

    fn remove(&self, generation: u64) -> Result<(), Error> {
        [file(&self.store, generation), receipt_file(&self.store, generation)].iter().try_for_each(|path| remove(path))
    }
}

impl Drop for Building {
    fn drop(&mut self) {
        // After an error nobody needs what was written. The next build removes it, too.
        let _ = self.discard();
    }
}

/// Removes a file if it is there.
fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::file("remove", path)(error)),
        _ => Ok(()),
    }
}

fn sync_folder(store: &Path) -> Result<(), Error> {
    File::open(store).and_then(|folder| folder.sync_all()).map_err(Error::file("sync", store))
}
