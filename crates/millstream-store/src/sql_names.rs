//! The names in a text of SQL, found without the server: to parse a text there can already run code.

use millstream_model::limits::IDENTIFIER_BYTES_MAX;

/// The names in texts of SQL, as parameters of a statement.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SqlNames {
    /// The schema of each name, if one is written.
    pub(crate) schemas: Vec<Option<String>>,
    /// As PostgreSQL reads them.
    pub(crate) names: Vec<String>,
    /// Where each name stands: see the constants.
    pub(crate) places: Vec<&'static str>,
    /// The schema of each name that stands where a relation can, if one is written.
    pub(crate) relation_schemas: Vec<Option<String>>,
    /// Those names.
    pub(crate) relations: Vec<String>,
    /// The schema of each operator, if one is written.
    pub(crate) operator_schemas: Vec<Option<String>>,
    /// The operators, also those that a word such as `in` stands for.
    pub(crate) operators: Vec<String>,
    /// Whether there are values. To read one of a domain is to run the domain's check.
    pub(crate) has_literals: bool,
    /// Whether there is a name that can be spelled in many ways (`U&"..."`).
    pub(crate) has_escapes: bool,
    /// Whether arguments may be given by name.
    pub(crate) names_arguments: bool,
}

/// Before a parenthesis, or behind the dot of an expression: a function, or a type.
const CALLED: &str = "called";

/// Behind the dot of a name: a column, or a function of a row.
const DOTTED: &str = "dotted";

/// Where a type can stand.
const TYPE: &str = "type";

/// Anywhere else, in a text that declares columns: a type, but not that of a table.
const WORD: &str = "word";

/// Anywhere else: a column.
const NAME: &str = "name";

/// With these words a text declares columns.
const DECLARING: &[&str] = &["json_table", "returning", "xmltable"];

/// With these words a text begins to name relations.
const READING: &[&str] = &["from", "into", "table", "update"];

/// Further words that a relation may follow, once a text names some.
const READING_MORE: &[&str] = &["join", "only", "using"];

/// The characters of operators.
const OPERATOR: &str = "+-*/<>=~!@#%^&|`?";

/// An operator with one of these may end in a sign.
const BEFORE_SIGN: &str = "~!@#^&|`?%";

/// Operators that words stand for.
const WORDS: &[(&str, &[&str])] = &[
    ("between", &[">=", "<=", "<", ">"]),
    ("case", &["="]),
    ("distinct", &["="]),
    ("ilike", &["~~*", "!~~*"]),
    ("in", &["=", "<>"]),
    ("like", &["~~", "!~~"]),
    ("natural", &["="]),
    ("nullif", &["="]),
    ("similar", &["~", "!~"]),
    ("using", &["="]),
];

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Name(String),
    Escapes,
    Operator(String),
    Literal,
    Mark(char),
}

impl SqlNames {
    /// Those of texts, each of which is read by itself.
    pub(crate) fn of(texts: &[&str]) -> Self {
        let mut names = Self::default();
        texts.iter().for_each(|text| names.add(&tokens(text)));
        names
    }

    fn add(&mut self, tokens: &[Token]) {
        let (dot, named) = (Token::Mark('.'), |name: &str| Token::Name(name.to_owned()));
        let casts = tokens.contains(&named("cast"));
        let elsewhere = if declares(tokens) { WORD } else { NAME };
        let mut reads = false;
        for (n, token) in tokens.iter().enumerate() {
            let before = n.checked_sub(1).map(|n| &tokens[n]);
            let is_dotted = before == Some(&dot);
            let schema = match n.checked_sub(2).map(|n| &tokens[n]) {
                Some(Token::Name(schema)) if is_dotted => Some(schema.clone()),
                _ => None,
            };
            match token {
                Token::Literal => self.has_literals = true,
                Token::Escapes => self.has_escapes = true,
                Token::Mark(_) => {}
                Token::Operator(operator) => {
                    self.names_arguments |= operator == "=>" || operator == "=" && before == Some(&Token::Mark(':'));
                    self.add_operator(schema, operator);
                }
                Token::Name(name) => {
                    let after = tokens.get(n + 1);
                    let is_called = after == Some(&Token::Mark('('));
                    let first = first_of_name(tokens, n).checked_sub(1).map(|n| &tokens[n]);
                    let is_type = first == Some(&Token::Mark(':'))
                        || after == Some(&Token::Literal)
                        || casts && first == Some(&named("as"));
                    self.has_literals |= ["true", "false"].contains(&name.as_str());
                    if is_dotted && !is_called {
                        // `row.f` and `(expression).f` are also calls of f.
                        self.add_name(None, name, if schema.is_some() { DOTTED } else { CALLED });
                    }
                    let place = match (is_called, is_type) {
                        (true, _) => CALLED,
                        (false, true) => TYPE,
                        (false, false) => elsewhere,
                    };
                    if reads && after != Some(&dot) && follows_reading(tokens, n) {
                        self.relation_schemas.push(schema.clone());
                        self.relations.push(name.clone());
                    }
                    reads |= READING.contains(&name.as_str());
                    self.add_name(schema, name, place);
                    for (_, operators) in WORDS.iter().filter(|(word, _)| *word == name.as_str()) {
                        operators.iter().for_each(|operator| self.add_operator(None, operator));
                    }
                }
            }
        }
    }

    fn add_name(&mut self, schema: Option<String>, name: &str, place: &'static str) {
        self.schemas.push(schema);
        self.names.push(name.to_owned());
        self.places.push(place);
    }

    fn add_operator(&mut self, schema: Option<String>, operator: &str) {
        self.operator_schemas.push(schema.clone());
        self.operators.push(operator.to_owned());
        if operator == "!=" {
            self.operator_schemas.push(schema);
            self.operators.push("<>".to_owned());
        }
    }
}

/// Where the name begins whose last part is this token.
fn first_of_name(tokens: &[Token], mut last: usize) -> usize {
    while last >= 2 && tokens[last - 1] == Token::Mark('.') && matches!(tokens[last - 2], Token::Name(_)) {
        last -= 2;
    }
    last
}

/// Whether the name whose last part is this token stands where a relation can, in a text that names relations: behind a
/// word for that or a comma, also in parentheses.
fn follows_reading(tokens: &[Token], last: usize) -> bool {
    let before = &tokens[..first_of_name(tokens, last)];
    match before.iter().rev().find(|token| **token != Token::Mark('(')) {
        Some(Token::Name(word)) => READING.contains(&word.as_str()) || READING_MORE.contains(&word.as_str()),
        before => before == Some(&Token::Mark(',')),
    }
}

/// Whether a text may declare columns, so that the name of a type follows that of a column.
fn declares(tokens: &[Token]) -> bool {
    let is_name = |token: &Token, names: &[&str]| matches!(token, Token::Name(name) if names.contains(&name.as_str()));
    tokens.iter().any(|token| is_name(token, DECLARING))
        || tokens.windows(2).any(|two| is_name(&two[0], &["as"]) && two[1] == Token::Mark('('))
        || tokens.windows(3).any(|three| {
            let is_alias = is_name(&three[0], &["as"]) || three[0] == Token::Mark(')');
            is_alias && matches!(three[1], Token::Name(_)) && three[2] == Token::Mark('(')
        })
}

/// The parts of a text, without spaces and comments, as the server's own lexer takes it apart.
fn tokens(text: &str) -> Vec<Token> {
    let (mut found, mut rest) = (Vec::new(), text);
    while let Some(first) = rest.chars().next() {
        let length = match first {
            ' ' | '\t'..='\r' => 1,
            _ if rest.starts_with("--") => rest.find(['\n', '\r']).unwrap_or(rest.len()),
            _ if rest.starts_with("/*") => comment(rest),
            '\'' => {
                found.push(Token::Literal);
                quoted(rest, '\'')
            }
            '"' => {
                let end = quoted(rest, '"');
                let name = rest[1..end].strip_suffix('"').unwrap_or(&rest[1..end]);
                found.push(Token::Name(cut(name.replace("\"\"", "\""))));
                end
            }
            '$' => dollar(rest).map_or(1, |end| {
                found.push(Token::Literal);
                end
            }),
            '0'..='9' => {
                found.push(Token::Literal);
                rest.find(|c: char| !is_part(c) && c != '.').unwrap_or(rest.len())
            }
            _ if is_part(first) => {
                let (token, end) = word(rest);
                found.push(token);
                end
            }
            _ if OPERATOR.contains(first) => {
                let operator = operator(rest);
                found.push(Token::Operator(operator.to_owned()));
                operator.len()
            }
            _ => {
                found.push(Token::Mark(first));
                first.len_utf8()
            }
        };
        rest = &rest[length..];
    }
    found
}

fn is_part(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '$' || !c.is_ascii()
}

/// The name, as long as PostgreSQL keeps it.
fn cut(mut name: String) -> String {
    name.truncate(name.floor_char_boundary(IDENTIFIER_BYTES_MAX));
    name
}

/// A name without quotes, or a value or name whose quotes have a letter before them; and its length.
fn word(text: &str) -> (Token, usize) {
    let end = text.find(|c: char| !is_part(c)).unwrap_or(text.len());
    let (name, after) = (text[..end].to_ascii_lowercase(), &text[end..]);
    match name.as_str() {
        "e" if after.starts_with('\'') => (Token::Literal, end + escaped(after)),
        "b" | "n" | "x" if after.starts_with('\'') => (Token::Literal, end + quoted(after, '\'')),
        "u" if after.starts_with("&'") => (Token::Literal, end + 1 + quoted(&after[1..], '\'')),
        "u" if after.starts_with("&\"") => (Token::Escapes, end + 1 + quoted(&after[1..], '"')),
        _ => (Token::Name(cut(name)), end),
    }
}

/// The length of the text in quotes with which a text begins. Two quotes stand for one.
fn quoted(text: &str, quote: char) -> usize {
    let mut at = 1;
    while let Some(end) = text[at..].find(quote) {
        at += end + 1;
        if !text[at..].starts_with(quote) {
            return at;
        }
        at += 1;
    }
    text.len()
}

/// As `quoted`, where a backslash escapes.
fn escaped(text: &str) -> usize {
    let mut characters = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = characters.next() {
        match c {
            '\\' => _ = characters.next(),
            '\'' if characters.peek().is_some_and(|(_, next)| *next == '\'') => _ = characters.next(),
            '\'' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// The length of the text between tags such as `$a$` with which a text begins.
fn dollar(text: &str) -> Option<usize> {
    let end = text[1..].find('$')? + 2;
    let tag = &text[1..end - 1];
    if tag.starts_with(|c: char| c.is_ascii_digit()) || !tag.chars().all(is_part) {
        return None;
    }
    Some(text[end..].find(&text[..end]).map_or(text.len(), |at| end + at + end))
}

/// The length of the comment with which a text begins. Comments may have comments in them.
fn comment(text: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        if rest.starts_with(b"/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if rest.starts_with(b"*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}

/// The operator with which a text begins: up to a comment, and without signs that belong to what follows.
fn operator(text: &str) -> &str {
    let end = text.find(|c: char| !OPERATOR.contains(c)).unwrap_or(text.len());
    let run = &text[..end];
    let comments = ["--", "/*"].iter().filter_map(|start| run.find(*start));
    let mut operator = &run[..comments.min().unwrap_or(end)];
    let may_end_in_sign = operator[..operator.len() - 1].contains(|c: char| BEFORE_SIGN.contains(c));
    while !may_end_in_sign && operator.len() > 1 && operator.ends_with(['+', '-']) {
        operator = &operator[..operator.len() - 1];
    }
    operator
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(text: &str) -> Vec<String> {
        let SqlNames { schemas, names, places, .. } = SqlNames::of(&[text]);
        let names = schemas.into_iter().zip(names).zip(places);
        names
            .map(|((schema, name), place)| match schema {
                Some(schema) => format!("{place} {schema}.{name}"),
                None => format!("{place} {name}"),
            })
            .collect()
    }

    #[test]
    fn names_are_read_as_the_server_reads_them() {
        for (text, expected) in [
            ("Lower(doc->>'lower')", &["called lower", "name doc"][..]),
            ("evil . \"G\"\"x\" /* a /* b */ */ (a)", &["name evil", "called evil.G\"x", "name a"]),
            ("x::evil.e[]", &["name x", "type evil", "dotted e", "type evil.e"]),
            ("(a).f", &["name a", "called f", "name f"]),
            ("cast(a as t) -- b\n, t 'x'", &["called cast", "name a", "name as", "type t", "type t"]),
            ("f(a) as x (b t)", &["called f", "word a", "word as", "called x", "word b", "word t"]),
            ("$a$ b $a$ || E'\\' c' || 'd''e' || $1", &[]),
            ("1e5 + a$1", &["name a$1"]),
        ] {
            assert_eq!(named(text), expected, "{text}");
        }
    }

    #[test]
    fn names_are_relations_where_relations_can_stand() {
        for (text, expected) in [
            ("a = b and f(a, b)", &[][..]),
            ("select a, b from evil.\"W\" as w, c where d = e", &["evil.W", "c"]),
            ("select from a join only (b) using (id) where f(x, y)", &["a", "only", "b", "id", "y"]),
            ("select from ((a natural join x.b.c))", &["a", "b.c"]),
            ("with n as (delete from a using b returning 1) table d", &["a", "b", "d"]),
            ("insert into a (b) select 'from c' from d", &["a", "d"]),
            ("update only a set b = 1", &["only", "a"]),
        ] {
            let SqlNames { relation_schemas, relations, .. } = SqlNames::of(&[text]);
            let found = relation_schemas.into_iter().zip(relations);
            let found: Vec<String> =
                found.map(|(schema, name)| schema.map(|schema| schema + ".").unwrap_or_default() + &name).collect();
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn operators_end_where_the_server_ends_them() {
        for (text, expected) in [
            ("a=-1", &["=", "-"][..]),
            ("a @- b", &["@-"]),
            ("a >=/* x */ b", &[">="]),
            ("a <--b", &["<"]),
            ("a != b", &["!=", "<>"]),
            ("a like b", &["~~", "!~~"]),
            ("'a = b'", &[]),
        ] {
            assert_eq!(SqlNames::of(&[text]).operators, expected, "{text}");
        }
        assert_eq!(SqlNames::of(&["a operator(evil.=) b"]).operator_schemas, [Some("evil".to_owned())]);
    }

    #[test]
    fn values_and_escapes_are_seen() {
        for (text, has_literals, has_escapes) in
            [("a", false, false), ("a = 'x'", true, false), ("a = 1", true, false), ("U&\"\\0061\"(b)", false, true)]
        {
            let names = SqlNames::of(&[text]);
            assert_eq!((names.has_literals, names.has_escapes), (has_literals, has_escapes), "{text}");
        }
    }

    #[test]
    fn texts_that_do_not_end_are_read_to_their_end() {
        for text in ["'", "\"", "\"é", "E'\\", "$a$ b", "/* a", "--", "$", "u&\"", "é'"] {
            SqlNames::of(&[text]);
        }
    }
}
