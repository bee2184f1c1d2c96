//! BSON, documents one after the other, as mongodump writes them: read as one JSON object per document.

use super::ndjson::Ndjson;
use super::{Format, Source, SourceError, Takes};
use crate::chunk::{Chunk, UnreadableFrame};
use millstream_input::MALFORMED;
use millstream_model::{Fault, Reason};

/// The format's entry in the list.
pub(super) const FORMAT: Format = Format {
    name: "bson",
    about: "BSON, documents one after the other, as mongodump writes them; the default key is _id",
    takes: &[Takes::Nan],
    made: Some(&millstream_input::BSON),
    open: |window| Ok(Box::new(Bson(Ndjson::new(window)))),
};

/// Lines, of which some stand for documents that cannot be read.
struct Bson(Ndjson);

impl Source for Bson {
    fn next_chunk(&mut self) -> Result<Option<Chunk>, SourceError> {
        let Some(mut chunk) = self.0.next_chunk()? else { return Ok(None) };
        let Chunk { bytes, frames, .. } = &mut chunk;
        for frame in frames.iter_mut().filter(|frame| frame.unreadable.is_none()) {
            let line = &bytes[frame.start as usize..][..frame.len as usize];
            if let Some(detail) = problem(line) {
                frame.unreadable = Some(UnreadableFrame::whole(Fault::new(Reason::NotBson, detail)));
            }
        }
        Ok(Some(chunk))
    }
}

/// What is wrong with the document for which a line stands that is no document.
fn problem(line: &[u8]) -> Option<String> {
    let (MALFORMED, says) = line.split_first().map(|(first, says)| (*first, says))? else { return None };
    let end = says.iter().position(|byte| *byte == b':').unwrap_or(says.len());
    Some(String::from_utf8_lossy(&says[..end]).into_owned())
}

#[cfg(test)]
mod tests {
    use super::super::transcript::{good, sizes, transcribe};
    use super::super::{Dialect, Input, Nan};
    use fastrand::Rng;
    use millstream_model::Reason;
    use millstream_testkit::{Cases, Pieces, gzip, zstd};

    /// Three documents. A string in the second has a length that is not true.
    const CONTENT: &[u8] = b"\x0e\0\0\0\x10_id\0\x01\0\0\0\0\
        \x10\0\0\0\x02_id\0\x09\0\0\0a\0\0\
        \x0e\0\0\0\x10_id\0\x03\0\0\0\0";

    const LINE: &str =
        "!a value goes beyond the end of its document (byte 13 of the document): EAAAAAJfaWQACQAAAGEAAA==";

    #[test]
    fn a_malformed_document_is_a_reject_with_its_place_and_its_bytes() {
        let text = format!("{{\"_id\":1}}\n{LINE}\n{{\"_id\":3}}\n");
        for mut rng in Cases::new(50) {
            for content in [CONTENT.to_vec(), gzip(CONTENT), zstd(CONTENT)] {
                let largest = *rng.choice(&[1, 5, 1000]).unwrap();
                let pieces = Pieces::new(&content, largest, &mut Rng::with_seed(rng.u64(..)));
                let input = Input::from_reader(Box::new(pieces), "test", None).unwrap();
                let options = sizes(*rng.choice(&[1, 16, 1000]).unwrap(), 1000);
                let got = transcribe(input, "bson", text.as_bytes(), &options).unwrap();
                assert_eq!(
                    (got.len(), &got[0], &got[2]),
                    (3, &good(0, 1, "{\"_id\":1}"), &good(10 + LINE.len() as u64 + 1, 3, "{\"_id\":3}"))
                );
                assert_eq!(got[1].bytes, LINE.as_bytes());
                assert_eq!(got[1].unreadable, Some((Reason::NotBson, None)));
            }
        }
    }

    #[test]
    fn an_empty_file_is_a_collection_without_documents_and_text_is_none() {
        let read = |content: &'static [u8], dialect: Dialect| {
            let input = Input::from_reader(Box::new(content), "test", Some(content.len() as u64)).unwrap();
            let options = super::super::SourceOptions { dialect, ..sizes(1000, 1000) };
            transcribe(input, "bson", b"", &options).map_err(|error| error.to_string())
        };
        assert_eq!(read(b"", Dialect::default()), Ok(Vec::new()));
        assert_eq!(read(b"", Dialect { nan: Nan::Text, ..Dialect::default() }), Ok(Vec::new()));
        for text in [&b"{}\n"[..], b"\n", b"{\"_id\":1}"] {
            assert!(read(text, Dialect::default()).unwrap_err().contains("is no BSON file"));
        }
    }
}
