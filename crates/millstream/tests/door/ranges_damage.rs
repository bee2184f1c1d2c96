//! Damaged files of ranges under every command that reads one: no signal ends it, and what it answers is right.

use crate::process::{Run, command};
use crate::ranges::{Place, build};
use millstream_testkit::{is_night, todays};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use xxhash_rust::xxh3::xxh3_128;

/// Files with overwritten bytes that the commands read by day, and at night.
const OVERWRITTEN: (u64, u64) = (16, 300);

/// Place of a store's first generation in its directory.
const FILE: &str = "00000001.lmdb";

/// A store with a sound file.
struct Sound {
    place: Place,
    store: String,
    bytes: Vec<u8>,
    receipt: Value,
    /// What [`Sound::answers`] prints of it.
    printed: Vec<String>,
}

impl Sound {
    fn new() -> Self {
        let place = Place::new();
        let mut lines = format!("{{\"network\":\"2001:db8::/32\",\"x\":\"{}\"}}\n", "x".repeat(10_000));
        for n in 0..1_000_u32 {
            let first = std::net::Ipv4Addr::from_bits(n << 8);
            writeln!(lines, "{{\"network\":\"{first}/25\",\"n\":{n}}}").unwrap();
        }
        let (store, file) = (place.path("sound"), place.write("sound.ndjson", lines));
        build(&store, &file, &[]).ends(0);
        let bytes = fs::read(format!("{store}/{FILE}")).unwrap();
        let receipt = fs::read_to_string(format!("{store}/00000001.json")).unwrap();
        let receipt = serde_json::from_str(&receipt).unwrap();
        let mut sound = Self { place, store, bytes, receipt, printed: Vec::new() };
        let answers = sound.answers("it is sound", &sound.store);
        assert!(answers.iter().all(|run| run.code == 0), "{answers:?}");
        sound.printed = answers.into_iter().map(|run| run.stdout).collect();
        sound
    }

    fn page_bytes(&self) -> usize {
        u32::from_ne_bytes(self.bytes[40..44].try_into().unwrap()) as usize
    }

    /// What the commands say whose output does not name the file.
    fn answers(&self, what: &str, store: &str) -> [Run; 3] {
        [
            &["get", store, "0.0.0.1", "0.0.77.1", "0.3.231.1", "9.9.9.9", "2001:db8::5"][..],
            &["export", store, "--to", "ndjson"],
            &["diff", store, &self.store],
        ]
        .map(|args| ended(what, args))
    }

    /// The store with another file and its receipt, or one that was made to fit.
    fn with(&self, bytes: &[u8], fits: bool) -> String {
        let store = self.place.path("damaged");
        if fs::create_dir(&store).is_ok() {
            symlink(FILE, format!("{store}/current")).unwrap();
        }
        let mut receipt = self.receipt.clone();
        if fits {
            receipt["bytes"] = json!(bytes.len());
            receipt["xxh3"] = json!(format!("{:032x}", xxh3_128(bytes)));
        }
        fs::write(format!("{store}/{FILE}"), bytes).unwrap();
        fs::write(format!("{store}/00000001.json"), receipt.to_string()).unwrap();
        store
    }

    /// Lets every command read a damaged file: with its receipt, with one that was made to fit, and alone.
    fn check(&self, what: &str, bytes: &[u8]) -> [[Run; 3]; 2] {
        let store = self.with(bytes, false);
        for refused in self.answers(what, &store) {
            assert!(refused.code == 2 && refused.stdout.is_empty(), "{what}: {refused:?}");
        }
        assert_eq!(ended(what, &["verify", &store]).code, 1, "{what}");
        assert_eq!(ended(what, &["stat", &store]).code, 2, "{what}");
        let fitted = |store: &str| {
            ended(what, &["verify", store]);
            ended(what, &["stat", store]);
            self.answers(what, store)
        };
        let fits = fitted(&self.with(bytes, true));
        [fits, fitted(&self.place.write("alone", bytes))]
    }
}

/// Runs a command on stores, which may find them sound or not.
fn ended(what: &str, args: &[&str]) -> Run {
    let output = command(&[&["ranges"][..], args].concat()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    let Some(code) = output.status.code() else { panic!("{what}: {args:?}: {}: {stderr}", output.status) };
    assert!((0..=2).contains(&code), "{what}: {args:?}: {code}: {stderr}");
    Run { code, stdout, stderr }
}

#[test]
fn a_file_that_was_cut_is_refused_or_answers_as_the_whole() {
    let sound = Sound::new();
    let (whole, page) = (sound.bytes.len(), sound.page_bytes());
    let lengths = (0..whole).step_by(page / 2).chain([100, page + 100, whole - 100, whole - 1]);
    let mut refused = 0;
    for length in todays(lengths) {
        let what = format!("cut to {length} of {whole} bytes");
        for answers in sound.check(&what, &sound.bytes[..length]) {
            refused += usize::from(answers[0].code == 2);
            for (run, printed) in answers.iter().zip(&sound.printed) {
                // LMDB needs none of the pages that a file ends with if they are free.
                assert!(run.code == 2 || (run.code == 0 && run.stdout == *printed), "{what}: {run:?}");
            }
        }
    }
    assert!(refused > 0);
}

#[test]
fn a_file_with_overwritten_bytes_ends_no_command_by_a_signal() {
    let sound = Sound::new();
    let page = sound.page_bytes();
    let (by_day, at_night) = OVERWRITTEN;
    let count = if is_night() { at_night } else { by_day };
    for seed in 0..count {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut bytes = sound.bytes.clone();
        for _ in 0..rng.usize(1..4) {
            // Half of them where a page has its header and the places of its nodes.
            let at = if rng.bool() { rng.usize(..bytes.len()) } else { page * rng.usize(..bytes.len() / page) };
            let end = (at + rng.usize(1..64)).min(bytes.len());
            rng.fill(&mut bytes[at..end]);
        }
        if bytes == sound.bytes {
            continue;
        }
        sound.check(&format!("overwritten with seed {seed}"), &bytes);
    }
}

#[test]
fn damaged_meta_pages_are_refused() {
    let sound = Sound::new();
    let page = sound.page_bytes();
    for (name, byte) in [("zeros", 0), ("ones", 0xff)] {
        for metas in [&[0][..], &[page], &[0, page]] {
            // All of a meta page, what is behind its header, and what is behind its size of a page.
            for begin in todays([0, 16, 44]) {
                let mut bytes = sound.bytes.clone();
                metas.iter().for_each(|meta| bytes[meta + begin..meta + 152].fill(byte));
                let what = format!("{name} from byte {begin} of the meta pages at {metas:?}");
                for answers in sound.check(&what, &bytes) {
                    assert!(answers.iter().all(|run| run.code == 2), "{what}: {answers:?}");
                }
            }
        }
    }
}
