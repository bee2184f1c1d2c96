//! How a CSV record becomes a document, and what is wrong with it if it does not.

use super::super::dialect::Dialect;
use super::super::window::too_large;
use super::OPEN_QUOTE;
use super::header::{Header, HeaderProblem};
use crate::json_string::put_string;
use memchr::memchr_iter;
use millstream_input::MARK;
use millstream_input::csv::{Record, Seen, Separators, quoted, stray};
use millstream_model::{Fault, Reason};

/// How a record becomes a document.
pub(super) struct Conversion {
    pub(super) header: Header,
    pub(super) separators: Separators,
    pub(super) dialect: Dialect,
    pub(super) document_bytes_max: usize,
}

impl Conversion {
    /// Appends the document of a record. `line_of` finds the line of a place in it, for a message.
    pub(super) fn put(
        &self,
        record: &Record,
        raw: &[u8],
        line_of: impl FnOnce(usize) -> u64,
        out: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        if raw.len() > self.document_bytes_max {
            return Err(too_large(raw.len() as u64, self.document_bytes_max));
        }
        if let Some((field, rest)) = stray(raw, self.separators) {
            let line = line_of(raw.len() - rest.len());
            let detail = format!(
                "field {field} has text behind its closing quote on line {line}; write a quote within quotes twice"
            );
            return Err(Fault::new(Reason::CsvSyntax, detail));
        }
        if raw.starts_with(MARK) {
            let detail = "the record begins with a byte order mark, as the header of a joined file does; load the files \
                          without joining them";
            return Err(Fault::new(Reason::CsvSyntax, detail));
        }
        let (count, expected) = (record.count, self.header.len());
        if count != expected {
            let detail = format!("the record has {count} fields, the header {expected}");
            return Err(Fault::new(Reason::CsvFields, detail));
        }
        let start = out.len();
        let mut quoted = (!self.dialect.keeps_fields()).then(|| quoted(raw, self.separators));
        for (n, (name, field)) in self.header.members().zip(record.fields()).enumerate() {
            let Ok(text) = std::str::from_utf8(field) else {
                let detail = format!("field {} of the record is not UTF-8", n + 1);
                return Err(Fault::new(Reason::InvalidUtf8, detail));
            };
            out.extend_from_slice(name);
            match &mut quoted {
                None => put_string(text, out),
                Some(quoted) => self.dialect.put_field(text, quoted.next().unwrap_or_default(), out),
            }
        }
        out.push(b'}');
        if out.len() - start > self.document_bytes_max {
            return Err(too_large((out.len() - start) as u64, self.document_bytes_max));
        }
        Ok(())
    }
}

/// Those of a dialect. The delimiter is used if it names none. What ends lines is not known yet.
pub(super) fn separators(dialect: &Dialect, delimiter: u8) -> Separators {
    Separators { delimiter: dialect.delimiter.unwrap_or(delimiter), quote: dialect.quote_byte(), returns: false }
}

/// Makes documents of single records, as rejects are.
pub(in super::super) struct SingleRecords(Conversion);

impl SingleRecords {
    /// Records of this dialect, which names the columns. `None` if it names none.
    pub(in super::super) fn of(dialect: &Dialect, document_bytes_max: usize) -> Option<Result<Self, HeaderProblem>> {
        let header = Header::from_names(dialect.header.as_ref()?.iter().map(String::as_bytes), None, false);
        let (separators, dialect) = (separators(dialect, b','), dialect.clone());
        Some(header.map(|header| Self(Conversion { header, separators, dialect, document_bytes_max })))
    }

    /// Appends the document of a text, which is one record.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(in super::super) fn put(&self, text: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
        if text.trim_ascii().is_empty() {
            return Err(Fault::new(Reason::CsvFields, "the record is empty"));
        }
        let mut record = Record::new(self.0.separators);
        let seen = record.look(text, text.len());
        if seen != Seen::Whole && !record.end() {
            return Err(Fault::new(Reason::CsvSyntax, OPEN_QUOTE));
        }
        let raw = record.raw(text, &seen);
        if !text[record.at..].trim_ascii().is_empty() {
            return Err(Fault::new(Reason::CsvSyntax, "there is more than one record; write a line for each"));
        }
        let line_of = |at| 1 + memchr_iter(b'\n', &raw[..at]).count() as u64;
        self.0.put(&record, raw, line_of, out)
    }
}
