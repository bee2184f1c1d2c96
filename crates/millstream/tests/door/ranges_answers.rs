//! Addresses that are looked up from the command line: a line for each, and other programs at both pipes.

use crate::process::{command, run};
use crate::ranges::{DIRTY, build, many, named, ranges, started, value};
use millstream_testkit::Place;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};

#[test]
fn what_is_no_address_is_answered_on_its_line() {
    let place = Place::make();
    let (store, file) = (place.word("geo"), place.written("dirty.csv", DIRTY));
    build(&store, &file, &[]).ends(1);
    let asked = place.written("asked", b"1.0.0.0\r\n\n 9.9.9.9 \nnon\tsense\n1.02.3.4\nfe80::1%eth0\n\xff\n1.0.129.0");
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
    let mapped = ranges(&["get", &store, "::ffff:1.0.0.0", "--unmap"]).ends(0).stdout;
    assert_eq!(mapped, "::ffff:1.0.0.0\t1.0.0.0-1.0.129.0\t{\"country\":\"AU\"}\n");
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
    let place = Place::make();
    let store = place.word("geo");
    build(&store, &named(&place, "old"), &[]).ends(0);
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
        build(&store, &named(&place, name), &[]).ends(0);
    }
    assert_eq!(ask("10.0.0.7"), old, "it answers from the generation that it opened");
    assert_eq!(value(&store, "10.0.0.7"), "{\"name\":\"newest\"}");
    drop(questions);
    assert_eq!(asking.wait().unwrap().code(), Some(0));
}

#[test]
fn a_reader_that_closes_the_pipe_ends_a_command_quietly() {
    let place = Place::make();
    let store = place.word("geo");
    build(&store, &many(&place, 50_000), &[]).ends(0);
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
