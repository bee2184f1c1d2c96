//! A load into a table that Citus distributes: each shard is a table at the node that has it, and gets a load of its own there,
//! with one lane.
//!
//! So a lane writes and commits at one node only, and what it has committed is recorded in the same transaction. What one
//! command loads is the loads of all shards: they read the same sources, begin and end together, and have one receipt. A
//! batch first locks its shard against moves, and then makes sure that the shard is still there.

mod shards;

use crate::batch::{Classes, ShardRanges};
use crate::budget::Budget;
use crate::collection::{provide_distributed, require_distributed};
use crate::control::{Control, Shared, connect_control};
use crate::drain::Drain;
use crate::engine::Finish;
use crate::error::Error;
use crate::feed::Feed;
use crate::feeding::feed_all;
use crate::observe::{Event, Observer, Tally};
use crate::outcome::{Outcome, Surroundings};
use crate::reject_limits::RejectLimits;
use crate::request::{AskedColumns, LoadRequest};
use crate::run::{Begun, Run, decisive, start_engine};
use crate::service::Once;
use crate::stop::StopReason;
use crate::write::LaneReport;
use futures_util::future::{join_all, select_all};
use millstream_model::{CollectionName, DocumentForm, Position, Receipt, WalScope};
use millstream_pg::{
    ConnInfo, Connection, Error as PgError, ErrorKind, Explained, Failures, may_pass, quote_literal, quote_name,
};
use shards::{Shard, shards};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

/// Settings of a session that writes shards as the tables that they are, and makes our own tables at its node alone.
const NODE_OPTIONS: &str = "-c citus.enable_manual_changes_to_shards=on -c citus.override_table_visibility=off \
                            -c citus.enable_ddl_propagation=off";

/// One run of a load into a table that the server, a coordinator, distributes.
///
/// # Errors
/// As for [`crate::load`]; [`Error::Refused`] for what only a table of one server can have.
pub(crate) async fn load_distributed(
    request: &LoadRequest,
    around: &Surroundings,
    mut feed: Feed,
) -> Result<Outcome, Error> {
    refuse(request)?;
    // The coordinator and each shard find the same.
    let observer: Arc<dyn Observer> = Arc::new(Once::new(Arc::clone(&around.observer)));
    let around = &Surroundings { observer, ..around.clone() };
    let drain = Drain::new(&around.stop, request.stop_wait);
    let found = drain.bounds(Box::pin(Table::find(request, around, &mut feed))).await;
    let table = found.ok_or_else(|| drain.ended())??;
    let mut runs = Vec::with_capacity(table.shards.len());
    let opened = Box::pin(open(&table, around, &drain, (&mut feed, &mut runs))).await;
    let nodes = match opened.and_then(|nodes| compare(&mut feed, &runs).map(|()| nodes)) {
        Ok(nodes) => nodes,
        Err(error) => {
            // They have read nothing. The error says more than what may go wrong now.
            let _ = close(runs, Vec::new(), Some(&StopReason::Failed)).await;
            return Err(placed(request, error));
        }
    };
    announce(&runs, &*around.observer);
    let after = request.standstill_after;
    let watching = join_all(nodes.iter().map(|node| Box::pin(node.attended(after, std::future::pending::<()>()))));
    // Of what earlier runs have rejected, a lane knows only what they did in its own shard.
    let rejects = RejectLimits::new(request, runs.iter().map(Run::before));
    let mut finish = match rejects.reached(&Tally::default()) {
        true => Finish { reports: Vec::new(), stopped: Some(StopReason::Rejects), error: None },
        false => tokio::select! {
            biased;
            finish = Box::pin(work(&mut runs, table.ranges.clone(), &mut feed, around)) => finish,
            _ = watching => Finish::failed(Error::BrokenOff("nobody watches the nodes")),
        },
    };
    if finish.stopped.is_none() {
        let settled = drain.bounds(Box::pin(table.settle(&request.collection, around))).await;
        if let Err(error) = settled.unwrap_or_else(|| Err(drain.ended())) {
            finish = Finish { reports: finish.reports, ..Finish::failed(error) };
        }
    }
    let Finish { reports, stopped, error } = finish;
    let (receipts, failure) = close(runs, reports, stopped.as_ref()).await;
    if let Some(failure) = failure {
        return Err(placed(request, decisive(failure, error)));
    }
    let receipt = sum(request, receipts).ok_or(Error::BrokenOff("a distributed table has no shards"))?;
    let error = error.map(|error| placed(request, error));
    Ok(Outcome { receipt, stopped, error, recalled: false })
}

/// Refuses what a load into a distributed table refuses before it looks at the shards.
///
/// # Errors
/// [`Error::Refused`] for what only a table of one server can have; [`Error::Collection`] when Citus does not distribute the
/// table; the coordinator's.
pub(crate) async fn require_distributable(control: &Connection, request: &LoadRequest) -> Result<(), Error> {
    refuse(request)?;
    require_distributed(control, request).await
}

/// Refuses what cannot be done shard by shard, or would not survive a move of a shard: a load's record and tombstones stay at
/// the node that the shard leaves.
fn refuse(request: &LoadRequest) -> Result<(), Error> {
    let LoadRequest { mode, layout, durability, doc, .. } = request;
    let forgets = "load into a table of one server: if a shard is moved, what must be known of it stays behind";
    let refused: [(bool, &str, &str); 11] = [
        (!layout.fills_table, "--layout log", "leave it out: segments are merged into a table of one server"),
        (mode.adds_up(), "--mode sum", forgets),
        (mode.tombstone().is_some() && mode.version().is_some(), "--delete-when in mode newest", forgets),
        (request.forget_deletes.is_some(), "--forget-deletes", "leave it out: no deletes are remembered"),
        (request.delete_missing.is_some(), "--delete-missing", "leave it out; verify --exact lists the rows"),
        (!request.checks.is_empty(), "--check", "add the check at the coordinator: alter table .. add check (..)"),
        (request.columns != AskedColumns::Any, "--column", "add the column at the coordinator: alter table .. add .."),
        (doc.is_some_and(|doc| doc != DocumentForm::Whole), "--doc without-key", "leave it out"),
        (durability.unlogged, "--durability unlogged", "leave it out"),
        (request.lanes.is_some(), "--lanes", "leave it out: each shard has one lane. Spark cannot load here"),
        (request.rejects_max == 0, "--max-rejects 0 or --strict", "leave it out: shards do not commit in one order"),
    ];
    match refused.iter().find(|(asked, ..)| *asked) {
        Some((_, option, hint)) => {
            Err(Error::refused(format!("{option} does not go with a table that Citus distributes"), *hint))
        }
        None => Ok(()),
    }
}

/// The table, as the coordinator has it.
struct Table {
    oid: u32,
    /// What the load into one of its shards is asked for, but for the name of the shard.
    of_shards: LoadRequest,
    shards: Vec<Shard>,
    ranges: ShardRanges,
}

impl Table {
    async fn find(request: &LoadRequest, around: &Surroundings, feed: &mut Feed) -> Result<Self, Error> {
        let mut coordinator = connect_control(&around.db).await?;
        // Each node has tables of our own for itself.
        coordinator.client.batch_execute("set citus.enable_ddl_propagation = off").await?;
        let bound = request.schema.ensure(&mut coordinator.client).await?;
        around.observer.warn(bound.map(|bound| bound.to_string()));
        coordinator.client.batch_execute("set citus.enable_ddl_propagation = on").await?;
        let (oid, of_shards) = provide_distributed(&mut coordinator, request, feed, &*around.observer).await?;
        let (shards, ranges) = shards(&coordinator.client, &request.collection, oid, &of_shards.key).await?;
        coordinator.close().await;
        Ok(Self { oid, of_shards, shards, ranges })
    }

    /// Requires that what was committed into the shards is in the table.
    ///
    /// Somebody may give the table another number of shards, or distribute it no more. Citus then copies its rows into a new
    /// table, and drops the old one with what was committed behind the copy. Only a lock at the coordinator keeps it from
    /// that, and batches do not take it. So before a load counts as finished, it waits for the end of such a copy. In a new
    /// table it begins anew. A later copy has everything.
    ///
    /// # Errors
    /// [`Error::TableChanged`] if it has other shards now; the coordinator's.
    async fn settle(&self, name: &CollectionName, around: &Surroundings) -> Result<(), Error> {
        let mut failures = Failures::default();
        loop {
            let error = match self.compare_shards(name, around).await {
                Ok(true) => return Ok(()),
                Ok(false) => return Err(recut(name)),
                Err(error) if error.is_unknown_table() => return Err(recut(name)),
                Err(error) => error,
            };
            if failures.count() == 0 && may_pass(error.kind()) {
                around.observer.warn([format!("the load waits for the coordinator: {error}")]);
            }
            if !failures.wait(error.kind()).await {
                return Err(error);
            }
        }
    }

    /// Whether the shards are the same, once nobody copies them.
    async fn compare_shards(&self, name: &CollectionName, around: &Surroundings) -> Result<bool, Error> {
        let session = connect_control(&around.db).await?;
        let lock = format!("begin; lock table only {} in row share mode", quote_name(name));
        if let Err(error) = session.client.batch_execute(&lock).await {
            // Citus gives the end of its server the code that a lost table has. Only the session tells them apart.
            return Err(match session.client.batch_execute("rollback").await {
                Ok(()) => error.into(),
                Err(_) => Error::Postgres(PgError::Lost { message: error.to_string() }),
            });
        }
        let sql = "select coalesce(pg_catalog.array_agg(s.shardid), '{}') from pg_catalog.pg_dist_shard s \
                   where s.logicalrelid::oid = $1";
        let mut now: Vec<i64> = session.client.query_one(sql, &[&self.oid]).await?.get(0);
        session.client.batch_execute("commit").await?;
        session.close().await;
        let mut before: Vec<i64> = self.shards.iter().map(|shard| shard.id).collect();
        now.sort_unstable();
        before.sort_unstable();
        Ok(now == before)
    }
}

/// Opens the load of each shard, in the order of their hashes, with one control session for each node. Those that are open
/// are in `runs`, also after an error. Returns the nodes.
async fn open(
    table: &Table,
    around: &Surroundings,
    drain: &Drain,
    (feed, runs): (&mut Feed, &mut Vec<Run>),
) -> Result<Vec<Surroundings>, Error> {
    let Table { of_shards, shards, .. } = table;
    let lanes = u16::try_from(shards.len()).expect("shards are few");
    let budget = Budget::new(of_shards.memory_bytes, lanes, u16::MAX);
    let mut nodes: HashMap<(&str, u16), (Surroundings, Shared)> = HashMap::new();
    for shard in shards {
        let collection = shard.name.clone();
        let request = LoadRequest { collection, shard: Some(shard.id), lanes: Some(1), ..of_shards.clone() };
        let (around, shared) = match nodes.entry((shard.host.as_str(), shard.port)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(node) => {
                let (host, port) = *node.key();
                let observer = OfNode { node: format!("{host}:{port}"), observer: Arc::clone(&around.observer) };
                let db = around.db.of_node(host, port, NODE_OPTIONS);
                let asked = drain.bounds(Box::pin(require_node(&db, shard))).await;
                asked.ok_or_else(|| drain.ended())??;
                let around = Surroundings { db, observer: Arc::new(observer), ..around.clone() };
                let control = drain.bounds(Box::pin(Control::open(&request, &around, None))).await;
                let control = control.ok_or_else(|| drain.ended())??;
                node.insert((
                    around,
                    Shared { control, budget: budget.clone(), table: Arc::default(), drain: Some(drain.clone()) },
                ))
            }
        };
        match Box::pin(Run::begin(&request, around, feed, None, Some(&*shared))).await? {
            Begun::Run(run) => runs.push(*run),
            Begun::Finished(_) => {
                return Err(Error::BrokenOff("the load of a shard has begun as one that is finished"));
            }
        }
    }
    Ok(nodes.into_values().map(|(around, _)| around).collect())
}

/// Requires that a server is the node that the coordinator means. Here, its name may be that of another server, as localhost
/// is.
async fn require_node(db: &ConnInfo, shard: &Shard) -> Result<(), Error> {
    let node = connect_control(db).await?;
    let sql = "select metadata operator(pg_catalog.->>) 'server_id'::text from pg_catalog.pg_dist_node_metadata";
    let own: Option<String> = match node.client.query_opt(sql, &[]).await.map_err(Error::from) {
        Ok(row) => row.and_then(|row| row.get(0)),
        Err(error) if error.is_unknown_table() => None,
        Err(error) => return Err(error),
    };
    node.close().await;
    if own.is_some() && own == shard.server {
        return Ok(());
    }
    let Shard { host, port, server, .. } = shard;
    if server.is_none() {
        let problem = format!("the coordinator does not reach its node {host}:{port}");
        return Err(Error::refused(problem, "ask it why: select * from citus_check_cluster_node_health()"));
    }
    Err(Error::refused(
        format!("the server at {host}:{port} is not the node that the coordinator knows by this name"),
        "the nodes must be reachable from here by their names in pg_dist_node: see citus_update_node and \
         citus_set_coordinator_host",
    ))
}

/// Makes the feed compare the sources with what most of the loads have read. What the others have read is a part of that.
fn compare(feed: &mut Feed, runs: &[Run]) -> Result<(), Error> {
    let committed = runs.iter().map(|run| run.before().committed()).min().unwrap_or_default();
    let reached = |run: &&Run| run.before().prefix.map(|(source, prefix)| Position { source, offset: prefix.length });
    let farthest = runs.iter().max_by_key(reached).and_then(|run| run.before().prefix);
    feed.verify(committed, farthest)
}

fn announce(runs: &[Run], observer: &dyn Observer) {
    let load_id = runs.first().map_or(0, Run::load_id);
    let documents: u64 = runs.iter().map(|run| run.before().counters.read).sum();
    if documents > 0 {
        observer.event(Event::Resumed { load_id, documents });
    }
    observer.event(Event::Started { load_id, lanes: u16::try_from(runs.len()).expect("shards are few") });
}

/// Feeds the sources to one engine, whose lanes are those of all loads.
async fn work(runs: &mut [Run], ranges: ShardRanges, feed: &mut Feed, around: &Surroundings) -> Finish {
    let setups: Vec<_> = runs.iter_mut().flat_map(Run::setups).collect();
    let Some(first) = runs.first().filter(|_| setups.len() == runs.len()) else {
        return Finish::failed(Error::BrokenOff("a shard has no lane"));
    };
    let (lanes, _) = first.lanes();
    let floors = runs.iter().map(|run| run.before().committed()).collect();
    let engine = match start_engine(&lanes, setups, Classes::shards(ranges, floors), None).await {
        Ok(engine) => engine,
        Err(error) => return Finish::failed(error),
    };
    let finish = async {
        let fed = feed_all(feed, &engine, around).await;
        engine.finish(fed).await
    };
    let held = select_all(runs.iter_mut().map(|run| Box::pin(run.hold())));
    tokio::select! {
        biased;
        finish = finish => finish,
        (fenced, ..) = held => Finish::failed(fenced),
    }
}

/// Closes all loads. `reports` are those of their lanes, in the order of the loads. Returns the receipts, and the first error
/// if not all could be closed.
async fn close(
    runs: Vec<Run>,
    reports: Vec<LaneReport>,
    stopped: Option<&StopReason>,
) -> (Vec<Receipt>, Option<Error>) {
    let mut reports = reports.into_iter();
    let ends = runs.into_iter().map(|run| {
        let finish = Finish { reports: reports.next().into_iter().collect(), stopped: stopped.cloned(), error: None };
        Box::pin(run.end(finish, Vec::new()))
    });
    let (mut receipts, mut failure) = (Vec::new(), None);
    for ended in join_all(ends).await {
        match ended {
            Ok(outcome) => receipts.push(outcome.receipt),
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    (receipts, failure)
}

/// One receipt for all shards; `None` if there are none.
fn sum(request: &LoadRequest, receipts: Vec<Receipt>) -> Option<Receipt> {
    let mut receipts = receipts.into_iter();
    let mut sum = receipts.next()?;
    sum.collection = request.collection.to_string();
    for one in receipts {
        sum.counters += one.counters;
        sum.rejected_lines += one.rejected_lines;
        sum.seconds = sum.seconds.max(one.seconds);
        sum.lanes += one.lanes;
        sum.retries += one.retries;
        sum.deadlocks += one.deadlocks;
        sum.finished &= one.finished;
        sum.wal_bytes += one.wal_bytes;
        if one.wal_scope != WalScope::Backend {
            sum.wal_scope = one.wal_scope;
        }
        if let Some(before) = one.resumed_from {
            *sum.resumed_from.get_or_insert_default() += before;
        }
        for (name, batches) in one.writers {
            *sum.writers.entry(name).or_default() += batches;
        }
        // What follows the transforms was counted for all shards together.
        for (of_all, of_one) in sum.transforms.iter_mut().zip(one.transforms).take(request.transforms.len()) {
            for (outcome, documents) in of_one.documents {
                *of_all.documents.entry(outcome).or_default() += documents;
            }
        }
    }
    if sum.wal_scope != WalScope::Backend {
        // Shards of one node would count the same WAL.
        (sum.wal_bytes, sum.wal_scope) = (0, WalScope::Unknown);
    }
    let this_run = sum.counters.read.saturating_sub(sum.resumed_from.unwrap_or(0));
    sum.rows_per_second = if sum.seconds > 0.0 { this_run as f64 / sum.seconds } else { 0.0 };
    Some(sum)
}

/// An error of a shard, with what helps the table. One that is gone was moved or split: another run finds out where its keys
/// belong now. A statement beside a batch, such as one that asks for keys, meets that before the batch does.
fn placed(request: &LoadRequest, error: Error) -> Error {
    match error {
        Error::TableMoved { .. } | Error::Postgres(PgError::Server { kind: ErrorKind::NotFound, .. }) => {
            recut(&request.collection)
        }
        error if error.kind() == ErrorKind::TooManyConnections => {
            let table = quote_literal(&quote_name(&request.collection));
            let hint = format!(
                "each shard takes a connection at its node: raise max_connections there, or give the table fewer shards: \
                 select alter_distributed_table({table}, shard_count => ..)"
            );
            Error::refused(error.to_string(), hint)
        }
        Error::Postgres(error @ PgError::Connect { .. }) => Error::refused(
            error.to_string(),
            "the coordinator and every node with a shard must be reachable from here, by the names in pg_dist_node and with one \
             role and password; then run the same command again: it resumes",
        ),
        error if error.runs_elsewhere() => Error::refused(
            error.to_string(),
            "wait for it; `millstream loads` lists it at the nodes of the shards, not at the coordinator",
        ),
        error => error,
    }
}

/// The table has other shards, or they lie elsewhere.
fn recut(name: &CollectionName) -> Error {
    Error::TableChanged { collection: name.clone(), what: "the shards or their nodes" }
}

/// Passes on what happens to the shards of a node, and says which node. What the coordinator has said of the table is left
/// out, and so is how each of the loads begins.
struct OfNode {
    node: String,
    observer: Arc<dyn Observer>,
}

impl Observer for OfNode {
    fn event(&self, event: Event) {
        self.observer.event(match event {
            Event::Key(_)
            | Event::Columns(_)
            | Event::Version(_)
            | Event::Created(_)
            | Event::Resumed { .. }
            | Event::Started { .. } => return,
            Event::Retry { lane, attempt, after, error } => {
                Event::Retry { lane, attempt, after, error: format!("{}: {error}", self.node) }
            }
            other => other,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::durability::DURABILITIES;
    use crate::layout::Layout;

    type Change = fn(&mut LoadRequest);

    #[test]
    fn an_error_of_one_shard_says_what_helps_the_table() {
        let request = LoadRequest::new("events".parse().unwrap(), Vec::new(), vec!["a".into()]);
        for (kind, expected) in [
            (ErrorKind::TooManyConnections, r#"alter_distributed_table('"public"."events"', "#),
            (ErrorKind::Unreachable, "names in pg_dist_node"),
        ] {
            let (target, message) = ("node:5432".into(), "no".into());
            let failed = PgError::Connect { target, kind, sqlstate: None, message, hint: None };
            let error = placed(&request, Error::Postgres(failed));
            assert_eq!(error.to_string(), "cannot connect to node:5432: no");
            assert!(error.hint().is_some_and(|hint| hint.contains(expected)), "{error:?}");
        }
        let running = millstream_store::Error::LoadRunning { load_id: 7, backend: None };
        assert!(placed(&request, Error::Store(running)).hint().is_some_and(|hint| hint.contains("at the nodes")));
        let gone = Error::TableMoved { collection: "events_102008".parse().unwrap() };
        let error = placed(&request, gone);
        assert!(
            matches!(&error, Error::TableChanged { collection, .. } if *collection == request.collection),
            "{error}"
        );
    }

    #[test]
    fn what_needs_one_server_is_refused_by_its_name() {
        let request = || LoadRequest::new("events".parse().unwrap(), Vec::new(), vec!["a".into()]);
        assert!(refuse(&request()).is_ok());
        let changes: [(Change, Option<&str>); 12] = [
            (|request| request.mode = "merge:deep".parse().unwrap(), None),
            (|request| request.mode = "newest:at".parse().unwrap(), None),
            (|request| request.mode = request.mode.clone().with_tombstone(Some("op=d".parse().unwrap())), None),
            (|request| request.doc = Some(DocumentForm::Whole), None),
            (|request| request.mode = "sum:n".parse().unwrap(), Some("--mode sum")),
            (|request| request.layout = Layout::by_name("log").unwrap(), Some("--layout log")),
            (|request| request.checks = vec!["true".into()], Some("--check")),
            (|request| request.columns = AskedColumns::All, Some("--column")),
            (|request| request.lanes = Some(2), Some("--lanes")),
            (|request| request.rejects_max = 0, Some("--max-rejects 0")),
            (
                |request| request.durability = DURABILITIES.iter().copied().find(|one| one.unlogged).unwrap(),
                Some("--durability unlogged"),
            ),
            (
                |request| {
                    let newest = "newest:at".parse::<crate::merge::Mode>().unwrap();
                    request.mode = newest.with_tombstone(Some("op=d".parse().unwrap()));
                },
                Some("--delete-when in mode newest"),
            ),
        ];
        for (change, refused) in changes {
            let mut request = request();
            change(&mut request);
            let error = refuse(&request).err().map(|error| error.to_string());
            assert_eq!(error.is_some(), refused.is_some(), "{error:?}");
            assert!(error.is_none_or(|error| error.contains(refused.unwrap_or_default())), "{refused:?}");
        }
    }
}
