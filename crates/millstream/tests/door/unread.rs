//! Exit codes when the reader of stdout goes away: a finding is a finding, whether anybody reads it or not.

use crate::process::{Run, command, doctor, run};
use crate::ranges::build;
use millstream_testkit::{Place, each_build};
use std::fs::File;
use std::process::{Command, Stdio};

/// Runs a command whose stdout nobody reads.
fn unread(command: &mut Command) -> Run {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let run = run(command.stdout(writer).stderr(Stdio::piped()));
    assert!(!run.stderr.contains("error: "), "{run:?}");
    run
}

#[tokio::test(flavor = "multi_thread")]
async fn a_finding_ends_with_1_even_if_nobody_reads_it() {
    each_build(async |db| {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name).to_str().unwrap().to_owned();
            std::fs::write(&path, text).unwrap();
            path
        };
        let (one, two) = (write("one", "{\"id\":1}\n"), write("two", "{\"id\":1}\n{\"id\":2}\n{\"id\":3\n"));
        let url = db.url();
        let target = ["--into", "t", "--key", "id:bigint", "--db", &url];
        let with = |args: &[&str]| command(&[args, &target].concat());
        run(&mut with(&["load", &one, "--progress", "none"])).ends(0);
        for output in ["text", "json"] {
            let output = ["--output", output];
            unread(with(&["verify", &two]).args(output)).ends(1);
            unread(with(&["verify", &one]).args(output)).ends(0);
            unread(with(&["load", &two, "--dry-run"]).args(output)).ends(1);
            for (keys, code) in [(&["1"][..], 0), (&["1", "2"], 1), (&["2", "1", "1"], 1)] {
                let get = |more: &[&str]| command(&[&["get", "t"], keys, more, &output, &["--db", &url]].concat());
                unread(&mut get(&[])).ends(code);
                unread(&mut get(&["--count"])).ends(code);
            }
        }
        let examine = || doctor(&["--fail-on", "info"], &url, dir.path());
        let read = run(&mut examine());
        unread(&mut examine()).ends(read.code);
        // What is not exported is not cleared, and this is no success.
        run(&mut with(&["load", &two, "--progress", "none"])).ends(1);
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut export = command(&["rejects", "t", "--export", "-", "--clear", "--db", &url]);
        let ended = run(export.stdout(writer).stderr(Stdio::piped())).ends(2);
        assert!(ended.stderr.contains("nothing was cleared"), "{ended:?}");
        let left: i64 =
            db.client().await.query_one("select count(*) from millstream.reject", &[]).await.unwrap().get(0);
        assert_eq!(left, 1);
    })
    .await;
}

#[test]
fn stores_that_differ_and_addresses_that_are_none_end_with_1_even_if_nobody_reads_it() {
    let place = Place::make();
    let (a, b) = (place.word("a"), place.word("b"));
    build(&a, &place.written("a.csv", "ip,n\n1.2.3.4,1\n"), &[]).ends(0);
    build(&b, &place.written("b.csv", "ip,n\n1.2.3.4,2\n"), &[]).ends(0);
    for (args, code) in [
        (&["diff", &a, &b][..], 1),
        (&["diff", &a, &a], 0),
        (&["verify", &a], 0),
        (&["get", &a, "1.2.3.4"], 0),
        (&["get", &a, "1.2.3.4", "nonsense", "1.2.3.4"], 1),
        (&["export", &a, "--to", "csv"], 0),
    ] {
        for output in ["text", "json"] {
            let mut ranges = command(&[&["ranges"], args, &["--output", output]].concat());
            unread(&mut ranges).ends(code);
            if args[0] == "diff" {
                let full = File::options().write(true).open("/dev/full").unwrap();
                run(ranges.stdout(full)).ends(2);
            }
        }
    }
    let file = format!("{a}/00000001.lmdb");
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    unread(&mut command(&["ranges", "verify", &a])).ends(1);
}
