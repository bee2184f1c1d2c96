//! The rules of CSV that the reader of records does not check: line ends, closing quotation marks, byte order marks.

use super::window::{BYTE_ORDER_MARK, Window};
use crate::error::Error;
use crate::limits::LINE_BYTES_MAX;
use memchr::{memchr, memchr_iter, memchr2};

/// Whether the first line of the file ends in a carriage return alone.
pub(super) fn ends_in_return(window: &mut Window) -> Result<bool, Error> {
    loop {
        let bytes = window.bytes();
        if let Some(end) = memchr2(b'\n', b'\r', bytes) {
            match bytes.get(end + 1) {
                _ if bytes[end] == b'\n' => return Ok(false),
                Some(next) => return Ok(*next != b'\n'),
                None => {}
            }
        }
        if bytes.len() > LINE_BYTES_MAX || !window.fill()? {
            return Ok(false);
        }
    }
}

/// A line without the carriage return before its line feed, unless carriage returns end lines by themselves.
pub(super) fn without_return(line: &[u8], returns: bool) -> &[u8] {
    line.strip_suffix(b"\r").filter(|_| !returns).unwrap_or(line)
}

/// What is wrong with a record that begins on this line. Text behind a closing quotation mark means that one field has
/// swallowed others, or has lost its quotation marks.
pub(super) fn problem(record: &[u8], delimiter: u8, first_line: u64) -> Option<String> {
    if let Some(problem) = mark_problem(record) {
        return Some(problem);
    }
    let mut rest = record;
    for number in 1.. {
        if rest.first() == Some(&b'"') {
            rest = behind_quotes(&rest[1..]);
            if rest.first().is_some_and(|byte| *byte != delimiter) {
                let before = &record[..record.len() - rest.len()];
                let line = first_line + memchr_iter(b'\n', before).count() as u64;
                return Some(format!(
                    "field {number} has text behind its closing quote on line {line}; write a quote within quotes twice"
                ));
            }
        }
        rest = &rest[memchr(delimiter, rest)? + 1..];
    }
    None
}

/// What follows the quotation mark that closes a field.
fn behind_quotes(mut rest: &[u8]) -> &[u8] {
    while let Some(at) = memchr(b'"', rest) {
        rest = &rest[at + 1..];
        match rest.strip_prefix(b"\"") {
            Some(after) => rest = after,
            None => return rest,
        }
    }
    &[]
}

/// What is wrong with a record that begins with a byte order mark.
pub(super) fn mark_problem(record: &[u8]) -> Option<String> {
    record.starts_with(BYTE_ORDER_MARK).then(|| {
        "the record begins with a byte order mark, as the header of a joined file does; give the files without joining \
         them"
            .into()
    })
}
