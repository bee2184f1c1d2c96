//! Pages of LMDB files, which are checked before LMDB maps the file.

use crate::stored::{built, found, range};
use millstream_ranges::{Error, FAMILIES, Family, Generation, Index, Layout, verify};
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// Opens a file with these bytes. It has no receipt, so only its pages are checked.
fn opened(bytes: &[u8]) -> Result<(TempDir, Generation), Error> {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("alone");
    fs::write(&file, bytes).unwrap();
    Generation::open(&file, None).map(|generation| (dir, generation))
}

/// Why a file with these bytes cannot be opened.
fn refused(bytes: &[u8]) -> Error {
    opened(bytes).map(|_| ()).unwrap_err()
}

/// The bytes of the file of a store that was built once.
fn built_bytes(store: &Path) -> Vec<u8> {
    fs::read(store.join("00000001.lmdb")).unwrap()
}

/// The bytes of a file of LMDB, and what is where in them.
struct File(Vec<u8>);

impl File {
    /// IPv4 has a branch and leaves. IPv6 has a leaf whose value is too long for it.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let v4 = (0..2_000).map(|n| (range(Family::V4, n * 2, n * 2), format!("\"n\":{n}")));
        let v6 = [(range(Family::V6, 7, 7), format!("\"x\":\"{}\"", "x".repeat(100_000)))];
        built(dir.path(), v4.chain(v6), |_| ()).unwrap();
        Self(built_bytes(dir.path()))
    }

    fn two(&self, at: usize) -> usize {
        u16::from_ne_bytes(self.0[at..at + 2].try_into().unwrap()).into()
    }

    fn four(&self, at: usize) -> usize {
        u32::from_ne_bytes(self.0[at..at + 4].try_into().unwrap()) as usize
    }

    fn eight(&self, at: usize) -> usize {
        usize::from_ne_bytes(self.0[at..at + 8].try_into().unwrap())
    }

    fn page_bytes(&self) -> usize {
        self.four(40)
    }

    /// The meta page of the newer transaction.
    fn meta(&self) -> usize {
        let second = self.page_bytes();
        if self.eight(144) < self.eight(second + 144) { second } else { 0 }
    }

    /// A node of a page.
    fn node(&self, page: usize, index: usize) -> usize {
        page + self.two(page + 16 + 2 * index)
    }

    /// The record of a database.
    fn record(&self, name: &str) -> usize {
        let main = self.eight(self.meta() + 128) * self.page_bytes();
        let mut nodes = (0..3).map(|index| self.node(main, index) + 8);
        nodes.find(|key| self.0[*key..].starts_with(name.as_bytes())).unwrap() + name.len()
    }

    /// The first page of a database.
    fn root(&self, name: &str) -> usize {
        self.eight(self.record(name) + 40) * self.page_bytes()
    }

    fn damaged(&self, at: usize, bytes: &[u8]) -> Vec<u8> {
        let mut damaged = self.0.clone();
        damaged[at..at + bytes.len()].copy_from_slice(bytes);
        damaged
    }
}

#[test]
fn what_a_build_writes_is_whole() {
    for layout in [Layout::Named, Layout::Single] {
        // Values in leaves and behind them; also more ranges than a transaction writes.
        for (count, length) in
            [(1, 0), (5_000, 10), (70_000, 0), (300, 1_000), (60, 1_900), (60, 5_000), (5_u32, 900_000)]
        {
            let dir = tempfile::tempdir().unwrap();
            let ranges = (0..count).map(|n| {
                let members = format!("\"x\":\"{}\"", "x".repeat(length));
                (range(FAMILIES[n as usize % 2], u128::from(n) * 2, u128::from(n) * 2), members)
            });
            built(dir.path(), ranges, |request| request.layout = layout).unwrap();
            let (_dir, alone) = opened(&built_bytes(dir.path())).unwrap();
            assert!(alone.receipt().is_none());
            let verified = verify(&alone).unwrap();
            let expected = (0, u64::from(count));
            assert_eq!((verified.problems, verified.entries), expected, "{layout:?}, {count} ranges, {length} bytes");
        }
    }
}

#[test]
fn a_file_without_data_has_no_ranges() {
    let file = File::new();
    let page_bytes = file.page_bytes();
    let mut bytes = file.0[..2 * page_bytes].to_vec();
    for meta in [0, page_bytes] {
        for root in [80, 128] {
            bytes[meta + root..meta + root + 8].fill(0xff);
        }
        bytes[meta + 136..meta + 144].copy_from_slice(&1_u64.to_ne_bytes());
    }
    let (_dir, empty) = opened(&bytes).unwrap();
    assert_eq!(verify(&empty).unwrap().entries, 0);
    assert_eq!((found(&empty, Family::V4, 7), found(&empty, Family::V6, 7)), (None, None));
}

#[test]
fn damage_is_named_with_its_page() {
    let file = File::new();
    opened(&file.0).unwrap();
    let page_bytes = file.page_bytes();
    let (meta, v4) = (file.meta(), file.record("v4"));
    let (branch, long_leaf) = (file.root("v4"), file.root("v6"));
    let (first, second) = (file.node(branch, 0), file.node(branch, 1));
    let leaf = file.four(first) * page_bytes;
    let (entry, long_entry) = (file.node(leaf, 0), file.node(long_leaf, 0));
    let long = file.eight(long_entry + 8 + 16) * page_bytes;
    let number = |page: usize| u32::try_from(page / page_bytes).unwrap();
    let (of_meta, of_branch, of_leaf) = (number(meta), number(branch), number(leaf));
    let two = |n: u16| n.to_ne_bytes().to_vec();
    let four = |n: u32| n.to_ne_bytes().to_vec();
    let eight = |n: u64| n.to_ne_bytes().to_vec();
    let most = (16 + u64::from(u32::MAX)).div_ceil(page_bytes as u64);
    let other_size = if page_bytes == 8_192 { 16_384 } else { 8_192 };
    let order = "has a key that does not come after the one before it";
    for (at, bytes, problem) in [
        (40, four(0), "page 0 says that a page has 0 bytes".to_owned()),
        (40, four(4_097), "page 0 says that a page has 4097 bytes".into()),
        (10, two(0), "page 0 is no meta page".into()),
        (page_bytes + 16, four(0), "page 1 is no meta page".into()),
        (page_bytes + 40, four(24_576), "page 1 says that a page has 24576 bytes".into()),
        (page_bytes + 40, four(other_size), format!("says that a page has {other_size} bytes, and page 0 says ")),
        (meta + 136, eight(0), format!("page {of_meta} says that page 0 is the last one")),
        (meta + 136, eight(u64::MAX), format!("page {of_meta} says that page {} is the last one", u64::MAX)),
        (meta + 136, eight(1), "and the file has 2 pages".into()),
        (meta + 92, two(4), format!("page {of_meta} gives a database the flags 0x4")),
        (meta + 94, two(0), format!("page {of_meta} says that a tree has 0 levels")),
        (meta + 94, two(33), format!("page {of_meta} says that a tree has 33 levels")),
        (meta + 94, two(2), "is no branch: it has the flags 0x2".into()),
        (v4 + 4, two(8), "gives a database the flags 0x8".into()),
        (v4 + 40, eight(1), "refers to page 1, which is a meta page".into()),
        (branch, eight(1), format!("page {of_branch} says that it is page 1")),
        (branch + 10, two(2), format!("page {of_branch} is no branch: it has the flags 0x2")),
        (first, four(0), format!("page {of_branch} refers to page 0, which is a meta page")),
        (first, four(of_branch), format!("page {of_branch} refers to page {of_branch}, which has another use")),
        (second, four(of_leaf), format!("page {of_branch} refers to page {of_leaf}, which has another use")),
        (first + 4, two(0xffff), "and the file has ".into()),
        (second + 8, four(0), format!("page {of_branch} {order}")),
        (leaf + 10, two(1), format!("page {of_leaf} is no leaf: it has the flags 0x1")),
        (leaf + 12, two(0), format!("page {of_leaf} says that it is free from byte 0 to")),
        (leaf + 12, two(16), format!("page {of_leaf} says that it is free from byte 16 to")),
        (leaf + 12, two(19), format!("page {of_leaf} says that it is free from byte 19 to")),
        (leaf + 14, two(0xffff), "to byte 65535".into()),
        (leaf + 16, two(0xfffe), format!("page {of_leaf} does not hold the whole of its node 0")),
        (leaf + 16, two(20), format!("page {of_leaf} does not hold the whole of its node 0")),
        (entry + 6, two(0xffff), format!("page {of_leaf} does not hold the whole of its node 0")),
        (entry, four(0xffff), format!("page {of_leaf} cannot hold a value of 65535 bytes")),
        (entry + 4, two(4), "with the flags 0x4".into()),
        (entry + 4, two(2), "with the flags 0x2".into()),
        (entry + 8, four(u32::MAX), format!("page {of_leaf} {order}")),
        (long_entry, four(u32::MAX), format!("refers to {most} pages from ")),
        (long + 10, two(2), format!("page {} does not begin a value of ", number(long))),
        (long + 12, four(0), format!("page {} does not begin a value of ", number(long))),
    ] {
        let error = refused(&file.damaged(at, &bytes));
        let named = matches!(&error, Error::Damaged { problem: found, .. } if found.contains(&problem));
        assert!(named, "{problem}: {error}");
    }
}

#[test]
fn what_lmdb_did_not_write_here_is_refused() {
    let file = File::new();
    let magic = file.0[16..20].to_vec();
    let swapped: Vec<u8> = magic.iter().copied().rev().collect();
    let mut narrow = file.damaged(12, &magic);
    narrow[16..20].fill(0);
    for other in [file.damaged(16, &swapped), narrow] {
        let error = refused(&other);
        let says = "LMDB wrote it on a machine with 32 bits or with another byte order";
        assert!(matches!(&error, Error::NoStore { problem, .. } if problem == says), "{error}");
    }
    let version = file.damaged(20, &2_u32.to_ne_bytes());
    for other in [&file.damaged(16, b"text")[..], &version, &file.0[..100], b""] {
        let error = refused(other);
        assert!(matches!(error, Error::Lmdb { .. }), "{error}");
    }
}

#[test]
fn ranges_in_the_database_of_the_other_family_are_refused() {
    let File(mut bytes) = File::new();
    let file = File(bytes.clone());
    for (to, from) in [("v4", "v6"), ("v6", "v4")] {
        let (to, from) = (file.record(to), file.record(from));
        bytes[to..to + 48].copy_from_slice(&file.0[from..from + 48]);
    }
    let (_dir, exchanged) = opened(&bytes).unwrap();
    assert_eq!(verify(&exchanged).unwrap().problems, 2_001, "each entry");
    let error = Index::read(&exchanged, None).unwrap_err();
    let says = "the key ::7 is in the database \"v4\"";
    assert!(matches!(&error, Error::Damaged { problem, .. } if problem == says), "{error}");
}
