//! The settings of a server for the machine it runs on, each with its reason. The local server begins with them, and the
//! doctor compares other servers with them.

use crate::limits::SESSIONS_MAX;
use millstream_model::MachineFacts;

const MB: u64 = 1 << 20;
const GB: u64 = 1 << 30;

/// One line of the configuration file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// The parameter.
    pub name: &'static str,
    /// Its value, as written.
    pub value: String,
    /// Why this value.
    pub reason: String,
}

/// A setting with one good value, whatever the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FixedSetting {
    /// The parameter.
    pub name: &'static str,
    /// Its value, as written.
    pub value: &'static str,
    /// Why this value. For one of [`RECORDED`]: what the server then records.
    pub reason: &'static str,
}

/// How long a checkpoint takes, as a share of the time until the next one.
pub const CHECKPOINT_SPREAD: FixedSetting =
    fixed("checkpoint_completion_target", "0.9", "checkpoints write evenly instead of in bursts that stall commits");

/// After how many bytes a checkpoint asks the system to write. PostgreSQL's own default, so it is in no file of ours.
pub const CHECKPOINT_FLUSH: FixedSetting =
    fixed("checkpoint_flush_after", "256kB", "little is left to wait for at the end of a checkpoint");

/// How many values of a column `analyze` keeps. PostgreSQL's own default, so it is in no file of ours.
pub const STATISTICS: FixedSetting = fixed(
    "default_statistics_target",
    "100",
    "analyze looks at 30,000 rows of a table, which is enough for most columns",
);

/// How much a worker of autovacuum does before it sleeps.
pub const VACUUM_PACE: FixedSetting =
    fixed("autovacuum_vacuum_cost_limit", "2000", "ten times the default, so that vacuum keeps up with a load");

/// Settings by which a server records what somebody may ask later. The local server leaves them as they are.
pub const RECORDED: &[FixedSetting] = &[
    fixed("log_autovacuum_min_duration", "10min", "which tables autovacuum works on, and for how long"),
    fixed("log_checkpoints", "on", "when checkpoints come, for what reason, and how long they take"),
    fixed("log_lock_waits", "on", "who waited long for a lock, and for whom"),
    fixed("shared_preload_libraries", "pg_stat_statements", "which statements take the time (pg_stat_statements)"),
    fixed("track_activities", "on", "what sessions do"),
    fixed("track_counts", "on", "how tables and indexes are used; autovacuum needs it, too"),
    fixed("track_io_timing", "on", "how much time reads and writes take"),
];

const fn fixed(name: &'static str, value: &'static str, reason: &'static str) -> FixedSetting {
    FixedSetting { name, value, reason }
}

impl From<FixedSetting> for Setting {
    fn from(fixed: FixedSetting) -> Self {
        setting(fixed.name, fixed.value, fixed.reason)
    }
}

/// What the build of PostgreSQL supports, as far as settings depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuildFacts {
    /// Major version.
    pub major: u32,
    /// It was built with lz4.
    pub lz4: bool,
}

/// Every setting that depends on the machine or the build, in the order in which it is written.
/// Starting points: the manual's chapters on resource consumption and on populating a database.
pub fn settings(facts: &MachineFacts, build: BuildFacts) -> Vec<Setting> {
    let mut list = memory(facts);
    list.extend(wal(facts, build));
    list.extend(disk(facts, build));
    list.extend(processors(facts));
    list.extend(vacuum());
    list
}

fn setting(name: &'static str, value: impl ToString, reason: impl Into<String>) -> Setting {
    Setting { name, value: value.to_string(), reason: reason.into() }
}

/// A size in whole megabytes, as PostgreSQL writes it.
pub fn size(bytes: u64) -> String {
    format!("{}MB", bytes / MB)
}

fn memory(facts: &MachineFacts) -> Vec<Setting> {
    let usable = facts.usable_bytes();
    let whose = match facts.cgroup_bytes {
        Some(limit) if limit < facts.memory_bytes => "the cgroup may use",
        _ => "this machine has",
    };
    let of = format!("of the {} that {whose}", size(usable));
    let shared = shared_buffers(usable);
    let work = (usable / 256).clamp(4 * MB, 64 * MB);
    let maintenance = (usable / 16).clamp(64 * MB, 2 * GB);
    let autovacuum = (maintenance / 3).max(64 * MB);
    vec![
        setting(
            "shared_buffers",
            size(shared),
            format!(
                "a quarter {of}, at most 16 GB: keeps the upper levels of key indexes in memory, and leaves the rest to the system's cache and the loader"
            ),
        ),
        setting(
            "effective_cache_size",
            size(usable / 100 * 60),
            format!("60 % {of}: what the planner may expect to find cached, here or by the system"),
        ),
        setting(
            "work_mem",
            size(work),
            format!("1/256 {of}, per sort or hash and session: a batch of documents sorts in memory"),
        ),
        setting(
            "maintenance_work_mem",
            size(maintenance),
            format!("1/16 {of}: index builds of read models sort in memory"),
        ),
        setting(
            "autovacuum_work_mem",
            size(autovacuum),
            "a third of maintenance_work_mem, because three workers may run at once",
        ),
        setting(
            "max_connections",
            SESSIONS_MAX,
            "lanes and a pool of clients; every further one costs memory and snapshot time",
        ),
        setting(
            "wal_buffers",
            size(wal_buffers(shared)),
            "1/32 of shared_buffers up to 64 MB: several lanes fill it between two flushes",
        ),
    ]
}

/// `shared_buffers` for a server that can use so much memory, in bytes.
pub fn shared_buffers(usable: u64) -> u64 {
    // 128 MB is PostgreSQL's own default. Use less only if that would be more than half of the memory.
    (usable / 4).clamp(128 * MB, 16 * GB).min((usable / 2).max(16 * MB))
}

/// `wal_buffers` for a server with such `shared_buffers`, in bytes.
pub fn wal_buffers(shared: u64) -> u64 {
    (shared / 32).clamp(4 * MB, 64 * MB)
}

/// How much of a disk with so much free space more WAL may take, in bytes: a tenth.
pub fn wal_room(disk_free_bytes: u64) -> u64 {
    disk_free_bytes / 10
}

fn wal(facts: &MachineFacts, build: BuildFacts) -> Vec<Setting> {
    let max = wal_room(facts.disk_free_bytes).clamp(64 * MB, 16 * GB);
    let min = (max / 4).clamp(32 * MB, 4 * GB);
    let mut list = vec![
        setting(
            "max_wal_size",
            size(max),
            format!(
                "a tenth of the {} that were free on the disk, at most 16 GB: a load should not \
                 force checkpoints, after which every page is logged whole again",
                size(facts.disk_free_bytes)
            ),
        ),
        setting(
            "min_wal_size",
            size(min),
            "a quarter of max_wal_size stays for reuse: creating files is slower than recycling",
        ),
        setting(
            "checkpoint_timeout",
            "15min",
            "fewer whole pages in the log than with 5 min; recovery after a crash stays within minutes",
        ),
        CHECKPOINT_SPREAD.into(),
    ];
    if build.lz4 {
        list.push(setting("wal_compression", "lz4", "whole pages in the log shrink for little processor time"));
        list.push(setting(
            "default_toast_compression",
            "lz4",
            "large documents compress and expand faster than with pglz",
        ));
    } else {
        list.push(setting(
            "wal_compression",
            "off",
            "this build has no lz4, and pglz takes much processor time on the way to a commit",
        ));
    }
    list
}

fn disk(facts: &MachineFacts, build: BuildFacts) -> Vec<Setting> {
    let (random, concurrency, why) = if facts.rotational {
        ("4", 2, "the disk has heads")
    } else if build.major >= 18 {
        ("1.1", 64, "the disk has no heads")
    } else {
        ("1.1", 200, "the disk has no heads")
    };
    let mut list = vec![
        setting("random_page_cost", random, format!("{why}: the price of a random read against a sequential one")),
        setting("effective_io_concurrency", concurrency, format!("{why}: how many reads it serves at once")),
    ];
    if build.major >= 18 {
        list.push(setting(
            "io_method",
            "worker",
            "works everywhere; io_uring is often missing from builds and forbidden in containers",
        ));
        list.push(setting(
            "io_workers",
            (facts.cores / 2).clamp(2, 8),
            "half of the processors: reading ahead must not take them from the lanes",
        ));
    }
    list
}

fn processors(facts: &MachineFacts) -> Vec<Setting> {
    let cores = facts.cores.max(1);
    let on = format!("{cores} processor(s) here");
    vec![
        setting("max_worker_processes", (cores + 4).max(8), format!("{on}, and some for replication and extensions")),
        setting("max_parallel_workers", cores, format!("{on}: more would only wait for each other")),
        setting(
            "max_parallel_workers_per_gather",
            (cores / 2).clamp(1, 4),
            "half of the processors for one query, so that two can run beside a load",
        ),
        setting(
            "max_parallel_maintenance_workers",
            (cores / 2).clamp(1, 4),
            "half of the processors for one index build",
        ),
        setting("jit", "off", "compiling costs more than these short statements take; switch it on for long analyses"),
    ]
}

fn vacuum() -> Vec<Setting> {
    vec![
        setting("autovacuum_naptime", "15s", "a load makes dead rows faster than a look per minute would see"),
        VACUUM_PACE.into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAPTOP: MachineFacts = MachineFacts {
        kernel: String::new(),
        processor: None,
        cores: 8,
        memory_bytes: 16 * GB,
        cgroup_bytes: None,
        load_average: None,
        file_system: None,
        disk_free_bytes: 200 * GB,
        rotational: false,
    };
    const BUILD: BuildFacts = BuildFacts { major: 18, lz4: true };

    fn value(facts: &MachineFacts, build: BuildFacts, name: &str) -> Option<String> {
        let mut found = settings(facts, build).into_iter();
        found.find(|one| one.name == name).map(|one| one.value)
    }

    fn megabytes(facts: &MachineFacts, name: &str) -> u64 {
        let text = value(facts, BUILD, name).unwrap();
        text.strip_suffix("MB").unwrap().parse().unwrap()
    }

    #[test]
    fn every_setting_is_set_once_and_has_a_reason_on_one_line() {
        let list = settings(&LAPTOP, BUILD);
        let mut names: Vec<&str> = list.iter().map(|one| one.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), list.len());
        for one in &list {
            assert!(!one.reason.is_empty() && !one.reason.contains('\n'), "{one:?}");
        }
    }

    #[test]
    fn a_laptop_gives_a_quarter_of_its_memory() {
        assert_eq!(megabytes(&LAPTOP, "shared_buffers"), 4096);
        assert_eq!(megabytes(&LAPTOP, "max_wal_size"), 16_384);
        assert_eq!(megabytes(&LAPTOP, "wal_buffers"), 64);
        assert_eq!(megabytes(&LAPTOP, "work_mem"), 64);
        assert_eq!(value(&LAPTOP, BUILD, "random_page_cost").unwrap(), "1.1");
    }

    #[test]
    fn a_cgroup_limit_replaces_the_machines_memory() {
        let boxed = MachineFacts { cgroup_bytes: Some(GB), ..LAPTOP };
        assert_eq!(megabytes(&boxed, "shared_buffers"), 256);
        assert_eq!(megabytes(&boxed, "work_mem"), 4);
        let reason = &settings(&boxed, BUILD)[0].reason;
        assert!(reason.contains("cgroup"), "{reason}");
        // Version 1 writes "no limit" as a huge number.
        let unlimited = MachineFacts { cgroup_bytes: Some(u64::MAX / 2), ..LAPTOP };
        assert_eq!(megabytes(&unlimited, "shared_buffers"), 4096);
    }

    #[test]
    fn a_tiny_machine_keeps_half_of_its_memory_for_others() {
        let tiny = MachineFacts { memory_bytes: 128 * MB, cores: 1, ..LAPTOP };
        assert_eq!(megabytes(&tiny, "shared_buffers"), 64);
        assert_eq!(value(&tiny, BUILD, "max_parallel_workers").unwrap(), "1");
        let nothing = MachineFacts { memory_bytes: 0, cores: 0, disk_free_bytes: 0, ..LAPTOP };
        assert_eq!(megabytes(&nothing, "shared_buffers"), 16);
        assert_eq!(megabytes(&nothing, "max_wal_size"), 64);
    }

    #[test]
    fn settings_of_a_large_machine_are_capped() {
        let large = MachineFacts { memory_bytes: 1024 * GB, cores: 128, disk_free_bytes: 20_000 * GB, ..LAPTOP };
        assert_eq!(megabytes(&large, "shared_buffers"), 16_384);
        assert_eq!(megabytes(&large, "max_wal_size"), 16_384);
        assert_eq!(megabytes(&large, "maintenance_work_mem"), 2048);
        assert_eq!(value(&large, BUILD, "io_workers").unwrap(), "8");
    }

    #[test]
    fn wal_does_not_fill_a_tiny_disk() {
        for free in [0, 100 * MB, GB, 5 * GB] {
            let facts = MachineFacts { disk_free_bytes: free, ..LAPTOP };
            let (min, max) = (megabytes(&facts, "min_wal_size"), megabytes(&facts, "max_wal_size"));
            assert!(max <= (free / MB / 10).max(64), "{free}: {max}");
            // PostgreSQL wants at least two segments of 16 MB for each.
            assert!(min >= 32 && min <= max, "{free}: {min} {max}");
        }
    }

    #[test]
    fn a_rotating_disk_gets_its_own_settings() {
        let facts = MachineFacts { rotational: true, ..LAPTOP };
        assert_eq!(value(&facts, BUILD, "random_page_cost").unwrap(), "4");
        assert_eq!(value(&facts, BUILD, "effective_io_concurrency").unwrap(), "2");
    }

    #[test]
    fn only_what_the_build_knows_is_set() {
        let old = BuildFacts { major: 15, lz4: false };
        assert_eq!(value(&LAPTOP, old, "io_method"), None);
        assert_eq!(value(&LAPTOP, old, "wal_compression").unwrap(), "off");
        assert_eq!(value(&LAPTOP, old, "default_toast_compression"), None);
        assert_eq!(value(&LAPTOP, BUILD, "wal_compression").unwrap(), "lz4");
        assert_eq!(value(&LAPTOP, BUILD, "io_method").unwrap(), "worker");
    }
}
