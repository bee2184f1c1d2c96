//! `verify` as a command: what it prints, and how it ends.

use crate::process::{Run, command, run};
use millstream_testkit::database;
use serde_json::json;

const FIRST: &str = "{\"d\":\"a,b\",\"n\":1,\"v\":1}\n{\"d\":\"c\",\"n\":2,\"v\":1.0}\n{\"d\":\"c\"}\n";
const SECOND: &str = "{\"d\":\"c\",\"n\":2,\"v\":2}\n{\"d\":\"d\",\"n\":3}\n";

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
    let told = verify(&["--exact"]).ends(0);
    assert_eq!(told.stdout, "t: 3 keys in 5 documents: 3 equal, 0 missing, 0 different, 0 extra\n");
    assert!(told.stderr.contains("1 document that a load rejects were not compared"), "{told:?}");

    client
        .batch_execute(
            "delete from t where n = 3; update t set doc = jsonb_set(doc, '{v}', '\"2\"') where n = 2;
             insert into t values (9, 'x', '{}'), (9, null, '{}')",
        )
        .await
        .unwrap();
    let told = verify(&["--exact"]).ends(1);
    assert_eq!(
        told.stdout,
        format!(
            "different: c,2 ({second}:1)\nmissing: d,3 ({second}:2)\nextra: x,9\nextra: null,9\n\
             t: 3 keys in 5 documents: 1 equal, 1 missing, 1 different, 2 extra\n"
        )
    );
    let told = verify(&["--limit", "1"]).ends(1);
    assert!(told.stdout.ends_with("1 equal, 1 missing, 1 different\n1 difference not listed\n"), "{told:?}");
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
    let told = run(command(&["verify", &first, "--into", "t", "--key", "d,n", "--db", &database.url()])
        .env("TMPDIR", "/nowhere/at/all"))
    .ends(2);
    assert!(told.stderr.contains("error: cannot keep sorted documents in /nowhere/at/all\ncaused by: "), "{told:?}");
    assert!(told.stderr.contains("hint: ") && told.stderr.contains("TMPDIR"), "{told:?}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2, "nothing is left behind");
}
