//! Profiles: settings of a server, its kernel and its disks that are changed together, each judged by what is true today.

use crate::change::together;
use crate::checks::dirty_limits::{Limit, RECOMMENDED_BYTES};
use crate::checks::disk_scheduler::better;
use crate::host::Host;
use crate::server::Server;
use millstream_host::kernel::file::choice;
use millstream_host::sysctl_file;
use millstream_model::shell_word;
use millstream_model::{Change, Class};
use millstream_pg::sizing::{BuildFacts, settings};
use millstream_pg::{ConnInfo, Error};
use serde::Serialize;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What a profile would do to a server and its machine.
#[derive(Debug, Clone, Serialize)]
pub struct Profile {
    /// Its name.
    pub name: &'static str,
    /// Each line of its list.
    pub lines: Vec<ProfileLine>,
    /// All that it changes, as one change. `None`: nothing.
    #[serde(skip)]
    pub change: Option<Change>,
}

/// A line of a profile.
#[derive(Debug, Clone, Serialize)]
pub struct ProfileLine {
    /// The setting, as its place spells it.
    pub setting: String,
    /// What becomes of it.
    pub step: ProfileStep,
    /// Its value now, if that matters.
    pub now: Option<String>,
    /// The value that it gets or should have.
    pub value: Option<String>,
    /// How sure it is.
    pub class: Class,
    /// Why this value, or why it is left out.
    pub why: String,
    /// What you run yourself.
    pub commands: Vec<String>,
    #[serde(skip)]
    change: Option<Change>,
}

/// What becomes of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ProfileStep {
    /// The profile changes it.
    Change,
    /// It has such a value already.
    Fits,
    /// You change it yourself.
    ByHand,
    /// It is not true any more, or not here.
    LeftOut,
}

/// A setting of the server, and the value that it should have.
struct Wanted {
    name: &'static str,
    value: String,
    class: Class,
    why: String,
    /// A larger value fits, too; otherwise a smaller one does.
    is_least: bool,
}

/// The setting whose value follows from the room on the disk of the WAL.
const OF_WAL_DISK: &str = "max_wal_size";

/// Settings of the table by which servers are set up, with how sure their values are.
const SIZED: &[(&str, Class, bool)] = &[
    ("shared_buffers", Class::Arithmetic, true),
    ("effective_cache_size", Class::Arithmetic, true),
    ("work_mem", Class::Arithmetic, true),
    ("max_wal_size", Class::Arithmetic, true),
    ("checkpoint_timeout", Class::Hypothesis, true),
    ("checkpoint_completion_target", Class::Fact, true),
    ("effective_io_concurrency", Class::Hypothesis, true),
    ("autovacuum_naptime", Class::Hypothesis, false),
    ("autovacuum_vacuum_cost_limit", Class::Hypothesis, true),
];

/// Settings with one value, whatever the machine: the name, the value, how sure it is, and why.
const FIXED: &[(&str, &str, Class, &str)] = &[
    (
        "bgwriter_delay",
        "10ms",
        Class::Hypothesis,
        "the writer looks for pages to write a hundred times a second, so that sessions write fewer themselves",
    ),
    (
        "autovacuum_vacuum_scale_factor",
        "0.05",
        Class::Hypothesis,
        "vacuum comes when a twentieth of a table is dead, and not a fifth: more often, with less to do each time",
    ),
    (
        "autovacuum_analyze_scale_factor",
        "0.05",
        Class::Hypothesis,
        "the planner's statistics follow a table that grows",
    ),
    ("log_min_duration_statement", "1s", Class::Fact, "the log has the statements that take longer than a second"),
];

/// Lines of the list that are not true any more, or cost more than they give.
const LEFT_OUT: &[(&str, &str)] = &[
    ("scheduler noop", "it is called none today, and matters where a scheduler orders requests; see above"),
    ("read_ahead_kb 16384", "random reads throw most of it away; scans read ahead by effective_io_concurrency"),
    ("mount option noatime", "relatime, the kernel's default, writes the time of a read once a day at most"),
    ("mount option nobarrier", "a power failure then damages the file system; XFS does not know it any more"),
    ("sched_autogroup_enabled 0", "it has no effect in a control group, in which services run"),
    ("sched_migration_cost_ns", "it is no sysctl since Linux 5.13"),
    ("vm.dirty_bytes 64 MiB", "it stops whoever writes; since 9.6 the server has its own pages written early"),
    ("checkpoint_segments", "it is max_wal_size since 9.5"),
    (
        "checkpoint_timeout 1h",
        "recovery after a crash could take as long; a quarter of an hour gives most of the effect",
    ),
    ("synchronous_commit off", "a crash loses the last transactions that were acknowledged"),
    ("autovacuum_max_workers 5", "workers share one pace; autovacuum_vacuum_cost_limit raises it"),
    ("autovacuum_vacuum_cost_delay 5ms", "the default is shorter since 12"),
    ("default_statistics_target 1000", "planning takes longer; raise it for the columns that need it"),
];

/// How statements come to be counted.
const PRELOADED: [&str; 2] = [
    "-- add pg_stat_statements to shared_preload_libraries, restart the server, and in each database:",
    "create extension pg_stat_statements",
];

const MB: f64 = 1_048_576.0;

/// The list of a benchmark of kernels, made for a server that shares its machine with nobody: what it would change here.
/// `root`: where `/proc` and `/sys` of the server's machine are, if not at `/`: for tests.
///
/// # Errors
/// The server cannot be reached, or refuses a question.
pub async fn database_profile(db: &ConnInfo, root: Option<&Path>) -> Result<Profile, Error> {
    // What waits in it is large.
    Box::pin(judged(db, root)).await
}

async fn judged(db: &ConnInfo, root: Option<&Path>) -> Result<Profile, Error> {
    let server = Server::open(db, None).await?;
    let host = Host::of(&server, root).await;
    let mut lines = match &host {
        Ok(host) => of_kernel(host),
        Err(why) => vec![ProfileLine::left_out("the kernel and the disks", why)],
    };
    if host.as_ref().is_ok_and(|host| host.wal_disk().is_none()) {
        lines.push(ProfileLine::left_out(
            OF_WAL_DISK,
            "this role or this account may not see how much room the WAL has",
        ));
    }
    match host.and_then(|host| wanted(&server, &host)) {
        Ok(all) => {
            for one in all {
                lines.push(of_server(&server, one).await?);
            }
        }
        Err(why) => lines.extend(SIZED.iter().map(|(name, ..)| ProfileLine::left_out(name, &why))),
    }
    for (name, value, class, why) in FIXED.iter().copied() {
        let (value, why) = (value.to_owned(), why.to_owned());
        lines.push(of_server(&server, Wanted { name, value, class, why, is_least: false }).await?);
    }
    lines.extend(recording(&server).await?);
    lines.extend(LEFT_OUT.iter().map(|(name, why)| ProfileLine::left_out(name, why)));
    let changes: Vec<Change> = lines.iter().filter_map(|line| line.change.clone()).collect();
    Ok(Profile { name: "database", lines, change: together(&changes) })
}

impl ProfileLine {
    fn new(setting: &str, class: Class, why: &str) -> Self {
        Self {
            setting: setting.to_owned(),
            step: ProfileStep::Fits,
            now: None,
            value: None,
            class,
            why: why.to_owned(),
            commands: Vec::new(),
            change: None,
        }
    }

    fn left_out(setting: &str, why: &str) -> Self {
        Self { step: ProfileStep::LeftOut, ..Self::new(setting, Class::Fact, why) }
    }

    /// The same with another value, which the profile gives it, or you if the profile cannot.
    fn becomes(self, value: &str, commands: Vec<String>, change: Option<Change>) -> Self {
        let step = if change.is_some() { ProfileStep::Change } else { ProfileStep::ByHand };
        let commands = if change.is_some() { Vec::new() } else { commands };
        Self { step, value: Some(value.to_owned()), commands, change, ..self }
    }
}

/// The lines about the kernel and the disks.
fn of_kernel(host: &Host) -> Vec<ProfileLine> {
    let mut lines = Vec::new();
    let mut sysctl = |name: &str, value: &str, class, why: &str, limit: Result<Option<f64>, String>| {
        let line = ProfileLine::new(name, class, why);
        lines.push(match limit {
            Err(why) => ProfileLine::left_out(name, &why),
            Ok(None) => line,
            Ok(Some(now)) => {
                let may = sysctl_file(name).is_some_and(|file| may_write(&host.path(&file.display().to_string())));
                let change = may.then(|| Change::new("sysctl", name, value));
                let line = ProfileLine { now: Some(format!("{now:.0}")), ..line };
                line.becomes(value, vec![format!("$ sysctl -w {name}={value}")], change)
            }
        });
    };
    let most = RECOMMENDED_BYTES.parse::<f64>().unwrap_or(f64::INFINITY);
    let limit = Limit::read(host).map(|limit| Some(limit.bytes).filter(|bytes| *bytes > most));
    let why = "the kernel begins to write before much has collected that a flush must wait for";
    sysctl("vm.dirty_background_bytes", RECOMMENDED_BYTES, Class::Hypothesis, why, limit);
    let mode = host.number("/proc/sys/vm/zone_reclaim_mode").filter(|mode| *mode != 0.0);
    let why = "a process may use the memory of all nodes before cached pages are freed";
    sysctl("vm.zone_reclaim_mode", "0", Class::Fact, why, Ok(mode));
    for (role, disk) in host.disks() {
        let file = format!("/sys/block/{disk}/queue/scheduler");
        let why = format!("the disk of the {role} needs no order of its requests unless it rotates");
        let line = ProfileLine::new(&file, Class::Hypothesis, &why);
        lines.push(match better(host, &disk) {
            Some((all, other)) => {
                let change = may_write(&host.path(&file)).then(|| Change::new("sysfs", &file, other));
                let line = ProfileLine { now: Some(choice(&all).to_owned()), ..line };
                line.becomes(other, vec![format!("$ echo {other} > {}", shell_word(&file))], change)
            }
            None => ProfileLine { now: host.word(&file).map(|all| choice(&all).to_owned()), ..line },
        });
    }
    lines
}

/// Whether this account may write a file of the kernel: it is root's, or ours in a test.
fn may_write(file: &Path) -> bool {
    let owner = |path: &Path| fs::metadata(path).ok().map(|facts| facts.uid());
    let us = owner(Path::new("/proc/self"));
    us.is_some() && (us == Some(0) || us == owner(file))
}

/// The settings that depend on the machine.
fn wanted(server: &Server, host: &Host) -> Result<Vec<Wanted>, String> {
    let major = u32::try_from(server.version_num() / 10_000).unwrap_or(0);
    let table = settings(&host.facts()?, BuildFacts { major, lz4: false });
    let of = |(name, class, is_least): (&'static str, Class, bool)| {
        if name == OF_WAL_DISK && host.wal_disk().is_none() {
            return None;
        }
        let one = table.iter().find(|one| one.name == name)?;
        let (value, why) = (one.value.clone(), one.reason.clone());
        Some(Wanted { name, value, class, why, is_least })
    };
    Ok(SIZED.iter().copied().filter_map(of).collect())
}

/// The line about a setting of the server.
async fn of_server(server: &Server, wanted: Wanted) -> Result<ProfileLine, Error> {
    let Wanted { name, value, class, why, is_least } = wanted;
    let row = server.session.client.query_one(include_str!("checks/setting.sql"), &[&name]).await?;
    let line = ProfileLine { now: Some(row.get("shown")), ..ProfileLine::new(name, class, &why) };
    if row.get("is_own") {
        let why = "a role or a database has a value of its own, so the server's is not known";
        return Ok(ProfileLine { step: ProfileStep::LeftOut, why: why.to_owned(), ..line });
    }
    if fits(name, row.get("number"), &value, is_least) {
        return Ok(line);
    }
    let repair = server.setting(name, &value, "", "");
    let needs_restart: bool = row.get("needs_restart");
    let mut commands = repair.commands;
    if needs_restart {
        commands = commands.into_iter().take(1).chain(["-- and restart the server".to_owned()]).collect();
    }
    let may_change: bool = row.get("may_change");
    Ok(line.becomes(&value, commands, repair.change.filter(|_| may_change && !needs_restart)))
}

/// What is this part of a value is no reason to change it: the free space of a disk differs from day to day.
const NEARLY: f64 = 0.8;

/// Whether a setting has such a value, or one that goes further.
fn fits(name: &str, now: f64, wanted: &str, is_least: bool) -> bool {
    let now = match name {
        // -1 stands for vacuum_cost_limit, whose default this is.
        "autovacuum_vacuum_cost_limit" if now < 0.0 => 200.0,
        "log_min_duration_statement" if now < 0.0 => f64::INFINITY,
        _ => now,
    };
    match amount(name, wanted) {
        Some(wanted) if is_least => now >= NEARLY * wanted,
        Some(wanted) => now <= wanted,
        None => false,
    }
}

/// A value in the unit in which the server counts: bytes, seconds, or milliseconds.
fn amount(name: &str, value: &str) -> Option<f64> {
    let end = value.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(value.len());
    let (number, unit) = value.split_at(end);
    let scale = match unit {
        "MB" => MB,
        "min" => 60.0,
        "s" if name.starts_with("log_") => 1_000.0,
        "s" | "ms" | "" => 1.0,
        _ => return None,
    };
    Some(number.parse::<f64>().ok()? * scale)
}

/// What the server records for whoever looks at it.
async fn recording(server: &Server) -> Result<Vec<ProfileLine>, Error> {
    let sql = include_str!("profile.sql");
    let row = server.session.client.query_one(sql, &[]).await?;
    let (timing, counts, may_change): (String, Option<bool>, bool) = (row.get(0), row.get(1), row.get(2));
    let why = "the server measures how much time reads and writes take";
    let line = ProfileLine { now: Some(timing.clone()), ..ProfileLine::new("track_io_timing", Class::Fact, why) };
    let timing = match timing.as_str() {
        "on" => line,
        _ => {
            let repair = server.setting("track_io_timing", "on", "", "");
            line.becomes("on", repair.commands, repair.change.filter(|_| may_change))
        }
    };
    let why = "the server counts which statements take the time";
    let line = ProfileLine::new("pg_stat_statements", Class::Fact, why);
    let counting = match counts {
        Some(true) => line,
        Some(false) => line.becomes("loaded", PRELOADED.map(str::to_owned).to_vec(), None),
        None => ProfileLine::left_out("pg_stat_statements", "this role may not see which libraries are loaded"),
    };
    Ok(vec![timing, counting])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_goes_further_fits() {
        for (name, now, wanted, is_least, expected) in [
            ("max_wal_size", 1_024.0 * MB, "2048MB", true, false),
            ("max_wal_size", 4_096.0 * MB, "2048MB", true, true),
            ("checkpoint_timeout", 300.0, "15min", true, false),
            ("checkpoint_timeout", 3_600.0, "15min", true, true),
            ("autovacuum_naptime", 60.0, "15s", false, false),
            ("autovacuum_naptime", 5.0, "15s", false, true),
            ("autovacuum_vacuum_cost_limit", -1.0, "2000", true, false),
            ("bgwriter_delay", 200.0, "10ms", false, false),
            ("autovacuum_vacuum_scale_factor", 0.05, "0.05", false, true),
            ("log_min_duration_statement", -1.0, "1s", false, false),
            ("log_min_duration_statement", 250.0, "1s", false, true),
            ("checkpoint_completion_target", 0.9, "0.9", true, true),
        ] {
            assert_eq!(fits(name, now, wanted, is_least), expected, "{name} {now}");
        }
    }

    #[test]
    fn every_line_is_there_once() {
        let names = SIZED.iter().map(|(name, ..)| *name).chain(FIXED.iter().map(|(name, ..)| *name));
        let mut names: Vec<&str> = names.chain(LEFT_OUT.iter().map(|(name, _)| *name)).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        for (name, value, ..) in FIXED {
            assert!(amount(name, value).is_some(), "{name}");
        }
    }
}
