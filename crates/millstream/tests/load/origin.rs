//! `--with-source` and `--with-partitions`: each document says which file it comes from.

use crate::process::{Run, command, killed, millstream, run};
use millstream_testkit::{TestDatabase, each_build, gzip};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Stdio;

fn write(dir: &Path, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
    let path = dir.join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(&path, content).unwrap();
    path
}

fn load(url: &str, args: &[&str]) -> Run {
    let fixed = ["load", "--into", "public.t", "--progress", "none", "--output", "json", "--db", url];
    millstream(&[&fixed[..], args].concat())
}

async fn docs(db: &TestDatabase) -> Vec<Value> {
    let rows = db.client().await.query("select doc::text from public.t order by id", &[]).await.unwrap();
    rows.iter().map(|row| serde_json::from_str(row.get(0)).unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_get_the_name_of_their_file_and_the_values_of_its_folders() {
    each_build(async |db| {
        let (dir, url) = (tempfile::tempdir().unwrap(), db.url());
        let lake = dir.path().canonicalize().unwrap().join("lake");
        let june = write(
            &lake,
            "year=2026/month=06/a.ndjson.gz",
            gzip(b"{\"id\":1,\"n\":1.50}\n{\"id\":2,\"year\":\"no\"}\n"),
        );
        let july = write(&lake, "year=2026/month=07%2Fb/b.ndjson", "{\"id\":3}\nbad\n{\"id\":4,\"file\":{}}\n");
        let none = write(&lake, "year=__HIVE_DEFAULT_PARTITION__/month=1/c.ndjson", "{\"id\":5}");
        let pattern = lake.join("**/*.ndjson*");
        let pattern = pattern.to_str().unwrap();
        let options = ["--key", "id:bigint", "--with-source", "file", "--with-partitions"];
        let receipt = load(&url, &[&[pattern, "--column", "year:integer=year"], &options[..]].concat()).ends(1).json();
        let stage = &receipt["stages"][0];
        assert_eq!(stage["name"], "source as file and partitions", "{receipt}");
        assert_eq!(stage["documents"], json!({"added": 3, "replaced": 2, "none": 0}), "{receipt}");
        let name = |path: &Path| path.to_str().unwrap().to_owned();
        let expected = [
            json!({"id": 1, "n": 1.50, "file": name(&june), "year": "2026", "month": "06"}),
            json!({"id": 2, "file": name(&june), "year": "2026", "month": "06"}),
            json!({"id": 3, "file": name(&july), "year": "2026", "month": "07/b"}),
            json!({"id": 4, "file": name(&july), "year": "2026", "month": "07/b"}),
            json!({"id": 5, "file": name(&none), "year": null, "month": "1"}),
        ];
        assert_eq!(docs(&db).await, expected);
        let years = "select count(*) from public.t where year = 2026";
        assert_eq!(db.client().await.query_one(years, &[]).await.unwrap().get::<_, i64>(0), 4);
        // The reject is the bytes of the file.
        let reject = "select document, line, byte_offset from millstream.reject";
        let reject = db.client().await.query_one(reject, &[]).await.unwrap();
        assert_eq!((reject.get::<_, &str>(0), reject.get::<_, i64>(1), reject.get::<_, i64>(2)), ("bad", 2, 9));
        let verify = |args: &[&str]| {
            let fixed = ["verify", pattern, "--into", "public.t", "--exact", "--db", &url];
            millstream(&[&fixed[..], args].concat())
        };
        verify(&options).ends(0);
        verify(&options[..2]).ends(1);
        // Another directory gives the same names.
        let again = ["load", "**/*.ndjson*", "--into", "public.t", "--output", "json", "--db", &url];
        let mut again = command(&[&again[..], &options].concat());
        let receipt = run(again.current_dir(&lake)).ends(1).json();
        assert_eq!(receipt["unchanged"], 5, "{receipt}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn records_of_csv_and_keys_have_their_file_too() {
    each_build(async |db| {
        let (dir, url) = (tempfile::tempdir().unwrap(), db.url());
        let dir = dir.path().canonicalize().unwrap();
        let (a, b) = (write(&dir, "shop=a/x.csv", "n,m\n1,0\n2,0\n"), write(&dir, "shop=b/x.csv", "n,m\n1,0\n"));
        let files = [a.to_str().unwrap(), b.to_str().unwrap()];
        let done = load(&url, &[&files[..], &["--key", "id=shop:text,n:bigint", "--with-partitions"]].concat()).ends(0);
        assert_eq!(done.json()["inserted"], 3);
        let rows = db.client().await.query("select id || n from public.t order by 1", &[]).await.unwrap();
        assert_eq!(rows.iter().map(|row| row.get(0)).collect::<Vec<String>>(), ["a1", "a2", "b1"]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_resumes_only_with_the_members_that_it_began_with() {
    each_build(async |db| {
        let (dir, url) = (tempfile::tempdir().unwrap(), db.url());
        let text: String = (0..5_000).map(|id| format!("{{\"id\":{id}}}\n")).collect();
        let file = write(dir.path(), "a.ndjson", text);
        let file = file.to_str().unwrap();
        let options = ["--key", "id:bigint", "--with-source", "file"];
        let fixed = ["load", file, "--into", "public.t", "--batch-rows", "500", "--lanes", "2", "--db", &url];
        killed(&mut command(&[&fixed[..], &options].concat()), "batch-committed=kill@2");
        for other in [&options[..2], &["--key", "id:bigint", "--with-source", "from"]] {
            let refused = load(&url, &[&[file], other].concat()).ends(2);
            assert!(refused.stderr.contains("with other enrichments"), "{refused:?}");
        }
        let done = load(&url, &[&[file], &options[..]].concat()).ends(0).json();
        assert_eq!(done["stages"][0]["documents"]["added"], 5_000, "{done}");
        let verify = ["verify", file, "--into", "public.t", "--exact", "--db", &url];
        millstream(&[&verify[..], &options].concat()).ends(0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_that_are_not_there_or_clash_are_refused() {
    each_build(async |db| {
        let (dir, url) = (tempfile::tempdir().unwrap(), db.url());
        let file = write(dir.path(), "file=x/a.ndjson", "{\"id\":1}\n");
        let file = file.to_str().unwrap();
        for (args, says) in [
            (&[file, "--with-source", "file", "--with-partitions"][..], "two members of each document"),
            (&[file, "--with-source", "a.b"], "the name of one member"),
            (&[file, "--with-source", ""], "error"),
            (&["-", "--with-source", "file"], "is a stream without one"),
            (&["-", "--source-name", "s", "--with-partitions"], "--with-partitions takes files"),
        ] {
            let refused = load(&url, &[args, &["--key", "id:bigint"]].concat()).ends(2);
            assert!(refused.stderr.contains(says), "{args:?}: {refused:?}");
        }
        // A stream with a name gives that, and verify takes it too.
        let options =
            ["--source-name", "the stream", "--with-source", "from", "--key", "id:bigint", "--into", "public.t"];
        for (name, code) in [("load", 0), ("verify", 0)] {
            let mut piped = command(&[&[name, "-", "--db", &url][..], &options].concat());
            piped.stdin(Stdio::from(std::fs::File::open(file).unwrap()));
            run(&mut piped).ends(code);
        }
        assert_eq!(docs(&db).await, [json!({"id": 1, "from": "the stream"})]);
    })
    .await;
}
