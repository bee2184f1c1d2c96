//! Avro: loads of its files resume, report what is cut, and store what another program reads in them.

use crate::made_text::{FIRST, MadeText, ROWS};
use crate::process::{Run, millstream, run};
use millstream_testkit::avro::{block, header, number, sized};
use millstream_testkit::{TestDatabase, each_build, gzip, skip};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Records of a block.
const BLOCK: i64 = 500;

/// A file of so many records, whose first has this name.
fn file(records: i64, first: &str) -> Vec<u8> {
    let schema =
        r#"{"type":"record","name":"Row","fields":[{"name":"id","type":"long"},{"name":"name","type":"string"}]}"#;
    let mut content = header(schema, "");
    let record = |n: i64| {
        let name = if n == 0 { first.to_owned() } else { format!("row {} {}", n % 97, "x".repeat(40)) };
        [number(n), sized(name.as_bytes())].concat()
    };
    for from in (0..records).step_by(usize::try_from(BLOCK).unwrap()) {
        let to = records.min(from + BLOCK);
        let rows: Vec<u8> = (from..to).flat_map(record).collect();
        content.extend(block(to - from, &rows));
    }
    content
}

fn written(folder: &Path, name: &str, content: &[u8]) -> String {
    let path = folder.join(name);
    std::fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

fn load(url: &str, file: &str, table: &str, more: &[&str]) -> Run {
    let into = ["load", file, "--into", table, "--key", "id:bigint", "--db", url, "--progress", "none"];
    millstream(&[&into[..], &["--output", "json"], more].concat())
}

fn verify(url: &str, file: &str, table: &str) {
    millstream(&["verify", file, "--into", table, "--key", "id", "--exact", "--db", url]).ends(0);
}

async fn count(db: &TestDatabase, table: &str) -> i64 {
    let sql = format!("select count(*) from {table}");
    db.client().await.query_one(&sql, &[]).await.unwrap().get(0)
}

#[tokio::test]
async fn a_killed_load_of_avro_resumes_and_a_changed_file_is_refused() {
    each_build(async |db| {
        let folder = tempfile::tempdir().unwrap();
        let plain = written(folder.path(), "rows.avro", &file(ROWS, FIRST));
        let packed = written(folder.path(), "rows.avro.gz", &gzip(&file(ROWS, FIRST)));
        let write = |rows: i64, first: &str| {
            written(folder.path(), "rows.avro", &file(rows, first));
        };
        let key = &["--key", "id:bigint"];
        MadeText { format: "avro", key, file: &plain, packed: Some(&packed), write: &write }.prove(&db).await;
    })
    .await;
}

#[tokio::test]
async fn a_file_that_is_cut_is_damaged_and_the_blocks_before_are_loaded() {
    each_build(async |db| {
        let (folder, url) = (tempfile::tempdir().unwrap(), db.url());
        let content = file(3 * BLOCK, FIRST);
        let cut = &content[..content.len() - 3];
        for (name, content) in [("cut.avro", cut.to_vec()), ("cut.avro.gz", gzip(cut))] {
            let table = name.replace('.', "_");
            let ended = load(&url, &written(folder.path(), name, &content), &table, &[]).ends(2);
            assert!(ended.stderr.contains("the source is damaged: it ends within its block 3 (at byte "), "{ended:?}");
            assert_eq!(count(&db, &table).await, 2 * BLOCK, "{name}");
        }
        // Between two blocks nothing shows that some are missing.
        let whole = file(2 * BLOCK, FIRST);
        assert!(content.starts_with(&whole));
        let receipt = load(&url, &written(folder.path(), "fewer.avro", &whole), "fewer", &[]).ends(0).json();
        assert_eq!(receipt["read"], 2 * BLOCK);
    })
    .await;
}

/// Records of all types that Avro has, written by fastavro with each codec, and what they should become.
const ORACLE: &str = include_str!("avro_oracle.py");

/// The files that the oracle wrote. `None`: there is no such package, and the test is skipped aloud.
fn oracle(folder: &Path) -> Option<PathBuf> {
    let has = Command::new("python3").args(["-c", "import fastavro, cramjam, backports.zstd"]).output();
    if !has.is_ok_and(|ended| ended.status.success()) {
        skip("it needs python3 with fastavro, cramjam and backports.zstd");
        return None;
    }
    let path = folder.join("records");
    run(Command::new("python3").args(["-c", ORACLE]).arg(&path)).ends(0);
    Some(path)
}

#[tokio::test]
async fn records_of_all_types_are_as_fastavro_has_them() {
    each_build(async |db| {
        let (folder, client, url) = (tempfile::tempdir().unwrap(), db.client().await, db.url());
        let Some(path) = oracle(folder.path()) else { return };
        for codec in ["null", "deflate", "snappy", "zstandard"] {
            let (avro, text) = (format!("of_{codec}"), format!("of_{codec}_text"));
            let receipt = load(&url, &format!("{}.{codec}.avro", path.display()), &avro, &[]).ends(0).json();
            let expected = load(&url, &format!("{}.{codec}.expected", path.display()), &text, &[]).ends(0).json();
            assert_eq!((&receipt["inserted"], &expected["inserted"]), (&400.into(), &400.into()), "{codec}");
            // As texts, because 1.50 equals 1.5.
            let differs = format!(
                "select {avro}.doc::text, {text}.doc::text from {avro} full join {text} using (id)
                 where {avro}.doc::text is distinct from {text}.doc::text limit 1"
            );
            let row = client.query_opt(&differs, &[]).await.unwrap();
            let row = row.map(|row| (row.get::<_, Option<String>>(0), row.get::<_, Option<String>>(1)));
            assert!(row.is_none(), "{codec}: {row:?}");
            verify(&url, &format!("{}.{codec}.avro", path.display()), &avro);
        }
    })
    .await;
}
