//! A store: immutable LMDB files in a folder, one of them current.

mod folder;
mod pages;
mod receipt;

pub(crate) use folder::Building;
pub use folder::{current, generations};
pub use receipt::{FORMAT, Layout, Receipt};

use crate::column_type::ColumnType;
use crate::error::Error;
use crate::input::MmdbFile;
use crate::value;
use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvFlags, EnvOpenOptions, RoTxn, WithoutTls};
use millstream_model::range::{FAMILIES, Family, Range, number};
use millstream_model::shell_word;
use std::borrow::Cow;
use std::fs::File;
use std::io::Read;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::Xxh3;

type Ranges = Database<'static, Bytes, Bytes>;

/// Name of the database that describes the file.
pub(crate) const META: &str = "meta";

/// One generation of a store, open for reading.
pub struct Generation {
    path: PathBuf,
    /// `None` for a file that another program wrote.
    receipt: Option<Receipt>,
    layout: Layout,
    /// By family.
    ranges: [Option<Ranges>; 2],
    meta: Option<Ranges>,
    env: Env<WithoutTls>,
    transaction: RoTxn<'static, WithoutTls>,
}

impl std::fmt::Debug for Generation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Generation").field("path", &self.path).field("layout", &self.layout).finish_non_exhaustive()
    }
}

/// A range of a store and its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found<'a> {
    /// The range.
    pub range: Range,
    /// The stored value: JSON with the member `end`.
    pub value: &'a [u8],
}

impl<'a> Found<'a> {
    /// The members besides `end`, as JSON without the braces.
    ///
    /// # Errors
    /// The value is not what a store holds.
    pub fn members(&self) -> Result<Cow<'a, str>, String> {
        value::parts(self.range.family, self.value).map(|parts| parts.members)
    }
}

/// An entry of a store, as it is; `verify` looks at those that hold no range.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
}

impl<'a> Entry<'a> {
    /// The family of the key's length, and the first address.
    ///
    /// # Errors
    /// The key is not an address.
    pub(crate) fn start(&self) -> Result<(Family, u128), String> {
        let mut bytes = [0; 16];
        let family = FAMILIES.into_iter().find(|family| family.bytes() == self.key.len());
        let family = family.ok_or_else(|| format!("a key of {} bytes is not an address", self.key.len()))?;
        bytes[16 - self.key.len()..].copy_from_slice(self.key);
        Ok((family, u128::from_be_bytes(bytes)))
    }

    /// The range that it holds.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn range(&self) -> Result<Range, String> {
        let (family, start) = self.start()?;
        let end = value::end(family, self.value)?;
        if end < start {
            let (first, last) = (family.address(start), family.address(end));
            return Err(format!("the range that begins at {first} ends before it, at {last}"));
        }
        Ok(Range { family, start, end })
    }
}

/// The key of an address: its bytes, the most significant first.
pub(crate) fn key(family: Family, number: u128) -> ([u8; 16], usize) {
    let mut bytes = [0; 16];
    match family {
        #[expect(clippy::cast_possible_truncation, reason = "an IPv4 address has 32 bits")]
        Family::V4 => bytes[..4].copy_from_slice(&(number as u32).to_be_bytes()),
        Family::V6 => bytes = number.to_be_bytes(),
    }
    (bytes, family.bytes())
}

impl Generation {
    /// Opens the current generation of a store, or the one with a number. LMDB trusts its files, and a damaged one
    /// could crash the program. So the file is read before, to compare its hash, and again, to check its pages. The
    /// name may also be that of a generation's file, of an LMDB file that another program wrote, or of a folder with
    /// its `data.mdb`; a file of another program has no hash.
    ///
    /// # Errors
    /// There is no such store or generation, or it is damaged, or LMDB cannot open it. Within a process, a generation
    /// can be open only once.
    pub fn open(store: &Path, generation: Option<u64>) -> Result<Self, Error> {
        match Named::of(store, generation)? {
            Named::Foreign(path) if MmdbFile::is_named(&path) => {
                let hint = format!("build one of it: millstream ranges build STORE {}", shell_word(&path.display()));
                Err(Error::NoStore { path, problem: "it is a MaxMind database".into(), hint })
            }
            Named::Foreign(path) => Self::open_file(path, None),
            Named::Generation(store, number) => Self::open_number(&store, number),
            Named::Current(store) => {
                let number = folder::current(&store)?;
                let opened = Self::open_number(&store, number);
                // Builds may have replaced and removed it since.
                match folder::current(&store)? {
                    now if opened.is_err() && now != number => Self::open_number(&store, now),
                    _ => opened,
                }
            }
        }
    }

    fn open_number(store: &Path, number: u64) -> Result<Self, Error> {
        let path = folder::file(store, number);
        let opened = Self::open_complete(store, number, &path);
        if opened.is_err() && !path.is_file() {
            folder::current(store)?;
            return Err(Error::NoGeneration { path: store.to_owned(), number, there: folder::numbers(store)? });
        }
        opened
    }

    fn open_complete(store: &Path, number: u64, path: &Path) -> Result<Self, Error> {
        let receipt = folder::receipt(store, number)?;
        let path = path.to_owned();
        if receipt.format != FORMAT {
            let problem = format!("it has format {}, and this program reads format {FORMAT}", receipt.format);
            let hint = "read it with the program that built it, or build it again".into();
            return Err(Error::NoStore { path, problem, hint });
        }
        let (bytes, xxh3) = hash(&path)?;
        if bytes != receipt.bytes {
            let problem = format!("it has {bytes} bytes, and {} were written", receipt.bytes);
            return Err(Error::Damaged { path, problem });
        }
        if xxh3 != receipt.xxh3 {
            return Err(Error::Damaged { path, problem: "its content has changed since it was written".into() });
        }
        Self::open_file(path, Some(receipt))
    }

    fn open_file(path: PathBuf, receipt: Option<Receipt>) -> Result<Self, Error> {
        let failed = |what| Error::lmdb(what, &path);
        pages::check(&path, &[Family::V4.name(), Family::V6.name(), META])?;
        let env = environment(&path, EnvFlags::READ_ONLY | EnvFlags::NO_LOCK, None)?;
        let opening = env.read_txn().map_err(failed("read"))?;
        let opened = env.open_databases_and_commit(opening, |opener, opening| {
            // Without named databases this fails in a file whose entries are not databases.
            let [v4, v6] = FAMILIES.map(|family| opener.open_database(opening, Some(family.name())).unwrap_or(None));
            let meta = opener.open_database(opening, Some(META)).unwrap_or(None);
            let all = opener.open_database(opening, None)?;
            Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit([v4, v6, meta, all]))
        });
        let [v4, v6, meta, all] = opened.map_err(failed("read"))?.unwrap_commit();
        let layout = if v4.is_some() || v6.is_some() { Layout::Named } else { Layout::Single };
        let ranges = if layout == Layout::Named { [v4, v6] } else { [all, all] };
        let transaction = env.clone().static_read_txn().map_err(failed("read"))?;
        Ok(Self { path, receipt, layout, ranges, meta, env, transaction })
    }

    /// The same generation for another thread.
    ///
    /// # Errors
    /// LMDB cannot begin to read.
    pub fn try_clone(&self) -> Result<Self, Error> {
        let Self { path, receipt, layout, ranges, meta, env, .. } = self;
        let transaction = env.clone().static_read_txn().map_err(Error::lmdb("read", path))?;
        let (path, receipt) = (path.clone(), receipt.clone());
        Ok(Self { path, receipt, layout: *layout, ranges: *ranges, meta: *meta, env: env.clone(), transaction })
    }

    /// Whether this is what [`Generation::open`] would open. A process can have a file open only once.
    ///
    /// # Errors
    /// There is no store, or nothing was built in it.
    pub fn is(&self, store: &Path, generation: Option<u64>) -> Result<bool, Error> {
        let other = match Named::of(store, generation)? {
            Named::Foreign(file) => file,
            Named::Generation(store, number) => folder::file(&store, number),
            Named::Current(store) => folder::file(&store, folder::current(&store)?),
        };
        Ok(self.path.canonicalize().is_ok_and(|path| other.canonicalize().is_ok_and(|other| other == path)))
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How its ranges are kept.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// What its build did. `None` for a file that another program wrote.
    pub fn receipt(&self) -> Option<&Receipt> {
        self.receipt.as_ref()
    }

    /// The types of members that have one, by name. No two of their values are of two types.
    pub(crate) fn types(&self) -> impl Iterator<Item = (&str, ColumnType)> {
        let types = self.receipt.iter().flat_map(|receipt| &receipt.types);
        types.map(|(name, kind)| (name.as_str(), *kind))
    }

    /// What the file says about itself under a name, such as `counts`: JSON. `None` if it says nothing.
    ///
    /// # Errors
    /// LMDB cannot read the file.
    pub(crate) fn meta(&self, name: &str) -> Result<Option<&[u8]>, Error> {
        let Some(meta) = self.meta else { return Ok(None) };
        meta.get(&self.transaction, name.as_bytes()).map_err(Error::lmdb("read", &self.path))
    }

    /// The range that an address lies in.
    ///
    /// # Errors
    /// LMDB fails, or the entry before the address holds no range.
    #[inline]
    pub fn get(&self, address: IpAddr) -> Result<Option<Found<'_>>, Error> {
        let (family, wanted) = (Family::of(address), number(address));
        let Some(ranges) = self.ranges[family as usize] else { return Ok(None) };
        let (bytes, length) = key(family, wanted);
        let failed = |error| Error::lmdb("read", &self.path)(error);
        let mut entry = ranges.get_lower_than_or_equal_to(&self.transaction, &bytes[..length]).map_err(failed)?;
        // Where both families share a database, entries of the other may lie between the address and its range.
        while let Some((key, _)) = entry
            && key.len() != length
        {
            entry = ranges.get_lower_than(&self.transaction, key).map_err(failed)?;
        }
        let Some((key, value)) = entry else { return Ok(None) };
        let entry = Entry { key, value };
        let range = entry.range().map_err(|problem| self.damaged(problem))?;
        Ok((wanted <= range.end).then_some(Found { range, value }))
    }

    /// All ranges, in order: IPv4 first.
    ///
    /// # Errors
    /// LMDB cannot read the file. Entries that hold no range of their database's family are errors of their own.
    pub fn ranges(&self) -> Result<impl Iterator<Item = Result<Found<'_>, Error>>, Error> {
        Ok(self.ranges_of(Family::V4)?.chain(self.ranges_of(Family::V6)?))
    }

    fn ranges_of(&self, family: Family) -> Result<impl Iterator<Item = Result<Found<'_>, Error>>, Error> {
        let entries = self.entries(family)?;
        Ok(entries.map(move |entry| {
            let entry = entry?;
            let range = entry.range().map_err(|problem| self.damaged(problem))?;
            if range.family != family {
                let (first, name) = (range.first(), family.name());
                return Err(self.damaged(format!("the key {first} is in the database {name:?}")));
            }
            Ok(Found { range, value: entry.value })
        }))
    }

    /// The entries of a family as they are. In the layout with one database, keys of an odd length count as IPv4's.
    pub(crate) fn entries(&self, family: Family) -> Result<impl Iterator<Item = Result<Entry<'_>, Error>>, Error> {
        let entries = self.ranges[family as usize].map(|ranges| ranges.iter(&self.transaction)).transpose();
        let entries = entries.map_err(Error::lmdb("read", &self.path))?;
        let single = self.layout == Layout::Single;
        Ok(entries.into_iter().flatten().filter_map(move |entry| match entry {
            Ok((key, _)) if single && (key.len() == Family::V6.bytes()) != (family == Family::V6) => None,
            Ok((key, value)) => Some(Ok(Entry { key, value })),
            Err(error) => Some(Err(Error::lmdb("read", &self.path)(error))),
        }))
    }

    fn damaged(&self, problem: String) -> Error {
        Error::Damaged { path: self.path.clone(), problem }
    }
}

/// What a name means.
enum Named {
    /// The generation of a store that is the current one when it is opened.
    Current(PathBuf),
    /// A generation of a store.
    Generation(PathBuf, u64),
    /// A file that another program wrote.
    Foreign(PathBuf),
}

impl Named {
    fn of(path: &Path, generation: Option<u64>) -> Result<Self, Error> {
        let file = [path.to_owned(), path.join(folder::FOREIGN)].into_iter().find(|path| path.is_file());
        match (file, generation) {
            (None, None) => Ok(Self::Current(path.to_owned())),
            (None, Some(number)) => Ok(Self::Generation(path.to_owned(), number)),
            (Some(file), wanted) => match (folder::of_file(&file), wanted) {
                (Some((store, number)), wanted) if wanted.is_none_or(|wanted| wanted == number) => {
                    Ok(Self::Generation(store, number))
                }
                (None, None) => Ok(Self::Foreign(file)),
                _ => {
                    let problem = format!("{} is a file and has no generations", path.display());
                    Err(Error::refused(problem, "leave the generation out"))
                }
            },
        }
    }
}

/// Size and XXH3-128 of a file.
pub(crate) fn hash(path: &Path) -> Result<(u64, String), Error> {
    let failed = |error| Error::file("read", path)(error);
    let mut file = File::open(path).map_err(failed)?;
    let (mut hash, mut bytes, mut buffer) = (Xxh3::new(), 0, vec![0; 1 << 20]);
    loop {
        let read = file.read(&mut buffer).map_err(failed)?;
        if read == 0 {
            return Ok((bytes, format!("{:032x}", hash.digest128())));
        }
        hash.update(&buffer[..read]);
        bytes += read as u64;
    }
}

/// Opens a file with LMDB. Without `map_bytes`, the address space is that of the build.
#[expect(unsafe_code, reason = "LMDB maps the file into memory")]
pub(crate) fn environment(path: &Path, flags: EnvFlags, map_bytes: Option<usize>) -> Result<Env<WithoutTls>, Error> {
    let mut options = EnvOpenOptions::new().read_txn_without_tls();
    options.max_dbs(3);
    if let Some(bytes) = map_bytes {
        options.map_size(bytes);
    }
    // SAFETY: opening a map is unsound if the file changes or shrinks beneath it. A generation is never changed once it
    // has its name; builds write a file of another name under an exclusive lock, and only rename and unlink afterwards,
    // which leaves the mapped file as it is. NO_LOCK is unsound with a reader beside a writer, and a file has only ever
    // one kind: `open` reads complete files, `write` has the file that it creates to itself. NO_SYNC only defers
    // `fsync`, which `write` calls before the file gets its name. A content with which LMDB would read beyond the file
    // is found by the check of its pages before. The owner of a file of another program must not write it meanwhile, as
    // the manual says.
    unsafe { options.flags(flags | EnvFlags::NO_SUB_DIR).open(path) }.map_err(Error::lmdb("open", path))
}
