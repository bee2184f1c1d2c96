//! Loads that end before they have read a document leave nothing behind, and do not block each other.

use crate::scene::{Events, Files, request, run, schema, surroundings, until_event};
use millstream_engine::{AskedColumns, Error, Event, LoadRequest, Outcome, StopReason, load};
use millstream_pg::Explained;
use millstream_store::loads;
use millstream_testkit::{TestDatabase, each_build, gzip};
use std::sync::Arc;

/// Waits until the load is recorded.
async fn begun(events: &Arc<Events>) {
    until_event(events, "the load is recorded", |event| matches!(event, Event::Started { .. })).await;
}

/// Runs a load until it waits for its first document. `ends` says whether it is then stopped, or dropped as if it were
/// killed.
async fn silent(db: &TestDatabase, wanted: &LoadRequest, ends: bool) -> Option<Outcome> {
    let (around, events) = surroundings(&db.url());
    let mut loading = Box::pin(load(wanted, &around));
    tokio::select! {
        ended = &mut loading => panic!("it waits for a document: {ended:?}"),
        () = begun(&events) => {}
    }
    if !ends {
        return None;
    }
    around.stop.stop(StopReason::Interrupted);
    Some(loading.await.expect("a receipt"))
}

async fn has_table(db: &TestDatabase, table: &str) -> bool {
    let sql = "select to_regclass($1) is not null";
    db.client().await.query_one(sql, &[&table]).await.expect("the server answers").get(0)
}

async fn recorded(db: &TestDatabase) -> Vec<i64> {
    let loads = loads::list(&db.client().await, &schema(), 100).await.expect("the loads");
    loads.iter().map(|load| load.load_id).collect()
}

async fn known_collections(db: &TestDatabase) -> i64 {
    let sql = "select count(*) from millstream.collection";
    db.client().await.query_one(sql, &[]).await.expect("the server answers").get(0)
}

#[tokio::test]
async fn an_unreadable_stream_leaves_neither_load_nor_table() {
    each_build(async |db| {
        let files = Files::new();
        for (n, text) in ["id;name\n1;x\n", "%PDF-1.7 and so on\n"].into_iter().enumerate() {
            let (pipe, more) = files.pipe(&format!("in{n}"));
            more.send(text.into()).unwrap();
            drop(more);
            let outcome = run(&db.url(), &request("unread", "id:bigint", &[pipe])).await;
            assert!(matches!(outcome.error, Some(Error::Source(_))), "{outcome:?}");
            assert!(!has_table(&db, "unread").await && recorded(&db).await.is_empty());
            assert_eq!(known_collections(&db).await, 0);
        }
    })
    .await;
}

#[tokio::test]
async fn a_stopped_load_without_documents_leaves_only_existing_tables() {
    each_build(async |db| {
        let files = Files::new();
        let (pipe, _more) = files.pipe("a");
        let outcome = silent(&db, &request("quiet", "id:bigint", &[pipe]), true).await.unwrap();
        assert_eq!((outcome.receipt.counters.read, outcome.stopped), (0, Some(StopReason::Interrupted)));
        assert!(!has_table(&db, "quiet").await && recorded(&db).await.is_empty());

        // The load of an empty file created the table, so this run did not.
        let first = run(&db.url(), &request("quiet", "id:bigint", &[files.write("empty", "")])).await;
        let (pipe, _more) = files.pipe("b");
        silent(&db, &request("quiet", "id:bigint", &[pipe]), true).await.unwrap();
        assert!(has_table(&db, "quiet").await);
        assert_eq!(recorded(&db).await, [first.receipt.load_id]);
    })
    .await;
}

#[tokio::test]
async fn a_table_used_by_another_load_stays() {
    each_build(async |db| {
        let files = Files::new();
        let (pipe, _more) = files.pipe("a");
        let wanted = request("shared", "id:bigint", &[pipe]);
        let (around, events) = surroundings(&db.url());
        let mut loading = Box::pin(load(&wanted, &around));
        let other = async {
            begun(&events).await;
            let other = run(&db.url(), &request("shared", "id:bigint", &[files.write("empty", "")])).await;
            around.stop.stop(StopReason::Terminated);
            other
        };
        let (ended, other) = tokio::join!(&mut loading, other);
        assert_eq!(ended.unwrap().receipt.counters.read, 0);
        assert!(has_table(&db, "shared").await);
        assert_eq!(recorded(&db).await, [other.receipt.load_id]);
    })
    .await;
}

#[tokio::test]
async fn a_killed_load_without_documents_does_not_block_others() {
    each_build(async |db| {
        let files = Files::new();
        let named = |pipe: String, format: &str| {
            let mut wanted = request("killed", "id:bigint", &[pipe]);
            (wanted.source_name, wanted.format) = (Some("feed".into()), format.into());
            wanted
        };
        let (pipe, _more) = files.pipe("a");
        silent(&db, &named(pipe, "ndjson"), false).await;
        assert_eq!(recorded(&db).await.len(), 1);
        let (pipe, more) = files.pipe("b");
        more.send("{\"id\":1}{\"id\":2}".into()).unwrap();
        drop(more);
        let done = run(&db.url(), &named(pipe, "json")).await.receipt;
        assert_eq!((done.counters.inserted, done.finished), (2, true));
        assert_eq!(recorded(&db).await, [done.load_id]);
    })
    .await;
}

#[tokio::test]
async fn files_that_are_not_text_are_named_before_a_table_is_made() {
    each_build(async |db| {
        let files = Files::new();
        let good = files.write("good", "{\"id\":1}\n");
        let utf16: Vec<u8> = "{\"id\":1}".encode_utf16().flat_map(u16::to_le_bytes).collect();
        for (content, found, hint) in [
            (&b"PAR1\x15\x04"[..], "Parquet", "--features columnar"),
            (&b"PK\x03\x04\x14\0"[..], "zip", "unzip -p"),
            (&utf16[..], "UTF-16", "iconv -f UTF-16 -t UTF-8"),
            (&b"id;name\n1;x\n"[..], "semicolons", ""),
        ] {
            let wanted = request("foreign", "id:bigint", &[good.clone(), files.write("foreign", content)]);
            let error = Box::pin(load(&wanted, &surroundings(&db.url()).0)).await.expect_err(found);
            assert!(error.to_string().contains(found), "{error}");
            assert!(error.hint().is_some_and(|h| h.contains(hint)), "{:?}", error.hint());
            assert!(!has_table(&db, "foreign").await);
        }
    })
    .await;
}

#[tokio::test]
async fn damage_before_the_first_document_is_named_where_types_would_be_inferred() {
    each_build(async |db| {
        let files = Files::new();
        let whole = gzip(b"{\"id\":1,\"v\":2}\n");
        let cut = files.write("cut.gz", &whole[..12]);
        let mut columns = request("cut", "id:bigint", std::slice::from_ref(&cut));
        columns.columns = AskedColumns::All;
        let mut versions = request("cut", "id:bigint", std::slice::from_ref(&cut));
        versions.mode = "newest:v".parse().expect("a mode");
        for wanted in [request("cut", "id", &[cut]), columns, versions] {
            let error = Box::pin(load(&wanted, &surroundings(&db.url()).0)).await.expect_err("it is damaged");
            assert!(error.to_string().contains("cut.gz is damaged at line 1 (byte 0): "), "{error}");
            assert!(error.hint().is_some_and(|hint| hint.starts_with("mend the file")), "{:?}", error.hint());
            assert!(!has_table(&db, "cut").await);
        }
        // Documents before the damage show the types.
        let files = files.write("some.gz", &whole[..whole.len() - 1]);
        let receipt = run(&db.url(), &request("some", "id", &[files])).await.receipt;
        assert_eq!((receipt.counters.inserted, receipt.finished), (1, false));
    })
    .await;
}

#[tokio::test]
async fn objects_on_one_or_several_lines_need_no_format_option() {
    each_build(async |db| {
        let files = Files::new();
        for text in ["{\"id\":1}{\"id\":2}", "{\n  \"id\": 1\n}\n{\n  \"id\": 2\n}\n"] {
            let done = run(&db.url(), &request("auto", "id:bigint", &[files.write("in", text)])).await.receipt;
            assert_eq!((done.counters.read, done.counters.rejected, done.finished), (2, 0, true));
        }
    })
    .await;
}

#[tokio::test]
async fn a_refused_document_counts_with_its_whole_size() {
    each_build(async |db| {
        let files = Files::new();
        let long = format!("{{\"id\":1,\"x\":\"{}\"}}", "y".repeat(17 << 20));
        let done = run(&db.url(), &request("long", "id:bigint", &[files.write("in", &long)])).await.receipt;
        assert_eq!((done.counters.rejected, done.counters.bytes_read), (1, long.len() as u64));
    })
    .await;
}

#[tokio::test]
async fn the_newest_loads_are_listed_and_no_more_than_wanted() {
    each_build(async |db| {
        let files = Files::new();
        for n in 0..4 {
            let file = files.write(&n.to_string(), format!("{{\"id\":{n}}}\n"));
            run(&db.url(), &request("listed", "id:bigint", &[file])).await;
        }
        let client = db.client().await;
        // One whose process is gone.
        client.batch_execute("update millstream.load set state = 'running' where load_id = 3").await.unwrap();
        for (limit, expected) in [
            (2, &[(4, "finished"), (3, "crashed")][..]),
            (9, &[(4, "finished"), (3, "crashed"), (2, "finished"), (1, "finished")]),
        ] {
            let listed = loads::list(&client, &schema(), limit).await.expect("the loads");
            let listed: Vec<(i64, &str)> = listed.iter().map(|load| (load.load_id, load.state.as_str())).collect();
            assert_eq!(listed, expected);
        }
    })
    .await;
}
