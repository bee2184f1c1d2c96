//! Reads the lines of a rejects file whose documents were mended.

use super::csv::SingleRecords;
use super::ndjson::Ndjson;
use super::window::{Window, index, too_large};
use super::{Format, Source, SourceError, Takes};
use crate::chunk::{Chunk, Frame, UnreadableFrame};
use crate::limits::REJECT_LINE_BYTES_MAX;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use millstream_model::{Fault, Reason};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// The format's entry in the list.
pub(super) const FORMAT: Format = Format {
    name: "rejects",
    about: "rejects, as a load or an export of rejects writes them; mend the documents first; with the option header \
            they are records of CSV",
    takes: &[Takes::NamedFields, Takes::Delimiter],
    made: None,
    open: |window| Ok(Box::new(Rejects::new(window)?)),
};

/// The members of a line that are read. A person has edited the line, so nothing else in it is relied on.
#[derive(Deserialize)]
struct Mended<'a> {
    /// The document as a string, or directly as JSON.
    #[serde(borrow, default)]
    document: Option<&'a RawValue>,
    #[serde(borrow, default)]
    document_base64: Option<Cow<'a, str>>,
    #[serde(default)]
    truncated: bool,
}

/// Documents of a rejects file; their positions are those of its lines.
struct Rejects {
    lines: Ndjson,
    document_bytes_max: usize,
    /// Reads a document that is a string as a record, if the columns are named.
    records: Option<SingleRecords>,
}

impl Rejects {
    fn new(window: Window) -> Result<Self, SourceError> {
        let document_bytes_max = window.options().document_bytes_max;
        let line_bytes_max = document_bytes_max.max(REJECT_LINE_BYTES_MAX);
        let records = SingleRecords::of(&window.options().dialect, document_bytes_max).transpose();
        let records = records.map_err(|problem| problem.into_error(&window))?;
        Ok(Self { lines: Ndjson::with_line_limit(window, line_bytes_max), document_bytes_max, records })
    }

    /// Appends the document of a line.
    fn put(&self, line: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
        let start = out.len();
        let unfit = |detail: String| Fault::new(Reason::NotJson, detail);
        let mended: Mended<'_> =
            serde_json::from_slice(line).map_err(|e| unfit(format!("not a line of a rejects file: {e}")))?;
        if mended.truncated {
            let detail = "only head and tail of the document are here; put all of it in and remove `truncated`";
            return Err(Fault::new(Reason::TooLarge, detail));
        }
        match (mended.document, mended.document_base64) {
            (Some(json), None) if json.get().starts_with('"') => {
                let text: String = serde_json::from_str(json.get()).map_err(|e| unfit(format!("`document`: {e}")))?;
                match &self.records {
                    Some(records) => records.put(text.as_bytes(), out)?,
                    None => out.extend_from_slice(text.as_bytes()),
                }
            }
            (Some(json), None) => out.extend_from_slice(json.get().as_bytes()),
            (None, Some(text)) => {
                let decoded = STANDARD.decode(text.as_bytes());
                let decoded = decoded.map_err(|_| unfit("`document_base64` is not base64".into()))?;
                match &self.records {
                    Some(records) => records.put(&decoded, out)?,
                    None => out.extend_from_slice(&decoded),
                }
            }
            _ => return Err(unfit("one of `document` and `document_base64` is needed".into())),
        }
        let len = out.len() - start;
        if len > self.document_bytes_max {
            return Err(too_large(len as u64, self.document_bytes_max));
        }
        Ok(())
    }
}

impl Source for Rejects {
    fn next_chunk(&mut self) -> Result<Option<Chunk>, SourceError> {
        let Some(chunk) = self.lines.next_chunk()? else { return Ok(None) };
        let mut bytes = Vec::with_capacity(chunk.bytes.len());
        let mut frames = Vec::with_capacity(chunk.frames.len());
        for frame in &chunk.frames {
            let line = chunk.document(frame);
            let start = bytes.len();
            let mut unreadable = frame.unreadable.clone();
            if unreadable.is_none() {
                unreadable = self.put(line, &mut bytes).err().map(UnreadableFrame::whole);
            }
            if unreadable.is_some() {
                bytes.truncate(start);
                bytes.extend_from_slice(line);
            }
            frames.push(Frame { start: index(start), len: index(bytes.len() - start), unreadable, ..*frame });
        }
        Ok(Some(Chunk { bytes: bytes.into(), frames, ..chunk }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::transcript::{bad, good, read, read_oddly, sizes, transcribe};
    use super::super::{Dialect, Input};
    use crate::RejectLine;
    use millstream_model::Reason::{CsvFields, CsvSyntax, DamagedSource, NotJson, TooLarge};
    use millstream_testkit::Cases;

    fn line(document: &[u8]) -> RejectLine {
        let mut line = RejectLine {
            load_id: 7,
            source: "in.ndjson".into(),
            byte_offset: 12,
            line: 3,
            reason: "not_json".into(),
            detail: "expected ',' at byte 4".into(),
            document: None,
            document_base64: None,
            bytes: document.len() as u64,
            truncated: false,
        };
        line.set_document(document);
        line
    }

    #[test]
    fn reject_lines_round_trip() {
        for mut rng in Cases::new(100) {
            let documents: Vec<Vec<u8>> = (0..rng.usize(0..6))
                .map(|_| (0..rng.usize(0..20)).map(|_| if rng.bool() { rng.u8(..) } else { b'"' }).collect())
                .collect();
            let mut file = Vec::new();
            for document in &documents {
                serde_json::to_writer(&mut file, &line(document)).unwrap();
                file.push(b'\n');
            }
            let got = read_oddly("rejects", &file, &file, 1 << 20, &mut rng).unwrap();
            assert!(got.iter().all(|t| t.unreadable.is_none()));
            assert!(got.into_iter().map(|t| t.bytes).eq(documents));
        }
    }

    #[test]
    fn repaired_lines_need_only_the_document() {
        let text = concat!(
            r#"{"document":"{\"a\":\"\\u00e9\"}"}"#,
            "\n",
            r#"{"document": {"a": 1} , "note":"mended"}"#,
            "\n\n",
            r#"{"document_base64":"e30=","reason":5}"#,
        );
        let expected = [good(0, 1, r#"{"a":"\u00e9"}"#), good(35, 2, r#"{"a": 1}"#), good(77, 4, "{}")];
        assert_eq!(read("rejects", text.as_bytes()).unwrap(), expected);
    }

    #[test]
    fn lines_without_a_document_are_rejected() {
        let mut truncated = line(b"{");
        truncated.truncated = true;
        let truncated = serde_json::to_string(&truncated).unwrap();
        for (text, reason) in [
            ("{}", NotJson),
            ("[]", NotJson),
            ("{", NotJson),
            (r#"{"document":"a","document_base64":""}"#, NotJson),
            (r#"{"document_base64":"?"}"#, NotJson),
            (&truncated, TooLarge),
        ] {
            assert_eq!(read("rejects", text.as_bytes()).unwrap(), [bad(0, 1, text, reason)]);
        }
        let text = br#"{"document":"{\"a\":12}"}"#;
        let got = read_oddly("rejects", text, text, 7, &mut fastrand::Rng::new()).unwrap();
        assert_eq!(got[0].unreadable, Some((TooLarge, None)));
    }

    #[test]
    fn rejects_of_a_table_are_mended_as_records() {
        let text = concat!(
            r#"{"document":"1,\"a \"\"b\"\"\"\r\n","reason":"csv_syntax"}"#,
            "\n",
            r#"{"document":{"k":"2","v":"x"}}"#,
            "\n",
            r#"{"document_base64":"Myx6"}"#,
            "\n",
            r#"{"document":"4"}"#,
            "\n",
            r#"{"document":"5,\"a\" b"}"#,
            "\n",
            r#"{"document":"6,a\n7,b"}"#,
            "\n",
            r#"{"document":"8,\"a"}"#,
            "\n",
        );
        let mut options = sizes(1000, 1000);
        options.dialect = Dialect { header: Some(vec!["k".into(), "v".into()]), ..Dialect::default() };
        let input = Input::from_reader(Box::new(std::io::Cursor::new(text)), "test", None).unwrap();
        let got = transcribe(input, "rejects", text.as_bytes(), &options).unwrap();
        let (good, bad): (Vec<_>, Vec<_>) = got.iter().partition(|frame| frame.unreadable.is_none());
        let documents: Vec<_> = good.iter().map(|frame| std::str::from_utf8(&frame.bytes).unwrap()).collect();
        let expected = [
            r#"{"k":"1","v":"a \"b\""}"#,
            r#"{"k":"2","v":"x"}"#,
            r#"{"k":"3","v":"z"}"#,
            r#"{"k":"5","v":"\"a\" b"}"#,
            r#"{"k":"8","v":"\"a"}"#,
        ];
        assert_eq!(documents, expected);
        let reasons: Vec<_> = bad.iter().map(|frame| (frame.line, frame.unreadable.unwrap().0)).collect();
        assert_eq!(reasons, [(4, CsvFields), (6, CsvSyntax)]);
    }

    #[test]
    fn damage_is_passed_on() {
        let content = [0x1f, 0x8b, 0, 0];
        let got = read_oddly("rejects", &content, b"", 100, &mut fastrand::Rng::new()).unwrap();
        assert_eq!(got, [bad(0, 1, "", DamagedSource)]);
    }
}
