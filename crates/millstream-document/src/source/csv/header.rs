//! The header of a CSV source: the names of the members.

use super::super::SourceError;
use super::super::window::Window;
use super::value::trimmed;
use crate::json_string::put_string;
use crate::limits::CSV_HEADER_BYTES_MAX;
use millstream_input::End;
use millstream_input::csv::{QUOTE, Record, Seen, Separators, stray};
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

impl HeaderProblem {
    /// The error of the source whose window this is.
    pub(in super::super) fn into_error(self, window: &Window) -> SourceError {
        SourceError::CsvHeader { name: window.name().into(), problem: self.problem, hint: self.hint }
    }
}

impl Header {
    /// Reads the header. Also returns the record that holds it; the next record begins after it.
    ///
    /// # Errors
    /// [`SourceError::CsvHeader`] when no documents can be made from it.
    pub(super) fn read(window: &mut Window, separators: &mut Separators) -> Result<(Self, Record), SourceError> {
        separators.returns = window.ends_in_return()?;
        if separators.returns {
            window.count_returns();
        }
        let separators = *separators;
        let dialect = window.options().dialect.clone();
        if let Some(names) = &dialect.header {
            let header = Self::from_names(names.iter().map(String::as_bytes), None, false);
            return Ok((header.map_err(|problem| problem.into_error(window))?, Record::new(separators)));
        }
        let (record, problem) = first_record(window, separators, 0)?;
        if let Some(problem) = problem {
            let hint = "begin the source with a line of column names, such as `id,name`".into();
            return Err(HeaderProblem { problem, hint }.into_error(window));
        }
        let guessed = dialect.delimiter.is_none().then_some(separators.delimiter);
        let header = Self::from_names(record.fields(), guessed, dialect.trim);
        Ok((header.map_err(|problem| problem.into_error(window))?, record))
    }

    /// A header of these names. If the delimiter is a guess, a single name that holds another delimiter is refused.
    ///
    /// # Errors
    /// What is wrong with the names.
    pub(super) fn from_names<'a>(
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
            put_string(name, &mut member);
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

    /// The header that begins at this index of the window, which may continue on more lines, and the index of its end.
    /// Takes nothing from the window.
    ///
    /// # Errors
    /// [`SourceError`] when the source cannot be read. The inner error is what is wrong with the header.
    pub(in super::super) fn at(
        window: &mut Window,
        start: usize,
        delimiter: u8,
    ) -> Result<(Result<Self, HeaderProblem>, usize), SourceError> {
        let separators = Separators { delimiter, quote: Some(QUOTE), returns: window.ends_in_return()? };
        let (record, problem) = first_record(window, separators, start)?;
        let header = match problem {
            Some(problem) => Err(HeaderProblem { problem, hint: "close the quote".into() }),
            None => Self::from_names(record.fields(), Some(delimiter), false),
        };
        Ok((header, record.at))
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

/// The first record that begins at this index of the window or after it, and what is wrong with it: the rest of a
/// sentence that begins with "the CSV header of NAME".
fn first_record(
    window: &mut Window,
    separators: Separators,
    start: usize,
) -> Result<(Record, Option<String>), SourceError> {
    let mut record = Record::new(separators);
    (record.start, record.at) = (start, start);
    loop {
        let seen = record.look(window.bytes(), CSV_HEADER_BYTES_MAX);
        if seen == Seen::Part && window.fill()? {
            continue;
        }
        let problem = match (&seen, window.end()) {
            (Seen::TooLong, _) => Some(format!("is longer than {CSV_HEADER_BYTES_MAX} bytes")),
            (Seen::Part, Some(End::Damaged(why))) => Some(format!("is damaged: {why}")),
            (Seen::Part, _) if record.at > record.start && !record.end() => Some("has an open quote".into()),
            _ => None,
        };
        if problem.is_some() {
            return Ok((record, problem));
        }
        let raw = record.raw(window.bytes(), &seen);
        if raw.is_empty() && seen == Seen::Whole {
            record.next();
            continue;
        }
        let stray =
            stray(raw, separators).map(|(number, _)| format!("has text behind the quote that closes column {number}"));
        let problem = if raw.is_empty() { Some("is missing, the source is empty".into()) } else { stray };
        return Ok((record, problem));
    }
}

/// A character that people use to separate columns.
struct Delimiter {
    byte: u8,
    name: &'static str,
    /// The option that says so, as it is typed.
    option: &'static str,
}

const DELIMITERS: [Delimiter; 4] = [
    Delimiter { byte: b',', name: "commas", option: "--format csv" },
    Delimiter { byte: b';', name: "semicolons", option: "--delimiter ';'" },
    Delimiter { byte: b'\t', name: "tabs", option: "--format tsv" },
    Delimiter { byte: b'|', name: "bars", option: "--delimiter '|'" },
];
