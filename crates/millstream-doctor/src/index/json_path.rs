//! The path by which an expression reads a value in a JSON document, in any of its notations.

use super::sql::Sql;
use millstream_pg::quote_identifier;
use std::collections::BTreeSet;

/// A path from a column to a value.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct JsonPath {
    /// The column.
    pub(super) root: String,
    pub(super) steps: Vec<String>,
    /// The value is read as text and not cast to a number.
    pub(super) is_text: bool,
}

/// Functions that do the same as the operators.
const FUNCTIONS: &[&str] = &["jsonb_extract_path", "jsonb_extract_path_text"];

impl JsonPath {
    /// Reads `doc -> 'a' ->> 'b'`, `doc #>> '{a,b}'`, `doc['a']['b']` and the functions; `None` for everything else.
    pub(super) fn read(sql: &Sql) -> Option<Self> {
        let uncast = sql.without_casts();
        let (mut root, mut steps, mut reads_text, mut is_list) = (None, Vec::new(), false, false);
        for piece in uncast.pieces() {
            match piece {
                "VARIADIC" => is_list = true,
                "(" | ")" | "," | "[" | "]" | "ARRAY" => {}
                "->" | "->>" | "#>" | "#>>" => {
                    reads_text = piece.ends_with(">>");
                    is_list = piece.starts_with('#');
                }
                _ if FUNCTIONS.contains(&piece) => reads_text = piece.ends_with("_text"),
                _ if piece.starts_with('\'') => {
                    let text = Sql::new(piece).literal()?;
                    match listed(&text).filter(|_| is_list) {
                        Some(list) => steps.extend(list),
                        None => steps.push(text),
                    }
                }
                _ if root.is_none() => root = Some(piece.to_owned()),
                _ if piece.bytes().all(|byte| byte.is_ascii_digit()) => steps.push(piece.to_owned()),
                _ => return None,
            }
        }
        let is_text = reads_text && !sql.bare().pieces().any(|piece| NUMBERS.contains(&piece));
        (!steps.is_empty()).then_some(Self { root: root?, steps, is_text })
    }
}

/// Types of numbers, as the server prints them.
const NUMBERS: &[&str] = &["numeric", "integer", "bigint", "smallint", "real", "double"];

/// The paths by which a text of SQL reads members of the documents in a column, anywhere in it and as the server prints it.
/// `None` if the text gives the column's name to something else, too.
pub(crate) fn json_paths(sql: &str, column: &str) -> Option<BTreeSet<Vec<String>>> {
    let sql = Sql::new(sql).without_casts();
    let pieces: Vec<&str> = sql.pieces().collect();
    let quoted = quote_identifier(column);
    let is_column = |piece: &str| piece == column || piece == quoted;
    let mut found = BTreeSet::new();
    if pieces.windows(2).any(|pair| pair[0].eq_ignore_ascii_case("as") && is_column(pair[1])) {
        return None;
    }
    let mut brackets = Vec::new();
    // Where the path begins that is being read, and its steps so far.
    let mut path: Option<(usize, Vec<String>)> = None;
    let mut n = 0;
    while let Some(rest) = pieces.get(n..).filter(|rest| !rest.is_empty()) {
        if let Some((_, steps)) = &mut path
            && let Some((more, len)) = steps_at(rest)
        {
            steps.extend(more);
            n += len;
            continue;
        }
        let goes_on = match rest[0] {
            "(" => {
                brackets.push(n);
                false
            }
            ")" => brackets.pop().zip(path.as_ref()).is_some_and(|(open, (begin, _))| is_around(&pieces, open, *begin)),
            _ => false,
        };
        if !goes_on {
            found.extend(path.take().map(|(_, steps)| steps));
        }
        if is_column(rest[0]) && brackets.last().is_some_and(|&open| is_alias(&pieces, open)) {
            return None;
        }
        if is_column(rest[0]) && rest.get(1) != Some(&".") {
            path = Some((beginning(&pieces, n), Vec::new()));
        }
        n += 1;
    }
    found.extend(path.map(|(_, steps)| steps));
    found.remove(&Vec::<String>::new());
    Some(found)
}

/// The members that an operator reads, if one begins here, and how many pieces that takes.
fn steps_at(pieces: &[&str]) -> Option<(Vec<String>, usize)> {
    let literal = Sql::new(pieces.get(1)?).literal()?;
    match pieces[0] {
        "->" | "->>" | "?" => Some((vec![literal], 2)),
        "[" if pieces.get(2) == Some(&"]") => Some((vec![literal], 3)),
        "#>" | "#>>" => Some((listed(&literal)?, 2)),
        _ => None,
    }
}

/// The members of a path such as `{a,b}`.
fn listed(path: &str) -> Option<Vec<String>> {
    let list = path.strip_prefix('{')?.strip_suffix('}')?;
    Some(list.split(',').map(|step| step.trim_matches('"').to_owned()).collect())
}

/// Where a name begins that ends at a place, with the names of its table and schema.
fn beginning(pieces: &[&str], end: usize) -> usize {
    let mut begin = end;
    while begin >= 2 && pieces[begin - 1] == "." {
        begin -= 2;
    }
    begin
}

/// Whether a bracket holds new names of columns, as in `jsonb_array_elements(..) item(doc)` and `with item(doc) as (..)`.
///
/// No name of a function follows another name or a bracket. Key words can precede it, and the server prints those in
/// upper case.
fn is_alias(pieces: &[&str], open: usize) -> bool {
    let is_name = |piece: &str| piece.starts_with(|c: char| c.is_lowercase() || c == '_' || c == '"');
    let before = |n: usize| open.checked_sub(n).and_then(|place| pieces.get(place)).copied().unwrap_or_default();
    if !is_name(before(1)) {
        return false;
    }
    // The names stand alone, so the next closing bracket is theirs unless a type has brackets of its own.
    let after = pieces.iter().skip(open).skip_while(|piece| **piece != ")").skip(1).take(2);
    let is_query = matches!(after.copied().collect::<Vec<_>>()[..], ["AS", "(" | "MATERIALIZED" | "NOT"]);
    is_query || is_name(before(2)) || matches!(before(2), ")" | "ORDINALITY")
}

/// Whether a bracket holds nothing before a place but other brackets, and is not that of a function.
fn is_around(pieces: &[&str], open: usize, begin: usize) -> bool {
    let is_name = |piece: &&str| piece.starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == '"');
    let is_call = open.checked_sub(1).and_then(|before| pieces.get(before)).is_some_and(is_name);
    !is_call && pieces.get(open + 1..begin).is_some_and(|between| between.iter().all(|piece| *piece == "("))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paths_of_a_column_are_found_anywhere_in_a_text() {
        let paths = |sql: &str| -> String {
            let Some(found) = json_paths(sql, "doc") else { return "unknown".to_owned() };
            found.iter().map(|path| path.join("/")).collect::<Vec<_>>().join(" ")
        };
        for (sql, found) in [
            ("lower((doc ->> 'mac'::text))", "mac"),
            ("(((doc -> 'offer'::text) ->> 'price'::text))::numeric, id", "offer/price"),
            ("(doc #>> '{offer,price}'::text[])", "offer/price"),
            ("(doc['offer'::text]['price'::text])", "offer/price"),
            ("(SELECT d.id, (d.doc ->> 'a'::text) AS a FROM s.t d WHERE (d.doc ? 'b'::text))", "a b"),
            ("COALESCE((s.t.doc ->> 'a'::text), ((s.t.doc -> 'b'::text) ->> 'c'::text))", "a b/c"),
            ("((other -> (doc ->> 'a'::text)) ->> 'b'::text)", "a"),
            ("(f(doc) ->> 'a'::text)", ""),
            ("((doc -> 0) ->> 'a'::text)", ""),
            ("(doc.a ->> 'a'::text)", ""),
            ("(doc ->> key)", ""),
            (
                "(SELECT COALESCE(f((t.doc ->> 'a'::text)), g(t.doc, b)) WHERE lower((doc ->> 'b'::text)) IN (doc))",
                "a b",
            ),
            ("(SELECT f(t.doc) AS x, (t.doc ->> 'a'::text) FROM t JOIN s.u USING (doc))", "a"),
            ("(WITH x AS (SELECT (t.doc -> 'a'::text) AS doc FROM t) SELECT (x.doc ->> 'b'::text) FROM x)", "unknown"),
            ("(WITH x(id, doc) AS ( SELECT t.id, t.doc FROM t) SELECT (x.doc ->> 'a'::text) FROM x)", "unknown"),
            ("(SELECT (i.doc ->> 'a'::text) FROM t, LATERAL jsonb_array_elements(t.doc) i(doc))", "unknown"),
            ("(SELECT (i.doc ->> 'a'::text) FROM t, jsonb_each(t.doc) WITH ORDINALITY i(key, doc, n))", "unknown"),
            ("(SELECT (i.doc ->> 'a'::text) FROM jsonb_to_recordset('[]'::jsonb) i(id integer, doc jsonb))", "unknown"),
            ("(SELECT (i.doc ->> 'a'::text) FROM s.t i(id, doc))", "unknown"),
            ("'doc', )), ((", ""),
            ("", ""),
        ] {
            assert_eq!(paths(sql), found, "{sql}");
        }
        assert_eq!(json_paths("((\"My doc\" ->> 'a'::text))", "My doc").unwrap().len(), 1);
    }

    #[test]
    fn every_spelling_of_a_json_path_is_recognised() {
        for (text, is_text) in [
            ("((doc -> 'offer'::text) ->> 'price'::text)", true),
            ("(doc #>> '{offer,price}'::text[])", true),
            ("(doc #>> ARRAY['offer'::text, 'price'::text])", true),
            ("((doc #>> '{offer,price}'::text[]))::numeric", false),
            ("doc['offer'::text]['price'::text]", false),
            ("jsonb_extract_path_text(doc, VARIADIC ARRAY['offer'::text, 'price'::text])", true),
            ("jsonb_extract_path_text(doc, VARIADIC '{offer,price}'::text[])", true),
        ] {
            let path = JsonPath::read(&Sql::new(text)).unwrap();
            assert_eq!(
                (path.root.as_str(), path.steps, path.is_text),
                ("doc", vec!["offer".into(), "price".into()], is_text)
            );
        }
        for text in ["mac", "lower((doc ->> 'a'::text))", "(doc ->> key)", ""] {
            assert_eq!(JsonPath::read(&Sql::new(text)), None, "{text}");
        }
    }
}
