//! Collections whose documents leave out the members of the key: whatever is loaded comes back as it was.

use crate::scene::{
    Files, adopting, appending, collection, compacted, equal, execute, request, run, stopped, surroundings, waiting,
};
use fastrand::Rng;
use millstream_engine::{AskedColumns, DeleteMissing, Error, LoadRequest, SkipUnchanged, dry_run, load};
use millstream_model::{Counters, DocumentForm, KeyRequest};
use millstream_pg::{Explained, quote_identifier};
use millstream_store::documents::document;
use millstream_store::{Schema, whole_document};
use millstream_testkit::{Cases, TestDatabase, each_build};
use std::fmt::Write;

/// Keys with what each leaves out of documents whose values are spelled as PostgreSQL spells them.
const KEYS: &[(&str, &[&str])] = &[
    ("id:text", &["id"]),
    ("id:varchar", &["id"]),
    ("name=id:text", &["id"]),
    ("n:bigint", &["n"]),
    ("n:integer,id:text", &["n", "id"]),
    ("u:uuid,b:boolean", &["u", "b"]),
    ("d:date,n:smallint", &["d", "n"]),
    ("id:text,inner=o.id:text", &["id"]),
    ("n:numeric,id:text", &["id"]),
    ("t:timestamptz,u:uuid", &["u"]),
    ("id:text,again=id:text", &["id"]),
];

/// Values of the members that keys take, by their names. The first one is spelled as PostgreSQL spells it, and equals no
/// other one. Some are refused for some types.
const VALUES: &[(&str, &[&str])] = &[
    ("id", &["\"a\"", "\"é\\n\"", "\"1\"", "\"\\u0061\"", "1", "1.0", "true", "\"\""]),
    ("n", &["-7", "1", "0", "\"1\"", "1e0", "-0", "7.0"]),
    (
        "u",
        &[
            "\"6f1c0e0a-7d3b-4a52-9f0e-3c1f5f0b9a11\"",
            "\"6F1C0E0A-7D3B-4A52-9F0E-3C1F5F0B9A11\"",
            "\"6f1c0e0a7d3b4a529f0e3c1f5f0b9a11\"",
        ],
    ),
    ("b", &["true", "false", "\"true\"", "1"]),
    ("d", &["\"2024-03-01\"", "\"2024-02-29\"", "\"2024-02-2\\u0039\""]),
    ("t", &["\"2024-02-29T12:00:00Z\"", "\"2024-02-29T14:00:00+02:00\""]),
    ("o", &["{\"id\":\"a\"}", "{\"id\":\"b\",\"id\":\"a\"}", "{\"id\":1}"]),
];

/// A document with all members that keys take, in any order, some of them twice.
fn document_text(rng: &mut Rng) -> String {
    let mut members: Vec<String> = Vec::new();
    for (name, values) in VALUES {
        let times = if rng.u8(..8) == 0 { 2 } else { 1 };
        for _ in 0..times {
            let escaped = format!("\\u{:04x}{}", name.as_bytes()[0], &name[1..]);
            let spelled = if rng.u8(..20) == 0 { escaped.as_str() } else { *name };
            members.push(format!("\"{spelled}\": {}", rng.choice(*values).expect("some")));
        }
    }
    members.push(format!("\"v\":{}", rng.u8(..3)));
    rng.shuffle(&mut members);
    format!("{{{}}}", members.join(","))
}

fn documents(rng: &mut Rng, count: usize) -> String {
    (0..count).fold(String::new(), |mut text, _| {
        writeln!(text, "{}", document_text(rng)).expect("a text grows");
        text
    })
}

/// Rows of `whole` whose key or document `short` lacks, and the other way round. `short` must store what its rows do not
/// have otherwise.
async fn differences(db: &TestDatabase, whole: &str, short: &str) -> i64 {
    let client = db.client().await;
    let found = collection(&client, short).await;
    let key: Vec<String> = found.key.iter().map(|column| quote_identifier(&column.name)).collect();
    let (key, document) = (key.join(", "), whole_document(found.doc, &found.key, "t"));
    let (whole, short) =
        (format!("select {key}, doc from {whole}"), format!("select {key}, {document} from {short} t"));
    let sql = format!(
        "select (select count(*) from ({whole} except all {short}) d) + (select count(*) from ({short} except all {whole}) d)"
    );
    client.query_one(&sql, &[]).await.expect("the server answers").get(0)
}

async fn number(db: &TestDatabase, sql: &str) -> i64 {
    db.client().await.query_one(sql, &[]).await.expect("the server answers").get(0)
}

/// A load with its documents stored whole, and one without their key.
fn both(wanted: &LoadRequest, whole: &str, short: &str) -> [LoadRequest; 2] {
    [(whole, DocumentForm::Whole), (short, DocumentForm::WithoutKey)].map(|(into, form)| {
        let mut load = wanted.clone();
        (load.collection, load.doc) = (into.parse().expect("a name"), Some(form));
        load
    })
}

/// Documents read and rejected, and rows that a load added. What it counts besides depends on its batches.
fn counted(counters: Counters) -> (u64, u64, i128) {
    (counters.read, counters.rejected, i128::from(counters.inserted) - i128::from(counters.deleted))
}

#[tokio::test]
async fn every_way_of_writing_stores_documents_that_come_back_as_they_were() {
    each_build(async |db| {
        for mut rng in Cases::new(1) {
            for (n, (key, left_out)) in KEYS.iter().enumerate() {
                let stamp = rng.u32(..);
                let (whole, short) = (format!("public.whole_{n}_{stamp}"), format!("public.short_{n}_{stamp}"));
                for (wave, mode) in ["replace", "replace", "merge", "keep", "merge:deep"].iter().enumerate() {
                    let files = Files::new();
                    let mut wanted = request(&whole, key, &[files.write("a", documents(&mut rng, 60))]);
                    wanted.mode = mode.parse().expect("a mode");
                    if rng.bool() {
                        wanted.mode = wanted.mode.with_tombstone(Some("v=2".parse().expect("a path and a value")));
                    }
                    wanted.batch_rows = rng.choice([3, 30, 1_000]).expect("some");
                    wanted.arrays_rows_max = rng.choice([0, 10, 10_000]).expect("some");
                    if *mode == "replace" && rng.bool() {
                        wanted.skip_unchanged = SkipUnchanged::On;
                    }
                    wanted.lanes = Some(1);
                    let [first, second] = both(&wanted, &whole, &short);
                    let counters = run(&db.url(), &first).await.receipt.counters;
                    let said = format!("{key}, wave {wave}: {second:?}");
                    let again = run(&db.url(), &second).await.receipt.counters;
                    assert_eq!(counted(again), counted(counters), "{said}");
                    assert_eq!(differences(&db, &whole, &short).await, 0, "{said}");
                }
                let files = Files::new();
                let plain: Vec<String> = VALUES.iter().map(|(name, all)| format!("\"{name}\":{}", all[0])).collect();
                let wanted = request(&whole, key, &[files.write("plain", format!("{{{}}}\n", plain.join(",")))]);
                for load in both(&wanted, &whole, &short) {
                    assert_eq!(run(&db.url(), &load).await.receipt.counters.rejected, 0);
                }
                assert_eq!(differences(&db, &whole, &short).await, 0, "{key}");
                // What PostgreSQL would spell otherwise stays in the document, and nothing else.
                for (member, values) in VALUES.iter().filter(|(member, _)| left_out.contains(member)) {
                    let plain = values[0];
                    let cut = format!("select count(*) from {short} where doc->'{member}' = '{plain}'");
                    assert_eq!(number(&db, &cut).await, 0, "{key}: {member}");
                    let all = format!("select count(*) from {whole} where doc->'{member}' = '{plain}'");
                    assert!(number(&db, &all).await > 0, "{key}: {member} is never plain");
                }
            }
        }
    })
    .await;
}

#[tokio::test]
async fn segments_and_their_compaction_keep_it_and_verify_finds_every_document_equal() {
    each_build(async |db| {
        let (files, mut rng) = (Files::new(), Rng::new());
        for (wave, rows) in [20, 7].into_iter().enumerate() {
            let text = documents(&mut rng, 100) + "{\"id\":\"other\",\"n\":5}\n";
            let mut wanted = appending("whole", &[files.write(&format!("wave {wave}"), text)], rows);
            wanted.key = KeyRequest::parse_list("id:text").expect("a key");
            wanted.lanes = Some(1);
            let [first, second] = both(&wanted, "whole", "short");
            run(&db.url(), &first).await;
            run(&db.url(), &second).await;
            assert!(waiting(&db, "short").await > 0);
            // Its own sources, and nothing else is stored.
            let all = request("short", "id:text", &[files.write("all", everything(&files, wave))]);
            assert!(equal(&db, &all).await > 0, "before they are merged");
            for name in ["whole", "short"] {
                compacted(&db, name, 2).await.expect("they are merged");
            }
            assert_eq!(differences(&db, "public.whole", "public.short").await, 0);
            assert!(equal(&db, &all).await > 0, "after that");
        }
    })
    .await;
}

/// The texts of all waves so far.
fn everything(files: &Files, last: usize) -> String {
    let text = |wave| std::fs::read_to_string(files.path(&format!("wave {wave}"))).expect("it was written");
    (0..=last).map(text).collect()
}

#[tokio::test]
async fn rows_that_an_adopted_table_had_stay_and_missing_ones_are_deleted_by_key() {
    each_build(async |db| {
        let files = Files::new();
        execute(
            &db,
            "create table public.things (id text collate \"C\" primary key, doc jsonb not null);
             insert into public.things
             select 'k' || g, jsonb_build_object('id', 'k' || g, 'old', true) from generate_series(1, 100) g;
             insert into public.things values ('odd', '{\"id\": \"another\", \"old\": true}'), ('bare', '{}'),
                                             ('list', '[1]'), ('null', 'null')",
        )
        .await;
        let new = "{\"id\":\"k1\",\"new\":true}\n{\"id\":\"k2\",\"old\":true}\n";
        let mut wanted = adopting("things", "id", &files, new);
        wanted.doc = Some(DocumentForm::WithoutKey);
        let counters = run(&db.url(), &wanted).await.receipt.counters;
        assert_eq!(counters.read, 2, "{counters:?}");
        let stored = async |id: &str| {
            let (mut client, schema) = (db.client().await, Schema::new("millstream"));
            let found = collection(&client, "things").await;
            document(&mut client, &schema, &found, &[id.to_owned()])
                .await
                .expect("it can be read")
                .expect("it is there")
        };
        for (id, document) in [
            ("k1", "{\"id\": \"k1\", \"new\": true}"),
            ("k2", "{\"id\": \"k2\", \"old\": true}"),
            ("k3", "{\"id\": \"k3\", \"old\": true}"),
            // What a row says itself counts.
            ("odd", "{\"id\": \"another\", \"old\": true}"),
            ("bare", "{\"id\": \"bare\"}"),
            // What is no object has no members.
            ("list", "[1]"),
            ("null", "null"),
        ] {
            assert_eq!(stored(id).await, document);
        }
        // A dump that lacks three of the rows.
        let dump: String = (4..=100).map(|n| format!("{{\"id\":\"k{n}\",\"old\":true}}\n")).collect();
        let others: String =
            ["odd", "bare", "list", "null"].iter().map(|id| format!("{{\"id\":\"{id}\"}}\n")).collect();
        let mut wanted = request("things", "id", &[files.write("dump", dump + &others)]);
        wanted.delete_missing = Some(DeleteMissing::new(10.0, std::env::temp_dir()));
        assert_eq!(run(&db.url(), &wanted).await.receipt.deleted_missing, 3);
        wanted.delete_missing = None;
        assert_eq!(equal(&db, &wanted).await, 101);
        assert_eq!(number(&db, "select count(*) from public.things where doc ? 'id'").await, 0);
    })
    .await;
}

#[tokio::test]
async fn rejects_keep_the_source_and_a_stopped_load_resumes() {
    each_build(async |db| {
        let (files, mut rng) = (Files::new(), Rng::new());
        let bad = "{\"id\":\"bad\",\"n\":13}";
        let text: String = (0..500).map(|n| format!("{{\"id\":\"k{n}\",\"n\":{n}}}\n")).collect();
        let mut wanted = request("things", "id:text", &[files.write("a", format!("{text}{bad}\n"))]);
        (wanted.doc, wanted.batch_rows) = (Some(DocumentForm::WithoutKey), 50);
        wanted.checks = vec!["id <> 'bad'".to_owned()];
        let _ = stopped(&db.url(), &wanted, 501, &mut rng).await;
        let (around, events) = surroundings(&db.url());
        let outcome = Box::pin(load(&wanted, &around)).await.expect("it begins");
        assert_eq!((outcome.receipt.counters.read, outcome.receipt.counters.rejected), (501, 1), "{outcome:?}");
        assert!(events.warnings().contains("checks see doc as it is stored"), "{}", events.warnings());
        let client = db.client().await;
        let reject: String =
            client.query_one("select distinct document from millstream.reject", &[]).await.unwrap().get(0);
        assert_eq!(reject, bad, "as it was in the file");
        let lengths = "select pg_column_size(doc)::bigint from public.things where id = 'k123'";
        assert_eq!(number(&db, "select count(*) from public.things where doc ? 'id' or not doc ? 'n'").await, 0);
        assert!(number(&db, lengths).await < 40);
    })
    .await;
}

#[tokio::test]
async fn a_collection_remembers_it_and_refuses_what_does_not_fit() {
    each_build(async |db| {
        let files = Files::new();
        let wanted = |into: &str, key: &str| {
            let text = "{\"id\":\"a\",\"n\":1,\"o\":{\"id\":\"b\"}}\n";
            request(into, key, &[files.write(&fastrand::u64(..).to_string(), text)])
        };
        let refused = async |load_request: &LoadRequest| {
            let error = Box::pin(load(load_request, &surroundings(&db.url()).0)).await.expect_err("it does not fit");
            assert!(matches!(error, Error::Collection { .. }), "{error:?}");
            let foreseen = dry_run(load_request, &surroundings(&db.url()).0.db).await.expect_err("nor is it foreseen");
            assert_eq!(foreseen.to_string(), error.to_string());
            format!("{error}; {}", error.hint().expect("a way out"))
        };
        let mut short = wanted("short", "id:text");
        short.doc = Some(DocumentForm::WithoutKey);
        let dry = dry_run(&short, &surroundings(&db.url()).0.db).await.expect("it is foreseen");
        assert_eq!(dry.doc, DocumentForm::WithoutKey);
        assert!(dry.reasons[0].ends_with("left out of doc"), "{:?}", dry.reasons);
        run(&db.url(), &short).await;
        run(&db.url(), &wanted("whole", "id:text")).await;

        short.doc = Some(DocumentForm::Whole);
        let said = refused(&short).await;
        assert!(said.contains("stored without their key") && said.contains("leave out --doc"), "{said}");
        let mut whole = wanted("whole", "id:text");
        whole.doc = Some(DocumentForm::WithoutKey);
        let said = refused(&whole).await;
        assert!(said.contains("stored whole") && said.contains("load into another collection"), "{said}");
        short.doc = None;
        run(&db.url(), &short).await;
        assert_eq!(number(&db, "select count(*) from public.short where doc ? 'id'").await, 0, "it is remembered");
        assert_eq!(number(&db, "select count(*) from public.whole where doc ? 'id'").await, 1);

        let mut newest = wanted("short", "id:text");
        newest.mode = "newest:id:text".parse().unwrap();
        assert!(refused(&newest).await.contains("compares versions at id"));
        let mut typed = wanted("typed", "id:text");
        (typed.doc, typed.columns) =
            (Some(DocumentForm::WithoutKey), AskedColumns::Named(vec!["again:text=id".parse().unwrap()]));
        assert!(refused(&typed).await.contains("would always be null"));
        for key in ["n:numeric", "o.id:text"] {
            let mut nothing = wanted("nothing", key);
            nothing.doc = Some(DocumentForm::WithoutKey);
            assert!(refused(&nothing).await.contains("leaves nothing out"));
        }
        // Other typed columns fit.
        typed.columns = AskedColumns::Named(vec!["m:bigint=n".parse().unwrap()]);
        run(&db.url(), &typed).await;
        assert_eq!(number(&db, "select m from public.typed").await, 1);
        assert_eq!(equal(&db, &typed).await, 1);
    })
    .await;
}

/// The rows that are stored would come back without the member, or with another value of it.
#[tokio::test]
async fn a_load_is_refused_while_a_column_would_not_give_back_what_was_left_out() {
    each_build(async |db| {
        let files = Files::new();
        let mut wanted = request("both", "n:bigint,id:text", &[files.write("a", "{\"id\":\"a\",\"n\":1,\"v\":2}\n")]);
        wanted.doc = Some(DocumentForm::WithoutKey);
        run(&db.url(), &wanted).await;
        (wanted.doc, wanted.key, wanted.resume) = (None, KeyRequest::parse_list("n,id").expect("a key"), false);
        execute(&db, "alter table public.both alter column n type numeric").await;
        let error = Box::pin(load(&wanted, &surroundings(&db.url()).0)).await.expect_err("n would be lost");
        let said = format!("{error}; {}", error.hint().expect("a way out"));
        assert!(said.contains("stored without n, which the column n of type bigint gave back"), "{said}");
        let back = "alter table \"public\".\"both\" alter column \"n\" type bigint using \"n\"::bigint";
        assert!(said.contains(back), "{said}");
        execute(&db, back).await;
        run(&db.url(), &wanted).await;
        // It still gives back whole numbers.
        execute(&db, "alter table public.both alter column n type integer").await;
        run(&db.url(), &wanted).await;
        assert_eq!(equal(&db, &wanted).await, 1);
        assert_eq!(number(&db, "select count(*) from public.both where doc ? 'n'").await, 0);
    })
    .await;
}

#[tokio::test]
async fn a_trigger_that_changes_keys_is_warned_of() {
    each_build(async |db| {
        let function = "create function public.lower_id() returns trigger language plpgsql as
                        $$begin new.id := lower(new.id); return new; end$$";
        execute(&db, function).await;
        let files = Files::new();
        for (table, form) in [("whole", DocumentForm::Whole), ("short", DocumentForm::WithoutKey)] {
            let made = format!(
                "create table public.{table} (id text collate \"C\" primary key, doc jsonb not null);
                 create trigger lower_id before insert on public.{table} for each row execute function public.lower_id()"
            );
            execute(&db, &made).await;
            let mut wanted = adopting(table, "id", &files, "{\"id\":\"A\"}\n");
            wanted.doc = Some(form);
            let (around, events) = surroundings(&db.url());
            Box::pin(load(&wanted, &around)).await.expect("it begins");
            let warnings = events.warnings();
            assert_eq!(warnings.contains("with the key that is stored"), table == "short", "{warnings}");
        }
    })
    .await;
}
