//! One document of a data set: real-looking JSON of an exact length, the same for the same seed.

use crate::limits::{DOCUMENT_BYTES_MIN, ITEM_BYTES_MAX};
use fastrand::Rng;
use std::io::Write;

const KINDS: &[&str] = &["fan", "gauge", "lamp", "meter", "pump", "sensor", "valve"];

/// Words of the texts. A few frequent words make texts compress as real texts do.
const WORDS: &[&str] = &[
    "amber", "an", "and", "at", "basin", "by", "cargo", "copper", "delta", "depot", "ember", "field", "for", "from",
    "garden", "harbor", "in", "island", "lantern", "market", "meadow", "mill", "north", "of", "on", "orchard", "over",
    "paper", "quarry", "river", "stone", "the", "timber", "to", "under", "valley", "water", "west", "wheel", "with",
];

/// Upper bound of the number in every document. The sum of these numbers shows whether the right documents arrived.
const NUMBERS_END: u64 = 1 << 47;

/// Appends a document of exactly `bytes` bytes, without newline, and returns the number in it.
///
/// # Panics
/// If `bytes` is below [`DOCUMENT_BYTES_MIN`].
pub(crate) fn put(out: &mut Vec<u8>, id: &str, bytes: usize, rng: &mut Rng) -> u64 {
    assert!(bytes >= DOCUMENT_BYTES_MIN, "a document holds its fields");
    let end = out.len() + bytes;
    let number = rng.u64(..NUMBERS_END);
    put_fields(out, id, number, rng);
    if end - out.len() > 2 * ITEM_BYTES_MAX {
        out.extend_from_slice(b",\"items\":[");
        put_item(out, rng);
        while end - out.len() > ITEM_BYTES_MAX {
            out.push(b',');
            put_item(out, rng);
        }
        out.push(b']');
    }
    out.extend_from_slice(b",\"note\":\"");
    put_text(out, end - 2, rng);
    out.extend_from_slice(b"\"}");
    debug_assert_eq!(out.len(), end);
    number
}

fn put_fields(out: &mut Vec<u8>, id: &str, number: u64, rng: &mut Rng) {
    let (month, day) = (rng.u8(1..=12), rng.u8(1..=28));
    let (hour, minute, second) = (rng.u8(..24), rng.u8(..60), rng.u8(..60));
    let (kind, zone, load) = (rng.choice(KINDS).unwrap_or(&"pump"), rng.u8(1..=40), rng.u8(..100));
    let ok = rng.u8(..10) > 0;
    write!(
        out,
        "{{\"id\":\"{id}\",\"n\":{number},\"at\":\"2026-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z\",\
         \"ok\":{ok},\"device\":{{\"kind\":\"{kind}\",\"zone\":{zone},\"load\":0.{load:02}}}"
    )
    .expect("memory takes every write");
}

fn put_item(out: &mut Vec<u8>, rng: &mut Rng) {
    let (sku, count, price, cents) = (rng.u32(..), rng.u8(1..=99), rng.u16(1..=999), rng.u8(..100));
    let mut word = || rng.choice(WORDS).unwrap_or(&"mill");
    write!(
        out,
        "{{\"sku\":\"{sku:08x}\",\"name\":\"{} {}\",\"count\":{count},\"price\":{price}.{cents:02},\
         \"tags\":[\"{}\",\"{}\"]}}",
        word(),
        word(),
        word(),
        word()
    )
    .expect("memory takes every write");
}

/// Appends words up to the position; the last one is cut off.
fn put_text(out: &mut Vec<u8>, end: usize, rng: &mut Rng) {
    while out.len() < end {
        out.extend_from_slice(rng.choice(WORDS).unwrap_or(&"mill").as_bytes());
        out.push(b' ');
    }
    out.truncate(end);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_is_exact_and_every_document_is_json() {
        let mut rng = Rng::with_seed(7);
        for bytes in (DOCUMENT_BYTES_MIN..700).chain([2048, 20_480]) {
            for _ in 0..20 {
                let mut out = b"before".to_vec();
                let number = put(&mut out, "0123456789abcdef", bytes, &mut rng);
                let document = &out[6..];
                assert_eq!(document.len(), bytes);
                assert!(!document.contains(&b'\n'));
                let value: serde_json::Value = serde_json::from_slice(document).unwrap();
                assert_eq!(value["n"], number);
                assert_eq!(value["id"], "0123456789abcdef");
                assert!(value["device"]["zone"].is_u64(), "{value}");
                let items = value["items"].as_array().map_or(0, Vec::len);
                assert!(items * ITEM_BYTES_MAX * 2 + 500 > bytes, "{items} items in {bytes} bytes");
            }
        }
    }

    #[test]
    fn the_same_seed_makes_the_same_document() {
        let make = |seed| {
            let mut out = Vec::new();
            put(&mut out, "0000000000000001", 2048, &mut Rng::with_seed(seed));
            out
        };
        assert_eq!(make(1), make(1));
        assert_ne!(make(1), make(2));
    }
}
