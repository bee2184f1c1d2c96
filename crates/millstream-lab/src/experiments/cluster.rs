//! Servers of the lab: clusters of its own, which it may restart, or a server that the user names.

use super::disk::Disk;
use super::place::Place;
use super::via::Via;
use super::wal::Wal;
use super::{scratch, slow_disks};
use crate::error::Error;
use crate::limits::{CONF_BYTES_MAX, POLL, RECOVERY_TIME_MAX, RELOAD_TIME_MAX};
use millstream_host::{End, FileLock, MemoryLimit, Sandbox, SlowDisk, Slowness, read_plain, write_private};
use millstream_local::{
    Home, LocalOptions, PostgresBin, Progress, Running, installed, owner_of, server_account, write_as,
};
use millstream_pg::{
    Address, ConnInfo, Connection, Environment, ErrorKind, Explained, Poll, SessionSettings, SslMode, quote_identifier,
    quote_literal,
};
use rcgen::{CertificateParams, KeyPair};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use tempfile::TempDir;

/// The addresses of a cable to a second network: the server's side, and the client's. They are from the range that is kept
/// for measurements of networks: RFC 2544, appendix C.2.2.
const CABLE: [&str; 2] = ["198.18.231.1", "198.18.231.2"];

fn second_network() -> Result<Sandbox, millstream_host::Error> {
    let mut sandbox = Sandbox::make(1)?;
    let [here, there] = CABLE.map(|address| format!("{address}/30"));
    sandbox.join([
        End { network: None, device: "millstream0", addresses: &[&here] },
        End { network: Some(0), device: "millstream1", addresses: &[&there] },
    ])?;
    Ok(sandbox)
}

/// A server for runs.
#[derive(Debug)]
pub(crate) struct Cluster {
    kind: Owner,
    /// Settings that differ from the cluster's own.
    applied: BTreeMap<String, String>,
    /// Settings that may differ from the cluster's own.
    touched: BTreeSet<String>,
    /// What `alter system` had set before, of the settings that were changed: it comes back.
    before: BTreeMap<String, String>,
    /// The second network, if an arm has used it.
    second_network: Option<Arc<Sandbox>>,
    /// The memory that the server may use, in megabytes.
    memory: Option<(u32, MemoryLimit)>,
    /// For files of shell commands, as long as the experiment runs.
    files: TempDir,
}

#[derive(Debug)]
enum Owner {
    /// A cluster of the lab, perhaps on a slow disk. Who has one of those is alone: it has claimed the host.
    Own { options: Box<LocalOptions>, running: Running, _lock: Option<FileLock>, disk: Option<Box<SlowDisk>> },
    /// A server of the user's. Its settings may be changed only if the user says so.
    Foreign { db: Box<ConnInfo>, may_change: bool },
}

/// Why an arm cannot be run here, or what failed.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The arm cannot be run on this server or machine: the reason.
    Unfit(String),
    /// Anything else.
    Error(Error),
}

impl<E: Into<Error>> From<E> for Trouble {
    fn from(error: E) -> Self {
        Self::Error(error.into())
    }
}

impl Cluster {
    /// Starts the lab's own cluster in a place. Makes it first if there is none. `program`: this program, which serves slow
    /// disks.
    pub(crate) async fn own(place: &Place, program: Option<&Path>, progress: Progress<'_>) -> Result<Self, Trouble> {
        let newest = installed(&server_account()?).first().map(|one| one.major.to_string());
        let place = Place { postgres: place.postgres.clone().or(newest), ..place.clone() };
        let postgres_bin = match &place.postgres {
            None => PostgresBin::Auto,
            Some(text) => PostgresBin::Dir(programs(text).map_err(|error| Trouble::Unfit(error.to_string()))?),
        };
        let lab = Home { dir: Home::choose(None)?.folder("lab")? };
        let mut dir = lab.dir.join(place.folder());
        let mut disk = None;
        if let Some(format) = &place.disk {
            lab.create()?;
            disk = Some(slow_disks::make(program, &dir, format).map_err(Trouble::Unfit)?);
            dir = slow_disks::home_in(&dir);
        }
        let home = Home::choose(Some(&dir))?;
        home.create()?;
        let home = home.dir;
        let options = LocalOptions { home: Some(home.clone()), postgres_bin, wal_segment_mb: place.wal_segment_mb };
        // A slow disk cannot be unmounted while a file on it is open.
        let lock = if disk.is_none() { Some(lock(&home)?) } else { None };
        // A run that was killed may have left its settings, with which the server may not even start.
        let data = home.join("data");
        let wal_is_left = Wal(&data).is_left();
        if has_settings(&home)? || wal_is_left {
            millstream_local::stop(&options, progress).await?;
            if wal_is_left {
                progress("moving the WAL back: a run that was killed had moved it");
                Wal(&data).bring_back(&owner_of(&data)?).map_err(Error::io("move back the WAL of", &data))?;
            }
            forget_settings(&home)?;
        }
        let running = millstream_local::start(&options, progress).await?;
        let (options, disk) = (Box::new(options), disk.map(Box::new));
        Ok(Self::new(Owner::Own { options, running, _lock: lock, disk })?)
    }

    /// A server of the user's.
    pub(crate) fn foreign(db: ConnInfo, may_change: bool) -> Result<Self, Error> {
        Self::new(Owner::Foreign { db: Box::new(db), may_change })
    }

    fn new(kind: Owner) -> Result<Self, Error> {
        Ok(Self {
            kind,
            applied: BTreeMap::new(),
            touched: BTreeSet::new(),
            before: BTreeMap::new(),
            second_network: None,
            memory: None,
            files: scratch::for_the_server()?,
        })
    }

    /// A directory for files of shell commands.
    pub(crate) fn files(&self) -> &Path {
        self.files.path()
    }

    /// The server, if it is the lab's own.
    fn own_server(&self) -> Option<&Running> {
        match &self.kind {
            Owner::Own { running, .. } => Some(running),
            Owner::Foreign { .. } => None,
        }
    }

    /// The same, or why an arm cannot be run on a server of the user's.
    fn needs_own(&self, why: &str) -> Result<&Running, Trouble> {
        self.own_server().ok_or_else(|| Trouble::Unfit(why.to_owned()))
    }

    /// The data directory, if the server is the lab's own.
    pub(crate) fn data(&self) -> Option<&Path> {
        self.own_server().map(|running| running.data.as_path())
    }

    /// Whether the server runs on this machine, as far as its address shows.
    pub(crate) fn is_local(&self) -> bool {
        match &self.kind {
            Owner::Own { .. } => true,
            Owner::Foreign { db, .. } => db.is_local(),
        }
    }

    /// The directory of the programs of the lab's own server; `None` of a server of the user's.
    ///
    /// # Errors
    /// Somebody else than we and root may change them, so that we do not run them.
    pub(crate) fn programs(&self) -> Result<Option<&Path>, Error> {
        Ok(self.own_server().map(Running::programs).transpose()?)
    }

    /// One of these programs by its name, if it is there.
    ///
    /// # Errors
    /// As [`Cluster::programs`].
    pub(crate) fn own_program(&self, name: &str) -> Result<Option<PathBuf>, Error> {
        let found = self.own_server().map(|running| running.program(name)).transpose()?;
        Ok(found.flatten())
    }

    /// How to reach a database of the server. Without a way: as a program would do it that knows only the server, so
    /// over the socket of the lab's own, and as the user's URL says.
    pub(crate) fn db(&self, via: Option<Via>, name: &str) -> Result<ConnInfo, Trouble> {
        let environment = Environment::from_variables([]);
        let mut db = match &self.kind {
            Owner::Foreign { db, .. } => foreign(db, via)?,
            Owner::Own { running, .. } => {
                let via = via.unwrap_or_default();
                let url = match (via, running.socket_url()) {
                    (Via::Socket, Some(url)) => url,
                    _ => running.url(),
                };
                let mode = if via == Via::Ssl { "require" } else { "disable" };
                let sign = if url.contains('?') { '&' } else { '?' };
                let url = match via {
                    Via::Veth => url.replacen("127.0.0.1", CABLE[0], 1),
                    Via::Socket | Via::Tcp | Via::Ssl => url,
                };
                ConnInfo::parse(&format!("{url}{sign}sslmode={mode}"), &environment).map_err(Error::from)?
            }
        };
        name.clone_into(&mut db.dbname);
        Ok(db)
    }

    /// The second network, as long as it is there.
    pub(crate) fn second_network(&self) -> Weak<Sandbox> {
        self.second_network.as_ref().map(Arc::downgrade).unwrap_or_default()
    }

    /// A session in a database of the server, for the experiment's own SQL too.
    pub(crate) async fn session(&self, name: &str) -> Result<Connection, Trouble> {
        self.connect(name, &settings()).await
    }

    /// A session in the database that always exists, for our statements alone.
    pub(crate) async fn control(&self) -> Result<Connection, Trouble> {
        let name = match &self.kind {
            Owner::Own { .. } => "millstream",
            Owner::Foreign { db, .. } => &db.dbname,
        };
        self.connect(name, &settings().with_own_names()).await
    }

    /// Connects to a database, and waits for a server that recovers from a crash.
    async fn connect(&self, name: &str, settings: &SessionSettings) -> Result<Connection, Trouble> {
        let db = self.db(None, name)?;
        let poll = Poll::new(POLL, RECOVERY_TIME_MAX);
        loop {
            match Box::pin(millstream_pg::connect(&db, settings)).await {
                Err(error) if error.kind() == ErrorKind::Transient && poll.again().await => {}
                connected => return Ok(connected?),
            }
        }
    }

    /// Whether the server can encrypt connections. Makes a certificate for the lab's own.
    pub(crate) async fn allow_ssl(&mut self) -> Result<(), Trouble> {
        let control = self.control().await?;
        if is_encrypting(&control).await? {
            return Ok(());
        }
        let [certificate, key] = certificate(&self.needs_own("the server has ssl off")?.data)?;
        let set = format!(
            "alter system set ssl_cert_file = {}; alter system set ssl_key_file = {}; alter system set ssl = on;",
            quote_literal(&certificate),
            quote_literal(&key)
        );
        for statement in set.split_inclusive(';') {
            if let Err(error) = control.client.batch_execute(statement).await {
                return Err(Trouble::Unfit(format!("this server cannot encrypt: {}", Error::from(error).chain())));
            }
        }
        control.client.batch_execute("select pg_catalog.pg_reload_conf()").await?;
        let poll = Poll::new(POLL, RELOAD_TIME_MAX);
        while !is_encrypting(&control).await? {
            if !poll.again().await {
                return Err(Trouble::Unfit("the server has not switched ssl on; its log says why".to_owned()));
            }
        }
        Ok(())
    }

    /// Makes a second network on this machine, from which a client reaches the server by a virtual cable.
    pub(crate) async fn allow_veth(&mut self, progress: Progress<'_>) -> Result<(), Trouble> {
        if self.second_network.is_some() {
            return Ok(());
        }
        let path = self.needs_own("it needs a server of the lab's own")?.data.join("pg_hba.conf");
        let [here, there] = CABLE;
        let network = second_network().map_err(|error| Trouble::Unfit(error.to_string()))?;
        self.second_network = Some(Arc::new(network));
        let text = read_plain(&path, CONF_BYTES_MAX).map_err(Error::io("read", &path))?.unwrap_or_default();
        let line = format!("host all all {there}/32 scram-sha-256\n");
        if !text.contains(&line) {
            write_as(&owner_of(path.parent().unwrap_or(&path))?, &path, &(text + &line))?;
        }
        let listen = format!("alter system set listen_addresses = {}", quote_literal(&format!("127.0.0.1,{here}")));
        self.control().await?.client.batch_execute(&listen).await?;
        self.restart(progress).await
    }

    /// Gives the server these settings besides its own, and restarts it if they need that.
    pub(crate) async fn set(
        &mut self,
        wanted: &BTreeMap<String, String>,
        progress: Progress<'_>,
    ) -> Result<(), Trouble> {
        let differs = wanted.iter().filter(|(name, value)| self.applied.get(*name) != Some(value));
        let unwanted = self.touched.iter().filter(|name| !wanted.contains_key(*name));
        let changed: BTreeSet<String> = differs.map(|(name, _)| name).chain(unwanted).cloned().collect();
        if changed.is_empty() {
            return Ok(());
        }
        let foreign = matches!(self.kind, Owner::Foreign { .. });
        if let Owner::Foreign { may_change: false, .. } = &self.kind {
            let why = "it changes settings of a server that is not the lab's; --i-own-this-server allows that";
            return Err(Trouble::Unfit(why.to_owned()));
        }
        let changed: Vec<String> = changed.into_iter().collect();
        let control = self.control().await?;
        let restart: i64 = control.client.query_one(NEEDS_RESTART, &[&changed]).await?.get(0);
        if foreign && restart > 0 {
            return Err(Trouble::Unfit("it needs a restart of a server that is not the lab's".to_owned()));
        }
        for row in control.client.query(SET_BEFORE, &[&changed]).await? {
            let name: String = row.get(0);
            if !self.touched.contains(&name) {
                self.before.insert(name, row.get(1));
            }
        }
        // From here on this may be interrupted at any point: what is touched is given back.
        for name in &changed {
            self.touched.insert(name.clone());
            self.applied.remove(name);
        }
        for name in &changed {
            let statement = self.statement(name, wanted);
            if let Err(error) = control.client.batch_execute(&statement).await {
                let why = format!("{name}: {}", Error::from(error).chain());
                self.give_back(&control).await?;
                return Err(Trouble::Unfit(why));
            }
        }
        let read = settings_read(&control).await?;
        control.client.batch_execute("select pg_catalog.pg_reload_conf()").await?;
        if restart > 0 {
            control.close().await;
            self.restart(progress).await?;
        } else {
            // The server reads them a little later, and a session that begins before has the old ones.
            let poll = Poll::new(POLL, RELOAD_TIME_MAX);
            while settings_read(&control).await? == read {
                if !poll.again().await {
                    let why = "the server does not take new settings; its log says why";
                    return Err(Trouble::Unfit(why.to_owned()));
                }
            }
            control.close().await;
        }
        self.applied.clone_from(wanted);
        self.touched.retain(|name| wanted.contains_key(name));
        Ok(())
    }

    /// Gives every setting that was touched its own value. Nothing of it needs a restart: it was not in effect.
    async fn give_back(&mut self, control: &Connection) -> Result<(), Error> {
        for name in &self.touched {
            control.client.batch_execute(&self.statement(name, &BTreeMap::new())).await?;
        }
        control.client.batch_execute("select pg_catalog.pg_reload_conf()").await?;
        self.applied.clear();
        Ok(())
    }

    /// Lets the server use only so much memory, with the page cache that it fills; `None` lifts the limit.
    pub(crate) async fn limit_memory(&mut self, megabytes: Option<u32>, progress: Progress<'_>) -> Result<(), Trouble> {
        if self.memory.as_ref().map(|(megabytes, _)| *megabytes) == megabytes {
            return Ok(());
        }
        self.memory = None;
        let Some(megabytes) = megabytes else { return Ok(()) };
        // Memory that the server uses already would not count.
        self.restart(progress).await?;
        let running = self.needs_own("it limits the memory of a server that is not the lab's")?;
        let limit = MemoryLimit::impose(running.pid, u64::from(megabytes) << 20);
        self.memory = Some((megabytes, limit.map_err(|error| Trouble::Unfit(error.to_string()))?));
        Ok(())
    }

    /// Moves the WAL to this directory on another device; `None`: back to the data. Which of them it is, the data
    /// directory itself shows.
    pub(crate) async fn place_wal(&mut self, dir: Option<&Path>, progress: Progress<'_>) -> Result<(), Trouble> {
        let Owner::Own { options, running, .. } = &self.kind else {
            let why = || Trouble::Unfit("it moves the WAL of a server that is not the lab's".to_owned());
            return dir.map_or(Ok(()), |_| Err(why()));
        };
        let data = running.data.clone();
        let wal = Wal(&data);
        if wal.is_away() == dir.is_some() {
            return Ok(());
        }
        let account = owner_of(&data)?;
        if let Some(dir) = dir {
            let unfit = wal.unfit(dir).or_else(|| {
                let why =
                    format!("the account {}, which runs the server, cannot enter {}", account.name, dir.display());
                (!account.reaches(dir)).then_some(why)
            });
            if let Some(why) = unfit {
                return Err(Trouble::Unfit(format!("{why}; name an empty directory on another device with --wal-dir")));
            }
        }
        millstream_local::stop(options, progress).await?;
        let sent = dir.map_or(Ok(()), |dir| wal.send(dir, &account));
        let failed = Error::io("move back the WAL of", &data);
        let back = if dir.is_none() || sent.is_err() { wal.bring_back(&account).map_err(failed) } else { Ok(()) };
        self.restart(progress).await?;
        back?;
        sent.map_err(|error| Trouble::Unfit(format!("the WAL cannot be moved to --wal-dir: {error}")))
    }

    /// The statement that gives a setting its wanted value, or what it was before the first change.
    fn statement(&self, name: &str, wanted: &BTreeMap<String, String>) -> String {
        let quoted = quote_identifier(name);
        match wanted.get(name).or_else(|| self.before.get(name)) {
            Some(value) => format!("alter system set {quoted} = {}", quote_literal(value)),
            None => format!("alter system reset {quoted}"),
        }
    }

    /// Makes the disk of its data as slow as an arm has it, if they lie on a slow one; `None`: as fast as it can be.
    pub(crate) fn delay(&self, as_of: Option<&Disk>) -> Result<(), Trouble> {
        let Owner::Own { disk: Some(disk), .. } = &self.kind else { return Ok(()) };
        let slowness = as_of.map_or_else(Slowness::default, |disk| disk.slowness);
        disk.set(&slowness).map_err(|error| Trouble::Unfit(error.to_string()))
    }

    /// Brings back the cluster's own settings. One on a slow disk is stopped, and its disk removed.
    pub(crate) async fn reset(&mut self, progress: Progress<'_>) -> Result<(), Trouble> {
        self.memory = None;
        if let Owner::Own { options, disk: slow @ Some(_), .. } = &mut self.kind {
            self.second_network = None;
            // What it writes when it stops is not measured.
            slow.iter().for_each(|disk| _ = disk.set(&Slowness::default()));
            let stopped = millstream_local::stop(options, progress).await;
            *slow = None;
            return Ok(stopped.map(drop)?);
        }
        let placed = self.place_wal(None, progress).await;
        if self.second_network.take().is_some() {
            self.control().await?.client.batch_execute("alter system reset listen_addresses").await?;
            self.restart(progress).await?;
        }
        let done = self.set(&BTreeMap::new(), progress).await;
        match (&self.kind, done) {
            // Ctrl-C came between its stop and its start. It begins with its own settings next time.
            (Owner::Own { options, .. }, Err(_)) if !self.touched.is_empty() => {
                options.home.as_deref().map_or(Ok(()), forget_settings).map_err(Trouble::Error)
            }
            (_, done) => done,
        }
        .and(placed)
    }

    async fn restart(&mut self, progress: Progress<'_>) -> Result<(), Trouble> {
        // The new server is in no group.
        self.memory = None;
        let Owner::Own { options, running, .. } = &mut self.kind else {
            return Err(Trouble::Unfit("it needs a restart of a server that is not the lab's".to_owned()));
        };
        millstream_local::stop(options, progress).await?;
        let error = match millstream_local::start(options, progress).await {
            Ok(started) => {
                *running = started;
                return Ok(());
            }
            Err(error) => Error::from(error).chain(),
        };
        if let Some(home) = &options.home {
            forget_settings(home)?;
        }
        self.applied.clear();
        self.touched.clear();
        *running = millstream_local::start(options, progress).await?;
        let why = error.lines().rev().find_map(|line| line.split_once("FATAL:")).map_or(error.as_str(), |(_, why)| why);
        Err(Trouble::Unfit(format!("the server does not start with these settings: {}", why.trim())))
    }
}

fn settings() -> SessionSettings {
    SessionSettings::named("millstream lab")
}

/// When the server last read its settings. Sessions learn of it a moment later.
async fn settings_read(session: &Connection) -> Result<String, Error> {
    Ok(session.client.query_one("select pg_catalog.pg_conf_load_time()::text", &[]).await?.get(0))
}

async fn is_encrypting(session: &Connection) -> Result<bool, Error> {
    Ok(session.client.query_one("select pg_catalog.current_setting('ssl') = 'on'", &[]).await?.get(0))
}

/// The user's server, reached in this way, if its URL names such a place.
fn foreign(db: &ConnInfo, via: Option<Via>) -> Result<ConnInfo, Trouble> {
    let socket = db.hosts.iter().all(|host| matches!(host.address, Address::Socket(_)));
    let unfit = |why: &str| Err(Trouble::Unfit(format!("{why}, and --db names another way to the server")));
    let mut db = db.clone();
    match via {
        None => {}
        Some(Via::Socket) if !socket => return unfit("it connects over a unix socket"),
        Some(Via::Tcp | Via::Ssl) if socket => return unfit("it connects over TCP"),
        Some(Via::Socket) => {}
        Some(Via::Tcp) => db.tls.mode = SslMode::Disable,
        Some(Via::Ssl) if db.tls.mode < SslMode::Require => db.tls.mode = SslMode::Require,
        Some(Via::Ssl) => {}
        Some(Via::Veth) => return unfit("it connects over a virtual cable"),
    }
    Ok(db)
}

/// Keeps other runs of the lab from a server of its own, as long as the lock is held.
fn lock(home: &Path) -> Result<FileLock, Error> {
    let path = home.join("lab.lock");
    let taken = FileLock::try_take(&path).map_err(Error::io("lock", &path))?;
    taken.ok_or_else(|| {
        let why = "another run of the lab uses this server; wait for its end, or choose another with --postgres";
        Error::Asked(format!("{}: {why}", home.display()))
    })
}

/// Where `alter system` writes.
fn settings_file(home: &Path) -> PathBuf {
    home.join("data/postgresql.auto.conf")
}

/// The lines of settings that experiments have changed. Encryption stays: it changes nothing for those that do not ask
/// for it.
fn is_setting(line: &&str) -> bool {
    !line.starts_with('#') && !line.trim().is_empty() && !line.starts_with("ssl")
}

/// Whether an experiment has left its settings in a server of the lab.
fn has_settings(home: &Path) -> Result<bool, Error> {
    let path = settings_file(home);
    let text = read_plain(&path, CONF_BYTES_MAX).map_err(Error::io("read", &path))?;
    Ok(text.is_some_and(|text| text.lines().any(|line| is_setting(&line))))
}

/// Removes the settings of experiments from a server of the lab that does not run: with them it may not start.
fn forget_settings(home: &Path) -> Result<(), Error> {
    let path = settings_file(home);
    let text = read_plain(&path, CONF_BYTES_MAX).map_err(Error::io("read", &path))?.unwrap_or_default();
    let kept: Vec<&str> = text.lines().filter(|line| !is_setting(line)).collect();
    Ok(write_as(&owner_of(&home.join("data"))?, &path, &(kept.join("\n") + "\n"))?)
}

/// What `alter system` has set of these settings.
const SET_BEFORE: &str = "select name, setting from pg_catalog.pg_file_settings \
                          where sourcefile like '%postgresql.auto.conf' and name = any($1)";

/// How many of these settings take effect only at a restart.
const NEEDS_RESTART: &str =
    "select pg_catalog.count(*) from pg_catalog.pg_settings where context = 'postmaster' and name = any($1)";

/// The directory of the programs of a PostgreSQL on this machine: the given one, or that of a major version.
///
/// # Errors
/// [`Error::Asked`] if it is not there, with those that are.
pub(super) fn programs(postgres: &str) -> Result<PathBuf, Error> {
    let Ok(major) = postgres.parse::<u32>() else {
        let dir = PathBuf::from(postgres);
        let why = || Error::Asked(format!("{postgres} does not hold the programs of a PostgreSQL"));
        return if dir.join("postgres").exists() { Ok(dir) } else { Err(why()) };
    };
    let found = installed(&server_account()?);
    if let Some(one) = found.iter().find(|one| one.major == major) {
        return Ok(one.bin.clone());
    }
    let found: Vec<String> = found.iter().map(|one| format!("{} in {}", one.major, one.bin.display())).collect();
    let found = if found.is_empty() { "none".to_owned() } else { found.join(", ") };
    Err(Error::Asked(format!("PostgreSQL {major} is not installed; installed: {found}")))
}

/// Writes a certificate for the loopback address and its key, which only the server's account can read.
fn certificate(data: &Path) -> Result<[String; 2], Error> {
    let io = |what| Error::io(what, data);
    let made = || {
        let key = KeyPair::generate()?;
        let params = CertificateParams::new(vec!["localhost".to_owned(), "127.0.0.1".to_owned()])?;
        Ok::<_, rcgen::Error>((params.self_signed(&key)?.pem(), key.serialize_pem()))
    };
    let (certificate, key) = made().map_err(|error| Error::Wrong(format!("no certificate can be made: {error}")))?;
    let home = data.parent().unwrap_or(data);
    let account = owner_of(data)?;
    let paths = ["lab.crt", "lab.key"].map(|name| home.join(name));
    for (path, text) in [(&paths[0], certificate), (&paths[1], key)] {
        write_private(path, &text).map_err(io("write beside"))?;
        account.own(path).map_err(io("give away"))?;
    }
    Ok(paths.map(|path| path.display().to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn settings_of_experiments_are_found_and_removed() {
        let home = home_with_data();
        let file = settings_file(home.path());
        assert!(!has_settings(home.path()).unwrap());
        fs::write(&file, "# Do not edit\nssl = 'on'\nhuge_pages = 'on'\n").unwrap();
        server_account().unwrap().own(&file).unwrap();
        assert!(has_settings(home.path()).unwrap());
        forget_settings(home.path()).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "# Do not edit\nssl = 'on'\n");
        assert!(!has_settings(home.path()).unwrap());
    }

    #[test]
    fn a_link_in_the_place_of_the_settings_is_not_written_through() {
        let home = home_with_data();
        let victim = home.path().join("victim");
        fs::write(&victim, "huge_pages = 'on'\n").unwrap();
        std::os::unix::fs::symlink(&victim, settings_file(home.path())).unwrap();
        assert!(has_settings(home.path()).is_err() && forget_settings(home.path()).is_err());
        assert_eq!(fs::read_to_string(&victim).unwrap(), "huge_pages = 'on'\n");
    }

    /// The home of a server with an empty data directory, as its account has it.
    fn home_with_data() -> TempDir {
        use std::os::unix::fs::PermissionsExt;
        let mode = fs::Permissions::from_mode(0o755);
        let home = tempfile::Builder::new().permissions(mode).tempdir().unwrap();
        let data = home.path().join("data");
        fs::create_dir(&data).unwrap();
        server_account().unwrap().own(&data).unwrap();
        home
    }

    #[test]
    fn a_server_of_the_lab_is_for_one_run_at_a_time() {
        let home = tempfile::tempdir().unwrap();
        let first = lock(home.path()).unwrap();
        let refused = lock(home.path()).unwrap_err().to_string();
        assert!(refused.contains("another run of the lab uses this server"), "{refused}");
        drop(first);
        lock(home.path()).unwrap();
    }
}
