//! Tables and partitions that had no row get another file: nothing of a load can be gone from them.

use crate::emptied::{documents, execute, halfway, run_and_listen};
use crate::scene::{Files, request, run, schema, stored};
use millstream_engine::{Error, LoadRequest, Mode, StopReason};
use millstream_testkit::{TestDatabase, each_build, until};

/// What gives an empty table another file.
const REWRITES: [&str; 4] = [
    "vacuum full public.t",
    "truncate public.t",
    "cluster public.t using t_pkey",
    "vacuum full public.t; truncate public.t",
];

/// A table whose second partition takes the keys from `key-90000` on.
const PARTED: &str = "create table public.t (id text collate \"C\" primary key, doc jsonb not null) partition by range (id); \
     create table public.t_low partition of public.t for values from (minvalue) to ('key-90000'); \
     create table public.t_high partition of public.t for values from ('key-90000') to (maxvalue)";

async fn until_begun(db: &TestDatabase) {
    let (client, schema) = (db.client().await, schema());
    let tables =
        "select exists (select from pg_class where relname = 'load' and relnamespace::regnamespace::text = $1)";
    let begun = schema.sql("select exists (select from {schema}.load where state = 'running')");
    until("a load begins", async || {
        client.query_one(tables, &[&schema.name()]).await.expect("the catalog can be read").get::<_, bool>(0)
            && client.query_one(&begun, &[]).await.expect("loads can be listed").get(0)
    })
    .await;
}

/// Documents that one load adds up, in the table with two partitions.
fn adding(files: &Files, name: &str, text: &str) -> LoadRequest {
    let mut wanted = request("public.t", "id", &[files.write(name, text)]);
    (wanted.mode, wanted.adopt) = ("sum:value".parse().expect("a mode"), true);
    wanted
}

#[tokio::test]
async fn an_empty_table_may_get_another_file_while_a_load_waits() {
    each_build(async |db| {
        for rewrite in REWRITES {
            let files = Files::new();
            let waiting = halfway(&db, &files, "", |_| {}).await;
            until_begun(&db).await;
            execute(&db, rewrite).await;
            let outcome = waiting.end(&documents(0..500).text).await.expect("there is a receipt");
            assert!(outcome.error.is_none() && outcome.receipt.finished, "{rewrite}: {outcome:?}");
            assert!(stored(&db, "public.t").await == documents(0..500).last, "{rewrite}");
            execute(&db, "drop table public.t").await;
        }
        // Rows that were deleted are as good as none.
        let files = Files::new();
        run(&db.url(), &request("public.t", "id:text", &[files.write("a", documents(0..10).text)])).await;
        execute(&db, "delete from public.t").await;
        let waiting = halfway(&db, &files, "", |_| {}).await;
        until_begun(&db).await;
        execute(&db, "vacuum full public.t").await;
        let outcome = waiting.end(&documents(0..500).text).await.expect("there is a receipt");
        assert!(outcome.error.is_none() && outcome.receipt.finished, "{outcome:?}");
    })
    .await;
}

#[tokio::test]
async fn an_empty_partition_may_get_another_file_while_a_load_runs() {
    each_build(async |db| {
        for mode in ["replace", "sum:value"] {
            for rewrite in
                ["vacuum full public.t", "truncate public.t_high", "vacuum full public.t_high; analyze public.t"]
            {
                let files = Files::new();
                execute(&db, PARTED).await;
                let running = halfway(&db, &files, &documents(0..500).text, |request| {
                    (request.adopt, request.mode) = (true, mode.parse().expect("a mode"));
                })
                .await;
                execute(&db, rewrite).await;
                let both = documents(500..600).text + &documents(90_000..90_100).text;
                let outcome = running.end(&both).await.expect("there is a receipt");
                assert!(outcome.error.is_none() && outcome.receipt.finished, "{mode} {rewrite}: {outcome:?}");
                let mut all = documents(0..600).last;
                all.extend(documents(90_000..90_100).last);
                assert!(stored(&db, "public.t").await == all, "{mode} {rewrite}");
                execute(&db, "drop table public.t").await;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn an_empty_partition_may_get_another_file_before_a_load_resumes() {
    each_build(async |db| {
        let files = Files::new();
        execute(&db, PARTED).await;
        let text = documents(0..400).text + "{\n" + &documents(400..500).text;
        let mut wanted = adding(&files, "a", &text);
        (wanted.rejects_max, wanted.lanes, wanted.batch_rows) = (1, Some(1), 100);
        assert_eq!(run(&db.url(), &wanted).await.stopped, Some(StopReason::Rejects));
        execute(&db, "vacuum full public.t").await;
        wanted.rejects_max = 10;
        let (outcome, warnings) = run_and_listen(&db, &wanted).await;
        assert!(outcome.receipt.resumed_from.is_some() && !warnings.contains("truncated:"), "{warnings}");
        assert!(stored(&db, "public.t").await == documents(0..500).last);

        // An update of stored keys locks all partitions, and writes into one.
        for (name, more) in [("b", documents(600..700)), ("c", documents(0..500)), ("d", documents(700..800))] {
            execute(&db, "vacuum full public.t").await;
            let (_, warnings) = run_and_listen(&db, &adding(&files, name, &more.text)).await;
            assert!(!warnings.contains("is missing"), "{name}: {warnings}");
        }
        assert!(run(&db.url(), &wanted).await.recalled, "nothing is added again");
    })
    .await;
}

/// A partition that a load has filled is not unfilled, even if the server has counted its rows since.
#[tokio::test]
async fn a_partition_that_was_filled_and_truncated_is_missed() {
    each_build(async |db| {
        let files = Files::new();
        execute(&db, PARTED).await;
        run(&db.url(), &adding(&files, "low", &documents(0..100).text)).await;
        run(&db.url(), &adding(&files, "high", &documents(90_000..90_100).text)).await;
        execute(&db, "truncate public.t_high; analyze public.t_high").await;
        let (_, warnings) = run_and_listen(&db, &adding(&files, "more", &documents(100..200).text)).await;
        assert!(warnings.contains("is missing"), "{warnings}");

        let running = halfway(&db, &files, &documents(90_000..90_050).text, |request| request.adopt = true).await;
        execute(&db, "truncate public.t_high; vacuum analyze public.t_high").await;
        let error = running.end(&documents(90_050..90_100).text).await.expect_err("a pipe cannot be read again");
        assert!(matches!(error, Error::Emptied { .. }), "{error}");
    })
    .await;
}

/// What gives a table another file.
const OTHER_FILES: [&str; 4] = [
    "vacuum full public.t",
    "cluster public.t using t_pkey",
    "alter table public.t set unlogged; alter table public.t set logged",
    "truncate public.t",
];

fn deleting(mode: &str) -> Mode {
    let mode: Mode = mode.parse().expect("a mode");
    mode.with_tombstone(Some("op=d".parse().expect("a path and a value")))
}

/// Documents that delete these keys. Their versions are later than those of the documents.
fn deletes(keys: std::ops::Range<i64>) -> String {
    keys.map(|n| format!("{{\"id\":\"key-{n:05}\",\"value\":{},\"op\":\"d\"}}\n", n + 1)).collect()
}

/// Waits until a table is recorded as one without rows.
async fn until_unfilled(db: &TestDatabase, table: &str) {
    let client = db.client().await;
    let sql = schema().sql(
        "select exists (select from {schema}.collection \
                        where files || ' ' like '% unfilled:' || ($1::text)::regclass::oid || ' %')",
    );
    until(&format!("{table} is recorded as empty"), async || {
        client.query_one(&sql, &[&table]).await.expect("the record can be read").get(0)
    })
    .await;
}

#[tokio::test]
async fn a_table_that_a_load_has_emptied_may_get_another_file() {
    each_build(async |db| {
        for mode in ["replace", "sum:value", "newest:value:bigint"] {
            for rewrite in OTHER_FILES {
                let files = Files::new();
                let running =
                    halfway(&db, &files, &documents(0..500).text, |request| request.mode = deleting(mode)).await;
                running.sends(&deletes(0..500)).await;
                until_unfilled(&db, "public.t").await;
                // What deletes nothing leaves the table as empty as it was.
                running.sends(&deletes(400..600)).await;
                until_unfilled(&db, "public.t").await;
                execute(&db, rewrite).await;
                running.sends(&documents(600..700).text).await;
                let outcome = running.end(&documents(700..800).text).await.expect("there is a receipt");
                assert!(outcome.error.is_none() && outcome.receipt.finished, "{mode} {rewrite}: {outcome:?}");
                assert!(stored(&db, "public.t").await == documents(600..800).last, "{mode} {rewrite}");
                execute(&db, "drop table public.t").await;
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_partition_that_a_load_has_emptied_may_get_another_file() {
    each_build(async |db| {
        for rewrite in ["vacuum full public.t", "vacuum full public.t_high", "cluster public.t_high using t_high_pkey"]
        {
            let files = Files::new();
            execute(&db, PARTED).await;
            let both = documents(0..500).text + &documents(90_000..90_100).text;
            let running = halfway(&db, &files, &both, |request| {
                (request.adopt, request.mode) = (true, deleting("sum:value"));
            })
            .await;
            running.sends(&deletes(90_000..90_100)).await;
            until_unfilled(&db, "public.t_high").await;
            execute(&db, rewrite).await;
            let outcome = running.end(&documents(90_050..90_060).text).await.expect("there is a receipt");
            assert!(outcome.error.is_none() && outcome.receipt.finished, "{rewrite}: {outcome:?}");
            let mut all = documents(0..500).last;
            all.extend(documents(90_050..90_060).last);
            assert!(stored(&db, "public.t").await == all, "{rewrite}");
            execute(&db, "drop table public.t").await;
        }
    })
    .await;
}

/// Rows that are left, or came afterwards, are missed, however few they are.
#[tokio::test]
async fn a_truncate_is_noticed_although_the_load_deletes() {
    each_build(async |db| {
        for emptying in
            ["truncate public.t", "truncate public.t; analyze public.t", "truncate public.t; vacuum full public.t"]
        {
            for refilled in [false, true] {
                let files = Files::new();
                let running =
                    halfway(&db, &files, &documents(0..500).text, |request| request.mode = deleting("replace")).await;
                if refilled {
                    running.sends(&deletes(0..500)).await;
                    until_unfilled(&db, "public.t").await;
                    running.sends(&documents(700..701).text).await;
                } else {
                    running.sends(&deletes(0..499)).await;
                }
                execute(&db, emptying).await;
                let error = running.end(&documents(800..900).text).await.expect_err("a pipe cannot be read again");
                assert!(matches!(error, Error::Emptied { .. }), "{emptying} {refilled}: {error}");
                execute(&db, "drop table public.t").await;
            }
        }
    })
    .await;
}

/// Two loads run. What one of them records of the emptied table holds for the other, but hides no TRUNCATE from it.
#[tokio::test]
async fn a_load_learns_of_a_truncate_although_another_has_emptied_the_table_since() {
    each_build(async |db| {
        for truncates in [false, true] {
            let (files, others) = (Files::new(), Files::new());
            let waiting =
                halfway(&db, &files, &documents(0..500).text, |request| request.source_name = Some("a".into())).await;
            if truncates {
                execute(&db, "truncate public.t").await;
            }
            // It finds the TRUNCATE as it begins.
            let emptying = halfway(&db, &others, &documents(500..600).text, |request| {
                (request.mode, request.source_name) = (deleting("replace"), Some("b".into()));
            })
            .await;
            emptying.sends(&deletes(0..600)).await;
            until_unfilled(&db, "public.t").await;
            execute(&db, "vacuum full public.t").await;
            let ended = waiting.end(&documents(600..700).text).await;
            if truncates {
                let error = ended.expect_err("its documents are gone");
                assert!(matches!(error, Error::Emptied { .. }), "{error}");
            } else {
                let outcome = ended.expect("there is a receipt");
                assert!(outcome.error.is_none() && outcome.receipt.finished, "{outcome:?}");
            }
            let outcome = emptying.end(&documents(700..710).text).await.expect("there is a receipt");
            assert!(outcome.error.is_none() && outcome.receipt.finished, "{outcome:?}");
            execute(&db, "drop table public.t").await;
        }
    })
    .await;
}
