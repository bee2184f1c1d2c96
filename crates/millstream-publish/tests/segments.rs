//! Read models and freezing of collections whose documents wait in segments.

use crate::publish::{asked, publish_on, refresh_on, session, wanted};
use crate::scene::{Files, Stream, appending, collection, compacted, run, schema, stored, surroundings, waiting};
use millstream_engine::Durability;
use millstream_engine::limits::COMPACTION_RECORDED_DOCUMENTS;
use millstream_publish::{Error, estimate, freeze, unpublish};
use millstream_store::{Error as StoreError, collections};
use millstream_testkit::{database, every_build};

#[tokio::test]
async fn a_model_shows_segments_and_a_drop_leaves_nothing() {
    every_build(async |db| {
        let files = Files::new();
        let mut stream = Stream::default();
        for n in 0..500 {
            stream.push(&format!("{n:04}"), n);
        }
        run(&db.url(), &appending("shown", &[files.write("a", &stream.text)], 100)).await;
        publish_on(&db, &wanted("shown", "shown_read", &[], &["(doc)"], None)).await.unwrap();
        let (conninfo, models) = (surroundings(&db.url()).0.db, asked(&["shown_read"], None));
        for (wave, value) in [1_000, 2_000].into_iter().enumerate() {
            for n in 0..200 {
                stream.push(&format!("{n:04}"), value + n);
            }
            let file = files.write(&format!("wave {wave}"), &stream.text);
            run(&db.url(), &appending("shown", &[file], 100)).await;
            let reason = &estimate(&conninfo, &schema(), &models).await.unwrap()[0].reason;
            let ending = format!("; {} segments are merged first", waiting(&db, "shown").await);
            assert!(reason.ends_with(&ending), "{reason}");
            // A segment is left while the server still ends a session of its load.
            let mut left = vec!["not refreshed".to_owned()];
            for _ in 0..100 {
                let refreshed = refresh_on(&db, &["shown_read"], None).await.unwrap();
                left = refreshed.into_iter().flat_map(|one| one.warnings).collect();
                if left.is_empty() {
                    break;
                }
            }
            assert!(left.is_empty(), "{left:?}");
            assert!(stored(&db, "shown_read").await == stream.last);
            let reason = &estimate(&conninfo, &schema(), &models).await.unwrap()[0].reason;
            assert!(!reason.contains("segment"), "{reason}");
        }
        unpublish(&mut session(&db.url()).await, &schema(), &"shown_read".parse().unwrap()).await.unwrap();
        run(&db.url(), &appending("shown", &[files.write("last", &stream.text)], 100)).await;
        let mut client = db.client().await;
        let found = collection(&client, "shown").await;
        collections::drop(&mut client, &schema(), &found, true).await.unwrap();
        let left = "select count(*) from pg_class where relname ~ '^segment_\\d+$'";
        assert_eq!(client.query_one(left, &[]).await.unwrap().get::<_, i64>(0), 0);
    })
    .await;
}

#[tokio::test]
async fn unlogged_segments_are_frozen_with_their_collection() {
    let db = database().await;
    let files = Files::new();
    let mut wanted = appending("soft", &[files.write("a", "{\"id\":\"a\",\"value\":1}\n")], 10);
    wanted.durability = Durability::by_name("unlogged").unwrap();
    run(&db.url(), &wanted).await;
    let mut client = db.client().await;
    let kinds = "select string_agg(relpersistence::text, '' order by relname) from pg_class
                 where relname ~ '^segment_\\d+$' or oid = 'public.soft'::regclass";
    assert_eq!(client.query_one(kinds, &[]).await.unwrap().get::<_, &str>(0), "uu");
    let found = collection(&client, "soft").await;
    freeze(&mut client, &schema(), &found).await.unwrap();
    assert_eq!(client.query_one(kinds, &[]).await.unwrap().get::<_, &str>(0), "pp");
    compacted(&db, "soft", 1).await.unwrap();
    assert_eq!(stored(&db, "soft").await["a"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refresh_skips_segments_in_use() {
    every_build(async |db| {
        let (files, client) = (Files::new(), db.client().await);
        run(&db.url(), &appending("things", &[files.write("a", "{\"id\":\"a\"}\n")], 100)).await;
        publish_on(&db, &wanted("things", "model", &[], &[], None)).await.unwrap();
        let segment: String = client
            .query_one("select 'millstream.segment_' || segment_id from millstream.segment", &[])
            .await
            .unwrap()
            .get(0);
        client.batch_execute(&format!("begin; lock table {segment} in access share mode")).await.unwrap();
        let done = refresh_on(&db, &["model"], None).await.unwrap();
        assert_eq!((done[0].rows, done[0].warnings.len()), (1, 1), "{done:?}");
        assert!(done[0].warnings[0].starts_with("segments were left to the next refresh: "), "{done:?}");
        client.batch_execute("commit").await.unwrap();
        let done = refresh_on(&db, &["model"], None).await.unwrap();
        assert!(done[0].warnings.is_empty() && waiting(&db, "things").await == 0, "{done:?}");
    })
    .await;
}

#[tokio::test]
async fn groups_of_a_published_collection_fit_the_change_record() {
    let db = database().await;
    let files = Files::new();
    let client = db.client().await;
    for (table, groups) in [("heard", vec![2, 2]), ("unheard", vec![4])] {
        for n in 0..4 {
            let file = files.write(&format!("{table} {n}"), format!("{{\"id\":\"{n}\",\"value\":{n}}}\n"));
            run(&db.url(), &appending(table, &[file], 1)).await;
        }
        assert_eq!(waiting(&db, table).await, 4);
        if groups.len() > 1 {
            publish_on(&db, &wanted(table, "model", &[], &[], None)).await.unwrap();
        }
        // Each transaction that drops segments deletes the rows of a group with one statement.
        let sql = format!(
            "update millstream.segment set documents = {COMPACTION_RECORDED_DOCUMENTS};
             drop table if exists public.dropped; create table public.dropped (segments bigint);
             create or replace function public.counts() returns trigger language plpgsql as
             $$ begin insert into public.dropped select count(*) from gone; return null; end $$;
             create or replace trigger counts after delete on millstream.segment referencing old table as gone
             for each statement execute function public.counts()"
        );
        client.batch_execute(&sql).await.unwrap();
        compacted(&db, table, 2).await.unwrap();
        let rows = client.query("select segments from public.dropped", &[]).await.unwrap();
        assert_eq!(rows.iter().map(|row| row.get(0)).collect::<Vec<i64>>(), groups, "{table}");
        assert_eq!(stored(&db, &format!("public.{table}")).await.len(), 4);
    }
}

#[tokio::test]
async fn freeze_is_refused_during_a_compaction() {
    let db = database().await;
    let files = Files::new();
    run(&db.url(), &appending("merging", &[files.write("a", "{\"id\":\"a\",\"value\":1}\n")], 10)).await;
    let (mut client, other) = (db.client().await, db.client().await);
    let found = collection(&client, "merging").await;
    let lock = "select pg_advisory_lock(x'6d736c63'::int, $1)";
    other.execute(lock, &[&found.table_oid.cast_signed()]).await.unwrap();
    let refused = freeze(&mut client, &schema(), &found).await.expect_err("it is being compacted");
    assert!(matches!(refused, Error::Store(StoreError::CompactionBusy { .. })), "{refused}");
    drop(other);
}
