//! Segments that wait: with concurrent readers, for roles with few rights, without their table, and in a stream.

use crate::scene::{
    Files, appending, collection, compacted, request, run, schema, stored, surroundings, until_held_up, waiting,
};
use millstream_engine::limits::{FRAME_BYTES, MEMORY_BYTES_MIN};
use millstream_engine::{
    Error, Event, Layout, LoadRequest, Silent, Stream, Verification, VerifyRequest, compact, load, verify,
};
use millstream_pg::Explained;
use millstream_store::{collections, documents};
use millstream_testkit::{TestDatabase, connect, database, each_build, until};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio_postgres::Client;

async fn verified(url: &str, wanted: LoadRequest) -> Verification {
    let directory = tempfile::tempdir().expect("a directory");
    let wanted = VerifyRequest { exact: true, ..VerifyRequest::new(wanted, directory.path().to_owned()) };
    Box::pin(verify(&wanted, &surroundings(url).0.db, Arc::default(), &Silent)).await.expect("it is compared")
}

/// The URL of a new role, named after the database so that no other test has it.
async fn role(db: &TestDatabase, name: &str, granted: &str) -> (String, String) {
    let name = format!("{}_{name}", db.name);
    let sql = format!("create role {name} login password 'x'; {}", granted.replace("{role}", &name));
    db.client().await.batch_execute(&sql).await.expect("a role");
    let url = db.url();
    (format!("postgresql://{name}:x{}", &url[url.rfind('@').expect("an URL with a role")..]), name)
}

async fn value(client: &mut Client, table: &str, key: &str) -> Result<Option<i64>, Error> {
    let found = collection(client, table).await;
    let document = documents::document(client, &schema(), &found, &[key.to_owned()]).await?;
    let document = document.map(|text| serde_json::from_str::<serde_json::Value>(&text).expect("JSON"));
    Ok(document.map(|document| document["value"].as_i64().expect("a number")))
}

/// While a reader looks for the segments, another one is committed, and both are merged but not yet dropped.
#[tokio::test]
async fn segments_and_table_are_read_in_one_snapshot() {
    each_build(async |db| {
        let files = Files::new();
        let older = "{\"id\":\"a\",\"value\":1}\n{\"id\":\"b\",\"value\":1}\n";
        let mut wanted = appending("moment", &[files.write("older", older)], 10);
        wanted.lanes = Some(1);
        run(&db.url(), &wanted).await;
        let newer = files.write("newer", older.replace(":1}", ":2}"));
        let mut client = db.client().await;
        let first = "select segment_id from millstream.segment";
        let first: i64 = client.query_one(first, &[]).await.unwrap().get(0);
        let transaction = client.transaction().await.unwrap();
        let merged = format!(
            "lock table millstream.segment_{first} in access exclusive mode;
             create table millstream.segment_1000 (id text, doc text);
             insert into millstream.segment_1000 values
                 ('a', '{{\"id\":\"a\",\"value\":2}}'), ('b', '{{\"id\":\"b\",\"value\":2}}');
             insert into millstream.segment (segment_id, table_oid, load_id, run_order, documents, bytes)
             select 1000, table_oid, load_id, run_order, 2, 40 from millstream.segment;
             insert into public.moment select id, doc::jsonb from millstream.segment_1000"
        );
        transaction.batch_execute(&merged).await.unwrap();
        let (url, wanted) = (db.url(), request("moment", "id", &[newer]));
        let reading = verified(&url, wanted);
        let merging = async {
            until_held_up(&db, "millstream verify").await;
            transaction.commit().await.unwrap();
        };
        let (found, ()) = tokio::join!(reading, merging);
        assert_eq!((found.equal, found.differences()), (2, 0), "{found:?}");
    })
    .await;
}

/// A snapshot from before does not see rows that were rewritten.
#[tokio::test]
async fn a_table_rewritten_before_a_read_is_read_whole() {
    each_build(async |db| {
        let files = Files::new();
        let file = files.write("a", "{\"id\":\"a\",\"value\":1}\n{\"id\":\"b\",\"value\":1}\n");
        let wanted = request("rewritten", "id", &[file]);
        run(&db.url(), &wanted).await;
        let mut client = db.client().await;
        let transaction = client.transaction().await.unwrap();
        let rewritten = "alter table public.rewritten alter column doc type jsonb using doc || '{}'";
        transaction.batch_execute(rewritten).await.unwrap();
        let (url, mut reader) = (db.url(), db.client().await);
        let reading = async { tokio::join!(verified(&url, wanted), value(&mut reader, "rewritten", "a")) };
        let rewriting = async {
            until_held_up(&db, "millstream verify").await;
            transaction.commit().await.unwrap();
        };
        let ((found, value), ()) = tokio::join!(reading, rewriting);
        assert_eq!((found.equal, found.differences(), value.unwrap()), (2, 0, Some(1)), "{found:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn readers_never_see_older_documents_during_compaction() {
    each_build(async |db| {
        let files = Files::new();
        let text = |value: i64| format!("{{\"id\":\"a\",\"value\":{value}}}\n{{\"id\":\"b\",\"value\":{value}}}\n");
        run(&db.url(), &appending("found", &[files.write("0", text(0))], 1)).await;
        let ended = Arc::new(AtomicBool::new(false));
        let readers: Vec<_> = ["a", "b"]
            .map(|key| {
                let (ended, url) = (Arc::clone(&ended), db.url());
                tokio::spawn(async move {
                    let (mut client, mut last, mut reads) = (connect(&url).await, 0, 0);
                    while !ended.load(Ordering::Relaxed) {
                        let value = value(&mut client, "found", key).await.expect("it is looked up");
                        assert!(value >= Some(last), "{key} is {value:?} after {last}");
                        (last, reads) = (value.unwrap_or(last), reads + 1);
                    }
                    (last, reads)
                })
            })
            .into();
        let rounds = 8;
        for round in 1..=rounds {
            run(&db.url(), &appending("found", &[files.write(&round.to_string(), text(round))], 1)).await;
            compacted(&db, "found", 2).await.expect("it is merged");
        }
        ended.store(true, Ordering::Relaxed);
        for reader in readers {
            let (last, reads) = reader.await.expect("every read was right");
            assert!(reads > rounds && last <= rounds, "{reads} reads, the last of {last}");
        }
    })
    .await;
}

#[tokio::test]
async fn readers_of_the_table_may_read_its_segments() {
    each_build(async |db| {
        let files = Files::new();
        run(&db.url(), &appending("shared", &[files.write("a", "{\"id\":\"a\",\"value\":1}\n")], 10)).await;
        let (url, reader) = role(
            &db,
            "reader",
            "grant select on public.shared to {role}; grant usage on schema millstream to {role};
             grant select on millstream.collection, millstream.segment to {role}",
        )
        .await;
        let mut client = connect(&url).await;
        let refused = value(&mut client, "shared", "a").await.expect_err("its segment was made before");
        let hint = refused.hint().expect("there is a way out");
        assert!(refused.to_string().contains("permission denied for table segment_"), "{refused}");
        assert!(hint.contains("compact shared") && hint.contains("grant select"), "{hint}");
        compacted(&db, "shared", 1).await.unwrap();
        // In the same session: an error leaves no transaction open.
        assert_eq!(value(&mut client, "shared", "a").await.unwrap(), Some(1));
        let file = files.write("b", "{\"id\":\"a\",\"value\":2}\n");
        run(&db.url(), &appending("shared", std::slice::from_ref(&file), 10)).await;
        assert_eq!(value(&mut client, "shared", "a").await.unwrap(), Some(2), "{reader}");
        let found = verified(&url, request("shared", "id", std::slice::from_ref(&file))).await;
        assert_eq!((found.equal, found.differences(), found.warnings.len()), (1, 0, 0), "{found:?}");
        // A role that may not even see whether documents wait for this table gets a warning.
        let (url, _) = role(&db, "stranger", "grant select on public.shared to {role}").await;
        let found = verified(&url, request("shared", "id", &[file])).await;
        assert_eq!((found.equal, found.different), (0, 1), "{found:?}");
        assert!(found.warnings.iter().any(|warning| warning.contains("segments")), "{found:?}");
    })
    .await;
}

/// A policy applies to rows of the table, so documents that wait for such a table are not shown to roles under the
/// policy.
#[tokio::test]
async fn row_security_hides_documents_in_segments_too() {
    each_build(async |db| {
        let files = Files::new();
        let file = files.write("a", "{\"id\":\"a\",\"value\":1}\n");
        let wanted = appending("secret", std::slice::from_ref(&file), 10);
        run(&db.url(), &wanted).await;
        db.client()
            .await
            .batch_execute(
                "alter table public.secret enable row level security;
                 create policy nothing on public.secret using (false)",
            )
            .await
            .unwrap();
        let (url, _) = role(
            &db,
            "reader",
            "grant select on public.secret to {role}; grant usage on schema millstream to {role};
             grant select on all tables in schema millstream to {role}",
        )
        .await;
        let mut client = connect(&url).await;
        let refused = value(&mut client, "secret", "a").await.expect_err("no policy reaches a segment");
        assert!(refused.to_string().contains("row-level security"), "{refused}");
        assert!(refused.hint().expect("a way out").contains("compact secret"), "{refused}");
        assert_eq!(value(&mut db.client().await, "secret", "a").await.unwrap(), Some(1), "its owner sees all");
        let refused = Box::pin(load(&wanted, &surroundings(&db.url()).0)).await.expect_err("no more of it");
        assert!(refused.to_string().contains("row-level security"), "{refused}");
        compacted(&db, "secret", 1).await.unwrap();
        assert_eq!(value(&mut client, "secret", "a").await.unwrap(), None);
    })
    .await;
}

#[tokio::test]
async fn compaction_needs_the_right_to_drop_segments() {
    each_build(async |db| {
        let files = Files::new();
        let everything = "grant usage, create on schema millstream to {role};
             grant all on all tables in schema millstream to {role}; grant all on public.owned to {role};
             grant usage on all sequences in schema millstream to {role}";
        run(&db.url(), &request("owned", "id", &[files.write("a", "{\"id\":\"a\",\"value\":1}\n")])).await;
        let (loading, loader) = role(&db, "loader", everything).await;
        let revoke = format!("revoke delete on public.owned from {loader}");
        db.client().await.batch_execute(&revoke).await.unwrap();
        let wanted = appending("owned", &[files.write("b", "{\"id\":\"a\",\"value\":2}\n")], 10);
        let refused = Box::pin(load(&wanted, &surroundings(&loading).0)).await.expect_err("merging may delete");
        assert!(refused.to_string().contains("may not delete"), "{refused}");
        let grant = format!("grant delete on public.owned to {loader}");
        db.client().await.batch_execute(&grant).await.unwrap();
        run(&loading, &wanted).await;
        let (merging, merger) = role(&db, "merger", everything).await;
        let found = collection(&db.client().await, "owned").await;
        let merge = async || Box::pin(compact(&surroundings(&merging).0.db, &schema(), &found, Some(1))).await;
        let refused = merge().await.expect_err("the segments are another's");
        let hint = refused.hint().expect("there is a way out");
        assert!(refused.to_string().contains(&loader) && hint.contains(&loader), "{refused}: {hint}");
        assert_eq!(stored(&db, "owned").await["a"], 1, "nothing is merged");
        let grant = format!("grant {loader} to {merger}");
        db.client().await.batch_execute(&grant).await.unwrap();
        assert_eq!(merge().await.unwrap().segments, 1);
        assert_eq!(stored(&db, "owned").await["a"], 2);
    })
    .await;
}

#[tokio::test]
async fn the_next_load_drops_segments_of_a_dropped_table() {
    each_build(async |db| {
        let files = Files::new();
        let wanted = appending("brief", &[files.write("a", "{\"id\":\"a\",\"value\":1}\n")], 10);
        run(&db.url(), &wanted).await;
        let client = db.client().await;
        client.batch_execute("drop table public.brief").await.unwrap();
        let listed = collections::list(&client, &schema()).await.unwrap();
        assert!(!listed[0].present && listed[0].segments == 1 && listed[0].waiting_since.is_some(), "{listed:?}");
        run(&db.url(), &appending("brief", &[files.write("b", "{\"id\":\"b\",\"value\":2}\n")], 10)).await;
        let left = "select count(*) from pg_class where relname ~ '^segment_\\d+$'";
        assert_eq!(client.query_one(left, &[]).await.unwrap().get::<_, i64>(0), 1, "that of the new table");
        assert_eq!(waiting(&db, "brief").await, 1);
        compacted(&db, "brief", 1).await.unwrap();
        assert_eq!(stored(&db, "brief").await, BTreeMap::from([("b".to_owned(), 2)]));
    })
    .await;
}

/// The warnings of a load, joined.
async fn warned(url: &str, wanted: &LoadRequest) -> String {
    let (around, events) = surroundings(url);
    let outcome = Box::pin(load(wanted, &around)).await.expect("the load begins");
    assert!(outcome.receipt.finished, "{:?}", outcome.error);
    let events = events.0.lock().expect("nobody panicked with it");
    let warnings = events.iter().filter_map(|event| match event {
        Event::Warning(warning) => Some(warning.as_str()),
        _ => None,
    });
    warnings.collect::<Vec<_>>().join("\n")
}

async fn segment_tables(client: &Client) -> Vec<String> {
    let sql = "select 'millstream.' || relname from pg_class where relname ~ '^segment_\\d+$' order by oid";
    client.query(sql, &[]).await.expect("a list").iter().map(|row| row.get(0)).collect()
}

/// A restore gives every table another OID.
#[tokio::test]
async fn segments_of_a_restored_database_are_kept() {
    each_build(async |db| {
        let (files, client) = (Files::new(), db.client().await);
        let document = |value: i64| format!("{{\"id\":\"a\",\"value\":{value}}}\n");
        for table in ["restored", "useless"] {
            run(&db.url(), &appending(table, &[files.write("a", document(1))], 10)).await;
        }
        for table in ["collection", "segment", "load"] {
            let sql = format!("update millstream.{table} set table_oid = 4000000000 + table_oid::bigint % 100000000");
            client.batch_execute(&sql).await.unwrap();
        }
        let other = appending("other", &[], 10);
        let next = async |value| {
            let sources = vec![files.write(&format!("other {value}"), document(value))];
            warned(&db.url(), &LoadRequest { sources, ..other.clone() }).await
        };
        let said = next(1).await;
        assert_eq!(segment_tables(&client).await.len(), 3, "{said}");
        let line = |table: &str| said.lines().find(|line| line.contains(table)).expect("it is told").to_owned();
        let between = |line: &str, from: &str, to: &str| {
            let rest = &line[line.find(from).expect("the way out") + from.len()..];
            rest[..rest.find(to).expect("its end")].to_owned()
        };
        let restored = collection(&client, "restored").await;
        assert!(restored.replaced && !restored.present);
        let dropped = collections::drop(&mut db.client().await, &schema(), &restored, false).await;
        let refused = dropped.expect_err("its documents would be lost").to_string();
        assert!(refused.contains("documents wait in 1 segments"), "{refused}");
        let again = between(&line("restored\""), "If it was restored: ", "; then");
        client.batch_execute(&again).await.unwrap();
        let useless = between(&line("useless\""), "To discard them: ", "; the next");
        client.batch_execute(&useless).await.unwrap();
        let said = next(2).await;
        assert!(said.starts_with("removed the segments") && said.ends_with(": 1"), "{said}");
        let mut wanted = appending("restored", &[files.write("b", "{\"id\":\"b\",\"value\":3}\n")], 10);
        wanted.adopt = true;
        assert_eq!(warned(&db.url(), &wanted).await, "");
        assert_eq!(compacted(&db, "restored", 1).await.unwrap().segments, 2);
        assert_eq!(stored(&db, "public.restored").await, BTreeMap::from([("a".to_owned(), 1), ("b".to_owned(), 3)]));
    })
    .await;
}

#[tokio::test]
async fn segments_that_cannot_be_dropped_do_not_block_loads() {
    each_build(async |db| {
        let (files, client) = (Files::new(), db.client().await);
        let file = files.write("a", "{\"id\":\"a\",\"value\":1}\n");
        for table in ["viewed", "held"] {
            run(&db.url(), &appending(table, std::slice::from_ref(&file), 10)).await;
        }
        client.batch_execute("drop table public.viewed, public.held").await.unwrap();
        let tables = segment_tables(&client).await;
        let [viewed, held] = tables.as_slice() else { panic!("{tables:?}") };
        let hinder = format!(
            "create view public.on_segment as select * from {viewed}; begin; lock table {held} in access share mode"
        );
        client.batch_execute(&hinder).await.unwrap();
        let load = async |source: &str| {
            let source = files.write(source, "{\"id\":\"b\",\"value\":1}\n");
            warned(&db.url(), &request("other", "id", &[source])).await
        };
        let said = load("b").await;
        let left = said.lines().filter(|line| line.starts_with("segments of a dropped table were not removed"));
        assert_eq!(left.count(), 2, "{said}");
        client.batch_execute("commit; drop view public.on_segment").await.unwrap();
        let said = load("c").await;
        assert!(said.starts_with("removed the segments") && said.ends_with(": 2"), "{said}");
        assert_eq!(segment_tables(&client).await, Vec::<String>::new());
    })
    .await;
}

/// A reader locks the table first, and then its segments.
#[tokio::test]
async fn a_drop_locks_the_table_before_its_segments() {
    let db = database().await;
    let files = Files::new();
    run(&db.url(), &appending("read", &[files.write("a", "{\"id\":\"a\",\"value\":1}\n")], 10)).await;
    let (mut client, reader) = (db.client().await, db.client().await);
    let found = collection(&client, "read").await;
    let segment = segment_tables(&reader).await.remove(0);
    reader.batch_execute("begin; lock table public.read in access share mode").await.unwrap();
    client.batch_execute("set application_name = 'dropping'").await.unwrap();
    let reading = async {
        until_held_up(&db, "dropping").await;
        let lock = format!("lock table {segment} in access share mode nowait; commit");
        let locked = reader.batch_execute(&lock).await;
        reader.batch_execute("rollback").await.unwrap();
        locked.expect("a drop that waits for the table has no segment yet");
    };
    let schema = schema();
    let (dropped, ()) = tokio::join!(collections::drop(&mut client, &schema, &found, true), reading);
    assert!(dropped.unwrap().table);
    assert_eq!(segment_tables(&reader).await, Vec::<String>::new());
}

/// A session that locks all tables, as pg_dump does, may lock them in another order than a compaction.
#[tokio::test]
async fn a_deadlocked_compaction_leaves_its_segments_to_the_next() {
    let db = database().await;
    let files = Files::new();
    let text = "{\"id\":\"a\",\"value\":1}\n".repeat(2);
    run(&db.url(), &LoadRequest { lanes: Some(1), ..appending("dumped", &[files.write("a", text)], 1) }).await;
    run(&db.url(), &appending("dumped", &[files.write("b", "{\"id\":\"a\",\"value\":2}\n")], 1)).await;
    let other = db.client().await;
    let tables = segment_tables(&other).await;
    let (first, last) = (&tables[0], &tables[tables.len() - 1]);
    // The compaction detects the deadlock, not this session.
    let begin = format!("set deadlock_timeout = '1h'; begin; lock table {last} in access share mode");
    other.batch_execute(&begin).await.unwrap();
    let dumping = async {
        until_held_up(&db, "millstream compact").await;
        other.batch_execute(&format!("lock table {first} in access share mode")).await.unwrap();
        other.batch_execute("commit").await.unwrap();
    };
    let (refused, ()) = tokio::join!(compacted(&db, "dumped", 1), dumping);
    let refused = refused.expect_err("the other holds a segment");
    assert!(matches!(refused, Error::InUse { .. }), "{refused}");
    compacted(&db, "dumped", 1).await.unwrap();
    assert_eq!((waiting(&db, "dumped").await, stored(&db, "public.dumped").await["a"]), (0, 2));
}

#[tokio::test]
async fn a_retried_segment_counts_once() {
    let db = database().await;
    let mut wanted = request("again", "id:text", &[]);
    wanted.layout = Layout::by_name("log").expect("a layout");
    wanted.lanes = Some(1);
    let (around, _) = surroundings(&db.url());
    let stream = Box::pin(Stream::open(&wanted, &around)).await.expect("it opens");
    let other = db.client().await;
    // Its row is written, its watermark is not.
    other.batch_execute("begin; select from millstream.lane for update").await.unwrap();
    let commit = stream.producer().send("{\"id\":\"a\"}").await.expect("it is open");
    let cut = "select pid, pg_terminate_backend(pid) from pg_stat_activity
               where wait_event_type = 'Lock' and datname = current_database()";
    let cutting = async {
        until("the lane waits for its row, and is cut off", async || {
            other.batch_execute("select pg_stat_clear_snapshot()").await.unwrap();
            other.query_opt(cut, &[]).await.expect("one lane").is_some()
        })
        .await;
        other.batch_execute("rollback").await.unwrap();
    };
    let (outcome, ()) = tokio::join!(Box::pin(stream.close()), cutting);
    commit.committed().await.expect("it is committed");
    let receipt = outcome.expect("there is a receipt").receipt;
    assert!(receipt.finished && receipt.retries > 0, "{receipt:?}");
    assert_eq!(receipt.writers, BTreeMap::from([("segment".to_owned(), 1)]), "{receipt:?}");
}

#[tokio::test]
async fn a_load_whose_table_is_dropped_acknowledges_nothing_more() {
    each_build(async |db| {
        let mut wanted = request("pulled", "id:text", &[]);
        wanted.layout = Layout::by_name("log").expect("a layout");
        let stream = Box::pin(Stream::open(&wanted, &surroundings(&db.url()).0)).await.expect("it opens");
        db.client().await.batch_execute("drop table public.pulled").await.unwrap();
        let commit = stream.producer().send("{\"id\":\"a\"}").await.expect("it is open");
        let outcome = Box::pin(stream.close()).await.expect("there is a receipt");
        commit.committed().await.expect_err("nobody could ever read it");
        let error = outcome.error.expect("the load has failed");
        assert!(error.to_string().contains("dropped while the load ran"), "{error}");
        assert_eq!(outcome.receipt.counters.read, 0);
    })
    .await;
}

#[tokio::test]
async fn tiny_documents_fill_a_segment_before_they_fill_memory() {
    let db = database().await;
    for lanes in [1, 3] {
        let table = format!("short_{lanes}");
        let mut wanted = request(&table, "id:bigint", &[]);
        wanted.layout = Layout::by_name("log").expect("a layout");
        (wanted.memory_bytes, wanted.lanes) = (MEMORY_BYTES_MIN, Some(lanes));
        let stream = Box::pin(Stream::open(&wanted, &surroundings(&db.url()).0)).await.expect("it opens");
        let producer = stream.producer();
        // Fewer than that fit into the memory.
        let (lot, documents) = (1_000, MEMORY_BYTES_MIN / FRAME_BYTES + 50_000);
        for from in (0..documents).step_by(lot) {
            let lines: String = (from..from + lot).map(|n| format!("{{\"id\":{n}}}\n")).collect();
            drop(producer.send(lines).await.expect("it is open"));
        }
        let receipt = Box::pin(stream.close()).await.expect("there is a receipt").receipt;
        let client = db.client().await;
        let sql = "select max(documents) from millstream.segment where table_oid = $1::text::regclass";
        let most: i64 = client.query_one(sql, &[&format!("public.{table}")]).await.unwrap().get(0);
        let room = MEMORY_BYTES_MIN * 3 / 4 / usize::from(lanes) / FRAME_BYTES + lot;
        assert!(usize::try_from(most).unwrap() <= room, "{most} of {room} documents at {lanes} lanes: {receipt:?}");
        assert!(receipt.finished && receipt.counters.appended >= documents as u64, "{receipt:?}");
    }
}
