//! `doctor watch`: looks at a server for a while, and says what limits it.

use super::looks;
use crate::args::{TargetArgs, duration};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, note};
use crate::quantity::rate;
use crate::signal::Signals;
use crate::table::{Align, Table};
use crate::target::resolve_running;
use millstream_doctor::{Activity, Work, work_between};
use millstream_host::scratch_folder;
use millstream_lab::core::{Limited, Limiter, Observed};
use millstream_lab::recorder::{Recorder, Recording, Watched};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Most waits and tables that are shown.
const SHOWN_MAX: usize = 5;

/// Sources of values that are about this machine, by the beginning of their names.
const MACHINE: &[&str] = &["disk.", "memory.", "network.", "pressure.", "processor.", "throttling."];

/// Values that are shown, if they were recorded: what they are, their name, and the unit.
const SHOWN: &[(&str, &str, &str)] = &[
    ("active sessions", "sessions.active", ""),
    ("sessions idle in a transaction", "sessions.in_transaction", ""),
    ("commits", "database.commits_per_second", "a second"),
    ("WAL", "wal.mb_per_second", "MB a second"),
    ("time in checkpoints", "checkpoint.running_percent", "%"),
    ("processors busy", "processor.busy_percent", "%"),
    ("waiting for a processor (PSI)", "pressure.cpu_some_percent", "%"),
    ("waiting for a disk (PSI)", "pressure.io_some_percent", "%"),
    ("waiting for memory (PSI)", "pressure.memory_some_percent", "%"),
    ("disk of the data busy", "disk.data.utilisation_percent", "%"),
    ("a flush of that disk", "disk.data.flush_ms", "ms"),
];

/// Look at a server for a while, and say what limits it
///
/// Samples what sessions wait for, several times each second, and reads the counters of the server and, if it runs here, of the
/// machine. It names a limiter only if two independent signs agree: what sessions do or wait for, and what the machine reports.
/// Otherwise it says unknown, with what it saw. Ctrl-C ends it early and prints the answer.
///
/// It reads only. A role with the rights of pg_monitor sees what the sessions of others wait for.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  millstream doctor watch\n  millstream doctor watch --for 5m --output json\n  millstream doctor watch --for 1h --record looks.jsonl"
)]
pub struct WatchArgs {
    /// How long to look
    #[arg(long = "for", value_name = "TIME", default_value = "30s", value_parser = duration)]
    time: Duration,

    /// Keep looks at the server's counters in this file, for `doctor --since`: the first, one every --every, and the last
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,

    /// Time between two looks that are kept
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = duration, requires = "record")]
    every: Duration,

    #[command(flatten)]
    target: TargetArgs,
}

/// What was seen.
#[derive(Debug, Serialize)]
struct Seen {
    /// What limits the server.
    limiter: Limiter,
    /// A sentence for each sign.
    evidence: Vec<String>,
    /// Time of the look.
    seconds: f64,
    /// Means by name, the unit last in the name.
    values: BTreeMap<String, f64>,
    /// Work of the busiest tables of the database, in rows.
    tables: Vec<(String, Work)>,
    /// What was not seen, and why.
    notes: Vec<String>,
}

/// Runs `doctor watch`.
pub async fn watch(args: &WatchArgs, output: Output, signals: &Signals) -> Result<Exit, Failure> {
    let db = resolve_running(&args.target).await?;
    let activity = Activity::open(&db).await?;
    let data = if activity.is_here() { activity.data_directory().await? } else { None };
    let program = std::env::current_exe().map_err(|error| Failure::user("cannot find this program").because(&error))?;
    let dir = scratch_folder(&std::env::temp_dir(), "millstream-watch-", 0o700)
        .map_err(|error| Failure::user("cannot make a temporary directory").because(&error))?;
    let wal = data.as_ref().and_then(|data| std::fs::read_link(data.join("pg_wal")).ok());
    let watched = Watched { data: data.as_deref(), wal: wal.as_deref(), db: Some(&db) };
    let failed = |error: millstream_lab::Error| Failure::user("the server cannot be watched").because(&error);
    let recorder = Recorder::start(&program, &dir.path().join("recording"), watched).await.map_err(failed)?;
    let (begun, before) = (Instant::now(), activity.tables().await?);
    note(&format!("looking for {:?}; Ctrl-C ends it early", args.time));
    let end = tokio::time::Instant::now() + args.time;
    loop {
        if let Some(path) = &args.record {
            looks::record(path, &activity.snapshot().await?)?;
        }
        let next = if args.record.is_some() { end.min(tokio::time::Instant::now() + args.every) } else { end };
        tokio::select! {
            () = tokio::time::sleep_until(next) => {}
            _ = signals.stop_asked() => break,
        }
        if tokio::time::Instant::now() >= end {
            break;
        }
    }
    if let Some(path) = &args.record {
        let recorded = activity.snapshot().await.map_err(Failure::from).and_then(|look| looks::record(path, &look));
        match recorded {
            Ok(()) => note(&format!("record: {}", path.display())),
            // The answer is worth more than the last look.
            Err(failure) => note(&format!("warning: the last look was not recorded: {failure}")),
        }
    }
    let (seconds, after) = (begun.elapsed().as_secs_f64(), activity.tables().await?);
    let recording = recorder.finish().await.map_err(failed)?;
    let mut tables = work_between(&before, &after);
    tables.truncate(SHOWN_MAX);
    let seen = Seen::of(recording, activity.is_here(), tables, seconds);
    if output.is_json() {
        output.json(&seen)?;
    } else {
        seen.print(output)?;
    }
    Ok(Exit::Done)
}

impl Seen {
    fn of(recording: Recording, is_here: bool, tables: Vec<(String, Work)>, seconds: f64) -> Self {
        let Recording { summary: mut values, mut notes, .. } = recording;
        if !is_here {
            values.retain(|name, _| MACHINE.iter().all(|source| !name.starts_with(source)));
            notes.push("the server's machine: watch from there to see it".to_owned());
        }
        let observed = Observed { values: &values, client_percent: None, command_percent: None };
        let Limited { by, evidence } = match values.contains_key("sessions.active") && !observed.works() {
            // Others may keep the machine busy, but then they limit nobody here.
            true => Limited { by: Limiter::Unknown, evidence: vec!["hardly any session was active".to_owned()] },
            false => Limited::of(&observed),
        };
        Self { limiter: by, evidence, seconds, values, tables, notes }
    }

    fn print(&self, output: Output) -> Result<(), Failure> {
        output.line(&format!("What limits the server: {}", self.limiter.name()))?;
        for sentence in &self.evidence {
            output.line(&format!("  {sentence}"))?;
        }
        let mut values = Table::new(&[("mean of", Align::Left), ("value", Align::Right), ("", Align::Left)]);
        for (what, name, unit) in SHOWN {
            if let Some(value) = self.values.get(*name) {
                values.row([(*what).to_owned(), format!("{value:.1}"), (*unit).to_owned()]);
            }
        }
        output.line("")?;
        output.table(&values)?;
        let waits = self.waits();
        if !waits.is_empty() {
            let mut table = Table::new(&[("sessions wait for", Align::Left), ("sessions", Align::Right)]);
            for (event, sessions) in waits {
                table.row([event.to_owned(), format!("{sessions:.2}")]);
            }
            output.line("")?;
            output.table(&table)?;
        }
        if !self.tables.is_empty() {
            let headings = ["rows a second in", "written", "updated", "read"];
            let mut table =
                Table::new(&headings.map(|name| (name, if name == headings[0] { Align::Left } else { Align::Right })));
            for (name, work) in &self.tables {
                let per_second = |count: u64| rate(count as f64 / self.seconds.max(0.001));
                table.row([name.clone(), per_second(work.written), per_second(work.updated), per_second(work.read)]);
            }
            output.line("")?;
            output.table(&table)?;
        }
        self.notes.iter().try_for_each(|note| output.line(&format!("not seen: {note}")))
    }

    /// Wait events with the most sessions, and their mean number of sessions. `CPU`: running, or waiting for a processor.
    fn waits(&self) -> Vec<(&str, f64)> {
        let waits = self.values.iter().filter_map(|(name, sessions)| Some((name.strip_prefix("wait.")?, *sessions)));
        let mut waits: Vec<(&str, f64)> = waits.filter(|(_, sessions)| *sessions >= 0.01).collect();
        waits.sort_by(|one, other| other.1.total_cmp(&one.1));
        waits.truncate(SHOWN_MAX);
        waits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(is_here: bool, values: &[(&str, f64)]) -> Seen {
        let summary = values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        Seen::of(Recording { summary, ..Recording::default() }, is_here, Vec::new(), 1.0)
    }

    #[test]
    fn this_machine_says_nothing_of_a_server_elsewhere() {
        let busy = [("processor.busy_percent", 99.0), ("sessions.active", 8.0), ("wait.CPU", 8.0)];
        assert_eq!(seen(true, &busy).limiter, Limiter::Processor);
        let elsewhere = seen(false, &busy);
        assert_eq!(elsewhere.limiter, Limiter::Unknown);
        assert!(elsewhere.notes[0].contains("watch from there"));
    }

    #[test]
    fn a_machine_that_others_keep_busy_does_not_limit_a_server_that_is_idle_or_waits() {
        let busy = [("processor.busy_percent", 99.0), ("pressure.cpu_some_percent", 80.0)];
        let of = |sessions: &[(&str, f64)]| seen(true, &[&busy[..], sessions].concat());
        assert_eq!(of(&[("sessions.active", 1.0), ("wait.CPU", 1.0)]).limiter, Limiter::Processor);
        let idle = of(&[("sessions.active", 0.0), ("sessions.idle", 5.0)]);
        assert_eq!((idle.limiter, idle.evidence), (Limiter::Unknown, vec!["hardly any session was active".to_owned()]));
        let row = of(&[("sessions.active", 8.0), ("wait.Lock:transactionid", 8.0)]);
        let evidence = ["100 % of the active sessions were waiting for a row lock", "the processors were 99 % busy"];
        assert_eq!((row.limiter, row.evidence), (Limiter::Unknown, evidence.map(str::to_owned).to_vec()));
        assert_eq!(of(&[]).limiter, Limiter::Unknown, "the sessions were not seen");
    }

    #[test]
    fn a_slow_disk_is_named_if_sessions_wait_for_it() {
        let slow = [("processor.busy_percent", 20.0), ("disk.data.flush_ms", 8.0), ("sessions.active", 8.0)];
        let of = |waits: &[(&str, f64)]| seen(true, &[&slow[..], waits].concat());
        let waiting = of(&[("wait.IO:WALSync", 2.0), ("wait.LWLock:WALWrite", 5.0)]);
        assert_eq!(waiting.limiter, Limiter::Disk);
        let evidence = "88 % of the active sessions waited for the disk or for a flush of the WAL";
        assert_eq!(waiting.evidence, [evidence, "a flush of the disk took 8.0 ms"]);
        // They wait for each other, however slow the disk is.
        let others = of(&[("wait.Lock:relation", 7.0), ("wait.IO:WALSync", 1.0)]);
        assert_eq!(others.limiter, Limiter::Unknown, "{others:?}");
    }

    #[test]
    fn the_longest_waits_come_first() {
        let seen = seen(true, &[("wait.IO:WALSync", 1.0), ("wait.Lock:tuple", 5.0), ("wait.LWLock:x", 0.001)]);
        assert_eq!(seen.waits(), [("Lock:tuple", 5.0), ("IO:WALSync", 1.0)]);
    }
}
