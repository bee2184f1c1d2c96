//! The real pgbench: finds it, and runs it as a process.

use super::arm::{BUILTIN, Setup, word};
use super::cluster::Trouble;
use super::command::{self, PGBENCH};
use super::files::Source;
use super::log::Log;
use super::output::Summary;
use super::scratch;
use super::via::Via;
use crate::core::statistics::WarmUp;
use crate::core::{Measures, libpq};
use crate::error::Error;
use crate::limits::{LOG_FILES_MAX, RUN_SLACK};
use millstream_host::{Command, Measured, Sandbox, write_whole};
use millstream_pg::ConnInfo;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Weak;
use tempfile::TempDir;

/// pgbench beside a server.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    path: PathBuf,
    /// What it says of its version.
    pub(crate) version: String,
    /// Where it runs if the server is reached from there.
    pub(crate) second_network: Weak<Sandbox>,
}

/// What pgbench runs: the scripts of an experiment as a setup says, in a database.
pub(crate) type Load<'a> = (&'a Source, &'a Setup, &'a ConnInfo);

/// How long a run is, and with which random numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Length {
    /// Seconds, with the warm-up.
    pub(crate) seconds: u32,
    /// Seconds of the warm-up; `None` if its end is to be found.
    pub(crate) warm_up: Option<f64>,
    /// Seed of the random numbers.
    pub(crate) seed: u64,
}

impl Program {
    /// pgbench of a server, else that in `PATH`.
    ///
    /// # Errors
    /// [`Error::Missing`] with what to install.
    pub(crate) async fn find(own: Option<PathBuf>) -> Result<Self, Error> {
        let path = own.unwrap_or_else(|| PathBuf::from(PGBENCH));
        let measured = Command::new(&path).arg("--version").measure(RUN_SLACK).await;
        let asked = measured.and_then(|measured| measured.ended.succeeded());
        let hint = "install PostgreSQL with its contrib programs (Debian and Ubuntu: postgresql-15), or name another \
                    one in an experiment with postgres = \"DIRECTORY\"; a downloaded PostgreSQL has no pgbench";
        let missing = |why| Error::Missing { tool: "pgbench", why, hint: hint.to_owned() };
        let ended = asked.map_err(|error| missing(error.to_string()))?;
        Ok(Self { path, version: command::short(ended.stdout.trim()), second_network: Weak::new() })
    }

    /// A command for this database, in the second network if the database is reached from there.
    pub(crate) fn command(&self, db: &ConnInfo, via: Via) -> Command {
        let mut command = match self.second_network.upgrade() {
            Some(network) if via == Via::Veth => network.command(0, &self.path),
            _ => Command::new(&self.path),
        };
        libpq::lead(&mut command, db);
        command
    }

    /// Runs pgbench to its end as a setup says, with more options. Returns the directory of its log, too.
    async fn run(
        &self,
        (source, setup, db): Load<'_>,
        seconds: u32,
        with_log: bool,
        options: &[&str],
    ) -> Result<(Measured, TempDir), Trouble> {
        let dir = scratch::for_a_run()?;
        let mut command = self.command(db, setup.via.unwrap_or_default());
        self.arguments(&mut command, source, setup, dir.path())?;
        if with_log {
            command.args(["-P", "1", "-l", "--log-prefix"]).arg(dir.path().join("log"));
        }
        let measured = command::pgbench(command.args(options).arg(&db.dbname), seconds).await?;
        Ok((measured, dir))
    }

    /// Runs the scripts of a setup for a time and reads the log.
    pub(crate) async fn measure(&self, load: Load<'_>, length: Length) -> Result<Measures, Trouble> {
        let (_, setup, _) = load;
        let seed = u32::try_from(length.seed % u64::from(u32::MAX)).unwrap_or(1);
        let options = ["-T", &length.seconds.to_string(), "--random-seed", &seed.to_string()];
        let (measured, dir) = self.run(load, length.seconds, true, &options).await?;
        let mut log = Log::new(length.warm_up.unwrap_or(0.0));
        for path in logs(dir.path())? {
            let file = File::open(&path).map_err(Error::io("read", &path))?;
            let read = log.read(BufReader::new(file)).map_err(|error| format!("its log cannot be used: {error}"));
            read.map_err(|why| Error::Program { program: PGBENCH, why })?;
        }
        let detected = length.warm_up.is_none().then(|| WarmUp::of(&log.per_second()));
        let found = length.warm_up.or_else(|| detected.as_ref().and_then(warm_up));
        log.cut(found.unwrap_or(0.0));
        let mut measures = log.measures(setup.latency_limit_ms());
        let too_short = matches!(detected, Some(WarmUp::TooShort));
        if detected.is_some() && !too_short {
            measures.set("steady_seconds", found.or(Some(length.seconds.into())));
        }
        if found.is_none() {
            measures.notes.push("the run never became steady, so all of it counts".to_owned());
        }
        let summary = Summary::parse(&measured.ended.stdout, setup);
        measures.set("connect_ms", summary.connect_ms);
        measures.set("client_cpu_seconds", measured.cpu_seconds);
        let share = measured.cpu_seconds.map(|cpu| cpu / measured.wall_seconds / f64::from(setup.threads()));
        measures.set("client_share", share);
        let rate = setup.rows().zip(measures.values.get("tps")).map(|(rows, tps)| tps * rows);
        measures.set("rows_per_second", rate);
        if !measures.values.contains_key("tps") {
            let why = "pgbench finished no transaction in the measured time".to_owned();
            return Err(Error::Program { program: PGBENCH, why }.into());
        }
        Ok(measures)
    }

    /// Transactions per second, as pgbench counts them, with or without its log.
    pub(crate) async fn count(
        &self,
        (source, setup, db): Load<'_>,
        seconds: u32,
        with_log: bool,
    ) -> Result<Option<f64>, Trouble> {
        let all = Setup { rate: None, latency_limit_ms: None, ..setup.clone() };
        let (measured, _) = self.run((source, &all, db), seconds, with_log, &["-T", &seconds.to_string()]).await?;
        Ok(Summary::parse(&measured.ended.stdout, setup).tps)
    }

    /// Mean milliseconds of each statement of a setup's scripts.
    pub(crate) async fn statements(&self, load: Load<'_>, seconds: u32) -> Result<Summary, Trouble> {
        let (measured, _) = self.run(load, seconds, false, &["-r", "-T", &seconds.to_string()]).await?;
        Ok(Summary::parse(&measured.ended.stdout, load.1))
    }

    /// Runs a number of transactions of one client, the same ones for the same seed.
    pub(crate) async fn transactions(&self, (source, setup, db): Load<'_>, count: u32) -> Result<(), Trouble> {
        let one = Setup { clients: None, threads: None, rate: None, latency_limit_ms: None, ..setup.clone() };
        self.run((source, &one, db), 0, false, &["-t", &count.to_string(), "--random-seed", "1"]).await?;
        Ok(())
    }

    /// The arguments that a setup stands for. Writes its scripts into `dir`.
    fn arguments(&self, command: &mut Command, source: &Source, setup: &Setup, dir: &Path) -> Result<(), Error> {
        command.args(["-n", "-c", &setup.clients().to_string(), "-j", &setup.threads().to_string()]);
        command.args(["-M", &word(setup.protocol.unwrap_or_default())]);
        if setup.connect == Some(true) {
            command.arg("-C");
        }
        if let Some(rate) = setup.rate() {
            command.args(["-R", &rate.to_string()]);
        }
        if let Some(ms) = setup.latency_limit_ms() {
            command.args(["-L", &ms.to_string()]);
        }
        // pgbench itself sets `scale` only for its own scripts; with another one it would be 1.
        command.args(["-D", &format!("scale={}", source.experiment.data.scale.max(1))]);
        for (name, value) in &setup.variables {
            command.args(["-D", &format!("{name}={value}")]);
        }
        for script in setup.scripts.iter().flatten() {
            if let Some(name) = script.strip_prefix(BUILTIN) {
                command.args(["-b", name]);
                continue;
            }
            let (file, weight) = script.split_once('@').map_or((script.as_str(), ""), |(file, weight)| (file, weight));
            let path = dir.join(file);
            let text = source.files.get(file).map_or("", String::as_str);
            write_whole(&path, text).map_err(Error::io("write", &path))?;
            let weight = if weight.is_empty() { String::new() } else { format!("@{weight}") };
            command.arg("-f").arg(format!("{}{weight}", path.display()));
        }
        Ok(())
    }
}

/// Seconds of the warm-up. A series that is too short to tell has none; `None` if it never becomes steady.
fn warm_up(detected: &WarmUp) -> Option<f64> {
    match detected {
        WarmUp::Ends { seconds, .. } => Some(*seconds),
        WarmUp::TooShort => Some(0.0),
        WarmUp::NeverSteady => None,
    }
}

/// The logs of a run, one of each thread.
pub(crate) fn logs(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = fs::read_dir(dir).map_err(Error::io("read", dir))?.take(LOG_FILES_MAX).flatten();
    Ok(entries.map(|entry| entry.path()).filter(|path| path.file_name().is_some_and(is_log)).collect())
}

fn is_log(name: &std::ffi::OsStr) -> bool {
    name.to_string_lossy().starts_with("log.")
}
