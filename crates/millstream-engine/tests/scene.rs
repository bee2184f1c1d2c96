//! A load in a test: documents in a file, a database, and an independent reading of the input.

use millstream_engine::{
    Compacted, Error, Event, Layout, LoadRequest, Observer, Outcome, Silent, Stop, StopReason, Surroundings, Tally,
    VerifyRequest, compact, load, verify,
};
use millstream_model::KeyRequest;
use millstream_pg::{ConnInfo, Environment};
use millstream_store::collections::{self, Collection};
use millstream_store::{Schema, segments};
use millstream_testkit::{TestDatabase, until};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex, mpsc};
use tokio_postgres::Client;

/// Files that live as long as the test.
pub(crate) struct Files {
    dir: tempfile::TempDir,
}

impl Files {
    pub(crate) fn new() -> Self {
        Self { dir: tempfile::tempdir().expect("a temporary directory") }
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        let path = self.path(name);
        std::fs::write(&path, content).expect("the file can be written");
        path.display().to_string()
    }

    /// Where a file is.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A pipe, and the sender of what comes out of it. The pipe ends when the sender is dropped.
    pub(crate) fn pipe(&self, name: &str) -> (String, mpsc::Sender<String>) {
        let path = self.write(name, "") + ".pipe";
        assert!(Command::new("mkfifo").arg(&path).status().expect("mkfifo runs").success());
        let (more, documents) = mpsc::channel::<String>();
        let into = path.clone();
        std::thread::spawn(move || {
            let mut into = std::fs::OpenOptions::new().write(true).open(into).expect("a pipe");
            // A load that stops early reads no further.
            documents.iter().try_for_each(|text| into.write_all(text.as_bytes()))
        });
        (path, more)
    }
}

/// Where our own tables are.
pub(crate) fn schema() -> Schema {
    Schema::new("millstream")
}

pub(crate) fn request(into: &str, key: &str, sources: &[String]) -> LoadRequest {
    let key = KeyRequest::parse_list(key).expect("a key");
    LoadRequest::new(into.parse().expect("a name"), key, sources.to_vec())
}

/// Remembers the events of a load.
#[derive(Default)]
pub(crate) struct Events(pub(crate) Mutex<Vec<Event>>);

impl Observer for Events {
    fn event(&self, event: Event) {
        self.0.lock().expect("no test panics while it holds this").push(event);
    }
}

impl Events {
    /// The warnings so far.
    pub(crate) fn warnings(&self) -> String {
        let events = self.0.lock().expect("no test panics while it holds this");
        let warnings = events.iter().filter_map(|event| match event {
            Event::Warning(warning) => Some(warning.as_str()),
            _ => None,
        });
        warnings.collect::<Vec<_>>().join("; ")
    }
}

/// Waits until a session waits for a lock on a table.
pub(crate) async fn until_locked_out(db: &TestDatabase, table: &str) {
    let client = db.client().await;
    let sql = "select exists (select from pg_locks where relation = $1::text::regclass and not granted)";
    until(&format!("a session waits for a lock on {table}"), async || {
        client.query_one(sql, &[&table]).await.expect("locks can be listed").get(0)
    })
    .await;
}

/// Waits until a session of this name waits for a lock in a database.
pub(crate) async fn until_held_up(db: &TestDatabase, name: &str) {
    let client = db.client().await;
    let sql = "select exists (select from pg_stat_activity where application_name = $1 and wait_event_type = 'Lock'
                                and datname = current_database())";
    until(&format!("a session {name} waits for a lock"), async || {
        client.query_one(sql, &[&name]).await.expect("sessions can be listed").get(0)
    })
    .await;
}

/// Waits until a load has committed so many documents.
pub(crate) async fn until_committed(tally: &Tally, documents: u64) {
    until(&format!("a load commits {documents} documents"), async || tally.documents() >= documents).await;
}

/// Waits until an event of a load is as wanted. `what` says which one.
pub(crate) async fn until_event(events: &Events, what: &str, wanted: impl Fn(&Event) -> bool) {
    until(what, async || events.0.lock().expect("no test panics while it holds this").iter().any(&wanted)).await;
}

pub(crate) fn surroundings(url: &str) -> (Surroundings, Arc<Events>) {
    let events = Arc::new(Events::default());
    let db = ConnInfo::parse(url, &Environment::default()).expect("a connection string");
    let observer = Arc::clone(&events) as Arc<dyn Observer>;
    (Surroundings { db, stop: Stop::default(), observer, tally: Arc::new(Tally::default()) }, events)
}

/// Runs a load that must begin. Its receipt must account for every document.
pub(crate) async fn run(url: &str, request: &LoadRequest) -> Outcome {
    // Boxed, because the future of a whole load is too large to lie in the futures of the tests.
    let outcome = Box::pin(load(request, &surroundings(url).0)).await.expect("the load begins");
    let counters = outcome.receipt.counters;
    assert_eq!(counters.read, counters.accounted() - outcome.receipt.deleted_missing, "{:?}", outcome.receipt);
    outcome
}

/// Closes a stream of documents that a program sends. Its receipt must account for every document.
pub(crate) async fn close(stream: millstream_engine::Stream) -> Outcome {
    let outcome = Box::pin(stream.close()).await.expect("there is a receipt");
    let counters = outcome.receipt.counters;
    assert_eq!(counters.read, counters.accounted(), "{outcome:?}");
    outcome
}

/// Runs a load of this many documents that is stopped somewhere, or dropped as if its process were killed. Returns the
/// outcome if the load ended before that.
pub(crate) async fn stopped(
    url: &str,
    wanted: &LoadRequest,
    documents: u64,
    rng: &mut fastrand::Rng,
) -> Option<Outcome> {
    let (around, _) = surroundings(url);
    let (committed, drops) = (rng.u64(..documents), rng.bool());
    let mut loading = Box::pin(load(wanted, &around));
    let ended = tokio::select! {
        ended = &mut loading => ended,
        () = until_committed(&around.tally, committed) => {
            // Once all are committed, the load may be recorded as finished.
            if drops && around.tally.documents() < documents {
                return None;
            }
            around.stop.stop(StopReason::Interrupted);
            loading.await
        }
    };
    // A load that was stopped before it began has no outcome.
    ended.ok().filter(|outcome| outcome.stopped.is_none())
}

/// `id -> value` of a table loaded from [`Stream`] documents.
pub(crate) async fn stored(database: &TestDatabase, table: &str) -> BTreeMap<String, i64> {
    let sql = format!("select id, (doc->>'value')::bigint from {table}");
    let rows = database.client().await.query(&sql, &[]).await.expect("the table can be read");
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

/// A stream of small documents, and the rows that it leaves when the last document of a key wins.
#[derive(Default)]
pub(crate) struct Stream {
    pub(crate) text: String,
    pub(crate) last: BTreeMap<String, i64>,
    pub(crate) first: BTreeMap<String, i64>,
    pub(crate) documents: u64,
}

impl Stream {
    pub(crate) fn push(&mut self, id: &str, value: i64) {
        let _ = writeln!(self.text, "{{\"id\":\"{id}\",\"value\":{value},\"note\":\"document {value} of {id}\"}}");
        self.last.insert(id.to_owned(), value);
        self.first.entry(id.to_owned()).or_insert(value);
        self.documents += 1;
    }

    /// `documents` documents over about `keys` keys.
    pub(crate) fn random(rng: &mut fastrand::Rng, documents: usize, keys: usize) -> Self {
        let mut stream = Self::default();
        for n in 0..documents {
            stream.push(&format!("key-{:06}", rng.usize(..keys)), i64::try_from(n).expect("few documents"));
        }
        stream
    }
}

/// A load in the log layout, in segments of this many documents.
pub(crate) fn appending(into: &str, sources: &[String], rows: usize) -> LoadRequest {
    let mut wanted = request(into, "id", sources);
    wanted.layout = Layout::by_name("log").expect("a layout");
    wanted.segment_rows_max = rows;
    wanted
}

pub(crate) async fn collection(client: &Client, name: &str) -> Collection {
    let name = name.parse().expect("a name");
    collections::find(client, &schema(), &name).await.expect("it can be looked up").expect("it was loaded into")
}

pub(crate) async fn waiting(db: &TestDatabase, name: &str) -> usize {
    let client = db.client().await;
    let found = collection(&client, name).await;
    segments::count(&client, &schema(), &found).await.expect("segments can be counted")
}

pub(crate) async fn compacted(db: &TestDatabase, name: &str, workers: usize) -> Result<Compacted, Error> {
    let found = collection(&db.client().await, name).await;
    Box::pin(compact(&surroundings(&db.url()).0.db, &schema(), &found, Some(workers))).await
}

pub(crate) fn adopting(table: &str, key: &str, files: &Files, text: &str) -> LoadRequest {
    let mut wanted = request(table, key, &[files.write(&fastrand::u64(..).to_string(), text)]);
    wanted.adopt = true;
    wanted
}

pub(crate) async fn equal(db: &TestDatabase, load: &LoadRequest) -> u64 {
    let db = surroundings(&db.url()).0.db;
    let mut request = VerifyRequest::new(load.clone(), std::env::temp_dir());
    request.exact = true;
    let found = Box::pin(verify(&request, &db, Arc::default(), &Silent)).await.expect("it can be verified");
    assert_eq!((found.differences(), found.extra), (0, Some(0)), "{found:?}");
    found.equal
}

pub(crate) async fn execute(db: &TestDatabase, sql: &str) {
    db.client().await.batch_execute(sql).await.expect("the statements succeed");
}
