//! Stores of IP ranges from the command line: what is printed, exit codes and signals.

use crate::process::{Run, command, millstream, run, send};
use millstream_ranges::{Generation, braced};
use millstream_testkit::{Place, each_build};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Stdio};

/// Lines as files of ranges have them.
pub const DIRTY: &str = include_str!("../../../millstream-ranges/tests/dirty.csv");

/// A file with one range, whose value is a name.
pub fn named(place: &Place, name: &str) -> String {
    place.written(&format!("{name}.csv"), format!("first,last,name\n10.0.0.0,10.0.0.255,{name}\n"))
}

/// A file with this many ranges of 128 addresses.
pub fn many(place: &Place, ranges: u32) -> String {
    let mut text = String::from("network,n\n");
    for n in 0..ranges {
        writeln!(text, "{}/25,{n}", std::net::Ipv4Addr::from_bits(n << 8)).unwrap();
    }
    place.written("many.csv", text)
}

pub fn ranges(args: &[&str]) -> Run {
    millstream(&[&["ranges"], args].concat())
}

pub fn build(store: &str, file: &str, more: &[&str]) -> Run {
    ranges(&[&["build", store, file, "--progress", "none"][..], more].concat())
}

/// The value at an address; empty if there is none.
pub fn value(store: &str, address: &str) -> String {
    let generation = Generation::open(Path::new(store), None).unwrap();
    let found = generation.get(address.parse().unwrap()).unwrap();
    found.map(|found| braced(&found.members().unwrap())).unwrap_or_default()
}

/// A process with pipes.
pub fn started(args: &[&str]) -> Child {
    command(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn rejects_are_printed_and_written_and_the_receipt_is_printed() {
    let place = Place::make();
    let (store, file, rejects) = (place.word("geo"), place.written("dirty.csv", DIRTY), place.word("rejects.ndjson"));
    let built = build(&store, &file, &["--rejects", &rejects, "--output", "json"]).ends(1);
    let receipt = built.json();
    assert_eq!((&receipt["read"], &receipt["rejected"], &receipt["stored"]), (&json!(8), &json!(5), &json!(3)));
    assert_eq!(receipt["sources"], json!([file]));
    let written = fs::read_to_string(&rejects).unwrap();
    let written: Vec<Value> = written.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let reason = "154.17.129.024 has an octet with a leading zero, 024";
    let text = "154.17.129.024,154.17.129.255,US";
    assert_eq!(written[0], json!({"source": file, "line": 4, "reason": reason, "text": text}));
    let shown =
        written.iter().map(|reject| format!("{file}:{}: {}", reject["line"], reject["reason"].as_str().unwrap()));
    assert!(built.stderr.lines().take(5).eq(shown), "{built:?}");
    assert!(built.stderr.contains("5 rejects in "), "{built:?}");
    let text = build(&store, &file, &[]).ends(1).stdout;
    assert!(text.starts_with("receipt of generation 2\n"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn of_many_rejects_a_few_are_printed_and_too_many_end_the_build() {
    let place = Place::make();
    let store = place.word("geo");
    let bad = place.written("bad.csv", format!("ip,name\n1.2.3.4,a\n{}", "nonsense,b\n".repeat(13)));
    let failed = build(&store, &bad, &["--max-rejects", "12"]).ends(2);
    assert!(failed.stderr.contains("13 entries rejected, more than --max-rejects 12"), "{failed:?}");
    let built = build(&store, &bad, &["--max-rejects", "13"]).ends(1);
    assert_eq!(built.stderr.matches("is not an IP address").count(), 10, "{built:?}");
    assert!(built.stderr.contains("these are 10 of 13 rejects; --rejects FILE writes all"), "{built:?}");
}

#[test]
fn rejects_go_to_no_file_that_holds_anything_else() {
    let place = Place::make();
    let (store, file) = (place.word("geo"), place.written("dirty.csv", DIRTY));
    for (rejects, problem) in [(file.as_str(), "does not hold rejects"), ("/dev/full", "cannot write /dev/full")] {
        let refused = build(&store, &file, &["--rejects", rejects]).ends(2);
        assert!(refused.stderr.contains(problem), "{refused:?}");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), DIRTY);
}

#[test]
fn generations_are_verified_compared_and_described() {
    let place = Place::make();
    let store = place.word("geo");
    let at = |generation: u32| format!("{store}@{generation}");
    for lines in ["2.0.0.0,2.0.0.9,x\n::,::9,x\n", "2.0.0.0,2.0.0.4,y\n::a,::b,z\n"] {
        let file = place.written("a.csv", format!("first,last,n\n1.0.0.0,1.0.0.9,x\n{lines}"));
        build(&store, &file, &[]).ends(0);
    }
    assert_eq!(ranges(&["get", &at(1), "2.0.0.0"]).ends(0).stdout, "2.0.0.0\t2.0.0.0-2.0.0.9\t{\"n\":\"x\"}\n");
    let verified = ranges(&["verify", &at(1)]).ends(0).stdout;
    assert_eq!(verified, format!("{}: 2 ranges of IPv4, 1 range of IPv6: no problem\n", at(1)));
    let differs = ranges(&["diff", &at(1), &store]).ends(1).stdout;
    let first = "- 2.0.0.0-2.0.0.4\t{\"n\":\"x\"}\n+ 2.0.0.0-2.0.0.4\t{\"n\":\"y\"}\n";
    let last = "2 ranges (15 addresses) only in the first, 1 range (2 addresses) only in the second, \
                1 range (5 addresses) with another value\n";
    assert!(differs.starts_with(first) && differs.ends_with(last) && differs.lines().count() == 6, "{differs}");
    let some = ranges(&["diff", &at(1), &store, "--limit", "1", "--output", "json"]).ends(1).json();
    assert_eq!(
        some["differences"],
        json!([{"first": "2.0.0.0", "last": "2.0.0.4", "before": {"n": "x"}, "after": {"n": "y"}}])
    );
    assert_eq!(some["counts"]["only_a_addresses"], 15);
    for (before, after) in [(&store, &store), (&at(2), &store), (&store, &at(2))] {
        assert_eq!(ranges(&["diff", before, after]).ends(0).stdout, "no difference\n");
    }
    let stat = ranges(&["stat", &store, "--output", "json"]).ends(0).json();
    assert_eq!((&stat["layout"], &stat["receipt"]["generation"]), (&json!("named"), &json!(2)));
    let kept = stat["generations"].as_array().unwrap();
    let kept: Vec<_> = kept.iter().map(|kept| (&kept["generation"], &kept["current"])).collect();
    assert_eq!(kept, [(&json!(1), &json!(false)), (&json!(2), &json!(true))]);
    assert_eq!(stat["bytes"], fs::metadata(place.word("geo/00000002.lmdb")).unwrap().len());
    let text = ranges(&["stat", &at(1)]).ends(0).stdout;
    assert!(text.contains("receipt of generation 1\n") && text.contains("source: "), "{text}");
    let gone = ranges(&["get", &at(9), "1.0.0.0"]).ends(2);
    assert!(gone.stderr.contains("it has 1, 2"), "{gone:?}");
    // A file of another program has no receipt, and nor has a copy.
    let alone = place.written("alone", fs::read(place.word("geo/00000002.lmdb")).unwrap());
    assert!(ranges(&["verify", &alone]).ends(0).stderr.contains("another program wrote the file"));
    assert!(ranges(&["stat", &alone]).ends(0).stdout.contains("another program wrote it"));
}

/// Starts a build that reads more than it gets, and waits until it has begun to read.
fn begun(store: &str) -> Child {
    let mut building = started(&["ranges", "build", store, "-", "--format", "csv", "--progress", "none"]);
    let mut text = String::from("network,n\nnonsense,0\n");
    for n in 0..20_000_u32 {
        writeln!(text, "{},{n}", std::net::Ipv4Addr::from_bits(n)).unwrap();
    }
    building.stdin.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
    let mut line = String::new();
    BufReader::new(building.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "-:2: \"nonsense\" is not an IP address\n");
    building
}

#[test]
fn a_build_that_is_killed_or_stopped_while_it_reads_changes_nothing() {
    let place = Place::make();
    let store = place.word("geo");
    build(&store, &named(&place, "old"), &[]).ends(0);
    let mut killed = begun(&store);
    let busy = build(&store, &named(&place, "new"), &[]).ends(2);
    assert!(busy.stderr.contains("another build writes"), "{busy:?}");
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert_eq!(value(&store, "10.0.0.7"), "{\"name\":\"old\"}");
    for (signal, code) in [("INT", 130), ("TERM", 143)] {
        let mut stopped = begun(&store);
        send(signal, stopped.id());
        let messages = BufReader::new(stopped.stderr.take().unwrap());
        assert!(messages.lines().any(|line| line.unwrap().starts_with("stopping")));
        // Its input stays open and gives no more.
        let input = stopped.stdin.take();
        assert_eq!(stopped.wait().unwrap().code(), Some(code), "{signal}");
        drop(input);
        assert_eq!(value(&store, "10.0.0.7"), "{\"name\":\"old\"}");
    }
    let piped = File::open(place.written("in", "ip,name\n10.0.0.7,piped\n")).unwrap();
    let args = ["ranges", "build", &store, "-", &named(&place, "new"), "--format", "csv", "--overlap", "first"];
    assert!(run(command(&args).stdin(piped)).ends(0).stdout.contains("cut "));
    assert_eq!(value(&store, "10.0.0.7"), "{\"name\":\"piped\"}");
    assert_eq!(value(&store, "10.0.0.8"), "{\"name\":\"new\"}");
    assert!(!Path::new(&place.word("geo/build.new")).exists());
}

#[test]
fn what_is_damaged_or_no_store_ends_a_command() {
    let place = Place::make();
    let (store, missing) = (place.word("geo"), place.word("missing"));
    build(&store, &named(&place, "old"), &[]).ends(0);
    let file = File::options().write(true).open(place.word("geo/00000001.lmdb")).unwrap();
    file.set_len(file.metadata().unwrap().len() - 4_096).unwrap();
    let verified = ranges(&["verify", &store]).ends(1);
    assert!(verified.stdout.contains("is damaged: it has "), "{verified:?}");
    assert_eq!(ranges(&["verify", &store, "--output", "json"]).ends(1).json()["problems"], 1);
    ranges(&["verify", &missing]).ends(2);
    for (store, problem) in [(&store, "is damaged: it has "), (&missing, "is not a store of ranges: it does not exist")]
    {
        for args in [
            &["get", store, "1.2.3.4"][..],
            &["stat", store],
            &["diff", store, store],
            &["export", store, "--to", "csv"],
        ] {
            let refused = ranges(args).ends(2);
            assert!(refused.stderr.contains(problem) && refused.stdout.is_empty(), "{args:?}: {refused:?}");
        }
    }
    let json = ranges(&["get", &missing, "1.2.3.4", "--output", "json"]).ends(2);
    let error: Value = serde_json::from_str(&json.stderr).unwrap();
    assert_eq!(error["hint"], "build it first: millstream ranges build STORE FILE");
}

#[test]
fn an_export_says_what_it_wrote_and_refuses_options_that_mean_nothing() {
    let place = Place::make();
    let (store, file) = (place.word("geo"), place.word("geo.mmdb"));
    build(&store, &place.written("dirty.csv", DIRTY), &[]).ends(1);
    let written = ranges(&["export", &store, "--to", "mmdb", &file]).ends(0);
    assert_eq!(written.stdout, format!("3 ranges in {file}\n"));
    let csv = ranges(&["export", &store, "--to", "csv", "--cidr"]).ends(0).stdout;
    assert!(csv.starts_with("network,country\n1.0.0.0/17,AU\n"), "{csv}");
    let script = ranges(&["export", &store, "--to", "nftables", "--into", "geo"]).ends(0).stdout;
    assert!(script.contains("add element inet geo v4 {\n"), "{script}");
    for (args, problem) in [
        (&["--to", "csv", "--ip4r"][..], "--to csv takes no --ip4r"),
        (&["--to", "csv", "--into", "a"], "--to csv takes no --into"),
        (&["--to", "ndjson", "--cidr"], "--to ndjson takes no --cidr"),
        (&["--to", "table", "--into", "a", "file"], "--to table takes no FILE"),
        (&["--to", "table"], "--into"),
        (&["--to", "nftables", "--into", "set"], "is not a name for a table of nftables"),
    ] {
        let refused = ranges(&[&["export", &store], args].concat()).ends(2);
        assert!(refused.stderr.contains(problem) && refused.stdout.is_empty(), "{refused:?}");
    }
    // The file is asked without a store. Of these ranges, this one is one network.
    for more in [&[][..], &["--output", "json"]] {
        let asked = [&["2001:db8::1", "9.9.9.9", "none"][..], more].concat();
        let get = |source: &str| ranges(&[&["get", source], &asked[..]].concat()).ends(1).stdout;
        assert_eq!(get(&file), get(&store));
    }
    let refused = build(&store, &file, &["--mmdb-max", "1"]).ends(2);
    assert!(refused.stderr.contains("millstream ranges build takes more with --mmdb-max"), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_is_exported_with_statements_that_ask_it() {
    each_build(async |db| {
        let place = Place::make();
        let (store, again, url) = (place.word("geo"), place.word("again"), db.url());
        build(&store, &place.written("dirty.csv", DIRTY), &[]).ends(1);
        let client = db.client().await;
        client.batch_execute("create schema geo").await.unwrap();
        let export = ["export", &store, "--to", "table", "--into", "geo.cities", "--db", &url, "--output", "json"];
        let made = ranges(&export).ends(0).json();
        assert_eq!((&made["table"], &made["rows"]), (&json!("geo.cities"), &json!(3)));
        let question = made["function"].as_str().unwrap().replace("192.0.2.1", "1.0.128.7");
        let question = format!("select host(start), host(\"end\"), doc::text from ({question}) r");
        let row = client.query_one(&question, &[]).await.unwrap();
        let found: [String; 3] = [row.get(0), row.get(1), row.get(2)];
        assert_eq!(found, ["1.0.0.0", "1.0.129.0", "{\"country\": \"AU\"}"]);
        assert!(made["lateral"].as_str().unwrap().contains("\"geo\".\"cities\""), "{made}");
        // Again, in the place of the table that is there.
        let more = [&export[..], &["--no-function"]].concat();
        assert_eq!(ranges(&more).ends(0).json()["function"], Value::Null);

        let query = "select start, \"end\", doc ->> 'country' as country from geo.cities";
        let built = ranges(&["build", &again, "--query", query, "--db", &url]).ends(0);
        assert!(built.stdout.contains("stored"), "{built:?}");
        assert_eq!(value(&again, "1.0.0.7"), "{\"country\":\"AU\"}");
        ranges(&["build", &again, "--query", "select 1 / 0 as ip", "--db", &url]).ends(2);
    })
    .await;
}
