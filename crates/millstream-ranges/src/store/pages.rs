//! Checks the pages of an LMDB file by ordinary reads, because LMDB believes every number in a file that it maps.
//!
//! These are the numbers that it looks at, and at which byte each begins. They have the byte order of the machine, and
//! page numbers have 64 bits. The names are those of `mdb.c`.
//!
//! ```text
//! MDB_page          0 number   10 flags    12 begin and 14 end of the free space   16 places of nodes, 2 bytes each
//! .. that is meta  16 magic    20 version  40 record of the tree of free pages     88 record of the main tree
//!                 136 last page           144 transaction
//! .. of a value     0 number   10 flags    12 how many pages                       16 the value
//! MDB_db            4 flags     6 levels   40 root                                  0 bytes of a page, in a meta page
//! MDB_node          0 size      4 flags     6 size of the key                       8 the key, the value behind it
//! ```

use crate::error::Error;
use crate::limits::{FILE_PAGE_BYTES, MAP_BYTES_MAX, TREE_LEVELS};
use heed::MdbError;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::Path;

const MAGIC: u32 = 0xbeef_c0de;
const VERSION: u32 = 1;
/// Meta pages; data begin behind them.
const METAS: u64 = 2;
/// The root of a tree without pages.
const NO_ROOT: u64 = u64::MAX;

/// Bytes of the header of a page.
const HEADER: usize = 16;
/// Bytes of the header of a page on a machine with 32 bits.
const HEADER_32: usize = 12;
/// Bytes of a meta page, its header included.
const META: usize = 152;
/// Bytes of the record of a database.
const RECORD: usize = 48;
/// Bytes of a node before its key.
const NODE: usize = 8;

// Flags of pages.
const BRANCH: u16 = 1;
const LEAF: u16 = 2;
const OVERFLOW: u16 = 4;
const IS_META: u16 = 8;

// Flags of nodes.
const PLAIN: u16 = 0;
const LONG: u16 = 1;
const DATABASE: u16 = 2;

/// Checks the meta pages, and every page of the database without a name and of those with these names: that it is
/// there, belongs to one place of one tree, and holds nodes that lie in it, with keys in order. Then all that LMDB
/// reads lies in the file, and a look-up finds what it should.
///
/// Pages that are not in use may be missing: LMDB does not always write the last ones.
///
/// # Errors
/// [`Error::Damaged`] names the first page that is not as it must be. The file is none of LMDB, or of another kind of
/// machine, or cannot be read.
pub(super) fn check(path: &Path, names: &[&str]) -> Result<(), Error> {
    let file = File::open(path).map_err(Error::file("open", path))?;
    let bytes = file.metadata().map_err(Error::file("read", path))?.len();
    let Meta { page, page_bytes, last, free, main, .. } = Meta::newest(path, &file)?;
    let end = (bytes / page_bytes as u64).min(last + 1);
    let (used, records, key) = (BTreeMap::new(), Vec::new(), Vec::new());
    let mut pages = Pages { path, file, page_bytes, end, names, used, records, key, is_bound: true };
    pages.database(Tree::Free, page, &free)?;
    pages.database(Tree::Main, page, &main)?;
    for (page, record) in std::mem::take(&mut pages.records) {
        pages.database(Tree::Named, page, &record)?;
    }
    Ok(())
}

/// What a meta page says.
struct Meta {
    page: u64,
    page_bytes: usize,
    /// The last page that was ever used.
    last: u64,
    transaction: u64,
    free: [u8; RECORD],
    main: [u8; RECORD],
}

impl Meta {
    /// The one of the two that LMDB uses.
    fn newest(path: &Path, file: &File) -> Result<Self, Error> {
        let first = Self::read(path, file, 0, 0)?;
        let second = Self::read(path, file, 1, first.page_bytes as u64)?;
        if second.page_bytes != first.page_bytes {
            let (said, before) = (second.page_bytes, first.page_bytes);
            return Err(damaged(path, 1, format!("says that a page has {said} bytes, and page 0 says {before}")));
        }
        Ok(if first.transaction < second.transaction { second } else { first })
    }

    fn read(path: &Path, file: &File, page: u64, at: u64) -> Result<Self, Error> {
        let none = |source| Error::lmdb("open", path)(heed::Error::Mdb(source));
        let mut bytes = [0; META];
        if let Err(error) = file.read_exact_at(&mut bytes, at) {
            return Err(match (error.kind(), page) {
                (ErrorKind::UnexpectedEof, 0) => none(MdbError::Invalid),
                (ErrorKind::UnexpectedEof, _) => damaged(path, page, "is missing: the file ends before it"),
                _ => Error::file("read", path)(error),
            });
        }
        let is_ours = four(&bytes, HEADER) == MAGIC;
        if page == 0 && !is_ours && is_of_another_machine(&bytes) {
            let (path, hint) = (path.to_owned(), "build the store on a machine like this one".into());
            let problem = "LMDB wrote it on a machine with 32 bits or with another byte order".into();
            return Err(Error::NoStore { path, problem, hint });
        }
        if page == 0 && !is_ours {
            return Err(none(MdbError::Invalid));
        }
        if !is_ours || two(&bytes, 10) & IS_META == 0 {
            return Err(damaged(path, page, "is no meta page"));
        }
        if four(&bytes, HEADER + 4) != VERSION {
            return Err(none(MdbError::VersionMismatch));
        }
        let (page_bytes, last) = (four(&bytes, 40) as usize, eight(&bytes, 136));
        if !FILE_PAGE_BYTES.contains(&page_bytes) || !page_bytes.is_power_of_two() {
            return Err(damaged(path, page, format!("says that a page has {page_bytes} bytes")));
        }
        if last < METAS - 1 || last >= (MAP_BYTES_MAX / page_bytes) as u64 {
            return Err(damaged(path, page, format!("says that page {last} is the last one")));
        }
        let (free, main) = (array(&bytes, 40), array(&bytes, 40 + RECORD));
        Ok(Self { page, page_bytes, last, transaction: eight(&bytes, 144), free, main })
    }
}

/// Whether these are the first bytes of a file of LMDB that this machine would write in another way.
fn is_of_another_machine(bytes: &[u8]) -> bool {
    [HEADER, HEADER_32].iter().any(|at| [MAGIC, MAGIC.swap_bytes()].contains(&four(bytes, *at)))
}

/// Whose tree a page belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tree {
    /// That of the free pages. A look-up does not read it, and its keys are numbers.
    Free,
    /// That of the database without a name, which holds the records of the others.
    Main,
    /// That of a database with a name.
    Named,
}

/// A file whose pages are read one after the other.
struct Pages<'a> {
    path: &'a Path,
    file: File,
    page_bytes: usize,
    /// Only pages before this one can be in use.
    end: u64,
    /// Names of databases to check.
    names: &'a [&'a str],
    /// Pages in use that were met, as runs: the first page of each, and the one behind its last.
    used: BTreeMap<u64, u64>,
    /// Records of databases to check that were met, and the page of each.
    records: Vec<(u64, [u8; RECORD])>,
    /// The last key that was met in the tree.
    key: Vec<u8>,
    /// Whether no leaf holds that key: it is a bound of those to come.
    is_bound: bool,
}

impl Pages<'_> {
    /// Checks the tree of a database, given the database's record and the page that holds it.
    fn database(&mut self, tree: Tree, from: u64, record: &[u8]) -> Result<(), Error> {
        let (flags, levels, root) = (two(record, 4), usize::from(two(record, 6)), eight(record, 40));
        // With any flag, keys have another order, or several values.
        if tree != Tree::Free && flags != 0 {
            return Err(self.damaged(from, format!("gives a database the flags {flags:#x}; that of a store has none")));
        }
        if root == NO_ROOT {
            return Ok(());
        }
        if !TREE_LEVELS.contains(&levels) {
            return Err(self.damaged(from, format!("says that a tree has {levels} levels")));
        }
        self.key.clear();
        self.is_bound = true;
        self.subtree(tree, from, root, levels)
    }

    /// Checks a page, to which the page `from` refers, and all below it. At the last level are the leaves.
    fn subtree(&mut self, tree: Tree, from: u64, number: u64, levels: usize) -> Result<(), Error> {
        self.take(from, number, 1)?;
        let mut page = vec![0; self.page_bytes];
        self.read(&mut page, number)?;
        for index in 0..self.count(tree, number, &page, levels)? {
            let Some(node) = Node::of(&page, index) else {
                return Err(self.damaged(number, format!("does not hold the whole of its node {index}")));
            };
            if levels == 1 {
                self.follow(tree, number, node.key, false)?;
                self.value(tree, number, &node)?;
            } else {
                // LMDB never looks at the first key of a branch.
                if index > 0 {
                    self.follow(tree, number, node.key, true)?;
                }
                self.subtree(tree, number, node.child(), levels - 1)?;
            }
        }
        Ok(())
    }

    /// Takes pages into use, to which the page `from` refers. Each page has one use, so this ends.
    fn take(&mut self, from: u64, first: u64, count: u64) -> Result<(), Error> {
        let refused = |problem: &str| {
            let what = if count == 1 { format!("page {first}") } else { format!("{count} pages from {first} on") };
            Err(self.damaged(from, format!("refers to {what}, {problem}")))
        };
        if first < METAS {
            return refused("which is a meta page");
        }
        let Some(end) = first.checked_add(count).filter(|end| *end <= self.end) else {
            return refused(&format!("and the file has {} pages", self.end));
        };
        let run = match self.used.range(..end).next_back() {
            Some((_, used)) if *used > first => return refused("which has another use"),
            Some((run, used)) if *used == first => *run,
            _ => first,
        };
        self.used.insert(run, end);
        Ok(())
    }

    fn read(&self, bytes: &mut [u8], page: u64) -> Result<(), Error> {
        let at = page * self.page_bytes as u64;
        self.file.read_exact_at(bytes, at).map_err(Error::file("read", self.path))
    }

    /// Checks the header of a page. Returns the number of its nodes.
    fn count(&self, tree: Tree, number: u64, page: &[u8], levels: usize) -> Result<usize, Error> {
        let (own, flags) = (eight(page, 0), two(page, 10));
        let (places_end, nodes_begin) = (usize::from(two(page, 12)), usize::from(two(page, 14)));
        // LMDB relies on two nodes in a branch, except of the tree that only a writer reads.
        let (kind, wanted, fewest) = match (levels, tree) {
            (1, _) => ("leaf", LEAF, 1),
            (_, Tree::Free) => ("branch", BRANCH, 1),
            _ => ("branch", BRANCH, 2),
        };
        if own != number {
            return Err(self.damaged(number, format!("says that it is page {own}")));
        }
        if flags != wanted {
            return Err(self.damaged(number, format!("is no {kind}: it has the flags {flags:#x}")));
        }
        let count = places_end.saturating_sub(HEADER) / 2;
        if count < fewest || places_end % 2 == 1 || places_end > nodes_begin || nodes_begin > page.len() {
            let problem = format!("says that it is free from byte {places_end} to byte {nodes_begin}");
            return Err(self.damaged(number, problem));
        }
        Ok(count)
    }

    /// Checks that a key comes after the one before. A bound may be followed by itself.
    fn follow(&mut self, tree: Tree, page: u64, key: &[u8], is_bound: bool) -> Result<(), Error> {
        if tree == Tree::Free {
            return Ok(());
        }
        let before = self.key.as_slice();
        if key < before || (key == before && !self.is_bound) {
            return Err(self.damaged(page, "has a key that does not come after the one before it"));
        }
        self.key.clear();
        self.key.extend_from_slice(key);
        self.is_bound = is_bound;
        Ok(())
    }

    /// Checks the value of a node in a leaf.
    fn value(&mut self, tree: Tree, page: u64, node: &Node<'_>) -> Result<(), Error> {
        let size = node.size as usize;
        match node.flags {
            PLAIN if node.rest.len() >= size => Ok(()),
            LONG if node.rest.len() >= size_of::<u64>() => self.long_value(page, eight(node.rest, 0), node.size),
            DATABASE if tree == Tree::Main && size == RECORD && node.rest.len() >= RECORD => {
                if self.names.iter().any(|name| name.as_bytes() == node.key) {
                    self.records.push((page, array(node.rest, 0)));
                }
                Ok(())
            }
            flags => Err(self.damaged(page, format!("cannot hold a value of {size} bytes with the flags {flags:#x}"))),
        }
    }

    /// Checks the pages of a value that is too long for a node.
    fn long_value(&mut self, from: u64, number: u64, size: u32) -> Result<(), Error> {
        let needed = (HEADER as u64 + u64::from(size)).div_ceil(self.page_bytes as u64);
        self.take(from, number, needed)?;
        let mut header = [0; HEADER];
        self.read(&mut header, number)?;
        let (own, flags, pages) = (eight(&header, 0), two(&header, 10), u64::from(four(&header, 12)));
        if own != number || flags != OVERFLOW || pages < needed {
            return Err(self.damaged(number, format!("does not begin a value of {needed} pages")));
        }
        Ok(())
    }

    fn damaged(&self, page: u64, problem: impl Display) -> Error {
        damaged(self.path, page, problem)
    }
}

/// A node of a page.
struct Node<'a> {
    /// In a leaf, the size of the value. In a branch, the lower bits of a page number.
    size: u32,
    /// In a branch, the upper bits of that number.
    flags: u16,
    key: &'a [u8],
    /// What is behind the key in the page.
    rest: &'a [u8],
}

impl<'a> Node<'a> {
    /// The node of a page whose header is sound. `None`: it is not between the free space and the end of the page.
    fn of(page: &'a [u8], index: usize) -> Option<Self> {
        let place = two(page, HEADER + 2 * index);
        // LMDB has nodes at even places only, and compilers may rely on that.
        if place < two(page, 14) || place % 2 == 1 {
            return None;
        }
        let (head, body) = page.get(usize::from(place)..)?.split_at_checked(NODE)?;
        let (key, rest) = body.split_at_checked(usize::from(two(head, 6)))?;
        Some(Self { size: four(head, 0), flags: two(head, 4), key, rest })
    }

    /// The page below a node of a branch.
    fn child(&self) -> u64 {
        u64::from(self.flags) << 32 | u64::from(self.size)
    }
}

fn damaged(path: &Path, page: u64, problem: impl Display) -> Error {
    Error::Damaged { path: path.to_owned(), problem: format!("page {page} {problem}") }
}

fn two(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes(array(bytes, at))
}

fn four(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(array(bytes, at))
}

fn eight(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(array(bytes, at))
}

/// Some bytes at a place. The caller knows that there are so many.
fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[at..at + N]);
    array
}

// On other machines LMDB's pages have another layout.
const _: () = assert!(usize::BITS == 64, "page numbers of LMDB have the size of an address");
