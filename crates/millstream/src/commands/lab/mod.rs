//! `lab`: runs experiments and reports what they measured.

mod drive;
mod guest;
mod load;
mod packets;
pub(super) mod run;

use self::drive::DriveArgs;
use self::load::{AskArgs, CheckTableArgs, CopyArgs, DocumentsArgs};
use self::packets::{PacketsArgs, SendPacketsArgs};
use self::run::{Asked, Format};
use crate::args::TargetArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::secret::masked;
use crate::signal::Signals;
use crate::target::{self, Purpose};
use millstream_lab::Better;
use millstream_lab::experiments::{ChosenMetric, Commands, Request, Selection};
use millstream_lab::guest::Request as GuestRequest;
use millstream_lab::limits::WARM_UP_RUNS_MAX;
use millstream_lab::recorder::{self, Options};
use millstream_model::words::option;
use std::path::{Path, PathBuf};

const RUN_EXAMPLES: &str = "\
Examples:
  millstream lab run ingest --quick
  millstream lab run ingest --set documents=73242 --set bytes=2048
  millstream lab run rivals --arms millstream-durable,recipe-durable --blocks 5
  millstream lab run ladder --postgres 15 --out records/ladder
  millstream lab run my-own.toml
  millstream lab run kernel --guest linux-image-6.1.deb linux-image-6.12.deb
  millstream lab run --a 'gzip -k -f file' --b 'zstd -k -f file'
  millstream lab run --a './old' --b './new' --metric requests,req/s,higher
  millstream lab run --a 'du /srv' --b 'du -x /srv' --prepare sync --warm-up 2

Experiments use a server of the lab's own, and keep its data. With --db they use
your server; they leave databases named lab_.. there. The lab ignores
MILLSTREAM_DB and DATABASE_URL.";

const LIST_EXAMPLES: &str = "\
Examples:
  millstream lab list
  millstream lab list ingest";

const COMPARE_EXAMPLES: &str = "\
Example:
  millstream lab compare a1,a2,a3,a4,a5 b1,b2,b3,b4,b5 --fail-above 5%";

const REPORT_EXAMPLES: &str = "\
Examples:
  millstream lab report lab/records/2026-01-31-2x-example
  millstream lab report record.json --output json
  millstream lab report lab/records/2026-01-31-ladder --html ladder.html";

const RECORDER_EXAMPLES: &str = "\
Example:
  millstream lab recorder --out recording.ndjson";

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

/// Run experiments, record every run and print the report
///
/// The things to compare, called arms, take turns on the same server and data. Each experiment has a record of its own:
/// all numbers and all conditions go to record.json in its directory.
#[derive(Debug, clap::Args)]
#[command(after_help = RUN_EXAMPLES)]
struct RunArgs {
    /// Experiments to run, as `lab list` names them; or your own file, NAME.toml
    #[arg(value_name = "EXPERIMENT", required_unless_present = "a", value_parser = experiment)]
    experiments: Vec<String>,

    /// Value to choose for the experiment: `lab list NAME` shows their names and the usual values
    #[arg(long, value_name = "NAME=VALUE", value_parser = name_and_value, conflicts_with = "a")]
    set: Vec<(String, String)>,

    /// Arms to measure, by their names, or by what their names begin with before a slash [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',', conflicts_with = "a")]
    arms: Vec<String>,

    /// Blocks, in each of which every arm has its turn; with --guest, boots of each kernel
    /// [default: the experiment's, or 1 boot]
    #[arg(long, value_name = "N", conflicts_with = "quick", value_parser = clap::value_parser!(u32).range(1..=200))]
    blocks: Option<u32>,

    /// Seconds of each run with pgbench [default: the experiment's]
    #[arg(long, value_name = "N", conflicts_with = "a", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    seconds: Option<u32>,

    /// Largest scale of pgbench's tables [default: the experiment's]
    #[arg(long, value_name = "N", conflicts_with = "a", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    scale_max: Option<u32>,

    /// PostgreSQL for arms that name none, as a major version or the directory of its
    /// programs [default: the newest installed]
    #[arg(long, value_name = "VERSION", conflicts_with_all = ["db", "a"])]
    postgres: Option<String>,

    /// Compare two command lines, without an experiment: the first. It is split into words as by a shell, and
    /// runs without one
    #[arg(long, value_name = "COMMAND", requires = "b", conflicts_with = "experiments", value_parser = without_password)]
    a: Option<String>,

    /// Compare two command lines: the second
    #[arg(long, value_name = "COMMAND", requires = "a", value_parser = without_password)]
    b: Option<String>,

    /// With --a: run both commands by /bin/sh, for pipes, variables and the like. Its start is measured, too
    #[arg(long, requires = "a")]
    shell: bool,

    /// With --a: what to compare. Of the process: wall_seconds, client_cpu_seconds, client_peak_bytes. Or a number
    /// that both commands print as JSON in their last line, such as {"requests": 7.5}; give its unit and whether
    /// higher or lower is better, unless the lab knows it [default: wall_seconds]
    #[arg(long, value_name = "NAME[,UNIT,higher|lower]", requires = "a", value_parser = metric)]
    metric: Option<ChosenMetric>,

    /// With --a: a shell command to run before each run, which is not measured
    #[arg(long, value_name = "COMMAND", requires = "a", value_parser = without_password)]
    prepare: Option<String>,

    /// With --a: runs of each command before the first block, which do not count [default: 0]
    #[arg(long, value_name = "N", requires = "a", value_parser = clap::value_parser!(u32).range(0..=i64::from(WARM_UP_RUNS_MAX)))]
    warm_up: Option<u32>,

    /// Let an experiment change settings of the server that --db names
    #[arg(long, requires = "db")]
    i_own_this_server: bool,

    /// Let an experiment change this machine, as root: kernel settings, a limit for the server's memory
    /// (which also empties the page cache), a network namespace. All of it is given back at the end, on Ctrl-C, and
    /// after a kill by the next experiment
    #[arg(long)]
    change_host: bool,

    /// An empty directory on another device, to which some arms move the WAL of the lab's
    /// server. It is moved back at the end, on Ctrl-C, and after a kill by the next experiment
    #[arg(long, value_name = "DIR", conflicts_with = "db")]
    wal_dir: Option<PathBuf>,

    /// Percentage of the processors' time that the hypervisor may take before a run is void
    /// [default: 2%]
    #[arg(long, value_name = "PERCENT", value_parser = share)]
    steal_max: Option<f64>,

    /// Boot the kernels of these Debian packages in turn in an emulated machine, where each
    /// boot makes a quick record. That shows that everything works, and says nothing about speed. Needs qemu and busybox
    #[arg(long, value_name = "KERNEL.deb", num_args = 1.., conflicts_with_all = ["db", "a", "set", "arms", "seconds", "scale_max", "change_host", "wal_dir", "steal_max"])]
    guest: Vec<PathBuf>,

    /// With --guest: a directory with the unpacked packages of the programs that the experiment needs [default: the
    /// programs of this machine]
    #[arg(long, value_name = "DIR", requires = "guest")]
    guest_root: Option<PathBuf>,

    /// This is a guest
    #[arg(long, hide = true)]
    in_guest: bool,

    /// Seed for the data and its order
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,

    /// Only check that everything works: one block of short runs with few documents. They prove nothing about speed and
    /// are never void
    #[arg(long)]
    quick: bool,

    /// Directory of the record [default: DATE-MACHINE in lab/records if that exists, else in
    /// millstream-records]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Database server to measure on [default: a server of the lab's own]
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

    /// Form of the report
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,

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
    match run::is_experiment(name) {
        true => Ok(name.to_owned()),
        false => Err("there is no such experiment; `millstream lab list` lists them".to_owned()),
    }
}

/// A metric that the lab knows by its name, or one with its unit and the direction that is better.
fn metric(text: &str) -> Result<ChosenMetric, String> {
    let own = |why: String| format!("{why}; a metric of your own is NAME,UNIT,higher or NAME,UNIT,lower");
    match *text.split(',').map(str::trim).collect::<Vec<_>>() {
        [name] => ChosenMetric::known(name).map_err(own),
        [name, unit, "higher"] => ChosenMetric::own(name, unit, Better::Higher, ""),
        [name, unit, "lower"] => ChosenMetric::own(name, unit, Better::Lower, ""),
        _ => Err("give NAME, or NAME,UNIT,higher or NAME,UNIT,lower".to_owned()),
    }
}

/// A text that goes into the record, as it is.
fn without_password(text: &str) -> Result<String, String> {
    match masked(text) == text {
        true => Ok(text.to_owned()),
        false => Err("the record would hold the password; give it in a variable such as PGPASSWORD".to_owned()),
    }
}

fn name_and_value(text: &str) -> Result<(String, String), String> {
    let text = without_password(text)?;
    let (name, value) = text.split_once('=').ok_or("give NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Runs the command.
pub async fn run(args: &LabArgs, output: Output, signals: Signals) -> Result<Exit, Failure> {
    match &args.command {
        LabCommand::List(ListArgs { experiment: None }) => run::list(output),
        LabCommand::List(ListArgs { experiment: Some(name) }) => run::describe(name, output),
        LabCommand::Compare(args) => run::compare(&args.before, &args.after, args.fail_above, output),
        LabCommand::Run(args) => run_experiments(args, output, signals).await,
        LabCommand::Report(args) => match &args.html {
            Some(file) => run::report_page(&args.record, file),
            None => run::report(&args.record, args.format, output),
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
    }
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

async fn run_experiments(args: &RunArgs, output: Output, signals: Signals) -> Result<Exit, Failure> {
    if !args.guest.is_empty() {
        return run_in_guests(args, output, &signals).await;
    }
    let db = match &args.db {
        None => None,
        Some(_) => {
            let target = TargetArgs { db: args.db.clone(), ..TargetArgs::default() };
            Some(target::resolve(&target, Purpose::Show).await?)
        }
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
        postgres: args.postgres.as_deref().map(postgres).transpose()?,
        steal_percent_max: args.steal_max,
        program: std::env::current_exe().ok(),
    };
    let commands = args.a.clone().zip(args.b.clone()).map(|(a, b)| Commands {
        a,
        b,
        metric: args.metric.clone(),
        prepare: args.prepare.clone(),
        warm_up_runs: args.warm_up.unwrap_or(0),
        shell: args.shell,
    });
    if let Some(name) = commands.as_ref().and_then(Commands::missing_program) {
        return Err(Failure::user(format!("there is no program {name} in PATH"))
            .hint(format!("{} runs the commands by a shell, which knows some words more", option("shell"))));
    }
    let (experiments, out) = (&args.experiments, args.out.as_deref());
    let scale_max = args.scale_max;
    let is_guest = args.in_guest;
    let selection = Selection {
        values: args.set.iter().cloned().collect(),
        quick: args.quick,
        seed: args.seed,
        arms: args.arms.clone(),
    };
    let asked =
        Asked { experiments, commands, selection, request, scale_max, is_guest, out, argv: argv(std::env::args()) };
    run::run(asked, output, &signals).await
}

/// The path of a directory from the root.
fn absolute(dir: &Path) -> Result<PathBuf, Failure> {
    dir.canonicalize().map_err(|error| Failure::user(format!("cannot find {}", dir.display())).because(&error))
}

/// A PostgreSQL as it was asked for: a major version, or a directory by its path from the root, because its programs do not
/// all run in this one.
fn postgres(asked: &str) -> Result<String, Failure> {
    if asked.parse::<u32>().is_ok() || Path::new(asked).is_absolute() {
        return Ok(asked.to_owned());
    }
    Ok(absolute(Path::new(asked))?.display().to_string())
}

/// Options whose value is a command line, which is kept as it is.
const COMMANDS: [&str; 3] = ["--a", "--b", "--prepare"];

/// The command line in a form that can be published: without passwords and without directories of files.
fn argv(args: impl Iterator<Item = String>) -> Vec<String> {
    let (mut is_command, mut is_set) = (false, false);
    args.map(|arg| {
        let holds = |name: &&str| arg.strip_prefix(*name).is_some_and(|rest| rest.starts_with('='));
        if std::mem::replace(&mut is_command, COMMANDS.contains(&arg.as_str())) || COMMANDS.iter().any(holds) {
            return masked(&arg).into_owned();
        }
        let is_value = std::mem::replace(&mut is_set, arg == "--set");
        let (name, value) = match arg.split_once('=').filter(|_| is_value || arg.starts_with("--")) {
            Some((name, value)) => (format!("{name}="), value),
            None => (String::new(), arg.as_str()),
        };
        let file = Path::new(value).file_name().filter(|_| value.starts_with('/'));
        let value = file.map_or_else(|| masked(value), std::ffi::OsStr::to_string_lossy);
        name + &value
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_is_known_or_has_its_unit_and_direction() {
        assert_eq!(metric("client_peak_bytes").unwrap().metric().unit, "B");
        let own = metric("requests, req/s, higher").unwrap();
        assert_eq!((own.as_str(), own.metric().better), ("requests", Better::Higher));
        assert!(metric("requests").unwrap_err().ends_with("NAME,UNIT,higher or NAME,UNIT,lower"));
        assert!(metric("requests,req/s,faster").unwrap_err().starts_with("give NAME"));
    }

    #[test]
    fn a_directory_of_postgresql_is_named_from_the_root() {
        assert_eq!([postgres("15"), postgres("/opt/x")].map(Result::unwrap), ["15", "/opt/x"]);
        assert!(Path::new(&postgres(".").unwrap()).is_absolute());
        assert!(postgres("no/such/directory").is_err());
    }

    #[test]
    fn a_recorded_command_holds_no_directory_and_no_password() {
        let args = [
            "/opt/x/millstream",
            "lab",
            "--db",
            "postgres://u:secret@h/d",
            "--out=/home/u/r",
            "--set",
            "python=/home/u/p",
        ];
        let shown = argv(args.map(str::to_owned).into_iter());
        assert_eq!(shown, ["millstream", "lab", "--db", "postgres://u:***@h/d", "--out=r", "--set", "python=p"]);
        assert!(without_password("psql postgres://u:secret@h/d").is_err() && without_password("psql -h h").is_ok());
        let commands = ["lab", "--a", "/bin/gzip -k /data/x", "--b=/bin/zstd /data/x", "--out", "/home/u/r"];
        let shown = argv(commands.map(str::to_owned).into_iter());
        assert_eq!(shown, ["lab", "--a", "/bin/gzip -k /data/x", "--b=/bin/zstd /data/x", "--out", "r"]);
    }
}
