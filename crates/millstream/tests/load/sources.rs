//! Files as users have them: delimited in many ways, in envelopes, under odd names.

use crate::process::{Run, command, killed, millstream, run, until_held};
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
        for name in ["part{1,2}.json", "par?{1..2}.json"] {
            let quoted = with(name).ends(2).stderr;
            assert!(quoted.contains("braces are not expanded within quotes") && quoted.contains(name), "{quoted}");
        }
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

/// Lines of a table whose third column is free text. Some of it begins with a quote that encloses nothing.
fn quoted_lines(count: usize) -> String {
    let text = |n: usize| match n {
        n if n.is_multiple_of(40) => format!("\"Best\" of {n}"),
        n if n.is_multiple_of(97) => format!("\"open {n}"),
        n if n.is_multiple_of(11) => format!("20\" pipe {n}"),
        n => format!("plain {n}"),
    };
    let lines: String = (0..count).map(|n| format!("{n}\tname {n}\t{}\n", text(n))).collect();
    format!("id\tname\ttext\n{lines}")
}

#[tokio::test]
async fn a_list_whose_quotes_are_data_loads_whole() {
    const LINES: usize = 40_000;
    each_build(async |db| {
        let dir = tempfile::tempdir().unwrap();
        let file = write(dir.path(), "list.tsv", quoted_lines(LINES));
        let into = |table: &'static str| [file.as_str(), "--into", table, "--key", "id:bigint"];
        assert_eq!(load(&db.url(), &into("given")).ends(0).json()["inserted"], LINES);
        let unquoted = [&into("unquoted")[..], &["--quote", "none"]].concat();
        assert_eq!(load(&db.url(), &unquoted).ends(0).json()["inserted"], LINES);
        let client = db.client().await;
        let other =
            "select count(*) from given full join unquoted using (id) where given.doc is distinct from unquoted.doc";
        assert_eq!(client.query_one(other, &[]).await.unwrap().get::<_, i64>(0), 0);
        let verify = |args: &[&str]| millstream(&[&["verify"], args, &["--exact", "--db", &db.url()]].concat());
        verify(&into("given")).ends(0);

        // Strict, a record with bad quotes is a reject with all its lines.
        let strict = load(&db.url(), &[&into("strict")[..], &["--strict"]].concat()).ends(2);
        assert!(strict.stderr.contains("nothing was written") && strict.stderr.contains(" lines"), "{strict:?}");

        // Killed where it may be, the load reads the same lines again.
        for (point, lanes) in [("batch-advancing=kill@2", "1"), ("commit-sent=kill@5", "2"), ("run-settled=kill", "2")]
        {
            client.batch_execute("drop table if exists killed").await.unwrap();
            let args = ["--lanes", lanes, "--batch-rows", "300", "--db", &db.url()];
            killed(&mut command(&[&["load"], &into("killed")[..], &args].concat()), point);
            assert_eq!(load(&db.url(), &into("killed")).ends(0).json()["read"], LINES, "{point}");
            let other = other.replace("unquoted", "killed");
            assert_eq!(client.query_one(&other, &[]).await.unwrap().get::<_, i64>(0), 0, "{point}");
        }
    })
    .await;
}

#[tokio::test]
async fn rejects_and_the_receipt_say_how_many_lines_they_hold() {
    each_build(async |db| {
        let dir = tempfile::tempdir().unwrap();
        let text = "id,name\n1,\"a\nb\nc\",x\n2,two\n3,\"d\ne\",x\n4,\"open,x\n5,five\n6\n";
        let file = write(dir.path(), "a.csv", text);
        let out = dir.path().join("a.rejects").to_str().unwrap().to_owned();
        let table = ["--into", "t", "--key", "id:bigint"];
        let run = load(&db.url(), &[&[file.as_str()], &table[..], &["--rejects", &out]].concat()).ends(1);
        assert!(run.stderr.contains("--quote none"), "{run:?}");
        let receipt = run.json();
        let counts = ["read", "inserted", "rejected", "rejected_lines"].map(|name| receipt[name].as_u64().unwrap());
        assert_eq!(counts, [6, 2, 4, 5]);
        let details = "select line, reason, detail from millstream.reject order by line";
        let rows = db.client().await.query(details, &[]).await.unwrap();
        let rejects: Vec<(i64, String, String)> = rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect();
        let fields = "the record has 3 fields, the header 2; it holds";
        let expected = [
            (2, "csv_fields", format!("{fields} 3 lines")),
            (6, "csv_fields", format!("{fields} 2 lines")),
            (8, "csv_syntax", "field 2 has an open quote".into()),
            (10, "csv_fields", "the record has 1 fields, the header 2".into()),
        ];
        for ((line, reason, detail), (at, code, begins)) in rejects.iter().zip(&expected) {
            assert!((line, reason.as_str()) == (at, *code) && detail.starts_with(begins.as_str()), "{rejects:?}");
        }
        assert!(rejects[2].2.contains("--quote none"), "{rejects:?}");
        let written = std::fs::read_to_string(&out).unwrap();
        assert_eq!(written.lines().count(), 4);
        // Taken out and mended as records, they load with the columns' names.
        let mended = written.replace(",x\"", "\"").replace("4,\\\"open", "4,open").replace("\"6\"", "\"6,six\"");
        let mended = write(dir.path(), "mended.rejects", mended);
        let header = ["--format", "rejects", "--header", "id,name"];
        let again = load(&db.url(), &[&[mended.as_str()], &table[..], &header].concat()).ends(0).json();
        assert_eq!(again["inserted"], 4);
    })
    .await;
}

#[tokio::test]
async fn a_pattern_skips_hidden_files_unless_it_names_the_dot() {
    each_build(async |db| {
        let dir = tempfile::tempdir().unwrap();
        write(dir.path(), "day.ndjson", "{\"id\":1}");
        write(dir.path(), ".day2.ndjson.Xy3f2A", "{\"id\":2}");
        write(dir.path(), "._day.ndjson", b"\0\x05\x16\x07\0\x02\0\0Mac OS X");
        std::fs::write(dir.path().join(OsStr::from_bytes(b"x\xff")), "").unwrap();
        std::fs::write(dir.path().join(OsStr::from_bytes(b"\xff.ndjson")), "{\"id\":3}").unwrap();
        let table = ["--into", "h", "--key", "id:bigint"];
        let with = |name: &str| {
            let pattern = dir.path().join(name).to_str().unwrap().to_owned();
            load(&db.url(), &[&[pattern.as_str()], &table[..]].concat())
        };
        assert_eq!(with("*.ndjson").ends(0).json()["read"], 2);
        assert_eq!(with(".d*").ends(0).json()["read"], 1);
    })
    .await;
}
