//! The log layout: documents appended to segments, read behind the table, and merged into it.

use crate::scene::{
    Files, Stream, appending, collection, compacted, equal, request, run, schema, stored, surroundings, until_held_up,
    waiting,
};
use millstream_engine::limits::SEGMENT_SPANS_MAX;
use millstream_engine::{Error, Layout, LoadRequest, Silent, SkipUnchanged, StopReason, VerifyRequest, load, verify};
use millstream_pg::Explained;
use millstream_store::Error as StoreError;
use millstream_store::collections;
use millstream_store::limits::COMPACTION_SEGMENTS_MAX;
use millstream_store::{documents, load_lock_keys};
use millstream_testkit::{Cases, TestDatabase, connect, database, each_build};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A stream of documents, some of which delete, applied to the rows that were there before.
fn wave(rng: &mut fastrand::Rng, from: i64, expected: &mut BTreeMap<String, i64>) -> Stream {
    let mut stream = Stream::default();
    // Every so often one key has most documents of a wave.
    let hot = rng.u8(..4) == 0;
    let keys = rng.usize(1..3_000);
    for n in 0..rng.i64(0..4_000) {
        let id = if hot && rng.bool() { "hot".to_owned() } else { format!("key-{:05}", rng.usize(..keys)) };
        if rng.u8(..10) == 0 {
            stream.text.push_str(&format!("{{\"id\":\"{id}\",\"op\":\"d\",\"value\":{}}}\n", from + n));
            expected.remove(&id);
            stream.documents += 1;
        } else {
            stream.push(&id, from + n);
            expected.insert(id, from + n);
        }
    }
    stream
}

/// A reader by key and a verification find what the loads brought.
async fn reads_as(db: &TestDatabase, name: &str, expected: &BTreeMap<String, i64>, rng: &mut fastrand::Rng) {
    let mut client = db.client().await;
    let found = collection(&client, name).await;
    let mut keys: Vec<String> = (0..10).map(|_| format!("key-{:05}", rng.usize(..3_000))).collect();
    keys.push("hot".into());
    for key in keys {
        let document = documents::document(&mut client, &schema(), &found, std::slice::from_ref(&key)).await;
        let document: Option<serde_json::Value> =
            document.expect("a key can be looked up").map(|text| serde_json::from_str(&text).expect("JSON"));
        assert_eq!(document.map(|d| d["value"].as_i64().expect("a number")), expected.get(&key).copied(), "{key}");
    }
    let files = Files::new();
    let mut whole = Stream::default();
    for (id, value) in expected {
        whole.push(id, *value);
    }
    let wanted = request(name, "id", &[files.write("whole", whole.text)]);
    let directory = tempfile::tempdir().expect("a directory");
    let wanted = VerifyRequest { exact: true, ..VerifyRequest::new(wanted, directory.path().to_owned()) };
    let verified = Box::pin(verify(&wanted, &surroundings(&db.url()).0.db, Arc::default(), &Silent))
        .await
        .expect("it is compared");
    assert_eq!((verified.differences(), verified.equal), (0, expected.len() as u64), "{verified:?}");
}

#[tokio::test]
async fn segments_and_table_together_equal_the_loaded_documents() {
    each_build(async |db| {
        for mut rng in Cases::new(2) {
            let table = format!("t{}", rng.u32(..));
            let (files, mut expected, mut from) = (Files::new(), BTreeMap::new(), 0);
            for load in 0..rng.usize(2..6) {
                let sources: Vec<String> = (0..rng.usize(1..4))
                    .map(|n| {
                        let stream = wave(&mut rng, from, &mut expected);
                        from += 10_000;
                        files.write(&format!("{load}-{n}"), stream.text)
                    })
                    .collect();
                let appends = load == 0 || rng.u8(..4) > 0;
                let mut wanted = appending(&table, &sources, rng.usize(1..3_000));
                wanted.lanes = Some(rng.u16(1..5));
                wanted.mode = wanted.mode.with_tombstone(Some("op=d".parse().expect("a tombstone")));
                if !appends {
                    compacted(&db, &table, rng.usize(1..4)).await.expect("it is merged");
                    wanted.layout = Layout::by_name("table").expect("a layout");
                }
                let receipt = run(&db.url(), &wanted).await.receipt;
                assert!(receipt.finished, "{receipt:?}");
                if appends {
                    assert_eq!((receipt.counters.appended, receipt.layout.as_str()), (receipt.counters.read, "log"));
                }
                reads_as(&db, &table, &expected, &mut rng).await;
                if rng.bool() {
                    let done = compacted(&db, &table, rng.usize(1..4)).await.expect("it is merged");
                    assert_eq!((done.left, waiting(&db, &table).await), (0, 0));
                    assert!(stored(&db, &table).await == expected, "after load {load}");
                }
            }
            compacted(&db, &table, 2).await.expect("it is merged");
            assert!(stored(&db, &table).await == expected);
            reads_as(&db, &table, &expected, &mut rng).await;
        }
    })
    .await;
}

#[tokio::test]
async fn each_lane_fills_one_segment() {
    each_build(async |db| {
        let mut rng = fastrand::Rng::with_seed(4);
        let files = Files::new();
        let stream = Stream::random(&mut rng, 20_000, 8_000);
        let bad = format!("{}{{\"id\":\n{{\"id\":\"last\",\"value\":7}}\n", stream.text);
        let mut wanted = appending("few", &[files.write("a", bad)], usize::MAX);
        wanted.lanes = Some(2);
        let receipt = run(&db.url(), &wanted).await.receipt;
        assert_eq!((receipt.counters.appended, receipt.counters.rejected), (20_001, 1));
        assert_eq!((receipt.writers["segment"], waiting(&db, "few").await), (2, 2));
        let client = db.client().await;
        let frozen: i64 = client
            .query_one("select count(*) from pg_class where relname ~ '^segment_\\d+$' and relallvisible = 0", &[])
            .await
            .unwrap()
            .get(0);
        assert_eq!(frozen, 2, "no vacuum has touched them");
        let tables: Vec<u64> =
            collections::list(&client, &schema()).await.unwrap().iter().map(|c| c.segments).collect();
        assert_eq!(tables, [2]);
        let done = compacted(&db, "few", 2).await.unwrap();
        assert_eq!((done.segments, done.documents, done.keys), (2, 20_001, stream.last.len() as u64 + 1));
        let left: i64 = client
            .query_one("select count(*) from pg_class where relname ~ '^segment_\\d+$'", &[])
            .await
            .unwrap()
            .get(0);
        assert_eq!(left, 0);
    })
    .await;
}

#[tokio::test]
async fn a_table_load_is_refused_while_segments_wait() {
    let db = database().await;
    let files = Files::new();
    let file = files.write("a", "{\"id\":\"a\",\"value\":1}\n");
    run(&db.url(), &appending("waits", &[file], 10)).await;
    let other = files.write("b", "{\"id\":\"a\",\"value\":2}\n");
    let wanted = request("waits", "id", std::slice::from_ref(&other));
    let refused = Box::pin(load(&wanted, &surroundings(&db.url()).0)).await.expect_err("documents wait");
    assert!(matches!(refused, Error::Store(StoreError::Appended { segments: 1, .. })), "{refused}");
    assert!(refused.hint().is_some_and(|hint| hint.contains("compact waits")), "{refused:?}");
    compacted(&db, "waits", 1).await.unwrap();
    run(&db.url(), &wanted).await;
    assert_eq!(stored(&db, "waits").await["a"], 2);
}

#[tokio::test]
async fn the_log_layout_refuses_what_needs_stored_documents() {
    let db = database().await;
    let files = Files::new();
    let file = files.write("a", "{\"id\":\"a\",\"value\":1}\n");
    for mode in ["keep", "merge", "merge:deep", "newest:value", "sum:value"] {
        let mut wanted = appending("modes", std::slice::from_ref(&file), 10);
        wanted.mode = mode.parse().unwrap();
        let refused = wanted.check().expect_err(mode).to_string();
        assert!(refused.contains(mode.split(':').next().unwrap()), "{refused}");
    }
    let mut wanted = appending("modes", std::slice::from_ref(&file), 10);
    wanted.skip_unchanged = SkipUnchanged::On;
    assert!(wanted.check().expect_err("nothing is compared").to_string().contains("--skip-unchanged on"));
    let sql = "create table judged (id text collate \"C\" primary key, doc jsonb not null check (doc ? 'value'))";
    db.client().await.batch_execute(sql).await.unwrap();
    let mut wanted = appending("judged", &[file], 10);
    wanted.adopt = true;
    let refused = Box::pin(load(&wanted, &surroundings(&db.url()).0)).await.expect_err("a constraint judges");
    assert!(matches!(refused, Error::Collection { .. }), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_lane_restarts_from_the_last_commit() {
    each_build(async |db| {
        let mut rng = fastrand::Rng::with_seed(31);
        let files = Files::new();
        let stream = Stream::random(&mut rng, 150_000, 60_000);
        let file = files.write("a", &stream.text);
        // A pipe cannot be read again, so segments are held in memory.
        let pipe = format!("{file}.pipe");
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        for (table, source, rows_max) in [("cut", &file, 2_000), ("held", &pipe, 40_000)] {
            let mut wanted = appending(table, std::slice::from_ref(source), rows_max);
            (wanted.lanes, wanted.resume) = (Some(2), table == "cut");
            let (text, into) = (stream.text.clone(), pipe.clone());
            let writing = tokio::task::spawn_blocking(move || {
                if table == "held" {
                    let mut pipe = std::fs::File::options().write(true).open(into).unwrap();
                    for piece in text.as_bytes().chunks(text.len() / 100) {
                        std::io::Write::write_all(&mut pipe, piece).unwrap();
                        // Leaves time to cut the lanes off, however fast the machine is.
                        std::thread::sleep(std::time::Duration::from_millis(10));
                    }
                }
            });
            let (ender, cuts_min) = (connect(&db.url()).await, if table == "held" { 10 } else { 3 });
            let cutting = tokio::spawn(async move {
                let sql = "select count(pg_terminate_backend(pid)) from pg_stat_activity
                           where application_name like 'millstream lane%' and datname = current_database()
                             and (query like 'COPY%' or query like 'copy%')";
                let mut cut = 0;
                while cut < cuts_min {
                    cut += ender.query_one(sql, &[]).await.unwrap().get::<_, i64>(0);
                    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                }
            });
            let receipt = run(&db.url(), &wanted).await.receipt;
            assert!(cutting.is_finished(), "{table}: it ended before its lanes were cut off");
            writing.await.unwrap();
            assert!(receipt.finished && receipt.retries > 0, "{receipt:?}");
            assert_eq!(receipt.counters.read, stream.documents, "{table}");
            compacted(&db, table, 2).await.unwrap();
            assert!(stored(&db, table).await == stream.last, "{table}");
        }
    })
    .await;
}

/// A load that breaks off leaves no lane far behind, even one that gets no documents.
#[tokio::test]
async fn a_lane_without_documents_commits_its_position() {
    const LANES: u16 = 2;
    const SEGMENT_BYTES: usize = 16 << 10;
    const CHUNK_BYTES: usize = 4 << 10;
    /// No position behind this place in the third source is committed.
    const BROKEN_OFF: i64 = 150_000;
    each_build(async |db| {
        let (files, client) = (Files::new(), db.client().await);
        // It makes our tables.
        run(&db.url(), &appending("before", &[files.write("before", "{\"id\":\"a\"}\n")], 10)).await;
        let trap = format!(
            "create function public.trap() returns trigger language plpgsql as
             $$begin
                 if (new.source, new.byte_offset) > (2, {BROKEN_OFF}) then
                     raise exception using errcode = 'disk_full';
                 end if;
                 return new;
             end$$;
             create trigger trap before update on millstream.lane for each row execute function public.trap()"
        );
        client.batch_execute(&trap).await.unwrap();
        // All documents have one key, so one lane gets none.
        let mut whole = Stream::default();
        let sources: Vec<String> = (0..3_i64)
            .map(|source| {
                let begin = whole.text.len();
                (0..4_000).for_each(|n| whole.push("only", 4_000 * source + n));
                files.write(&source.to_string(), &whole.text[begin..])
            })
            .collect();
        let mut wanted = appending("rare", &sources, usize::MAX);
        (wanted.lanes, wanted.segment_bytes, wanted.chunk_bytes) = (Some(LANES), SEGMENT_BYTES, CHUNK_BYTES);
        let broken_off = run(&db.url(), &wanted).await;
        assert_eq!(broken_off.stopped, Some(StopReason::Failed), "{broken_off:?}");
        let before = broken_off.receipt;
        let lowest = "select source, byte_offset
                      from millstream.load, unnest(floor_source, floor_offset) as slot (source, byte_offset)
                      where load_id = $1 order by 1, 2 limit 1";
        let lowest = client.query_one(lowest, &[&before.load_id]).await.unwrap();
        let lowest: (i32, i64) = (lowest.get(0), lowest.get(1));
        // A part is a whole chunk, and a chunk is not cut inside a line.
        let span = SEGMENT_SPANS_MAX * usize::from(LANES) * SEGMENT_BYTES + 4 * CHUNK_BYTES;
        let far_enough = (2, BROKEN_OFF - i64::try_from(span).unwrap());
        assert!((far_enough..=(2, BROKEN_OFF)).contains(&lowest), "{lowest:?}");

        client.batch_execute("drop trigger trap on millstream.lane").await.unwrap();
        let done = run(&db.url(), &wanted).await.receipt;
        assert_eq!((done.load_id, done.resumed_from), (before.load_id, Some(before.counters.read)));
        assert_eq!((done.finished, done.counters.read), (true, whole.documents));
        let segments = "select count(*), min(documents), sum(documents)::bigint
                        from millstream.segment where load_id = $1";
        let segments = client.query_one(segments, &[&done.load_id]).await.unwrap();
        let (count, least, documents): (i64, i64, i64) = (segments.get(0), segments.get(1), segments.get(2));
        assert_eq!(u64::try_from(count).unwrap(), before.writers["segment"] + done.writers["segment"]);
        assert_eq!((least > 0, u64::try_from(documents).unwrap()), (true, whole.documents));
        assert_eq!(equal(&db, &request("rare", "id", &sources)).await, 1);
        compacted(&db, "rare", 2).await.unwrap();
        assert!(stored(&db, "rare").await == whole.last);
    })
    .await;
}

#[tokio::test]
async fn segments_wait_for_an_older_running_load() {
    let db = database().await;
    let files = Files::new();
    let older = files.write("a", "{\"id\":\"a\",\"value\":1}\n");
    run(&db.url(), &appending("turns", &[older], 10)).await;
    let client = db.client().await;
    // The older run works again, as its lock shows.
    let sql = "update millstream.load set state = 'running' returning load_id";
    let load_id: i64 = client.query_one(sql, &[]).await.unwrap().get(0);
    let (class, id) = load_lock_keys(&schema(), load_id);
    client.execute("select pg_advisory_lock($1, $2)", &[&class, &id]).await.unwrap();
    let newer = files.write("b", "{\"id\":\"a\",\"value\":2}\n");
    run(&db.url(), &appending("turns", &[newer], 10)).await;
    let done = compacted(&db, "turns", 1).await.unwrap();
    assert_eq!((done.segments, done.left, done.waits_for), (1, 1, Some(load_id)));
    assert_eq!(stored(&db, "turns").await["a"], 1);
    client.execute("select pg_advisory_unlock($1, $2)", &[&class, &id]).await.unwrap();
    assert_eq!(compacted(&db, "turns", 1).await.unwrap().left, 0);
    assert_eq!(stored(&db, "turns").await["a"], 2);
}

#[tokio::test]
async fn keys_of_every_type_are_divided_into_ranges() {
    each_build(async |db| {
        let files = Files::new();
        let mut lines: Vec<String> = Vec::new();
        for n in 0..3_000 {
            let n = n % 2_000;
            let (day, odd) = (1 + n % 28, n % 2 == 1);
            let uuid = format!("00000000-0000-4000-8000-{n:012}");
            lines.push(format!(
                "{{\"t\":\"it's \\\\ {n}\",\"b\":{n},\"i\":{},\"u\":\"{uuid}\",\"z\":\"2026-01-{day:02}T00:00:00.25Z\",\"d\":\"2026-01-{day:02}\",\"w\":\"2026-01-{day:02} 00:00:00\",\"o\":{odd}}}\n",
                -n
            ));
        }
        let file = files.write("a", lines.concat());
        let types = [
            "t:text",
            "b:bigint",
            "i:integer",
            "u:uuid",
            "z:timestamptz",
            "d:date",
            "o:boolean",
            "v=t:varchar",
            "s=i:smallint",
            "n=i:numeric",
            "e=i:timestamptz:epoch",
            "m=b:timestamptz:epoch_ms",
            "l=z:timestamptz:lenient",
            "w:timestamp",
        ];
        assert_eq!(types.len(), millstream_model::KEY_TYPES.len(), "every type is tried");
        for (n, first) in types.iter().enumerate() {
            // Each type once as the first of the key, with others after it.
            let rest: Vec<&str> = types.iter().copied().filter(|other| other != first).take(6).collect();
            let mut wanted = request(&format!("typed_{n}"), &[&[*first], &rest[..]].concat().join(","), std::slice::from_ref(&file));
            wanted.layout = Layout::by_name("log").expect("a layout");
            run(&db.url(), &wanted).await;
            let done = compacted(&db, &format!("typed_{n}"), 4).await.expect("it is merged");
            assert_eq!((done.documents, done.keys), (3_000, 2_000), "{first}");
        }
    })
    .await;
}

#[tokio::test]
async fn key_columns_may_be_named_like_our_own_columns() {
    each_build(async |db| {
        let files = Files::new();
        let lines = |from: i64| -> String {
            (0..300)
                .map(|n| format!("{{\"at\":{},\"place\":\"p{}\",\"value\":{}}}\n", n % 100, n % 100, from + n))
                .collect()
        };
        let (mut last, mut wanted) = (String::new(), appending("placed", &[], 50));
        for from in [0, 1_000] {
            let (all, keys) = (lines(from), request("placed", "at:bigint,place:text", &[]).key);
            last = all.lines().skip(200).map(|line| format!("{line}\n")).collect();
            wanted = LoadRequest { key: keys, sources: vec![files.write(&from.to_string(), all)], ..wanted };
            run(&db.url(), &wanted).await;
            let mut client = db.client().await;
            let found = collection(&client, "placed").await;
            let key = ["7", "p7"].map(str::to_owned);
            let document = documents::document(&mut client, &schema(), &found, &key).await.expect("it is looked up");
            assert!(document.expect("it waits").contains(&(from + 207).to_string()));
            let file = files.write("last", &last);
            let directory = tempfile::tempdir().expect("a directory");
            let compared = request("placed", "at:bigint,place:text", &[file]);
            let compared = VerifyRequest { exact: true, ..VerifyRequest::new(compared, directory.path().to_owned()) };
            let found = Box::pin(verify(&compared, &surroundings(&db.url()).0.db, Arc::default(), &Silent))
                .await
                .expect("compared");
            assert_eq!((found.differences(), found.equal), (0, 100), "{found:?}");
            let done = compacted(&db, "placed", 3).await.expect("it is merged");
            assert_eq!((done.documents, done.keys, done.left), (300, 100, 0));
        }
        let sql = "select count(*), sum((doc ->> 'value')::bigint)::bigint from placed";
        let row = db.client().await.query_one(sql, &[]).await.unwrap();
        assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (100, (1_200..1_300).sum::<i64>()), "{last}");
    })
    .await;
}

#[tokio::test]
async fn any_number_of_segments_is_merged_in_groups() {
    each_build(async |db| {
        let files = Files::new();
        let segments = 2 * COMPACTION_SEGMENTS_MAX + 3;
        run(&db.url(), &appending("short", &[files.write("a", "{\"id\":\"a\",\"value\":1}\n")], 1)).await;
        let more = format!(
            "do $$ begin for n in 2 .. {segments} loop
                 execute format('create table millstream.segment_%s (id text, doc text)', 1000 + n);
                 execute format('insert into millstream.segment_%s values (%L, %L)',
                                1000 + n, 'key-' || n % 7, json_build_object('value', n));
                 insert into millstream.segment (segment_id, table_oid, load_id, run_order, documents, bytes)
                 select 1000 + n, table_oid, load_id, run_order, 1, 30 from millstream.segment limit 1;
             end loop; end $$"
        );
        db.client().await.batch_execute(&more).await.unwrap();
        assert_eq!(waiting(&db, "short").await, segments);
        let mut expected = BTreeMap::from([("a".to_owned(), 1)]);
        expected.extend((2..=i64::try_from(segments).expect("few")).map(|n| (format!("key-{}", n % 7), n)));
        let client = db.client().await;
        // Each transaction that drops segments deletes the rows of a group with one statement.
        let sql = "create table public.dropped (segments bigint);
                   create function public.counts() returns trigger language plpgsql as
                   $$ begin insert into public.dropped select count(*) from gone; return null; end $$;
                   create trigger counts after delete on millstream.segment referencing old table as gone
                   for each statement execute function public.counts()";
        client.batch_execute(sql).await.unwrap();
        assert_eq!(compacted(&db, "short", 2).await.unwrap().segments, segments);
        let rows = client.query("select segments from public.dropped order by 1 desc", &[]).await.unwrap();
        let most = i64::try_from(COMPACTION_SEGMENTS_MAX).expect("few");
        assert_eq!(rows.iter().map(|row| row.get(0)).collect::<Vec<i64>>(), [most, most, 3]);
        assert_eq!(stored(&db, "short").await, expected);
    })
    .await;
}

#[tokio::test]
async fn a_refused_load_adds_no_check_and_a_failed_compaction_hints() {
    each_build(async |db| {
        let files = Files::new();
        let file = files.write("a", "{\"id\":\"a\",\"value\":1}\n");
        run(&db.url(), &appending("judging", &[file], 10)).await;
        let mut wanted = request("judging", "id", &[files.write("b", "{\"id\":\"b\",\"value\":9}\n")]);
        wanted.checks = vec!["(doc ->> 'value')::bigint > 5".into()];
        let refused = Box::pin(load(&wanted, &surroundings(&db.url()).0)).await.expect_err("documents wait");
        assert!(matches!(refused, Error::Store(StoreError::Appended { segments: 1, .. })), "{refused}");
        let client = db.client().await;
        let sql = "select count(*) from pg_constraint where conrelid = 'judging'::regclass and contype = 'c'";
        assert_eq!(client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0), 0, "nothing is changed");
        let sql = "alter table judging add constraint large check ((doc ->> 'value')::bigint > 5)";
        client.batch_execute(sql).await.unwrap();
        let refused = compacted(&db, "judging", 2).await.expect_err("the document is refused");
        let (message, hint) = (refused.to_string(), refused.hint().unwrap_or_default());
        assert!(matches!(refused, Error::Refused(_)) && message.contains("\"large\""), "{message}");
        assert!(hint.contains("drop the constraint") && hint.contains("compact"), "{hint}");
        client.batch_execute("alter table judging drop constraint large").await.unwrap();
        compacted(&db, "judging", 2).await.unwrap();
        assert_eq!(stored(&db, "judging").await["a"], 1);
    })
    .await;
}

#[tokio::test]
async fn an_adopted_table_cannot_be_dropped_while_segments_wait() {
    let db = database().await;
    let files = Files::new();
    let mut client = db.client().await;
    client.batch_execute("create table own (id text collate \"C\" primary key, doc jsonb not null)").await.unwrap();
    let mut wanted = appending("own", &[files.write("a", "{\"id\":\"a\",\"value\":1}\n")], 10);
    wanted.adopt = true;
    run(&db.url(), &wanted).await;
    let found = collection(&client, "own").await;
    let refused = collections::drop(&mut client, &schema(), &found, false).await.expect_err("it would be lost");
    assert!(refused.to_string().contains("1 segment"), "{refused}");
    assert!(refused.hint().is_some_and(|hint| hint.contains("compact own")), "{refused:?}");
    compacted(&db, "own", 1).await.unwrap();
    assert!(!collections::drop(&mut client, &schema(), &found, false).await.unwrap().table);
    assert_eq!(stored(&db, "own").await["a"], 1);
}

#[tokio::test]
async fn segments_committed_during_a_compaction_do_not_wait_for_a_load() {
    let db = database().await;
    let files = Files::new();
    run(&db.url(), &appending("beside", &[files.write("a", "{\"id\":\"a\",\"value\":1}\n")], 10)).await;
    let mut client = db.client().await;
    let sql = "update millstream.load set state = 'running' returning load_id";
    let load_id: i64 = client.query_one(sql, &[]).await.unwrap().get(0);
    let (class, id) = load_lock_keys(&schema(), load_id);
    client.execute("select pg_advisory_lock($1, $2)", &[&class, &id]).await.unwrap();
    let holder = client.transaction().await.unwrap();
    holder.batch_execute("lock table public.beside in exclusive mode").await.unwrap();
    let meanwhile = async {
        until_held_up(&db, "millstream compact").await;
        let sql = "create table millstream.segment_1000 (id text, doc text);
                   insert into millstream.segment_1000 values ('a', '{\"id\": \"a\", \"value\": 2}');
                   insert into millstream.segment (segment_id, table_oid, load_id, run_order, documents, bytes)
                   select 1000, table_oid, load_id, run_order, 1, 30 from millstream.segment";
        db.client().await.batch_execute(sql).await.unwrap();
        holder.commit().await.unwrap();
    };
    let (done, ()) = tokio::join!(compacted(&db, "beside", 1), meanwhile);
    let done = done.unwrap();
    assert_eq!((done.segments, done.left, done.waits_for), (1, 1, None));
    assert_eq!(compacted(&db, "beside", 1).await.unwrap().left, 0);
    assert_eq!(stored(&db, "beside").await["a"], 2);
}
