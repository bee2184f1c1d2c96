//! The header of a CSV source: the names of the members.

use super::super::SourceError;
use super::super::window::{End, Window};
use super::record::{Record, Seen};
use crate::limits::CSV_HEADER_BYTES_MAX;
use std::collections::HashSet;

/// Names of the columns, as they stand in front of their values in a document.
pub(in super::super) struct Header {
    members: Vec<Vec<u8>>,
}

/// Why no documents can be made under a header.
#[derive(Debug)]
pub(in super::super) struct HeaderProblem {
    /// A sentence that goes on after "the CSV header of NAME".
    pub(in super::super) problem: String,
    pub(in super::super) hint: String,
}

impl Header {
    /// Reads the header; also gives the record that holds it, to go on from.
    ///
    /// # Errors
    /// [`SourceError::CsvHeader`] when no documents can be made from it.
    pub(super) fn read(window: &mut Window) -> Result<(Self, Record), SourceError> {
        let mut record = Record::new();
        let seen = loop {
            match record.look(window.bytes(), CSV_HEADER_BYTES_MAX) {
                Seen::Part if window.fill()? => {}
                seen => break seen,
            }
        };
        let failed = |window: &Window, problem: HeaderProblem| SourceError::CsvHeader {
            name: window.name().into(),
            problem: problem.problem,
            hint: problem.hint,
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
        let header = Self::from_names(record.fields()).map_err(|problem| failed(window, problem))?;
        Ok((header, record))
    }

    /// A header of these names.
    ///
    /// # Errors
    /// What is wrong with the names.
    pub(in super::super) fn from_names<'a>(names: impl Iterator<Item = &'a [u8]>) -> Result<Self, HeaderProblem> {
        let mut seen = HashSet::new();
        let mut members = Vec::new();
        let mut only = "";
        for (n, name) in (1..).zip(names) {
            let problem = |problem: String, hint: &str| Err(HeaderProblem { problem, hint: hint.into() });
            let Ok(name) = std::str::from_utf8(name) else {
                let hint = "iconv -f latin1 -t utf-8 FILE | millstream load - --format csv ..";
                return problem(format!("is not UTF-8 in column {n}"), hint);
            };
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
        match SEPARATORS.iter().find(|(separator, _)| members.len() == 1 && only.contains(*separator)) {
            Some((separator, name)) => Err(HeaderProblem {
                problem: format!("has no comma, but {name}; only commas separate columns here"),
                hint: format!(
                    "python3 -c \"import csv,sys; csv.writer(sys.stdout).writerows(csv.reader(sys.stdin,delimiter={separator:?}))\" < FILE | millstream load - --format csv .."
                ),
            }),
            None => Ok(Self { members }),
        }
    }

    /// The header that a line holds, which need not end.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(in super::super) fn of_line(line: &[u8]) -> Result<Self, HeaderProblem> {
        let mut record = Record::new();
        if record.look(line, CSV_HEADER_BYTES_MAX) != Seen::Whole && !record.end() {
            let problem = "has an open quote".into();
            return Err(HeaderProblem { problem, hint: "close the quote".into() });
        }
        Self::from_names(record.fields())
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

    /// What stands in front of each value: `{"first":`, `,"second":` and so on.
    pub(super) fn members(&self) -> impl Iterator<Item = &[u8]> {
        self.members.iter().map(Vec::as_slice)
    }
}

/// What people separate columns by instead of commas.
const SEPARATORS: [(char, &str); 3] = [(';', "semicolons"), ('\t', "tabs"), ('|', "bars")];
