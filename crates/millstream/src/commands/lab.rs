//! `lab`: runs experiments and reports what they measured.

use crate::args::TargetArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, note};
use crate::secret::masked;
use crate::signal::Signals;
use crate::table::{Align, Table};
use crate::target::{self, Purpose};
use millstream_lab::{ALL, Bench, EXPERIMENTS, Error, Experiment, Finished, Ground, KEYS, Keys, Plan, Record, Report};
use millstream_pg::ErrorKind;
use std::path::{Path, PathBuf};

const RUN_EXAMPLES: &str = "\
Examples:
  millstream lab run ingest --quick
  millstream lab run ingest --docs 2000000 --rounds 7
  millstream lab run ingest --sizes 150 --keys random --lanes 4
  millstream lab run rivals --sizes 150 --subjects millstream,recipe,merge
  millstream lab run durability hot wal memory latency
  millstream lab run all --without growth --python ~/venv/bin/python

Nothing is measured against a server that is only found in the environment: the
lab uses the local server, unless --db is typed. It works in two schemas and a
temporary directory (TMPDIR) of its own and removes them at the end.";

const LIST_EXAMPLES: &str = "\
Example:
  millstream lab list";

const REPORT_EXAMPLES: &str = "\
Examples:
  millstream lab report lab/records/2026-01-31-2x-example/record.json
  millstream lab report record.json --output json";

/// Documents of a quick run: enough that every part works, too few to measure.
const QUICK_DOCUMENTS: u64 = 20_000;

/// Rows to which a table grows in a quick run.
const QUICK_ROWS: u64 = 20_000;

/// Connections where nothing else is said: as many as `load` would take.
const LANES_DEFAULT_MAX: u16 = 4;

/// Measure Millstream on this machine
#[derive(Debug, clap::Args)]
pub struct LabArgs {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Debug, clap::Subcommand)]
enum LabCommand {
    List(ListArgs),
    Run(Box<RunArgs>),
    Report(ReportArgs),
}

/// List the experiments
#[derive(Debug, clap::Args)]
#[command(after_help = LIST_EXAMPLES)]
struct ListArgs {}

/// Run experiments, record every sample, print the report
///
/// Subjects take turns on the same server and data, every result is verified, and a wrong one is
/// an error, not a fast one. Millstream runs as a process, as a user runs it. The directory of the
/// record gets raw samples and conditions as record.json.
#[derive(Debug, clap::Args)]
#[command(after_help = RUN_EXAMPLES)]
struct RunArgs {
    /// What to run, as listed by `lab list`; one record holds them all
    #[arg(value_name = "EXPERIMENT", required = true, value_parser = experiments(true))]
    experiments: Vec<String>,

    /// Experiments to leave out of all; growth and distinct take
    /// minutes, refresh and rivals tens of them
    #[arg(long, value_name = "EXPERIMENT", value_delimiter = ',', value_parser = experiments(false), hide_possible_values = true)]
    without: Vec<String>,

    /// Documents of 150 bytes; of larger ones fewer, about the same bytes
    #[arg(long, value_name = "N", default_value_t = 1_000_000, conflicts_with = "quick")]
    docs: u64,

    /// Rows to which the table of growth grows
    #[arg(long, value_name = "N", default_value_t = 20_000_000, conflicts_with = "quick")]
    grow_to: u64,

    /// Rows of the read models of refresh
    #[arg(long, value_name = "N", default_value_t = 5_000_000, conflicts_with = "quick")]
    read_rows: u64,

    /// Rows of the larger table of distinct
    #[arg(long, value_name = "N", default_value_t = 10_000_000, conflicts_with = "quick")]
    distinct_rows: u64,

    /// Samples of each subject; published takes three times as many, to tell a few percent
    #[arg(long, value_name = "N", default_value_t = 3, conflicts_with = "quick")]
    rounds: u32,

    /// Lengths of documents in bytes [default: 150,2048,20480 or what the experiment is about]
    #[arg(long, value_name = "BYTES", value_delimiter = ',')]
    sizes: Vec<usize>,

    /// How keys arrive; `both` tries sequential ones with the smallest size only [default: both
    /// for ingest and order, else random]
    #[arg(long, value_name = "KEYS")]
    keys: Option<KeysChoice>,

    /// Connections of Millstream and of COPY [default: the processors, 4 at most]
    #[arg(long, value_name = "N")]
    lanes: Option<u16>,

    /// What to measure, by the names in the report [default: all that the experiments have]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    subjects: Vec<String>,

    /// Python that has psycopg 3 [default: a virtual environment of the run, which needs python3
    /// and pip's network]
    #[arg(long, value_name = "FILE")]
    python: Option<PathBuf>,

    /// MongoDB to measure beside, with mongoimport and pymongo; a database of the run's own is made
    /// there and dropped
    #[arg(long, value_name = "URI")]
    mongo_uri: Option<String>,

    /// Seed of data and orders
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// 20,000 documents, one round: shows that it works, measures nothing
    #[arg(long)]
    quick: bool,

    /// Directory of the record [default: DATE-MACHINE under lab/records if that is there, else
    /// under millstream-records]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Binary to measure instead of this one
    #[arg(long, value_name = "FILE")]
    millstream_bin: Option<PathBuf>,

    /// Database to measure on [default: the local server, whatever the environment says]
    #[arg(long, value_name = "URL")]
    db: Option<String>,
}

/// Print the report of a record again
#[derive(Debug, clap::Args)]
#[command(after_help = REPORT_EXAMPLES)]
struct ReportArgs {
    /// The record.json of a run
    #[arg(value_name = "RECORD")]
    record: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum KeysChoice {
    /// Random keys
    Random,
    /// Keys that count up
    Sequential,
    /// Both
    Both,
}

fn experiments(with_all: bool) -> clap::builder::PossibleValuesParser {
    let value = |name, about| clap::builder::PossibleValue::new(name).help(about);
    let all = with_all.then(|| value(ALL, "each of these, and so every number that the project has a goal for"));
    EXPERIMENTS.iter().map(|one| value(one.name, one.about)).chain(all).collect::<Vec<_>>().into()
}

/// Runs the command.
pub async fn run(args: &LabArgs, output: Output, signals: Signals) -> Result<Exit, Failure> {
    match &args.command {
        LabCommand::List(ListArgs {}) => list(output),
        LabCommand::Run(args) => run_experiments(args, output, signals).await,
        LabCommand::Report(args) => {
            let record = Record::read(&args.record).map_err(failure)?;
            show(&Report::of(&record), output)
        }
    }
}

fn list(output: Output) -> Result<Exit, Failure> {
    if output.is_json() {
        let list: Vec<_> =
            EXPERIMENTS.iter().map(|one| serde_json::json!({ "name": one.name, "about": one.about })).collect();
        output.json(&list)?;
        return Ok(Exit::Done);
    }
    let mut table = Table::new(&[("experiment", Align::Left), ("asks", Align::Wrap)]);
    for one in EXPERIMENTS {
        table.row([one.name.to_owned(), one.about.to_owned()]);
    }
    output.table(&table)?;
    Ok(Exit::Done)
}

async fn run_experiments(args: &RunArgs, output: Output, signals: Signals) -> Result<Exit, Failure> {
    let experiments = Experiment::named(&args.experiments, &args.without).map_err(failure)?;
    let plan = plan(args);
    plan.check().map_err(failure)?;
    let bench = Bench::new(ground(args).await?).map_err(failure)?;
    let mut told = |line: &str| note(line);
    let result = tokio::select! {
        result = Experiment::run(&experiments, &plan, &bench, &mut told) => result.map_err(failure),
        exit = signals.stop_asked() => {
            note("stopping: tables and files of the run are being removed; finished rounds are recorded");
            bench.clear().await.map_err(failure)?;
            return Ok(exit);
        }
    };
    let cleared = bench.clear().await.map_err(failure);
    let Finished { record, path } = result?;
    cleared?;
    let exit = show(&Report::of(&record), output)?;
    note(&format!("record: {}", path.display()));
    Ok(exit)
}

fn show(report: &Report, output: Output) -> Result<Exit, Failure> {
    if output.is_json() {
        output.json(report)?;
    } else {
        output.line(report.to_string().trim_end())?;
    }
    Ok(if report.has_errors() { Exit::Findings } else { Exit::Done })
}

fn plan(args: &RunArgs) -> Plan {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let lanes = u16::try_from(cores).unwrap_or(LANES_DEFAULT_MAX).min(LANES_DEFAULT_MAX);
    Plan {
        documents: if args.quick { QUICK_DOCUMENTS } else { args.docs },
        read_rows: if args.quick { QUICK_ROWS } else { args.read_rows },
        walked_rows: if args.quick { QUICK_ROWS } else { args.distinct_rows },
        grown_rows: if args.quick { QUICK_ROWS } else { args.grow_to },
        rounds: if args.quick { 1 } else { args.rounds },
        sizes: args.sizes.clone(),
        keys: match args.keys {
            None => Vec::new(),
            Some(KeysChoice::Random) => vec![Keys::Random],
            Some(KeysChoice::Sequential) => vec![Keys::Sequential],
            Some(KeysChoice::Both) => KEYS.to_vec(),
        },
        subjects: args.subjects.clone(),
        lanes: args.lanes.unwrap_or(lanes),
        seed: args.seed,
        out: args.out.clone(),
        argv: argv(std::env::args()),
    }
}

/// The command line as it can be published: no passwords, and names of files without their places.
fn argv(args: impl Iterator<Item = String>) -> Vec<String> {
    args.map(|arg| {
        let (name, value) = match arg.split_once('=').filter(|_| arg.starts_with("--")) {
            Some((name, value)) => (format!("{name}="), value),
            None => (String::new(), arg.as_str()),
        };
        let file = Path::new(value).file_name().filter(|_| value.starts_with('/'));
        let value = file.map_or_else(|| masked(value), std::ffi::OsStr::to_string_lossy);
        name + &value
    })
    .collect()
}

async fn ground(args: &RunArgs) -> Result<Ground, Failure> {
    let target = TargetArgs { db: args.db.clone(), schema: None };
    let db = target::resolve(&target, Purpose::Show).await?;
    let own = std::env::current_exe().map_err(|error| Failure::user("cannot find this binary").because(&error))?;
    let (binary, debug) = match &args.millstream_bin {
        Some(binary) => (binary.clone(), None),
        None => (own, Some(cfg!(debug_assertions))),
    };
    let (python, mongo_uri) = (args.python.clone(), args.mongo_uri.clone());
    Ok(Ground { db, url: args.db.clone(), binary, debug, python, mongo_uri })
}

fn failure(error: Error) -> Failure {
    match error {
        Error::Database(error) => error.into(),
        error => Failure::judged(&error, ErrorKind::Config, error.hint()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_command_names_no_place_and_no_password() {
        let args = ["/opt/x/millstream", "lab", "--db", "postgres://u:secret@h/d", "--out=/home/u/r", "--out", "a/b"];
        let shown = argv(args.map(str::to_owned).into_iter());
        assert_eq!(shown, ["millstream", "lab", "--db", "postgres://u:***@h/d", "--out=r", "--out", "a/b"]);
    }
}
