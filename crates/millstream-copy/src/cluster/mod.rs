//! Copies a whole PostgreSQL cluster while it runs.
//!
//! The server is put into backup mode, and a slot keeps the WAL from then on. The data directory and the tablespaces are
//! copied like any tree; then `backup_label` and the WAL that recovery needs, and at last the control file, without which no
//! server starts, and PostgreSQL's manifest.

mod backup_manifest;
mod control;
mod destination;
mod links;
mod omitted;
mod server;
mod staged;
mod wal;

use crate::error::Error;
use crate::flow;
use crate::limits::{CONTROL_BYTES_MAX, LARGE_CLUSTER_BYTES_MIN, SETTINGS_BYTES_MAX};
use crate::owner::NOTE;
use crate::path::shown_path;
use crate::place::without_links;
use crate::policy::{Policy, Same};
use crate::receipt::Receipt;
use crate::request::{Delete, Request, Workers};
use crate::tally::Tally;
use crate::walk::Rule;
use backup_manifest::Arrived;
use destination::{Belongs, Destination, WAL};
use millstream_failpoint::hit_on_thread;
use millstream_host::{read_plain, read_plain_bytes, shell_word};
use millstream_model::Refusal;
use millstream_pg::ConnInfo;
use serde::Serialize;
use server::{Facts, Server, Stopped};
use staged::Staged;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use wal::Range;

/// A copy of a cluster.
#[derive(Debug, Clone)]
pub struct ClusterRequest {
    /// The new data directory. It may lie on another machine: `HOST:PATH`.
    pub destination: PathBuf,
    /// Where tablespaces go, by where they are.
    pub tablespaces: Vec<(PathBuf, PathBuf)>,
    /// Make a standby that uses a slot of this name, which stays on the server.
    pub standby: Option<String>,
    /// The remote shell with its options.
    pub shell: Option<OsString>,
    /// Compress what goes to another machine.
    pub compress: bool,
    /// Files that are copied at once.
    pub workers: Workers,
    /// Bytes per second, of all workers together.
    pub bytes_per_second: Option<u64>,
    /// The folder in which copies keep their manifests and journals. No other account may enter it.
    pub home: PathBuf,
}

/// What a copy of a cluster would do.
#[derive(Debug, Clone, Serialize)]
pub struct ClusterPlan {
    /// The data directory of the server.
    pub source: String,
    /// The new one.
    pub destination: String,
    /// Where tablespaces go.
    pub tablespaces: Vec<MovedTablespace>,
    /// Bytes of all databases.
    pub bytes: u64,
    /// Unlogged tables, which are empty in the copy: `DATABASE.SCHEMA.TABLE`.
    pub unlogged: Vec<String>,
    /// What you should know.
    pub notes: Vec<String>,
}

/// Where a tablespace goes.
#[derive(Debug, Clone, Serialize)]
pub struct MovedTablespace {
    /// Where it is.
    pub from: String,
    /// Where it goes.
    pub to: String,
}

/// What a copy of a cluster did.
#[derive(Debug, Clone, Serialize)]
pub struct ClusterReceipt {
    /// What was to be done.
    #[serde(flatten)]
    pub plan: ClusterPlan,
    /// Entries of the data directory and the tablespaces.
    pub seen: u64,
    /// Those that were copied.
    pub copied: u64,
    /// Those whose bytes were there already.
    pub same: u64,
    /// Files that were gone before their turn came: WAL has what became of them.
    pub skipped: u64,
    /// Bytes copied, WAL included.
    pub copied_bytes: u64,
    /// Entries of an earlier copy that were deleted.
    pub deleted: u64,
    /// Files of WAL.
    pub wal_files: u64,
    /// Where recovery begins.
    pub start_lsn: String,
    /// Where the copy is consistent.
    pub stop_lsn: String,
    /// The slot that stays on the server.
    pub slot: Option<String>,
    /// Whether the copy was stopped. It cannot be used then.
    pub stopped: bool,
    /// Workers at the end.
    pub workers: usize,
    /// Seconds.
    pub seconds: f64,
}

/// Says what a copy of a cluster would do. Writes nothing.
///
/// # Errors
/// The cluster cannot be copied like this, or not to there.
pub async fn plan_cluster(conninfo: &ConnInfo, request: &ClusterRequest) -> Result<ClusterPlan, Error> {
    let server = Server::open(conninfo).await?;
    let (facts, request, conninfo) = (server.facts.clone(), request.clone(), conninfo.clone());
    blocking(move || Work::new(facts, request, &conninfo, &Tally::default())?.plan()).await
}

/// Copies a cluster.
///
/// # Errors
/// The cluster cannot be copied like this, or not to there; something could not be copied. A copy that failed cannot be used;
/// the same request goes on from what is there.
pub async fn copy_cluster(
    conninfo: &ConnInfo,
    request: &ClusterRequest,
    tally: &Arc<Tally>,
) -> Result<ClusterReceipt, Error> {
    let begun = Instant::now();
    let server = Server::open(conninfo).await?;
    let (facts, asked) = (server.facts.clone(), request.clone());
    let (own, counted) = (conninfo.clone(), Arc::clone(tally));
    let work = Arc::new(blocking(move || Work::new(facts, asked, &own, &counted)).await?);
    // A copy that was killed could not drop its slot.
    if let Some((left, lsn)) = work.destination.own_slot()
        && server.drop_left(&left, &lsn).await
    {
        // Somebody else may give this name to a slot from now on.
        work.destination.forget_slot()?;
    }
    let slot = request.standby.as_deref();
    let lsn = server.reserve_wal(slot).await?;
    if let Some(slot) = slot
        && let Err(error) = work.destination.note_slot(slot, &lsn)
    {
        server.drop_slot(slot).await;
        return Err(error);
    }
    let copied = copied(&server, &work, conninfo.clone(), tally).await;
    let own = Arc::clone(&work);
    let released = blocking(move || own.release()).await;
    // Why a copy has failed is more than what it has left.
    let copied = copied.and_then(|receipt| released.map(|()| receipt));
    if let Some(slot) = slot {
        let is_whole = copied.as_ref().is_ok_and(|receipt| !receipt.stopped);
        if !is_whole && !server.drop_slot(slot).await {
            let why = copied.err().map_or_else(|| "the copy was stopped".to_owned(), |error| error.to_string());
            let says = format!("{why}; the slot {slot} stays on the server and keeps its WAL");
            let hint = format!("run the same command again, or drop it: select pg_drop_replication_slot('{slot}')");
            return Err(Error::refused(says, hint));
        }
        work.destination.forget_slot()?;
    }
    copied.map(|receipt| ClusterReceipt { seconds: begun.elapsed().as_secs_f64(), ..receipt })
}

async fn copied(
    server: &Server,
    work: &Arc<Work>,
    conninfo: ConnInfo,
    tally: &Arc<Tally>,
) -> Result<ClusterReceipt, Error> {
    server.start().await?;
    let (own, counted) = (Arc::clone(work), Arc::clone(tally));
    let mut done = blocking(move || own.copy_data(&counted)).await?;
    if tally.is_stopped() {
        return work.receipt(done, None);
    }
    let stopped = server.stop().await?;
    server.refuse_other_tablespaces().await?;
    let (own, counted) = (Arc::clone(work), Arc::clone(tally));
    let range = blocking(move || {
        let range = own.finish(&stopped, &conninfo, &counted, &mut done)?;
        own.receipt(done, Some(&range))
    });
    range.await
}

async fn blocking<R: Send + 'static>(work: impl FnOnce() -> Result<R, Error> + Send + 'static) -> Result<R, Error> {
    tokio::task::spawn_blocking(work).await.map_err(|_| Error::Bug)?
}

/// A copy that was found to be possible.
struct Work {
    facts: Facts,
    request: ClusterRequest,
    destination: Destination,
    tablespaces: Vec<Moved>,
}

/// A tablespace and where it goes.
struct Moved {
    oid: u32,
    from: PathBuf,
    to: PathBuf,
    /// The folder of this version in it.
    version: String,
    destination: Destination,
}

/// A tree of a cluster, and how it is copied.
struct Part<'a> {
    source: PathBuf,
    destination: &'a Destination,
    /// The folder of the destination that gets it. Without a name, the destination itself.
    folder: &'static str,
    rules: Vec<Rule>,
    /// What an earlier copy has left goes.
    deletes: bool,
    /// The file system is flushed at the end.
    syncs: bool,
}

/// Receipts so far.
#[derive(Default)]
struct Done {
    copies: Vec<Receipt>,
    wal_files: u64,
}

impl<'a> Part<'a> {
    /// Everything in a folder, copied beside what is there.
    fn new(source: PathBuf, destination: &'a Destination) -> Self {
        Self { source, destination, folder: "", rules: Vec::new(), deletes: false, syncs: false }
    }
}

impl Moved {
    /// What of the tablespace is not copied.
    fn rules(&self) -> Result<Vec<Rule>, Error> {
        omitted::of_tablespace(&self.from, &self.version)
    }
}

impl Work {
    fn new(facts: Facts, request: ClusterRequest, conninfo: &ConnInfo, tally: &Tally) -> Result<Self, Error> {
        let path = facts.data.join("global/pg_control");
        let here = read_plain_bytes(&path, CONTROL_BYTES_MAX).ok().flatten().and_then(|bytes| control::system(&bytes));
        if here != Some(facts.system) {
            let says = format!("the data directory {} cannot be read here", shown_path(&facts.data));
            let hint = "run this on the server's machine, as the server's user or as root";
            return Err(Error::refused(says, hint));
        }
        let belongs = Belongs::ToCluster(facts.system);
        let destination = Destination::open(&facts.data, &request.destination, &request, belongs, tally)?;
        if request.standby.is_some() && destination.is_there() && conninfo.is_local() {
            let says =
                "the standby could not reach its primary: the address in the URL has a meaning on this machine only";
            return Err(Error::refused(says, "name this machine as the standby knows it: postgres://HOST/.."));
        }
        for (n, (from, _)) in request.tablespaces.iter().enumerate() {
            if request.tablespaces[..n].iter().any(|(other, _)| other == from) {
                let says = format!("the tablespace at {} has two new places", shown_path(from));
                return Err(Error::refused(says, "give one"));
            }
            if facts.tablespaces.iter().all(|space| space.location != *from) {
                let known: Vec<_> = facts.tablespaces.iter().map(|space| shown_path(&space.location)).collect();
                let says = format!("there is no tablespace at {}", shown_path(from));
                let hint = match known.is_empty() {
                    true => "there is none outside of the data directory".to_owned(),
                    false => format!("they are at {}", known.join(", ")),
                };
                return Err(Error::refused(says, hint));
            }
        }
        let major = facts.version_num / 10_000;
        let moved = |space: &server::Tablespace| {
            let mapped = request.tablespaces.iter().find(|(from, _)| *from == space.location);
            let to = mapped.map_or_else(|| space.location.clone(), |(_, to)| to.clone());
            if to.is_relative() {
                let says = format!("the new place {} of a tablespace is no absolute path", shown_path(to));
                return Err(Error::refused(says, "begin it with a slash"));
            }
            let version = version_folder(&space.location, major)?;
            let from = space.location.clone();
            if to == from && !destination.is_there() {
                let says = format!("the tablespace at {} would be copied onto itself", shown_path(&from));
                let old = shown_path(&from).replace('=', "\\=");
                let mapped = format!("--tablespace {}", shell_word(&format!("{old}=NEW")));
                return Err(Error::refused(says, format!("say where it goes: {mapped}")));
            }
            let belongs = Belongs::To(&destination.owner);
            let destination = Destination::open(&from, &destination.beside(&to), &request, belongs, tally)?;
            Ok(Moved { oid: space.oid, from, to, version, destination })
        };
        let tablespaces = facts.tablespaces.iter().map(moved).collect::<Result<_, _>>()?;
        let work = Self { facts, request, destination, tablespaces };
        work.refuse_source()?;
        work.refuse_overlap()?;
        links::refuse(&work.facts.data, &work.rules_of_data()?)?;
        // A file of WAL may be a link, too. Of the folders in this one, nothing is copied.
        links::refuse(&work.facts.data.join("pg_wal"), &[omitted::excluded("/*/")])?;
        for moved in &work.tablespaces {
            links::refuse(&moved.from, &moved.rules()?)?;
        }
        Ok(work)
    }

    /// What is written into the cluster itself would be copied, or be in its way.
    fn refuse_source(&self) -> Result<(), Error> {
        let data = [self.facts.data.clone(), self.facts.data.join("pg_wal")];
        let sources = data.iter().chain(self.tablespaces.iter().map(|moved| &moved.from));
        let sources = sources.map(|path| without_links(path)).collect::<Result<Vec<_>, Error>>()?;
        let all = self.tablespaces.iter().map(|moved| (&moved.destination, &moved.to));
        for (destination, to) in all.chain([(&self.destination, &self.request.destination)]) {
            if let Some(source) = sources.iter().find(|source| destination.meets(source)) {
                let says =
                    format!("{} would overlap {}, which belongs to the cluster", shown_path(to), shown_path(source));
                return Err(Error::refused(says, "choose a folder outside of the cluster"));
            }
        }
        Ok(())
    }

    /// Trees that are copied into each other would delete each other's files.
    fn refuse_overlap(&self) -> Result<(), Error> {
        for (n, moved) in self.tablespaces.iter().enumerate() {
            let others = self.tablespaces[..n].iter().map(|other| (&other.destination, &other.to));
            let all = others.chain([(&self.destination, &self.request.destination)]);
            if let Some((_, other)) = all.into_iter().find(|(other, _)| moved.destination.overlaps(other)) {
                let says =
                    format!("a tablespace would go to {}, which overlaps {}", shown_path(&moved.to), shown_path(other));
                return Err(Error::refused(says, "give each a folder of its own, outside of the data directory"));
            }
        }
        Ok(())
    }

    fn plan(&self) -> Result<ClusterPlan, Error> {
        let facts = &self.facts;
        let mut notes = Vec::new();
        if !facts.config.starts_with(&facts.data) {
            let folder = facts.config.parent().unwrap_or(&facts.config);
            notes.push(format!(
                "the settings lie outside of the data directory, in {}, and are not copied",
                shown_path(folder)
            ));
        }
        if facts.bytes >= LARGE_CLUSTER_BYTES_MIN {
            let incremental = if facts.version_num >= 170_000 { "pg_basebackup --incremental or " } else { "" };
            notes.push(format!(
                "a second copy reads everything again, at both ends; if you copy often, {incremental}pgBackRest moves only \
                 the blocks that have changed"
            ));
        }
        Ok(ClusterPlan {
            source: shown_path(&facts.data),
            destination: shown_path(&self.request.destination),
            tablespaces: self
                .tablespaces
                .iter()
                .map(|moved| MovedTablespace { from: shown_path(&moved.from), to: shown_path(&moved.to) })
                .collect(),
            bytes: facts.bytes,
            unlogged: facts.unlogged.clone(),
            notes,
        })
    }

    /// Writes into a folder to which copy it belongs, before anything else is written to any of them.
    fn claim(&self, destination: &Destination, tally: &Tally) -> Result<(), Error> {
        if tally.is_stopped() {
            return Ok(());
        }
        destination.hold(tally)?;
        // What was there before may be gone.
        let owner = destination.check(tally)?;
        destination.forget_what_is_gone(&self.request)?;
        let is_own = owner.as_ref() == Some(&destination.owner);
        if is_own || tally.is_stopped() {
            return Ok(());
        }
        destination.take(owner.is_some(), tally)?;
        // It belongs to the server's account, as everything else there.
        let staged = Staged::new(&self.request.home, &self.facts.data)?;
        staged.write(NOTE, destination.owner.text().as_bytes())?;
        self.copy(Part::new(staged.content(), destination), tally).map(drop)
    }

    /// Lets other copies write to all folders again.
    fn release(&self) -> Result<(), Error> {
        let all = std::iter::once(&self.destination).chain(self.tablespaces.iter().map(|moved| &moved.destination));
        all.map(Destination::release).fold(Ok(()), Result::and)
    }

    /// What of the data directory is not copied with it.
    fn rules_of_data(&self) -> Result<Vec<Rule>, Error> {
        let mut rules = omitted::of_data(&self.facts.data)?;
        rules.extend(self.tablespaces.iter().map(|moved| omitted::excluded(&format!("/pg_tblspc/{}", moved.oid))));
        // PostgreSQL warns of a tablespace in the data directory, and takes it.
        let inside = self.tablespaces.iter().filter_map(|moved| moved.from.strip_prefix(&self.facts.data).ok());
        rules.extend(inside.map(omitted::excluded_path));
        if self.request.standby.is_some() {
            rules.push(omitted::excluded("/postgresql.auto.conf"));
        }
        Ok(rules)
    }

    /// Copies the data directory and the tablespaces.
    fn copy_data(&self, tally: &Tally) -> Result<Done, Error> {
        let mut done = Done::default();
        self.claim(&self.destination, tally)?;
        for moved in &self.tablespaces {
            self.claim(&moved.destination, tally)?;
        }
        if tally.is_stopped() {
            return Ok(done);
        }
        if !self.destination.was_empty {
            self.destination.disarm(tally)?;
        }
        let (rules, deletes) = (self.rules_of_data()?, !self.destination.was_empty);
        let data = Part { rules, deletes, ..Part::new(self.facts.data.join(""), &self.destination) };
        done.copies.push(self.copy(data, tally)?);
        for moved in &self.tablespaces {
            if tally.is_stopped() {
                return Ok(done);
            }
            let (rules, deletes) = (moved.rules()?, !moved.destination.was_empty);
            let space = Part { rules, deletes, syncs: true, ..Part::new(moved.from.join(""), &moved.destination) };
            done.copies.push(self.copy(space, tally)?);
        }
        hit_on_thread("cluster-copied");
        Ok(done)
    }

    /// Copies the label and the WAL, and at last the control file: no server starts on a copy without it.
    fn finish(&self, stopped: &Stopped, conninfo: &ConnInfo, tally: &Tally, done: &mut Done) -> Result<Range, Error> {
        let range = Range::of(&stopped.label, stopped.lsn)?;
        let control = control::read(&self.facts.data.join("global/pg_control"))?;
        let staged = Staged::new(&self.request.home, &self.facts.data)?;
        staged.write("backup_label", stopped.label.as_bytes())?;
        for folder in omitted::linked(&self.facts.data) {
            staged.folder(folder)?;
        }
        for moved in &self.tablespaces {
            staged.link(&format!("pg_tblspc/{}", moved.oid), &moved.to)?;
        }
        if let Some(slot) = &self.request.standby {
            let path = self.facts.data.join("postgresql.auto.conf");
            // The copy belongs to the server's account, which could have put a link to another file here.
            let own = read_plain(&path, SETTINGS_BYTES_MAX).map_err(Error::file("read", &path))?.unwrap_or_default();
            let settings = staged::standby_settings(&own, conninfo, slot)?;
            staged.write("postgresql.auto.conf", settings.as_bytes())?;
            staged.write("standby.signal", b"")?;
        }
        done.copies.push(self.copy(Part::new(staged.content(), &self.destination), tally)?);
        hit_on_thread("label-copied");
        done.wal_files = self.copy_wal(&range, tally, done)?;
        hit_on_thread("wal-copied");
        let mut files = self.destination.arrived("", &self.request, tally)?;
        let note = self.destination.owner.text();
        files.push(Arrived::made(NOTE, note.as_bytes()));
        for moved in &self.tablespaces {
            let before = format!("pg_tblspc/{}/", moved.oid);
            files.extend(moved.destination.arrived(&before, &self.request, tally)?);
            files.push(Arrived::made(before + NOTE, note.as_bytes()));
            // A server on the copy would use what is there now.
            moved.destination.check_place()?;
        }
        let last = Staged::new(&self.request.home, &self.facts.data)?;
        files.push(last.write("global/pg_control", &control)?);
        let text = backup_manifest::text(&files, &range, self.facts.version_num, self.facts.system);
        last.write("backup_manifest", text.as_bytes())?;
        let copied = self.copy(Part { syncs: true, ..Part::new(last.content(), &self.destination) }, tally);
        if !copied.as_ref().is_ok_and(|receipt| !receipt.stopped) {
            // Not counted by the copy, which may be stopped.
            self.destination.disarm(&Tally::default())?;
        }
        done.copies.push(copied?);
        Ok(range)
    }

    /// Copies the WAL of the backup. Returns how many files.
    fn copy_wal(&self, range: &Range, tally: &Tally, done: &mut Done) -> Result<u64, Error> {
        let files = range.files(self.facts.segment_bytes)?;
        let folder = self.facts.data.join("pg_wal");
        let mut rules: Vec<_> = files.iter().map(|file| omitted::included(&format!("/{file}"))).collect();
        // How the cluster came to this timeline.
        rules.push(omitted::included(&format!("/{:08X}.history", range.timeline)));
        rules.push(omitted::excluded("/*"));
        // The data are on the disk before the control file is.
        let deletes = !self.destination.was_empty;
        let wal = Part { folder: WAL, rules, deletes, syncs: true, ..Part::new(folder.join(""), &self.destination) };
        done.copies.push(self.copy(wal, tally)?);
        // What is there now was there all the time: no file of WAL gets the name of an earlier one.
        for file in &files {
            let path = folder.join(file);
            let size = fs::metadata(&path).map_err(Error::file("read the WAL that the copy needs, in", &path))?.len();
            if size != self.facts.segment_bytes {
                return Err(Refusal::new(format!("the file {} of WAL is not whole", shown_path(path))).into());
            }
        }
        Ok(files.len() as u64)
    }

    /// Copies a tree.
    fn copy(&self, part: Part<'_>, tally: &Tally) -> Result<Receipt, Error> {
        let Part { source, destination, folder, rules, deletes, syncs } = part;
        let asked = &self.request;
        let mut request = Request::new(source, PathBuf::new(), &asked.home);
        destination.aim(&mut request, folder)?;
        request.shell.clone_from(&asked.shell);
        request.compress = asked.compress;
        request.workers = asked.workers;
        request.bytes_per_second = asked.bytes_per_second;
        request.rules = rules;
        // Of a copy on another machine, the hashes are computed there.
        let is_there = self.destination.is_there();
        let same = if is_there && self.destination.was_empty { Same::ByTime } else { Same::ByBytes };
        request.policy = Some(Policy::of_cluster(same, !is_there));
        request.fsync = syncs;
        request.delete = deletes.then(|| Delete { even_all: true, excluded: true, ..Delete::default() });
        let receipt = flow::copy(&request, tally, &|_| true)?;
        if let Some(failure) = receipt.failures.first().filter(|_| !receipt.stopped) {
            let says = format!("{} of {} could not be copied: {}", failure.path, receipt.source, failure.reason);
            return Err(Error::refused(says, "the copy cannot be used; run the same command again"));
        }
        if let Some(why) = receipt.kept_because.as_ref().filter(|_| !receipt.stopped) {
            return Err(Refusal::new(format!("what an earlier copy has left could not be deleted: {why}")).into());
        }
        Ok(receipt)
    }

    fn receipt(&self, done: Done, range: Option<&Range>) -> Result<ClusterReceipt, Error> {
        let sum = |of: fn(&Receipt) -> u64| done.copies.iter().map(of).sum();
        Ok(ClusterReceipt {
            plan: self.plan()?,
            seen: sum(|receipt| receipt.seen),
            copied: sum(|receipt| receipt.copied),
            same: sum(|receipt| receipt.same),
            skipped: sum(|receipt| receipt.skipped),
            copied_bytes: sum(|receipt| receipt.copied_bytes),
            deleted: sum(|receipt| receipt.deleted),
            wal_files: done.wal_files,
            start_lsn: range.map_or_else(String::new, |range| wal::lsn_text(range.start)),
            stop_lsn: range.map_or_else(String::new, |range| wal::lsn_text(range.stop)),
            slot: self.request.standby.clone().filter(|_| range.is_some()),
            stopped: range.is_none() || done.copies.iter().any(|receipt| receipt.stopped),
            workers: done.copies.first().map_or(0, |receipt| receipt.workers),
            seconds: 0.0,
        })
    }
}

/// The folder of a version in a tablespace, such as `PG_15_202209061`.
fn version_folder(location: &Path, major: i32) -> Result<String, Error> {
    let failed = Error::file("list the tablespace", location);
    let before = format!("PG_{major}_");
    for entry in fs::read_dir(location).map_err(&failed)? {
        let name = entry.map_err(&failed)?.file_name();
        if let Some(name) = name.to_str().filter(|name| name.starts_with(&before)) {
            return Ok(name.to_owned());
        }
    }
    Err(Refusal::new(format!("the tablespace {} has no folder {before}*", shown_path(location))).into())
}
