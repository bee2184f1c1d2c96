//! Loads into a table that holds some of their keys: a lane asks for them, until it has read the keys of the table.

use crate::scene::{Files, Stream, request, run, stored};
use millstream_engine::LoadRequest;
use millstream_testkit::{each_build, until};

/// Documents of a load. Of each twenty, one has a key of the table.
const DOCUMENTS: usize = 8_000;

/// One key of several columns, and one whose equal values are spelled in several ways.
const KEYS: &[&str] = &["id:text", "a:bigint,id:text", "b:numeric"];

fn document(n: usize, value: usize) -> String {
    let zeros = "0".repeat(value);
    format!("{{\"id\":\"{n:05}\",\"a\":{},\"b\":{n}.{zeros},\"value\":{value}}}\n", n % 7)
}

/// A batch has a chunk of documents, and each chunk some hundred.
fn in_batches(wanted: LoadRequest) -> LoadRequest {
    LoadRequest { arrays_rows_max: 0, batch_rows: 100, chunk_bytes: 16 << 10, ..wanted }
}

#[tokio::test]
async fn each_lane_finds_the_keys_that_are_stored() {
    each_build(async |db| {
        let client = db.client().await;
        for (n, key) in KEYS.iter().enumerate() {
            for (lanes, met_words) in [(1, 1 << 10), (3, 10_000), (3, 0)] {
                let (files, table) = (Files::new(), format!("public.earlier_{n}_{lanes}_{met_words}"));
                let few: String = (0..DOCUMENTS).step_by(20).map(|n| document(n, 1)).collect();
                let all: String = (0..DOCUMENTS).map(|n| document(n, 2)).collect();
                let wanted = request(&table, key, &[files.write("few", few)]);
                run(&db.url(), &wanted).await;
                let wanted = LoadRequest { sources: vec![files.write("all", all)], met_words, ..in_batches(wanted) };
                let receipt = run(&db.url(), &LoadRequest { lanes: Some(lanes), ..wanted }).await.receipt;
                let counted = (receipt.counters.inserted, receipt.counters.updated);
                assert_eq!(counted, (DOCUMENTS as u64 * 19 / 20, DOCUMENTS as u64 / 20), "{key}: {receipt:?}");
                // A key that a lane takes for a new one would cost a batch, which is then upserted.
                assert!(!receipt.writers.contains_key("upsert"), "{key}: {receipt:?}");
                let sql = format!("select count(*) from {table} where doc ->> 'value' = '2'");
                let changed: i64 = client.query_one(&sql, &[]).await.unwrap().get(0);
                assert_eq!(usize::try_from(changed), Ok(DOCUMENTS), "{key}");
            }
        }
    })
    .await;
}

/// The lane has read the keys of the table when it meets one that was not there yet.
#[tokio::test]
async fn a_lane_that_has_read_the_keys_meets_one_of_another_session() {
    each_build(async |db| {
        let files = Files::new();
        let mut stream = Stream::default();
        (0..DOCUMENTS).step_by(20).for_each(|n| stream.push(&format!("{n:05}"), 1));
        let wanted = request("public.met", "id:text", &[files.write("few", &stream.text)]);
        run(&db.url(), &wanted).await;
        let mut stream = Stream::default();
        (0..DOCUMENTS).for_each(|n| stream.push(&format!("{n:05}"), 2));
        let sources = vec![files.write("all", &stream.text)];
        let wanted = LoadRequest { sources, lanes: Some(1), ..in_batches(wanted) };
        let (mut other, watch, url) = (db.client().await, db.client().await, db.url());
        let transaction = other.transaction().await.unwrap();
        let insert = format!("insert into public.met values ('{:05}', '{{\"value\": 0}}')", DOCUMENTS - 1);
        transaction.execute(&insert, &[]).await.unwrap();
        let commit = async {
            let waits = "select exists (select from pg_stat_activity where wait_event = 'transactionid' \
                         and application_name like 'millstream lane%' and datname = current_database())";
            until("a lane waits for the key", async || watch.query_one(waits, &[]).await.unwrap().get(0)).await;
            transaction.commit().await.unwrap();
        };
        let (outcome, ()) = tokio::join!(run(&url, &wanted), commit);
        assert!(outcome.error.is_none(), "{:?}", outcome.error);
        assert_eq!(stored(&db, "public.met").await, stream.last);
        let counters = outcome.receipt.counters;
        assert_eq!(counters.updated, DOCUMENTS as u64 / 20 + 1, "{:?}", outcome.receipt);
        db.client().await.batch_execute("drop table public.met").await.unwrap();
    })
    .await;
}
