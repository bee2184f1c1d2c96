//! A topic that is loaded in a test, and what is in the table then.

use crate::fake::Fake;
use millstream_engine::{Error as EngineError, Event, LoadRequest, Observer, Stop, StopReason, Surroundings, Tally};
use millstream_kafka::{Error, Messages, Outcome, TopicRequest, Until, load};
use millstream_model::KeyRequest;
use millstream_pg::{ConnInfo, Environment};
use millstream_testkit::{TestDatabase, until};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tokio_postgres::Client;

/// Remembers warnings.
#[derive(Default)]
pub(crate) struct Warnings(Mutex<Vec<String>>);

impl Observer for Warnings {
    fn event(&self, event: Event) {
        if let Event::Warning(warning) = event {
            self.0.lock().unwrap().push(warning);
        }
    }
}

impl Warnings {
    pub(crate) fn text(&self) -> String {
        self.0.lock().unwrap().join("\n")
    }
}

/// A request that loads all of a topic that is there.
pub(crate) fn request(into: &str, key: &str, mode: &str) -> TopicRequest {
    keyed(into, key, mode, &[])
}

/// The same, where the message's key gives these columns.
pub(crate) fn keyed(into: &str, key: &str, mode: &str, message_key: &[&str]) -> TopicRequest {
    let key = KeyRequest::parse_list(key).unwrap();
    let columns: Vec<String> = message_key.iter().map(|column| (*column).to_owned()).collect();
    let messages = Messages::new("orders", &key, &columns, None, None).unwrap();
    let mut load = LoadRequest::new(into.parse().unwrap(), key, Vec::new());
    load.mode = mode.parse().unwrap();
    if messages.deletes() {
        load.mode = load.mode.with_tombstone(Some(Messages::deletes_by_itself()));
    }
    let mut request = TopicRequest::new("kafka://localhost/orders".parse().unwrap(), load, messages);
    request.until = Until::End;
    request
}

pub(crate) fn surroundings(db: &TestDatabase) -> (Surroundings, Arc<Warnings>) {
    let warnings = Arc::new(Warnings::default());
    let observer = Arc::clone(&warnings) as Arc<dyn Observer>;
    let db = ConnInfo::parse(&db.url(), &Environment::default()).unwrap();
    (Surroundings { db, stop: Stop::default(), observer, tally: Arc::new(Tally::default()) }, warnings)
}

/// Loads a topic. Its accounts must balance.
pub(crate) async fn run(db: &TestDatabase, request: &TopicRequest, topic: &Arc<Fake>) -> Result<Outcome, Error> {
    let outcome = Box::pin(load(request, Arc::clone(topic), &surroundings(db).0)).await;
    outcome.inspect(|outcome| {
        let counters = outcome.account.counters;
        assert_eq!(counters.read, counters.accounted(), "{outcome:?}");
    })
}

/// Loads a topic to the end that it has.
pub(crate) async fn loaded(db: &TestDatabase, request: &TopicRequest, topic: &Arc<Fake>) -> Outcome {
    let outcome = run(db, request, topic).await.expect("the topic is loaded");
    assert!(outcome.error.is_none() && outcome.stopped.is_none(), "{outcome:?}");
    outcome
}

/// Loads a topic until so many documents of this run are committed, does what is to be done then, and ends as `end` says.
pub(crate) async fn interrupted(
    db: &TestDatabase,
    request: &TopicRequest,
    topic: &Arc<Fake>,
    documents: u64,
    end: End,
) -> Option<Outcome> {
    let (around, _) = surroundings(db);
    let mut loading = Box::pin(load(request, Arc::clone(topic), &around));
    tokio::select! {
        ended = &mut loading => ended.ok(),
        () = until("documents are committed", async || around.tally.documents() >= documents) => match end {
            // As if the process were killed.
            End::Kill => {
                topic.reads_on();
                None
            }
            End::Stop => {
                around.stop.stop(StopReason::Terminated);
                loading.await.ok()
            }
        }
    }
}

/// How a run ends.
#[derive(Debug, Clone, Copy)]
pub(crate) enum End {
    Kill,
    Stop,
}

/// Whether a load was stopped before it began.
pub(crate) fn is_stopped(error: &Error) -> bool {
    matches!(error, Error::Engine(EngineError::Stopped(_)))
}

/// The sum of the values of a table; 0 while there is none.
pub(crate) async fn total(client: &Client, table: &str) -> i64 {
    let sql = format!("select coalesce(sum((doc->>'value')::bigint), 0)::bigint from public.{table}");
    client.query_one(&sql, &[]).await.map_or(0, |row| row.get(0))
}

/// `id -> value` of a table.
pub(crate) async fn stored(db: &TestDatabase, table: &str) -> BTreeMap<String, i64> {
    let sql = format!("select id::text, (doc->>'value')::bigint from public.{table}");
    let rows = db.client().await.query(&sql, &[]).await.expect("the table can be read");
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

/// Offsets, reasons and details of rejects, with the partition's source.
pub(crate) async fn rejects(db: &TestDatabase) -> Vec<(String, i64, String, String)> {
    let sql = "select l.sources[1], r.byte_offset, r.reason, r.detail
               from millstream.reject r join millstream.load l using (load_id) order by 1, 2";
    let rows = db.client().await.query(sql, &[]).await.expect("rejects can be read");
    rows.iter().map(|row| (row.get(0), row.get(1), row.get(2), row.get(3))).collect()
}
