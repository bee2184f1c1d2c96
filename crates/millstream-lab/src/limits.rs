//! Named limits of the lab.

use std::time::Duration;

/// Smallest document of a data set: the fields that every document has need this much.
pub const DOCUMENT_BYTES_MIN: usize = 150;

/// Largest document of a data set.
pub const DOCUMENT_BYTES_MAX: usize = 16 << 20;

/// Most bytes that one more item of a large document may need, with the end of the document.
pub(crate) const ITEM_BYTES_MAX: usize = 160;

/// Most documents of a data set. The order of a wave is a list of 32-bit numbers.
pub const DOCUMENTS_MAX: u64 = 100_000_000;

/// Most chunks that wait in each direction of a delayed connection: 2.5 ms at more than 10 GB/s.
pub(crate) const DELAYED_CHUNKS_MAX: usize = 512;

/// Most bytes that a delayed connection passes on at once.
pub(crate) const DELAYED_CHUNK_BYTES: usize = 64 << 10;

/// Most connections of COPY.
pub const LANES_MAX: u16 = 64;

/// Bytes of one message of a COPY stream, as Millstream sends them.
pub(crate) const COPY_MESSAGE_BYTES: usize = 64 << 10;

/// Flushes that the disk probe makes.
pub(crate) const FLUSHES: usize = 100;

/// Fewest flushes of which it takes the median, and the time after which those are enough: a disk may be slow.
pub(crate) const FLUSHES_MIN: usize = 9;
pub(crate) const FLUSH_TIME_MAX: Duration = Duration::from_secs(2);

/// Bytes that each flush of the probe writes: a page of WAL.
pub(crate) const FLUSH_BYTES: usize = 8 << 10;

/// Answers of which a run has the median: each takes milliseconds, and the first one of a session takes longer.
pub(crate) const ANSWERS: usize = 5;

/// Most bytes of a record's text, compressed or not. The largest so far has less than half a megabyte.
pub(crate) const RECORD_BYTES_MAX: u64 = 256 << 20;

/// Most effects on the first screen of a report.
pub(crate) const REPORT_EFFECTS_MAX: usize = 8;

/// Most comparisons below it.
pub(crate) const REPORT_COMPARISONS_MAX: usize = 300;

/// Most notes on it.
pub(crate) const REPORT_NOTES_MAX: usize = 40;

/// Most characters of a text that is not ours, such as a statement or the reason of a failure.
pub(crate) const REPORT_TEXT_MAX: usize = 2_000;

/// Most statements in a report.
pub(crate) const REPORT_STATEMENTS_MAX: usize = 400;

/// Most runs in a report's table.
pub(crate) const REPORT_RUNS_MAX: usize = 1_000;

/// Most arms whose series are drawn.
pub(crate) const REPORT_PANELS_MAX: usize = 40;

/// Most blocks whose series are drawn of an arm.
pub(crate) const REPORT_LINES_MAX: usize = 20;

/// Most blocks of an arm of which a report draws what the recorder wrote: more of these lines cannot be told apart.
pub(crate) const REPORT_RECORDED_LINES_MAX: usize = 4;

/// Most records, or sides of records, that are put beside each other.
pub const LINEUP_SIDES_MAX: usize = 16;

/// Most statements of an arm whose times are drawn beside those of other records.
pub(crate) const LINEUP_STATEMENTS_MAX: usize = 40;

/// Most points of a drawn series.
pub(crate) const REPORT_POINTS_MAX: usize = 2_000;

/// Fewest points to which a series is reduced.
pub(crate) const REPORT_POINTS_MIN: usize = 60;

/// About the most points of all drawn series. A point takes about seven bytes.
pub(crate) const REPORT_POINTS_ALL_MAX: usize = 60_000;

/// Most names that are tried for a record's directory.
pub(crate) const NAME_TRIES_MAX: u32 = 1_000;

/// Most bytes of an experiment's file or of a script beside it.
pub(crate) const EXPERIMENT_BYTES_MAX: u64 = 1 << 20;

/// Most mistakes of an experiment's file that are named at once.
pub(crate) const MISTAKES_MAX: usize = 20;

/// Most arms of an experiment, with those that sweeps make.
pub const ARMS_MAX: usize = 200;

/// Most blocks that two arms are compared over. The exact test of so many takes less than a second.
pub const BLOCKS_MAX: u32 = 200;

/// Fewest blocks from which it is estimated how many more would decide. The scatter of fewer says little about that of
/// the next.
pub(crate) const ESTIMATE_BLOCKS_MIN: u32 = 20;

/// Most records a side. The exact test of so many takes about a second, of twice as many a minute.
pub const RECORDS_MAX: u32 = 100;

/// Most steps by which the end of a warm-up is sought. A series with more changes is not steady.
pub(crate) const CHANGES_MAX: u32 = 100;

/// Longest run, in seconds.
pub const RUN_SECONDS_MAX: u32 = 24 * 3_600;

/// Most runs of an arm that do not count, before the first block.
pub const WARM_UP_RUNS_MAX: u32 = 100;

/// Most sessions of a run.
pub(crate) const CLIENTS_MAX: u32 = 10_000;

/// Bytes that the tables of pgbench take for each unit of scale, about.
pub(crate) const SCALE_BYTES: u64 = 15_000_000;

/// Most clients for which the usual 100 connections of a server are enough.
pub(crate) const CLIENTS_USUAL_MAX: u32 = 80;

/// Sessions of the lab itself and of the server's owner, beside those of the clients.
pub(crate) const SESSIONS_SPARE: u32 = 20;

const _: () = assert!(CLIENTS_USUAL_MAX + SESSIONS_SPARE <= 100);

/// Least memory that an experiment leaves a server, in megabytes.
pub(crate) const MEMORY_MB_MIN: u32 = 128;

/// Largest segment of the WAL that PostgreSQL knows, in megabytes.
pub(crate) const WAL_SEGMENT_MB_MAX: u32 = 1024;

/// Longest delay that a proxy adds to a round trip, in seconds.
pub(crate) const PAUSE_SECONDS_MAX: f64 = 10.0;

/// Longest wait for a server that recovers from a crash.
pub(crate) const RECOVERY_TIME_MAX: Duration = Duration::from_secs(120);

/// Longest time to make the data of an experiment, in seconds.
pub(crate) const INIT_SECONDS_MAX: u32 = 6 * 3_600;

/// Time that a run may take beyond its own length: to connect, and to finish its last transactions.
pub(crate) const RUN_SLACK: Duration = Duration::from_secs(600);

/// Longest time of a shell command of an experiment: one that is measured, or that prepares runs.
pub(crate) const COMMAND_TIME_MAX: Duration = Duration::from_secs(60 * 60);

/// Most log files of a run, one of each thread of pgbench.
pub(crate) const LOG_FILES_MAX: usize = 10_000;

/// Most transactions of a run of an experiment: an hour with 8,000 each second. Each takes 16 bytes of our memory, and
/// for a moment some more while the list grows.
pub(crate) const LOG_TRANSACTIONS_MAX: usize = 30_000_000;

/// Most bytes of a line of pgbench's log. It has at most seven numbers.
pub(crate) const LOG_LINE_BYTES_MAX: u64 = 1_000;

/// How often we look whether the server has done what it was asked.
pub(crate) const POLL: Duration = Duration::from_millis(20);

/// Longest time in which a server takes new settings.
pub(crate) const RELOAD_TIME_MAX: Duration = Duration::from_secs(10);

/// A run is void if the hypervisor took more of the processors' time, in percent, unless the user accepts more.
pub(crate) const STEAL_PERCENT_MAX: f64 = 2.0;

/// A run is void if the threads of pgbench were busy for more than this share of the time: then it measures pgbench.
pub(crate) const BUSY_SHARE_MAX: f64 = 0.9;

/// A run with a rate is void if less than this share of the scheduled transactions was begun.
pub(crate) const RATE_SHARE_MIN: f64 = 0.95;

/// How often a run is made again that its own arm makes void.
pub(crate) const TRIES_MAX: u32 = 2;

/// Files of a lab that was killed are removed when they are older.
pub(crate) const OLD_FILES: Duration = Duration::from_secs(86_400);

/// Seconds for all runs of a quick experiment, about.
pub(crate) const QUICK_SECONDS: f64 = 60.0;

/// Longest run of a quick experiment, in seconds.
pub(crate) const QUICK_RUN_SECONDS_MAX: f64 = 5.0;

/// Pairs of runs, with and without it, that measure what pgbench's log takes: the fewest that can show a difference.
pub(crate) const LOG_COST_PAIRS: u32 = 8;

/// Seconds of each of these runs.
pub(crate) const LOG_COST_SECONDS: u32 = 3;

/// Seconds between two runs, about: vacuum, checkpoint, start of pgbench.
pub(crate) const RUN_PAUSE_SECONDS: f64 = 1.0;

const _: () = assert!(DOCUMENT_BYTES_MIN < DOCUMENT_BYTES_MAX);
const _: () = assert!(RECORDS_MAX <= BLOCKS_MAX);
const _: () = assert!(DOCUMENTS_MAX < u32::MAX as u64);
const _: () = assert!(ANSWERS % 2 == 1);

/// Scripts of a workload.
pub(crate) const SCRIPTS_MAX: usize = 32;

/// Largest weight of a script, so that their sum stays a number of pgbench.
pub(crate) const WEIGHT_MAX: u32 = 1_000_000;

/// Rates of a workload, each of which is a run.
pub(crate) const RATES_MAX: usize = 100;

/// Transactions of a run at a rate. Each has a line of about 35 bytes in a log, which lies in memory.
pub(crate) const DRIVEN_MAX: f64 = 1e7;

/// Time that a run at a rate may take beyond its own length. A statement that takes longer hangs.
pub(crate) const DRIVE_FINISH: Duration = Duration::from_secs(60);

/// Steps of a search for the highest rate.
pub(crate) const SEARCH_STEPS_MAX: usize = 12;

/// Length of one step of a search, if its percentile does not need more.
pub(crate) const SEARCH_STEP_SECONDS: u32 = 5;

/// Most bytes of a workload file.
pub const WORKLOAD_BYTES_MAX: usize = 1 << 20;

/// Most sessions of a workload.
pub(crate) const CONNECTIONS_MAX: u32 = 5_000;

/// Longest schedule of a workload: a day.
pub(crate) const RUN_LENGTH_SECONDS: u32 = 24 * 60 * 60;

/// Highest rate of a class, in requests per second. One thread cannot send as many.
pub(crate) const RATE_MAX: f64 = 1e6;

/// Highest percentile that can be asked for.
pub(crate) const PERCENTILE_MAX: f64 = 99.999;

/// Longest latency that a histogram tells apart: an hour.
pub(crate) const LATENCY_MICROSECONDS_MAX: u64 = 3_600_000_000;

/// Most bytes of a fact of an environment. The longest is PostgreSQL's list of build flags.
pub(crate) const FACT_BYTES_MAX: usize = 4_000;

/// Time between two lines of the recorder.
pub(crate) const RECORDER_STEP_MS: u64 = 1_000;

/// Time between two samples of what sessions wait for. Ten in a second cost the server well below 1 % of a core.
pub(crate) const WAIT_SAMPLE_MS: u64 = 100;

/// Longest time for an answer of the server to the recorder. Later it would delay the next second's values.
pub(crate) const RECORDER_QUERY_MS: u64 = 500;

/// Longest time until the recorder has its first values, with the session at the server.
pub(crate) const RECORDER_START_MS: u64 = 10_000;

/// Time between two tries to open a lost session again.
pub(crate) const RECORDER_RECONNECT_MS: u64 = 2_000;

/// Longest recording. A run lasts minutes.
pub(crate) const RECORDER_LINES_MAX: u32 = 6 * 3_600;

/// Largest file of a recording: about 3 kB each second.
pub(crate) const RECORDER_FILE_BYTES_MAX: u64 = 64 << 20;

/// Most values of a second. There are about 150; wait events vary.
pub(crate) const RECORDER_VALUES_MAX: usize = 1_000;

/// Most wait events of a recording by name; others are counted together. PostgreSQL has about 250, a run meets 20.
pub(crate) const WAIT_EVENTS_MAX: usize = 200;

/// Most notes of a recording.
pub(crate) const RECORDER_NOTES_MAX: usize = 20;

const _: () = assert!(RECORDER_STEP_MS.is_multiple_of(WAIT_SAMPLE_MS) && RECORDER_QUERY_MS < RECORDER_STEP_MS);
const _: () = assert!(WAIT_EVENTS_MAX < RECORDER_VALUES_MAX);

/// Busy share of the machine's processors, in percent, from which they may be the limit. Below it there is time left,
/// though perhaps not on the right processor.
pub(crate) const PROCESSOR_BUSY_PERCENT: f64 = 90.0;

/// Busy share, in percent, below which the processors cannot be the limit. Between this and the other threshold the
/// share decides nothing.
pub(crate) const PROCESSOR_FREE_PERCENT: f64 = 80.0;

/// Share of the time, in percent, in which some task waited (PSI "some"), from which waiting is more than chance.
pub(crate) const PRESSURE_PERCENT: f64 = 20.0;

/// Share of the samples of active sessions, in percent, from which a kind of wait dominates: most of them.
pub(crate) const WAITS_DOMINATE_PERCENT: f64 = 50.0;

/// Mean time of a flush, in ms, from which the disk is slow: one with protection against power loss takes a tenth.
pub(crate) const FLUSH_SLOW_MS: f64 = 1.0;

/// Utilisation of a disk or a network link, in percent, from which queues form.
pub(crate) const UTILISATION_HIGH_PERCENT: f64 = 80.0;

/// Share of the time of its threads, in percent, that the client used, from which it is saturated.
pub(crate) const CLIENT_BUSY_PERCENT: f64 = 90.0;

/// Share of the time, in percent, in which a cgroup's quota stopped tasks, from which the quota is felt.
pub(crate) const THROTTLED_PERCENT: f64 = 5.0;

/// Mean number of active sessions below which a run was idle: wait samples then say nothing.
pub(crate) const SESSIONS_ACTIVE_MIN: f64 = 0.1;

/// Mean number of sessions that run, with the client's share of a processor, below which the work asks too little of the
/// processors to be limited by them. A session and its client that take turns are one.
pub(crate) const RUNNING_MIN: f64 = 0.5;

/// Share of the sessions that must be active, in percent, so that what they wait for limits the run. The others wait
/// for the client or for the way to it.
pub(crate) const SESSIONS_ACTIVE_PERCENT: f64 = 50.0;

/// Memory of a guest, in megabytes. Its files are in it, but for those of the server.
pub(crate) const GUEST_MEMORY_MB: u32 = 3_072;

/// Size of a guest's disk. The file takes as much as is written.
pub(crate) const GUEST_DISK_BYTES: u64 = 2 << 30;

/// Most bytes that are read of a configuration file of the lab's own server.
pub(crate) const CONF_BYTES_MAX: u64 = 4 << 20;

/// Largest scale of pgbench's tables in a guest: emulated, a larger one takes minutes.
pub(crate) const GUEST_SCALE_MAX: u32 = 1;

/// Longest time of a guest, from its boot to its record.
pub(crate) const GUEST_TIME_MAX: Duration = Duration::from_secs(30 * 60);

/// Longest time of a program that takes a package apart or lists libraries.
pub(crate) const GUEST_TOOL_TIME_MAX: Duration = Duration::from_secs(5 * 60);

/// Most lines of what a failed program said that its error repeats.
pub(crate) const SAID_LINES_MAX: usize = 5;

/// Most bytes of a text that a program printed, such as its version or its last error, in a record or an error.
pub(crate) const SAID_BYTES_MAX: usize = 2_000;

/// Largest number of a dial without a bound of its own. Integers up to here are exact as floats.
pub(crate) const DIAL_MAX: f64 = 1e15;

const _: () = assert!(PROCESSOR_FREE_PERCENT < PROCESSOR_BUSY_PERCENT);
