//! Every limit of this crate.

use std::ops::RangeInclusive;
use std::time::Duration;

/// Longest value that is stored, in bytes of JSON. LMDB takes more. A value is read with every look-up, so that more
/// than this is a mistake in the input.
pub const VALUE_BYTES_MAX: usize = 1 << 20;

/// Longest line of an input, in bytes.
pub const LINE_BYTES_MAX: usize = 2 * VALUE_BYTES_MAX;

/// Memory that a build sorts in before it writes sorted runs to disk, in bytes, by default.
pub const SORT_BYTES: usize = 512 << 20;

/// Least memory to sort in.
pub const SORT_BYTES_MIN: usize = 1 << 20;

/// Ranges that may overlap at one address. All of them are held in memory while the address is passed.
pub const DEPTH_MAX: usize = 100_000;

/// Rejected entries of the input that stop a build, by default.
pub const REJECTS_MAX: u64 = 1_000;

/// Overlaps that an error names.
pub const OVERLAPS_NAMED: usize = 5;

/// Objects of NDJSON before the first whose members say where the range is.
pub const UNDECIDED_MAX: usize = 100;

/// Records that the reading thread sends at once.
pub const BATCH_RECORDS: usize = 4_096;

/// Bytes of members and rejects after which a batch is sent, if it has fewer records.
pub const BATCH_BYTES: usize = 8 << 20;

/// How long a build waits for a batch before it looks whether it is stopped, and asks for what there is.
pub const BATCH_WAIT: Duration = Duration::from_millis(100);

/// Batches that wait to be sorted.
pub const BATCH_QUEUE: usize = 4;

/// Ranges after which a build reports how far it is, and looks whether it is stopped.
pub const PROGRESS_RANGES: u64 = 1 << 16;

/// Largest page of any system that runs Linux; address space is a multiple of it.
pub const PAGE_BYTES_MAX: usize = 1 << 16;

/// Ranges that are written in one transaction of LMDB.
pub const WRITE_ROWS: usize = 1 << 16;

/// Bytes that are written in one transaction of LMDB, if fewer ranges already have them.
pub const WRITE_BYTES: usize = 32 << 20;

/// Address space of the first try to write a file, in bytes for each byte of content. LMDB maps its file into memory and
/// must know the size before. It reserves addresses, neither memory nor disk.
pub const MAP_FACTOR: usize = 4;

/// Bytes of a page of an LMDB file: those of a page of the system that wrote it, but at most 32 KiB.
pub const FILE_PAGE_BYTES: RangeInclusive<usize> = 1 << 12..=1 << 15;

/// Levels of a tree in an LMDB file. LMDB's cursors have room for so many (`CURSOR_STACK` in `mdb.c`).
pub const TREE_LEVELS: RangeInclusive<usize> = 1..=32;

/// Least address space of a file that is written.
pub const MAP_BYTES_MIN: usize = 64 << 20;

/// Most address space of a file that is written.
pub const MAP_BYTES_MAX: usize = 1 << 45;

/// Bytes that are written to see whether a disk is full. LMDB writes several pages at once.
pub const PROBE_BYTES: usize = 1 << 20;

/// Generations that a store keeps, the current one included.
pub const GENERATIONS_KEPT: usize = 2;

/// Most memory that an index takes, in bytes.
pub const INDEX_BYTES_MAX: usize = 4 << 30;

/// Lines of a joined file that are held in memory, in bytes.
pub const JOIN_BYTES_MAX: usize = 1 << 30;

/// Rows of a query that wait to be read.
pub const QUERY_QUEUE: usize = 4_096;

/// Bytes of these rows.
pub const QUERY_QUEUE_BYTES: usize = 16 << 20;

/// Problems that `verify` names; all are counted.
pub const PROBLEMS_NAMED: usize = 20;

/// Differences that `diff` prints; all are counted.
pub const DIFFERENCES_NAMED: usize = 1_000;

/// Columns of an export to CSV. More members are a mistake: names that are data.
pub const CSV_COLUMNS_MAX: usize = 10_000;

/// Bytes of rows in one message of COPY; larger values travel in pieces.
pub const COPY_MESSAGE_BYTES: usize = 64 << 10;

/// Longest value that is sent to PostgreSQL, whose fields are below 1 GiB.
pub const FIELD_BYTES_MAX: usize = (1 << 30) - 16;

/// Milliseconds of each try to lock a table that is replaced.
pub const LOCK_TRY_MS: u32 = 200;

/// Pause between these tries.
pub const LOCK_PAUSE: Duration = Duration::from_secs(1);

/// Tries to lock a table.
pub const LOCK_TRIES: u32 = 60;

/// Longest name of a table in the kernel (`NFT_NAME_MAXLEN`), the byte at its end included.
pub const NFT_NAME_BYTES: usize = 256;

/// Memory of an entry besides its texts: two pointers with lengths, in a map that may be half empty, and what the
/// allocator needs.
pub const JOIN_ENTRY_BYTES: usize = 96;

/// Size of the buffer as long as no line is longer.
pub const READ_BYTES: usize = 1 << 18;

/// Bytes at the beginning that tell the format.
pub const RECOGNISED_BYTES: usize = 1 << 16;

/// Bytes of an entry that a reject shows, and bytes of its reason.
pub const SHOWN_BYTES: usize = 1 << 10;

/// Largest MaxMind database that is read, in bytes, by default. It is held in memory as a whole.
pub const MMDB_BYTES_MAX: usize = 1 << 30;

/// Memory of a text besides its bytes.
pub const MMDB_TEXT_BYTES: usize = 96;

/// Memory of the texts that are kept for networks to come, and of those that a batch brings with it.
pub const MMDB_TEXTS_BYTES: usize = 32 << 20;

const _: () = assert!(GENERATIONS_KEPT >= 2, "a load that is resumed may need the previous generation");
const _: () = assert!(VALUE_BYTES_MAX < WRITE_BYTES);
const _: () = assert!(LINE_BYTES_MAX <= QUERY_QUEUE_BYTES, "each row that is read finds room in the queue");
const _: () = assert!(SORT_BYTES_MIN <= SORT_BYTES);
