//! Named limits of the engine: every queue, batch, retry and wait has one.

use millstream_model::limits::{DOCUMENT_BYTES_MAX, NESTING_MAX, REJECT_BYTES_MAX, SLOTS};
use millstream_store::limits::CHANGE_KEYS_MAX;
use std::time::Duration;

/// Bytes of source data read into one chunk. Small enough that the lanes' shares of a chunk stay
/// even, large enough that its bookkeeping costs nothing per document.
pub const CHUNK_BYTES: usize = 256 << 10;

/// Largest chunk that can be asked for.
pub const CHUNK_BYTES_MAX: usize = 16 << 20;

/// Longest document that can be asked for: the most PostgreSQL keeps in one jsonb (`JENTRY_OFFLENMASK`,
/// jsonb.h).
pub const DOCUMENT_BYTES_CEILING: usize = 1 << 28;

/// Bytes read at once from a compressed source, and to recognise any source.
pub const RAW_BUFFER_BYTES: usize = 256 << 10;

/// Bytes read at once from a source that comes as it is written (a pipe holds this much).
pub const LIVE_READ_BYTES: usize = 64 << 10;

/// Largest window of zstd data, as a power of two: 128 MiB, what `zstd -d` accepts by default.
pub const ZSTD_WINDOW_LOG_MAX: u32 = 27;

/// Bytes at the start of a source that are looked at to recognise its format.
pub const RECOGNISE_BYTES_MAX: usize = 1 << 20;

/// Bytes read at once to look at the beginning of a file before anything is recorded.
pub const PROBE_BYTES: usize = 4 << 10;

/// Bytes in another encoding than UTF-8 that are decoded at once.
pub const TRANSCODE_BYTES: usize = 64 << 10;

/// Longest name of a member, as it is spelled, that is compared with a segment of `--root`.
pub const MEMBER_NAME_BYTES_MAX: usize = 64 << 10;

/// Longest field of a delimited file that becomes a number: jsonb takes longer ones.
pub const INFERRED_NUMBER_BYTES_MAX: usize = 1_000;

/// Most digits of such a number's exponent, for the same reason.
pub const EXPONENT_DIGITS_MAX: usize = 3;

/// Levels of brackets whose kinds are matched when looking for the end of a value; the decoder
/// refuses documents that are deeper.
pub const BRACKETS_CHECKED_MAX: usize = NESTING_MAX;

/// Bytes of a damaged place in a JSON array that are kept to show it.
pub const DAMAGE_BYTES_MAX: usize = 4 << 10;

/// Longest CSV header.
pub const CSV_HEADER_BYTES_MAX: usize = 1 << 20;

/// Longest line of a rejects file: a whole document of control characters, each spelled `\u0001`.
pub const REJECT_LINE_BYTES_MAX: usize = 6 * REJECT_BYTES_MAX + (64 << 10);

/// Most lanes of one load.
pub const LANES_MAX: u16 = 64;

/// Lanes without `--lanes` are at most this many: more connections than server cores lose.
pub const LANES_DEFAULT_MAX: u16 = 4;

/// A load takes at most one in this many of the server's free connections by default.
pub const FREE_CONNECTIONS_SHARE: i32 = 2;

/// Documents a lane commits at once, by default. Rows that are near each other in the key's index are
/// found faster: with a million rows of 150 bytes a changed wave runs 10 to 15 % faster in batches of
/// 100,000 than of 50,000; twice as many again is not faster, because fewer updates fit on their page.
pub const BATCH_ROWS: usize = 100_000;

/// Documents in a lane's first batch where nothing tells whether its keys are stored.
pub const FIRST_BATCH_ROWS: usize = 1_000;

/// Most documents in a batch; bounds what a lane sends again after an error.
pub const BATCH_ROWS_MAX: usize = 1_000_000;

/// Bytes of documents a lane commits at once, by default.
pub const BATCH_BYTES_MAX: usize = 16 << 20;

/// Bytes of documents after which a segment of the log layout is committed: one table and one commit for
/// hundreds of thousands of documents, and so much is read again after a failure.
pub const SEGMENT_BYTES: usize = 64 << 20;

/// Rejects after which a segment ends: it keeps them until its commit, and a short one takes many times its bytes.
pub const SEGMENT_REJECTS_MAX: usize = 50_000;

/// Longest time a document of a stream waits for its segment to fill: each is a table, so they are to be few.
pub const SEGMENT_FLUSH_AFTER: Duration = Duration::from_secs(5);

/// Bytes of segments that are merged into the table at once: a failure costs no more than one such group, and
/// until it is merged its segments take room.
pub const COMPACTION_BYTES: u64 = 1 << 30;

/// Documents of a range of keys where a model listens, about, for the ranges are parted by a sample: the keys of each
/// are to stay on record, or the model would have to be built anew.
pub const COMPACTION_RECORDED_DOCUMENTS: u64 = CHANGE_KEYS_MAX / 2;

/// Most connections that merge segments.
pub const COMPACTION_WORKERS_MAX: usize = 8;

/// Documents of a group that are looked at to part it into ranges of keys, about.
pub const COMPACTION_SAMPLE: u64 = 10_000;

/// `work_mem` of each of them, in MiB: its share of a group is sorted in it, or on disk.
pub const COMPACTION_MEMORY_MIB: usize = 128;

/// How long a compaction waits for another of the same collection, which does what it would do.
pub const COMPACTION_LOCK_WAIT: Duration = Duration::from_secs(60);

/// Longest time a document waits for its batch to fill.
pub const FLUSH_AFTER: Duration = Duration::from_millis(200);

/// Source bytes in flight between the sources and the lanes' commits, by default.
pub const MEMORY_BYTES: usize = 128 << 20;

/// Batches of every lane that the memory must hold at least: one is written, one waits, and the
/// chunks that both keep alive are shared with other lanes.
pub const MEMORY_BATCHES: usize = 4;

/// A batch is cut when the chunks that it keeps alive are this many times its own largest size:
/// a lane that gets little of every chunk must not hold the memory of all.
pub const HELD_BATCHES_MAX: usize = 4;

/// Batches' worth of a lane's memory that a segment of a stream may hold, of [`MEMORY_BATCHES`]: were it all, there
/// would be no room for the documents that fill it, and nothing would move before it is committed for its age.
pub const HELD_SEGMENT_BATCHES: usize = MEMORY_BATCHES - 1;

/// Least memory that lets the largest document through.
pub const MEMORY_BYTES_MIN: usize = 2 * DOCUMENT_BYTES_MAX;

/// What a document in flight takes beside its bytes, about: its row, its key and its place in the order
/// of a batch, or what is wrong with it. Uncounted, a stream of the shortest lines would hold many
/// times the memory asked for.
pub const FRAME_BYTES: usize = 128;

/// What a chunk in flight takes beside its documents for each lane, about: every lane gets a part of
/// every chunk. It counts where a chunk is a document.
pub const PART_BYTES: usize = 256;

/// Bytes of a chunk beyond which it holds a large document.
pub const LARGE_CHUNK_BYTES: usize = 1 << 20;

/// Copies of a large document on its way to the server: as it is read, as a row, and in the driver.
pub const LARGE_COPIES: usize = 3;

/// Bytes that a processor brings from memory at once.
pub const CACHE_LINE_BYTES: usize = 64;

/// Documents whose memory is waited for together, before they are written; they fit the first cache.
pub const WARMED_GROUPS: usize = 32;

/// Cache lines of each of them; of a longer document the processor fetches the rest ahead by itself.
pub const WARMED_LINES: usize = 4;

/// Most paths of `sum`.
pub const SUM_PATHS_MAX: usize = 16;

/// Longest version that `newest` compares, in canonical bytes.
pub const VERSION_BYTES_MAX: usize = 1 << 10;

/// Chunks read ahead of the engine.
pub const FEED_QUEUE: usize = 2;

/// Most bytes that a program hands over at once. Some hundred kilobytes are as fast as any more.
pub const SEND_BYTES_MAX: usize = CHUNK_BYTES_MAX;

/// Most lines that a program hands over at once: what the engine keeps of a document beside its bytes is a multiple of
/// the shortest ones, and a send is committed as a whole.
pub const SEND_LINES_MAX: u64 = 50_000;

/// Bytes of chunks waiting to be decoded, counted as the memory counts them: some eight of a file, or
/// thousands that are a document each.
pub const DECODE_QUEUE_BYTES: usize = 4 << 20;

/// Chunk parts waiting for a lane; the memory limit is what usually binds. Every lane gets a part of every chunk, and
/// each send of a stream is a chunk: of single documents only so many are decoded ahead of the lane that is furthest
/// behind, and the others wait to be decoded, up to [`DECODE_QUEUE_BYTES`].
pub const LANE_QUEUE: usize = 1024;

/// Rejected documents after which a load stops, by default.
pub const REJECTS_MAX: u64 = 10_000;

/// Bytes of rejected documents after which a load stops, by default.
pub const REJECT_BYTES_TOTAL_MAX: u64 = 64 << 20;

/// Bytes of rows put into one CopyData message; larger documents travel on their own.
pub const COPY_MESSAGE_BYTES: usize = 64 << 10;

/// Age at which a lane's connection is replaced: its staging table and the backend's caches do not
/// grow for ever under a stream that never ends.
pub const LANE_AGE_MAX: Duration = Duration::from_secs(3600);

/// `temp_buffers` of a lane, in MiB: a batch in the staging table stays in memory.
pub const STAGE_MEMORY_MIB: usize = 48;

/// `work_mem` of a lane, in MiB: a batch is sorted in memory.
pub const SORT_MEMORY_MIB: usize = 48;

/// Documents at the start of the input that key inference looks at.
pub const INFERENCE_DOCUMENTS: usize = 1_000;

/// Bytes at the start of the input that key inference looks at.
pub const INFERENCE_BYTES_MAX: usize = MEMORY_BYTES_MIN;

/// Bytes kept of what the server says when it refuses a document: a trigger may say anything.
pub const REFUSAL_BYTES_MAX: usize = 500;

/// Pages of the staging table that a walk over a refused batch tries at once, at most.
pub const WALK_PAGES_MAX: u32 = 64;

/// Pages whose documents a walk tries one by one, before it tries pages at once again.
pub const WALK_PAGES_ONE_BY_ONE: u32 = 16;

/// A walk goes on one by one where it refused more than one document in this many: a page of short
/// documents, of which it holds some forty, would then seldom be stored at once.
pub const WALK_REFUSED_SHARE: u32 = 32;

/// Documents that a walk may refuse; a batch with more is halved. It bounds what the lane holds of them: a chunk, which
/// cannot be parted, has fewer unless larger ones are asked for.
pub const WALK_REFUSED_MAX: u64 = 50_000;

/// Statements that write one batch where a table judges every document, each the next one of every key; a batch that
/// needs more is walked by the server, in one turn.
pub const ROUNDS_MAX: usize = 8;

/// Statements by which a walk writes some pages of the staging table, each the next document of every key; where there
/// would be more, each document has one of its own.
pub const WALK_TURNS_MAX: u32 = 32;

/// Times that one transaction writes one key; a batch of more is halved, as far as its chunks can be parted. Every
/// write has to pass the versions that the others of its transaction have left, which nothing can remove yet.
pub const KEY_TURNS_MAX: usize = 1_000;

/// Bytes of source data read into one chunk where documents of a key are not folded: a chunk is the least that a batch
/// can be, and of short documents it holds some times [`KEY_TURNS_MAX`].
pub const UNFOLDED_CHUNK_BYTES: usize = 32 << 10;

/// SQLSTATEs that a lane knows to refuse data; a batch that meets more is halved.
pub const WALK_CODES_MAX: usize = 64;

/// Rejects that a dry run shows.
pub const DRY_RUN_REJECTS: usize = 10;

/// A lane whose writer for one kind of keys met another kind stays away from it for this many batches
/// at first, doubling up to [`WRITER_PENALTY_MAX`].
pub const WRITER_PENALTY: u32 = 1;

/// Longest stay away from a writer, in batches.
pub const WRITER_PENALTY_MAX: u32 = 64;

/// Keys up to which a batch goes as arrays, by default. Measured against COPY into the staging table and an
/// upsert, with documents of 150 bytes and half a million stored: half the time for 1 and 10 keys, two
/// thirds for 100, nine tenths for 500 to 2,000, 1.1 times for 10,000; on a line with 5 ms for a turn, two
/// thirds up to 100 and three quarters for 1,000. Direct COPY takes as long for 10 new keys, and a sixth
/// less for 500, but a turn more.
pub const ARRAYS_ROWS_MAX: usize = 500;

/// Bytes of documents up to which a batch goes as arrays: the server holds them several times.
pub const ARRAYS_BYTES_MAX: usize = 1 << 20;

/// Keys of a batch that are looked at to tell whether its documents are worth comparing.
pub const COMPARED_SAMPLE: usize = 64;

/// Longest document that is compared before it is sent: that takes copies of it in memory, and on the
/// server the detoasting of the stored one. A longer one is compared by the server when it has come.
pub const COMPARED_BYTES_MAX: usize = 1 << 20;

/// Percent of a batch's keys with unchanged documents from which on comparing is worth it: asking for
/// a document takes about half the time of writing it.
pub const COMPARED_PERCENT_MIN: u64 = 60;

/// Memory in which verifying sorts documents, by default.
pub const VERIFY_MEMORY_BYTES: usize = 64 << 20;

/// Least memory in which verifying sorts documents.
pub const VERIFY_MEMORY_BYTES_MIN: usize = 256 << 10;

/// Bytes read or written at once of a sorted run.
pub const RUN_BUFFER_BYTES: usize = 64 << 10;

/// Most sorted runs that are merged at once; each is an open file with a buffer.
pub const MERGE_RUNS_MAX: usize = 64;

/// Bytes of documents of one key that are folded at once when verifying.
pub const FOLD_BYTES: usize = 1 << 20;

/// Bytes of folded documents that the merge of sorted runs hands over at once.
pub const FOLDED_BATCH_BYTES: usize = 256 << 10;

/// Batches of folded documents waiting to be compared; each may be one document of the longest.
pub const FOLDED_QUEUE: usize = 1;

/// Differences that verifying lists, by default.
pub const FINDINGS_LISTED: usize = 20;

/// Most differences that verifying lists: they are held in memory until the end.
pub const FINDINGS_MAX: usize = 100_000;

/// Wait between two tries to take the lock of a load of ours again after those that the retry policy has.
pub const LOAD_LOCK_RETRY: Duration = Duration::from_secs(5);

/// How long a load that adds a check waits for others to let go of the table, and for them to let it look
/// at the rows.
pub const CHECK_LOCK_WAIT: Duration = Duration::from_secs(5);

/// A session of a refresh waits inside its transaction for others to build, runs statements so long that it
/// has to look whether its client is still there, and must see every row or fail.
pub const REFRESH_SETTINGS: &[(&str, &str)] = &[
    ("idle_in_transaction_session_timeout", "0"),
    ("client_connection_check_interval", "1s"),
    ("row_security", "off"),
];

/// How often one call begins a load into an unlogged collection again because the server has crashed.
pub const EMPTIED_MAX: u32 = 3;

/// Tries to settle a load that a lane gave up: the lane has waited for the server already.
pub const SETTLE_FAILED_TRIES_MAX: u32 = 5;

const _: () = assert!(LANES_DEFAULT_MAX <= LANES_MAX);
const _: () = assert!(STAGE_MEMORY_MIB << 20 >= 2 * BATCH_BYTES_MAX && SORT_MEMORY_MIB << 20 >= 2 * BATCH_BYTES_MAX);
const _: () = assert!((LANES_MAX as usize) <= SLOTS, "each lane owns at least one slot");
const _: () = assert!(BATCH_ROWS <= BATCH_ROWS_MAX);
const _: () = assert!(BATCH_ROWS_MAX as u64 <= CHANGE_KEYS_MAX, "the keys of a batch are recorded");
const _: () = assert!(CHUNK_BYTES <= BATCH_BYTES_MAX);
const _: () = assert!(BATCH_BYTES_MAX <= SEGMENT_BYTES && SEGMENT_BYTES as u64 <= COMPACTION_BYTES);
const _: () = assert!(MEMORY_BYTES >= MEMORY_BYTES_MIN);
const _: () = assert!(VERIFY_MEMORY_BYTES >= VERIFY_MEMORY_BYTES_MIN && FINDINGS_LISTED <= FINDINGS_MAX);
const _: () = assert!(VERIFY_MEMORY_BYTES_MIN >= 4 * RUN_BUFFER_BYTES, "several runs are merged at once");
const _: () = assert!(MERGE_RUNS_MAX * RUN_BUFFER_BYTES <= VERIFY_MEMORY_BYTES);
const _: () = assert!(2 * BATCH_BYTES_MAX <= MEMORY_BYTES, "a batch fills while another is written");
const _: () = assert!(UNFOLDED_CHUNK_BYTES <= CHUNK_BYTES && CHUNK_BYTES <= CHUNK_BYTES_MAX);
const _: () = assert!(SEND_BYTES_MAX >= DOCUMENT_BYTES_MAX, "every document can be sent");
const _: () = assert!(SEND_LINES_MAX <= WALK_REFUSED_MAX, "a walk may refuse all of a send");
const _: () = assert!(DOCUMENT_BYTES_MAX <= DOCUMENT_BYTES_CEILING);
const _: () = assert!(
    CHUNK_BYTES_MAX + 8 * DOCUMENT_BYTES_CEILING + CSV_HEADER_BYTES_MAX < u32::MAX as usize,
    "frames count a chunk's bytes in 32 bits, and CSV turned into JSON grows"
);
const _: () = assert!(RAW_BUFFER_BYTES >= 2 * (128 << 10), "a zstd block (RFC 8878, 3.1.1.2.3) is fed whole");
