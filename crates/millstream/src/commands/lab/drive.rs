//! `lab drive`: sends scripts of pgbench to a server at the rates of a file, and prints latencies and misses.

use crate::args::TargetArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, note};
use crate::signal::Signals;
use crate::table::{Align, Table};
use crate::target::{self, Purpose};
use millstream_host::{TargetFile, read_at_most};
use millstream_lab::drive::{Drive, LatencyGoal, RunResult, ScriptResult, Search, SearchStep, Workload};
use millstream_lab::limits::WORKLOAD_BYTES_MAX;
use millstream_lab::{Error, Latency};
use serde::Serialize;
use std::path::{Path, PathBuf};

const EXAMPLES: &str = "\
Examples:
  millstream lab drive mix.toml --db postgres://localhost/bench
  millstream lab drive mix.toml --search \"read.p99 < 10ms\"
  millstream lab drive mix.toml --output json --out result.json

A file for pgbench's tables:
  connections = 8
  seconds = 30
  rate = 500
  [[script]]
  name = \"read\"
  objective_ms = 10
  sql = '''
  \\set aid random(1, 100000)
  select abalance from pgbench_accounts where aid = :aid;
  '''

The command uses the local server unless you give --db. It ignores MILLSTREAM_DB
and DATABASE_URL. docs/guides/lab.md explains the file and the results.";

/// Send transactions at given rates and report latencies and misses
///
/// The file says how many transactions per second begin, whatever the server does, and of which scripts they are.
/// pgbench sends them. Latency counts from the scheduled start of a transaction, so that waiting for a slow server is
/// part of it. The exit code is 1 if an objective is missed, or if the server or pgbench is too slow for the rate.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct DriveArgs {
    /// Workload: a TOML file with connections, seconds, rate and scripts
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Search the highest rate that keeps a goal, such as "read.p99 < 10ms"; each step is a short run
    #[arg(long, value_name = "GOAL")]
    search: Option<LatencyGoal>,

    /// Seed for the times and values of the transactions
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u32,

    /// Also write the result to a new file, as JSON
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Database to send transactions to [default: the local server, whatever MILLSTREAM_DB and DATABASE_URL say]
    #[arg(long, value_name = "URL")]
    db: Option<String>,
}

/// Runs the command.
pub async fn run(args: &DriveArgs, output: Output, signals: Signals) -> Result<Exit, Failure> {
    let workload = workload(&args.file)?;
    let out = args.out.as_deref().map(|path| Ok::<_, Failure>((path, created(path)?))).transpose()?;
    let target = TargetArgs { db: args.db.clone(), ..TargetArgs::default() };
    let db = target::resolve(&target, Purpose::Show).await?;
    let goal = args.search.as_ref().or(workload.search.as_ref());
    let drive = Drive::new(&workload, args.seed, &db);
    let mut measured = Measured::new(&workload, args.seed, goal);
    let ended = tokio::select! {
        ended = Box::pin(measured.measure(&drive, &workload, goal)) => ended.map(|()| None),
        exit = signals.stop_asked() => Ok(Some(exit)),
    };
    let stopped = ended?;
    if stopped.is_some() {
        note("stopping: the run that was not finished is left out");
        if let Err(error) = drive.end_sessions().await {
            note(&format!("statements of the run may go on at the server: {error}"));
        }
        measured.stopped = true;
    }
    if let Some((path, file)) = out {
        write(&measured, file).map_err(Failure::cannot("write", path))?;
    }
    let exit = show(&measured, output)?;
    Ok(stopped.unwrap_or(exit))
}

/// What was measured: the runs of the file, or the steps of a search.
#[derive(Debug, Serialize)]
struct Measured {
    about: String,
    connections: u32,
    seed: u32,
    /// It was stopped before its end.
    stopped: bool,
    runs: Vec<RunResult>,
    #[serde(skip_serializing_if = "Option::is_none")]
    search: Option<Search>,
}

impl Measured {
    fn new(workload: &Workload, seed: u32, goal: Option<&LatencyGoal>) -> Self {
        let (about, connections) = (workload.about.clone(), workload.connections);
        Self { about, connections, seed, stopped: false, runs: Vec::new(), search: goal.map(Search::new) }
    }

    async fn measure(
        &mut self,
        drive: &Drive<'_>,
        workload: &Workload,
        goal: Option<&LatencyGoal>,
    ) -> Result<(), Error> {
        if let (Some(goal), Some(found)) = (goal, &mut self.search) {
            let mut progress = |step: &SearchStep| note(&step_line(step));
            return drive.search(goal, found, &mut progress).await;
        }
        for rate in &workload.rates {
            if workload.rates.len() > 1 {
                note(&format!("{rate} transactions/s for {} s", workload.seconds));
            }
            self.runs.push(drive.run(*rate).await?);
        }
        Ok(())
    }

    fn is_good(&self) -> bool {
        match &self.search {
            Some(found) => found.highest_rate.is_some(),
            None => self.runs.iter().all(RunResult::is_good),
        }
    }
}

fn workload(file: &Path) -> Result<Workload, Failure> {
    let text = read_at_most(file, WORKLOAD_BYTES_MAX as u64, None)?;
    Workload::parse(&text).map_err(|fault| {
        let line = fault.line.map_or(String::new(), |line| format!(":{line}"));
        Failure::user(fault.message).at(format!("{}{line}", file.display()))
    })
}

/// Begins the file of the result, which must be a new one.
fn created(path: &Path) -> Result<TargetFile, Failure> {
    let file = TargetFile::create(path).map_err(Failure::cannot("write", path))?;
    if file.replaces() {
        let problem = format!("{} exists, and results are never overwritten", path.display());
        return Err(Failure::user(problem).hint("name another file by --out"));
    }
    Ok(file)
}

fn write(measured: &Measured, mut file: TargetFile) -> std::io::Result<()> {
    serde_json::to_writer_pretty(&mut file, measured)?;
    file.finish_new()
}

fn show(measured: &Measured, output: Output) -> Result<Exit, Failure> {
    if output.is_json() {
        output.json(measured)?;
    } else {
        if !measured.about.is_empty() {
            output.line(&measured.about)?;
        }
        for (number, run) in measured.runs.iter().enumerate() {
            if number > 0 {
                output.line("")?;
            }
            show_run(run, measured, output)?;
        }
        if let Some(found) = &measured.search {
            show_search(found, measured.stopped, output)?;
        }
    }
    Ok(if measured.is_good() { Exit::Done } else { Exit::Findings })
}

fn show_run(run: &RunResult, measured: &Measured, output: Output) -> Result<(), Failure> {
    let Measured { connections, seed, .. } = measured;
    let head = format!(
        "{} transactions/s scheduled for {} s, {connections} connections, seed {seed}\n",
        run.rate, run.seconds
    );
    output.line(&head)?;
    output.table(&counts(run))?;
    output.line("")?;
    output.table(&latencies(run))?;
    output.line("")?;
    for line in run.scripts.iter().filter_map(objective) {
        output.line(&line)?;
    }
    run.remarks.iter().try_for_each(|remark| output.line(remark))
}

fn counts(run: &RunResult) -> Table {
    let right = Align::Right;
    let mut table = Table::new(&[
        ("script", Align::Left),
        ("scheduled", right),
        ("done", right),
        ("late", right),
        ("failed", right),
        ("skipped", right),
        ("missed %", right),
    ]);
    for ScriptResult { name, counts, miss_percent, .. } in &run.scripts {
        let numbers = [counts.scheduled, counts.done, counts.late, counts.failed, counts.skipped];
        let cells = std::iter::once(name.clone()).chain(numbers.iter().map(u64::to_string));
        table.row(cells.chain([format!("{miss_percent:.2}")]));
    }
    table
}

fn latencies(run: &RunResult) -> Table {
    let right = Align::Right;
    let mut table = Table::new(&[
        ("mean ms", right),
        ("p50", right),
        ("p90", right),
        ("p99", right),
        ("p99.9", right),
        ("max", right),
        ("of", Align::Wrap),
    ]);
    let mut row = |what: String, latency: Option<&Latency>| {
        let of = |value: fn(&Latency) -> f64| milliseconds(latency.map(value));
        table.row([
            of(|one| one.mean_ms),
            of(|one| one.p50_ms),
            of(|one| one.p90_ms),
            of(|one| one.p99_ms),
            of(|one| one.p999_ms),
            of(|one| one.max_ms),
            what,
        ]);
    };
    for script in &run.scripts {
        row(format!("{}: response, from the scheduled start", script.name), script.response.as_ref());
        row(format!("{}: service, from sending", script.name), script.service.as_ref());
    }
    table
}

fn objective(script: &ScriptResult) -> Option<String> {
    let verdict = if script.objective_met? { "met" } else { "missed" };
    let (percentile, latency) = (script.percentile?, script.objective_ms?);
    Some(format!("{}: objective p{percentile} of {latency} ms: {verdict}", script.name))
}

fn show_search(found: &Search, stopped: bool, output: Output) -> Result<(), Failure> {
    let right = Align::Right;
    let mut table = Table::new(&[
        ("transactions/s", right),
        ("latency ms", right),
        ("missed %", right),
        ("goal", Align::Left),
        ("remarks", Align::Wrap),
    ]);
    for step in &found.steps {
        table.row([
            format!("{:.1}", step.rate),
            milliseconds(step.latency_ms),
            format!("{:.2}", step.miss_percent),
            verdict(step).to_owned(),
            step.remarks.join("; "),
        ]);
    }
    output.table(&table)?;
    let line = match (found.highest_rate, found.missed_rate) {
        (Some(kept), Some(missed)) => format!("{kept:.1} transactions/s keep {}, {missed:.1} do not", found.goal),
        (Some(kept), None) => format!("{kept:.1} transactions/s keep {}; the limit was not reached", found.goal),
        (None, _) => format!("no rate that was tried keeps {}", found.goal),
    };
    output.line(&format!("\n{line}{}", if stopped { " (stopped early)" } else { "" }))
}

fn step_line(step: &SearchStep) -> String {
    let latency = milliseconds(step.latency_ms);
    format!("{:.1} transactions/s: {latency} ms, {:.2} % missed, goal {}", step.rate, step.miss_percent, verdict(step))
}

fn verdict(step: &SearchStep) -> &'static str {
    if step.kept { "kept" } else { "missed" }
}

/// A number of milliseconds, with as many digits as it deserves.
fn milliseconds(value: Option<f64>) -> String {
    match value {
        Some(value) if value >= 100.0 => format!("{value:.0}"),
        Some(value) if value >= 10.0 => format!("{value:.1}"),
        Some(value) => format!("{value:.3}"),
        None => "-".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let shown = [None, Some(0.1234), Some(12.34), Some(1_234.5)].map(milliseconds);
        assert_eq!(shown, ["-", "0.123", "12.3", "1234"]);
    }
}
