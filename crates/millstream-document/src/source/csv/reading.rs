//! How a CSV record becomes a document, and what is wrong with it if it does not.

use super::super::dialect::Dialect;
use super::super::window::too_large;
use super::OPEN_QUOTE;
use super::header::{Header, HeaderProblem};
use crate::json_string::put_string;
use memchr::memchr_iter;
use millstream_input::MARK;
use millstream_input::csv::{Quotes, Record, Seen, Separators, enclosed, quoted, stray};
use millstream_model::{Fault, Reason};

/// How a record becomes a document.
pub(super) struct Conversion {
    pub(super) header: Header,
    pub(super) separators: Separators,
    pub(super) dialect: Dialect,
    pub(super) document_bytes_max: usize,
}

/// Why a record is no document.
pub(super) enum Unread {
    /// Text follows the closing quote of a field: the field's number, and the index of the text.
    Misquoted(usize, usize),
    Fault(Fault),
}

impl From<Fault> for Unread {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl Conversion {
    /// Whether a badly quoted record gives its lines back.
    pub(super) fn gives_back(&self) -> bool {
        !self.dialect.strict_quotes && self.separators.quote.is_some()
    }

    /// Appends the document of a record.
    pub(super) fn put(&self, record: &Record, raw: &[u8], out: &mut Vec<u8>) -> Result<(), Unread> {
        if let Some((field, rest)) = stray(raw, self.separators) {
            return Err(Unread::Misquoted(field, raw.len() - rest.len()));
        }
        Ok(self.put_fields(record, raw, quoted(raw, self.separators), out)?)
    }

    /// Appends the document of a line that is read by itself, if the line has its fields. A quote that encloses none of
    /// them is data, unless it is not clear what it encloses.
    pub(super) fn put_line(&self, record: &Record, raw: &[u8], is_clear: bool, out: &mut Vec<u8>) -> Result<(), Fault> {
        if !is_clear || record.count != self.header.len() {
            let quotes = Quotes::of(raw, self.separators);
            match (quotes.stray, quotes.open) {
                (Some((field, _)), _) => return Err(misquoted(&behind_quote(field))),
                (None, Some(field)) => return Err(misquoted(&format!("field {field} has an open quote"))),
                (None, None) => {}
            }
        }
        self.put_fields(record, raw, enclosed(raw, self.separators), out)
    }

    fn put_fields(
        &self,
        record: &Record,
        raw: &[u8],
        mut quoted: impl Iterator<Item = bool>,
        out: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        if raw.len() > self.document_bytes_max {
            return Err(too_large(raw.len() as u64, self.document_bytes_max));
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
        let keeps_fields = self.dialect.keeps_fields();
        for (n, (name, field)) in self.header.members().zip(record.fields()).enumerate() {
            let Ok(text) = std::str::from_utf8(field) else {
                let detail = format!("field {} of the record is not UTF-8", n + 1);
                return Err(Fault::new(Reason::InvalidUtf8, detail));
            };
            out.extend_from_slice(name);
            if keeps_fields {
                put_string(text, out);
            } else {
                self.dialect.put_field(text, quoted.next().unwrap_or_default(), out);
            }
        }
        out.push(b'}');
        if out.len() - start > self.document_bytes_max {
            return Err(too_large((out.len() - start) as u64, self.document_bytes_max));
        }
        Ok(())
    }
}

/// The fault of a record whose quotes are bad, and the way out.
fn misquoted(problem: &str) -> Fault {
    let detail =
        format!("{problem}; write a quote within quotes twice, or have every quote taken for data by --quote none");
    Fault::new(Reason::CsvSyntax, detail)
}

fn behind_quote(field: usize) -> String {
    format!("field {field} has text behind its closing quote")
}

/// The fault of a record of which a field has text behind its closing quote, on this line.
pub(super) fn stray_on(field: usize, line: u64) -> Fault {
    misquoted(&format!("{} on line {line}", behind_quote(field)))
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
        let is_open = seen != Seen::Whole && !record.end();
        let start = record.start;
        let is_line = record.first_line(text).is_none_or(|line| text[start + line.len()..].trim_ascii().is_empty());
        if is_open && !(is_line && self.0.gives_back()) {
            return Err(Fault::new(Reason::CsvSyntax, OPEN_QUOTE));
        }
        if !is_open {
            let raw = record.raw(text, &seen);
            if !text[record.at..].trim_ascii().is_empty() {
                return Err(Fault::new(Reason::CsvSyntax, "there is more than one record; write a line for each"));
            }
            match self.0.put(&record, raw, out) {
                Ok(()) => return Ok(()),
                Err(Unread::Fault(fault)) => return Err(fault),
                Err(Unread::Misquoted(..)) if is_line && self.0.gives_back() => {}
                Err(Unread::Misquoted(field, at)) => {
                    return Err(stray_on(field, 1 + memchr_iter(b'\n', &raw[..at]).count() as u64));
                }
            }
        }
        let (line, is_clear) = record.read_line(text);
        self.0.put_line(&record, line, is_clear, out)
    }
}
