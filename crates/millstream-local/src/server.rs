//! The local server: start, stop, status, and how to reach it.

use crate::account::{check_reach, owner_of, server_account};
use crate::cluster::{self, ROLE};
use crate::error::Error;
use crate::home::Home;
use crate::installation::Installation;
use crate::limits::{DATA_FILE_BYTES_MAX, LOG_BYTES_MAX, POLL, PORTS, PROGRAM_SECONDS_MAX, PROGRESS_SECONDS};
use crate::limits::{START_SECONDS_MAX, STOP_SECONDS_MAX};
use crate::lock::Lock;
use crate::log;
use crate::options::{LocalOptions, Progress};
use crate::port::Ports;
use crate::postmaster::{self, Phase, PidFile};
use crate::selection;
use millstream_host::{
    Account, Command, Ended, check_ours, disk_free_bytes, in_path, program_of, program_seen_by, read_plain,
    remove_whole, signal, wait_until, write_private,
};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A server that accepts connections.
#[derive(Clone, PartialEq, Eq)]
pub struct Running {
    /// Its postmaster.
    pub pid: u32,
    /// Its port on 127.0.0.1.
    pub port: u16,
    /// Directory of its unix socket, if it has one.
    pub socket_dir: Option<PathBuf>,
    /// Directory of its programs, if the kernel names it. Whoever may write there decides what they do: to run one, ask
    /// [`Running::program`].
    pub bin: Option<PathBuf>,
    /// Major version of its data.
    pub major: String,
    /// Its data directory.
    pub data: PathBuf,
    /// The server's log.
    pub log: PathBuf,
    password: String,
}

/// What is known about the local server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Its home.
    pub home: PathBuf,
    /// Its data directory, which may not exist yet.
    pub data: PathBuf,
    /// The server's log.
    pub log: PathBuf,
    /// Major version of the data, if there is any.
    pub major: Option<String>,
    /// State of the server, if it is alive.
    pub phase: Option<Phase>,
    /// The server, if it takes connections.
    pub running: Option<Running>,
}

/// Starts the server and waits until it accepts connections. Makes it first if there is none yet. A server that already
/// runs is not touched. `progress` gets lines for the user.
///
/// # Errors
/// See [`Error`]. A failure changes no stored data.
pub async fn start(options: &LocalOptions, progress: Progress<'_>) -> Result<Running, Error> {
    let home = Home::choose(options.home.as_deref())?;
    let started = start_unless_stopped(options, &home, false, progress).await?;
    started.ok_or_else(|| not_started(&home, 0))
}

/// Starts a server that has died. `None` if it was asked to stop; it then stays down until [`start`] is called.
///
/// # Errors
/// As for [`start`].
pub async fn restart(options: &LocalOptions, progress: Progress<'_>) -> Result<Option<Running>, Error> {
    let home = Home::choose(options.home.as_deref())?;
    start_unless_stopped(options, &home, true, progress).await
}

async fn start_unless_stopped(
    options: &LocalOptions,
    home: &Home,
    unless_stopped: bool,
    progress: Progress<'_>,
) -> Result<Option<Running>, Error> {
    if let Some(server) = postmaster::seen_alive(&home.data()).filter(PidFile::is_ready) {
        return connected(home, server).map(Some);
    }
    let account = account(home)?;
    home.create()?;
    check_reach(&account, &home.dir)?;
    if let Some(running) = running(home, &account)? {
        return Ok(Some(running));
    }
    let _lock = Lock::take(home, progress).await?;
    // Another process may have started it while we waited.
    wait_while_changing(home, &account, progress).await?;
    if let Some(running) = running(home, &account)? {
        return Ok(Some(running));
    }
    if unless_stopped && home.stopped().exists() {
        return Ok(None);
    }
    let installation = selection::installation(options, home, &account, progress).await?;
    if home.data_major()?.is_none() {
        cluster::create(home, &installation, &account, options.wal_segment_mb, progress).await?;
    }
    postmaster::tidy_up(&account, home, progress).await?;
    progress(&format!("starting {installation}"));
    start_on_some_port(home, &installation, &account, progress).await?;
    remove_whole(&home.stopped()).map_err(Error::io("remove", &home.stopped()))?;
    running(home, &account)
}

/// Stops the server: ends its sessions and rolls back their open transactions. Returns whether a server was running.
///
/// # Errors
/// [`Error::Stop`] if it takes too long.
pub async fn stop(options: &LocalOptions, progress: Progress<'_>) -> Result<bool, Error> {
    let home = Home::choose(options.home.as_deref())?;
    if home.data_major()?.is_none() {
        return Ok(false);
    }
    let account = account(&home)?;
    let _lock = Lock::take(&home, progress).await?;
    let data = home.data();
    // Record it even if the server has died, so that `restart` does not start it again.
    if let Err(error) = write_private(&home.stopped(), "") {
        progress(&format!("a command that is running may start the server again: {error}"));
    }
    let Some(server) = postmaster::alive(&account, &data)? else {
        return Ok(false);
    };
    // The fast shutdown of pg_ctl.
    signal(&account, "INT", &[server.pid]);
    let longest = Duration::from_secs(STOP_SECONDS_MAX);
    if !postmaster::wait_for_end(&account, &data, longest).await {
        return Err(Error::Stop { data });
    }
    Ok(true)
}

/// Reports on the server without changing anything.
///
/// # Errors
/// What prevents reading its state.
pub fn status(options: &LocalOptions) -> Result<Status, Error> {
    let home = Home::choose(options.home.as_deref())?;
    let major = home.data_major()?;
    let mut status =
        Status { data: home.data(), log: home.log(), home: home.dir.clone(), major, phase: None, running: None };
    if status.major.is_some() {
        let server = match postmaster::seen_alive(&home.data()) {
            None => postmaster::alive(&account(&home)?, &home.data())?,
            seen => seen,
        };
        status.phase = server.as_ref().map(|server| server.phase);
        status.running = server.filter(PidFile::is_ready).map(|server| connected(&home, server)).transpose()?;
    }
    Ok(status)
}

/// The running server.
///
/// # Errors
/// [`Error::NotRunning`] if there is none.
pub fn connect(options: &LocalOptions) -> Result<Running, Error> {
    let status = status(options)?;
    status.running.ok_or(Error::NotRunning { home: status.home })
}

impl Running {
    /// URL for any client, with the password.
    pub fn url(&self) -> String {
        format!("postgres://{ROLE}:{}@127.0.0.1:{}/{ROLE}", self.password, self.port)
    }

    /// URL over the unix socket, for the user who started the server. It is faster and needs no password.
    pub fn socket_url(&self) -> Option<String> {
        let dir = self.socket_dir.as_ref()?.to_str()?;
        // All other characters have a meaning in a URL, or do not occur in sensible paths.
        let plain = dir.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-_.~+@".contains(&byte));
        plain.then(|| format!("postgres:///{ROLE}?host={dir}&port={}&user={ROLE}", self.port))
    }

    /// The directory of the server's programs.
    ///
    /// # Errors
    /// [`Error::Programs`] if it is not known, or if somebody else than we and root may change it.
    pub fn programs(&self) -> Result<&Path, Error> {
        let unusable = |why: String| Error::Programs { why };
        let bin = self.bin.as_deref().ok_or_else(|| unusable("the system does not say where they are".to_owned()))?;
        let gone = || unusable(format!("{} is gone since the server was started", bin.display()));
        is_ours(bin)?.then_some(bin).ok_or_else(gone)
    }

    /// One of these programs by its name; `None` if the directory has none of that name.
    ///
    /// # Errors
    /// As [`Running::programs`].
    pub fn program(&self, name: &str) -> Result<Option<PathBuf>, Error> {
        let file = self.programs()?.join(name);
        Ok(is_ours(&file)?.then_some(file))
    }

    /// This server's `psql`, or another on `PATH`, with the environment to connect.
    ///
    /// # Errors
    /// [`Error::NoPsql`] if there is none; [`Error::Programs`] if there is only one that we must not run.
    pub fn psql(&self) -> Result<Command, Error> {
        let file = match self.program("psql") {
            Ok(Some(own)) => own,
            none => in_path("psql").ok_or_else(|| none.err().unwrap_or(Error::NoPsql))?,
        };
        let mut command = Command::new(file);
        command.env("PGHOST", "127.0.0.1").env("PGPORT", self.port.to_string());
        command.env("PGUSER", ROLE).env("PGDATABASE", ROLE).env("PGPASSWORD", &self.password);
        for other in ["PGHOSTADDR", "PGSERVICE", "PGPASSFILE", "PGSSLMODE", "PGOPTIONS"] {
            command.env_remove(other);
        }
        Ok(command)
    }
}

impl std::fmt::Debug for Running {
    /// Without the password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { pid, port, data, .. } = self;
        write!(f, "Running {{ pid: {pid}, port: {port}, data: {data:?} }}")
    }
}

/// The account that owns the existing data, else the one for a new server.
fn account(home: &Home) -> Result<Account, Error> {
    let data = home.data();
    if fs::symlink_metadata(&data).is_ok() { owner_of(&data) } else { server_account() }
}

/// The server, if it takes connections.
fn running(home: &Home, account: &Account) -> Result<Option<Running>, Error> {
    let server = postmaster::alive(account, &home.data())?.filter(PidFile::is_ready);
    server.map(|server| connected(home, server)).transpose()
}

/// How to connect to a server that takes connections.
fn connected(home: &Home, server: PidFile) -> Result<Running, Error> {
    let (data, path) = (home.data(), home.password());
    let PidFile { pid, port, socket_dir, .. } = server;
    let password = read_plain(&path, DATA_FILE_BYTES_MAX)
        .and_then(|text| text.ok_or_else(|| ErrorKind::NotFound.into()))
        .map_err(|source| Error::Password { path, source })?;
    Ok(Running {
        pid,
        port,
        socket_dir: socket_dir.map(PathBuf::from),
        bin: bin_in_use(home, pid),
        major: home.data_major()?.unwrap_or_default(),
        log: home.log(),
        password: password.trim().to_owned(),
        data,
    })
}

/// Directory of the programs with which the server was started, as the kernel knows it. `postmaster.opts` names it too, but it
/// belongs to the server's account, which could name any other there.
fn bin_in_use(home: &Home, pid: u32) -> Option<PathBuf> {
    let program = program_of(pid).or_else(|| program_seen_by(&account(home).ok()?, pid))?;
    program.parent().map(Path::to_owned)
}

/// Whether a program, or a directory of programs, is there.
///
/// # Errors
/// [`Error::Programs`] if somebody else than we and root may change it.
fn is_ours(programs: &Path) -> Result<bool, Error> {
    let found = check_ours(programs).map_err(|why| Error::Programs { why: why.to_string() })?;
    Ok(found.is_some())
}

/// Waits while a server is starting or stopping.
async fn wait_while_changing(home: &Home, account: &Account, progress: Progress<'_>) -> Result<(), Error> {
    let begun = Instant::now();
    let mut next_progress = PROGRESS_SECONDS;
    let steady = wait_until(Duration::from_secs(START_SECONDS_MAX), POLL, || {
        let phase = match postmaster::alive(account, &home.data()) {
            Ok(server) => server.map(|server| server.phase),
            Err(error) => return Some(Err(error)),
        };
        let doing = match phase {
            None | Some(Phase::Ready) => return Some(Ok(())),
            Some(Phase::Starting) => "starting",
            Some(Phase::Stopping) => "stopping",
        };
        if begun.elapsed().as_secs() >= next_progress {
            progress(&format!("the server is still {doing}: {}", log::last_line(&home.log())));
            next_progress += PROGRESS_SECONDS;
        }
        None
    });
    steady.await.unwrap_or_else(|| Err(slow(home, 0)))
}

async fn start_on_some_port(
    home: &Home,
    installation: &Installation,
    account: &Account,
    progress: Progress<'_>,
) -> Result<(), Error> {
    for dir in [home.log_dir(), home.socket_dir()] {
        Home::create_for(account, &dir)?;
    }
    log::begin_anew_if_longer(&home.log(), LOG_BYTES_MAX);
    let mut ports = Ports::of(home);
    for _ in 0..PORTS {
        let Some(port) = ports.next_free() else { break };
        cluster::write_conf(home, installation, account, port)?;
        let log_begin = log::length(&home.log());
        if start_once(home, installation, account, progress).await? {
            return ports.remember(port, progress);
        }
        let tail = log::tail(&home.log(), log_begin);
        if postmaster::alive(account, &home.data())?.is_some() {
            return Err(slow(home, log_begin));
        }
        // Another program may have taken the port since we looked.
        if !tail.contains("could not create any TCP/IP sockets") {
            return Err(not_started(home, log_begin));
        }
        // The failed start leaves nothing, but the pid file from before may still be there.
        postmaster::tidy_up(account, home, progress).await?;
    }
    Err(start_error(home, format!("no free port on 127.0.0.1 among {PORTS}")))
}

/// Starts the server and waits. Returns whether it accepts connections.
async fn start_once(
    home: &Home,
    installation: &Installation,
    account: &Account,
    progress: Progress<'_>,
) -> Result<bool, Error> {
    let mut command = account.command(installation.program("pg_ctl"));
    command.args(["start", "-s", "-w", "-t", &START_SECONDS_MAX.to_string(), "-D"]).arg(home.data());
    command.arg("-l").arg(home.log());
    let waiting = command.run(Duration::from_secs(PROGRAM_SECONDS_MAX));
    tokio::pin!(waiting);
    let ended = loop {
        let pause = tokio::time::sleep(Duration::from_secs(PROGRESS_SECONDS));
        tokio::select! {
            ended = &mut waiting => break ended.and_then(Ended::succeeded),
            () = pause => progress(&format!("the server is still starting: {}", log::last_line(&home.log()))),
        }
    };
    match ended {
        Err(millstream_host::Error::Failed { .. }) if home.log().exists() => Ok(false),
        // Without a log, pg_ctl's output is the reason.
        Err(error) => Err(start_error(home, error.to_string())),
        Ok(_) => Ok(true),
    }
}

fn not_started(home: &Home, log_begin: u64) -> Error {
    let tail = log::tail(&home.log(), log_begin);
    if tail.contains("No space left on device") {
        return Error::DiskFull { path: home.data(), free_bytes: disk_free_bytes(&home.dir) };
    }
    start_error(home, tail)
}

fn start_error(home: &Home, tail: String) -> Error {
    Error::Start { data: home.data(), log: home.log(), tail }
}

fn slow(home: &Home, log_begin: u64) -> Error {
    let tail = log::tail(&home.log(), log_begin);
    Error::Slow { data: home.data(), log: home.log(), tail }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_testkit::{Need, machine_has};
    use std::os::unix::fs::chown;

    fn running(bin: Option<&Path>) -> Running {
        Running {
            pid: 0,
            port: 0,
            socket_dir: None,
            bin: bin.map(Path::to_owned),
            major: String::new(),
            data: PathBuf::new(),
            log: PathBuf::new(),
            password: String::new(),
        }
    }

    #[test]
    fn only_programs_that_nobody_else_may_change_are_run() {
        let dir = tempfile::tempdir().unwrap();
        let bin = dir.path().join("bin");
        let why = |bin: Option<&Path>| running(bin).program("psql").unwrap_err().to_string();
        assert!(why(None).ends_with("the system does not say where they are"));
        assert!(why(Some(&bin)).ends_with("bin is gone since the server was started"));
        fs::create_dir(&bin).unwrap();
        assert_eq!(running(Some(&bin)).program("psql").unwrap(), None);
        fs::write(bin.join("psql"), "").unwrap();
        assert_eq!(running(Some(&bin)).program("psql").unwrap(), Some(bin.join("psql")));
        if machine_has(&[Need::Root]) {
            chown(&bin, Some(65_534), None).unwrap();
            assert!(why(Some(&bin)).contains("who could change what is there"));
        }
    }
}
