//! The path by which an expression reads a value in a JSON document, in any of its notations.

use super::sql::Sql;

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
                "(" | ")" | "," | "[" | "]" | "VARIADIC" | "ARRAY" => {}
                "->" | "->>" | "#>" | "#>>" => {
                    reads_text = piece.ends_with(">>");
                    is_list = piece.starts_with('#');
                }
                _ if FUNCTIONS.contains(&piece) => reads_text = piece.ends_with("_text"),
                _ if piece.starts_with('\'') => {
                    let text = Sql::new(piece).literal()?;
                    match text
                        .strip_prefix('{')
                        .and_then(|rest| rest.strip_suffix('}'))
                        .filter(|_| is_list || root.is_some())
                    {
                        Some(list) => steps.extend(list.split(',').map(|step| step.trim_matches('"').to_owned())),
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

#[cfg(test)]
mod tests {
    use super::*;

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
