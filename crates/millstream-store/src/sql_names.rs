//! The names in a text of SQL, found without the server: to parse a text there can already run code.

use crate::sql_tokens::{Token, tokens};

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
    /// What there is that does not say which name it means.
    pub(crate) unclear: Option<&'static str>,
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

/// A type follows these words.
const BEFORE_TYPE: &[&str] = &["returning", "setof"];

/// With these words a text has a type behind `as`.
const CASTING: &[&str] = &["cast", "xmlserialize"];

/// No column of a declaration has such a name without quotes. They begin what else can stand there.
const RESERVED: &[&str] = &["all", "case", "distinct", "not", "select", "table", "variadic", "where"];

/// Functions that read a value of the type that their second argument names.
const READING_TYPE: &[&str] = &["pg_input_error_info", "pg_input_is_valid"];

/// A name that can be spelled in many ways.
const ESCAPES: &str = "a name with escapes (`U&\"..\"`)";

/// The type is known only when it is computed.
const COMPUTED: &str = "a call of pg_input_is_valid or pg_input_error_info whose type is no plain text";

/// With these words a text begins to name relations.
const READING: &[&str] = &["from", "into", "table", "update"];

/// Further words that a relation may follow, once a text names some.
const READING_MORE: &[&str] = &["join", "only", "using"];

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

impl SqlNames {
    /// Those of texts, each of which is read by itself.
    pub(crate) fn of(texts: &[&str]) -> Self {
        let mut names = Self::default();
        texts.iter().for_each(|text| names.add(&tokens(text)));
        names
    }

    fn add(&mut self, tokens: &[Token]) {
        let dot = Token::Mark('.');
        let casts = tokens.iter().any(|token| is_name(token, CASTING));
        let elsewhere = if declares(tokens) { WORD } else { NAME };
        let mut reads = false;
        for (n, token) in tokens.iter().enumerate() {
            let before = n.checked_sub(1).map(|n| &tokens[n]);
            let is_dotted = before == Some(&dot);
            let schema = schema_of(tokens, n);
            match token {
                Token::Literal(_) => self.has_literals = true,
                Token::Escapes => self.unclear = Some(ESCAPES),
                Token::Mark(_) => {}
                Token::Operator(operator) => {
                    self.names_arguments |= operator == "=>" || operator == "=" && before == Some(&Token::Mark(':'));
                    self.add_operator(schema, operator);
                }
                Token::Name(name) => {
                    let after = tokens.get(n + 1);
                    let is_called = after == Some(&Token::Mark('('));
                    let start = first_of_name(tokens, n);
                    let is_type = matches!(after, Some(Token::Literal(_)))
                        || elsewhere == WORD && is_declared(&tokens[..start])
                        || tokens[..start].last().is_some_and(|before| {
                            *before == Token::Mark(':')
                                || is_name(before, BEFORE_TYPE)
                                || casts && is_name(before, &["as"])
                        });
                    if is_called && READING_TYPE.contains(&name.as_str()) {
                        self.add_type_in(second_argument(&tokens[n + 2..]));
                    }
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

    /// Adds the type that a text names.
    fn add_type_in(&mut self, text: Option<&str>) {
        let Some(text) = text else {
            self.unclear = Some(COMPUTED);
            return;
        };
        let tokens = tokens(text);
        for (n, token) in tokens.iter().enumerate() {
            match token {
                Token::Name(name) => self.add_name(schema_of(&tokens, n), name, TYPE),
                Token::Escapes => self.unclear = Some(ESCAPES),
                _ => {}
            }
        }
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

fn is_name(token: &Token, names: &[&str]) -> bool {
    matches!(token, Token::Name(name) if names.contains(&name.as_str()))
}

/// The name before the dot before this token.
fn schema_of(tokens: &[Token], n: usize) -> Option<String> {
    match &tokens[..n] {
        [.., Token::Name(schema), Token::Mark('.')] => Some(schema.clone()),
        _ => None,
    }
}

/// The second argument of a call, if it is a string without escapes and the last, also with the cast to text with which the
/// server prints it. The tokens are those behind the parenthesis.
fn second_argument(tokens: &[Token]) -> Option<&str> {
    let mut depth = 0_usize;
    for (n, token) in tokens.iter().enumerate() {
        match token {
            Token::Mark('(' | '[') => depth += 1,
            Token::Mark(')' | ']') => depth = depth.checked_sub(1)?,
            Token::Mark(',') if depth == 0 => {
                let [Token::Literal(Some(text)), rest @ ..] = &tokens[n + 1..] else { return None };
                let rest = match rest {
                    [Token::Mark(':'), Token::Mark(':'), kind, rest @ ..] if is_name(kind, &["text"]) => rest,
                    rest => rest,
                };
                return (rest.first() == Some(&Token::Mark(')'))).then_some(text.as_str());
            }
            _ => {}
        }
    }
    None
}

/// Whether these tokens end in the name of a column that a text declares, whose type follows.
fn is_declared(tokens: &[Token]) -> bool {
    let [.., before, column @ Token::Name(_)] = tokens else { return false };
    let begins = matches!(before, Token::Mark('(' | ',')) || is_name(before, &["columns"]);
    begins && !is_name(column, RESERVED)
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
    tokens.iter().any(|token| is_name(token, DECLARING))
        || tokens.windows(2).any(|two| is_name(&two[0], &["as"]) && two[1] == Token::Mark('('))
        || tokens.windows(3).any(|three| {
            let is_alias = is_name(&three[0], &["as"]) || three[0] == Token::Mark(')');
            is_alias && matches!(three[1], Token::Name(_)) && three[2] == Token::Mark('(')
        })
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
            ("f(a) as x (b t)", &["called f", "word a", "word as", "called x", "word b", "type t"]),
            (
                "xmltable(a columns b e.t)",
                &["called xmltable", "word a", "type columns", "word b", "type e", "dotted t", "type e.t"],
            ),
            ("f(a returning t)", &["called f", "word a", "type returning", "type t"]),
            ("a::setof t", &["name a", "type setof", "type t"]),
            ("xmlserialize(content a as t)", &["called xmlserialize", "name content", "name a", "name as", "type t"]),
            (
                "pg_input_is_valid(f(a, b), 'e.\"T\"')",
                &["type e", "type e.T", "called pg_input_is_valid", "called f", "name a", "name b"],
            ),
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
            assert_eq!((names.has_literals, names.unclear.is_some()), (has_literals, has_escapes), "{text}");
        }
    }

    #[test]
    fn a_type_that_is_no_plain_text_is_seen() {
        for (text, is_computed) in [
            ("pg_input_is_valid('', 'a')", false),
            ("pg_input_is_valid('', $a$b$a$)", false),
            ("pg_input_is_valid", false),
            ("pg_input_is_valid((doc ->> 'a'::text), 'bigint'::text)", false),
            ("pg_input_is_valid('', 'a'::text || 'b'::text)", true),
            ("pg_input_is_valid('', 'a' || 'b')", true),
            ("pg_input_is_valid('', E'a')", true),
            ("pg_input_error_info(type_name => 'a', value => '')", true),
            ("pg_catalog.pg_input_error_info('', (a))", true),
            ("pg_input_is_valid(", true),
        ] {
            assert_eq!(SqlNames::of(&[text]).unclear == Some(COMPUTED), is_computed, "{text}");
        }
    }

    #[test]
    fn texts_that_do_not_end_are_read_to_their_end() {
        for text in ["'", "\"", "\"é", "E'\\", "$a$ b", "/* a", "--", "$", "u&\"", "é'"] {
            SqlNames::of(&[text]);
        }
    }
}
