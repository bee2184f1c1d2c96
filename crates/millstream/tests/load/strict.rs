//! Loads with `--strict` and `--max-rejects 0`.

use crate::process::{Run, millstream};
use millstream_testkit::{TestDatabase, each_build};
use std::fmt::Write;

/// Documents in a file: more than one chunk, and several batches.
const DOCUMENTS: usize = 40_000;

/// Documents with rising numbers, `bad` of them broken.
fn documents(bad: &[usize]) -> String {
    let mut text = String::new();
    for n in 0..DOCUMENTS {
        let comma = if bad.contains(&n) { "," } else { "" };
        writeln!(text, "{{\"id\":{n},\"note\":\"{}\"{comma}}}", "x".repeat(100)).unwrap();
    }
    text
}

async fn number(db: &TestDatabase, sql: &str) -> i64 {
    db.client().await.query_one(sql, &[]).await.unwrap().get(0)
}

fn load(db: &TestDatabase, file: &str, more: &[&str]) -> Run {
    let args = ["load", file, "--into", "public.t", "--key", "id:bigint", "--db", &db.url(), "--batch-rows", "1000"];
    millstream(&[&args[..], &["--progress", "none", "--output", "json"], more].concat())
}

#[tokio::test]
async fn max_rejects_0_commits_only_documents_before_the_first_bad_one() {
    each_build(async |db| {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.ndjson");
        let path = file.to_str().unwrap();
        std::fs::write(&file, documents(&[31_000, 31_005, 39_000])).unwrap();
        let run = load(&db, path, &["--max-rejects", "0", "--lanes", "4"]).ends(2);
        let error: serde_json::Value = serde_json::from_str(run.stderr.lines().last().unwrap()).unwrap();
        assert!(error["where"].as_str().unwrap().starts_with(&format!("{path}:31001 (byte ")), "{error}");
        let receipt = run.json();
        assert_eq!(
            (&receipt["rejected"], &receipt["finished"], &error["load_id"]),
            (&0.into(), &false.into(), &receipt["load_id"])
        );
        let stored = number(&db, "select count(*) from public.t").await;
        assert_eq!(receipt["inserted"], stored);
        assert_eq!(number(&db, "select coalesce(max(id) + 1, 0) from public.t").await, stored, "nothing is left out");
        assert!(stored > 0 && stored <= 31_000, "{stored}");
        assert_eq!(number(&db, "select count(*) from millstream.reject").await, 0);

        // After the file is mended, the load resumes.
        std::fs::write(&file, documents(&[]).replace("}\n{\"id\":31000", "} \n{\"id\":31000")).unwrap();
        let receipt = load(&db, path, &["--max-rejects", "0"]).ends(0).json();
        assert_eq!((&receipt["read"], &receipt["resumed_from"]), (&DOCUMENTS.into(), &stored.into()));
    })
    .await;
}

#[tokio::test]
async fn max_rejects_0_stops_before_a_document_the_server_refuses() {
    each_build(async |db| {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.ndjson");
        std::fs::write(&file, documents(&[])).unwrap();
        let more = ["--max-rejects", "0", "--check", "id not in (30000, 30010, 39999)"];
        let run = load(&db, file.to_str().unwrap(), &more).ends(2);
        let error: serde_json::Value = serde_json::from_str(run.stderr.lines().last().unwrap()).unwrap();
        assert!(error["where"].as_str().unwrap().contains(":30001 (byte "), "{error}");
        let stored = number(&db, "select count(*) from public.t").await;
        assert_eq!(number(&db, "select coalesce(max(id) + 1, 0) from public.t").await, stored);
        assert!(stored > 0 && stored <= 30_000, "{stored}");
        assert_eq!(number(&db, "select count(*) from millstream.reject").await, 0);
    })
    .await;
}

#[tokio::test]
async fn a_strict_load_writes_nothing_if_one_document_is_bad() {
    each_build(async |db| {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.ndjson");
        let path = file.to_str().unwrap();
        std::fs::write(&file, documents(&[39_999])).unwrap();
        let run = load(&db, path, &["--strict"]).ends(2);
        assert!(run.stderr.contains(&format!("{path}:40000: not_json: ")), "{}", run.stderr);
        assert!(run.stderr.contains("1 document of 40,000 cannot be stored; nothing was written"), "{}", run.stderr);
        assert_eq!(run.stdout, "");
        assert_eq!(number(&db, "select count(*) from pg_class where relname in ('t', 'load')").await, 0);
        let run = load(&db, "-", &["--strict"]).ends(2);
        assert!(
            run.stderr.contains("--strict reads everything twice, and a stream can be read only once"),
            "{}",
            run.stderr
        );
        std::fs::write(&file, documents(&[])).unwrap();
        let receipt = load(&db, path, &["--strict"]).ends(0).json();
        assert_eq!(receipt["inserted"], DOCUMENTS);
    })
    .await;
}
