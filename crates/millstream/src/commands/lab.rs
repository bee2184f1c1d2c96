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

The lab uses the local server unless you give --db. It ignores MILLSTREAM_DB and
DATABASE_URL. It works in two schemas of its own and in a temporary directory
(in TMPDIR), and removes them at the end.";

const LIST_EXAMPLES: &str = "\
Example:
  millstream lab list";

const REPORT_EXAMPLES: &str = "\
Examples:
  millstream lab report lab/records/2026-01-31-2x-example
  millstream lab report record.json --output json";

/// Documents of a quick run: enough to run every part, too few to measure.
const QUICK_DOCUMENTS: u64 = 20_000;

/// Rows to which a table grows in a quick run.
const QUICK_ROWS: u64 = 20_000;

/// Connections by default: as many as `load` takes.
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

/// Run experiments, record every sample and print the report
///
/// The programs to compare, called subjects, take turns on the same server and data. Every result is verified,
/// and a wrong result is an error, not a fast result. Millstream runs as a process, as you run it. The raw
/// samples and the conditions go to record.json in the directory of the record.
#[derive(Debug, clap::Args)]
#[command(after_help = RUN_EXAMPLES)]
struct RunArgs {
    /// Experiments to run; one record holds all of them
    #[arg(value_name = "EXPERIMENT", required = true, value_parser = experiments(true))]
    experiments: Vec<String>,

    /// Experiments to leave out; growth and distinct take minutes, refresh and rivals tens of minutes
    #[arg(long, value_name = "EXPERIMENT", value_delimiter = ',', value_parser = experiments(false), hide_possible_values = true)]
    without: Vec<String>,

    /// Number of 150-byte documents; larger sizes get fewer documents, with about the same bytes in all
    #[arg(long, value_name = "N", default_value_t = 1_000_000, conflicts_with = "quick")]
    docs: u64,

    /// Experiment growth: rows of the large table
    #[arg(long, value_name = "N", default_value_t = 20_000_000, conflicts_with = "quick")]
    grow_to: u64,

    /// Experiment refresh: rows of each read model
    #[arg(long, value_name = "N", default_value_t = 5_000_000, conflicts_with = "quick")]
    read_rows: u64,

    /// Experiment distinct: rows of the large table
    #[arg(long, value_name = "N", default_value_t = 10_000_000, conflicts_with = "quick")]
    distinct_rows: u64,

    /// Samples of each subject; published takes three times as many, to show differences of a few percent
    #[arg(long, value_name = "N", default_value_t = 3, conflicts_with = "quick")]
    rounds: u32,

    /// Sizes of documents in bytes [default: depends on the experiment]
    #[arg(long, value_name = "BYTES", value_delimiter = ',')]
    sizes: Vec<usize>,

    /// Kind of keys; `both` tries sequential keys only with the smallest size [default: both for ingest and
    /// order, sequential for distinct, else random]
    #[arg(long, value_name = "KEYS")]
    keys: Option<KeysChoice>,

    /// Connections of Millstream and of COPY [default: this machine's cores, 4 at most]
    #[arg(long, value_name = "N")]
    lanes: Option<u16>,

    /// Subjects to measure, by their names in the report [default: all of the experiments]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    subjects: Vec<String>,

    /// Python with psycopg 3, and with pymongo for --mongo-uri [default: a virtual environment that the run
    /// makes, which needs python3 and network access for pip]
    #[arg(long, value_name = "FILE")]
    python: Option<PathBuf>,

    /// MongoDB server to compare with, through mongoimport and pymongo; the run makes a database of its own
    /// there and drops it
    #[arg(long, value_name = "URI")]
    mongo_uri: Option<String>,

    /// Seed for the data and its order
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Use 20,000 documents and one round; this shows that everything works, and measures nothing
    #[arg(long)]
    quick: bool,

    /// Directory of the record [default: DATE-MACHINE in lab/records if that exists, else in
    /// millstream-records]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Millstream binary to measure instead of this one
    #[arg(long, value_name = "FILE")]
    millstream_bin: Option<PathBuf>,

    /// Database to measure on [default: the local server, whatever MILLSTREAM_DB and DATABASE_URL say]
    #[arg(long, value_name = "URL")]
    db: Option<String>,
}

/// Print the report of a record
#[derive(Debug, clap::Args)]
#[command(after_help = REPORT_EXAMPLES)]
struct ReportArgs {
    /// Record of a run: its directory, or the file record.json or record.json.zst in it
    #[arg(value_name = "RECORD")]
    record: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum KeysChoice {
    /// Random keys
    Random,
    /// Keys that count up
    Sequential,
    /// Both kinds
    Both,
}

fn experiments(with_all: bool) -> clap::builder::PossibleValuesParser {
    let value = |name, about| clap::builder::PossibleValue::new(name).help(about);
    let all = with_all.then(|| value(ALL, "all of these, and so every number that the project has a goal for"));
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
    let mut progress = |line: &str| note(line);
    let result = tokio::select! {
        result = Experiment::run(&experiments, &plan, &bench, &mut progress) => result.map_err(failure),
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

/// The command line in a form that can be published: without passwords and without directories of files.
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
        error => Failure::classified(&error, ErrorKind::Config, error.hint()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_command_holds_no_directory_and_no_password() {
        let args = ["/opt/x/millstream", "lab", "--db", "postgres://u:secret@h/d", "--out=/home/u/r", "--out", "a/b"];
        let shown = argv(args.map(str::to_owned).into_iter());
        assert_eq!(shown, ["millstream", "lab", "--db", "postgres://u:***@h/d", "--out=r", "--out", "a/b"]);
    }
}
