//! A PostgreSQL server that ends with the process that started it, even if that process is killed.

use crate::build::{Build, account, builds};
use crate::certificate::Certificates;
use crate::limits::{BUILDS_MAX, PORT_TRIES_MAX, PROGRAM_TIME_MAX, STOP_POLL, WAIT_SECONDS_MAX};
use crate::port::Port;
use crate::template::{SUPERUSER, Template, run};
use crate::watchdog::{Watchdog, directory, directory_on_disk};
use millstream_host::{Account, Ended, signal, wait_until};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;
use tokio::sync::OnceCell;

/// How a test server differs from the default one.
#[derive(Debug, Default)]
pub struct Settings {
    /// The server survives a crash of the machine, as in production: its data is on a disk. The others flush too, but
    /// on a machine with enough memory their data is in memory, where a flush costs nothing.
    pub durable: bool,
    /// Use TLS with these certificates, and trust their authority for client certificates.
    pub certificates: Option<Certificates>,
    /// More lines for `pg_hba.conf`. They precede all others.
    pub hba: Vec<String>,
    /// More lines for `postgresql.conf`. They override all others.
    pub conf: Vec<String>,
}

impl Settings {
    /// More lines for `postgresql.conf`, and no other difference.
    pub fn with(conf: &[&str]) -> Self {
        Self { conf: conf.iter().map(|line| (*line).to_owned()).collect(), ..Self::default() }
    }

    /// A server that loses everything that is not flushed when it crashes: its WAL writer sleeps, and nothing else flushes.
    pub fn forgetful() -> Self {
        let conf =
            ["wal_writer_delay = 10s", "wal_writer_flush_after = 1GB", "bgwriter_lru_maxpages = 0", "autovacuum = off"];
        Self { durable: true, ..Self::with(&conf) }
    }
}

/// How to stop a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopMode {
    /// Waits until the clients disconnect.
    Smart,
    /// Ends sessions, then writes a checkpoint.
    Fast,
    /// Ends at once; the next start recovers.
    Immediate,
    /// `kill -9` of the postmaster. Its children notice and end; the next start recovers.
    Kill,
}

/// A test server with its own data directory, which is removed with it.
#[derive(Debug)]
pub struct Server {
    build: &'static Build,
    account: Account,
    dir: PathBuf,
    port: Port,
    password: String,
    _watchdog: Watchdog,
}

/// The server of a build. All tests of this process share it; do not stop it.
pub async fn shared(build: &'static Build) -> &'static Server {
    static SHARED: LazyLock<Vec<OnceCell<Server>>> =
        LazyLock::new(|| (0..BUILDS_MAX).map(|_| OnceCell::new()).collect());
    let index =
        builds().await.iter().position(|one| std::ptr::eq(one, build)).expect("builds come from the list of builds");
    SHARED[index].get_or_init(|| Server::start(build, Settings::default())).await
}

impl Server {
    /// Starts a separate server, for tests that stop, kill or fill it.
    ///
    /// # Panics
    /// If it does not start; the message holds its log.
    pub async fn start(build: &'static Build, settings: Settings) -> Self {
        let template = Template::of(build).await;
        let dir = if settings.durable { directory_on_disk(0o700) } else { directory(0o700) };
        let mut server = Self::without_files(build, dir, template.password);
        let mut copy = server.account.command("cp");
        copy.arg("-R").arg(&template.data).arg(server.data());
        run(&mut copy, "copying the template").await;
        server.write_access(&settings).await;
        server.start_on_some_port(&settings).await;
        server
    }

    /// A server of the same build that gets its data later: a copy of this one's, at [`Server::data`], which does not
    /// exist yet. Then call [`Server::start_copy`].
    ///
    /// # Panics
    /// If there is no room for a directory.
    pub fn without_data(&self) -> Self {
        Self::without_files(self.build, directory(0o700), self.password.clone())
    }

    fn without_files(build: &'static Build, dir: PathBuf, password: String) -> Self {
        let server =
            Self { build, account: account(), _watchdog: Watchdog::over(&dir), dir, port: Port::new(), password };
        server.own(&server.dir);
        server
    }

    /// Starts a server on the data that was copied into its directory. Settings of a standby stay.
    ///
    /// # Panics
    /// If it does not start; the message holds its log.
    pub async fn start_copy(&mut self) {
        let own = fs::read_to_string(self.data().join("postgresql.auto.conf")).unwrap_or_default();
        let of_standby = own.lines().filter(|line| line.starts_with("primary_")).map(str::to_owned).collect();
        self.start_on_some_port(&Settings { conf: of_standby, ..Settings::default() }).await;
    }

    /// Lets the server's account own a path.
    ///
    /// # Panics
    /// If only root could.
    pub fn own(&self, path: &Path) {
        self.account.own(path).unwrap_or_else(|error| panic!("{error}"));
    }

    async fn start_on_some_port(&mut self, settings: &Settings) {
        for _ in 0..PORT_TRIES_MAX {
            self.write_conf(settings).await;
            match self.try_start().await {
                Ok(()) => return,
                Err(log) if log.contains("could not create any TCP/IP sockets") => self.port = Port::new(),
                Err(log) => panic!("the test server did not start:\n{log}"),
            }
        }
        panic!("no port for a test server among {PORT_TRIES_MAX} tries");
    }

    async fn write_access(&self, settings: &Settings) {
        if let Some(certificates) = &settings.certificates {
            self.write("root.crt", &certificates.root).await;
            self.write("server.crt", &certificates.server).await;
            self.write("server.key", &certificates.server_key).await;
        }
        if !settings.hba.is_empty() {
            let usual = fs::read_to_string(self.data().join("pg_hba.conf")).expect("a data directory has this file");
            let lines = settings.hba.join("\n");
            self.write("pg_hba.conf", &format!("{lines}\n{usual}")).await;
        }
    }

    /// Writes as the account that owns the directory. The `postgresql.conf` of `initdb` is not changed.
    async fn write_conf(&self, settings: &Settings) {
        let mut lines = vec![
            "listen_addresses = '127.0.0.1'".to_owned(),
            format!("port = {}", self.port()),
            format!("unix_socket_directories = '{}'", self.dir.display()),
            "shared_buffers = 64MB".to_owned(),
            "max_connections = 200".to_owned(),
        ];
        if settings.certificates.is_some() {
            lines.push("ssl = on".to_owned());
            lines.push("ssl_ca_file = 'root.crt'".to_owned());
        }
        lines.extend(settings.conf.iter().cloned());
        // The last setting of a name wins, and this file is read last.
        self.write("postgresql.auto.conf", &lines.join("\n")).await;
    }

    /// Writes a file in the data directory, owned by the server's account, mode 0600.
    ///
    /// # Panics
    /// If it cannot be written.
    pub async fn write(&self, name: &str, text: &str) {
        let mut command = self.account.command("/bin/sh");
        command.args(["-c", "umask 077 && printf '%s\\n' \"$1\" >\"$2\"", "sh", text]).arg(self.data().join(name));
        run(&mut command, "writing a file of the server").await;
    }

    /// Starts the stopped server again, on the same port.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn start_again(&self) {
        let mut started = self.try_start().await;
        // PostgreSQL's bug 17731: the first start after a crash can fail on a file of a dropped unlogged table.
        if started.as_ref().is_err_and(|log| log.contains("File exists")) {
            started = self.try_start().await;
        }
        if let Err(log) = started {
            panic!("the test server did not start again:\n{log}");
        }
    }

    /// Runs a program of the build on the data directory, as the server's account.
    ///
    /// # Panics
    /// If it cannot be started, or does not end.
    pub async fn run(&self, program: &str, args: &[&str]) -> Ended {
        let mut command = self.account.command(self.build.installation.program(program));
        command.args(args).arg("-D").arg(self.data());
        command.run(PROGRAM_TIME_MAX).await.unwrap_or_else(|error| panic!("{program}: {error}"))
    }

    async fn try_start(&self) -> Result<(), String> {
        let log = self.dir.join("log");
        let mut command = self.account.command(self.build.installation.program("pg_ctl"));
        command.args(["start", "-s", "-w", "-t", &WAIT_SECONDS_MAX.to_string(), "-D"]).arg(self.data());
        command.arg("-l").arg(&log);
        let ended = command.run(PROGRAM_TIME_MAX).await.map_err(|error| error.to_string())?;
        if ended.status.success() {
            return Ok(());
        }
        Err(fs::read_to_string(&log).unwrap_or_default())
    }

    /// Stops the server and waits until none of its processes is left.
    ///
    /// # Panics
    /// If it does not stop.
    pub async fn stop(&self, mode: StopMode) {
        let name = match mode {
            StopMode::Smart => "TERM",
            StopMode::Fast => "INT",
            StopMode::Immediate => "QUIT",
            StopMode::Kill => "KILL",
        };
        let pid_file = self.data().join("postmaster.pid");
        let pid = fs::read_to_string(&pid_file).expect("a running server has a pid file");
        let pid = pid.lines().next().and_then(|pid| pid.parse().ok()).expect("its first line is the pid");
        signal(&self.account, name, &[pid]);
        let ended = || millstream_local::processes(&self.account, &self.data()).is_empty().then_some(());
        let in_time = wait_until(Duration::from_secs(WAIT_SECONDS_MAX), STOP_POLL, ended).await.is_some();
        assert!(in_time, "the test server did not stop:\n{}", self.log());
        // If nobody waits for the dead postmaster, the next server takes its pid for a living one.
        let _ = fs::remove_file(&pid_file);
        let _ = fs::remove_file(self.dir.join(format!(".s.PGSQL.{}.lock", self.port())));
    }

    /// Stops and starts it.
    pub async fn restart(&self, mode: StopMode) {
        self.stop(mode).await;
        self.start_again().await;
    }

    /// The build that it runs.
    pub fn build(&self) -> &'static Build {
        self.build
    }

    /// The data directory.
    pub fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// Directory of the unix socket.
    pub fn socket_dir(&self) -> &Path {
        &self.dir
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port.number
    }

    /// Password of the superuser, `millstream`.
    pub fn password(&self) -> &str {
        &self.password
    }

    /// URL of a database over TCP, as superuser.
    pub fn url(&self, database: &str) -> String {
        self.url_at(&format!("127.0.0.1:{}", self.port()), database)
    }

    /// As [`Self::url`], with another `host:port`, such as a proxy's.
    pub fn url_at(&self, address: &str, database: &str) -> String {
        let password = &self.password;
        format!("postgres://{SUPERUSER}:{password}@{address}/{database}")
    }

    /// URL of a database over the unix socket, as superuser, without password.
    pub fn socket_url(&self, database: &str) -> String {
        let (dir, port) = (self.dir.display(), self.port());
        format!("postgres:///{database}?host={dir}&port={port}&user={SUPERUSER}")
    }

    /// The server's log.
    pub fn log(&self) -> String {
        fs::read_to_string(self.dir.join("log")).unwrap_or_default()
    }
}
