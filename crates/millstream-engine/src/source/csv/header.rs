//! The header of a CSV source: the names of the members.

use super::super::SourceError;
use super::super::window::{End, Window};
use super::record::{QUOTE, Record, Seen, Separators};
use super::value::trimmed;
use crate::limits::CSV_HEADER_BYTES_MAX;
use std::collections::HashSet;

/// Names of the columns, as they are written before their values in a document.
pub(in super::super) struct Header {
    members: Vec<Vec<u8>>,
}

/// Why no documents can be made from a header.
#[derive(Debug)]
pub(in super::super) struct HeaderProblem {
    /// The rest of a sentence that begins with "the CSV header of NAME".
    pub(in super::super) problem: String,
    pub(in super::super) hint: String,
}

impl Header {
    /// Reads the header. Also returns the record that holds it; the next record begins after it.
    ///
    /// # Errors
    /// [`SourceError::CsvHeader`] when no documents can be made from it.
    pub(super) fn read(window: &mut Window, separators: Separators) -> Result<(Self, Record), SourceError> {
        let mut record = Record::new(separators);
        let dialect = window.options().dialect.clone();
        if let Some(names) = &dialect.header {
            let header = Self::from_names(names.iter().map(String::as_bytes), None, false);
            return Ok((header.map_err(|problem| failed(window, problem))?, record));
        }
        let seen = loop {
            match record.look(window.bytes(), CSV_HEADER_BYTES_MAX) {
                Seen::Part if window.fill()? => {}
                seen => break seen,
            }
        };
        let problem = match seen {
            Seen::Whole => None,
            Seen::TooLong => Some(format!("is longer than {CSV_HEADER_BYTES_MAX} bytes")),
            Seen::Part => match window.end() {
                Some(End::Damaged(why)) => Some(format!("is damaged: {why}")),
                _ if record.at == record.start => Some("is missing, the source is empty".into()),
                _ if record.end() => None,
                _ => Some("has an open quote".into()),
            },
        };
        if let Some(problem) = problem {
            let hint = "begin the source with a line of column names, such as `id,name`".into();
            return Err(failed(window, HeaderProblem { problem, hint }));
        }
        let guessed = dialect.delimiter.is_none().then_some(separators.delimiter);
        let header = Self::from_names(record.fields(), guessed, dialect.trim);
        let header = header.map_err(|problem| failed(window, problem))?;
        Ok((header, record))
    }

    /// A header of these names. If the delimiter is a guess, a single name that holds another delimiter is refused.
    ///
    /// # Errors
    /// What is wrong with the names.
    fn from_names<'a>(
        names: impl Iterator<Item = &'a [u8]>,
        guessed: Option<u8>,
        trim: bool,
    ) -> Result<Self, HeaderProblem> {
        let mut seen = HashSet::new();
        let mut members = Vec::new();
        let mut only = "";
        for (n, name) in (1..).zip(names) {
            let problem = |problem: String, hint: &str| Err(HeaderProblem { problem, hint: hint.into() });
            let Ok(name) = std::str::from_utf8(name) else {
                let hint = "name the file's encoding, for instance --encoding latin1";
                return problem(format!("is not UTF-8 in column {n}"), hint);
            };
            let name = if trim { trimmed(name) } else { name };
            if name.is_empty() {
                return problem(format!("has no name for column {n}"), "give every column a name");
            }
            if name.contains('\0') {
                return problem(format!("has a NUL byte in column {n}"), "check that the file is text");
            }
            if !seen.insert(name) {
                return problem(format!("has the name of column {n} twice"), "give each column a name of its own");
            }
            let mut member = vec![if n == 1 { b'{' } else { b',' }];
            serde_json::to_writer(&mut member, name).expect("a string can be written into memory");
            member.push(b':');
            members.push(member);
            only = name;
        }
        let Some(guessed) = guessed.filter(|_| members.len() == 1) else { return Ok(Self { members }) };
        let named = |delimiter: u8| DELIMITERS.iter().find(|d| d.byte == delimiter).map_or("delimiter", |d| d.name);
        match DELIMITERS.iter().find(|d| d.byte != guessed && d.byte != b',' && only.contains(char::from(d.byte))) {
            Some(Delimiter { name, option, .. }) => Err(HeaderProblem {
                problem: format!("has no {}, but {name}", named(guessed)),
                hint: format!("name what separates its columns: {option}"),
            }),
            None => Ok(Self { members }),
        }
    }

    /// The header that a line holds. The line end may be missing.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(in super::super) fn of_line(line: &[u8], delimiter: u8) -> Result<Self, HeaderProblem> {
        let mut record = Record::new(Separators { delimiter, quote: Some(QUOTE) });
        if record.look(line, CSV_HEADER_BYTES_MAX) != Seen::Whole && !record.end() {
            let problem = "has an open quote".into();
            return Err(HeaderProblem { problem, hint: "close the quote".into() });
        }
        Self::from_names(record.fields(), Some(delimiter), false)
    }

    /// Whether a line with these names is likely to be a header: several, and no numbers.
    pub(in super::super) fn is_plausible(&self) -> bool {
        let is_number = |member: &Vec<u8>| matches!(member.get(2), Some(b'0'..=b'9' | b'-' | b'+' | b'.'));
        self.members.len() > 1 && !self.members.iter().any(is_number)
    }

    /// Number of columns.
    pub(in super::super) fn len(&self) -> usize {
        self.members.len()
    }

    /// What is written before each value: `{"first":`, `,"second":` and so on.
    pub(super) fn members(&self) -> impl Iterator<Item = &[u8]> {
        self.members.iter().map(Vec::as_slice)
    }
}

fn failed(window: &Window, problem: HeaderProblem) -> SourceError {
    SourceError::CsvHeader { name: window.name().into(), problem: problem.problem, hint: problem.hint }
}

/// A character that people use to separate columns.
struct Delimiter {
    byte: u8,
    name: &'static str,
    option: &'static str,
}

const DELIMITERS: [Delimiter; 4] = [
    Delimiter { byte: b',', name: "commas", option: "--format csv" },
    Delimiter { byte: b';', name: "semicolons", option: "--delimiter ';'" },
    Delimiter { byte: b'\t', name: "tabs", option: "--format tsv" },
    Delimiter { byte: b'|', name: "bars", option: "--delimiter '|'" },
];
