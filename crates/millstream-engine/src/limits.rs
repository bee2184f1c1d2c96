//! Named limits of the engine: every queue, batch, retry and wait has one.

use millstream_document::limits::{CHUNK_BYTES, CHUNK_BYTES_MAX};
use millstream_input::limits::{MERGE_RUNS_MAX, RUN_BUFFER_BYTES};
use millstream_model::limits::{DOCUMENT_BYTES_MAX, SLOTS};
use millstream_pg::limits::STANDSTILL_AFTER_S;
use millstream_store::limits::CHANGE_KEYS_MAX;
use std::time::Duration;

/// Most lanes of one load.
pub const LANES_MAX: u16 = 64;

/// Most shards of a distributed table. Each has a lane of its own.
pub const SHARDS_MAX: usize = 256;

/// Most loads that share a session and the memory. Each has a connection of its own besides.
pub const SERVICE_LOADS_MAX: u16 = 64;

/// Lanes of such loads that write at once, for each processor of the server if it is on this machine. More of them are slower:
/// they wait for each other where the table and its index grow, and each batch is smaller.
pub const SERVICE_WRITERS_PER_PROCESSOR: u16 = 2;

/// How many of them write at once at least, so that some wait for a lock while others go on.
pub const SERVICE_WRITERS_MIN: u16 = 4;

/// How many of them write at once at most, and if the processors of the server are not known.
pub const SERVICE_WRITERS_MAX: u16 = 16;

/// How long what one such load has found out about the table holds for others that are opened, unless the table changes.
pub const TABLE_KNOWN_FOR: Duration = Duration::from_secs(10);

/// Most different notices about a table that a service remembers, so that each is reported once and not by every load.
pub const SERVICE_NOTICES_MAX: usize = 1_000;

/// Most lanes without `--lanes`. More connections than the server has cores are slower.
pub const LANES_DEFAULT_MAX: u16 = 4;

/// A load takes at most one in this many of the server's free connections by default.
pub const FREE_CONNECTIONS_SHARE: i32 = 2;

/// Objects whose schemas are compared before a load begins. There may be thousands, and each takes two requests.
pub const OBJECT_SCHEMAS_MAX: usize = 100;

/// Documents that a lane commits at once, by default. Rows that are near each other in the key's index are found
/// faster. With a million rows of 150 bytes, a changed wave is 10 to 15 % faster in batches of 100,000 than of 50,000.
/// Twice as many again is not faster, because fewer updates fit on their page.
pub const BATCH_ROWS: usize = 100_000;

/// Documents in a lane's first batch, if we do not know whether its keys are stored.
pub const FIRST_BATCH_ROWS: usize = 1_000;

/// Most documents in a batch. Limits what a lane sends again after an error.
pub const BATCH_ROWS_MAX: usize = 1_000_000;

/// Bytes of documents that a lane commits at once, by default.
pub const BATCH_BYTES_MAX: usize = 16 << 20;

/// Bytes of documents after which a segment of the log layout is committed. It takes one table and one commit for
/// hundreds of thousands of documents. After a failure, this much is read again.
pub const SEGMENT_BYTES: usize = 64 << 20;

/// A segment ends when its lane has passed this many times the bytes of the sources that full segments of all lanes
/// take. A lane whose keys are rare, or that has none, must commit its position now and then: a load that resumes holds
/// what comes after the lowest position. If all lanes get their share of the documents, their segments are full before
/// that.
pub const SEGMENT_SPANS_MAX: usize = 2;

/// Rejects after which a segment ends. It keeps them until its commit, and a short one takes many times its bytes.
pub const SEGMENT_REJECTS_MAX: usize = 50_000;

/// Longest time that a document of a stream waits for its segment to fill. Each segment is a table, so there should be
/// few.
pub const SEGMENT_FLUSH_AFTER: Duration = Duration::from_secs(5);

/// Bytes of segments that are merged into the table at once. A failure costs no more than one such group, and its
/// segments take space until it is merged.
pub const COMPACTION_BYTES: u64 = 1 << 30;

/// Documents of a range of keys if the collection has models, approximately, because a sample divides the ranges. The
/// changed keys of a range must stay recorded, or the models would have to be built again.
pub const COMPACTION_RECORDED_DOCUMENTS: u64 = CHANGE_KEYS_MAX / 2;

/// Most connections that merge segments.
pub const COMPACTION_WORKERS_MAX: usize = 8;

/// Documents of a group in the sample that divides it into ranges of keys, approximately.
pub const COMPACTION_SAMPLE: u64 = 10_000;

/// `work_mem` of each connection that merges, in MiB. Its share of a group is sorted in it, or on disk.
pub const COMPACTION_MEMORY_MIB: usize = 128;

/// How long a compaction waits for another one of the same collection, which does the same work.
pub const COMPACTION_LOCK_WAIT: Duration = Duration::from_secs(60);

/// Longest time that a document waits for its batch to fill.
pub const FLUSH_AFTER: Duration = Duration::from_millis(200);

/// Source bytes in flight between the sources and the lanes' commits, by default.
pub const MEMORY_BYTES: usize = 128 << 20;

/// A load that resumes holds what an earlier run had in flight until its sources are compared. If that is more than
/// this many times its memory, it reads its files twice instead. Lanes of the log layout keep no bytes, so they may
/// have more in flight than the memory.
pub const UNVERIFIED_MEMORIES_MAX: usize = 4;

/// Batches of every lane that the memory must hold at least: one is written, one waits, and both keep chunks alive that
/// they share with other lanes.
pub const MEMORY_BATCHES: usize = 4;

/// A batch ends when the chunks that it keeps alive are this many times its own largest size. A lane that gets little
/// of every chunk must not hold the memory of all lanes.
pub const HELD_BATCHES_MAX: usize = 4;

/// How many of the [`MEMORY_BATCHES`] of a lane's memory a segment of a stream may hold. If it held all, there would be
/// no room for the documents that fill it, and nothing would move until the segment is old enough to be committed.
pub const HELD_SEGMENT_BATCHES: usize = MEMORY_BATCHES - 1;

/// Smallest memory that lets the largest document through.
pub const MEMORY_BYTES_MIN: usize = 2 * DOCUMENT_BYTES_MAX;

/// Bytes that a document in flight takes besides its own, approximately: its row, its key and its place in the order of
/// a batch, or what is wrong with it. If they were not counted, a stream of the shortest lines would hold many times
/// the memory asked for.
pub const FRAME_BYTES: usize = 128;

/// Bytes that a chunk in flight takes besides its documents, for each lane, approximately: every lane gets a part of
/// every chunk. They matter if each chunk is one document.
pub const PART_BYTES: usize = 256;

/// Bytes of a chunk above which it holds a large document.
pub const LARGE_CHUNK_BYTES: usize = 1 << 20;

/// Copies of a large document on its way to the server: as it is read, as a row, and in the driver.
pub const LARGE_COPIES: usize = 3;

/// Bytes that a processor loads from memory at once.
pub const CACHE_LINE_BYTES: usize = 64;

/// Documents that are loaded into the cache together before they are written. They fit into the first-level cache.
pub const WARMED_GROUPS: usize = 32;

/// Cache lines loaded of each of them. The processor itself prefetches the rest of a longer document.
pub const WARMED_LINES: usize = 4;

/// Most paths of `sum`.
pub const SUM_PATHS_MAX: usize = 16;

/// Sources whose first bytes are on the way before it is their turn, if they are objects. Many small ones would otherwise
/// wait for a store one after the other.
pub const SOURCES_AHEAD: usize = 8;

/// Chunks read ahead of the engine.
pub const FEED_QUEUE: usize = 2;

/// Most bytes that a program sends at once. More than some hundred kilobytes is not faster.
pub const SEND_BYTES_MAX: usize = CHUNK_BYTES_MAX;

/// Most lines that a program sends at once. For the shortest documents, the engine keeps a multiple of their bytes
/// besides them, and a send is committed as a whole.
pub const SEND_LINES_MAX: u64 = 50_000;

/// Bytes of chunks that wait to be decoded, counted as the memory counts them: about eight chunks of a file, or
/// thousands of one document each.
pub const DECODE_QUEUE_BYTES: usize = 4 << 20;

/// Parts of chunks that wait for a lane. Usually the memory limit is reached first. Every lane gets a part of every
/// chunk, and each send of a stream is a chunk. So if sends are single documents, only this many are decoded ahead of
/// the slowest lane. The others wait to be decoded, up to [`DECODE_QUEUE_BYTES`].
pub const LANE_QUEUE: usize = 1024;

/// Rejected documents after which a load stops, by default.
pub const REJECTS_MAX: u64 = 10_000;

/// Bytes of rejected documents after which a load stops, by default.
pub const REJECT_BYTES_TOTAL_MAX: u64 = 64 << 20;

/// Bytes of rows put into one CopyData message; larger documents travel on their own.
pub const COPY_MESSAGE_BYTES: usize = 64 << 10;

/// Age at which a lane's connection is replaced, so that its staging table and the backend's caches do not grow for
/// ever under a stream that never ends.
pub const LANE_AGE_MAX: Duration = Duration::from_secs(3600);

/// `temp_buffers` of a lane, in MiB: a batch in the staging table stays in memory.
pub const STAGE_MEMORY_MIB: usize = 48;

/// `work_mem` of a lane, in MiB: a batch is sorted in memory.
pub const SORT_MEMORY_MIB: usize = 48;

/// Bytes at the start of the input that are read to infer the key.
pub const INFERENCE_BYTES_MAX: usize = MEMORY_BYTES_MIN;

/// Bytes kept of the server's message when it refuses a document. A trigger may say anything.
pub const REFUSAL_BYTES_MAX: usize = 500;

/// Most pages of the staging table that are tried at once when a batch is written row by row.
pub const REPLAY_PAGES_MAX: u32 = 64;

/// Pages whose documents are then tried one by one, before pages are tried at once again.
pub const REPLAY_PAGES_ONE_BY_ONE: u32 = 16;

/// Documents are still tried one by one if more than one document in this many was refused: a page holds about forty
/// short documents, and would then seldom be stored at once.
pub const REPLAY_REFUSED_SHARE: u32 = 32;

/// Most documents refused in a batch that is written row by row; a batch with more is halved. Limits what the lane
/// holds of them. A chunk, which cannot be divided, has fewer documents unless larger chunks are asked for.
pub const REPLAY_REFUSED_MAX: u64 = 50_000;

/// Most statements that write one batch if its documents are not folded. Each writes the next document of every key. A
/// batch that needs more is written by a function on the server, in one round trip.
pub const ROUNDS_MAX: usize = 8;

/// Most statements by which that function writes some pages of the staging table. Each writes the next document of
/// every key. If it would need more, it writes each document by itself.
pub const REPLAY_TURNS_MAX: u32 = 32;

/// Most times that one transaction writes one key. A batch with more is halved, as far as its chunks can be separated.
/// Each write must pass the row versions that earlier writes of its transaction left, which cannot be removed before it
/// ends.
pub const KEY_TURNS_MAX: usize = 1_000;

/// Bytes of source data read into one chunk if documents of a key are not folded. A chunk is the smallest possible
/// batch, and of short documents it holds several times [`KEY_TURNS_MAX`].
pub const UNFOLDED_CHUNK_BYTES: usize = 32 << 10;

/// Most SQLSTATEs that a lane knows to refuse data. A load that meets more fails.
pub const REPLAY_CODES_MAX: usize = 64;

/// Rejects that a dry run shows.
pub const DRY_RUN_REJECTS: usize = 10;

/// Batches for which a lane avoids a writer after it met keys that it cannot write. Doubles each time, up to
/// [`WRITER_PENALTY_MAX`].
pub const WRITER_PENALTY: u32 = 1;

/// Most batches for which a lane avoids a writer.
pub const WRITER_PENALTY_MAX: u32 = 64;

/// A lane whose load deletes looks again for tables without a row after this many times as long as the last look took. So
/// looking takes a small part of the time, however many dead rows there are.
pub const VACANCY_TIMES_LOOKED: u32 = 32;

/// How long it waits at least after a look that failed, such as one that others held up.
pub const VACANCY_LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Deadlocks of one batch after which the lanes of a load write one at a time. If each costs the server's
/// `deadlock_timeout`, because the role may not lower it, one is enough.
pub const TURNS_DEADLOCKS_OF_BATCH: u32 = 2;

/// Deadlocks of all batches of a load that have the same effect. A batch without one makes up for one.
pub const TURNS_DEADLOCKS_OF_LOAD: u32 = 4;

/// Batches that are written one at a time before lanes try again together. Doubles each time, up to
/// [`TURNS_BATCHES_MAX`], until lanes have written as many together without a deadlock.
pub const TURNS_BATCHES: u32 = 16;

/// Most batches that are written one at a time before lanes try again together.
pub const TURNS_BATCHES_MAX: u32 = 1024;

/// Lanes also write one at a time for at least this many times as long as the deadlocks took, and longer in the measure
/// in which the number of batches grows. So trying again takes a small part of the time, however long the server needs to
/// find a deadlock.
pub const TURNS_TIMES_LOST: u32 = 8;

/// How long a lane waits for a row before the server looks for a deadlock, where lanes may deadlock with each other and
/// the role may say so. A wait for a batch of another lane is about as long.
pub const DEADLOCK_WAIT: Duration = Duration::from_millis(50);

/// Most keys of a batch that goes as arrays, by default. Measured against COPY into the staging table and an upsert,
/// with documents of 150 bytes and half a million stored: half the time for 1 and 10 keys, two thirds for 100, nine
/// tenths for 500 to 2,000, 1.1 times for 10,000. With 5 ms for a round trip: two thirds up to 100 keys, three quarters
/// for 1,000. Direct COPY takes as long for 10 new keys, and a sixth less for 500, but one round trip more.
pub const ARRAYS_ROWS_MAX: usize = 500;

/// Most bytes of documents of a batch that goes as arrays. The server holds them several times.
pub const ARRAYS_BYTES_MAX: usize = 1 << 20;

/// Keys of a batch in the sample that shows whether comparing its documents pays.
pub const COMPARED_SAMPLE: usize = 64;

/// Longest document that is compared before it is sent. Comparing takes copies of it in memory, and the server must
/// detoast the stored one. The server compares a longer document when it has arrived.
pub const COMPARED_BYTES_MAX: usize = 1 << 20;

/// Words of 8 bytes in which the lanes of a load together remember the keys that they have met.
pub const MET_WORDS: usize = 1 << 20;

/// Keys of a table that a lane reads as soon as it has asked for some: that takes a few milliseconds.
pub const LEARNED_KEYS: u32 = 20_000;

/// How long reading the keys of a table may take. A lane remembers so few that a second is enough, unless the network is slow or
/// the index has many entries of dead rows.
pub const LEARNING_TIME_MAX: Duration = Duration::from_secs(5);

/// Most keys that a lane remembers for each word. With more, it would take too many new keys for such that it has met.
pub const MET_KEYS_PER_WORD: u64 = 3;

/// So a lane takes at most about one new key of so many for one that it has met. If no more keys of a batch are taken for
/// such, they may all be new.
pub const MET_WRONGLY_ONE_OF: u64 = 1_000;

/// Percent of a batch's keys that must be new for dividing it to pay: asking which keys are stored takes about a tenth
/// of the time of writing new ones, and staging them half as much again.
pub const DIVIDED_PERCENT_MIN: u64 = 30;

/// Percent of a batch's keys that must have unchanged documents for comparing to pay. Asking for a document takes about
/// half the time of writing it.
pub const COMPARED_PERCENT_MIN: u64 = 60;

/// Bytes of memory in which `verify` sorts documents, by default.
pub const VERIFY_MEMORY_BYTES: usize = 64 << 20;

/// Smallest memory in which `verify` sorts documents.
pub const VERIFY_MEMORY_BYTES_MIN: usize = 256 << 10;

/// Bytes of documents of one key that are folded at once when verifying.
pub const FOLD_BYTES: usize = 1 << 20;

/// Bytes of folded documents that the merge of sorted runs hands over at once.
pub const FOLDED_BATCH_BYTES: usize = 256 << 10;

/// Batches of folded documents that wait to be compared. Each may be one document of the largest size.
pub const FOLDED_QUEUE: usize = 1;

/// Bytes of memory in which the keys of rows are sorted that a load is to delete, because no document has them.
pub const MISSING_MEMORY_BYTES: usize = 8 << 20;

/// Most such rows that are deleted in one transaction.
pub const MISSING_ROWS_MAX: usize = 10_000;

/// Percent of the rows of a table that a load deletes at most, by default, because no document has them.
pub const MISSING_PERCENT_MAX: u8 = 10;

/// Most files that are compared at once with what loads have read.
pub const SKIP_THREADS_MAX: usize = 4;

/// Differences that verifying lists, by default.
pub const FINDINGS_LISTED: usize = 20;

/// Most differences that verifying lists: they are held in memory until the end.
pub const FINDINGS_MAX: usize = 100_000;

/// Pause between two tries to take our own load's lock again, once the retry policy allows no more.
pub const LOAD_LOCK_RETRY: Duration = Duration::from_secs(5);

/// How long a load that adds a check waits for others to release the table, and later for the lock to check the rows.
pub const CHECK_LOCK_WAIT: Duration = Duration::from_secs(5);

/// Settings of sessions that refresh or compact. Such a session waits inside its transaction for others to build. It
/// must see every row or fail.
pub const REFRESH_SETTINGS: &[(&str, &str)] = &[("idle_in_transaction_session_timeout", "0"), ("row_security", "off")];

/// Bytes of a source that are read at once if transforms change documents.
pub const TRANSFORMED_CHUNK_BYTES: usize = CHUNK_BYTES / 2;

/// How often one call starts a load over because its table was emptied.
pub const EMPTIED_MAX: u32 = 3;

/// How often one call looks at a table anew and resumes, because the table was changed, until it commits something.
pub const TABLE_CHANGES_MAX: u32 = 20;

/// How long what is in flight may be committed after a stop. Then it is cancelled, and the load resumes there.
pub const STOP_WAIT: Duration = Duration::from_secs(30);

/// How long recording the end of a load may take after that. An end that is not recorded looks like that of a load that
/// was killed, which resumes too.
pub const SETTLE_WAIT: Duration = Duration::from_secs(5);

/// How long nothing was committed when a load first says why.
pub const STANDSTILL_AFTER: Duration = Duration::from_secs(STANDSTILL_AFTER_S);

/// Tries to close a load after a lane has failed. The lane has already waited for the server.
pub const SETTLE_FAILED_TRIES_MAX: u32 = 5;

const _: () = assert!(LANES_DEFAULT_MAX <= LANES_MAX);
const _: () = assert!(SERVICE_WRITERS_MIN <= SERVICE_WRITERS_MAX && SERVICE_WRITERS_MAX <= SERVICE_LOADS_MAX);
const _: () = assert!(STAGE_MEMORY_MIB << 20 >= 2 * BATCH_BYTES_MAX && SORT_MEMORY_MIB << 20 >= 2 * BATCH_BYTES_MAX);
const _: () = assert!((LANES_MAX as usize) <= SLOTS, "each lane owns at least one slot");
const _: () = assert!(BATCH_ROWS <= BATCH_ROWS_MAX);
const _: () = assert!(BATCH_ROWS_MAX as u64 <= CHANGE_KEYS_MAX, "the keys of a batch are recorded");
const _: () = assert!(CHUNK_BYTES <= BATCH_BYTES_MAX);
const _: () = assert!(BATCH_BYTES_MAX <= SEGMENT_BYTES && SEGMENT_BYTES as u64 <= COMPACTION_BYTES);
const _: () = assert!(
    UNVERIFIED_MEMORIES_MAX * MEMORY_BYTES >= SEGMENT_SPANS_MAX * LANES_DEFAULT_MAX as usize * SEGMENT_BYTES,
    "a load that resumes by default reads its files once, unless its documents are short"
);
const _: () = assert!(MEMORY_BYTES >= MEMORY_BYTES_MIN);
const _: () = assert!(VERIFY_MEMORY_BYTES >= VERIFY_MEMORY_BYTES_MIN && FINDINGS_LISTED <= FINDINGS_MAX);
const _: () = assert!(VERIFY_MEMORY_BYTES_MIN >= 4 * RUN_BUFFER_BYTES, "several runs are merged at once");
const _: () = assert!(MERGE_RUNS_MAX * RUN_BUFFER_BYTES <= VERIFY_MEMORY_BYTES);
const _: () = assert!(MISSING_MEMORY_BYTES >= 4 * RUN_BUFFER_BYTES, "several runs are merged at once");
const _: () = assert!(MISSING_ROWS_MAX as u64 <= CHANGE_KEYS_MAX, "the keys of a batch are recorded");
const _: () = assert!(2 * BATCH_BYTES_MAX <= MEMORY_BYTES, "a batch fills while another is written");
const _: () = assert!(UNFOLDED_CHUNK_BYTES <= CHUNK_BYTES);
const _: () = assert!(SEND_BYTES_MAX >= DOCUMENT_BYTES_MAX, "every document can be sent");
const _: () = assert!(SEND_LINES_MAX <= REPLAY_REFUSED_MAX, "a replay may refuse all of a send");
