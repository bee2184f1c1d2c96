//! The CSV reader: records to documents, each of which depends on the header and its own bytes alone.

use crate::frame::{Framed, assert_kept, framed};
use millstream_engine::decode::{DecodeLimits, Decoder};
use millstream_model::{KeySpec, Reason};

/// Most records that are read alone too.
const ALONE: usize = 8;

/// The first byte of the input says how long a document may be.
const LONGEST: [usize; 4] = [10, 100, 1 << 12, 16 << 20];

pub(crate) fn check(input: &[u8]) {
    let Some((choice, input)) = input.split_first() else { return };
    let document_bytes_max = LONGEST[usize::from(choice & 3)];
    let Some(frames) = framed("csv", input, document_bytes_max) else { return };
    let mut decoder = Decoder::new(&KeySpec { columns: Vec::new() }, DecodeLimits::default());
    for frame in &frames {
        assert_kept(input, frame);
        if frame.unreadable.is_none() {
            assert!(frame.bytes.len() <= document_bytes_max, "longer than the limit: {frame:?}");
            let fault = decoder.decode(&frame.bytes, &mut Vec::new()).err();
            // A field may hold the one character that text of PostgreSQL cannot.
            assert!(fault.is_none_or(|fault| fault.reason == Reason::NulCharacter), "not JSON: {frame:?}");
        }
    }
    let place = |n: usize| usize::try_from(frames[n].offset).expect("in memory");
    for n in 0..frames.len().min(ALONE) {
        let end = if n + 1 < frames.len() { place(n + 1) } else { input.len() };
        let alone = [&input[..place(0)], &input[place(n)..end]].concat();
        // Without the records before it, its bytes may stand where those of another kind of file do.
        let Some(read) = framed("csv", &alone, document_bytes_max) else { continue };
        // Lines behind a record that is too long are read by themselves, for nobody can follow each to the limit again.
        if alone.len() - place(0) > document_bytes_max && read.iter().all(|frame| frame.unreadable.is_some()) {
            continue;
        }
        let of_first = |frame: &Framed| frame.unreadable.as_ref().map(|unreadable| unreadable.reason);
        assert_eq!(read.len(), 1, "the record alone is {read:?}");
        assert_eq!((&read[0].bytes, of_first(&read[0])), (&frames[n].bytes, of_first(&frames[n])), "read alone");
    }
}
