//! The key of a collection: typed values found in a document by path.

use crate::limits::{IDENTIFIER_BYTES_MAX, KEY_COLUMNS_MAX, KEY_PATH_SEGMENTS_MAX};
use serde::{Deserialize, Serialize};

/// Type of a key column.
///
/// `numeric`, `real` and `double precision` are not here: their equal values have many spellings
/// (1, 1.0, 1.00), rounding makes keys collide, and NaN has its own order. Keep such a value as
/// `text`, which is jsonb's spelling of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyType {
    /// `text`, collation "C". Takes strings, numbers (in jsonb's spelling) and booleans.
    Text,
    /// `bigint`.
    Bigint,
    /// `integer`.
    Integer,
    /// `uuid`.
    Uuid,
    /// `timestamp with time zone`.
    Timestamptz,
    /// `date`.
    Date,
    /// `boolean`.
    Boolean,
}

/// Every key type, in the order of the enum.
pub const KEY_TYPES: &[KeyType] = &[
    KeyType::Text,
    KeyType::Bigint,
    KeyType::Integer,
    KeyType::Uuid,
    KeyType::Timestamptz,
    KeyType::Date,
    KeyType::Boolean,
];

/// Names under which a type may be asked for; the first of a type is its own.
const TYPE_NAMES: &[(&str, KeyType)] = &[
    ("text", KeyType::Text),
    ("string", KeyType::Text),
    ("bigint", KeyType::Bigint),
    ("int8", KeyType::Bigint),
    ("integer", KeyType::Integer),
    ("int", KeyType::Integer),
    ("int4", KeyType::Integer),
    ("uuid", KeyType::Uuid),
    ("timestamptz", KeyType::Timestamptz),
    ("timestamp with time zone", KeyType::Timestamptz),
    ("date", KeyType::Date),
    ("boolean", KeyType::Boolean),
    ("bool", KeyType::Boolean),
];

/// Names PostgreSQL keeps for itself in every table.
const SYSTEM_COLUMNS: &[&str] = &["ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"];

impl KeyType {
    /// The type's name in SQL.
    pub fn sql_name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Bigint => "bigint",
            Self::Integer => "integer",
            Self::Uuid => "uuid",
            Self::Timestamptz => "timestamptz",
            Self::Date => "date",
            Self::Boolean => "boolean",
        }
    }

    /// What a value of this type is written like, as the end of a sentence that begins with
    /// `expected`.
    pub fn expectation(self) -> &'static str {
        match self {
            Self::Text => "a string, a number or a boolean",
            Self::Bigint => {
                "a whole number from -9223372036854775808 to 9223372036854775807 (bigint)"
            }
            Self::Integer => "a whole number from -2147483648 to 2147483647 (integer)",
            Self::Uuid => "a UUID such as 6f1c0e0a-7d3b-4a52-9f0e-3c1f5f0b9a11",
            Self::Timestamptz => {
                "an RFC 3339 time with zone such as 2024-02-29T12:00:00.5Z (timestamptz)"
            }
            Self::Date => "a date such as 2024-02-29",
            Self::Boolean => "true or false",
        }
    }
}

impl std::str::FromStr for KeyType {
    type Err = KeyError;

    /// Takes SQL's names and common short ones, in any case.
    fn from_str(text: &str) -> Result<Self, KeyError> {
        let wanted = text.trim();
        TYPE_NAMES
            .iter()
            .find(|(name, _)| name.eq_ignore_ascii_case(wanted))
            .map(|&(_, key_type)| key_type)
            .ok_or_else(|| KeyError::Type(wanted.to_owned()))
    }
}

impl std::fmt::Display for KeyType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.sql_name())
    }
}

/// A key column as asked for: the type may still be open.
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
    /// slashes. Characters in double quotes are taken as they are, `""` in them is one quote. The
    /// column is the path's last segment unless `COLUMN=` names it.
    ///
    /// # Errors
    /// Names the piece that is wrong and the way out.
    pub fn parse_list(text: &str) -> Result<Vec<Self>, KeyError> {
        let letters = Letter::read(text)?;
        let requests = letters
            .split(|l| l.is(','))
            .map(Self::parse_piece)
            .collect::<Result<Vec<_>, _>>()?;
        check_columns(requests.iter().map(|r| r.column.as_str()))?;
        Ok(requests)
    }

    fn parse_piece(piece: &[Letter]) -> Result<Self, KeyError> {
        let wrong = |problem| KeyError::Shape(Letter::text(piece), problem);
        let (column, rest) = match piece.iter().position(|l| l.is('=')) {
            Some(at) => (Some(Letter::text(&piece[..at])), &piece[at + 1..]),
            None => (None, piece),
        };
        let (path, key_type) = match rest.iter().rposition(|l| l.is(':')) {
            Some(at) => (
                &rest[..at],
                Some(Letter::text(&rest[at + 1..]).parse::<KeyType>()?),
            ),
            None => (rest, None),
        };
        if path.is_empty() {
            return Err(wrong("the path is empty"));
        }
        let path = match path[0].is('/') {
            true => pointer_segments(&path[1..]).ok_or_else(|| {
                wrong("in a JSON Pointer '~' is written ~0 and a '/' within a name ~1")
            })?,
            false => dotted_segments(path)
                .ok_or_else(|| wrong("a segment is empty; write an empty name as \"\""))?,
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
        Ok(Self {
            column,
            path,
            key_type,
        })
    }

    /// The path as it would be typed: dotted, or a JSON Pointer where a name is odd.
    pub fn path_text(&self) -> String {
        path_text(&self.path)
    }
}

/// A column of a key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KeyColumn {
    /// Column name.
    pub name: String,
    /// Path from the document's root, as for `#>>`.
    pub path: Vec<String>,
    /// Column type.
    #[serde(rename = "type")]
    pub key_type: KeyType,
}

/// A whole key: columns in index order.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct KeySpec {
    /// The columns, at least one.
    pub columns: Vec<KeyColumn>,
}

impl KeySpec {
    /// The key that was asked for, when every type is known.
    ///
    /// # Errors
    /// Names the first column whose type is still open.
    pub fn from_requests(requests: &[KeyRequest]) -> Result<Self, KeyError> {
        let columns = requests
            .iter()
            .map(|request| {
                Ok(KeyColumn {
                    name: request.column.clone(),
                    path: request.path.clone(),
                    key_type: request
                        .key_type
                        .ok_or_else(|| KeyError::Open(request.column.clone()))?,
                })
            })
            .collect::<Result<Vec<_>, KeyError>>()?;
        check_columns(columns.iter().map(|c| c.name.as_str()))?;
        Ok(Self { columns })
    }

    /// The types of the columns, in order.
    pub fn types(&self) -> Vec<KeyType> {
        self.columns.iter().map(|c| c.key_type).collect()
    }
}

impl KeyColumn {
    /// The path as it would be typed: dotted, or a JSON Pointer where a name is odd.
    pub fn path_text(&self) -> String {
        path_text(&self.path)
    }
}

/// Why a text is no key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// A piece does not parse.
    #[error("\"{0}\" is not a key column: {1} (expected [COLUMN=]PATH[:TYPE][,..])")]
    Shape(String, &'static str),
    /// A double quote is not closed.
    #[error("\"{0}\" is not a key: a double quote is not closed")]
    Quote(String),
    /// Not a type a key column can have.
    #[error(
        "\"{0}\" is not a key type: expected text, bigint, integer, uuid, timestamptz, date or boolean; \
         keep any other number as text, and put a name that holds ':' in double quotes"
    )]
    Type(String),
    /// Two columns of one name.
    #[error("two key columns are named \"{0}\": name one with COLUMN=PATH")]
    Clash(String),
    /// A name that the table needs for something else.
    #[error("a key column cannot be named \"{0}\", which is taken: name it with COLUMN=PATH")]
    Reserved(String),
    /// PostgreSQL would cut the name short.
    #[error(
        "the column name \"{0}\" is longer than {IDENTIFIER_BYTES_MAX} bytes: name it with COLUMN=PATH"
    )]
    LongName(String),
    /// PostgreSQL has no identifier with a NUL in it.
    #[error("a column name cannot hold a NUL character: name it with COLUMN=PATH")]
    Nul,
    /// Too many columns.
    #[error("the key has {0} columns: at most {KEY_COLUMNS_MAX} are possible")]
    Columns(usize),
    /// Too many segments.
    #[error("the path of \"{0}\" has more than {KEY_PATH_SEGMENTS_MAX} segments")]
    Deep(String),
    /// A type is needed.
    #[error("the type of key column \"{0}\" is not known: write PATH:TYPE")]
    Open(String),
}

fn check_columns<'a>(names: impl Iterator<Item = &'a str>) -> Result<(), KeyError> {
    let names: Vec<&str> = names.collect();
    if names.is_empty() || names.len() > KEY_COLUMNS_MAX {
        return Err(KeyError::Columns(names.len()));
    }
    for (n, &name) in names.iter().enumerate() {
        if name == "doc" || SYSTEM_COLUMNS.contains(&name) {
            return Err(KeyError::Reserved(name.to_owned()));
        }
        if name.len() > IDENTIFIER_BYTES_MAX {
            return Err(KeyError::LongName(name.to_owned()));
        }
        if name.contains('\0') {
            return Err(KeyError::Nul);
        }
        if names[..n].contains(&name) {
            return Err(KeyError::Clash(name.to_owned()));
        }
    }
    Ok(())
}

/// A character of a key as typed; a quoted one separates nothing.
#[derive(Clone, Copy)]
struct Letter {
    char: char,
    quoted: bool,
    /// Stands for a pair of quotes around nothing.
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
                letters.push(Self {
                    char,
                    quoted,
                    empty: false,
                });
            } else if let Some(began) = quote_began.take() {
                if letters.len() == began {
                    letters.push(Self {
                        char,
                        quoted: true,
                        empty: true,
                    });
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
        letters
            .iter()
            .filter(|l| !l.empty)
            .map(|l| l.char)
            .collect()
    }
}

fn dotted_segments(path: &[Letter]) -> Option<Vec<String>> {
    path.split(|l| l.is('.'))
        .map(|segment| (!segment.is_empty()).then(|| Letter::text(segment)))
        .collect()
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

fn path_text(path: &[String]) -> String {
    let separating = |s: &str| s.contains(['"', ',', ':', '=']);
    let odd = |s: &String| s.is_empty() || s.contains(['.', '/', '~']) || separating(s);
    if !path.iter().any(odd) {
        return path.join(".");
    }
    path.iter()
        .map(|segment| {
            let name = segment.replace('~', "~0").replace('/', "~1");
            match separating(&name) {
                true => format!("/\"{}\"", name.replace('"', "\"\"")),
                false => format!("/{name}"),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(column: &str, path: &[&str], key_type: Option<KeyType>) -> KeyRequest {
        KeyRequest {
            column: column.to_owned(),
            path: path.iter().map(|s| (*s).to_owned()).collect(),
            key_type,
        }
    }

    #[test]
    fn types_are_listed_in_order_and_read_back() {
        assert!(KEY_TYPES.is_sorted());
        assert_eq!(KEY_TYPES.len(), *KEY_TYPES.last().unwrap() as usize + 1);
        for &key_type in KEY_TYPES {
            assert_eq!(key_type.sql_name().parse(), Ok(key_type));
            let json = serde_json::to_string(&key_type).unwrap();
            assert_eq!(json, format!("\"{}\"", key_type.sql_name()));
        }
        for (name, key_type) in TYPE_NAMES {
            assert_eq!(name.to_uppercase().parse(), Ok(*key_type));
        }
        for name in ["numeric", "float8", "", "timestamp", "jsonb"] {
            assert_eq!(
                name.parse::<KeyType>(),
                Err(KeyError::Type(name.to_owned()))
            );
        }
    }

    #[test]
    fn keys_parse() {
        use KeyType::{Bigint, Text, Timestamptz, Uuid};
        for (text, expected) in [
            ("id", vec![request("id", &["id"], None)]),
            ("id:int8", vec![request("id", &["id"], Some(Bigint))]),
            (
                "device=meta.device:text,ts:timestamp with time zone",
                vec![
                    request("device", &["meta", "device"], Some(Text)),
                    request("ts", &["ts"], Some(Timestamptz)),
                ],
            ),
            (
                "/a~1b/c:uuid",
                vec![request("c", &["a/b", "c"], Some(Uuid))],
            ),
            ("x=/", vec![request("x", &[""], None)]),
            ("/~01", vec![request("~1", &["~1"], None)]),
            ("x=\"\".a", vec![request("x", &["", "a"], None)]),
            ("\"a.b:c\".d", vec![request("d", &["a.b:c", "d"], None)]),
            (
                "\"say \"\"hi\"\"\"",
                vec![request("say \"hi\"", &["say \"hi\""], None)],
            ),
            (
                "last=items.-1.id",
                vec![request("last", &["items", "-1", "id"], None)],
            ),
            ("é.ü", vec![request("ü", &["é", "ü"], None)]),
        ] {
            assert_eq!(KeyRequest::parse_list(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn bad_keys_name_the_piece_and_the_way_out() {
        let long = "x".repeat(64);
        let many = (0..9)
            .map(|n| format!("c{n}"))
            .collect::<Vec<_>>()
            .join(",");
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
            ("a:numeric", "\"numeric\" is not a key type"),
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
        for text in [
            "a",
            "a.b.c",
            "/a~1b/c",
            "/a.b/~0",
            "/\"a:b,c=\"\"\"/d",
            "//a",
        ] {
            let typed = format!("x={text}");
            assert_eq!(KeyRequest::parse_list(&typed).unwrap()[0].path_text(), text);
        }
    }

    #[test]
    fn a_spec_needs_every_type() {
        let open = KeyRequest::parse_list("a:text,b").unwrap();
        assert_eq!(
            KeySpec::from_requests(&open),
            Err(KeyError::Open("b".to_owned()))
        );
        let spec = KeySpec::from_requests(&KeyRequest::parse_list("a:text,b:date").unwrap());
        let spec = spec.unwrap();
        assert_eq!(spec.types(), [KeyType::Text, KeyType::Date]);
        let json = serde_json::to_string(&spec).unwrap();
        assert_eq!(serde_json::from_str::<KeySpec>(&json).unwrap(), spec);
        assert_eq!(KeySpec::from_requests(&[]), Err(KeyError::Columns(0)));
    }
}
