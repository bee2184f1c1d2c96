//! The stage of an experiment's runs: its servers with their data, what is set of the host, and files.

use crate::core::{Environment, Machine, flush_us};
use crate::error::Error;
use crate::experiments::arm::Setup;
use crate::experiments::cluster::{Cluster, Trouble};
use crate::experiments::command::{self, Ground, PGBENCH};
use crate::experiments::conditions::{Conditions, Request};
use crate::experiments::data::Data;
use crate::experiments::disk::{Disk, MeasuredDisk};
use crate::experiments::files::Source;
use crate::experiments::host::Host;
use crate::experiments::place::Place;
use crate::experiments::program::Program;
use crate::experiments::via::Via;
use crate::experiments::{scratch, slow_disks};
use crate::limits::{CLIENTS_USUAL_MAX, SESSIONS_SPARE};
use millstream_local::Progress;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use tempfile::TempDir;

/// What an experiment uses of the machine. [`Stage::put_back`] gives all of it back.
pub(super) struct Stage<'a> {
    source: &'a Source,
    request: &'a Request,
    /// Servers with their pgbench, by the name that arms give them.
    servers: BTreeMap<String, (Cluster, Program)>,
    host: Host,
    /// The files of commands that need no server.
    files: Option<TempDir>,
    /// Databases that were made or found complete, with their server.
    made: Vec<(String, Data)>,
    /// Arms whose facts were read.
    read: BTreeSet<String>,
}

/// A server and a database, ready for a run.
pub(super) struct Ready<'s> {
    pub(super) cluster: &'s Cluster,
    pub(super) program: &'s Program,
    pub(super) data: Data,
}

impl<'a> Stage<'a> {
    pub(super) fn new(source: &'a Source, request: &'a Request) -> Self {
        let (servers, made, read) = (BTreeMap::new(), Vec::new(), BTreeSet::new());
        Self { source, request, servers, host: Host::default(), files: None, made, read }
    }

    /// Removes what labs have left that were killed.
    pub(super) async fn recover(&mut self, say: Progress<'_>) {
        let left = slow_disks::left();
        if self.host.recover(!left.is_empty(), say) {
            slow_disks::remove(&left, say).await;
        }
        scratch::remove_old();
    }

    /// The server and the database of an arm. What is found out of the server goes to the conditions, with what the arm has
    /// set there.
    pub(super) async fn ready(
        &mut self,
        arm: &str,
        setup: &Setup,
        conditions: &mut Conditions,
        say: Progress<'_>,
    ) -> Result<Ready<'_>, Trouble> {
        let (source, request) = (self.source, self.request);
        if let Some(why) = setup.unfit(request) {
            return Err(Trouble::Unfit(why));
        }
        self.speed_up();
        let disk = setup.slow_disk();
        if disk.is_some() || setup.via == Some(Via::Veth) || setup.memory_mb.is_some() {
            self.host.claim(request.change_host)?;
        }
        let name = self.server(setup, conditions, say).await?;
        let Some((cluster, program)) = self.servers.get_mut(&name) else {
            return Err(Trouble::Unfit("its server is gone".to_owned()));
        };
        open_way(cluster, program, setup.via, say).await?;
        let wal_dir = request.wal_dir.as_deref().filter(|_| setup.wal_apart == Some(true));
        cluster.place_wal(wal_dir, say).await?;
        set_host(&mut self.host, cluster, setup, request)?;
        let wanted = settings(source, setup, cluster);
        cluster.set(&wanted, say).await?;
        let key = (name, Data::of(source, setup));
        if !self.made.contains(&key) {
            // Making the data may need more memory than a run.
            cluster.limit_memory(None, say).await?;
            source.put_files(cluster.files())?;
            key.1.make(cluster, program, source, say).await?;
            self.made.push(key.clone());
        }
        cluster.limit_memory(setup.memory_mb, say).await?;
        if let (Some(disk), Some(words)) = (&disk, &setup.disk)
            && !conditions.slow_disks.contains_key(words)
        {
            let measured = measured(cluster, disk)?;
            say(&format!("disk {words}: {}", measured.sentence()));
            conditions.slow_disks.insert(words.clone(), measured);
        }
        if self.read.insert(arm.to_owned()) {
            let found = facts(cluster).await?;
            conditions.hold(&key.0, arm, &found);
        }
        Ok(Ready { cluster, program, data: key.1 })
    }

    /// The name of the server of a setup. It is started unless it runs.
    async fn server(
        &mut self,
        setup: &Setup,
        conditions: &mut Conditions,
        say: Progress<'_>,
    ) -> Result<String, Trouble> {
        let place = Place::of(setup, self.request.postgres.as_ref());
        let name = place.name();
        if self.servers.contains_key(&name) {
            return Ok(name);
        }
        let cluster = match &self.request.db {
            Some(db) => Cluster::foreign(db.clone(), self.request.may_change)?,
            None => Cluster::own(&place, self.request.program.as_deref(), say).await?,
        };
        let program = Program::find(cluster.own_program(PGBENCH)?).await?;
        // Of a machine as it is by itself, and not as the arm before has set it.
        self.host.set(&BTreeMap::new(), None, self.request.change_host)?;
        describe(&name, &cluster, &program, conditions).await?;
        if place.disk.is_none() {
            let disk = cluster.data().map(|data| Machine::look(Some(data), &std::env::temp_dir()).disk);
            conditions.disk = conditions.disk.take().or(disk);
        }
        self.servers.insert(name.clone(), (cluster, program));
        Ok(name)
    }

    /// The directory for files of commands that need no server. It is prepared once.
    pub(super) async fn files(&mut self) -> Result<&Path, Trouble> {
        let source = self.source;
        let files = match &mut self.files {
            Some(files) => files,
            none => {
                let files = none.insert(scratch::for_a_run()?);
                source.put_files(files.path())?;
                let setup = shell_lines(&source.experiment.setup, files.path()).await;
                setup.map_err(|trouble| source.failed_setup(trouble))?;
                files
            }
        };
        Ok(files.path())
    }

    /// Makes slow disks fast: only what is measured is slow.
    fn speed_up(&self) {
        self.servers.values().for_each(|(cluster, _)| _ = cluster.delay(None));
    }

    /// Runs what the experiment has for its end. An error of it is reported, and ends nothing.
    pub(super) async fn clean(&mut self, say: Progress<'_>) {
        self.speed_up();
        let cleanup = &self.source.experiment.cleanup;
        if let Some(files) = self.files.take()
            && let Err(Trouble::Error(error)) = shell_lines(cleanup, files.path()).await
        {
            say(&format!("cleanup: {}", error.chain()));
        }
        for (server, data) in &self.made {
            let Some((cluster, _)) = self.servers.get(server) else { continue };
            if let Err(Trouble::Error(error)) = data.execute(cluster, cleanup).await {
                say(&format!("cleanup: {}", error.chain()));
            }
        }
    }

    /// Gives servers and host back what is theirs: all of it, also if a part fails.
    pub(super) async fn put_back(&mut self, say: Progress<'_>) -> Result<(), Error> {
        let mut first = self.host.restore().err();
        for (cluster, _) in self.servers.values_mut() {
            let failed = match cluster.reset(say).await {
                Ok(()) => continue,
                Err(Trouble::Error(error)) => error,
                Err(Trouble::Unfit(why)) => Error::Asked(format!("the server has not got back its settings: {why}")),
            };
            say(&failed.chain());
            first = first.or(Some(failed));
        }
        first.map_or(Ok(()), Err)
    }
}

/// The facts of a server and its machine, as they are now.
async fn facts(cluster: &Cluster) -> Result<Environment, Trouble> {
    let control = cluster.control().await?;
    let found = match cluster.is_local() {
        true => Environment::look(cluster.data(), &control.client).await?,
        false => Environment::of_server(&control.client).await?,
    };
    control.close().await;
    Ok(found)
}

/// Adds to the conditions which server this is, and with which pgbench.
///
/// # Errors
/// [`Error::Asked`] if the record was begun with another one.
async fn describe(
    name: &str,
    cluster: &Cluster,
    program: &Program,
    conditions: &mut Conditions,
) -> Result<(), Trouble> {
    let control = cluster.control().await?;
    let version: String = control.client.query_one("select pg_catalog.version()", &[]).await?.get(0);
    let earlier = conditions.servers.insert(name.to_owned(), version.clone());
    if let Some(earlier) = earlier.filter(|earlier| *earlier != version) {
        let why = format!("the record was begun with {earlier}, and this is {version}; choose another --out");
        return Err(Error::Asked(why).into());
    }
    if !conditions.pgbench.contains(&program.version) {
        let both = [conditions.pgbench.as_str(), &program.version];
        let there: Vec<&str> = both.into_iter().filter(|text| !text.is_empty()).collect();
        conditions.pgbench = there.join("; ");
    }
    Ok(())
}

/// Measures a slow disk beside the data of the server on it.
fn measured(cluster: &Cluster, disk: &Disk) -> Result<MeasuredDisk, Trouble> {
    cluster.delay(Some(disk))?;
    let flush = cluster.data().and_then(Path::parent).and_then(flush_us);
    cluster.delay(None)?;
    Ok(disk.measured(flush))
}

/// Makes the way to the server that an arm takes.
async fn open_way(
    cluster: &mut Cluster,
    program: &mut Program,
    via: Option<Via>,
    say: Progress<'_>,
) -> Result<(), Trouble> {
    match via {
        Some(Via::Ssl) => cluster.allow_ssl().await,
        Some(Via::Veth) => {
            cluster.allow_veth(say).await?;
            program.second_network = cluster.second_network();
            Ok(())
        }
        Some(Via::Socket | Via::Tcp) | None => Ok(()),
    }
}

/// The settings of an arm. The lab's own server has room for the sessions of the arm that has the most, and for all arms
/// the same.
fn settings(source: &Source, setup: &Setup, cluster: &Cluster) -> BTreeMap<String, String> {
    let experiment = &source.experiment;
    let most = experiment.arms.iter().map(|arm| experiment.setup(arm).clients()).max().unwrap_or(0);
    let mut settings = setup.settings.clone();
    if cluster.data().is_some() && most > CLIENTS_USUAL_MAX {
        settings.entry("max_connections".to_owned()).or_insert_with(|| (most + SESSIONS_SPARE).to_string());
    }
    settings
}

/// Gives the host the settings of an arm. The server takes pages that the host sets aside only when it starts.
fn set_host(host: &mut Host, cluster: &Cluster, setup: &Setup, request: &Request) -> Result<(), Trouble> {
    if !setup.host.is_empty() && !cluster.is_local() {
        let why = "it changes the machine of the server, and --db names a server on another one";
        return Err(Trouble::Unfit(why.to_owned()));
    }
    host.set(&setup.host, cluster.data(), request.change_host)
}

/// Runs shell commands of an experiment that needs no server. Each begins with `!`.
pub(super) async fn shell_lines(lines: &[String], files: &Path) -> Result<(), Trouble> {
    for line in lines {
        command::shell(line.strip_prefix('!').unwrap_or(line), Ground::Files(files)).await?;
    }
    Ok(())
}
