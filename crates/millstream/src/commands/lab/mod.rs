//! `lab`: runs experiments and reports what they measured.

mod compare;
mod drive;
mod guest;
mod load;
mod packets;
pub(super) mod run;
mod start;

use self::drive::DriveArgs;
use self::load::{AskArgs, CheckTableArgs, CopyArgs, DocumentsArgs};
use self::packets::{PacketsArgs, SendPacketsArgs};
use self::run::Format;
use self::start::RunArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::signal::Signals;
use millstream_lab::recorder::{self, Options};
use millstream_model::Refusal;
use std::path::PathBuf;

const LIST_EXAMPLES: &str = "\
Examples:
  millstream lab list
  millstream lab list ingest";

const COMPARE_EXAMPLES: &str = "\
Examples:
  millstream lab compare a1,a2,a3,a4,a5 b1,b2,b3,b4,b5 --fail-above 5%
  millstream lab compare 6.1 6.12 7.0 --html kernels.html";

const REPORT_EXAMPLES: &str = "\
Examples:
  millstream lab report lab/records/2026-01-31-2x-example
  millstream lab report record.json --output json
  millstream lab report record.json --format csv --series
  millstream lab report lab/records/2026-01-31-ladder --html ladder.html";

const RECORDER_EXAMPLES: &str = "\
Example:
  millstream lab recorder --out recording.ndjson";

const SLOW_DISK_EXAMPLES: &str = "\
Example:
  millstream lab slow-disk bytes device";

/// Compare programs, settings and servers, and say how sure the result is
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
    Compare(CompareArgs),
    Drive(DriveArgs),
    Recorder(RecorderArgs),
    SlowDisk(SlowDiskArgs),
    Documents(DocumentsArgs),
    Copy(CopyArgs),
    CheckTable(CheckTableArgs),
    Ask(AskArgs),
    Packets(PacketsArgs),
    SendPackets(SendPacketsArgs),
}

/// List the experiments, or show one
#[derive(Debug, clap::Args)]
#[command(after_help = LIST_EXAMPLES)]
struct ListArgs {
    /// Show this experiment: its question, what to expect, its arms, and the values to choose
    #[arg(value_name = "EXPERIMENT", value_parser = experiment)]
    experiment: Option<String>,
}

/// Print the report of a record
#[derive(Debug, clap::Args)]
#[command(after_help = REPORT_EXAMPLES)]
struct ReportArgs {
    /// Record of a run: its directory, or the file record.json or record.json.zst in it
    #[arg(value_name = "RECORD")]
    record: PathBuf,

    /// Form of the report
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,

    /// With --format csv: a line for each second of each run, with what was recorded beside it, instead of one for each run
    #[arg(long, conflicts_with = "html")]
    series: bool,

    /// Write the report to this file instead, as a page that needs no network
    #[arg(long, value_name = "FILE", conflicts_with = "format")]
    html: Option<PathBuf>,
}

/// Compare records of the same experiment, arm by arm
///
/// A record is one sample, however many runs it holds, because the machine drifts between records. Two records show only
/// the ratio of their medians. For a verdict, name at least five records a side, separated by commas, and make those of
/// the two sides in turn; to compare kernels or machines, make each in a boot of its own. Exits with 1 if --fail-above
/// finds something.
///
/// More than two are put beside each other, and compared with the first. --html draws any number of them, each metric,
/// statement and series in one chart for all.
#[derive(Debug, clap::Args)]
#[command(after_help = COMPARE_EXAMPLES)]
struct CompareArgs {
    /// Sides to compare, the earlier one first: each is a record, or at least five for a verdict, with commas between them
    #[arg(value_name = "RECORDS", required = true, num_args = 2..)]
    records: Vec<String>,

    /// Fail if an arm of the later of two sides is certainly worse by more than this, such as 5%, is missing, or cannot be
    /// compared; needs a verdict, so at least five records a side
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    fail_above: Option<f64>,

    /// Write a page, too, with all records in one chart each: metrics, statements, and what was recorded over time
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Record machine and server until stdin closes; the lab runs this beside its measurements
#[derive(Debug, clap::Args)]
#[command(hide = true, after_help = RECORDER_EXAMPLES)]
struct RecorderArgs {
    /// File to write: a line of JSON each second
    #[arg(long, value_name = "FILE")]
    out: PathBuf,

    /// The server's data directory, whose disk is watched
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,

    /// The directory of the WAL, if it is not in the data directory
    #[arg(long, value_name = "DIR")]
    wal: Option<PathBuf>,
}

/// Show the bytes of a file in another one, a little later, until that is unmounted; the lab runs this for slow disks
///
/// Lines on stdin say how slow: the milliseconds of a read, of a write and of a flush, and reads and writes in a second.
#[derive(Debug, clap::Args)]
#[command(hide = true, after_help = SLOW_DISK_EXAMPLES)]
struct SlowDiskArgs {
    /// File that holds the bytes
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// File over which they are shown
    #[arg(value_name = "DEVICE")]
    device: PathBuf,
}

/// A number of percent, with or without its sign.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim().parse::<f64>();
    number.ok().filter(|percent| (0.0..1e6).contains(percent)).ok_or_else(|| "give a number such as 5%".to_owned())
}

/// The name of an experiment, or the path of a file.
fn experiment(name: &str) -> Result<String, String> {
    match run::is_experiment(name) {
        true => Ok(name.to_owned()),
        false => Err("there is no such experiment; `millstream lab list` lists them".to_owned()),
    }
}

/// Runs the command.
pub async fn run(args: &LabArgs, output: Output, signals: Signals) -> Result<Exit, Failure> {
    match &args.command {
        LabCommand::List(ListArgs { experiment: None }) => run::list(output),
        LabCommand::List(ListArgs { experiment: Some(name) }) => run::describe(name, output),
        LabCommand::Compare(args) => compare::compare(&args.records, args.fail_above, args.html.as_deref(), output),
        LabCommand::Run(args) => start::start(args, output, signals).await,
        LabCommand::Report(args) => match &args.html {
            Some(file) => run::report_page(&args.record, file),
            None => run::report(&args.record, args.format, args.series, output),
        },
        LabCommand::Drive(args) => drive::run(args, output, signals).await,
        LabCommand::Documents(args) => load::documents(args),
        LabCommand::Copy(args) => load::copy(args).await,
        LabCommand::CheckTable(args) => load::check_table(args, output).await,
        LabCommand::Ask(args) => load::answer(args, output).await,
        LabCommand::Packets(args) => packets::packets(args, output),
        LabCommand::SendPackets(args) => packets::send_packets(args, output),
        LabCommand::Recorder(RecorderArgs { out, data, wal }) => {
            let options = Options { out: out.clone(), data: data.clone(), wal: wal.clone() };
            recorder::run(&options).await?;
            Ok(Exit::Done)
        }
        LabCommand::SlowDisk(SlowDiskArgs { file, device }) => {
            millstream_host::serve_slow_disk(file, device).map_err(Refusal::from)?;
            Ok(Exit::Done)
        }
    }
}
