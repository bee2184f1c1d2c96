//! The scanner: which documents are JSON that jsonb takes, wherever they begin in a word.

use crate::grammar::is_grammatical;
use millstream_document::decode::{DecodeLimits, Decoder};
use millstream_model::{Fault, KeySpec, Reason};

/// Blanks in front of a document that move it through the eight bytes that are read at once.
const SHIFTS: usize = 8;

pub(crate) fn check(document: &[u8]) {
    let mut decoder = Decoder::new(&KeySpec { columns: Vec::new() }, DecodeLimits::default());
    let mut judge = |document: &[u8]| decoder.decode(document, &mut Vec::new());
    let verdict = judge(document);
    match verdict.as_ref().err().map(|fault| fault.reason) {
        None | Some(Reason::NotObject) => assert!(is_grammatical(document), "taken"),
        Some(Reason::NotJson | Reason::InvalidUtf8) => assert!(!is_grammatical(document), "refused: {verdict:?}"),
        // What stopped the scan may hide that the rest is not JSON.
        Some(Reason::NulCharacter | Reason::LoneSurrogate | Reason::NumberOutOfRange | Reason::TooDeep) => {}
        Some(reason) => panic!("a document without a key is refused for {reason:?}"),
    }
    let reason = |verdict: &Result<(), Fault>| verdict.as_ref().err().map(|fault| fault.reason);
    let mut shifted = Vec::with_capacity(document.len() + 2 * SHIFTS);
    for shift in 1..=SHIFTS {
        shifted.clear();
        shifted.resize(shift, b' ');
        shifted.extend_from_slice(document);
        shifted.resize(shifted.len() + shift, b'\n');
        // Bytes that are not UTF-8 are found first, and an open string may take the blanks behind it.
        assert_eq!(reason(&judge(&shifted)), reason(&verdict), "moved by {shift}");
    }
}
