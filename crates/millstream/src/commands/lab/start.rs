//! `lab run`, as a command line: for experiments, for two command lines, or for an experiment in guests.

use super::experiment;
use super::guest;
use super::percent;
use super::run::{self, Asked};
use crate::args::TargetArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::secret::masked;
use crate::signal::Signals;
use crate::target::{self, Purpose};
use clap::{Command, Id};
use millstream_lab::Better;
use millstream_lab::experiments::{ChosenMetric, Commands, Request, Selection};
use millstream_lab::guest::Request as GuestRequest;
use millstream_lab::limits::{LINEUP_SIDES_MAX, WARM_UP_RUNS_MAX};
use millstream_pg::ConnInfo;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const RUN_EXAMPLES: &str = "\
Examples:
  millstream lab run ingest --quick
  millstream lab run ingest --set documents=73242 --set bytes=2048
  millstream lab run rivals --arms millstream-durable,recipe-durable --blocks 5
  millstream lab run ladder --postgres 15 --out records/ladder
  millstream lab run rate-limit --set rate=100 --set limit=100 --html page.html
  millstream lab run my-own.toml
  millstream lab run kernel --guest linux-image-6.1.deb linux-image-6.12.deb
  millstream lab run kernel --kernels debs --html kernels.html
  millstream lab run --a 'gzip -k -f file' --b 'zstd -k -f file'
  millstream lab run --a './old' --b './new' --metric requests,req/s,higher
  millstream lab run --a 'du /srv' --b 'du -x /srv' --prepare sync --warm-up 2

Experiments use a server of the lab's own, and keep its data. With --db they use
your server; they leave databases named lab_.. there. The lab ignores
MILLSTREAM_DB and DATABASE_URL.";

/// The options of a form of the command, which other forms refuse.
fn options_of<T: clap::Args>() -> Vec<Id> {
    let command = T::augment_args(Command::new("run"));
    command.get_arguments().map(|option| option.get_id().clone()).collect()
}

/// What two command lines have no use for: it is of experiments.
fn not_of_commands() -> Vec<Id> {
    [options_of::<ChosenArgs>(), options_of::<GuestsArgs>(), vec![Id::from("experiments")]].concat()
}

/// What a guest decides itself. It takes the PostgreSQL that is chosen.
fn not_of_guests() -> Vec<Id> {
    let mut all = options_of::<ChosenArgs>();
    all.retain(|option| option != "postgres");
    all.push(Id::from("steal_max"));
    all
}

/// Run experiments, record every run and print the report
///
/// The things to compare, called arms, take turns on the same server and data. Each experiment has a record of its own:
/// all numbers and all conditions go to record.json in its directory.
#[derive(Debug, clap::Args)]
#[command(after_help = RUN_EXAMPLES)]
pub struct RunArgs {
    /// Experiments to run, as `lab list` names them; or your own file, NAME.toml
    #[arg(value_name = "EXPERIMENT", required_unless_present = "a", value_parser = experiment)]
    experiments: Vec<String>,

    #[command(flatten)]
    chosen: ChosenArgs,

    /// Blocks, in each of which every arm has its turn; with --guest, boots of each kernel
    /// [default: the experiment's, or 1 boot]
    #[arg(long, value_name = "N", conflicts_with = "quick", value_parser = clap::value_parser!(u32).range(1..=200))]
    blocks: Option<u32>,

    /// Percentage of the processors' time that the hypervisor may take before a run is void
    /// [default: 2%]
    #[arg(long, value_name = "PERCENT", value_parser = share)]
    steal_max: Option<f64>,

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

    /// Also write the report to this file, as a page that needs no network; of several kernels in guests, one page with all
    /// of them in one chart each
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    #[command(flatten)]
    commands: CommandsArgs,

    #[command(flatten)]
    guests: GuestsArgs,

    /// This is a guest
    #[arg(long, hide = true)]
    in_guest: bool,
}

/// What is chosen of experiments, and where they run.
#[derive(Debug, clap::Args)]
struct ChosenArgs {
    /// Value to choose for the experiment: `lab list NAME` shows their names, the usual values and what they change. A
    /// value that changes nothing is an error
    #[arg(long, value_name = "NAME=VALUE", value_parser = name_and_value)]
    set: Vec<(String, String)>,

    /// Arms to measure, by their names, or by what their names begin with before a slash [default: all]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    arms: Vec<String>,

    /// Seconds of each run with pgbench [default: the experiment's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    seconds: Option<u32>,

    /// Largest scale of pgbench's tables, less than that of the experiment [default: the experiment's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    scale_max: Option<u32>,

    /// PostgreSQL for arms that name none, as a major version or the directory of its
    /// programs [default: the newest installed]
    #[arg(long, value_name = "VERSION", conflicts_with = "db")]
    postgres: Option<String>,

    /// Database server to measure on [default: a server of the lab's own]
    #[arg(long, value_name = "URL")]
    db: Option<String>,

    /// Let an experiment change settings of the server that --db names
    #[arg(long, requires = "db")]
    i_own_this_server: bool,

    /// Let an experiment change this machine, as root: kernel settings, a limit for the server's memory
    /// (which also empties the page cache), a network namespace, a slow disk. All of it is given back at the end, on
    /// Ctrl-C, and after a kill by the next experiment
    #[arg(long)]
    change_host: bool,

    /// An empty directory on another device, to which some arms move the WAL of the lab's
    /// server. It is moved back at the end, on Ctrl-C, and after a kill by the next experiment
    #[arg(long, value_name = "DIR", conflicts_with = "db")]
    wal_dir: Option<PathBuf>,
}

/// Two command lines to compare instead.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Two commands")]
struct CommandsArgs {
    /// Compare two command lines, without an experiment: the first. It is split into words as by a shell, and
    /// runs without one
    #[arg(long, value_name = "COMMAND", requires = "b", conflicts_with_all = not_of_commands(), value_parser = without_password)]
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
}

/// Kernels under which an experiment runs instead.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Guests")]
struct GuestsArgs {
    /// Boot the kernels of these Debian packages in turn in an emulated machine, where each
    /// boot makes a quick record. That shows that everything works, and says nothing about speed. Needs qemu and busybox
    #[arg(long, value_name = "KERNEL.deb", num_args = 1.., conflicts_with_all = not_of_guests(), group = BOOTED)]
    guest: Vec<PathBuf>,

    /// As --guest, for every kernel in a directory: the packages linux-image-*.deb
    #[arg(long, value_name = "DIR", conflicts_with_all = not_of_guests(), group = BOOTED)]
    kernels: Option<PathBuf>,

    /// With --guest or --kernels: a directory with the unpacked packages of the programs that the experiment needs
    /// [default: the programs of this machine]
    #[arg(long, value_name = "DIR", requires = BOOTED)]
    guest_root: Option<PathBuf>,
}

/// The options that name kernels, of which one is given.
const BOOTED: &str = "booted";

impl RunArgs {
    /// What is chosen of an experiment.
    ///
    /// # Errors
    /// A value is chosen twice.
    fn selection(&self) -> Result<Selection, Failure> {
        let mut values = BTreeMap::new();
        for (name, value) in &self.chosen.set {
            if let Some(earlier) = values.insert(name.clone(), value.clone()) {
                let why = format!("--set chooses {name} twice: {name}={earlier} and {name}={value}");
                return Err(Failure::user(why).hint("leave out one of them"));
            }
        }
        Ok(Selection { values, quick: self.quick, seed: self.seed, arms: self.chosen.arms.clone() })
    }
}

impl CommandsArgs {
    /// The two commands.
    ///
    /// # Errors
    /// A program of theirs is not there.
    fn commands(&self) -> Result<Option<Commands>, Failure> {
        let Some((a, b)) = self.a.clone().zip(self.b.clone()) else { return Ok(None) };
        let Self { metric, prepare, shell, warm_up, .. } = self;
        let (metric, prepare, warm_up_runs) = (metric.clone(), prepare.clone(), warm_up.unwrap_or(0));
        let commands = Commands { a, b, metric, prepare, warm_up_runs, shell: *shell };
        match commands.missing_program() {
            None => Ok(Some(commands)),
            Some(name) => Err(Failure::user(format!("there is no program {name} in PATH"))
                .hint("--shell runs the commands by a shell, which knows some words more")),
        }
    }
}

impl ChosenArgs {
    /// The server of the user's, if one is named.
    async fn server(&self) -> Result<Option<ConnInfo>, Failure> {
        let Some(db) = &self.db else { return Ok(None) };
        let target = TargetArgs { db: Some(db.clone()), ..TargetArgs::default() };
        Ok(Some(target::resolve(&target, Purpose::Show).await?))
    }
}

/// Runs what is asked for.
pub async fn start(args: &RunArgs, output: Output, signals: Signals) -> Result<Exit, Failure> {
    if !args.guests.guest.is_empty() || args.guests.kernels.is_some() {
        return in_guests(args, output, &signals).await;
    }
    let RunArgs { experiments, chosen, quick, seed, .. } = args;
    let request = Request {
        blocks: args.blocks,
        seconds: chosen.seconds,
        quick: *quick,
        seed: *seed,
        db: chosen.server().await?,
        may_change: chosen.i_own_this_server,
        change_host: chosen.change_host,
        wal_dir: chosen.wal_dir.as_deref().map(absolute).transpose()?,
        postgres: chosen.postgres.as_deref().map(postgres).transpose()?,
        steal_percent_max: args.steal_max,
        program: std::env::current_exe().ok(),
    };
    let asked = Asked {
        experiments,
        commands: args.commands.commands()?,
        selection: args.selection()?,
        request,
        scale_max: chosen.scale_max,
        is_guest: args.in_guest,
        out: args.out.as_deref(),
        html: args.html.as_deref(),
        argv: argv(std::env::args()),
    };
    run::run(asked, output, &signals).await
}

async fn in_guests(args: &RunArgs, output: Output, signals: &Signals) -> Result<Exit, Failure> {
    let [experiment] = args.experiments.as_slice() else {
        return Err(Failure::user("guests run one experiment").hint("run them one by one"));
    };
    let program = std::env::current_exe().map_err(|error| Failure::user("cannot find this program").because(&error))?;
    let packages = match &args.guests.kernels {
        Some(dir) => kernels(dir)?,
        None => args.guests.guest.clone(),
    };
    args.html.as_deref().map_or(Ok(()), run::can_be_written)?;
    // Not after hours of boots.
    if args.html.is_some() && packages.len() > LINEUP_SIDES_MAX {
        let why = format!("a page has at most {LINEUP_SIDES_MAX} kernels, not {}", packages.len());
        return Err(Failure::user(why).hint("leave some out, or leave out --html"));
    }
    let request = GuestRequest {
        packages: &packages,
        boots: args.blocks.unwrap_or(1),
        experiment,
        seed: args.seed,
        postgres: args.chosen.postgres.as_deref(),
        root: args.guests.guest_root.as_deref(),
        program: &program,
    };
    guest::run(request, args.out.as_deref(), args.html.as_deref(), output, signals).await
}

/// The packages of kernels in a directory, the oldest kernel first.
fn kernels(dir: &Path) -> Result<Vec<PathBuf>, Failure> {
    let entries = std::fs::read_dir(dir).map_err(Failure::cannot("read", dir))?;
    let is_kernel = |name: &str| {
        let rest = name.strip_prefix("linux-image-").and_then(|name| name.strip_suffix(".deb"));
        rest.is_some_and(|rest| rest.starts_with(|one: char| one.is_ascii_digit()) && !rest.contains("-dbg"))
    };
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.filter(|name| is_kernel(name)).collect();
    names.sort_by_key(|name| guest::version(name));
    if names.is_empty() {
        let why = format!("there is no package linux-image-*.deb in {}", dir.display());
        return Err(Failure::user(why).hint("apt-get download linux-image-6.1.0-53-cloud-amd64 fetches one"));
    }
    Ok(names.iter().map(|name| dir.join(name)).collect())
}

/// A percentage of a whole, with or without its sign.
fn share(text: &str) -> Result<f64, String> {
    percent(text).ok().filter(|share| *share <= 100.0).ok_or_else(|| "give a number up to 100, such as 5%".to_owned())
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
    use clap::Parser;
    use millstream_lab::experiments::Source;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        run: RunArgs,
    }

    fn parsed(words: &str) -> Result<RunArgs, String> {
        let words = ["run"].into_iter().chain(words.split_whitespace());
        Line::try_parse_from(words).map(|line| line.run).map_err(|error| error.to_string())
    }

    #[test]
    fn each_form_of_the_command_has_options_of_its_own() {
        let (experiment, commands, guest) = ("ladder", "--a true --b true", "ladder --guest a.deb");
        for (option, is_of_commands, is_of_guest) in [
            ("--set x=1", false, false),
            ("--arms socket", false, false),
            ("--seconds 1", false, false),
            ("--scale-max 1", false, false),
            ("--db postgres://h/d", false, false),
            ("--db postgres://h/d --i-own-this-server", false, false),
            ("--change-host", false, false),
            ("--wal-dir d", false, false),
            ("--postgres 15", false, true),
            ("--steal-max 5%", true, false),
            ("--blocks 2", true, true),
            ("--html page.html", true, true),
            ("--seed 7 --quick --out d", true, true),
        ] {
            for (form, is_its_own) in [(experiment, true), (commands, is_of_commands), (guest, is_of_guest)] {
                let line = format!("{form} {option}");
                match parsed(&line) {
                    Ok(_) => assert!(is_its_own, "{line}"),
                    Err(why) => assert!(!is_its_own && why.contains("cannot be used with"), "{line}: {why}"),
                }
            }
        }
    }

    #[test]
    fn values_and_arms_in_the_guides_are_those_of_the_experiments() {
        let (mut seen, mut with_page) = (0, 0);
        for line in crate::guide_line::pages().into_iter().flat_map(|(_, lines, _)| lines) {
            let Some(options) = line.text.strip_prefix("millstream lab run ") else { continue };
            let words = shlex::split(options).unwrap();
            let line_of = Line::try_parse_from(["run".to_owned()].into_iter().chain(words));
            let args = line_of.unwrap_or_else(|error| panic!("{}: {error}", line.at)).run;
            let selection = args.selection().unwrap();
            for name in args.experiments.iter().filter(|name| !name.contains('.')) {
                let source = Source::named(name, &selection);
                let mut source = source.unwrap_or_else(|error| panic!("{}: {error}", line.at));
                let mut request = Request { seconds: args.chosen.seconds, ..Request::default() };
                let applied = source.experiment.apply(&mut request, &selection, args.chosen.scale_max);
                applied.unwrap_or_else(|error| panic!("{}: {error}", line.at));
                seen += 1;
                with_page += usize::from(line.at.contains("articles.md") && args.html.is_some());
            }
        }
        assert!(seen > 25 && with_page > 20, "{seen} {with_page}");
    }

    #[test]
    fn an_option_of_one_form_needs_that_form() {
        for line in [
            "",
            "--a true",
            "--b true",
            "ladder --shell",
            "ladder --metric wall_seconds",
            "ladder --prepare sync",
            "ladder --warm-up 1",
            "ladder --guest-root d",
            "ladder --quick --guest-root d",
            "ladder --i-own-this-server",
        ] {
            let why = parsed(line).unwrap_err();
            assert!(why.contains("required arguments"), "{line}: {why}");
        }
        for line in ["ladder --a true --b true", "--guest a.deb --a true --b true", "ladder --quick --blocks 2"] {
            let why = parsed(line).unwrap_err();
            assert!(why.contains("cannot be used with"), "{line}: {why}");
        }
        let RunArgs { commands, .. } = parsed("--a true --b false --shell --warm-up 3").unwrap();
        let found = commands.commands().ok().flatten().unwrap();
        assert_eq!((found.a.as_str(), found.b.as_str(), found.shell, found.warm_up_runs), ("true", "false", true, 3));
    }

    #[test]
    fn kernels_of_a_directory_come_in_the_order_of_their_versions() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["6.12.0-1_amd64", "6.1.0-9_amd64", "6.1.0-9-dbg_amd64", "amd64_6"] {
            std::fs::write(dir.path().join(format!("linux-image-{name}.deb")), "").unwrap();
        }
        std::fs::write(dir.path().join("other.deb"), "").unwrap();
        let found = kernels(dir.path()).ok().unwrap();
        let expected =
            ["6.1.0-9_amd64", "6.12.0-1_amd64"].map(|name| dir.path().join(format!("linux-image-{name}.deb")));
        assert_eq!(found, expected);
        let empty = tempfile::tempdir().unwrap();
        assert!(kernels(empty.path()).is_err() && kernels(&empty.path().join("none")).is_err());
        let both = parsed("kernel --kernels d --guest a.deb").unwrap_err();
        assert!(both.contains("cannot be used with"), "{both}");
        assert!(parsed("kernel --kernels d --guest-root r --html page.html").is_ok());
    }

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
