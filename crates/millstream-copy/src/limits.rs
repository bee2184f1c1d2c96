//! The limits of a copy. Units come last in the names.

use std::ops::RangeInclusive;
use std::time::Duration;

/// Memory in which entries are sorted before a part of them goes to the disk.
pub const SORT_BYTES_MAX: usize = 24 << 20;
/// Bytes of an entry in a manifest: a path, a link's target and attributes, each of which Linux limits to 64 KiB.
pub const ENTRY_BYTES_MAX: usize = 16 << 20;

/// Bytes of each of the first two lines of a manifest, which say what it is about.
pub const HEADER_BYTES_MAX: u64 = 64 << 10;
/// A longer path is opened in parts: the system takes no more than 4,095 bytes at once.
pub const PATH_BYTES_MAX: usize = 3_000;
/// Longest name that rsync is asked for on another machine. It reads names in 2,048 bytes at a time, and would take a longer
/// one for two. So it could not tell what it has asked for from what the other machine sends in its place.
pub const ASKED_NAME_BYTES_MAX: usize = 1_900;
/// Linux limits the names of a file's attributes, and each value, to so many bytes.
pub const ATTRIBUTE_BYTES_MAX: usize = 64 << 10;

/// Entries that a worker takes at once.
pub const BLOCK_ENTRIES_MAX: usize = 256;
/// Bytes of files after which a block is complete.
pub const BLOCK_BYTES_MAX: u64 = 32 << 20;
/// Blocks that wait for a worker.
pub const BLOCKS_MAX: usize = 32;

/// Entries of a folder that are kept in memory while it is listed.
pub const LISTED_ENTRIES_MAX: usize = 4_096;
/// Bytes of a piece, into which a large file is cut: a subtree of its hash, so a power of two. Tests ask for fewer.
pub const PIECE_BYTES: u64 = 64 << 20;
/// Fewest bytes of a piece: those of a leaf of the hash.
pub const PIECE_BYTES_MIN: u64 = 1 << 10;
/// A file with the bytes of so many pieces is large: several workers copy it at once.
pub const LARGE_PIECES_MIN: u64 = 2;
/// A larger file is copied like others: the hashes of its pieces would take more than 32 MiB.
pub const LARGE_PIECES_MAX: u64 = 1 << 20;
/// Large files that are copied in pieces. Those above are copied like other files.
pub const LARGE_FILES_MAX: usize = 10_000;
/// Bytes that a worker reads at once.
pub const BUFFER_BYTES: usize = 1 << 20;

/// Times that a file is read again because it changed meanwhile.
pub const CHANGED_READS_MAX: u32 = 3;
/// Failures that a receipt lists. All are in the file that it names.
pub const FAILURES_LISTED_MAX: usize = 1_000;

/// Names that a destination takes for others, which are in memory.
pub const FOLDED_NAMES_MAX: usize = 10_000;
/// Names of one key about which a destination is asked, each with each.
pub const SAME_NAMES_ASKED_MAX: usize = 16;
/// Questions of one script, which is one argument of a shell.
pub const ASKED_AT_ONCE_MAX: usize = 50;
/// Names by which it is found out whether a destination does so, if nothing may be written there.
pub const PROBED_NAMES_MAX: usize = 1_000;

/// A worker that waits looks this often whether the copy was stopped.
pub const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Most workers.
pub const WORKERS_MAX: usize = 256;
/// Most workers that are found by trying, for each processor.
pub const WORKERS_TRIED_PER_CPU_MAX: usize = 8;
/// Time for which a number of workers is tried.
pub const TRIAL: Duration = Duration::from_secs(1);
/// A copy that will be over sooner tries no other number of workers, in trials.
pub const TRIALS_MIN: u32 = 20;
/// A larger number of workers is kept if it is this much faster.
pub const GAIN_MIN: f64 = 1.05;

const _: () = assert!(PIECE_BYTES.is_power_of_two() && LARGE_PIECES_MIN > 1);
const _: () = assert!(PIECE_BYTES_MIN == blake3::CHUNK_LEN as u64 && PIECE_BYTES > PIECE_BYTES_MIN);
const _: () = assert!(PIECE_BYTES.is_multiple_of(BUFFER_BYTES as u64));
const _: () = assert!(BLOCK_BYTES_MAX < LARGE_PIECES_MIN * PIECE_BYTES);

/// Connections to another machine that are made at once. A server of ssh begins to refuse at 10, of all its users.
pub const STARTING_MAX: usize = 4;
/// A process that has said nothing for so long has its connection, as far as others are concerned.
pub const CONNECTING_MAX: Duration = Duration::from_secs(2);
/// Times that a process is started again because its connection was refused or lost.
pub const ATTEMPTS_MAX: u32 = 7;
/// Time before the second attempt. It doubles with each.
pub const ATTEMPT_PAUSE: Duration = Duration::from_millis(100);
/// A server of ssh that does not answer is asked again after so long. After the third time (`ServerAliveCountMax`), the
/// connection is lost. ssh itself answers, whatever rsync does, so this may be short.
pub const SSH_SILENCE_MAX: Duration = Duration::from_secs(20);
/// rsync that says nothing for so long has lost its connection. It says something while it works, at least each half of
/// this, but not while a disk spins up, or the file system there waits for another machine.
pub const RSYNC_SILENCE_MAX: Duration = Duration::from_secs(600);
/// Nor while it hashes files before it compares them: slow disks give it so many bytes per second.
pub const HASHED_BYTES_PER_SECOND_MIN: u64 = 10 << 20;
/// Lines of a failed process that are shown.
pub const FAILED_LINES_SHOWN_MAX: usize = 3;
/// What an entry counts besides its bytes when buckets are cut.
pub const ENTRY_BYTES: u64 = 1 << 10;
/// Bytes for which a connection is worth being made: it costs ten round trips and a login, as much as 1,600 files of 4 kB.
pub const BUCKET_BYTES_MIN: u64 = 8 << 20;
/// Entries of a bucket, which are in memory.
pub const BUCKET_ENTRIES_MAX: usize = 10_000;
/// Bytes of files that one process of sha256sum hashes: it sends little, so a connection is worth more of them.
pub const HASHED_BYTES_MAX: u64 = 8 * BUCKET_BYTES_MIN;
/// Folders that could not be made, which are in memory: nothing is sent to them.
pub const UNMADE_FOLDERS_MAX: usize = 10_000;

/// Data directories of PostgreSQL in a source, whose paths are in memory.
pub const DATA_DIRECTORIES_MAX: usize = 10_000;
/// Unlogged tables that are named.
pub const UNLOGGED_LISTED_MAX: usize = 10_000;
/// Bytes that a file of WAL may have.
pub const SEGMENT_BYTES: RangeInclusive<u64> = (1 << 20)..=(1 << 30);
/// Files of WAL that a copy may need, whose names are in memory.
pub const WAL_FILES_MAX: u64 = 1 << 20;
/// Most bytes that are read of a control file. It has 8 kB.
pub const CONTROL_BYTES_MAX: u64 = 64 << 10;
/// Most bytes that are read of the settings that `alter system` has written.
pub const SETTINGS_BYTES_MAX: u64 = 4 << 20;
/// Times that a control file is read until it is whole.
pub const CONTROL_READS_MAX: u32 = 1_000;
/// Time between two of them.
pub const CONTROL_READ_PAUSE: Duration = Duration::from_millis(2);
/// Bytes of databases from which on it matters that a second copy reads everything.
pub const LARGE_CLUSTER_BYTES_MIN: u64 = 100 << 30;
