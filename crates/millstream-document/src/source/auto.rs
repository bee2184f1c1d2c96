//! Recognises a format from the beginning of the content.

use super::csv::{Header, HeaderProblem};
use super::extent::{Extent, Piece, is_space};
use super::window::Window;
use super::{Format, SOURCES, SourceError, csv, is_called, json, ndjson, tsv};
use crate::limits::RECOGNISE_BYTES_MAX;
use memchr::{memchr, memchr2};
use serde::de::IgnoredAny;

/// The format of the source. Takes nothing from the window.
///
/// A file that is no text has the format that is made of it. An array is `json`, and so are objects that span several lines or share a line. Lines that begin with an object are
/// `ndjson`, even if the first of them is invalid. A header of several names is `csv`; it is `tsv` if tabs separate the
/// names or the file's name says so. A rejects file is never recognised: the user must ask for its format.
///
/// # Errors
/// [`SourceError`] when the content fits no format, or one that the user must ask for.
pub(super) fn recognise(window: &mut Window) -> Result<&'static Format, SourceError> {
    if let Some(made) = window.made() {
        let format = SOURCES.iter().find(|format| format.made.is_some_and(|own| own.name == made.name));
        let format = format.expect("each kind of file that is converted has a format");
        let Some(refusal) = window.options().dialect.problem(format.name) else { return Ok(format) };
        let (name, hint) = (window.name().to_owned(), refusal.hint.unwrap_or_default());
        return Err(SourceError::Unclear { name, found: format!("is {}, and {}", made.kind, refusal.problem), hint });
    }
    let dialect = &window.options().dialect;
    if !dialect.root.is_empty() {
        return Ok(&json::FORMAT);
    }
    if dialect.is_delimited() {
        let tabs = dialect.delimiter.is_none() && is_named_tsv(window.name());
        return Ok(if tabs { &tsv::FORMAT } else { &csv::FORMAT });
    }
    let Some((at, byte)) = first_byte(window, 0)? else { return Ok(&ndjson::FORMAT) };
    if !matches!(byte, b'[' | b'{') {
        return table(window, at);
    }
    match bracketed(window, at)? {
        Some(format) => Ok(format),
        None if byte == b'[' => Ok(&json::FORMAT),
        None => objects(window, at),
    }
}

/// The format of a table whose header has names in brackets, such as `[id],[name]` by SQL Server.
fn bracketed(window: &mut Window, start: usize) -> Result<Option<&'static Format>, SourceError> {
    // JSON is not kept waiting for the end of its line, which a live source may never write.
    let begins_json = |byte| matches!(byte, b'{' | b'[' | b'}' | b']' | b'"' | b'-' | b'0'..=b'9');
    if first_byte(window, start + 1)?.is_none_or(|(_, byte)| begins_json(byte)) {
        return Ok(None);
    }
    let line_end = line_end(window, start)?;
    let line = &window.bytes()[start..line_end];
    let Piece::End(n) = Extent::new(line[0]).feed(line) else { return Ok(None) };
    let (bracket, is_json) = (line[0], serde_json::from_slice::<IgnoredAny>(&line[..n]).is_ok());
    let separator = line[n..].iter().copied().find(|&byte| byte != b' ');
    match separator.filter(|_| !is_json) {
        Some(b',' | b'\t') => Ok(table(window, start).ok()),
        Some(b';' | b'|') => {
            // A broken document is followed by others.
            let is_table = match first_byte(window, line_end)? {
                Some((_, byte)) => !matches!(byte, b'{' | b'['),
                None => bracket == b'[',
            };
            // The user must name the delimiter.
            is_table.then(|| table(window, start)).transpose()
        }
        _ => Ok(None),
    }
}

/// Index of the first byte from `at` on that is not white space, and the byte. `None` at the end of the source, or of
/// what recognition may read.
fn first_byte(window: &mut Window, at: usize) -> Result<Option<(usize, u8)>, SourceError> {
    let found = find(window, at, |bytes| bytes.iter().position(|&b| !is_space(b)))?;
    Ok(found.map(|at| (at, window.bytes()[at])))
}

/// Reads until `find` finds something in the bytes from `at` on.
fn find(
    window: &mut Window,
    mut at: usize,
    find: impl Fn(&[u8]) -> Option<usize>,
) -> Result<Option<usize>, SourceError> {
    loop {
        if let Some(n) = find(&window.bytes()[at..]) {
            return Ok(Some(at + n));
        }
        at = window.bytes().len();
        if !more(window)? {
            return Ok(None);
        }
    }
}

fn more(window: &mut Window) -> Result<bool, SourceError> {
    Ok(window.bytes().len() < RECOGNISE_BYTES_MAX && window.fill()?)
}

/// Chooses between `ndjson`, one object per line, and `json`.
fn objects(window: &mut Window, start: usize) -> Result<&'static Format, SourceError> {
    let line_end = line_end(window, start)?;
    let first_line = &window.bytes()[start..line_end];
    if is_object(first_line) {
        return if is_reject_line(first_line) { Err(rejects(window)) } else { Ok(&ndjson::FORMAT) };
    }
    let mut extent = Extent::new(b'{');
    let (mut at, mut second) = (start, None);
    let end = loop {
        match extent.feed(&window.bytes()[at..]) {
            Piece::End(n) => break Some(at + n),
            Piece::Mismatch(_) => break None,
            Piece::More => at = window.bytes().len(),
        }
        // The first line is not an object. If the second is one and a third begins one, they are no part of the first: the
        // format is `ndjson`, and a stream need not send more.
        second = second.or_else(|| next_line(window, line_end));
        let by_lines = second.as_ref().is_some_and(|line| line.is_object && next_byte(window, line.end) == Some(b'{'));
        if by_lines || !more(window)? {
            break None;
        }
    };
    if let Some(end) = end.filter(|&end| is_object(&window.bytes()[start..end])) {
        let several =
            end > line_end || first_byte(window, end)?.is_some_and(|(at, byte)| at < line_end && byte == b'{');
        return Ok(if several { &json::FORMAT } else { &ndjson::FORMAT });
    }
    let second = first_byte(window, line_end)?;
    let over_lines = first_line_opens(window, start, line_end) && second.is_some_and(|(_, byte)| byte != b'{');
    Ok(if over_lines { &json::FORMAT } else { &ndjson::FORMAT })
}

/// Whether the object at `start` is still open at the end of its line.
fn first_line_opens(window: &Window, start: usize, line_end: usize) -> bool {
    Extent::new(b'{').feed(&window.bytes()[start..line_end]) == Piece::More
}

/// `csv` or `tsv` for a header of several names, `tsv` by the file's name, else an error.
fn table(window: &mut Window, start: usize) -> Result<&'static Format, SourceError> {
    let line_end = line_end(window, start)?;
    let plausible = |header: &Result<Header, HeaderProblem>| header.as_ref().is_ok_and(Header::is_plausible);
    let (header, header_end) = Header::at(window, start, b',')?;
    let (tabs, tabs_end) = Header::at(window, start, b'\t')?;
    let header_end = if plausible(&header) { header_end } else { tabs_end };
    let second = first_byte(window, header_end.max(line_end))?;
    let first_line = &window.bytes()[start..line_end];
    if !matches!(second, Some((_, b'{' | b'['))) {
        if is_named_tsv(window.name()) || (!plausible(&header) && plausible(&tabs)) {
            return Ok(&tsv::FORMAT);
        }
        if plausible(&header) {
            return Ok(&csv::FORMAT);
        }
    }
    let say = || "say what it is with --format ndjson, json, csv or tsv".to_owned();
    let (found, hint) = match header {
        _ if memchr(0, first_line).is_some() => ("is not text".into(), "`file FILE` shows what it is".into()),
        Err(HeaderProblem { problem, hint }) => (format!("is not JSON, and its CSV header {problem}"), hint),
        Ok(_) => ("begins neither with a JSON object or array nor with a CSV header of several names".into(), say()),
    };
    Err(SourceError::Unclear { name: window.name().into(), found, hint })
}

/// Whether a file's name says that tabs separate its columns.
fn is_named_tsv(name: &str) -> bool {
    is_called(name, tsv::FORMAT.name)
}

/// End of the line at `start`, or of what recognition may read. A carriage return ends a line, too: where it does not, it
/// is white space, or a part of a table.
fn line_end(window: &mut Window, start: usize) -> Result<usize, SourceError> {
    Ok(find(window, start, |bytes| memchr2(b'\n', b'\r', bytes))?.unwrap_or(window.bytes().len()))
}

/// A whole line.
struct Line {
    is_object: bool,
    end: usize,
}

/// The first whole line after `at` that is not blank.
fn next_line(window: &Window, at: usize) -> Option<Line> {
    let start = at + window.bytes()[at..].iter().position(|&b| !is_space(b))?;
    let end = start + memchr2(b'\n', b'\r', &window.bytes()[start..])?;
    Some(Line { is_object: is_object(&window.bytes()[start..end]), end })
}

/// The first byte from `at` on that is not white space, if it was read.
fn next_byte(window: &Window, at: usize) -> Option<u8> {
    window.bytes()[at..].iter().copied().find(|&b| !is_space(b))
}

fn is_object(text: &[u8]) -> bool {
    text.first() == Some(&b'{') && serde_json::from_slice::<IgnoredAny>(text).is_ok()
}

/// Whether an object has the members that we write for a reject.
fn is_reject_line(object: &[u8]) -> bool {
    #[derive(serde::Deserialize)]
    #[expect(dead_code, reason = "only their presence matters")]
    struct Members {
        load_id: IgnoredAny,
        byte_offset: IgnoredAny,
        reason: IgnoredAny,
        truncated: IgnoredAny,
    }
    serde_json::from_slice::<Members>(object).is_ok()
}

fn rejects(window: &Window) -> SourceError {
    SourceError::Unclear {
        name: window.name().into(),
        found: "looks like a file that --rejects wrote".to_owned(),
        hint: "load the mended documents in it with --format rejects, or its lines as they are with --format ndjson"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::transcript::recognise;
    use super::*;

    #[test]
    fn formats_are_recognised() {
        let long = format!("{{\"a\":\"{}\"}}\n{{}}", "x".repeat(2 * RECOGNISE_BYTES_MAX));
        let huge = format!("{{\n \"a\": \"{}\"\n}}", "x".repeat(2 * RECOGNISE_BYTES_MAX));
        for (text, expected) in [
            ("", "ndjson"),
            (" \n\n ", "ndjson"),
            ("{}", "ndjson"),
            ("\u{feff}\r\n {\"a\":[]} \r\n", "ndjson"),
            (&long, "ndjson"),
            ("{\"a\":\n{\"b\":2}\n{\"c\":3}\n", "ndjson"),
            ("{\"a\":\"x\n{\"b\":2}\n{\"c\":3}\n", "ndjson"),
            ("{broken}\n{}\n", "ndjson"),
            ("{\"a\":1]\n{}\n", "ndjson"),
            ("{},\n{},\n", "ndjson"),
            ("{\n  \"a\": 1\n}\n", "json"),
            ("{\"a\":\n{}\n}", "json"),
            ("{\"a\": [\n{\"b\": 1},\n{}\n]}", "json"),
            (&huge, "json"),
            ("{} {}", "json"),
            ("{\"id\":1}{\"id\":2}\n{\"id\":3}\n", "json"),
            ("[", "json"),
            ("{\"id\":1}\r{\"id\":2}\r", "ndjson"),
            ("{\r \"id\":1\r}\r", "json"),
            ("[id],[name]\n1,x\n", "csv"),
            ("{id},{name}\r\n1,x\r\n", "csv"),
            ("[id]\t[name]\n1\tx\n", "tsv"),
            ("[id] , [name]\n1,x\n", "csv"),
            ("[id],[name]\n[1],[2]\n", "json"),
            ("[id];[name]\n[1];[2]\n", "json"),
            ("{broken};{x}\n{\"a\":1}\n", "ndjson"),
            ("{broken};\n", "ndjson"),
            ("{broken},{x}\n{\"a\":1}\n", "ndjson"),
            ("\n[{}]", "json"),
            ("id,name\n1,x\n", "csv"),
            ("\"id\",\"the name\"", "csv"),
            ("id\tname\n1\tx\n", "tsv"),
            ("id,no\tname,x\n1,2,3\n", "csv"),
            ("id,\"the\nname\"\n1,x\n", "csv"),
            ("id\t\"the\n{name}\"\n1\tx\n", "tsv"),
        ] {
            let shown = &text[..text.len().min(50)];
            assert_eq!(recognise(text.as_bytes()).map_err(|e| e.to_string()), Ok(expected), "{shown:?}");
        }
    }

    #[test]
    fn formats_that_need_an_option_are_refused_with_a_hint() {
        let reject = "{\"load_id\":1,\"byte_offset\":0,\"reason\":\"\",\"truncated\":false,\"document\":\"\"}\n";
        for (text, found, hint) in [
            (reject, "--rejects wrote", "--format rejects"),
            ("id\n1\n", "neither", "--format ndjson"),
            ("hello, world\n{}", "neither", "--format ndjson"),
            ("1,2\n3,4", "neither", "--format ndjson"),
            ("a;b\n1;2", "semicolons", "--delimiter ';'"),
            ("a|b\n1|2", "bars", "--delimiter '|'"),
            ("[id];[name]\n1;x\n", "semicolons", "--delimiter ';'"),
            ("[the id];[name]", "semicolons", "--delimiter ';'"),
            ("{id}|{name}\r\n1|x\r\n", "bars", "--delimiter '|'"),
            ("a,a\n1,2", "twice", "name"),
            ("\0\u{1}\u{2}", "not text", "file"),
        ] {
            let error = recognise(text.as_bytes()).unwrap_err();
            assert!(error.to_string().contains(found), "{error}");
            assert!(error.hint().contains(hint), "{}", error.hint());
        }
    }
}
