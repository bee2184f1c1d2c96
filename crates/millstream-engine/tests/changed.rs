//! Tables, and their partitions, that somebody changes while a load runs or before it resumes.

use crate::emptied::{documents, execute, halfway, run_and_listen};
use crate::scene::{Files, request, run, schema, stored, surroundings, until_committed, until_locked_out};
use millstream_engine::limits::TABLE_CHANGES_MAX;
use millstream_engine::{Error, Event, LoadRequest, Mode, Outcome, StopReason, load};
use millstream_testkit::{TestDatabase, each_build, every_build_dealing, todays, until};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The table of these tests, with one row.
const TABLE: &str = "create table public.t (id text collate \"C\" primary key, doc jsonb not null); \
                     insert into public.t values ('key-99999', '{\"value\": 9}')";

/// A function for triggers.
fn trigger_function(body: &str) -> String {
    format!("create function public.f() returns trigger language plpgsql as $f$ begin {body} end $f$")
}

const BEFORE: &str = "create trigger t_t before insert or update on public.t for each row execute function public.f()";

/// Loads a file into the table; the change is made while the lanes wait to write the first batch.
async fn loaded_over(db: &TestDatabase, wanted: &LoadRequest, change: &str) -> (Result<Outcome, Error>, String) {
    let client = db.client().await;
    client.batch_execute("begin; lock table public.t in share row exclusive mode").await.expect("it is free");
    let (around, events) = surroundings(&db.url());
    let loading = tokio::spawn({
        let wanted = wanted.clone();
        async move { Box::pin(load(&wanted, &around)).await }
    });
    until_locked_out(db, "public.t").await;
    client.batch_execute(&format!("{change}; commit")).await.unwrap_or_else(|error| panic!("{change}: {error:?}"));
    (loading.await.expect("it does not panic"), events.warnings())
}

#[tokio::test]
async fn changes_that_do_not_matter_do_not_stop_a_load() {
    each_build(async |db| {
        for change in [
            "alter table public.t add column more int default 7",
            "alter table public.t drop constraint t_pkey; alter table public.t add primary key (id)",
            "alter table public.t drop constraint t_pkey, add constraint other unique (id); \
             alter table public.t alter column id set not null",
            "create index on public.t ((doc ->> 'value'))",
            "alter table public.t set (fillfactor = 50); cluster public.t using t_pkey",
            "create trigger t_t after insert on public.t for each row execute function public.f()",
            "alter table public.t alter column doc drop not null",
        ] {
            let files = Files::new();
            execute(&db, TABLE).await;
            db.client().await.batch_execute(&trigger_function("return null;")).await.unwrap();
            let mut last = documents(0..500).last;
            let mut wanted = request("public.t", "id", &[files.write("d", documents(0..500).text)]);
            (wanted.adopt, wanted.lanes) = (true, Some(2));
            let (ended, warnings) = loaded_over(&db, &wanted, change).await;
            let outcome = ended.unwrap_or_else(|error| panic!("{change}: {error}"));
            if change.contains("unique (id)") {
                // The next run asks for a primary key, but this one can go on.
                assert!(outcome.error.is_none(), "{change}: {outcome:?}");
            }
            assert!(outcome.stopped.is_none(), "{change}: {outcome:?}");
            last.insert("key-99999".into(), 9);
            assert!(stored(&db, "public.t").await == last, "{change}");
            assert_eq!(
                warnings.contains("looks at the table anew"),
                change.contains("trigger"),
                "{change}: {warnings}"
            );
            execute(&db, "drop table public.t; drop function public.f()").await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_table_that_changes_again_and_again_does_not_end_a_load_that_gets_on() {
    each_build(async |db| {
        let (files, client, all) = (Files::new(), db.client().await, documents(0..60_000));
        execute(&db, TABLE).await;
        client.batch_execute(&trigger_function("return new;")).await.unwrap();
        let mut wanted = request("public.t", "id", &[files.write("d", &all.text)]);
        (wanted.adopt, wanted.lanes, wanted.batch_rows, wanted.chunk_bytes) = (true, Some(1), 50, 4 << 10);
        let (around, events) = surroundings(&db.url());
        let tally = Arc::clone(&around.tally);
        let loading = tokio::spawn({
            let wanted = wanted.clone();
            async move { Box::pin(load(&wanted, &around)).await }
        });
        let begun = || {
            let events = events.0.lock().expect("no test panics while it holds this");
            events.iter().filter(|event| matches!(event, Event::Started { .. })).count()
        };
        for nth in 1..=usize::try_from(TABLE_CHANGES_MAX).unwrap() + 2 {
            until("the next run", async || begun() == nth).await;
            until_committed(&tally, 1).await;
            client.batch_execute("begin; lock table public.t in share row exclusive mode").await.unwrap();
            until_locked_out(&db, "public.t").await;
            let change = if nth % 2 == 1 { BEFORE } else { "drop trigger t_t on public.t" };
            client.batch_execute(&format!("{change}; commit")).await.unwrap();
        }
        let outcome = loading.await.expect("it does not panic").expect("the load begins");
        assert!(outcome.error.is_none() && outcome.receipt.finished, "{outcome:?}; {}", events.warnings());
        let mut last = all.last;
        last.insert("key-99999".into(), 9);
        assert!(stored(&db, "public.t").await == last);
    })
    .await;
}

#[tokio::test]
async fn changes_that_matter_end_a_load_with_their_reason_and_nothing_is_written() {
    each_build(async |db| {
        for (change, reason) in [
            ("alter table public.t alter column id type double precision using 1", "is of type double precision"),
            ("alter table public.t alter column doc type text", "its column doc is of type text"),
            ("alter table public.t alter column doc type json", "its column doc is of type json"),
            ("alter table public.t drop constraint t_pkey", "its primary key was dropped"),
            ("create table public.child () inherits (public.t)", "other tables inherit from it"),
            ("create rule r as on insert to public.t do instead nothing", "it has rules"),
        ] {
            let files = Files::new();
            execute(&db, TABLE).await;
            let before = db.client().await.query_one("select count(*) from public.t", &[]).await.unwrap();
            let mut wanted = request("public.t", "id", &[files.write("d", documents(0..500).text)]);
            (wanted.adopt, wanted.lanes) = (true, Some(2));
            let (ended, _) = loaded_over(&db, &wanted, change).await;
            let error = match ended {
                Ok(outcome) => outcome.error.unwrap_or_else(|| panic!("{change}: it ends")),
                Err(error) => error,
            };
            assert!(error.to_string().contains(reason), "{change}: {error}");
            let after = db.client().await.query_one("select count(*) from only public.t", &[]).await.unwrap();
            assert_eq!(after.get::<_, i64>(0), before.get::<_, i64>(0), "{change}");
            execute(&db, "drop table public.t cascade").await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_stream_ends_with_what_changed_and_keeps_what_is_committed() {
    each_build(async |db| {
        for (change, reason) in [
            ("alter table public.t alter column doc type text", "the type of a key column or of doc"),
            ("alter table public.t drop constraint t_pkey", "its primary key was dropped"),
            (BEFORE, "its triggers"),
        ] {
            let files = Files::new();
            db.client().await.batch_execute(&trigger_function("return new;")).await.unwrap();
            let running = halfway(&db, &files, &documents(0..500).text, |_| {}).await;
            execute(&db, change).await;
            let outcome = running.end(&documents(500..1_000).text).await.expect("there is a receipt");
            let error = outcome.error.unwrap_or_else(|| panic!("{change}: it ends"));
            assert!(error.to_string().contains(reason), "{change}: {error}");
            assert_eq!(outcome.receipt.counters.read, 500, "{change}");
            let rows = db.client().await.query_one("select count(*) from public.t", &[]).await.unwrap();
            assert_eq!(rows.get::<_, i64>(0), 500, "{change}");
            execute(&db, "drop table public.t; drop function public.f()").await;
        }
    })
    .await;
}

/// What a table may refuse matters to modes that check fewer documents than arrive, and only to those.
#[tokio::test]
async fn what_may_refuse_documents_ends_a_stream_that_relies_on_nothing_being_refused() {
    each_build(async |db| {
        // What is there before, a change, and the modes of streams that it ends.
        let cases: [(&str, &str, &[&str]); 5] = [
            (
                "",
                "alter table public.t add check (doc ->> 'value' <> '')",
                &["newest:value:bigint", "merge", "sum:value"],
            ),
            ("", "create index on public.t ((doc ->> 'value'))", &["merge", "sum:value"]),
            ("", "alter table public.t add column more int default 7", &[]),
            ("", "reindex table concurrently public.t", &[]),
            // Each document is written by itself already.
            ("create index on public.t ((doc ->> 'note'))", "create index on public.t ((doc ->> 'value'))", &[]),
        ];
        for (before, change, ends) in cases {
            for mode in ["replace", "newest:value:bigint", "merge", "sum:value"] {
                let files = Files::new();
                execute(&db, TABLE).await;
                if !before.is_empty() {
                    execute(&db, before).await;
                }
                let running = halfway(&db, &files, &documents(0..500).text, |request| {
                    (request.adopt, request.mode) = (true, mode.parse().expect("a mode"));
                })
                .await;
                execute(&db, change).await;
                let outcome = running.end(&documents(500..1_000).text).await.expect("there is a receipt");
                let about = format!("{before} {change} {mode}: {outcome:?}");
                let why = outcome.error.map(|error| error.to_string()).unwrap_or_default();
                if ends.contains(&mode) {
                    assert!(why.contains("its checks") || why.contains("its indexes"), "{about}");
                } else {
                    assert!(why.is_empty() && outcome.receipt.finished, "{about}");
                }
                execute(&db, "drop table public.t").await;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_parent_of_inheritance_is_refused() {
    each_build(async |db| {
        let files = Files::new();
        execute(&db, TABLE).await;
        execute(&db, "create table public.child () inherits (public.t)").await;
        let mut wanted = request("public.t", "id", &[files.write("d", documents(0..5).text)]);
        wanted.adopt = true;
        let error = Box::pin(load(&wanted, &surroundings(&db.url()).0)).await.expect_err("it is refused");
        assert!(error.to_string().contains("other tables inherit from it"), "{error}");
    })
    .await;
}

/// What a trigger drops, or stores under another key, is a reject in every mode, whether the key is stored or not.
#[tokio::test]
async fn a_row_that_is_not_stored_under_its_key_is_a_reject() {
    // Each with whether it concerns keys that are stored already, and those that are not.
    let bodies = [
        ("if new.id like '%7' then new.id := 'x' || new.id; end if; return new;", [true, true]),
        ("if new.id like '%7' then return null; end if; return new;", [true, true]),
        ("if tg_op = 'UPDATE' and new.id like '%7' then new.id := 'x' || new.id; end if; return new;", [true, false]),
        ("if tg_op = 'UPDATE' and new.id like '%7' then return null; end if; return new;", [true, false]),
    ];
    let modes = ["replace", "keep", "merge", "newest:value:bigint", "sum:value"];
    let all = bodies.iter().flat_map(|body| modes.map(|mode| (body, mode)));
    every_build_dealing(todays(all), async |db, cases| {
        for ((body, concerns), mode) in cases {
            for (deletes, filled) in [(false, false), (false, true), (true, false), (true, true)] {
                let files = Files::new();
                execute(&db, TABLE).await;
                execute(&db, "delete from public.t").await;
                if filled {
                    let fill = "insert into public.t select format('key-%s', lpad(n::text, 5, '0')), '{\"value\": -1}' \
                                from generate_series(0, 1999) n";
                    execute(&db, fill).await;
                }
                db.client().await.batch_execute(&trigger_function(body)).await.unwrap();
                execute(&db, BEFORE).await;
                let case = format!("{body} {mode} deletes {deletes} filled {filled}");
                // What is stored is kept, and no row is written that a trigger could drop.
                let harmless = mode == "keep" && (body.contains("null") || body.contains("UPDATE"));
                let is_concerned = |n: i64| n % 10 == 7 && concerns[usize::from(!filled)] && !(filled && harmless);
                for (name, from, to) in [("few", 0, 20), ("many", 20, 2_000)] {
                    let mut wanted = request("public.t", "id", &[files.write(name, documents(from..to).text)]);
                    let mode: Mode = mode.parse().unwrap();
                    wanted.mode = mode.with_tombstone(deletes.then(|| "op=d".parse().unwrap()));
                    (wanted.adopt, wanted.rejects_max, wanted.lanes) = (true, 1_000, Some(1));
                    let receipt = run(&db.url(), &wanted).await.receipt;
                    let refused = (from..to).filter(|n| is_concerned(*n)).count() as u64;
                    assert_eq!(receipt.counters.rejected, refused, "{case} {name}: {receipt:?}");
                }
                let expected: BTreeMap<_, _> = documents(0..2_000)
                    .last
                    .into_iter()
                    .filter(|(_, n)| filled || !is_concerned(*n))
                    .map(|(id, n)| match (filled, mode) {
                        (true, "keep") => (id, -1),
                        (true, _) if is_concerned(n) => (id, -1),
                        (true, "sum:value") => (id, n - 1),
                        _ => (id, n),
                    })
                    .collect();
                assert!(stored(&db, "public.t").await == expected, "{case}");
                execute(&db, "drop table public.t; drop function public.f()").await;
            }
        }
        let detail = "select detail from millstream.reject limit 1";
        let detail: String = db.client().await.query_one(detail, &[]).await.unwrap().get(0);
        assert!(detail.contains("trigger"), "{detail}");
    })
    .await;
}

/// What is older than the stored document is stale, although a trigger may drop rows, and a key may come often.
#[tokio::test]
async fn a_trigger_that_drops_nothing_changes_no_count() {
    each_build(async |db| {
        for mode in ["newest:value:bigint", "keep", "replace", "sum:value"] {
            let mut counted = Vec::new();
            for trigger in [false, true] {
                let files = Files::new();
                execute(&db, TABLE).await;
                let fill = "delete from public.t; insert into public.t select format('key-%s', lpad(n::text, 5, '0')), \
                            jsonb_build_object('value', case when n < 500 then 9000 else -1 end) \
                            from generate_series(0, 599) n";
                execute(&db, fill).await;
                if trigger {
                    db.client().await.batch_execute(&trigger_function("return new;")).await.unwrap();
                    execute(&db, BEFORE).await;
                }
                let mut wanted = request("public.t", "id", &[files.write("once", documents(0..1_100).text)]);
                wanted.mode = mode.parse().unwrap();
                (wanted.adopt, wanted.lanes, wanted.batch_rows) = (true, Some(1), 1_500);
                let counters = run(&db.url(), &wanted).await.receipt.counters;
                // How many of a key are superseded depends on the batches that they are in.
                let often = documents(0..500).text + &documents(1_000..1_200).text;
                wanted.sources = request("public.t", "id", &[files.write("often", often.repeat(3))]).sources;
                assert_eq!(run(&db.url(), &wanted).await.receipt.counters.rejected, 0, "{mode}");
                counted.push((counters, stored(&db, "public.t").await));
                execute(&db, "drop table public.t; drop function if exists public.f()").await;
            }
            assert_eq!(counted[0].0, counted[1].0, "{mode}");
            assert!(counted[0].1 == counted[1].1, "{mode}: the same rows");
        }
    })
    .await;
}

/// A row that a trigger keeps from being deleted makes its tombstone a reject.
#[tokio::test]
async fn a_row_that_is_not_deleted_is_a_reject() {
    each_build(async |db| {
        for mode in ["replace", "newest:value:bigint"] {
            let files = Files::new();
            execute(&db, TABLE).await;
            let mut wanted = request("public.t", "id", &[files.write("d", documents(0..500).text)]);
            wanted.mode = mode.parse::<Mode>().unwrap().with_tombstone(Some("op=d".parse().unwrap()));
            (wanted.adopt, wanted.rejects_max, wanted.lanes) = (true, 1_000, Some(1));
            run(&db.url(), &wanted).await;
            let body = "if old.id like '%7' then return null; end if; return old;";
            db.client().await.batch_execute(&trigger_function(body)).await.unwrap();
            execute(&db, "create trigger t_t before delete on public.t for each row execute function public.f()").await;
            // Deletes of rows that are there, and of others.
            let tombstones: String =
                (0..1_000).map(|n| format!("{{\"id\": \"key-{n:05}\", \"value\": 2000, \"op\": \"d\"}}\n")).collect();
            wanted.sources = request("public.t", "id", &[files.write("gone", tombstones)]).sources;
            let receipt = run(&db.url(), &wanted).await.receipt;
            assert_eq!((receipt.counters.rejected, receipt.counters.deleted), (50, 450), "{mode}: {receipt:?}");
            let left = stored(&db, "public.t").await;
            assert!(
                left.keys().all(|id| id.ends_with('7') || id == "key-99999") && left.len() == 51,
                "{mode}: {left:?}"
            );
            execute(&db, "drop table public.t; drop function public.f()").await;
        }
    })
    .await;
}

/// A partitioned table with the documents of an unfinished load.
async fn partitioned(db: &TestDatabase, files: &Files, mode: &str) -> LoadRequest {
    execute(
        db,
        "create table public.t (id text collate \"C\" primary key, doc jsonb not null) partition by range (id); \
         create table public.t_low partition of public.t for values from (minvalue) to ('key-00200'); \
         create table public.t_high partition of public.t for values from ('key-00200') to (maxvalue)",
    )
    .await;
    let text = documents(0..400).text + "{\n" + &documents(400..500).text;
    let mut wanted = request("public.t", "id", &[files.write("d", text)]);
    wanted.mode = mode.parse().expect("a mode");
    (wanted.adopt, wanted.rejects_max, wanted.lanes, wanted.batch_rows) = (true, 1, Some(1), 100);
    assert_eq!(run(&db.url(), &wanted).await.stopped, Some(StopReason::Rejects));
    wanted.rejects_max = 10;
    wanted
}

fn all() -> BTreeMap<String, i64> {
    documents(0..500).last
}

#[tokio::test]
async fn truncated_partitions_are_noticed_before_a_load_resumes() {
    each_build(async |db| {
        for emptying in ["truncate public.t", "truncate public.t_low", "truncate public.t_high"] {
            let files = Files::new();
            let wanted = partitioned(&db, &files, "replace").await;
            execute(&db, emptying).await;
            let (_, warnings) = run_and_listen(&db, &wanted).await;
            assert!(warnings.contains("starts over"), "{emptying}: {warnings}");
            assert!(stored(&db, "public.t").await == all(), "{emptying}");
            execute(&db, "drop table public.t").await;
        }
        for harmless in [
            "vacuum full public.t",
            "alter table public.t detach partition public.t_low; \
             alter table public.t attach partition public.t_low for values from (minvalue) to ('key-00200')",
        ] {
            let files = Files::new();
            let wanted = partitioned(&db, &files, "sum:value").await;
            execute(&db, harmless).await;
            let (outcome, warnings) = run_and_listen(&db, &wanted).await;
            assert!(outcome.receipt.resumed_from.is_some(), "{harmless}: {warnings}");
            assert!(stored(&db, "public.t").await == all(), "{harmless}");
            execute(&db, "drop table public.t").await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_sum_cannot_be_resumed_without_one_of_its_partitions() {
    each_build(async |db| {
        let files = Files::new();
        let mut wanted = partitioned(&db, &files, "sum:value").await;
        execute(&db, "truncate public.t_low").await;
        for _ in 0..2 {
            let error = Box::pin(load(&wanted, &surroundings(&db.url()).0)).await.expect_err("it is refused");
            assert!(
                matches!(&error, Error::PartitionEmptied { partition, .. } if partition == "public.t_low"),
                "{error}"
            );
            // Other loads may go on, and do not hide it.
            let other = request("public.t", "id", &[files.write("other", documents(600..610).text)]);
            run(&db.url(), &other).await;
        }
        execute(&db, "truncate public.t").await;
        let (_, warnings) = run_and_listen(&db, &wanted).await;
        assert!(stored(&db, "public.t").await == all(), "{warnings}");
        wanted.resume = true;
        assert!(run(&db.url(), &wanted).await.recalled);
        execute(&db, "truncate public.t_high").await;
        let other = request("public.t", "id", &[files.write("last", documents(700..710).text)]);
        let (_, warnings) = run_and_listen(&db, &other).await;
        assert!(warnings.contains("what load 1 added up there is missing"), "{warnings}");
    })
    .await;
}

#[tokio::test]
async fn a_running_load_notices_a_truncated_partition() {
    each_build(async |db| {
        for (mode, emptying) in [
            ("replace", "truncate public.t_low"),
            ("replace", "truncate public.t"),
            ("sum:value", "truncate public.t_low"),
        ] {
            let files = Files::new();
            partitioned(&db, &files, mode).await;
            execute(&db, "truncate public.t").await;
            let first = documents(150..300);
            let running = halfway(&db, &files, &first.text, |request| request.mode = mode.parse().unwrap()).await;
            execute(&db, emptying).await;
            // The new documents go into the partition that was truncated.
            let error = running.end(&documents(0..100).text).await.expect_err("a pipe cannot be read again");
            let partition = matches!(error, Error::PartitionEmptied { .. });
            assert_eq!(partition, mode != "replace", "{mode} {emptying}: {error}");
            let low = db.client().await.query_one("select count(*) from public.t where id < 'key-00100'", &[]).await;
            assert_eq!(low.unwrap().get::<_, i64>(0), 0, "{mode} {emptying}");
            execute(&db, "drop table public.t").await;
        }
    })
    .await;
}

/// What is in other partitions stays, and so does what is recorded of it.
#[tokio::test]
async fn a_truncated_partition_takes_nothing_from_the_others() {
    each_build(async |db| {
        let (files, others) = (Files::new(), Files::new());
        let added = partitioned(&db, &files, "sum:value").await;
        run(&db.url(), &added).await;
        let replacing = halfway(&db, &others, &documents(600..700).text, |_| {}).await;
        let adding = halfway(&db, &files, &documents(150..300).text, |request| {
            (request.mode, request.source_name) = ("sum:value".parse().unwrap(), Some("adding".into()));
        })
        .await;
        execute(&db, "truncate public.t_low").await;
        let error = replacing.end(&documents(0..10).text).await.expect_err("a pipe cannot be read again");
        assert!(error.to_string().contains("partition public.t_low"), "{error}");
        assert!(run(&db.url(), &added).await.recalled, "nothing is added again");
        // The partition has rows again, and the load that adds up still learns which one it was.
        run(&db.url(), &request("public.t", "id", &[files.write("again", documents(0..10).text)])).await;
        let error = adding.end(&documents(300..310).text).await.expect_err("a part of what it added up is gone");
        assert!(matches!(&error, Error::PartitionEmptied { partition, .. } if partition == "public.t_low"), "{error}");
    })
    .await;
}

/// After the last batch nothing is written, so only the end of the run can notice.
#[tokio::test]
async fn a_truncate_behind_the_last_batch_is_noticed() {
    each_build(async |db| {
        let files = Files::new();
        let running = halfway(&db, &files, &documents(0..500).text, |_| {}).await;
        execute(&db, "truncate public.t").await;
        let error = running.end("").await.expect_err("its documents are gone");
        assert!(matches!(error, Error::Emptied { .. }), "{error}");
        let state = schema().sql("select state, read from {schema}.load");
        let row = db.client().await.query_one(&state, &[]).await.unwrap();
        assert_eq!((row.get::<_, &str>(0), row.get::<_, i64>(1)), ("stopped", 0));
    })
    .await;
}

/// Two loads run. The first that writes after the TRUNCATE fills the table again; the other still learns of it.
#[tokio::test]
async fn every_running_load_learns_of_a_truncate() {
    each_build(async |db| {
        let (files, others) = (Files::new(), Files::new());
        let first =
            halfway(&db, &files, &documents(0..500).text, |request| request.source_name = Some("a".into())).await;
        let other =
            halfway(&db, &others, &documents(500..900).text, |request| request.source_name = Some("b".into())).await;
        execute(&db, "truncate public.t").await;
        let error = first.end(&documents(900..950).text).await.expect_err("a pipe cannot be read again");
        assert!(matches!(error, Error::Emptied { .. }), "{error}");
        let again = request("public.t", "id", &[files.write("again", documents(0..100).text)]);
        run(&db.url(), &again).await;
        let error = other.end(&documents(950..999).text).await.expect_err("its documents are gone too");
        assert!(matches!(error, Error::Emptied { .. }), "{error}");
        assert!(stored(&db, "public.t").await == documents(0..100).last);
    })
    .await;
}

/// A run is killed, and another load finds out about the TRUNCATE before the server has noticed the kill.
#[tokio::test]
async fn a_load_that_seemed_at_work_still_starts_over() {
    each_build(async |db| {
        let files = Files::new();
        let text = documents(0..400).text + "{\n" + &documents(400..900).text;
        let mut wanted = request("public.t", "id:text", &[files.write("whole", text)]);
        wanted.rejects_max = 1;
        assert_eq!(run(&db.url(), &wanted).await.stopped, Some(StopReason::Rejects));
        // As it is while a run is at work.
        let client = db.client().await;
        let (first, second) = millstream_store::load_lock_keys(&schema(), 1);
        client.execute("select pg_advisory_lock($1, $2)", &[&first, &second]).await.unwrap();
        execute(&db, "truncate public.t").await;
        let other = request("public.t", "id:text", &[files.write("other", documents(2_000..2_010).text)]);
        run(&db.url(), &other).await;
        client.execute("select pg_advisory_unlock($1, $2)", &[&first, &second]).await.unwrap();
        wanted.rejects_max = 10;
        assert!(run(&db.url(), &wanted).await.receipt.resumed_from.is_none());
        let mut expected = documents(0..900).last;
        expected.extend(documents(2_000..2_010).last);
        assert!(stored(&db, "public.t").await == expected);
    })
    .await;
}
