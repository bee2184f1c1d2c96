//! The reader of rejects files: what was written is read back, what people made of it is no trouble.

use crate::frame::{assert_kept, framed};
use millstream_document::RejectLine;

/// The first byte of the input says how long a document may be.
const LONGEST: [usize; 2] = [20, 16 << 20];

pub(crate) fn check(input: &[u8]) {
    let Some((choice, input)) = input.split_first() else { return };
    let document_bytes_max = LONGEST[usize::from(choice & 1)];
    if let Some(frames) = framed("rejects", input, document_bytes_max) {
        for frame in &frames {
            assert_kept(input, frame);
            assert!(
                frame.unreadable.is_some() || frame.bytes.len() <= document_bytes_max,
                "above the limit: {frame:?}"
            );
        }
        let input = input.strip_prefix(b"\xef\xbb\xbf").unwrap_or(input);
        let is_blank = |line: &[u8]| line.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r'));
        // If the first line ends in a carriage return alone, so may all others.
        let first = input.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
        let returns =
            first.is_some_and(|at| input[at] == b'\r' && input.get(at + 1).is_some_and(|next| *next != b'\n'));
        let is_end = |byte: &u8| *byte == b'\n' || (returns && *byte == b'\r');
        let lines = input.split(is_end).filter(|line| !is_blank(line)).count();
        assert_eq!(frames.len(), lines, "each line is a document or a reject");
    }
    written_and_read_back(input);
}

fn written_and_read_back(document: &[u8]) {
    let mut line = RejectLine {
        load_id: 1,
        source: "fuzz".into(),
        byte_offset: 0,
        line: 1,
        reason: "not_json".into(),
        detail: String::new(),
        document: None,
        document_base64: None,
        bytes: document.len() as u64,
        truncated: false,
    };
    line.set_document(document);
    let file = serde_json::to_vec(&line).expect("a line of a rejects file");
    let frames = framed("rejects", &file, LONGEST[1]).expect("a rejects file");
    assert_eq!(frames.len(), 1);
    assert_eq!((&*frames[0].bytes, &frames[0].unreadable), (document, &None), "read back");
}
