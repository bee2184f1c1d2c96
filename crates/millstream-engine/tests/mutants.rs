//! Damaged copies of real documents: our decoder, a whole load and PostgreSQL's parser accept the same ones.

use crate::scene::{Files, request, run};
use fastrand::Rng;
use millstream_document::decode::{DecodeLimits, Decoder, JsonbText};
use millstream_document::source::{Location, SourceOptions, open};
use millstream_model::limits::NESTING_MAX;
use millstream_model::{Fault, KeySpec, Reason};
use millstream_testkit::{Cases, each_build};
use std::collections::BTreeMap;
use std::path::Path;

/// Lines that the server parses in one statement, and that are loaded together.
const LINES: usize = 2_000;
/// Real documents that are mutated.
const DOCUMENTS: usize = 5_000;

/// What a mutation does to a line, which begins as one real document.
const MUTATIONS: &[fn(&mut Vec<u8>, &mut Rng)] = &[
    |line, rng| flip(line, rng),
    |line, rng| line.truncate(rng.usize(..=line.len())),
    |line, rng| at_structure(line, rng, |line, at, _| drop(line.splice(at..=at, []))),
    |line, rng| at_structure(line, rng, |line, at, _| line.insert(at, line[at])),
    |line, rng| at_structure(line, rng, |line, at, rng| line[at] = *rng.choice(STRUCTURE).expect("some")),
    |line, rng| in_string(line, rng, ESCAPES),
    |line, rng| in_string(line, rng, SURROGATES),
    |line, rng| in_string(line, rng, CONTROLS),
    |line, rng| in_string(line, rng, ODD_UTF8),
    |line, rng| as_value(line, rng, NUMBERS),
    |line, rng| as_value(line, rng, NAMES),
    |line, rng| as_member(line, rng, MEMBERS),
    |line, rng| nest(line, rng),
    |line, rng| at_structure(line, rng, |line, at, rng| splice(line, at, rng.choice(SPACES).expect("some"))),
    |line, rng| drop(line.splice(..0, rng.choice(SPACES).expect("some").bytes())),
    |line, rng| line.extend(rng.choice(SPACES).expect("some").bytes()),
    |line, rng| {
        let (at, byte) = (rng.usize(..=line.len()), rng.u8(..));
        line.insert(at, byte);
    },
];

const STRUCTURE: &[u8] = b"{}[]:,\"";
const ESCAPES: &[&str] =
    &["\\n", "\\\"", "\\\\", "\\/", "\\u0041", "\\u00e9", "\\u2028", "\\x", "\\u12", "\\U0041", "\\'", "\\", "\\u0000"];
const SURROGATES: &[&str] = &[
    "\\ud83d\\ude00",
    "\\ud83d",
    "\\ude00",
    "\\ud83d\\ud83d",
    "\\ud83dx",
    "\\uDBFF\\uDFFF",
    "\\ud83d\\n",
    "\\ud83d\\u0041",
];
const CONTROLS: &[&str] = &["\0", "\u{1}", "\t", "\u{b}", "\u{1f}", "\u{7f}", "\u{80}", "\u{85}", "\r"];
const ODD_UTF8: &[&str] = &["é", "漢", "😀", "\u{feff}", "\u{fffe}", "\u{10ffff}", "\u{2028}"];
const NUMBERS: &[&str] = &[
    "0",
    "-0",
    "01",
    "1.50",
    "1e2",
    "1E-2",
    "1.",
    ".5",
    "-",
    "+1",
    "1e",
    "1e400",
    "1e131071",
    "1e131072",
    "1e-16383",
    "1e-16384",
    "0e99",
    "NaN",
    "Infinity",
    "0x1f",
    "1_000",
    "9223372036854775808",
    "-9223372036854775809",
    "1e+",
    "--1",
    "12345678901234567890.123456789",
];
const NAMES: &[&str] = &["true", "false", "null", "True", "nul", "nulll", "{}", "[]", "[1,]", "{,}", "\"\"", "'x'"];
const MEMBERS: &[&str] = &[
    "\"geonameid\":7",
    "\"geonameid\":\"seven\"",
    "\"geonameid\":null",
    "\"geonameid\":[]",
    "\"geonameid\":1.50",
    "\"geonameid\":1e2",
    "\"geonameid\":true",
    "\"geoname\\u0069d\":\"\\u0037\"",
    "\"name\":\"twice\",\"name\":\"thrice\"",
    "\"\":0",
    "\"\\ud83d\":1",
    "a:1",
    "\"a\"",
];
const SPACES: &[&str] = &[" ", "\t", "\r", " \t ", "\u{b}", "\u{c}", "\u{a0}", "\u{feff}", "\0", "        "];

fn flip(line: &mut [u8], rng: &mut Rng) {
    if let Some(byte) = rng.choice(line.iter_mut()) {
        *byte ^= 1 << rng.u8(..8);
    }
}

/// Changes a line at one of its structural characters.
fn at_structure(line: &mut Vec<u8>, rng: &mut Rng, change: impl Fn(&mut Vec<u8>, usize, &mut Rng)) {
    let places: Vec<usize> = (0..line.len()).filter(|at| STRUCTURE.contains(&line[*at])).collect();
    if let Some(at) = rng.choice(places) {
        change(line, at, rng);
    }
}

fn splice(line: &mut Vec<u8>, at: usize, text: &str) {
    line.splice(at..at, text.bytes());
}

/// Puts a piece behind a quote, most often into a string.
fn in_string(line: &mut Vec<u8>, rng: &mut Rng, pieces: &[&str]) {
    let quotes: Vec<usize> = line.iter().enumerate().filter(|(_, byte)| **byte == b'"').map(|(at, _)| at).collect();
    if let Some(at) = rng.choice(quotes) {
        splice(line, at + 1, rng.choice(pieces).expect("some"));
    }
}

/// Puts another value behind a colon.
fn as_value(line: &mut Vec<u8>, rng: &mut Rng, values: &[&str]) {
    let colons: Vec<usize> = line.iter().enumerate().filter(|(_, byte)| **byte == b':').map(|(at, _)| at).collect();
    let Some(at) = rng.choice(colons) else { return };
    let end = line[at..].iter().position(|byte| matches!(byte, b',' | b'}')).map_or(line.len(), |n| at + n);
    line.splice(at + 1..end, rng.choice(values).expect("some").bytes());
}

/// Adds a member at the front or the end, where it wins.
fn as_member(line: &mut Vec<u8>, rng: &mut Rng, members: &[&str]) {
    let member = rng.choice(members).expect("some");
    if rng.bool() && line.last() == Some(&b'}') {
        splice(line, line.len() - 1, &format!(",{member}"));
    } else if line.first() == Some(&b'{') {
        splice(line, 1, &format!("{member},"));
    }
}

/// Nests a value about as deep as a document may be.
fn nest(line: &mut Vec<u8>, rng: &mut Rng) {
    if line.last() == Some(&b'}') {
        let depth = if rng.bool() { rng.usize(1..20) } else { rng.usize(NESTING_MAX - 3..NESTING_MAX + 2) };
        let close = if rng.u8(..4) == 0 { depth - 1 } else { depth };
        let (open, close) = ("[".repeat(depth), "]".repeat(close));
        splice(line, line.len() - 1, &format!(",\"deep\":{open}{close}"));
    }
}

/// A line that is not blank: the reader would skip it.
fn mutant(documents: &[Vec<u8>], rng: &mut Rng) -> Vec<u8> {
    loop {
        let mut line = rng.choice(documents).expect("real documents").clone();
        for _ in 0..rng.usize(0..4) {
            MUTATIONS[rng.usize(..MUTATIONS.len())](&mut line, rng);
        }
        line.iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = b' ');
        if line.iter().any(|byte| !matches!(byte, b' ' | b'\t' | b'\r')) {
            return line;
        }
    }
}

fn real_documents() -> Vec<Vec<u8>> {
    let data = Location::File(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/cities.ndjson.zst"));
    let mut source = open(&data, 0, "ndjson", &SourceOptions::default()).expect("the repository's data").source;
    let mut documents = Vec::new();
    while documents.len() < DOCUMENTS
        && let Some(chunk) = source.next_chunk().expect("the repository's data")
    {
        documents.extend(chunk.frames.iter().map(|frame| chunk.document(frame).to_vec()));
    }
    documents.truncate(DOCUMENTS);
    documents
}

/// Whether a limit of ours refuses what the server accepts.
fn is_our_limit(fault: &Fault) -> bool {
    fault.reason == Reason::TooDeep || fault.reason == Reason::NumberOutOfRange && fault.detail.contains("spelled out")
}

#[tokio::test(flavor = "multi_thread")]
async fn mutated_lines_are_accepted_and_stored_as_by_postgresql() {
    let documents = real_documents();
    each_build(async |database| {
        let client = database.client().await;
        client.batch_execute(include_str!("mutants.sql")).await.unwrap();
        let files = Files::new();
        let mut decoder = Decoder::new(&KeySpec { columns: Vec::new() }, DecodeLimits::default());
        let (mut jsonb, mut seen) = (JsonbText::default(), BTreeMap::new());
        for (round, mut rng) in Cases::new(1).enumerate() {
            // The file must not begin like a byte order mark or compressed data.
            let mut lines = vec![documents[0].clone()];
            lines.extend((1..LINES).map(|_| mutant(&documents, &mut rng)));
            let sql = "select m.text from unnest($1::bytea[]) with ordinality as l (line, n), mutant(line) as m order by n";
            let rows = client.query(sql, &[&lines]).await.unwrap();
            assert_eq!(rows.len(), lines.len());
            let mut limited = Vec::new();
            for (line, row) in lines.iter().zip(&rows) {
                let theirs: Option<&str> = row.get(0);
                let ours = match decoder.decode(line, &mut Vec::new()) {
                    Ok(()) => {
                        let mut text = Vec::new();
                        jsonb.put(line, &mut text);
                        *seen.entry("taken").or_insert(0) += 1;
                        Some(String::from_utf8(text).unwrap())
                    }
                    Err(fault) => {
                        *seen.entry(fault.reason.code()).or_insert(0) += 1;
                        if fault.reason == Reason::NotObject {
                            assert!(theirs.is_some_and(|text| !text.starts_with('{')), "{}", line.escape_ascii());
                            continue;
                        }
                        if is_our_limit(&fault) {
                            limited.push(line.clone());
                            continue;
                        }
                        None
                    }
                };
                assert_eq!(ours.as_deref(), theirs, "{}", line.escape_ascii());
            }
            lines.retain(|line| !limited.contains(line));
            let file = files.write("mutants.ndjson", lines.join(&b'\n'));
            let table = format!("public.mutants_{round}");
            let wanted = request(&table, "id=geonameid:text", &[file]);
            let receipt = run(&database.url(), &wanted).await.receipt;
            assert_eq!(receipt.counters.read, lines.len() as u64);
            assert!(receipt.counters.rejected > 0 && receipt.counters.inserted > 0, "{receipt:?}");
            let sql = format!(
                "select count(*), min(coalesce(loaded.id, expected.id)) filter (where loaded.doc::text is distinct from expected.doc)
                 from mutant_rows($1) as expected full join {table} as loaded on loaded.id = expected.id collate \"C\""
            );
            let row = client.query_one(&sql, &[&lines]).await.unwrap();
            assert_eq!(row.get::<_, Option<&str>>(1), None, "this key is stored otherwise");
            assert_eq!(row.get::<_, i64>(0), i64::try_from(receipt.counters.inserted).unwrap());
        }
        println!("{seen:?}");
        assert!(seen["taken"] > 0 && seen.len() > 5, "the lines are all alike: {seen:?}");
    })
    .await;
}
