//! Loads with `--check`: which documents they reject, which constraints the table keeps, and which documents pass.

use crate::scene::{Events, Files, request, run, surroundings};
use fastrand::Rng;
use millstream_engine::{Error, Event, LoadRequest, Mode, SkipUnchanged, dry_run, load};
use millstream_pg::Explained;
use millstream_testkit::{Cases, TestDatabase, each_build};
use std::collections::BTreeSet;
use std::fmt::Write;
use tokio_postgres::Client;

fn checking(table: &str, file: String, checks: &[&str]) -> LoadRequest {
    let mut wanted = request(table, "id:text", &[file]);
    wanted.checks = checks.iter().map(|check| (*check).to_owned()).collect();
    (wanted.lanes, wanted.resume) = (Some(2), false);
    wanted
}

/// Name, expression and whether it is validated, of each CHECK constraint of a table.
async fn constraints(client: &Client, table: &str) -> Vec<(String, String, bool)> {
    let sql = "select conname::text, pg_get_expr(conbin, conrelid), convalidated from pg_constraint \
               where conrelid = $1::text::regclass and contype = 'c' order by 1";
    let rows = client.query(sql, &[&table]).await.expect("the table is there");
    rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()
}

/// Lines of the documents that a load rejected, with reason and detail.
async fn rejects(client: &Client, load_id: i64) -> Vec<(i64, String, String)> {
    let sql = "select line, reason, detail from millstream.reject where load_id = $1 order by 1";
    let rows = client.query(sql, &[&load_id]).await.expect("the rejects can be read");
    rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()
}

fn warnings(events: &Events) -> Vec<String> {
    let events = events.0.lock().expect("no test panics while it holds this");
    let warning = |event: &Event| if let Event::Warning(text) = event { Some(text.clone()) } else { None };
    events.iter().filter_map(warning).collect()
}

async fn refused(url: &str, wanted: &LoadRequest) -> Error {
    Box::pin(load(wanted, &surroundings(url).0)).await.expect_err("the load does not begin")
}

#[tokio::test]
async fn a_table_made_with_checks_keeps_them() {
    each_build(async |db| {
        let (client, files) = (db.client().await, Files::new());
        let text =
            "{\"id\":\"00aa\",\"n\":1}\n{\"id\":\"00AA\",\"n\":1}\n{\"id\":\"00ab\",\"n\":-1}\n{\"id\":\"00ac\"}\n";
        let file = files.write("a", text);
        let checks = ["id ~ '^[0-9a-f]{4}$' -- hexadecimal", "(doc ->> 'n')::integer > 0", "id ~  '^[0-9a-f]{4}$'"];
        let wanted = checking("public.kept", file.clone(), &checks);
        let receipt = run(&db.url(), &wanted).await.receipt;
        // A null result passes: the last document has no n.
        assert_eq!((receipt.counters.inserted, receipt.counters.rejected), (2, 2), "{receipt:?}");
        let made = constraints(&client, "public.kept").await;
        let of = |name: &str, expression: &str| (name.to_owned(), expression.to_owned(), true);
        let (number, letters) = ("(((doc ->> 'n'::text))::integer > 0)", "(id ~ '^[0-9a-f]{4}$'::text)");
        assert_eq!(made, [of("kept_doc_check", number), of("kept_id_check", letters)]);
        let expected = [
            (2, "breaks_check".to_owned(), format!("check kept_id_check: {letters}")),
            (3, "breaks_check".to_owned(), format!("check kept_doc_check: {number}")),
        ];
        assert_eq!(rejects(&client, receipt.load_id).await, expected);

        // The next load is checked in the same way, with or without `--check`, and no constraint is added.
        for checks in [&checks[..1], &[]] {
            let receipt = run(&db.url(), &checking("public.kept", file.clone(), checks)).await.receipt;
            assert_eq!(receipt.counters.rejected, 2, "{receipt:?}");
            assert_eq!(rejects(&client, receipt.load_id).await, expected);
            assert_eq!(constraints(&client, "public.kept").await, made);
        }
    })
    .await;
}

#[tokio::test]
async fn stored_documents_that_break_a_new_check_are_counted_and_stay() {
    each_build(async |db| {
        let (client, files) = (db.client().await, Files::new());
        let first = "{\"id\":\"a\",\"n\":1}\n{\"id\":\"b\",\"n\":0}\n{\"id\":\"c\",\"n\":0}\n{\"id\":\"d\"}\n";
        run(&db.url(), &checking("public.stays", files.write("first", first), &[])).await;
        let file = files.write("a", "{\"id\":\"e\",\"n\":0}\n{\"id\":\"f\",\"n\":1}\n");
        let wanted = checking("public.stays", file, &["(doc -> 'n')::integer <> 0"]);
        let expression = "(((doc -> 'n'::text))::integer <> 0)";
        for again in [false, true] {
            let (around, events) = surroundings(&db.url());
            let counters = Box::pin(load(&wanted, &around)).await.expect("the load begins").receipt.counters;
            assert_eq!((counters.rejected, counters.inserted), (1, u64::from(!again)), "{counters:?}");
            let made = constraints(&client, "public.stays").await;
            assert_eq!(made, [("stays_doc_check".to_owned(), expression.to_owned(), false)]);
            let warned = warnings(&events);
            let see = warned[0].split("see them with: ").nth(1).and_then(|rest| rest.split("; once mended: ").next());
            assert!(warned[0].contains(&format!("check stays_doc_check: {expression}: 2; they stay")), "{warned:?}");
            assert_eq!(client.query(see.expect("it says how"), &[]).await.expect("it is SQL").len(), 2, "{warned:?}");
        }
        client.batch_execute("delete from public.stays where doc ->> 'n' = '0'").await.unwrap();
        let (around, events) = surroundings(&db.url());
        Box::pin(load(&wanted, &around)).await.expect("the load begins");
        assert!(warnings(&events).is_empty());
        assert!(constraints(&client, "public.stays").await[0].2, "a later load has found them mended");
    })
    .await;
}

#[tokio::test]
async fn a_warning_says_if_stored_documents_could_not_be_checked() {
    each_build(async |db| {
        let files = Files::new();
        run(&db.url(), &checking("public.odd", files.write("first", "{\"id\":\"a\",\"n\":\"x\"}\n"), &[])).await;
        let file =
            files.write("a", "{\"id\":\"b\",\"n\":\"y\"}\n{\"id\":\"c\",\"n\":\"1\"}\n{\"id\":\"d\",\"n\":\"0\"}\n");
        let wanted = checking("public.odd", file, &["(doc ->> 'n')::integer <> 0"]);
        let (around, events) = surroundings(&db.url());
        let receipt = Box::pin(load(&wanted, &around)).await.expect("the load begins").receipt;
        assert_eq!((receipt.counters.inserted, receipt.counters.rejected), (1, 2));
        let warned = warnings(&events);
        assert!(warned[0].starts_with("stored documents were not tried against check odd_doc_check"), "{warned:?}");
        let reasons = rejects(&db.client().await, receipt.load_id).await;
        let reasons: BTreeSet<&str> = reasons.iter().map(|reject| &*reject.1).collect();
        assert_eq!(reasons, BTreeSet::from(["breaks_check", "refused_by_server"]), "a cast that fails is not a check");
    })
    .await;
}

#[tokio::test]
async fn stored_documents_with_two_faults_do_not_block_a_load() {
    each_build(async |db| {
        let files = Files::new();
        // The first breaks the check. The expression fails for the second, so counting meets the error.
        let first = files.write("first", "{\"id\":\"a\",\"n\":0}\n{\"id\":\"b\",\"n\":\"x\"}\n");
        let mut stored = checking("public.both", first, &[]);
        stored.lanes = Some(1);
        run(&db.url(), &stored).await;
        let wanted =
            checking("public.both", files.write("a", "{\"id\":\"c\",\"n\":1}\n"), &["(doc ->> 'n')::integer <> 0"]);
        for _ in 0..2 {
            let (around, events) = surroundings(&db.url());
            Box::pin(load(&wanted, &around)).await.expect("the load begins");
            let warned = warnings(&events);
            assert!(warned[0].contains("number unknown (invalid input syntax"), "{warned:?}");
        }
    })
    .await;
}

/// Texts that are not a check, with a part of the error.
const WRONG: &[(&str, &str)] = &[
    ("", "syntax error"),
    ("id ~", "syntax error"),
    ("id = 'a", "unterminated"),
    ("id = 'a' /*", "unterminated"),
    ("nothing = 1", "column \"nothing\" does not exist"),
    ("doc", "must be type boolean"),
    ("exists (select from victim)", "cannot use subquery"),
    ("count(*) > 1", "aggregate functions are not allowed"),
    ("id = $1", "there is no parameter $1"),
    ("id", "must be type boolean"),
    // Texts that are more than one expression.
    ("true, false", "syntax error"),
    ("true) as a, (true", "more than one expression"),
    ("true); drop table victim; --", "syntax error"),
    ("true) from victim; drop table victim; select (true", "cannot insert multiple commands"),
    ("true) union select (true", "syntax error"),
    ("true) into stolen from (select 1) as x where (true", "syntax error"),
    ("true), drop column doc, add check (true", "syntax error"),
    ("true) not valid, add check (true", "syntax error"),
    ("true) no inherit --", "syntax error"),
];

#[tokio::test]
async fn an_invalid_check_changes_nothing() {
    each_build(async |db| {
        let (client, files) = (db.client().await, Files::new());
        client.batch_execute("create table public.victim (id integer)").await.unwrap();
        run(&db.url(), &checking("public.there", files.write("first", "{\"id\":\"a\"}\n"), &[])).await;
        let before = columns(&client).await;
        for (check, said) in WRONG {
            for table in ["public.there", "public.absent"] {
                let mut wanted = checking(table, files.write("a", "{\"id\":\"b\"}\n"), &["true", check]);
                let error = refused(&db.url(), &wanted).await;
                assert!(error.to_string().contains(said) && error.hint().is_some(), "{check}: {error}");
                let dry = dry_run(&wanted, &surroundings(&db.url()).0.db).await.expect_err("it is the same");
                assert_eq!(dry.to_string(), error.to_string());
                wanted.checks.clear();
            }
            assert_eq!(columns(&client).await, before, "{check}");
        }
        assert!(constraints(&client, "public.there").await.is_empty());
    })
    .await;
}

/// Columns of all tables.
async fn columns(client: &Client) -> Vec<(String, String)> {
    let sql = "select table_name::text, column_name::text from information_schema.columns \
               where table_schema not in ('pg_catalog', 'information_schema', 'millstream') order by 1, 2";
    let rows = client.query(sql, &[]).await.expect("it answers");
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

#[tokio::test]
async fn a_check_keeps_its_meaning_with_odd_column_names() {
    each_build(async |db| {
        let (client, files) = (db.client().await, Files::new());
        for (n, check) in [
            "\"Odd Name\".\"I\" in ('a', 'b')",
            "(doc ->> 'kind')::varchar(9) in ('x', 'y') is true or \"I\"::char(1) between 'a' and 'b'",
            "case when doc ? 'n' then doc -> 'n' < '1' else \"I\" < 'c' end",
            "\"I\" similar to '(a|b)' and not doc @> '{\"I\":\"c\"}' is true",
        ]
        .into_iter()
        .enumerate()
        {
            let file = files.write("a", "{\"I\":\"a\"}\n{\"I\":\"c\"}\n{\"I\":\"b\"}\n");
            let mut wanted = request(&format!("s{n}.Odd Name"), "I:text", &[file]);
            wanted.checks = vec![check.into()];
            client.batch_execute(&format!("create schema s{n}")).await.unwrap();
            let receipt = run(&db.url(), &wanted).await.receipt;
            assert_eq!((receipt.counters.inserted, receipt.counters.rejected), (2, 1), "{check}");
            wanted.resume = false;
            run(&db.url(), &wanted).await;
            assert_eq!(constraints(&client, &format!("s{n}.\"Odd Name\"")).await.len(), 1, "{check}");
        }
    })
    .await;
}

/// Documents of few keys, and the result of upserting them one by one.
#[tokio::test]
async fn loads_refuse_what_single_upserts_refuse() {
    each_build(async |db| {
        let client = db.client().await;
        for mut rng in Cases::new(3) {
            for (mode, merged) in MODES {
                Box::pin(as_single_upserts(&db, &client, &mut rng, mode, merged)).await;
            }
        }
    })
    .await;
}

/// Modes, each with the SQL for what becomes of a stored document.
const MODES: &[(&str, &str)] = &[
    ("replace", "excluded.doc"),
    ("merge", "stored.doc || excluded.doc"),
    ("sum:n", "excluded.doc || jsonb_build_object('n', (stored.doc -> 'n')::integer + (excluded.doc -> 'n')::integer)"),
];

async fn as_single_upserts(db: &TestDatabase, client: &Client, rng: &mut Rng, mode: &str, merged: &str) {
    let n = rng.u32(..);
    let (loaded, single) = (format!("public.loaded_{n}"), format!("public.single_{n}"));
    // The second checks what a document does to a stored one. The third checks something that is not in the patch.
    let checks = ["doc ->> 'bad' is distinct from '1'", "(doc -> 'n')::integer < 9", "doc ? 'kind'"];
    let list: Vec<String> = checks.iter().map(|check| format!("check ({check})")).collect();
    let made = format!("create table {single} (id text primary key, doc jsonb not null, {})", list.join(", "));
    client.batch_execute(&made).await.expect("the server makes the table");
    let upsert = format!(
        "insert into {single} as stored values ($1::text::jsonb ->> 'id', $1::text::jsonb)
         on conflict (id) do update set doc = {merged}"
    );
    let keys = [5, 200, 5_000][rng.usize(..3)];
    for _ in 0..rng.usize(1..4) {
        let (mut text, mut bad, files) = (String::new(), Vec::new(), Files::new());
        for line in 1..=rng.i64(1..600) {
            let (id, number) = (rng.u32(..keys), rng.u8(..5));
            let member = if rng.u8(..10) == 0 { ",\"bad\":1" } else { "" };
            let kind = if rng.u8(..20) == 0 { "" } else { ",\"kind\":true" };
            let document = format!("{{\"id\":\"{id}\",\"n\":{number}{member}{kind}}}");
            if client.execute(&upsert, &[&document]).await.is_err() {
                bad.push(line);
            }
            writeln!(text, "{document}").expect("a text grows");
        }
        let mut wanted = checking(&loaded, files.write("a", &text), &checks);
        wanted.mode = mode.parse::<Mode>().expect("a mode");
        wanted.batch_rows = [7, 100, 100_000][rng.usize(..3)];
        wanted.arrays_rows_max = [0, 10, 500][rng.usize(..3)];
        wanted.skip_unchanged = [SkipUnchanged::Auto, SkipUnchanged::Off][rng.usize(..2)];
        let receipt = run(&db.url(), &wanted).await.receipt;
        let rejects = rejects(client, receipt.load_id).await;
        assert!(rejects.iter().all(|reject| reject.1 == "breaks_check"), "{rejects:?}");
        let lines: Vec<i64> = rejects.iter().map(|reject| reject.0).collect();
        // In mode replace, a document is not checked if a later one of its batch replaces it.
        match mode {
            "replace" => assert!(lines.iter().all(|line| bad.contains(line)), "{mode} {lines:?} {bad:?}"),
            _ => assert_eq!(lines, bad, "{mode} {receipt:?}\n{text}"),
        }
        let differing =
            format!("select count(*) from {loaded} full join {single} s using (id, doc) where s.id is null");
        let same: i64 = client.query_one(&differing, &[]).await.expect("it answers").get(0);
        let more = format!("select (select count(*) from {loaded}) - (select count(*) from {single})");
        let more: i64 = client.query_one(&more, &[]).await.expect("it answers").get(0);
        assert_eq!((same, more), (0, 0), "{mode} {receipt:?}\n{text}");
    }
}

#[tokio::test]
async fn unchanged_documents_are_skipped_beside_refused_ones() {
    each_build(async |db| {
        let (client, files) = (db.client().await, Files::new());
        let mut text = String::new();
        for n in 0..3_000 {
            writeln!(text, "{{\"id\":\"{n:04}\",\"n\":1}}").unwrap();
        }
        let checks = ["doc -> 'n' <> '0'"];
        let mut wanted = checking("public.alone", files.write("a", &text), &checks);
        (wanted.batch_rows, wanted.skip_unchanged) = (1_000, SkipUnchanged::On);
        run(&db.url(), &wanted).await;
        let versions = "select sum(xmin::text::bigint)::bigint from public.alone where id < '2000'";
        let before: i64 = client.query_one(versions, &[]).await.unwrap().get(0);
        // Some documents are refused, some come several times, some change stored ones, some are new.
        text.push_str(&text.clone().replace("\"n\":1", "\"n\":1.00"));
        for n in (0..3_500).step_by(7) {
            let value = if n < 2_000 { "0" } else { "2" };
            writeln!(text, "{{\"id\":\"{n:04}x\",\"n\":0}}\n{{\"id\":\"{n:04}\",\"n\":{value}}}").unwrap();
        }
        wanted.sources = vec![files.write("b", &text)];
        wanted.batch_rows = 100_000;
        let receipt = run(&db.url(), &wanted).await.receipt;
        let (new, changed) = (3_000..3_500, 2_000..3_000);
        let every_seventh = |range: std::ops::Range<u64>| range.filter(|n| n % 7 == 0).count() as u64;
        let counters = receipt.counters;
        assert_eq!((counters.inserted, counters.updated), (every_seventh(new), every_seventh(changed)), "{receipt:?}");
        assert_eq!(counters.rejected, 500 + every_seventh(0..2_000), "{receipt:?}");
        let after: i64 = client.query_one(versions, &[]).await.unwrap().get(0);
        assert!(receipt.writers.contains_key("replay") && before == after, "{receipt:?}");
    })
    .await;
}

#[tokio::test]
async fn a_reload_with_refusals_skips_unchanged_documents() {
    each_build(async |db| {
        let (client, files) = (db.client().await, Files::new());
        let mut text = String::new();
        for n in 0..3_000 {
            let value = u32::from(n % 100 > 0);
            writeln!(text, "{{\"id\":\"{n:04}\",\"n\":{value}}}").unwrap();
        }
        let mut wanted = checking("public.reloaded", files.write("a", &text), &["doc -> 'n' <> '0'"]);
        // Some 200 documents in a batch.
        (wanted.lanes, wanted.chunk_bytes, wanted.batch_rows, wanted.arrays_rows_max) = (Some(1), 2_000, 200, 0);
        run(&db.url(), &wanted).await;
        let versions = "select sum(xmin::text::bigint)::bigint from public.reloaded";
        let before: i64 = client.query_one(versions, &[]).await.unwrap().get(0);
        for skip_unchanged in [SkipUnchanged::Auto, SkipUnchanged::On] {
            wanted.skip_unchanged = skip_unchanged;
            let receipt = run(&db.url(), &wanted).await.receipt;
            assert_eq!((receipt.counters.unchanged, receipt.counters.rejected), (2_970, 30), "{receipt:?}");
            assert!(receipt.writers["replay"] > 10, "{receipt:?}");
            let after: i64 = client.query_one(versions, &[]).await.unwrap().get(0);
            assert_eq!(before, after, "{receipt:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn concurrent_loads_add_the_same_check_once() {
    each_build(async |db| {
        let (client, files) = (db.client().await, Files::new());
        run(&db.url(), &checking("public.once", files.write("first", "{\"id\":\"a\"}\n"), &[])).await;
        let of =
            |name: &str| checking("public.once", files.write(name, format!("{{\"id\":\"{name}\"}}\n")), &["id < 'x'"]);
        let (url, wanted) = (db.url(), ["b", "c", "d", "e"].map(of));
        futures_util::future::join_all(wanted.iter().map(|wanted| Box::pin(run(&url, wanted)))).await;
        assert_eq!(constraints(&client, "public.once").await.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn adding_a_check_without_owning_the_table_names_the_owner() {
    each_build(async |db| {
        let (client, files) = (db.client().await, Files::new());
        let file = files.write("a", "{\"id\":\"a\"}\n");
        let mut wanted = checking("public.Owned", file, &["id < 'x'"]);
        run(&db.url(), &LoadRequest { checks: Vec::new(), ..wanted.clone() }).await;
        let role = format!("guest_{}", fastrand::u32(..));
        client
            .batch_execute(&format!(
                "create role {role} login password 'x' in role millstream; alter role {role} noinherit;
                 create role {role}_owner; alter table public.\"Owned\" owner to {role}_owner;
                 grant all on public.\"Owned\" to {role}; grant all on schema millstream to {role};
                 grant all on all tables in schema millstream to {role}; grant all on all sequences in schema millstream to {role};
                 grant all on database {} to {role}",
                db.name
            ))
            .await
            .unwrap();
        let url = format!("postgres://{role}:x@127.0.0.1:{}/{}", db.server.port(), db.name);
        wanted.adopt = true;
        let error = refused(&url, &wanted).await;
        assert!(error.to_string().contains("only its owner may add a check"), "{error}");
        let hint = error.hint().unwrap();
        let (whom, statement) = hint.split_once(" to: ").unwrap();
        assert_eq!(whom, format!("ask {role}_owner"));
        client.batch_execute(statement).await.unwrap();
        assert_eq!(constraints(&client, "public.\"Owned\"").await.len(), 1);
    })
    .await;
}

#[tokio::test]
async fn a_document_that_breaks_a_check_is_rejected_in_keep_and_newest() {
    each_build(async |db| {
        let client = db.client().await;
        let files = Files::new();
        let lines = |version: u32, kind: &str| -> String {
            (0..600).map(|n| format!("{{\"id\":\"k{n:03}\",\"n\":{version}{kind}}}\n")).collect()
        };
        let (good, bad) = (files.write("good", lines(2, ",\"kind\":1")), files.write("bad", lines(1, "")));
        for (n, mode) in ["keep", "newest:n:bigint"].iter().enumerate() {
            for arrays_rows_max in [0, 1_000] {
                let table = format!("public.kept_{n}_{arrays_rows_max}");
                let mut wanted = checking(&table, good.clone(), &["doc ? 'kind'"]);
                wanted.mode = mode.parse().unwrap();
                wanted.arrays_rows_max = arrays_rows_max;
                run(&db.url(), &wanted).await;
                wanted.sources = vec![bad.clone()];
                let receipt = run(&db.url(), &wanted).await.receipt;
                assert_eq!(receipt.counters.rejected, 600, "{mode} {receipt:?}");
                assert_eq!(rejects(&client, receipt.load_id).await.len(), 600);
            }
        }
    })
    .await;
}
