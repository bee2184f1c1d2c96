//! Files as users have them: delimited in many ways, in envelopes, under odd names.

use crate::process::{Run, command, millstream, run, until_held};
use millstream_testkit::each_build;
use std::ffi::OsStr;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Stdio;

fn load(url: &str, args: &[&str]) -> Run {
    let more = ["--db", url, "--progress", "none", "--output", "json"];
    millstream(&[&["load"], args, &more].concat())
}

fn write(dir: &Path, name: &str, content: impl AsRef<[u8]>) -> String {
    let path = dir.join(name);
    std::fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

#[tokio::test]
async fn delimited_files_load_and_verify_with_the_same_options() {
    each_build(async |db| {
        let dir = tempfile::tempdir().unwrap();
        let file = write(dir.path(), "a.csv", b"made by hand\n1; 1.50 ;NA;'x;y'\n2;007;caf\xe9;''\n");
        let options = [
            "--delimiter",
            ";",
            "--quote",
            "'",
            "--null",
            "NA",
            "--header",
            "id,n,what,s",
            "--skip-lines",
            "1",
            "--encoding",
            "latin1",
            "--trim",
            "--types",
            "infer",
        ];
        let table = ["--into", "a", "--key", "id:bigint"];
        let args = [&[file.as_str()], &options[..], &table[..]].concat();
        let dry = load(&db.url(), &[&args[..], &["--dry-run"]].concat()).ends(0).json();
        assert_eq!((dry["read"].as_u64(), dry["rejected"].as_u64()), (Some(2), Some(0)));
        assert_eq!(load(&db.url(), &args).ends(0).json()["inserted"], 2);
        let rows = db.client().await.query("select doc::text from a order by id", &[]).await.unwrap();
        let docs: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        assert_eq!(
            docs,
            [r#"{"n": 1.50, "s": "x;y", "id": 1, "what": null}"#, r#"{"n": "007", "s": "", "id": 2, "what": "café"}"#,]
        );
        let verify = |args: &[&str]| millstream(&[&["verify"], args, &["--exact", "--db", &db.url()]].concat());
        verify(&args).ends(0);
        verify(&[&[file.as_str()], &options[..options.len() - 2], &table[..]].concat()).ends(1);
    })
    .await;
}

#[tokio::test]
async fn a_load_is_not_resumed_with_another_delimiter() {
    each_build(async |db| {
        let dir = tempfile::tempdir().unwrap();
        let lines: String = (0..1000).map(|n| format!("{n};{n},0\n")).collect();
        let file = write(dir.path(), "a.csv", format!("id;n,m\n{lines}x;y,z\nx;y,z\n"));
        let with = |delimiter: &str, rejects: &str| {
            let table = ["--into", "a", "--key", "id:bigint", "--max-rejects", rejects];
            load(&db.url(), &[&[file.as_str(), "--delimiter", delimiter], &table[..]].concat())
        };
        with(";", "1").ends(2);
        let refused = with("|", "10").ends(2);
        assert!(refused.stderr.contains("in another format"), "{refused:?}");
        let done = with(";", "10").ends(1).json();
        assert_eq!((done["read"].as_u64(), done["rejected"].as_u64()), (Some(1002), Some(2)));
    })
    .await;
}

#[tokio::test]
async fn root_loads_documents_in_an_envelope_and_refuses_a_wrong_path() {
    each_build(async |db| {
        let dir = tempfile::tempdir().unwrap();
        let items: Vec<String> = (0..5000).map(|n| format!("{{\"id\":{n},\"x\":\"{}\"}}", "y".repeat(200))).collect();
        let text = format!("{{\"page\":{{\"items\":[0]}},\"data\":{{\"n\":1,\"items\":[\n{}\n]}}}}", items.join(",\n"));
        let file = write(dir.path(), "page.json", text);
        let table = ["--into", "items", "--key", "id:bigint"];
        let wrong = load(&db.url(), &[&[file.as_str(), "--root", "data.rows"], &table[..]].concat()).ends(2);
        assert!(wrong.stderr.contains("--root data.rows is not there"), "{wrong:?}");
        let there = "select to_regclass('items') is not null";
        assert!(!db.client().await.query_one(there, &[]).await.unwrap().get::<_, bool>(0));
        let args = [&[file.as_str(), "--root", "data.items"], &table[..]].concat();
        assert_eq!(load(&db.url(), &args).ends(0).json()["inserted"], 5000);
        millstream(&[&["verify"], &args[..], &["--exact", "--db", &db.url()]].concat()).ends(0);
    })
    .await;
}

#[tokio::test]
async fn patterns_expand_to_files_and_a_literal_name_wins() {
    each_build(async |db| {
        let dir = tempfile::tempdir().unwrap();
        for n in [2, 1, 3] {
            write(dir.path(), &format!("part{n}.json"), format!("{{\"id\":1,\"n\":{n}}}"));
        }
        let pattern = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        let table = ["--into", "parts", "--key", "id:bigint"];
        let with = |name: &str| load(&db.url(), &[&[pattern(name).as_str()], &table[..]].concat());
        assert_eq!(with("part*.json").ends(0).json()["read"], 3);
        let last = "select (doc ->> 'n')::int from parts";
        assert_eq!(db.client().await.query_one(last, &[]).await.unwrap().get::<_, i32>(0), 3);
        let none = with("parts*.json").ends(2);
        assert!(none.stderr.contains("no file matches"), "{none:?}");
        write(dir.path(), "part[1].json", "{\"id\":7}");
        assert_eq!(with("part[1].json").ends(0).json()["read"], 1);
        assert_eq!(with("part[12].json").ends(0).json()["read"], 2);
    })
    .await;
}

#[tokio::test]
async fn a_file_whose_name_is_not_utf8_loads_and_resumes() {
    each_build(async |db| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(OsStr::from_bytes(b"caf\xe9.ndjson"));
        std::fs::write(&path, "{\"id\":1}\n{\"id\":\n{\"id\":\n{\"id\":2}\n").unwrap();
        let with = |rejects: &str| {
            let args = ["load", "--into", "odd", "--key", "id:bigint", "--output", "json", "--max-rejects", rejects];
            run(command(&args).args(["--db", &db.url()]).arg(&path))
        };
        with("1").ends(2);
        let done = with("100").ends(1).json();
        assert_eq!((done["read"].as_u64(), done["rejected"].as_u64()), (Some(4), Some(2)));
        assert_eq!(done["load_id"], 1);
        let sources = "select sources[1] from millstream.load";
        let name: String = db.client().await.query_one(sources, &[]).await.unwrap().get(0);
        assert!(name.starts_with("bytes:/") && name.ends_with("caf\\xe9.ndjson"), "{name}");
    })
    .await;
}

#[test]
fn contradictory_options_are_refused_before_connecting() {
    for (args, part) in [
        (&["--format", "json", "--delimiter", ";"][..], "--format json"),
        (&["--format", "csv", "--root", "a"], "--root"),
        (&["--delimiter", "ab"], "one ASCII character"),
        (&["--root", "a,b"], "one path"),
        (&["--rejects", "-"], "standard output takes the receipt"),
    ] {
        let all =
            [&["load", "Cargo.toml", "--into", "a", "--key", "id", "--db", "postgres://127.0.0.1:1/a"], args].concat();
        let refused = millstream(&all).ends(2);
        assert!(refused.stderr.contains(part) && refused.stdout.is_empty(), "{refused:?}");
    }
}

/// A file of several chunks, with one value in all of its documents.
fn documents(value: char) -> String {
    (0..50_000).map(|n| format!("{{\"id\":{},\"value\":\"{value}\"}}\n", 100_000 + n)).collect()
}

#[tokio::test]
async fn a_file_overwritten_while_it_is_loaded_is_no_mixture_without_a_word() {
    each_build(async |db| {
        let (dir, url) = (tempfile::tempdir().unwrap(), db.url());
        let held = dir.path().join("held");
        // What is done to the file when its first chunk is read, and the exit code.
        for (n, (change, code)) in [("overwritten", 2), ("appended", 0), ("replaced", 0)].into_iter().enumerate() {
            let (file, table) = (write(dir.path(), change, documents('a')), format!("public.t{n}"));
            let args = ["load", &file, "--into", &table, "--key", "id:bigint", "--progress", "none", "--db", &url];
            let mut load = command(&args);
            load.env("MILLSTREAM_FAILPOINTS", format!("chunk-read=wait:{}@1", held.display()));
            let mut load = load.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
            until_held(&mut load, &held).await;
            match change {
                // In its place, as `cat b > a` does: the file keeps its size.
                "overwritten" => std::fs::write(&file, documents('b')).unwrap(),
                "appended" => {
                    let mut file = std::fs::File::options().append(true).open(&file).unwrap();
                    file.write_all(b"{\"id\":1,\"value\":\"a\"}\n").unwrap();
                }
                _ => std::fs::rename(write(dir.path(), "new", documents('b')), &file).unwrap(),
            }
            std::fs::remove_file(&held).unwrap();
            let output = load.wait_with_output().unwrap();
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(code), "{change}: {stderr}");
            let sql = format!("select count(*) from {table} where doc ->> 'value' = 'a'");
            let old = async || db.client().await.query_one(&sql, &[]).await.unwrap().get::<_, i64>(0);
            match change {
                "overwritten" => {
                    assert!(stderr.contains("was overwritten while it was read: what follows its byte "), "{stderr}");
                    assert!(stderr.contains("--resume off"), "{stderr}");
                    millstream(&[&args[..], &["--resume", "off"]].concat()).ends(0);
                    assert_eq!(old().await, 0, "what the hint says");
                }
                "appended" => assert_eq!(old().await, 50_001, "{stderr}"),
                _ => assert_eq!(old().await, 50_000, "{stderr}"),
            }
        }
    })
    .await;
}

#[tokio::test]
async fn what_stands_beside_the_root_must_be_json() {
    each_build(async |db| {
        let dir = tempfile::tempdir().unwrap();
        let table = ["--into", "r", "--key", "id:bigint", "--root", "data"];
        // An array of documents hides between two quotes that are none.
        let hidden = r#"{"m":{'"':1},"data":[{"id":1}],"n":{'"':2},"data":[{"id":2}]}"#;
        for text in [hidden, r#"{"data":[{"id":1}],"m":nope}"#, "{\"m\":\"a\nb\",\"data\":[{\"id\":1}]}"] {
            let file = write(dir.path(), "bad.json", text);
            let args = [&[file.as_str()], &table[..]].concat();
            let strict = load(&db.url(), &[&args[..], &["--strict"]].concat()).ends(2);
            assert!(strict.stderr.contains("damaged"), "{strict:?}");
            let run = load(&db.url(), &[&args[..], &["--resume", "off"]].concat()).ends(2);
            assert!(run.stderr.contains("the source is damaged: "), "{run:?}");
        }
        let whole = write(dir.path(), "whole.json", r#"{"m":{"n":[1.5e9,"\u0000"]},"data":[{"id":1}],"z":null}"#);
        let args = [&[whole.as_str()], &table[..]].concat();
        assert_eq!(load(&db.url(), &[&args[..], &["--strict"]].concat()).ends(0).json()["read"], 1);
    })
    .await;
}
