//! Two streams for one collection, and the rows that they must leave in whatever order they meet.

use crate::hostile::hostile_lines;
use fastrand::Rng;
use std::collections::BTreeMap;
use std::io::Write;

/// Good documents of a stream.
const DOCUMENTS: usize = 40_000;
/// Keys of both streams; a good document in five goes to one of the hot ones.
const KEYS: i64 = 9_000;
const HOT_KEYS: i64 = 3;
/// Documents of a wave. Within a wave, a stream visits its keys in order.
const WAVE: usize = 2_000;
/// Longest bad line; the longer ones are slow, and tested on their own.
const BAD_BYTES_MAX: usize = 1 << 16;

/// Lines with a good key and a bad version.
const VERSIONLESS: &[(&str, &str)] = &[
    ("{\"id\":4}", "version_missing"),
    ("{\"id\":0,\"op\":\"d\"}", "version_missing"),
    ("{\"id\":1,\"v\":null}", "version_missing"),
    ("{\"id\":2,\"v\":\"late\"}", "version_type"),
    ("{\"id\":5,\"v\":1.5,\"op\":\"d\"}", "version_type"),
    ("{\"id\":1,\"v\":9223372036854775808}", "version_type"),
];

/// Lines, and the counts that they must get.
#[derive(Default)]
pub struct Stream {
    pub text: Vec<u8>,
    /// Lines that are not empty.
    pub read: u64,
    /// Reasons by line.
    pub rejects: BTreeMap<i64, String>,
    line: i64,
}

/// The streams and the rows that must be left of them, by id.
pub struct Traffic {
    pub streams: [Stream; 2],
    pub rows: BTreeMap<i64, String>,
}

impl Traffic {
    /// No two documents have the same version, so that the version alone decides which wins.
    pub fn random(rng: &mut Rng) -> Self {
        let mut versions: Vec<usize> = (0..2 * DOCUMENTS).collect();
        rng.shuffle(&mut versions);
        let mut bad = hostile_lines();
        bad.retain(|(line, _)| line.len() < BAD_BYTES_MAX);
        bad.extend(VERSIONLESS.iter().map(|(line, reason)| (line.as_bytes().to_vec(), *reason)));
        let mut newest: BTreeMap<i64, (usize, Option<String>)> = BTreeMap::new();
        let mut streams = [Stream::default(), Stream::default()];
        for (n, wave) in versions.chunks(WAVE).enumerate() {
            let mut documents: Vec<(i64, usize)> = wave.iter().map(|version| (id(rng), *version)).collect();
            documents.sort_by_key(|(id, _)| if n % 2 == 0 { *id } else { -*id });
            for (id, version) in documents {
                let deletes = rng.u8(..6) == 0;
                let document = document(rng, id, version, deletes);
                let stream = &mut streams[n % 2];
                stream.noise(rng, &bad);
                stream.push(rng, document.as_bytes());
                if newest.get(&id).is_none_or(|(known, _)| *known < version) {
                    newest.insert(id, (version, (!deletes).then_some(document)));
                }
            }
        }
        let rows = newest.into_iter().filter_map(|(id, (_, document))| Some((id, document?))).collect();
        Self { streams, rows }
    }
}

impl Stream {
    /// Sometimes a bad line, sometimes an empty one.
    fn noise(&mut self, rng: &mut Rng, bad: &[(Vec<u8>, &str)]) {
        match rng.u8(..) {
            0..6 => {
                let (line, reason) = rng.choice(bad).expect("there are bad lines");
                self.push(rng, line);
                self.rejects.insert(self.line, (*reason).to_owned());
            }
            6..9 => {
                self.text.push(b'\n');
                self.line += 1;
            }
            _ => {}
        }
    }

    fn push(&mut self, rng: &mut Rng, line: &[u8]) {
        self.text.extend_from_slice(line);
        self.text.extend_from_slice(if rng.u8(..10) == 0 { b"\r\n" } else { b"\n" });
        self.line += 1;
        self.read += 1;
    }

    /// The text cut at line ends into this many pieces of about the same size.
    pub fn pieces(&self, count: usize) -> Vec<usize> {
        let end = |at: usize| self.text[at..].iter().position(|byte| *byte == b'\n').map_or(at, |more| at + more + 1);
        (1..=count).map(|n| if n == count { self.text.len() } else { end(self.text.len() * n / count) }).collect()
    }
}

fn id(rng: &mut Rng) -> i64 {
    if rng.u8(..5) == 0 { rng.i64(..HOT_KEYS) } else { rng.i64(HOT_KEYS..KEYS) }
}

fn document(rng: &mut Rng, id: i64, version: usize, deletes: bool) -> String {
    let mut document = Vec::new();
    let op = if deletes { "d" } else { "p" };
    let note = "x".repeat(rng.usize(..200));
    write!(document, "{{\"note\":\"{note}\",\"v\":{version},\"op\":\"{op}\",\"id\":{id}}}").expect("memory takes it");
    String::from_utf8(document).expect("it is text")
}
