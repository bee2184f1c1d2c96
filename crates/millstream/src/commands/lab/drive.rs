//! `lab drive`: sends a workload to a server at the rates of a file, and prints latencies and misses.

use crate::args::TargetArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, note};
use crate::signal::Signals;
use crate::table::{Align, Table};
use crate::target::{self, Purpose};
use millstream_lab::generator::{
    ClassResult, LatencyGoal, RunOptions, SearchResult, SearchStep, Workload, WorkloadResult, run_workload, search,
};
use millstream_lab::{Error, Latency};
use millstream_pg::ConnInfo;
use serde::Serialize;
use std::path::{Path, PathBuf};
use tokio::sync::watch;

const EXAMPLES: &str = "\
Examples:
  millstream lab drive mix.toml --db postgres://localhost/bench
  millstream lab drive mix.toml --search \"read.p99 < 10ms\"
  millstream lab drive mix.toml --output json --out result.json

A file for pgbench's tables:
  connections = 8
  seconds = 30
  [[class]]
  name = \"read\"
  rate = 500
  objective_ms = 10
  statements = [\"select abalance from pgbench_accounts where aid = {aid}\"]
  values = { aid = { uniform = [1, 100000] } }

The command uses the local server unless you give --db. It ignores MILLSTREAM_DB
and DATABASE_URL. docs/lab.md explains the file and the results.";

/// Most characters of a statement in a table.
const LABEL_CHARS: usize = 60;

/// Send requests at given rates and report latencies and misses
///
/// The file says how many requests per second of each class begin, whatever the server does. Latency counts from
/// the scheduled start of a request, so that waiting for a slow server is part of it. Every scheduled request is
/// counted as done, failed or dropped. The exit code is 1 if an objective is missed, or if the server or the
/// generator is too slow for the rates.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct DriveArgs {
    /// Workload: a TOML file with connections, seconds and classes
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Search the highest rate that keeps a goal, such as "read.p99 < 10ms"; each step is a short run
    #[arg(long, value_name = "GOAL")]
    search: Option<LatencyGoal>,

    /// Seed for the times and values of the requests
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Also write the result to a new file, as JSON
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,

    /// Database to send requests to [default: the local server, whatever MILLSTREAM_DB and DATABASE_URL say]
    #[arg(long, value_name = "URL")]
    db: Option<String>,
}

/// Runs the command.
pub async fn run(args: &DriveArgs, output: Output, signals: Signals) -> Result<Exit, Failure> {
    let workload = workload(&args.file)?;
    if let Some(out) = args.out.as_ref().filter(|out| out.exists()) {
        let problem = format!("{} exists, and results are never overwritten", out.display());
        return Err(Failure::user(problem).hint("name another file by --out"));
    }
    let target = TargetArgs { db: args.db.clone(), schema: None };
    let db = target::resolve(&target, Purpose::Show).await?;
    let (stopper, stop) = watch::channel(false);
    let options = RunOptions { seed: args.seed, rate_factor: 1.0, stop };
    let goal = args.search.as_ref().or(workload.search.as_ref());
    let mut measuring = Box::pin(measure(&workload, goal, &db, &options));
    let (measured, stopped) = tokio::select! {
        measured = &mut measuring => (measured, None),
        exit = signals.stop_asked() => {
            note("stopping: requests that run get a few seconds to finish");
            stopper.send_replace(true);
            (measuring.await, Some(exit))
        }
    };
    let measured = measured?;
    if let Some(out) = &args.out {
        write(&measured, out)?;
    }
    let exit = show(&measured, output)?;
    Ok(stopped.unwrap_or(exit))
}

/// What was measured: one run, or the runs of a search.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Measured {
    Run(Box<WorkloadResult>),
    Search(SearchResult),
}

async fn measure(
    workload: &Workload,
    goal: Option<&LatencyGoal>,
    db: &ConnInfo,
    options: &RunOptions,
) -> Result<Measured, Error> {
    match goal {
        Some(goal) => {
            let mut progress = |step: &SearchStep| note(&step_line(step));
            let found = Box::pin(search(workload, goal, db, options, &mut progress)).await?;
            Ok(Measured::Search(found))
        }
        None => Ok(Measured::Run(Box::new(Box::pin(run_workload(workload, db, options)).await?))),
    }
}

fn workload(file: &Path) -> Result<Workload, Failure> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::user(format!("cannot read {}", file.display())).because(&error))?;
    Workload::parse(&text).map_err(|fault| {
        let line = fault.line.map_or(String::new(), |line| format!(":{line}"));
        Failure::user(fault.message).at(format!("{}{line}", file.display()))
    })
}

fn write(measured: &Measured, out: &Path) -> Result<(), Failure> {
    let failed = |error: &(dyn std::error::Error + 'static)| {
        Failure::user(format!("cannot write {}", out.display())).because(error)
    };
    let file = std::fs::File::create_new(out).map_err(|error| failed(&error))?;
    serde_json::to_writer_pretty(file, measured).map_err(|error| failed(&error))
}

fn show(measured: &Measured, output: Output) -> Result<Exit, Failure> {
    if output.is_json() {
        output.json(measured)?;
    }
    let good = match measured {
        Measured::Run(result) => {
            if !output.is_json() {
                show_run(result, output)?;
            }
            result.is_good()
        }
        Measured::Search(found) => {
            if !output.is_json() {
                show_search(found, output)?;
            }
            found.highest_rate.is_some()
        }
    };
    Ok(if good { Exit::Done } else { Exit::Findings })
}

fn show_run(result: &WorkloadResult, output: Output) -> Result<(), Failure> {
    if !result.about.is_empty() {
        output.line(&result.about)?;
    }
    let head = format!(
        "{:.1} requests/s scheduled for {:.1} s, {} connections, seed {}\n",
        result.target_rate(),
        result.seconds,
        result.connections,
        result.seed
    );
    output.line(&head)?;
    output.table(&counts(result))?;
    output.line("")?;
    output.table(&latencies(result))?;
    output.line("")?;
    for class in &result.classes {
        let kinds = class.failures.iter().map(|(code, count)| format!("{count} failed with {code}"));
        let kinds = kinds.chain(class.drops.iter().map(|(why, count)| format!("{count} dropped: {why}")));
        for kind in kinds {
            output.line(&format!("{}: {kind}", class.name))?;
        }
        if let Some(line) = objective(class) {
            output.line(&line)?;
        }
    }
    output.line(&format!(
        "generator: {:.2} s of processor time, {:.0} us per request; late by {} ms at the 99th percentile",
        result.cpu_seconds,
        result.cpu_microseconds(),
        milliseconds(result.lateness.as_ref().map(|lateness| lateness.p99_ms)),
    ))?;
    result.remarks.iter().try_for_each(|remark| output.line(remark))
}

fn counts(result: &WorkloadResult) -> Table {
    let right = Align::Right;
    let mut table = Table::new(&[
        ("class", Align::Left),
        ("scheduled", right),
        ("done", right),
        ("late", right),
        ("failed", right),
        ("dropped", right),
        ("missed %", right),
    ]);
    for ClassResult { name, counts, miss_percent, .. } in &result.classes {
        let numbers = [counts.scheduled, counts.done, counts.late, counts.failed, counts.dropped];
        let cells = std::iter::once(name.clone()).chain(numbers.iter().map(u64::to_string));
        table.row(cells.chain([format!("{miss_percent:.2}")]));
    }
    table
}

fn latencies(result: &WorkloadResult) -> Table {
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
    for class in &result.classes {
        row(format!("{}: response, from the scheduled start", class.name), class.response.as_ref());
        row(format!("{}: service, from sending", class.name), class.service.as_ref());
        for step in class.steps.iter().filter(|_| class.steps.len() > 1) {
            row(format!("{}: {}", class.name, label(&step.sql)), step.service.as_ref());
        }
    }
    table
}

fn objective(class: &ClassResult) -> Option<String> {
    let verdict = if class.objective_met? { "met" } else { "missed" };
    let (percentile, latency) = (class.percentile?, class.objective_ms?);
    Some(format!("{}: objective p{percentile} of {latency} ms: {verdict}", class.name))
}

fn show_search(found: &SearchResult, output: Output) -> Result<(), Failure> {
    let right = Align::Right;
    let mut table = Table::new(&[
        ("requests/s", right),
        ("factor", right),
        ("latency ms", right),
        ("missed %", right),
        ("goal", Align::Left),
        ("remarks", Align::Wrap),
    ]);
    for step in &found.steps {
        table.row([
            format!("{:.1}", step.rate),
            format!("{:.3}", step.rate_factor),
            milliseconds(step.latency_ms),
            format!("{:.2}", step.miss_percent),
            verdict(step).to_owned(),
            step.remarks.join("; "),
        ]);
    }
    output.table(&table)?;
    let line = match (found.highest_rate, found.missed_rate) {
        (Some(kept), Some(missed)) => format!("{kept:.1} requests/s keep {}, {missed:.1} do not", found.goal),
        (Some(kept), None) => format!("{kept:.1} requests/s keep {}; the limit was not reached", found.goal),
        (None, _) => format!("no rate that was tried keeps {}", found.goal),
    };
    output.line(&format!("\n{line}{}", if found.stopped { " (stopped early)" } else { "" }))
}

fn step_line(step: &SearchStep) -> String {
    let latency = milliseconds(step.latency_ms);
    format!("{:.1} requests/s: {latency} ms, {:.2} % missed, goal {}", step.rate, step.miss_percent, verdict(step))
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

/// A statement in one short line.
fn label(sql: &str) -> String {
    let line = sql.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= LABEL_CHARS {
        return line;
    }
    line.chars().take(LABEL_CHARS).chain("..".chars()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_statements_are_short() {
        let shown = [None, Some(0.1234), Some(12.34), Some(1_234.5)].map(milliseconds);
        assert_eq!(shown, ["-", "0.123", "12.3", "1234"]);
        assert_eq!(label("select 1\n  from t"), "select 1 from t");
        assert_eq!(label(&"é".repeat(80)).chars().count(), LABEL_CHARS + 2);
    }
}
