//! `verify` as a command: what it prints, and how it ends.

use crate::process::{Run, command, run};
use millstream_testkit::{cases, database, each_build};
use serde_json::json;
use std::io::Write;

const FIRST: &str = "{\"d\":\"a,b\",\"n\":1,\"v\":1}\n{\"d\":\"c\",\"n\":2,\"v\":1.0}\n{\"d\":\"c\"}\n";
const SECOND: &str = "{\"d\":\"c\",\"n\":2,\"v\":2}\n{\"d\":\"d\",\"n\":3}\n";

/// Rows among which one changed byte is found; a million with `MILLSTREAM_TEST_SCALE=50`.
const ROWS: usize = 20_000;

#[tokio::test(flavor = "multi_thread")]
async fn differences_are_listed_and_counted() {
    let (database, directory) = (database().await, tempfile::tempdir().unwrap());
    let client = database.client().await;
    client
        .batch_execute(
            "create table t (n smallint, d varchar(9), doc jsonb);
             insert into t values (1, 'a,b', '{\"d\":\"a,b\",\"n\":1,\"v\":1}'), (2, 'c', '{\"d\":\"c\",\"n\":2,\"v\":2.00}'),
                                  (3, 'd', '{\"d\":\"d\",\"n\":3}')",
        )
        .await
        .unwrap();
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name).display().to_string();
        std::fs::write(&path, text).unwrap();
        path
    };
    let (first, second) = (file("first", FIRST), file("second", SECOND));
    let verify = |more: &[&str]| -> Run {
        let args = ["verify", &first, &second, "--into", "t", "--key", "d,n", "--db", &database.url()];
        run(command(&args).args(more).env("TMPDIR", directory.path()))
    };
    let ended = verify(&["--exact"]).ends(0);
    assert_eq!(ended.stdout, "t: 3 keys in 5 documents: 3 equal, 0 missing, 0 different, 0 extra\n");
    assert!(ended.stderr.contains("skipped 1 document that a load rejects"), "{ended:?}");

    client
        .batch_execute(
            "delete from t where n = 3; update t set doc = jsonb_set(doc, '{v}', '\"2\"') where n = 2;
             insert into t values (9, 'x', '{}'), (9, null, '{}')",
        )
        .await
        .unwrap();
    let ended = verify(&["--exact"]).ends(1);
    assert_eq!(
        ended.stdout,
        format!(
            "different: c,2 ({second}:1)\nmissing: d,3 ({second}:2)\nextra: x,9\nextra: null,9\n\
             t: 3 keys in 5 documents: 1 equal, 1 missing, 1 different, 2 extra\n"
        )
    );
    let ended = verify(&["--limit", "1"]).ends(1);
    assert!(ended.stdout.ends_with("1 equal, 1 missing, 1 different\n1 difference not listed\n"), "{ended:?}");
    let found = verify(&["--mode", "keep", "--output", "json"]).ends(1).json();
    for (name, value) in [
        ("collection", json!("t")),
        ("mode", json!("keep")),
        ("read", json!(5)),
        ("rejected", json!(1)),
        ("keys", json!(3)),
        ("equal", json!(1)),
        ("missing", json!(1)),
        ("different", json!(1)),
        ("extra", json!(null)),
    ] {
        assert_eq!(found[name], value, "{name}: {found}");
    }
    let listed = json!({"difference": "different", "key": ["c", "2"], "source": first, "line": 2});
    assert_eq!(found["findings"][0], listed);
    let ended = run(command(&["verify", &first, "--into", "t", "--key", "d,n", "--db", &database.url()])
        .env("TMPDIR", "/nowhere/at/all"))
    .ends(2);
    assert!(ended.stderr.contains("error: cannot keep sorted documents in /nowhere/at/all\ncaused by: "), "{ended:?}");
    assert!(ended.stderr.contains("hint: ") && ended.stderr.contains("TMPDIR"), "{ended:?}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2, "nothing is left behind");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_changed_byte_is_found_among_all_rows() {
    each_build(async |database| {
        let (directory, rows) = (tempfile::tempdir().unwrap(), cases(ROWS));
        let path = directory.path().join("rows.ndjson");
        let mut file = std::io::BufWriter::new(std::fs::File::create(&path).unwrap());
        for id in 0..rows {
            writeln!(file, "{{\"id\":{id},\"text\":\"{}\"}}", "abcdefghij".repeat(12)).unwrap();
        }
        file.into_inner().unwrap().sync_all().unwrap();
        let (file, url) = (path.to_str().unwrap(), database.url());
        let at = |verb: &str, more: &[&str]| -> Run {
            let args = [verb, file, "--into", "rows", "--key", "id:bigint", "--db", &url];
            run(command(&args).args(more).env("TMPDIR", directory.path()))
        };
        at("load", &["--progress", "none"]).ends(0);
        let verify = |code: i32| -> serde_json::Value {
            let found = at("verify", &["--exact", "--output", "json"]).ends(code).json();
            json!([
                found["read"],
                found["equal"],
                found["missing"],
                found["different"],
                found["extra"],
                found["findings"]
            ])
        };
        assert_eq!(verify(0), json!([rows, rows, 0, 0, 0, []]));

        let (id, byte) = (fastrand::usize(..rows), fastrand::usize(..120));
        println!("row {id}, byte {byte}");
        let change = format!(
            "update rows set doc = jsonb_set(doc, '{{text}}', to_jsonb(overlay(doc ->> 'text' placing 'X' from {})))
             where id = {id}",
            byte + 1
        );
        assert_eq!(database.client().await.execute(&change, &[]).await.unwrap(), 1);
        let listed = json!({"difference": "different", "key": [id.to_string()], "source": file, "line": id + 1});
        assert_eq!(verify(1), json!([rows, rows - 1, 0, 1, 0, [listed]]));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn verify_reads_segments_from_the_named_schema() {
    let (database, directory) = (database().await, tempfile::tempdir().unwrap());
    let file = directory.path().join("a").display().to_string();
    std::fs::write(&file, "{\"id\":\"a\"}\n").unwrap();
    let url = database.url();
    let at = |first: &[&str]| {
        run(command(first).args([&file, "--into", "public.t", "--key", "id:text", "--schema", "ops", "--db", &url]))
    };
    at(&["load", "--layout", "log"]).ends(0);
    assert_eq!(at(&["verify"]).ends(0).stdout, "t: 1 key in 1 document: 1 equal, 0 missing, 0 different\n");
}
