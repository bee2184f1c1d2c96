//! Damaged files of stores: no signal ends who reads them, and what they answer is right.

use crate::process::again;
use crate::stored::{built, exported, known, one, range, stored};
use millstream_ranges::export::{ExportOptions, export};
use millstream_ranges::{Error, Family, Generation, diff, verify};
use millstream_testkit::{Place, is_night, todays};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_128;

/// Files with overwritten bytes that are read by day, and at night.
const OVERWRITTEN: (u64, u64) = (16, 300);

/// Place of a store's first generation in its directory.
const FILE: &str = "00000001.lmdb";

/// Set in the process that reads damaged files.
const VARIABLE: &str = "MILLSTREAM_TEST_DAMAGE";

/// Reads damaged files in a process of its own, because a signal would end all tests.
fn apart(test: &str, read: impl FnOnce()) {
    if std::env::var_os(VARIABLE).is_some() {
        return read();
    }
    let output = again(test, &[(VARIABLE, OsStr::new("1"))]);
    let [said, printed] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert!(output.status.success() && said.contains("1 passed"), "{}: {said}{printed}", output.status);
}

/// Look-ups, an export and a comparison; each of them may find the damage. The error is that of opening the file.
type Answers = Result<[Result<String, Error>; 3], Error>;

/// A store with a sound file.
struct Sound {
    place: Place,
    store: PathBuf,
    bytes: Vec<u8>,
    receipt: Value,
    answers: [String; 3],
}

impl Sound {
    fn new() -> Self {
        let place = Place::make();
        let mut lines = format!("{{\"network\":\"2001:db8::/32\",\"x\":\"{}\"}}\n", "x".repeat(10_000));
        for n in 0..1_000_u32 {
            let first = std::net::Ipv4Addr::from_bits(n << 8);
            writeln!(lines, "{{\"network\":\"{first}/25\",\"n\":{n}}}").unwrap();
        }
        let store = place.path("sound");
        drop(stored(store.clone(), &place.write("sound.ndjson", lines)));
        let bytes = fs::read(store.join(FILE)).unwrap();
        let receipt = fs::read_to_string(store.join("00000001.json")).unwrap();
        let receipt = serde_json::from_str(&receipt).unwrap();
        let mut sound = Self { place, store, bytes, receipt, answers: Default::default() };
        sound.answers = sound.read(&sound.with(&sound.bytes, false)).unwrap().map(Result::unwrap);
        sound
    }

    fn page_bytes(&self) -> usize {
        u32::from_ne_bytes(self.bytes[40..44].try_into().unwrap()) as usize
    }

    /// What a file answers. It is also verified, which may find it sound or not.
    fn read(&self, store: &Path) -> Answers {
        let generation = Generation::open(store, None)?;
        let _ = verify(&generation);
        let found = || -> Result<String, Error> {
            let mut found = String::new();
            for address in ["0.0.0.1", "0.0.77.1", "0.3.231.1", "9.9.9.9", "2001:db8::5"] {
                let Some(range) = generation.get(address.parse().unwrap())? else { continue };
                let damaged = |problem| Error::Damaged { path: store.to_owned(), problem };
                writeln!(found, "{} {}", range.range, range.members().map_err(damaged)?).unwrap();
            }
            Ok(found)
        };
        let mut out = Vec::new();
        let written = export(&generation, "ndjson", &mut out, &ExportOptions::default());
        let sound = Generation::open(&self.store, None).unwrap();
        let compared = diff(&generation, &sound, &mut |_| Ok(()));
        Ok([
            found(),
            written.map(|_| String::from_utf8_lossy(&out).into_owned()),
            compared.map(|counts| format!("{counts:?}")),
        ])
    }

    /// The store with another file and its receipt, or one that was made to fit.
    fn with(&self, bytes: &[u8], fits: bool) -> PathBuf {
        let store = self.place.path("damaged");
        if fs::create_dir(&store).is_ok() {
            symlink(FILE, store.join("current")).unwrap();
        }
        let mut receipt = self.receipt.clone();
        if fits {
            receipt["bytes"] = json!(bytes.len());
            receipt["xxh3"] = json!(format!("{:032x}", xxh3_128(bytes)));
        }
        fs::write(store.join(FILE), bytes).unwrap();
        fs::write(store.join("00000001.json"), receipt.to_string()).unwrap();
        store
    }

    /// Reads a damaged file: with its receipt, with one that was made to fit, and alone.
    fn check(&self, what: &str, bytes: &[u8]) -> [Answers; 2] {
        // If a signal ends this process, the last line says at which file.
        let _ = writeln!(std::io::stderr(), "{what}");
        let refused = Generation::open(&self.with(bytes, false), None).map(|_| ());
        assert!(matches!(refused, Err(Error::Damaged { .. })), "{what}: {refused:?}");
        let fits = self.read(&self.with(bytes, true));
        [fits, self.read(&self.place.write("alone", bytes))]
    }
}

#[test]
fn a_file_that_was_cut_is_refused_or_answers_as_the_whole() {
    apart("damage::a_file_that_was_cut_is_refused_or_answers_as_the_whole", || {
        let sound = Sound::new();
        let (whole, page) = (sound.bytes.len(), sound.page_bytes());
        let lengths = (0..whole).step_by(page / 2).chain([100, page + 100, whole - 100, whole - 1]);
        let mut refused = 0;
        for length in todays(lengths) {
            let what = format!("cut to {length} of {whole} bytes");
            for answers in sound.check(&what, &sound.bytes[..length]) {
                let Ok(answers) = answers else {
                    refused += 1;
                    continue;
                };
                for (answer, expected) in answers.iter().zip(&sound.answers) {
                    // LMDB needs none of the pages that a file ends with if they are free.
                    assert!(answer.as_ref().map_or(true, |answer| answer == expected), "{what}: {answer:?}");
                }
            }
        }
        assert!(refused > 0);
    });
}

#[test]
fn a_file_with_overwritten_bytes_ends_no_reader_by_a_signal() {
    apart("damage::a_file_with_overwritten_bytes_ends_no_reader_by_a_signal", || {
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
            if bytes != sound.bytes {
                let _ = sound.check(&format!("overwritten with seed {seed}"), &bytes);
            }
        }
    });
}

#[test]
fn damaged_meta_pages_are_refused() {
    apart("damage::damaged_meta_pages_are_refused", || {
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
                        let is_refused = answers.as_ref().map_or(true, |all| all.iter().all(Result::is_err));
                        assert!(is_refused, "{what}: {answers:?}");
                    }
                }
            }
        }
    });
}

#[test]
fn a_damaged_file_is_refused_until_the_store_is_built_again() {
    let place = Place::make();
    let store = place.path("geo");
    one(&store, 1);
    built(&store, (0..5_000).map(|n| (range(Family::V4, n * 2, n * 2), format!("\"n\":{n}"))), |_| ()).unwrap();
    let file = store.join("00000002.lmdb");
    let whole = fs::read(&file).unwrap();
    let mut flipped = whole.clone();
    flipped[whole.len() / 2] ^= 1;
    let short = format!("it has {} bytes, and {} were written", whole.len() - 4_096, whole.len());
    for (bytes, expected) in [
        (&flipped[..], "its content has changed since it was written"),
        (&whole[..whole.len() - 4_096], short.as_str()),
        (&b""[..], "it has 0 bytes, and "),
    ] {
        fs::write(&file, bytes).unwrap();
        match Generation::open(&store, None).unwrap_err() {
            Error::Damaged { problem, .. } => assert!(problem.starts_with(expected), "{problem}"),
            error => panic!("{error}"),
        }
        let older = Generation::open(&store, Some(1)).unwrap();
        assert_eq!(exported(&older, "csv", &ExportOptions::default()), b"first,last,build\n0.0.0.10,0.0.0.20,1\n");
    }
    fs::write(&file, &whole).unwrap();
    drop(Generation::open(&store, None).unwrap());
    fs::write(store.join("00000002.json"), "{").unwrap();
    assert!(matches!(Generation::open(&store, None), Err(Error::Damaged { .. })));
    one(&store, 3);
    assert_eq!(known(&store, "0.0.0.15").as_deref(), Some("\"build\":3"));
}
