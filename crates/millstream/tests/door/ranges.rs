//! Stores of IP ranges from the command line: built from dirty files, asked, checked, compared, and built
//! again after whatever went wrong.

use crate::process::{Run, command, killed, millstream, run, send};
use millstream_failpoint::RANGES;
use millstream_testkit::SmallDisk;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Lines as files of ranges have them.
pub const DIRTY: &str = "\
first,last,country
1.0.0.0,1.0.129.0,AU
127.0.0.1,127.1.2.3,
154.17.129.024,154.17.129.255,US
1.2.3.9,0.0.0.0,AU
1.2.3.4,::1,AU
2001:db8::,2001:db8::ffff,DE
9.9.9.9
0x01020304,1.2.3.5,AU
";

/// What is wrong with lines of it.
const WRONG: &[(u64, &str)] = &[
    (4, "154.17.129.024 has an octet with a leading zero, 024"),
    (5, "the last address 0.0.0.0 is before the first, 1.2.3.9"),
    (6, "1.2.3.4 and ::1 are of two families"),
    (8, "the number of fields is 1, and not 3"),
    (9, "\"0x01020304\" is not an IP address"),
];

/// A directory with files and stores.
pub struct Place(tempfile::TempDir);

impl Place {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        fs::write(self.0.path().join(name), content).unwrap();
        self.path(name)
    }

    /// A file with one range, whose value is a name.
    fn named(&self, name: &str) -> String {
        self.write(&format!("{name}.csv"), format!("first,last,name\n10.0.0.0,10.0.0.255,{name}\n"))
    }

    /// A file with this many ranges of 128 addresses.
    fn many(&self, ranges: u32) -> String {
        let mut text = String::from("network,n\n");
        for n in 0..ranges {
            writeln!(text, "{}/25,{n}", std::net::Ipv4Addr::from_bits(n << 8)).unwrap();
        }
        self.write("many.csv", text)
    }
}

pub fn ranges(args: &[&str]) -> Run {
    millstream(&[&["ranges"], args].concat())
}

pub fn build(store: &str, file: &str, more: &[&str]) -> Run {
    ranges(&[&["build", store, file, "--progress", "none"][..], more].concat())
}

/// The value at an address, as text.
#[track_caller]
pub fn value(store: &str, address: &str) -> String {
    let found = ranges(&["get", store, address]).ends(0);
    found.stdout.trim_end().rsplit('\t').next().unwrap().to_owned()
}

/// A process with pipes.
fn started(args: &[&str]) -> Child {
    command(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

#[test]
fn dirty_lines_become_rejects_and_the_others_are_stored() {
    let place = Place::new();
    let (store, file, rejects) = (place.path("geo"), place.write("dirty.csv", DIRTY), place.path("rejects.ndjson"));
    let built = build(&store, &file, &["--rejects", &rejects, "--output", "json"]).ends(1);
    let receipt = built.json();
    let expected = [
        ("generation", 1),
        ("read", 8),
        ("whole", 3),
        ("merged", 0),
        ("cut", 0),
        ("covered", 0),
        ("rejected", 5),
        ("stored", 3),
        ("stored_v4", 2),
        ("stored_v6", 1),
    ];
    for (name, count) in expected {
        assert_eq!(receipt[name], count, "{name}");
    }
    assert_eq!(receipt["sources"], json!([file]));
    let written = fs::read_to_string(&rejects).unwrap();
    let written: Vec<Value> = written.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let lines: Vec<&str> = DIRTY.lines().collect();
    let expected: Vec<Value> = WRONG
        .iter()
        .map(|(line, reason)| {
            let text = lines[usize::try_from(*line).unwrap() - 1];
            json!({"source": file, "line": line, "reason": reason, "text": text})
        })
        .collect();
    assert_eq!(written, expected);
    let shown: Vec<String> = WRONG.iter().map(|(line, reason)| format!("{file}:{line}: {reason}")).collect();
    assert_eq!(built.stderr.lines().take(5).collect::<Vec<_>>(), shown);
    let text = build(&store, &file, &[]).ends(1).stdout;
    assert!(text.starts_with("receipt of generation 2\n"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn too_many_rejects_end_a_build_and_few_of_them_are_printed() {
    let place = Place::new();
    let (store, good) = (place.path("geo"), place.named("good"));
    build(&store, &good, &[]).ends(0);
    let bad = place.write("bad.csv", format!("ip,name\n1.2.3.4,a\n{}", "nonsense,b\n".repeat(13)));
    let failed = build(&store, &bad, &["--max-rejects", "12"]).ends(2);
    assert!(failed.stderr.contains("13 entries rejected, more than --max-rejects 12"), "{failed:?}");
    assert_eq!(value(&store, "10.0.0.1"), "{\"name\":\"good\"}", "the store is as it was");
    let built = build(&store, &bad, &["--max-rejects", "13"]).ends(1);
    assert_eq!(built.stderr.matches("is not an IP address").count(), 10, "{built:?}");
    assert!(built.stderr.contains("these are 10 of 13 rejects; --rejects FILE writes all"), "{built:?}");
    let none = build(&store, &place.write("none.csv", "ip\nnonsense\n"), &[]).ends(2);
    assert!(none.stderr.contains("there is no range to store"), "{none:?}");
}

#[test]
fn rejects_go_to_no_file_that_holds_anything_else() {
    let place = Place::new();
    let (store, file) = (place.path("geo"), place.write("dirty.csv", DIRTY));
    for (rejects, problem) in [
        (file.as_str(), "does not hold rejects"),
        ("-", "standard output takes the receipt"),
        ("/dev/full", "cannot write /dev/full"),
    ] {
        let refused = build(&store, &file, &["--rejects", rejects]).ends(2);
        assert!(refused.stderr.contains(problem), "{refused:?}");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), DIRTY);
}

#[test]
fn standard_input_is_given_once() {
    let place = Place::new();
    for more in [&["-"][..], &["--join", "-"], &["--join=-:id"]] {
        let refused = build(&place.path("geo"), "-", more).ends(2);
        assert!(refused.stderr.contains("standard input can be read only once"), "{refused:?}");
    }
}

#[test]
fn each_address_gets_its_line() {
    let place = Place::new();
    let (store, file) = (place.path("geo"), place.write("dirty.csv", DIRTY));
    build(&store, &file, &[]).ends(1);
    let (au, none) = ("1.0.0.0-1.0.129.0\t{\"country\":\"AU\"}", "127.0.0.1-127.1.2.3\t{}");
    let de = "2001:db8::-2001:db8::ffff\t{\"country\":\"DE\"}";
    let expected = [
        ("1.0.0.0", au),
        ("1.0.128.255", au),
        ("1.0.129.0", au),
        ("1.0.129.1", "-"),
        ("0.255.255.255", "-"),
        ("127.0.0.1", none),
        ("127.1.2.3", none),
        ("127.1.2.4", "-"),
        ("255.255.255.255", "-"),
        ("::", "-"),
        ("2001:db8::", de),
        ("2001:0DB8::FFFF", de),
        ("2001:db8::1:0", "-"),
        ("::ffff:1.0.0.0", "-"),
    ];
    let asked: Vec<&str> = expected.iter().map(|(address, _)| *address).collect();
    let printed = ranges(&[&["get", &store], &asked[..]].concat()).ends(0);
    let lines: Vec<String> = expected.iter().map(|(address, answer)| format!("{address}\t{answer}")).collect();
    assert_eq!(printed.stdout.lines().collect::<Vec<_>>(), lines);
    let mapped = ranges(&["get", &store, "::ffff:1.0.0.0", "--unmap"]).ends(0);
    assert_eq!(mapped.stdout, format!("::ffff:1.0.0.0\t{au}\n"));
}

#[test]
fn what_is_no_address_is_answered_on_its_line() {
    let place = Place::new();
    let (store, file) = (place.path("geo"), place.write("dirty.csv", DIRTY));
    build(&store, &file, &[]).ends(1);
    let asked = place.write("asked", b"1.0.0.0\r\n\n 9.9.9.9 \nnon\tsense\n1.02.3.4\nfe80::1%eth0\n\xff\n1.0.129.0");
    let get = |more: &[&str]| {
        let args = [&["ranges", "get", &store, "-"][..], more].concat();
        run(command(&args).stdin(File::open(&asked).unwrap())).ends(1).stdout
    };
    assert_eq!(
        get(&[]).lines().collect::<Vec<_>>(),
        [
            "1.0.0.0\t1.0.0.0-1.0.129.0\t{\"country\":\"AU\"}",
            "\terror: the address is empty",
            "9.9.9.9\t-",
            "non\\tsense\terror: \"non\\tsense\" is not an IP address",
            "1.02.3.4\terror: 1.02.3.4 has an octet with a leading zero, 02",
            "fe80::1%eth0\t-",
            "\u{fffd}\terror: \"\u{fffd}\" is not an IP address",
            "1.0.129.0\t1.0.0.0-1.0.129.0\t{\"country\":\"AU\"}",
        ]
    );
    let objects: Vec<Value> =
        get(&["--output", "json"]).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let found = |ip: &str| json!({"ip": ip, "found": true, "first": "1.0.0.0", "last": "1.0.129.0", "value": {"country": "AU"}});
    let wrong = |ip: &str, error: &str| json!({"ip": ip, "found": false, "error": error});
    assert_eq!(
        objects,
        [
            found("1.0.0.0"),
            wrong("", "the address is empty"),
            json!({"ip": "9.9.9.9", "found": false}),
            wrong("non\tsense", "\"non\\tsense\" is not an IP address"),
            wrong("1.02.3.4", "1.02.3.4 has an octet with a leading zero, 02"),
            json!({"ip": "fe80::1%eth0", "found": false}),
            wrong("\u{fffd}", "\"\u{fffd}\" is not an IP address"),
            found("1.0.129.0"),
        ]
    );
}

#[test]
fn another_program_can_ask_and_wait_for_each_answer() {
    let place = Place::new();
    let store = place.path("geo");
    build(&store, &place.named("old"), &[]).ends(0);
    let mut asking = started(&["ranges", "get", &store, "-"]);
    let mut questions = asking.stdin.take().unwrap();
    let mut answers = BufReader::new(asking.stdout.take().unwrap());
    let mut ask = |question: &str| {
        // Half a line is not a question yet.
        let (half, rest) = question.split_at(3);
        questions.write_all(half.as_bytes()).unwrap();
        questions.write_all(format!("{rest}\n").as_bytes()).unwrap();
        let mut answer = String::new();
        answers.read_line(&mut answer).unwrap();
        answer
    };
    let old = "10.0.0.7\t10.0.0.0-10.0.0.255\t{\"name\":\"old\"}\n";
    assert_eq!(ask("10.0.0.7"), old);
    assert_eq!(ask("10.0.1.0"), "10.0.1.0\t-\n");
    for name in ["new", "newer", "newest"] {
        build(&store, &place.named(name), &[]).ends(0);
    }
    assert_eq!(ask("10.0.0.7"), old, "it answers from the generation that it opened");
    assert_eq!(value(&store, "10.0.0.7"), "{\"name\":\"newest\"}");
    drop(questions);
    assert_eq!(asking.wait().unwrap().code(), Some(0));
}

#[test]
fn many_addresses_are_answered_in_their_order() {
    let place = Place::new();
    let store = place.path("geo");
    build(&store, &place.many(10_000), &[]).ends(0);
    let mut rng = fastrand::Rng::with_seed(5);
    let numbers: Vec<u32> = (0..100_000).map(|_| rng.u32(..11_000 << 8)).collect();
    let asked: String = numbers.iter().map(|n| format!("{}\n", std::net::Ipv4Addr::from_bits(*n))).collect();
    let mut asking = started(&["ranges", "get", &store, "-"]);
    let mut questions = asking.stdin.take().unwrap();
    let sending = std::thread::spawn(move || questions.write_all(asked.as_bytes()));
    let output = asking.wait_with_output().unwrap();
    sending.join().unwrap().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(printed.lines().count(), numbers.len());
    for (line, number) in printed.lines().zip(numbers) {
        let found = number >> 8 < 10_000 && number & 0xff < 128;
        let end = if found { format!("\t{{\"n\":\"{}\"}}", number >> 8) } else { "\t-".to_owned() };
        let address = std::net::Ipv4Addr::from_bits(number);
        assert!(line.starts_with(&format!("{address}\t")) && line.ends_with(&end), "{line}");
    }
}

#[test]
fn files_are_read_as_the_options_say() {
    let place = Place::new();
    let locations = place.write("locations.csv", "geoname_id,city\n7,Köln\n");
    let by_id = format!("{}:id", place.write("by:id.csv", "id,city\n7,Köln\n"));
    let cases: [(&str, &str, &[&str], &str, &str); 13] = [
        ("a.ndjson", "{\"start\":\"1.0.0.0\",\"end\":\"1.0.0.9\",\"n\":1.50}\n", &[], "1.0.0.7", "{\"n\":1.50}"),
        ("a.txt", "1.0.0.0\t1.0.0.9\tAU\n", &["--format", "tsv", "--no-header"], "1.0.0.7", "{\"3\":\"AU\"}"),
        (
            "b.csv",
            "a;b;c;d\n1.0.0.0;1.0.0.9;x;y\n",
            &["--delimiter", ";", "--range", "a,b", "--keep", "c"],
            "1.0.0.7",
            "{\"c\":\"x\"}",
        ),
        ("c.csv", "what,where\nx,1.0.0.0/24\n", &["--range", "where"], "1.0.0.7", "{\"what\":\"x\"}"),
        ("d.csv", "1.0.0.0-1.0.0.9,x\n", &["--no-header"], "1.0.0.7", "{\"2\":\"x\"}"),
        ("e.csv", "16777216,16777471,x\n", &["--numbers", "v4", "--no-header"], "1.0.0.7", "{\"3\":\"x\"}"),
        ("f.csv", "ip,a\n::ffff:1.2.3.4,x\n", &["--unmap"], "1.2.3.4", "{\"a\":\"x\"}"),
        ("g.csv", "ip,a\n::ffff:1.2.3.4,x\n", &[], "::ffff:1.2.3.4", "{\"a\":\"x\"}"),
        (
            "h.csv",
            "network,geoname_id\n1.0.0.0/24,7\n",
            &["--join", &locations],
            "1.0.0.7",
            "{\"geoname_id\":\"7\",\"city\":\"Köln\"}",
        ),
        (
            "i.csv",
            "network,id\n1.0.0.0/24,7\n",
            &["--join", &by_id, "--keep", "city"],
            "1.0.0.7",
            "{\"city\":\"Köln\"}",
        ),
        (
            "k.csv",
            "1.0.0.0,1.0.0.9,AU,7\n",
            &["--no-header", "--header", "start,end,cc,asn", "--types", "asn=uint32"],
            "1.0.0.7",
            "{\"cc\":\"AU\",\"asn\":7}",
        ),
        ("l.csv", "cidr,a\n1.2.3.0/24,x\n", &[], "1.2.3.4", "{\"a\":\"x\"}"),
        ("j.csv", "ip,a\n1.2.3.4,x\n2001:db8::1,y\n", &["--single"], "2001:db8::1", "{\"a\":\"y\"}"),
    ];
    for (n, (name, content, options, address, expected)) in cases.into_iter().enumerate() {
        let store = place.path(&format!("store {n}"));
        build(&store, &place.write(name, content), options).ends(0);
        assert_eq!(value(&store, address), expected, "{name} {options:?}");
        ranges(&["verify", &store]).ends(0);
    }
    let store = place.path("from stdin");
    let file = place.named("piped");
    let args = ["ranges", "build", &store, "-", &file, "--format", "csv", "--overlap", "first"];
    let built = run(command(&args).stdin(File::open(place.write("in", "ip,name\n10.0.0.7,first\n")).unwrap()));
    assert!(built.ends(0).stdout.contains("cut "));
    assert_eq!(value(&store, "10.0.0.7"), "{\"name\":\"first\"}");
    assert_eq!(value(&store, "10.0.0.8"), "{\"name\":\"piped\"}");
}

#[test]
fn the_user_decides_what_counts_where_ranges_overlap() {
    let place = Place::new();
    let store = place.path("geo");
    let file = place.write("a.csv", "first,last,n\n1.0.0.0,1.0.0.255,wide\n1.0.0.10,1.0.0.20,narrow\n");
    let refused = build(&store, &file, &[]).ends(2);
    for part in [format!("{file}:2 1.0.0.0-1.0.0.255"), format!("{file}:3 1.0.0.10-1.0.0.20"), "--overlap".to_owned()] {
        assert!(refused.stderr.contains(&part), "{refused:?}");
    }
    ranges(&["get", &store, "1.0.0.1"]).ends(2);
    for (overlap, inside, cut, covered, stored) in
        [("narrowest", "narrow", 1, 0, 3), ("first", "wide", 0, 1, 1), ("last", "narrow", 1, 0, 3)]
    {
        let receipt = build(&store, &file, &["--overlap", overlap, "--output", "json"]).ends(0).json();
        let counts = ["cut", "covered", "stored"].map(|name| receipt[name].as_u64().unwrap());
        assert_eq!(counts, [cut, covered, stored], "{overlap}");
        assert_eq!(value(&store, "1.0.0.15"), format!("{{\"n\":\"{inside}\"}}"), "{overlap}");
        for outside in ["1.0.0.0", "1.0.0.9", "1.0.0.21", "1.0.0.255"] {
            assert_eq!(value(&store, outside), "{\"n\":\"wide\"}", "{overlap} {outside}");
        }
    }
    let halves = place.write("b.csv", "network,n\n1.0.0.0/25,x\n1.0.0.128/25,x\n1.0.1.0/24,y\n");
    let receipt = build(&store, &halves, &["--merge", "--output", "json"]).ends(0).json();
    assert_eq!((&receipt["merged"], &receipt["stored"]), (&json!(1), &json!(2)));
    let merged = ranges(&["get", &store, "1.0.0.1"]).ends(0).stdout;
    assert_eq!(merged, "1.0.0.1\t1.0.0.0-1.0.0.255\t{\"n\":\"x\"}\n");
}

#[test]
fn generations_are_named_compared_and_described() {
    let place = Place::new();
    let store = place.path("geo");
    let at = |generation: u32| format!("{store}@{generation}");
    for lines in ["2.0.0.0,2.0.0.9,x\n::,::9,x\n", "2.0.0.0,2.0.0.4,y\n::a,::b,z\n"] {
        let file = place.write("a.csv", format!("first,last,n\n1.0.0.0,1.0.0.9,x\n{lines}"));
        build(&store, &file, &[]).ends(0);
    }
    assert_eq!(value(&at(1), "2.0.0.0"), "{\"n\":\"x\"}");
    assert_eq!(value(&at(2), "2.0.0.0"), "{\"n\":\"y\"}");
    for name in [&store, &at(1), &at(2)] {
        let verified = ranges(&["verify", name]).ends(0).stdout;
        assert_eq!(verified, format!("{name}: 2 ranges of IPv4, 1 range of IPv6: no problem\n"));
    }

    let differs = ranges(&["diff", &at(1), &store]).ends(1).stdout;
    assert_eq!(
        differs.lines().collect::<Vec<_>>(),
        [
            "- 2.0.0.0-2.0.0.4\t{\"n\":\"x\"}",
            "+ 2.0.0.0-2.0.0.4\t{\"n\":\"y\"}",
            "- 2.0.0.5-2.0.0.9\t{\"n\":\"x\"}",
            "- ::-::9\t{\"n\":\"x\"}",
            "+ ::a-::b\t{\"n\":\"z\"}",
            "2 ranges (15 addresses) only in the first, 1 range (2 addresses) only in the second, \
             1 range (5 addresses) with another value",
        ]
    );
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
    let kept: Vec<(u64, bool)> = (stat["generations"].as_array().unwrap().iter())
        .map(|kept| (kept["generation"].as_u64().unwrap(), kept["current"].as_bool().unwrap()))
        .collect();
    assert_eq!(kept, [(1, false), (2, true)]);
    assert_eq!(stat["bytes"], fs::metadata(place.path("geo/00000002.lmdb")).unwrap().len());
    let text = ranges(&["stat", &at(1)]).ends(0).stdout;
    assert!(text.contains("receipt of generation 1\n") && text.contains("source: "), "{text}");

    let gone = ranges(&["get", &at(9), "1.0.0.0"]).ends(2);
    assert!(gone.stderr.contains("it has 1, 2"), "{gone:?}");
    let refused = build(&at(1), &place.named("x"), &[]).ends(2);
    assert!(refused.stderr.contains("a build makes a new one"), "{refused:?}");
}

#[test]
fn a_difference_that_nobody_reads_to_the_end_is_still_one() {
    let place = Place::new();
    let store = place.path("geo");
    build(&store, &place.named("old"), &[]).ends(0);
    build(&store, &place.named("new"), &[]).ends(0);
    let (before, after) = (format!("{store}@1"), format!("{store}@2"));
    for (stores, code) in [([&before, &after], 1), ([&after, &after], 0)] {
        for format in ["text", "json"] {
            let (reader, writer) = std::io::pipe().unwrap();
            drop(reader);
            let args = ["ranges", "diff", stores[0], stores[1], "--output", format];
            let ended = command(&args).stdout(writer).stderr(Stdio::piped()).output().unwrap();
            assert_eq!((ended.status.code(), &ended.stderr[..]), (Some(code), &b""[..]), "{args:?}");
            let full = File::options().write(true).open("/dev/full").unwrap();
            let failed = command(&args).stdout(full).stderr(Stdio::piped()).output().unwrap();
            assert_eq!(failed.status.code(), Some(2), "{args:?}: a full disk is an error");
        }
    }
}

#[test]
fn a_build_killed_at_any_point_leaves_a_store_that_serves_and_can_be_built() {
    for point in RANGES {
        let place = Place::new();
        let store = place.path("geo");
        build(&store, &place.named("old"), &[]).ends(0);
        let new = place.named("new");
        killed(&mut command(&["ranges", "build", &store, &new, "--progress", "none"]), &format!("{point}=kill"));
        let is_unfinished = ["ranges-filled", "ranges-hashed"].contains(point);
        assert_eq!(leftovers(&store).contains(&"build.new".to_owned()), is_unfinished, "{point}");
        let serving = if *point == "ranges-current" { "new" } else { "old" };
        assert_eq!(value(&store, "10.0.0.7"), format!("{{\"name\":\"{serving}\"}}"), "{point}");
        ranges(&["verify", &store]).ends(0);
        build(&store, &place.named("newest"), &[]).ends(0);
        assert_eq!(value(&store, "10.0.0.7"), "{\"name\":\"newest\"}", "{point}");
        ranges(&["verify", &store]).ends(0);
        assert!(leftovers(&store).is_empty(), "{point}: {:?}", leftovers(&store));
    }
}

/// Files of a store that belong to no build.
fn leftovers(store: &str) -> Vec<String> {
    let names = fs::read_dir(store).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let known = |name: &String| {
        ["current", "lock"].contains(&name.as_str()) || name.ends_with(".lmdb") || name.ends_with(".json")
    };
    names.filter(|name| !known(name)).collect()
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
    let place = Place::new();
    let store = place.path("geo");
    build(&store, &place.named("old"), &[]).ends(0);
    let mut killed = begun(&store);
    let busy = build(&store, &place.named("new"), &[]).ends(2);
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
    build(&store, &place.named("new"), &[]).ends(0);
    assert_eq!(value(&store, "10.0.0.7"), "{\"name\":\"new\"}");
    assert!(leftovers(&store).is_empty(), "{:?}", leftovers(&store));
}

#[test]
fn a_full_disk_ends_a_build_and_the_old_generation_serves() {
    let Some(disk) = SmallDisk::mount(8 << 20) else { return };
    let place = Place::new();
    let store = disk.dir.join("geo").to_str().unwrap().to_owned();
    build(&store, &place.named("old"), &[]).ends(0);
    let many = place.many(400_000);
    for memory in ["512MiB", "1MiB"] {
        let failed = build(&store, &many, &["--memory", memory]).ends(2);
        assert!(failed.stderr.contains("No space left on device"), "{failed:?}");
        assert!(failed.stderr.contains("hint: free some space; the store is as it was"), "{failed:?}");
        assert_eq!(value(&store, "10.0.0.7"), "{\"name\":\"old\"}");
        assert!(leftovers(&store).is_empty(), "{:?}", leftovers(&store));
    }
    let exported = disk.dir.join("many.csv");
    let big = place.path("big");
    build(&big, &many, &[]).ends(0);
    let failed = ranges(&["export", &big, "--to", "csv", exported.to_str().unwrap()]).ends(2);
    assert!(failed.stderr.contains("No space left on device") && !exported.exists(), "{failed:?}");
    disk.grow(200 << 20);
    build(&store, &many, &[]).ends(0);
    assert_eq!(value(&store, "0.0.7.7"), "{\"n\":\"7\"}");
}

#[test]
fn a_store_on_a_read_only_disk_can_be_read_and_not_built() {
    let Some(disk) = SmallDisk::mount(8 << 20) else { return };
    let place = Place::new();
    let store = disk.dir.join("geo").to_str().unwrap().to_owned();
    build(&store, &place.named("old"), &[]).ends(0);
    let mounted = |how: &str| {
        let mount = disk.dir.parent().unwrap();
        let mounted = Command::new("mount").args(["-o", &format!("remount,{how}")]).arg(mount).status();
        assert!(mounted.unwrap().success());
    };
    mounted("ro");
    assert_eq!(value(&store, "10.0.0.7"), "{\"name\":\"old\"}");
    for args in [&["verify"][..], &["stat"], &["export", "--to", "csv"], &["diff", &store]] {
        ranges(&[args, &[&store]].concat()).ends(0);
    }
    let refused = build(&store, &place.named("new"), &[]).ends(2);
    assert!(refused.stderr.contains("Read-only file system"), "{refused:?}");
    mounted("rw");
    build(&store, &place.named("new"), &[]).ends(0);
}

#[test]
fn a_damaged_file_is_an_error_until_the_store_is_built_again() {
    let place = Place::new();
    let store = place.path("geo");
    build(&store, &place.named("old"), &[]).ends(0);
    build(&store, &place.many(5_000), &[]).ends(0);
    let file = place.path("geo/00000002.lmdb");
    let whole = fs::read(&file).unwrap();
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    for (bytes, problem) in [
        (&flipped[..], "is damaged: its content has changed since it was written"),
        (&whole[..whole.len() - 4_096], "is damaged: it has "),
        (&b""[..], "is damaged: it has 0 bytes, and "),
    ] {
        fs::write(&file, bytes).unwrap();
        for args in [&["get", &store, "0.0.7.7"][..], &["stat", &store], &["export", &store, "--to", "csv"]] {
            let refused = ranges(args).ends(2);
            assert!(refused.stderr.contains(problem) && refused.stdout.is_empty(), "{refused:?}");
        }
        let verified = ranges(&["verify", &store]).ends(1);
        assert!(verified.stdout.contains(problem), "{verified:?}");
        assert_eq!(ranges(&["verify", &store, "--output", "json"]).ends(1).json()["problems"], 1);
        assert_eq!(value(&format!("{store}@1"), "10.0.0.7"), "{\"name\":\"old\"}");
    }
    build(&store, &place.named("new"), &[]).ends(0);
    assert_eq!(value(&store, "10.0.0.7"), "{\"name\":\"new\"}");
}

#[test]
fn a_huge_value_is_a_reject_and_the_largest_is_stored() {
    let place = Place::new();
    let (store, file) = (place.path("geo"), place.path("huge.ndjson"));
    let large = "x".repeat(1_000_000);
    let mut out = BufWriter::new(File::create(&file).unwrap());
    writeln!(out, "{{\"ip\":\"1.2.3.4\",\"x\":\"{large}\"}}").unwrap();
    write!(out, "{{\"ip\":\"1.2.3.5\",\"x\":\"").unwrap();
    for _ in 0..100 {
        out.write_all(&[b'y'; 1 << 20]).unwrap();
    }
    writeln!(out, "\"}}\n{{\"ip\":\"1.2.3.6\"}}").unwrap();
    out.into_inner().unwrap().sync_all().unwrap();
    let rejects = place.path("rejects.ndjson");
    let receipt = build(&store, &file, &["--rejects", &rejects, "--output", "json"]).ends(1).json();
    assert_eq!((&receipt["rejected"], &receipt["stored"]), (&json!(1), &json!(2)));
    let reject: Value = serde_json::from_str(&fs::read_to_string(&rejects).unwrap()).unwrap();
    assert_eq!(reject["line"], 2);
    assert!(reject["reason"].as_str().unwrap().contains("more than"), "{}", reject["reason"]);
    assert!(reject["text"].as_str().unwrap().len() < 10_000);
    assert_eq!(value(&store, "1.2.3.4"), format!("{{\"x\":\"{large}\"}}"));
    assert_eq!(ranges(&["get", &store, "1.2.3.5"]).ends(0).stdout, "1.2.3.5\t-\n");
    assert_eq!(value(&store, "1.2.3.6"), "{}");
}

#[test]
fn what_is_no_store_is_refused() {
    let place = Place::new();
    let (missing, text) = (place.path("missing"), place.write("text", "first,last\n"));
    let empty = place.path("empty");
    fs::create_dir(&empty).unwrap();
    for (store, problem) in [
        (&missing, "is not a store of ranges: it does not exist"),
        (&empty, "is not a store of ranges: nothing was built in it"),
        (&text, "cannot open"),
    ] {
        for args in [
            &["get", store, "1.2.3.4"][..],
            &["verify", store],
            &["stat", store],
            &["diff", store, store],
            &["export", store, "--to", "csv"],
        ] {
            let refused = ranges(args).ends(2);
            assert!(refused.stderr.contains(problem) && refused.stdout.is_empty(), "{args:?}: {refused:?}");
        }
    }
    assert!(!Path::new(&missing).exists(), "a question makes no store");
    build(&text, &place.named("a"), &[]).ends(2);
    assert_eq!(fs::read_to_string(&text).unwrap(), "first,last\n");
    let json = ranges(&["get", &missing, "1.2.3.4", "--output", "json"]).ends(2);
    let error: Value = serde_json::from_str(&json.stderr).unwrap();
    assert_eq!(error["hint"], "build it first: millstream ranges build STORE FILE");
}

#[test]
fn a_reader_that_closes_the_pipe_ends_a_command_quietly() {
    let place = Place::new();
    let store = place.path("geo");
    build(&store, &place.many(50_000), &[]).ends(0);
    for args in [&["ranges", "export", &store, "--to", "csv"][..], &["ranges", "get", &store, "-"]] {
        let mut writing = started(args);
        let mut input = writing.stdin.take().unwrap();
        // It may end before it has read everything.
        let feeding = std::thread::spawn(move || input.write_all("1.0.0.0\n".repeat(200_000).as_bytes()));
        let mut line = String::new();
        let mut output = BufReader::new(writing.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        assert!(["first,last,n\n", "1.0.0.0\t-\n"].contains(&line.as_str()), "{line}");
        drop(output);
        let mut messages = String::new();
        writing.stderr.take().unwrap().read_to_string(&mut messages).unwrap();
        assert_eq!((writing.wait().unwrap().code(), messages.as_str()), (Some(0), ""), "{args:?}");
        let _ = feeding.join().unwrap();
    }
}
