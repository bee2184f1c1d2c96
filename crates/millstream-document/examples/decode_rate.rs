//! Prints how fast documents of several shapes are decoded: nanoseconds per document and MB/s.

#![expect(clippy::print_stdout, reason = "printing is what it is for")]

use millstream_document::decode::{DecodeLimits, Decoder};
use millstream_model::{KeyRequest, KeySpec};
use std::fmt::Write as _;
use std::time::Instant;

/// Bytes of documents per shape; more than a core's cache, as in a load.
const SHAPE_BYTES: usize = 32 << 20;

/// Passes over them; the fastest is printed.
const PASSES: usize = 7;

fn main() {
    println!("{:<34}{:>8}{:>12}{:>10}", "shape", "bytes", "ns/document", "MB/s");
    for (name, key, document) in SHAPES {
        measure(name, key, *document);
    }
}

type Shape = (&'static str, &'static str, fn(u64) -> String);

const SHAPES: &[Shape] = &[
    ("150 B, text key", "id:text", telemetry),
    ("150 B, text and time key", "device:text,ts:timestamptz", telemetry),
    ("150 B, bigint key", "n:bigint", telemetry),
    ("150 B, spaces after , and :", "id:text", spaced),
    ("150 B, not ASCII", "id:text", accented),
    ("2 kB, nested, key inside", "meta.id:text", |n| nested(n, 6)),
    ("2 kB, pretty-printed", "meta.id:text", pretty),
    ("20 kB, nested, key inside", "meta.id:text", |n| nested(n, 76)),
    ("20 kB, long strings", "id:text", prose),
];

fn measure(name: &str, key: &str, document: fn(u64) -> String) {
    let requests = KeyRequest::parse_list(key).expect("a shape's key parses");
    let spec = KeySpec::from_requests(&requests).expect("a shape's key is typed");
    let mut decoder = Decoder::new(&spec, DecodeLimits::default());
    let mut documents = Vec::new();
    let mut bytes = 0;
    while bytes < SHAPE_BYTES {
        documents.push(document(documents.len() as u64));
        bytes += documents[documents.len() - 1].len();
    }
    let mut keys = Vec::with_capacity(128 * documents.len());
    let mut best = f64::INFINITY;
    for _ in 0..PASSES {
        keys.clear();
        let start = Instant::now();
        for document in &documents {
            let decoded = decoder.decode(document.as_bytes(), &mut keys);
            decoded.expect("a shape's documents are good");
        }
        best = best.min(start.elapsed().as_secs_f64());
        std::hint::black_box(&keys);
    }
    let (count, bytes) = (documents.len() as f64, bytes as f64);
    let (each, rate) = (best / count * 1e9, bytes / best / 1e6);
    println!("{name:<34}{:>8.0}{each:>12.0}{rate:>10.0}", bytes / count);
}

/// A number that looks random and is the same in every run.
fn mixed(n: u64) -> u64 {
    (n ^ n >> 31).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
}

fn telemetry(n: u64) -> String {
    let random = mixed(n);
    format!(
        r#"{{"id":"{random:016x}","device":"dev-{}","ts":"2024-03-{:02}T12:{:02}:{:02}Z","n":{n},"temperature":{}.{},"ok":{},"tags":["a","b"],"site":null}}"#,
        random % 5000,
        random % 28 + 1,
        random % 60,
        random / 7 % 60,
        random % 45,
        random % 10,
        random.is_multiple_of(2)
    )
}

fn spaced(n: u64) -> String {
    telemetry(n).replace("\":", "\": ").replace(",\"", ", \"")
}

fn accented(n: u64) -> String {
    telemetry(n).replace("dev-", "Gerät-").replace("null", "\"Zürich\"")
}

fn nested(n: u64, items: u64) -> String {
    let mut text = format!(r#"{{"meta":{{"id":"{:016x}","source":"shop"}},"items":["#, mixed(n));
    for item in 0..items {
        let comma = if item == 0 { "" } else { "," };
        let random = mixed(n + item);
        let _ = write!(
            text,
            r#"{comma}{{"sku":"{random:x}","name":"Thing number {item} with a \"name\" of some length","price":{}.99,"quantity":{},"options":{{"colour":"red","size":[1,2,3],"gift":false}},"note":"Lorem ipsum dolor sit amet, consectetur adipiscing elit"}}"#,
            random % 1000,
            random % 7
        );
    }
    text.push_str("]}");
    text
}

fn pretty(n: u64) -> String {
    let value: serde_json::Value = serde_json::from_str(&nested(n, 4)).expect("a shape's documents are good");
    serde_json::to_string_pretty(&value).expect("a value can be printed")
}

fn prose(n: u64) -> String {
    let text = "It is a truth universally acknowledged, that a single man. ".repeat(330);
    format!(r#"{{"id":"{:016x}","text":"{text}"}}"#, mixed(n))
}
