//! Names and literals as they are written into SQL text.

use millstream_model::CollectionName;

/// `name` as a quoted SQL identifier. All names are quoted, so there is no list of keywords and no rule for capitals.
///
/// A NUL byte cannot be part of a name and is left out.
pub fn quote_identifier(name: &str) -> String {
    let mut quoted = String::with_capacity(name.len() + 2);
    quoted.push('"');
    for c in name.chars().filter(|&c| c != '\0') {
        if c == '"' {
            quoted.push('"');
        }
        quoted.push(c);
    }
    quoted.push('"');
    quoted
}

/// A word without the double quotes around it. Two of them within it are one.
pub fn unquoted(word: &str) -> String {
    match word.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(inner) => inner.replace("\"\"", "\""),
        None => word.to_owned(),
    }
}

/// `schema.name`, both quoted.
pub fn quote_qualified(schema: &str, name: &str) -> String {
    format!("{}.{}", quote_identifier(schema), quote_identifier(name))
}

/// The name of a collection, both parts quoted.
pub fn quote_name(name: &CollectionName) -> String {
    quote_qualified(&name.schema, &name.table)
}

/// The name of a setting, quoted part by part: `millstream.x` is two identifiers.
pub fn quote_setting(name: &str) -> String {
    name.split('.').map(quote_identifier).collect::<Vec<_>>().join(".")
}

/// `text` as a SQL string literal, correct with any value of `standard_conforming_strings`.
///
/// A NUL byte cannot be part of a PostgreSQL text and is left out.
pub fn quote_literal(text: &str) -> String {
    let escaped = text.contains('\\');
    let mut quoted = String::with_capacity(text.len() + 3);
    quoted.push_str(if escaped { " E'" } else { "'" });
    for c in text.chars().filter(|&c| c != '\0') {
        if c == '\'' || c == '\\' {
            quoted.push(c);
        }
        quoted.push(c);
    }
    quoted.push('\'');
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_always_quoted() {
        assert_eq!(quote_identifier("user"), r#""user""#);
        assert_eq!(quote_identifier(r#"a"b"#), r#""a""b""#);
        assert_eq!(quote_identifier("a\0b"), r#""ab""#);
        assert_eq!(quote_qualified("s", "T x"), r#""s"."T x""#);
    }

    #[test]
    fn literals_survive_quotes_and_backslashes() {
        assert_eq!(quote_literal("it's"), "'it''s'");
        assert_eq!(quote_literal(r"a\b'"), r" E'a\\b'''");
        assert_eq!(quote_literal(""), "''");
    }
}
