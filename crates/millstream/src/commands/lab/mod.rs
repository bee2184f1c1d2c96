//! `lab`: runs experiments and reports what they measured.

mod drive;
mod guest;
mod packets;
pub(super) mod pgbench;

use self::drive::DriveArgs;
use self::packets::{PacketsArgs, SendPacketsArgs};
use self::pgbench::{Asked, Format};
use crate::args::TargetArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, note};
use crate::secret::masked;
use crate::signal::Signals;
use crate::table::{Align, Table};
use crate::target::{self, Purpose};
use millstream_lab::guest::Request as GuestRequest;
use millstream_lab::pgbench::Request;
use millstream_lab::recorder::{self, Options};
use millstream_lab::{ALL, Bench, EXPERIMENTS, Experiment, Finished, Ground, KEYS, Keys, Plan, Record, Report, Scale};
use std::path::{Path, PathBuf};

const RUN_EXAMPLES: &str = "\
Examples:
  millstream lab run ingest --quick
  millstream lab run ingest --docs 2000000 --rounds 7
  millstream lab run ingest --sizes 150 --keys random --lanes 4
  millstream lab run rivals --sizes 150 --subjects millstream,recipe,merge
  millstream lab run durability hot wal memory latency
  millstream lab run ladder --quick
  millstream lab run ladder --postgres 15 --out records/ladder
  millstream lab run my-own.toml
  millstream lab run kernel --guest linux-image-6.1.deb linux-image-6.12.deb
  millstream lab run --a 'gzip -k -f file' --b 'zstd -k -f file'
  millstream lab run all --without growth --python ~/venv/bin/python

Experiments that load documents use the local server, in two schemas that they
remove at the end. Experiments with pgbench use a server of the lab's own, and
keep its data. With --db, both use your server; experiments with pgbench leave
databases named lab_.. there. The lab ignores MILLSTREAM_DB and DATABASE_URL.";

const LIST_EXAMPLES: &str = "\
Example:
  millstream lab list";

const COMPARE_EXAMPLES: &str = "\
Example:
  millstream lab compare a1,a2,a3,a4,a5 b1,b2,b3,b4,b5 --fail-above 5%";

const REPORT_EXAMPLES: &str = "\
Examples:
  millstream lab report lab/records/2026-01-31-2x-example
  millstream lab report record.json --output json
  millstream lab report lab/records/2026-01-31-ladder --html ladder.html";

/// Documents of a run.
const DOCUMENTS: u64 = 1_000_000;

/// Rows of a read model.
const READ_ROWS: u64 = 5_000_000;

/// Rows of the table whose distinct values are queried.
const DISTINCT_ROWS: u64 = 10_000_000;

/// Rows to which a table grows.
const GROWN_ROWS: u64 = 20_000_000;

/// Samples of each subject.
const ROUNDS: u32 = 3;
const RECORDER_EXAMPLES: &str = "\
Example:
  millstream lab recorder --out recording.ndjson";

/// Documents of a quick run: enough to run every part, too few to measure.
const QUICK_DOCUMENTS: u64 = 20_000;

/// Rows to which a table grows in a quick run.
const QUICK_ROWS: u64 = 20_000;

/// Connections by default: as many as `load` takes.
const LANES_DEFAULT_MAX: u16 = 4;

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
    Packets(PacketsArgs),
    SendPackets(SendPacketsArgs),
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
    /// Experiments to run, as `lab list` names them; `all` for all that load documents; or your own file, NAME.toml
    #[arg(value_name = "EXPERIMENT", required_unless_present = "a", value_parser = experiment)]
    experiments: Vec<String>,

    /// Experiments to leave out; growth and distinct take minutes, refresh and rivals tens of minutes
    #[arg(long, value_name = "EXPERIMENT", value_delimiter = ',', value_parser = experiments(), hide_possible_values = true)]
    without: Vec<String>,

    /// Number of 150-byte documents; larger sizes get fewer documents, with about the same bytes in all
    /// [default: 1000000]
    #[arg(long, value_name = "N", conflicts_with = "quick")]
    docs: Option<u64>,

    /// Experiment growth: rows of the large table [default: 20000000]
    #[arg(long, value_name = "N", conflicts_with = "quick")]
    grow_to: Option<u64>,

    /// Experiment refresh: rows of each read model [default: 5000000]
    #[arg(long, value_name = "N", conflicts_with = "quick")]
    read_rows: Option<u64>,

    /// Experiment distinct: rows of the large table [default: 10000000]
    #[arg(long, value_name = "N", conflicts_with = "quick")]
    distinct_rows: Option<u64>,

    /// Samples of each subject; published takes three times as many, to show differences of a few percent
    /// [default: 3]
    #[arg(long, value_name = "N", conflicts_with = "quick")]
    rounds: Option<u32>,

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

    /// Experiments with pgbench: blocks, in each of which every arm has its turn; with --guest, boots of each kernel
    /// [default: the experiment's, or 1 boot]
    #[arg(long, value_name = "N", conflicts_with = "quick", value_parser = clap::value_parser!(u32).range(1..=200))]
    blocks: Option<u32>,

    /// Experiments with pgbench: seconds of each run [default: the experiment's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    seconds: Option<u32>,

    /// Experiments with pgbench: largest scale of pgbench's tables [default: the experiment's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    scale_max: Option<u32>,

    /// Experiments with pgbench: PostgreSQL for arms that name none, as a major version or the directory of its
    /// programs [default: the newest installed]
    #[arg(long, value_name = "VERSION", conflicts_with = "db")]
    postgres: Option<String>,

    /// Compare two command lines, without an experiment: the first
    #[arg(long, value_name = "COMMAND", requires = "b", conflicts_with = "experiments")]
    a: Option<String>,

    /// Compare two command lines: the second
    #[arg(long, value_name = "COMMAND", requires = "a")]
    b: Option<String>,

    /// Let an experiment with pgbench change settings of the server that --db names
    #[arg(long, requires = "db")]
    i_own_this_server: bool,

    /// Let an experiment with pgbench change this machine, as root: kernel settings, a limit for the server's memory
    /// (which also empties the page cache), a network namespace. All of it is given back at the end, on Ctrl-C, and
    /// after a kill by the next experiment with pgbench
    #[arg(long)]
    change_host: bool,

    /// Experiments with pgbench: an empty directory on another device, to which some arms move the WAL of the lab's
    /// server. It is moved back at the end, on Ctrl-C, and after a kill by the next experiment with pgbench
    #[arg(long, value_name = "DIR", conflicts_with = "db")]
    wal_dir: Option<PathBuf>,

    /// Experiments with pgbench: percentage of the processors' time that the hypervisor may take before a run is void
    /// [default: 2%]
    #[arg(long, value_name = "PERCENT", value_parser = share)]
    steal_max: Option<f64>,

    /// Experiments with pgbench: boot the kernels of these Debian packages in turn in an emulated machine, where each
    /// boot makes a quick record. That shows that everything works, and says nothing about speed. Needs qemu and busybox
    #[arg(long, value_name = "KERNEL.deb", num_args = 1.., conflicts_with_all = ["db", "a", "seconds", "scale_max", "change_host", "wal_dir", "steal_max"])]
    guest: Vec<PathBuf>,

    /// With --guest: a directory in which the packages are unpacked whose programs the experiment needs
    /// [default: those of this machine]
    #[arg(long, value_name = "DIR", requires = "guest")]
    guest_root: Option<PathBuf>,

    /// This is a guest
    #[arg(long, hide = true)]
    in_guest: bool,

    /// Seed for the data and its order
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Show only that everything works, in short runs that are not evidence and that no disturbance makes void: 20,000
    /// documents and one round, or one block of runs of 1 to 5 seconds
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

    /// Form of the report of an experiment with pgbench
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,

    /// Write the report of an experiment with pgbench to this file instead, as a page that needs no network
    #[arg(long, value_name = "FILE", conflicts_with = "format")]
    html: Option<PathBuf>,
}

/// Compare records of the same experiment, arm by arm
///
/// A record is one sample, however many runs it holds, because the machine drifts between records. Two records show only
/// the ratio of their medians. For a verdict, name at least five records a side, separated by commas, and make those of
/// the two sides in turn; to compare kernels or machines, make each in a boot of its own. Exits with 1 if --fail-above
/// finds something.
#[derive(Debug, clap::Args)]
#[command(after_help = COMPARE_EXAMPLES)]
struct CompareArgs {
    /// The earlier record, or at least five for a verdict
    #[arg(value_name = "RECORD[,RECORD..]")]
    before: String,

    /// The later record, or at least five for a verdict
    #[arg(value_name = "RECORD[,RECORD..]")]
    after: String,

    /// Fail if an arm of the later side is certainly worse by more than this, such as 5%, is missing, or cannot be
    /// compared; needs a verdict, so at least five records a side
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    fail_above: Option<f64>,
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum KeysChoice {
    /// Random keys
    Random,
    /// Keys that count up
    Sequential,
    /// Both kinds
    Both,
}

fn experiments() -> clap::builder::PossibleValuesParser {
    let value = |name, about| clap::builder::PossibleValue::new(name).help(about);
    EXPERIMENTS.iter().map(|one| value(one.name, one.about)).collect::<Vec<_>>().into()
}

/// A number of percent, with or without its sign.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim().parse::<f64>();
    number.ok().filter(|percent| (0.0..1e6).contains(percent)).ok_or_else(|| "give a number such as 5%".to_owned())
}

/// A percentage of a whole, with or without its sign.
fn share(text: &str) -> Result<f64, String> {
    percent(text).ok().filter(|share| *share <= 100.0).ok_or_else(|| "give a number up to 100, such as 5%".to_owned())
}

/// The name of an experiment, or the path of a file.
fn experiment(name: &str) -> Result<String, String> {
    let known = name == ALL || Experiment::by_name(name).is_some() || pgbench::is_experiment(name);
    match known {
        true => Ok(name.to_owned()),
        false => Err("there is no such experiment; `millstream lab list` lists them".to_owned()),
    }
}

/// Runs the command.
pub async fn run(args: &LabArgs, output: Output, signals: Signals) -> Result<Exit, Failure> {
    match &args.command {
        LabCommand::List(ListArgs {}) => list(output),
        LabCommand::Compare(args) => pgbench::compare(&args.before, &args.after, args.fail_above, output),
        LabCommand::Run(args) => run_experiments(args, output, signals).await,
        LabCommand::Report(args) => {
            let exit = match &args.html {
                Some(file) => pgbench::report_page(&args.record, file)?,
                None => pgbench::report(&args.record, args.format, output)?,
            };
            if let Some(exit) = exit {
                return Ok(exit);
            }
            if args.html.is_some() {
                return Err(Failure::user("this record has no HTML report: it is not of an experiment with pgbench"));
            }
            let record = Record::read(&args.record)?;
            show(&Report::of(&record), output)
        }
        LabCommand::Drive(args) => drive::run(args, output, signals).await,
        LabCommand::Packets(args) => packets::packets(args, output),
        LabCommand::SendPackets(args) => packets::send_packets(args, output),
        LabCommand::Recorder(RecorderArgs { out, data, wal }) => {
            let options = Options { out: out.clone(), data: data.clone(), wal: wal.clone() };
            recorder::run(&options).await?;
            Ok(Exit::Done)
        }
    }
}

fn list(output: Output) -> Result<Exit, Failure> {
    if output.is_json() {
        let about = |one: &Experiment| serde_json::json!({ "name": one.name, "about": one.about });
        let list: Vec<_> = EXPERIMENTS.iter().map(about).chain(pgbench::described()?).collect();
        output.json(&list)?;
        return Ok(Exit::Done);
    }
    let headings =
        [("experiment", Align::Left), ("minutes", Align::Right), ("MB", Align::Right), ("asks", Align::Wrap)];
    let mut table = Table::new(&headings);
    for one in EXPERIMENTS {
        table.row([one.name.to_owned(), "-".to_owned(), "-".to_owned(), one.about.to_owned()]);
    }
    for row in pgbench::rows()? {
        table.row(row);
    }
    output.table(&table)?;
    Ok(Exit::Done)
}

async fn run_experiments(args: &RunArgs, output: Output, signals: Signals) -> Result<Exit, Failure> {
    let (with_pgbench, of_loads): (Vec<&String>, Vec<&String>) =
        args.experiments.iter().partition(|name| pgbench::is_experiment(name));
    if let (Some(one), Some(other)) = (with_pgbench.first(), of_loads.first()) {
        return Err(Failure::user(format!("{one} runs pgbench and {other} loads documents"))
            .hint("run them in two commands: each kind has a record of its own"));
    }
    if !with_pgbench.is_empty() || args.a.is_some() {
        return run_with_pgbench(args, output, &signals).await;
    }
    if let Some(option) = args.of_pgbench() {
        return Err(Failure::user(format!(
            "{option} is for experiments with pgbench, and {} loads documents",
            args.experiments[0]
        )));
    }
    let experiments = Experiment::named(&args.experiments, &args.without)?;
    let plan = plan(args);
    plan.check()?;
    let bench = Bench::new(ground(args).await?)?;
    let mut progress = |line: &str| note(line);
    let result = tokio::select! {
        result = Experiment::run(&experiments, &plan, &bench, &mut progress) => result.map_err(Failure::from),
        exit = signals.stop_asked() => {
            note("stopping: tables and files of the run are being removed; finished rounds are recorded");
            bench.clear().await?;
            return Ok(exit);
        }
    };
    let cleared = bench.clear().await.map_err(Failure::from);
    let Finished { record, path } = result?;
    cleared?;
    let exit = show(&Report::of(&record), output)?;
    note(&format!("record: {}", path.display()));
    Ok(exit)
}

async fn run_in_guests(args: &RunArgs, output: Output, signals: &Signals) -> Result<Exit, Failure> {
    let [experiment] = args.experiments.as_slice() else {
        return Err(Failure::user("guests run one experiment").hint("run them one by one"));
    };
    let program = std::env::current_exe().map_err(|error| Failure::user("cannot find this program").because(&error))?;
    let request = GuestRequest {
        packages: &args.guest,
        boots: args.blocks.unwrap_or(1),
        experiment,
        seed: args.seed,
        postgres: args.postgres.as_deref(),
        root: args.guest_root.as_deref(),
        program: &program,
    };
    guest::run(request, args.out.as_deref(), output, signals).await
}

async fn run_with_pgbench(args: &RunArgs, output: Output, signals: &Signals) -> Result<Exit, Failure> {
    if let Some(option) = args.of_loads() {
        return Err(Failure::user(format!("{option} applies only to experiments that load documents")));
    }
    if !args.guest.is_empty() {
        return run_in_guests(args, output, signals).await;
    }
    let db = match &args.db {
        None => None,
        Some(_) => Some(target::resolve(&TargetArgs { db: args.db.clone(), schema: None }, Purpose::Show).await?),
    };
    let request = Request {
        blocks: args.blocks,
        seconds: args.seconds,
        quick: args.quick,
        seed: args.seed,
        db,
        may_change: args.i_own_this_server,
        change_host: args.change_host,
        wal_dir: args.wal_dir.as_deref().map(absolute).transpose()?,
        postgres: args.postgres.clone(),
        steal_percent_max: args.steal_max,
        program: std::env::current_exe().ok(),
    };
    let commands = args.a.as_deref().zip(args.b.as_deref());
    let (experiments, out) = (&args.experiments, args.out.as_deref());
    let scale_max = args.scale_max;
    let is_guest = args.in_guest;
    let asked = Asked { experiments, commands, request, scale_max, is_guest, out, argv: argv(std::env::args()) };
    pgbench::run(asked, output, signals).await
}

/// The path of a directory from the root.
fn absolute(dir: &Path) -> Result<PathBuf, Failure> {
    dir.canonicalize().map_err(|error| Failure::user(format!("cannot find {}", dir.display())).because(&error))
}

impl RunArgs {
    /// An option that was given and means something only for experiments that load documents.
    fn of_loads(&self) -> Option<&'static str> {
        let given = [
            (!self.without.is_empty(), "--without"),
            (self.docs.is_some(), "--docs"),
            (self.grow_to.is_some(), "--grow-to"),
            (self.read_rows.is_some(), "--read-rows"),
            (self.distinct_rows.is_some(), "--distinct-rows"),
            (self.rounds.is_some(), "--rounds"),
            (!self.sizes.is_empty(), "--sizes"),
            (self.keys.is_some(), "--keys"),
            (self.lanes.is_some(), "--lanes"),
            (!self.subjects.is_empty(), "--subjects"),
            (self.python.is_some(), "--python"),
            (self.mongo_uri.is_some(), "--mongo-uri"),
            (self.millstream_bin.is_some(), "--millstream-bin"),
        ];
        given.into_iter().find(|(given, _)| *given).map(|(_, name)| name)
    }

    /// An option that was given and means something only for experiments with pgbench.
    fn of_pgbench(&self) -> Option<&'static str> {
        let given = [
            (self.blocks.is_some(), "--blocks"),
            (self.seconds.is_some(), "--seconds"),
            (self.scale_max.is_some(), "--scale-max"),
            (!self.guest.is_empty(), "--guest"),
            (self.i_own_this_server, "--i-own-this-server"),
            (self.change_host, "--change-host"),
            (self.wal_dir.is_some(), "--wal-dir"),
            (self.steal_max.is_some(), "--steal-max"),
            (self.postgres.is_some(), "--postgres"),
        ];
        given.into_iter().find(|(given, _)| *given).map(|(_, name)| name)
    }
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
    let rows = |given: Option<u64>, quick, usual| if args.quick { quick } else { given.unwrap_or(usual) };
    Plan {
        rows: [
            (Scale::Documents, rows(args.docs, QUICK_DOCUMENTS, DOCUMENTS)),
            (Scale::ReadModel, rows(args.read_rows, QUICK_ROWS, READ_ROWS)),
            (Scale::Distinct, rows(args.distinct_rows, QUICK_ROWS, DISTINCT_ROWS)),
            (Scale::Growth, rows(args.grow_to, QUICK_ROWS, GROWN_ROWS)),
        ]
        .into(),
        rounds: if args.quick { 1 } else { args.rounds.unwrap_or(ROUNDS) },
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

/// Options whose value is a command line, which is kept as it is.
const COMMANDS: [&str; 2] = ["--a", "--b"];

/// The command line in a form that can be published: without passwords and without directories of files.
fn argv(args: impl Iterator<Item = String>) -> Vec<String> {
    let mut is_command = false;
    args.map(|arg| {
        let holds = |name: &&str| arg.strip_prefix(*name).is_some_and(|rest| rest.starts_with('='));
        if std::mem::replace(&mut is_command, COMMANDS.contains(&arg.as_str())) || COMMANDS.iter().any(holds) {
            return masked(&arg).into_owned();
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_command_holds_no_directory_and_no_password() {
        let args = ["/opt/x/millstream", "lab", "--db", "postgres://u:secret@h/d", "--out=/home/u/r", "--out", "a/b"];
        let shown = argv(args.map(str::to_owned).into_iter());
        assert_eq!(shown, ["millstream", "lab", "--db", "postgres://u:***@h/d", "--out=r", "--out", "a/b"]);
        let commands = ["lab", "--a", "/bin/gzip -k /data/x", "--b=/bin/zstd /data/x", "--out", "/home/u/r"];
        let shown = argv(commands.map(str::to_owned).into_iter());
        assert_eq!(shown, ["lab", "--a", "/bin/gzip -k /data/x", "--b=/bin/zstd /data/x", "--out", "r"]);
    }
}
