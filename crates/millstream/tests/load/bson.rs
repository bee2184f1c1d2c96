//! Dumps of MongoDB: loads of BSON and of Extended JSON keep every promise of a load of the text that they stand for.

use crate::made_text::{FIRST, MadeText, ROWS as MANY};
use crate::process::{Run, command, killed, millstream, run};
use millstream_testkit::{TestDatabase, each_build, gzip, skip};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Three documents, one of them with a NaN; one whose parts do not fit its length, and one behind it.
const ROWS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/bson/rows");
const MALFORMED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/corpus/bson/lying_string");

/// A dump of so many documents, whose first has this name.
fn dump(documents: i64, first: &str) -> Vec<u8> {
    let document = |n: i64| {
        let name = if n == 0 { first.to_owned() } else { format!("row {} {}", n % 97, "x".repeat(40)) };
        let length = i32::try_from(name.len() + 1).unwrap();
        let id = [&b"\x12_id\0"[..], &n.to_le_bytes()].concat();
        let name = [&b"\x02name\0"[..], &length.to_le_bytes(), name.as_bytes(), b"\0"].concat();
        let members = [id, name].concat();
        let length = i32::try_from(members.len() + 5).unwrap();
        [&length.to_le_bytes()[..], &members, b"\0"].concat()
    };
    (0..documents).flat_map(document).collect()
}

fn load(url: &str, file: &str, table: &str, more: &[&str]) -> Run {
    let into = ["load", file, "--into", table, "--db", url, "--progress", "none", "--output", "json"];
    millstream(&[&into[..], more].concat())
}

fn verify(url: &str, file: &str, table: &str, more: &[&str]) {
    millstream(&[&["verify", file, "--into", table, "--exact", "--db", url][..], more].concat()).ends(0);
}

/// How many rows of two tables differ.
async fn differing(db: &TestDatabase, one: &str, other: &str) -> i64 {
    let differs = format!(
        "select count(*) from {one} full join {other} using (_id, doc) where {one}.doc is null or {other}.doc is null"
    );
    db.client().await.query_one(&differs, &[]).await.unwrap().get(0)
}

fn written(folder: &Path, name: &str, content: &[u8]) -> String {
    let path = folder.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_dump_loads_as_the_text_it_stands_for() {
    each_build(async |db| {
        let (folder, client, url) = (tempfile::tempdir().unwrap(), db.client().await, db.url());
        let text = millstream(&["cat", ROWS]).ends(0).stdout;
        let text = written(folder.path(), "rows.ndjson", text.as_bytes());
        let of_text = load(&url, &text, "of_text", &["--key", "_id"]).ends(0).json();
        let content = std::fs::read(ROWS).unwrap();
        let plain = written(folder.path(), "shop/rows.bson", &content);
        written(folder.path(), "shop/rows.metadata.json", b"{\"indexes\":[]}");
        written(folder.path(), "shop/prelude.json", b"{}");
        let packed = written(folder.path(), "packed/rows.bson.gz", &gzip(&content));
        written(folder.path(), "packed/rows.metadata.json.gz", &gzip(b"{}"));
        let whole = folder.path().join("shop").to_str().unwrap().to_owned();
        let pattern = format!("{}/packed/*", folder.path().display());
        for (n, file) in [&plain, &packed, &whole, &pattern].into_iter().enumerate() {
            let table = format!("of_dump_{n}");
            let receipt = load(&url, file, &table, &[]).ends(0).json();
            for member in ["read", "inserted", "rejected", "bytes_read"] {
                assert_eq!(receipt[member], of_text[member], "{member} of {file}");
            }
            assert_eq!(receipt["stages"][0]["documents"]["null"], 1, "{receipt}");
            assert_eq!(differing(&db, &table, "of_text").await, 0, "{file}");
            verify(&url, file, &table, &[]);
            let recorded = "select format from millstream.load order by load_id desc limit 1";
            let recorded: String = client.query_one(recorded, &[]).await.unwrap().get(0);
            assert_eq!(recorded, "auto;made=bson/1");
        }
        let named = load(&url, ROWS, "named", &["--format", "bson", "--nan", "string"]).ends(0).json();
        assert_eq!((&named["read"], &named["stages"]), (&3.into(), &serde_json::Value::Null), "{named}");
        let rejected = load(&url, &plain, "strict", &["--nan", "reject", "--resume", "off"]).ends(1).json();
        assert_eq!((&rejected["rejected"], &rejected["inserted"]), (&1.into(), &2.into()));
        let (reader, mut writer) = std::io::pipe().unwrap();
        // A pipe holds more than this file.
        std::io::Write::write_all(&mut writer, &content).unwrap();
        drop(writer);
        let args = ["load", "-", "--format", "bson", "--into", "piped", "--db", &url, "--progress", "none"];
        run(command(&args).stdin(reader)).ends(0);
        assert_eq!(differing(&db, "piped", "of_text").await, 0);
        let empty = written(folder.path(), "empty.bson", b"");
        for more in [&["--key", "_id:text"][..], &["--format", "bson", "--key", "_id:text"]] {
            assert_eq!(load(&url, &empty, "nothing", more).ends(0).json()["read"], 0);
        }
    })
    .await;
}

#[tokio::test]
async fn a_malformed_document_is_a_reject_and_a_dump_that_is_cut_is_damaged() {
    each_build(async |db| {
        let (folder, url) = (tempfile::tempdir().unwrap(), db.url());
        let receipt = load(&url, MALFORMED, "lying", &["--key", "_id"]).ends(1).json();
        assert_eq!((&receipt["read"], &receipt["inserted"], &receipt["rejected"]), (&2.into(), &1.into(), &1.into()));
        let rejects = millstream(&["rejects", "lying", "--db", &url, "--output", "json"]).ends(0);
        let says = "a value goes beyond the end of its document (byte ";
        assert!(rejects.stdout.contains("not_bson") && rejects.stdout.contains(says), "{rejects:?}");
        // The bytes of the document are there.
        let bytes = std::fs::read(MALFORMED).unwrap();
        let first = &bytes[..usize::from(bytes[0])];
        let first = written(folder.path(), "first", first);
        let base64 = run(Command::new("base64").args(["-w0", &first])).ends(0);
        assert!(rejects.stdout.contains(&base64.stdout), "{rejects:?}");
        let content = dump(100, "row 0");
        for (name, content) in [
            ("cut.bson", content[..content.len() - 3].to_vec()),
            ("cut.bson.gz", gzip(&content[..content.len() - 3])),
            ("long.bson", [&content[..], b"\xff\xff\xff\x7f"].concat()),
        ] {
            let file = written(folder.path(), name, &content);
            let table = name.replace('.', "_");
            let ended = load(&url, &file, &table, &[]).ends(2);
            assert!(ended.stderr.contains("the source is damaged: "), "{name}: {ended:?}");
            let place = if name.starts_with("cut") { "it ends within the document" } else { "stands no length of one" };
            assert!(ended.stderr.contains(place) && ended.stderr.contains("byte "), "{name}: {ended:?}");
            let read = if name.starts_with("cut") { 99 } else { 100 };
            let count = format!("select count(*) from {table}");
            let rows: i64 = db.client().await.query_one(&count, &[]).await.unwrap().get(0);
            assert_eq!(rows, read, "{name}: what stands before the damage is loaded");
        }
    })
    .await;
}

#[tokio::test]
async fn a_dump_that_is_cut_or_empty_deletes_nothing_and_a_whole_one_what_it_lacks() {
    each_build(async |db| {
        let (folder, url) = (tempfile::tempdir().unwrap(), db.url());
        let rows =
            async || -> i64 { db.client().await.query_one("select count(*) from kept", &[]).await.unwrap().get(0) };
        let before = written(folder.path(), "before.bson", &dump(100, "row 0"));
        load(&url, &before, "kept", &[]).ends(0);
        let most = dump(95, "row 0");
        let packed = gzip(&most);
        for (name, content, says) in [
            ("cut.bson", most[..most.len() - 3].to_vec(), "it ends within the document"),
            ("cut.bson.gz", gzip(&most[..most.len() - 3]), "it ends within the document"),
            ("torn.bson.gz", packed[..packed.len() - 9].to_vec(), "the source is damaged"),
            ("empty.bson", Vec::new(), "the sources have no document"),
        ] {
            let file = written(folder.path(), name, &content);
            let ended = load(&url, &file, "kept", &["--delete-missing"]).ends(2);
            assert!(ended.stderr.contains(says), "{name}: {ended:?}");
            assert_eq!(rows().await, 100, "{name}");
        }
        let whole = written(folder.path(), "whole.bson", &most);
        assert_eq!(load(&url, &whole, "kept", &["--delete-missing"]).ends(0).json()["deleted_missing"], 5);
        assert_eq!(rows().await, 95);
    })
    .await;
}

#[tokio::test]
async fn a_killed_load_of_a_dump_resumes_and_a_changed_file_is_refused() {
    each_build(async |db| {
        let folder = tempfile::tempdir().unwrap();
        let plain = written(folder.path(), "rows.bson", &dump(MANY, FIRST));
        let packed = written(folder.path(), "rows.bson.gz", &gzip(&dump(MANY, FIRST)));
        let write = |rows: i64, first: &str| {
            written(folder.path(), "rows.bson", &dump(rows, first));
        };
        MadeText { format: "bson", key: &[], file: &plain, packed: Some(&packed), write: &write }.prove(&db).await;
    })
    .await;
}

#[tokio::test]
async fn extended_json_is_converted_and_rejects_have_the_bytes_of_the_file() {
    each_build(async |db| {
        let (folder, client, url) = (tempfile::tempdir().unwrap(), db.client().await, db.url());
        let malformed = r#"{"_id": {"$oid": "507f1f77bcf86cd799439013"}, "at": {"$date": "yesterday"}}"#;
        let lines = [
            r#"{"_id":{"$oid":"507f1f77bcf86cd799439011"},"at":{"$date":"2024-01-02T03:04:05.006Z"},"n":{"$numberLong":"5"}}"#,
            r#"{"_id":{"$oid":"507f1f77bcf86cd799439012"},"n":{"$numberDouble":"NaN"}}"#,
            malformed,
            r#"{"_id":"plain"}"#,
        ];
        let file = written(folder.path(), "export.json", lines.join("\n").as_bytes());
        let extended = ["--extended-json"];
        let receipt = load(&url, &file, "exported", &extended).ends(1).json();
        let stage = &receipt["stages"][0];
        assert_eq!(stage["name"], "extended JSON", "{receipt}");
        for outcome in ["converted", "null", "plain", "malformed"] {
            assert_eq!(stage["documents"][outcome], 1, "{outcome}: {receipt}");
        }
        let rows = client.query("select _id, doc::text from exported order by _id", &[]).await.unwrap();
        let rows: Vec<(String, String)> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        assert_eq!(rows[0].0, "507f1f77bcf86cd799439011");
        assert!(rows[0].1.contains("\"at\": \"2024-01-02T03:04:05.006000Z\"") && rows[0].1.contains("\"n\": 5"), "{rows:?}");
        assert!(rows[1].1.contains("\"n\": null") && rows.len() == 3, "{rows:?}");
        let rejects = millstream(&["rejects", "exported", "--db", &url, "--output", "json"]).ends(0).stdout;
        assert!(rejects.contains("$date is neither") && rejects.contains("not_bson"), "{rejects}");
        assert!(rejects.contains(&malformed.replace('"', "\\\"")) || rejects.contains(malformed), "{rejects}");
        verify(&url, &file, "exported", &extended);
        let words = load(&url, &file, "words", &["--extended-json", "--nan", "string"]).ends(1).json();
        assert_eq!((&words["stages"][0]["documents"]["null"], &words["inserted"]), (&0.into(), &3.into()), "{words}");
        // Without the option nothing is converted, and no load resumes as the other.
        let plain = load(&url, &file, "unconverted", &["--key", "_id:text"]).json();
        assert!(plain["stages"].is_null(), "{plain}");
        let many: String =
            (0..20_000).map(|n| format!("{{\"_id\":{{\"$oid\":\"{n:024x}\"}},\"n\":{{\"$numberInt\":\"{n}\"}}}}\n")).collect();
        let file = written(folder.path(), "many.json", many.as_bytes());
        let args = ["load", &file, "--into", "many", "--db", &url, "--batch-rows", "300", "--extended-json"];
        killed(&mut command(&args), "batch-committed=kill@2");
        let refused = load(&url, &file, "many", &["--key", "_id:text"]).ends(2);
        assert!(refused.stderr.contains("with other enrichments"), "{refused:?}");
        assert_eq!(load(&url, &file, "many", &extended).ends(0).json()["read"], 20_000);
        verify(&url, &file, "many", &extended);
    })
    .await;
}

#[tokio::test]
async fn dumps_of_several_collections_that_are_named_are_loaded_with_a_warning() {
    each_build(async |db| {
        let (folder, url) = (tempfile::tempdir().unwrap(), db.url());
        for name in ["shop/orders.bson", "shop/users.bson", "old/orders.bson"] {
            written(folder.path(), name, &dump(3, "row 0"));
        }
        let pattern = |names: &str| format!("{}/{names}", folder.path().display());
        let mixed = load(&url, &pattern("shop/*.bson"), "mixed", &[]).ends(0);
        assert!(mixed.stderr.contains("several collections go into one table: orders, users."), "{mixed:?}");
        let one = load(&url, &pattern("*/orders.bson"), "orders", &[]).ends(0);
        assert!(!one.stderr.contains("several collections"), "{one:?}");
    })
    .await;
}

#[test]
fn several_collections_in_a_folder_and_a_missing_key_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["dump/shop/orders.bson", "dump/shop/users.bson.gz"] {
        written(folder.path(), name, b"");
    }
    // Nobody asks a server.
    let url = "postgres://127.0.0.1:1/none";
    let refused = load(url, folder.path().to_str().unwrap(), "t", &[]).ends(2);
    assert!(refused.stderr.contains("holds the dumps of 2 collections"), "{refused:?}");
    assert!(refused.stderr.contains("load each into its own table: "), "{refused:?}");
    let refused = load(url, tempfile::tempdir().unwrap().path().to_str().unwrap(), "t", &[]).ends(2);
    assert!(refused.stderr.contains("is a directory, and holds no dump of mongodump"), "{refused:?}");
    let text = written(folder.path(), "a.ndjson", b"{\"_id\":1}\n");
    let refused = load(url, &text, "t", &[]).ends(2);
    assert!(refused.stderr.contains("--key is missing"), "{refused:?}");
    let archive = written(folder.path(), "all.archive", b"\x6d\xe2\x99\x81rest");
    let refused = millstream(&["cat", &archive]).ends(2);
    assert!(refused.stderr.contains("is a mongodump --archive file"), "{refused:?}");
    assert!(refused.stderr.contains("mongodump --out FOLDER"), "{refused:?}");
}

/// Documents of all types that Python has, written by MongoDB's own package in all of its forms, and what they should become.
const ORACLE: &str = include_str!("bson_oracle.py");

/// The files that the oracle wrote. `None`: there is no such package, and the test is skipped aloud.
fn oracle(folder: &Path) -> Option<PathBuf> {
    let has = Command::new("python3").args(["-c", "import bson.json_util"]).output();
    if !has.is_ok_and(|ended| ended.status.success()) {
        skip("it needs python3 with pymongo");
        return None;
    }
    let path = folder.join("documents");
    run(Command::new("python3").args(["-c", ORACLE]).arg(&path)).ends(0);
    Some(path)
}

#[tokio::test]
async fn documents_of_all_types_are_as_pymongo_has_them() {
    each_build(async |db| {
        let (folder, url) = (tempfile::tempdir().unwrap(), db.url());
        let Some(path) = oracle(folder.path()) else { return };
        let file = |end: &str| format!("{}{end}", path.display());
        let expected = std::fs::read_to_string(file(".expected")).unwrap();
        let text = millstream(&["cat", &file(".bson")]).ends(0).stdout;
        assert_eq!(text.lines().count(), expected.lines().count());
        for (line, expected) in text.lines().zip(expected.lines()) {
            let [mut got, mut expected] = [line, expected].map(|text| {
                serde_json::from_str::<serde_json::Value>(text).unwrap_or_else(|error| panic!("{error}: {text}"))
            });
            // A decimal keeps its digits, which a value of JSON would not compare.
            let decimal = expected["dec"].as_str().unwrap();
            assert!(line.contains(&format!("\"dec\":{decimal},")), "{decimal} in {line}");
            (got["dec"], expected["dec"]) = (serde_json::Value::Null, serde_json::Value::Null);
            assert_eq!(got, expected);
        }
        load(&url, &file(".bson"), "of_bson", &[]).ends(0);
        for form in ["canonical", "relaxed", "legacy"] {
            let exported = file(&format!(".{form}.json"));
            load(&url, &exported, form, &["--extended-json"]).ends(0);
            assert_eq!(differing(&db, "of_bson", form).await, 0, "{form}");
            verify(&url, &exported, form, &["--extended-json"]);
        }
    })
    .await;
}
