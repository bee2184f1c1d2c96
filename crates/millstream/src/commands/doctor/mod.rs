//! `doctor`: examines a server, explains its checks, applies repairs and takes them back.

mod fix;
mod looks;
mod measure;
mod profile;
mod tables;
mod watch;

pub(super) use tables::marked;

use crate::args::{TargetArgs, duration};
use crate::changes::{self, KINDS};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, note, write_page};
use crate::signal::Signals;
use crate::target::resolve_running;
use looks::Earlier;
use millstream_doctor::limits::SETTINGS_BYTES_MAX;
use millstream_doctor::{CHECKS, Check, Request, RunOptions, Settings, examine, html, list, manual, preset, text};
use millstream_host::{check_ours, read_at_most, shell_word};
use millstream_model::Level;
use millstream_pg::{ConnInfo, Environment};
use std::path::{Path, PathBuf};
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  millstream doctor
  millstream doctor --db postgres://monitor@db1/shop --fail-on critical
  millstream doctor --check wraparound,dead-tuples --output json
  millstream doctor --preset triage
  millstream doctor --html report.html --since yesterday.json
  millstream doctor --check missed-index --plan-as app_role
  millstream doctor explain dead-tuples
  millstream doctor fix durability-off:fsync --confirm-within 60s";

/// Say what is wrong with a PostgreSQL server, how that is known, and what to do
///
/// Without a subcommand, the doctor only reads: its transactions are read-only, it waits at most a tenth of a second for a lock,
/// and it stops after --budget. A role with the rights of pg_monitor sees most of what the checks need. What a check
/// cannot see is listed with the reason.
///
/// Each finding is a fact, arithmetic from this server's own counters, or a hypothesis that must be measured first.
/// Exits with 1 if a finding is at least as bad as --fail-on says.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct DoctorArgs {
    #[command(subcommand)]
    command: Option<DoctorCommand>,

    /// Run only these checks
    #[arg(long = "check", value_name = "ID[,ID..]", value_delimiter = ',')]
    checks: Vec<String>,

    /// Run only the checks that answer a question
    #[arg(long, value_name = "QUESTION", conflicts_with = "checks")]
    preset: Option<Question>,

    /// Explain the notes about the machine, too
    #[arg(long)]
    all: bool,

    /// Examine only the database that --db names, not all of the server
    #[arg(long)]
    one_database: bool,

    /// Stop looking after this time; checks that were not reached are listed
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    budget: Duration,

    /// Plan the statements that took the most time, to see which indexes they miss; run `select distinct` and its
    /// rewrite, and read some JSON documents
    #[arg(long)]
    prove: bool,

    /// Plan as --prove does, in a session of this role; a superuser must name a role
    #[arg(long, value_name = "ROLE")]
    plan_as: Option<String>,

    /// Exit with 1 if a finding is at least this bad
    #[arg(long, value_name = "LEVEL", default_value = "warning")]
    fail_on: FailOn,

    /// File with thresholds and silenced findings [default: doctor.toml, if it is there]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Compare with an earlier report, made with --output json, or with the oldest look of `doctor watch --record`
    #[arg(long, value_name = "FILE")]
    since: Option<PathBuf>,

    /// Write the report as one page to this file, too
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    #[command(flatten)]
    target: TargetArgs,
}

/// What else the doctor does.
#[derive(Debug, clap::Subcommand)]
enum DoctorCommand {
    Explain(ExplainArgs),
    Fix(fix::FixArgs),
    Confirm(changes::ConfirmArgs),
    Undo(changes::UndoArgs),
    /// List the changes that doctor, guard and network have made, and the state of each
    #[command(after_help = "Example:\n  millstream doctor changes --output json")]
    Changes,
    Watch(watch::WatchArgs),
    Tables(tables::TablesArgs),
    #[command(hide = true)]
    UndoInTime(changes::UndoInTimeArgs),
}

/// Print what a check looks for, how, and what to do
///
/// Without ID, list all checks.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  millstream doctor explain\n  millstream doctor explain dead-tuples")]
struct ExplainArgs {
    /// Name of the check
    id: Option<String>,
}

/// A level, as an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum FailOn {
    /// Any finding
    Info,
    /// What costs something, or will
    Warning,
    /// Data in danger, or a server that will stop
    Critical,
    /// Never
    Never,
}

/// A preset, as an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Question {
    /// Why is the server slow or in danger now?
    Triage,
    /// Is a new version of the program or of its schema sound?
    Deploy,
    /// What grows slowly?
    Weekly,
}

impl Question {
    /// Names of the checks that answer it.
    fn checks(self) -> Vec<String> {
        let names = match self {
            Self::Triage => preset::TRIAGE.to_vec(),
            Self::Deploy => preset::DEPLOY.to_vec(),
            Self::Weekly => preset::weekly(),
        };
        names.into_iter().map(str::to_owned).collect()
    }
}

/// Time between two looks at the statements, from which their shares of the time are taken.
const LOOKS_APART: Duration = Duration::from_secs(1);

/// Runs the command.
pub async fn run(args: &DoctorArgs, output: Output, signals: &Signals) -> Result<Exit, Failure> {
    match &args.command {
        Some(DoctorCommand::Explain(explain)) => return explained(explain.id.as_deref(), output),
        Some(DoctorCommand::Fix(args)) => {
            return match args.profile {
                Some(name) => Box::pin(profile::apply(args, name, output)).await,
                None => Box::pin(fix::fix(args, output, signals)).await,
            };
        }
        Some(DoctorCommand::Confirm(args)) => return changes::confirm(args).await,
        Some(DoctorCommand::Undo(args)) => return changes::undo(args).await,
        Some(DoctorCommand::Changes) => return changes::changes(output),
        Some(DoctorCommand::Watch(args)) => return Box::pin(watch::watch(args, output, signals)).await,
        Some(DoctorCommand::Tables(args)) => return Box::pin(tables::list(args, output)).await,
        Some(DoctorCommand::UndoInTime(args)) => return changes::undo_in_time(args, output).await,
        None => changes::note_open(),
    }
    if let Some(other) = args.checks.iter().find(|id| check(id).is_none()) {
        return Err(unknown(other));
    }
    let settings = settings(args.config.as_deref())?;
    let earlier = args.since.as_deref().map(Earlier::read).transpose()?;
    let db = resolve_running(&args.target).await?;
    let planner = planner(args.prove, args.plan_as.as_deref(), &db);
    let options = run_options(args, &db)?;
    let request = Request {
        db,
        checks: args.preset.map_or_else(|| args.checks.clone(), Question::checks),
        one_database: args.one_database,
        key: None,
        budget: args.budget,
        settings,
        planner,
        looks_apart: Some(LOOKS_APART),
        earlier: earlier.as_ref().and_then(Earlier::snapshot).cloned(),
        today: today(),
        kinds: KINDS,
        root: None,
    };
    let report = examine(&request).await?;
    let report = match &earlier {
        Some(earlier) => earlier.compared(report)?,
        None => report,
    };
    if output.is_json() {
        output.json(&report)?;
    } else {
        // Who asks for a check wants to read what it finds.
        output.line(text(&report, args.all || !args.checks.is_empty(), &options).trim_end())?;
    }
    if let Some(path) = &args.html {
        write_page(path, &html(&report, &options))?;
    }
    let level = match args.fail_on {
        FailOn::Info => Level::Info,
        FailOn::Warning => Level::Warning,
        FailOn::Critical => Level::Critical,
        FailOn::Never => return Ok(Exit::Done),
    };
    Ok(if report.has(level) { Exit::Findings } else { Exit::Done })
}

/// The options of this run, for commands that are printed. An address that a variable names is there for them, too.
fn run_options(args: &DoctorArgs, db: &ConnInfo) -> Result<RunOptions, Failure> {
    let typed = args.target.db.as_deref().map(|text| db.without_password(text)).transpose()?;
    let (address, lacks_password) = typed.unzip();
    let config = args.config.as_ref().map(|path| format!("--config {}", shell_word(&path.display())));
    let role = args.plan_as.as_ref().map(|role| format!("--plan-as {}", shell_word(role)));
    Ok(RunOptions {
        server: address.map(|text| format!("--db {}", shell_word(&text))),
        others: config.into_iter().chain(args.prove.then(|| "--prove".to_owned())).chain(role).collect(),
        lacks_password: lacks_password.unwrap_or(false),
    })
}

/// How the role logs in that plans statements, if they are to be planned.
fn planner(is_proven: bool, role: Option<&str>, db: &ConnInfo) -> Option<ConnInfo> {
    match role {
        Some(role) => Some(db.as_role(role, &Environment::from_process())),
        None => is_proven.then(|| db.clone()),
    }
}

fn today() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%d").to_string()
}

fn check(id: &str) -> Option<&'static Check> {
    CHECKS.iter().find(|check| check.id == id)
}

fn unknown(id: &str) -> Failure {
    Failure::user(format!("there is no check {id}")).hint("millstream doctor explain lists all checks")
}

fn settings(given: Option<&Path>) -> Result<Settings, Failure> {
    let usual = Path::new("doctor.toml");
    let path = match given {
        Some(path) => path,
        None if !usual.exists() => return Ok(Settings::default()),
        None => match check_ours(usual) {
            Ok(_) => usual,
            // In a directory such as /tmp, everybody could silence what the doctor finds.
            Err(why) => {
                note(&format!("doctor.toml is not used: {why}; to use it all the same, add --config doctor.toml"));
                return Ok(Settings::default());
            }
        },
    };
    Settings::parse(&read_at_most(path, SETTINGS_BYTES_MAX, None)?)
        .map_err(|why| Failure::user(format!("{}: {why}", path.display())))
}

fn explained(id: Option<&str>, output: Output) -> Result<Exit, Failure> {
    match id {
        Some(id) => output.line(manual(check(id).ok_or_else(|| unknown(id))?).trim_end())?,
        None => output.line(list(CHECKS).trim_end())?,
    }
    Ok(Exit::Done)
}
