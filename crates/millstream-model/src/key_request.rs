//! A key as it is typed: `[COLUMN=]PATH[:TYPE][,..]`.

use crate::KeyType;
use crate::key_error::{KeyError, check_columns};
use crate::limits::KEY_PATH_SEGMENTS_MAX;
use crate::path_text::path_text;

/// A requested key column. Its type may not be known yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRequest {
    /// Column name.
    pub column: String,
    /// Path from the document's root, as for `#>>`: member names, or indexes where a segment meets
    /// an array (negative ones count from its end).
    pub path: Vec<String>,
    /// The type if it was given.
    pub key_type: Option<KeyType>,
}

impl KeyRequest {
    /// Parses `[COLUMN=]PATH[:TYPE][,..]`.
    ///
    /// `PATH` is `a.b.c`, or a JSON Pointer `/a~1b/c` (RFC 6901) for member names with dots or
    /// slashes. Characters in double quotes are taken literally; `""` inside them is one quote. The
    /// column is named after the path's last segment unless `COLUMN=` names it.
    ///
    /// # Errors
    /// Names the piece that is wrong and how to correct it.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, KeyError> {
        let requests = Self::parse_paths(text)?;
        check_columns(requests.iter().map(|r| r.column.as_str()))?;
        Ok(requests)
    }

    /// Parses the same form for values that do not become columns. Does not check column names.
    ///
    /// # Errors
    /// Names the piece that is wrong and how to correct it.
    pub fn parse_paths(text: &str) -> Result<Vec<Self>, KeyError> {
        let letters = Letter::read(text)?;
        letters.split(|l| l.is(',')).map(Self::parse_piece).collect()
    }

    fn parse_piece(piece: &[Letter]) -> Result<Self, KeyError> {
        let wrong = |problem| KeyError::Shape(Letter::text(piece), problem);
        let (column, rest) = match piece.iter().position(|l| l.is('=')) {
            Some(at) => (Some(Letter::text(&piece[..at])), &piece[at + 1..]),
            None => (None, piece),
        };
        let (path, key_type) = match rest.iter().rposition(|l| l.is(':')) {
            Some(at) if at > 0 && rest[at - 1].is(':') => {
                return Err(KeyError::Cast(Letter::text(&rest[..at - 1]), Letter::text(&rest[at + 1..])));
            }
            Some(at) => {
                // A type may contain a colon: `timestamptz:epoch`.
                let before = rest[..at].iter().rposition(|l| l.is(':'));
                let spelled = before.and_then(|at| Some((at, Letter::text(&rest[at + 1..]).parse::<KeyType>().ok()?)));
                match spelled {
                    Some((at, key_type)) => (&rest[..at], Some(key_type)),
                    None => (&rest[..at], Some(Letter::text(&rest[at + 1..]).parse::<KeyType>()?)),
                }
            }
            None => (rest, None),
        };
        if path.is_empty() {
            return Err(wrong("the path is empty"));
        }
        let path = match path[0].is('/') {
            true => pointer_segments(&path[1..])
                .ok_or_else(|| wrong("in a JSON Pointer '~' is written ~0 and a '/' within a name ~1"))?,
            false => dotted_segments(path).ok_or_else(|| wrong("a segment is empty; write an empty name as \"\""))?,
        };
        if path.len() > KEY_PATH_SEGMENTS_MAX {
            return Err(KeyError::Deep(Letter::text(piece)));
        }
        if path.iter().any(|segment| segment.contains('\0')) {
            return Err(wrong("a member name cannot hold a NUL character"));
        }
        let last = path.last().cloned().unwrap_or_default();
        let column = column.unwrap_or(last);
        if column.is_empty() {
            return Err(wrong("the column has no name; write COLUMN=PATH"));
        }
        Ok(Self { column, path, key_type })
    }

    /// Whether only a path was typed: no type, and no column that has another name than the path.
    pub fn is_path(&self) -> bool {
        self.key_type.is_none() && self.path.last() == Some(&self.column)
    }

    /// The path as you would type it: dotted, or a JSON Pointer if a name needs it.
    pub fn path_text(&self) -> String {
        path_text(&self.path)
    }
}

/// A character of a typed key. A quoted one is never a separator.
#[derive(Clone, Copy)]
struct Letter {
    char: char,
    quoted: bool,
    /// Stands for a pair of quotes with nothing inside.
    empty: bool,
}

impl Letter {
    fn read(text: &str) -> Result<Vec<Self>, KeyError> {
        let mut letters = Vec::with_capacity(text.len());
        let mut quote_began = None;
        let mut chars = text.chars().peekable();
        while let Some(char) = chars.next() {
            let quoted = quote_began.is_some();
            let literal = char != '"' || (quoted && chars.next_if_eq(&'"').is_some());
            if literal {
                letters.push(Self { char, quoted, empty: false });
            } else if let Some(began) = quote_began.take() {
                if letters.len() == began {
                    letters.push(Self { char, quoted: true, empty: true });
                }
            } else {
                quote_began = Some(letters.len());
            }
        }
        match quote_began {
            Some(_) => Err(KeyError::Quote(text.to_owned())),
            None => Ok(letters),
        }
    }

    fn is(self, char: char) -> bool {
        !self.quoted && self.char == char
    }

    fn text(letters: &[Self]) -> String {
        letters.iter().filter(|l| !l.empty).map(|l| l.char).collect()
    }
}

fn dotted_segments(path: &[Letter]) -> Option<Vec<String>> {
    path.split(|l| l.is('.')).map(|segment| (!segment.is_empty()).then(|| Letter::text(segment))).collect()
}

fn pointer_segments(path: &[Letter]) -> Option<Vec<String>> {
    path.split(|l| l.is('/'))
        .map(|segment| {
            let text = Letter::text(segment);
            let mut pieces = text.split('~');
            let mut name = pieces.next().unwrap_or_default().to_owned();
            for piece in pieces {
                name.push(match piece.as_bytes().first()? {
                    b'0' => '~',
                    b'1' => '/',
                    _ => return None,
                });
                name.push_str(&piece[1..]);
            }
            Some(name)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(column: &str, path: &[&str], key_type: Option<KeyType>) -> KeyRequest {
        KeyRequest { column: column.to_owned(), path: path.iter().map(|s| (*s).to_owned()).collect(), key_type }
    }

    #[test]
    fn keys_parse() {
        use KeyType::{Bigint, Text, Timestamptz, Uuid};
        for (text, expected) in [
            ("id", vec![request("id", &["id"], None)]),
            ("id:int8", vec![request("id", &["id"], Some(Bigint))]),
            (
                "device=meta.device:text,ts:timestamp with time zone",
                vec![request("device", &["meta", "device"], Some(Text)), request("ts", &["ts"], Some(Timestamptz))],
            ),
            ("at:timestamptz:epoch_ms", vec![request("at", &["at"], Some(KeyType::TimestamptzEpochMs))]),
            ("a:b:varchar(20)", vec![request("a:b", &["a:b"], Some(KeyType::Varchar(Some(20))))]),
            ("/a~1b/c:uuid", vec![request("c", &["a/b", "c"], Some(Uuid))]),
            ("x=/", vec![request("x", &[""], None)]),
            ("/~01", vec![request("~1", &["~1"], None)]),
            ("x=\"\".a", vec![request("x", &["", "a"], None)]),
            ("\"a.b:c\".d", vec![request("d", &["a.b:c", "d"], None)]),
            ("\"say \"\"hi\"\"\"", vec![request("say \"hi\"", &["say \"hi\""], None)]),
            ("last=items.-1.id", vec![request("last", &["items", "-1", "id"], None)]),
            ("é.ü", vec![request("ü", &["é", "ü"], None)]),
        ] {
            assert_eq!(KeyRequest::parse_list(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn key_errors_name_the_wrong_part_and_the_fix() {
        let long = "x".repeat(64);
        let many = (0..9).map(|n| format!("c{n}")).collect::<Vec<_>>().join(",");
        let deep = format!("x={}", vec!["a"; KEY_PATH_SEGMENTS_MAX + 1].join("."));
        for (text, part) in [
            ("", "the path is empty"),
            ("a,,b", "the path is empty"),
            ("a=", "\"a=\" is not a key column: the path is empty"),
            (":text", "the path is empty"),
            ("=a", "the column has no name"),
            ("a..b", "a segment is empty"),
            (".a", "a segment is empty"),
            ("/", "the column has no name; write COLUMN=PATH"),
            ("/a~2", "JSON Pointer"),
            ("/a~", "JSON Pointer"),
            ("a:float8", "\"float8\" is not a key type"),
            ("id::bigint", "\"id::bigint\" is SQL's spelling of a cast: write id:bigint"),
            ("a.id,b.id", "two key columns are named \"id\""),
            ("doc", "cannot be named \"doc\""),
            ("xmin", "cannot be named \"xmin\""),
            ("\"a", "a double quote is not closed"),
            ("a\0b", "NUL"),
            ("a\0=b", "NUL"),
            (&long, "longer than 63 bytes: name it with COLUMN=PATH"),
            (&many, "9 columns: at most 8"),
            (&deep, "more than 32 segments"),
        ] {
            let error = KeyRequest::parse_list(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text:?}: {error}");
        }
    }

    #[test]
    fn paths_print_as_they_are_typed() {
        for text in ["a", "a.b.c", "/a~1b/c", "/a.b/~0", "/\"a:b,c=\"\"\"/d", "//a"] {
            let typed = format!("x={text}");
            assert_eq!(KeyRequest::parse_list(&typed).unwrap()[0].path_text(), text);
        }
    }
}
