//! A statement of a class, and the values that it names.

/// A statement with the values that it names as parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// As the file has it: `select a from t where id = {id}`.
    pub text: String,
    /// As the server gets it: `select a from t where id = $1`.
    pub sql: String,
    /// For each parameter the position of its value in the class.
    pub values: Vec<usize>,
}

/// Why a text is not a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unusable {
    /// It has no words.
    Empty,
    /// It names a value that the class does not have.
    UnknownValue(String),
    /// It names a value of the class inside a string.
    Quoted(String),
}

impl Statement {
    /// Reads a statement of a class that has values of these names.
    ///
    /// A name in braces stands for a value. Braces around anything else, and all braces in strings, belong to the
    /// statement: JSON and arrays need them.
    ///
    /// # Errors
    /// [`Unusable`].
    pub(super) fn new(text: &str, names: &[&str]) -> Result<Self, Unusable> {
        if text.trim().is_empty() {
            return Err(Unusable::Empty);
        }
        let (mut sql, mut values, mut quoted) = (String::with_capacity(text.len()), Vec::new(), false);
        let mut rest = text;
        while let Some(next) = rest.chars().next() {
            if let Some(name) = placeholder(rest) {
                let known = names.iter().position(|known| *known == name);
                let end = name.len() + 2;
                match (known, quoted) {
                    (Some(_), true) => return Err(Unusable::Quoted(name.to_owned())),
                    (None, false) => return Err(Unusable::UnknownValue(name.to_owned())),
                    (None, true) => sql.push_str(&rest[..end]),
                    (Some(value), false) => {
                        let at = values.iter().position(|used| *used == value).unwrap_or_else(|| {
                            values.push(value);
                            values.len() - 1
                        });
                        sql.push_str(&format!("${}", at + 1));
                    }
                }
                rest = &rest[end..];
            } else {
                // A doubled quote in a string ends it and begins it again.
                quoted ^= next == '\'';
                sql.push(next);
                rest = &rest[next.len_utf8()..];
            }
        }
        Ok(Self { text: text.to_owned(), sql, values })
    }
}

/// The name in `{name}` at the start of the text.
fn placeholder(text: &str) -> Option<&str> {
    let (name, _) = text.strip_prefix('{')?.split_once('}')?;
    is_name(name).then_some(name)
}

/// Whether a text can be the name of a value or a class.
pub(super) fn is_name(text: &str) -> bool {
    let starts = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    starts && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_become_parameters() {
        let text = "update t set b = b + {delta} where a = {aid} or c = {delta}";
        let statement = Statement::new(text, &["aid", "delta"]).unwrap();
        assert_eq!(statement.sql, "update t set b = b + $1 where a = $2 or c = $1");
        assert_eq!(statement.values, [1, 0]);
        assert_eq!(statement.text, text);
    }

    #[test]
    fn other_braces_belong_to_the_statement() {
        for text in ["select '{\"a\": 1}'::jsonb", "select '{1,2}'::int[]", "select '{x}', 'it''s {y}'", "select {"] {
            assert_eq!(Statement::new(text, &["aid"]).unwrap().sql, text);
        }
    }

    #[test]
    fn wrong_names_are_refused() {
        assert_eq!(Statement::new("  ", &[]), Err(Unusable::Empty));
        assert_eq!(Statement::new("select {aud}", &["aid"]), Err(Unusable::UnknownValue("aud".into())));
        assert_eq!(Statement::new("select '{aid}'", &["aid"]), Err(Unusable::Quoted("aid".into())));
    }
}
