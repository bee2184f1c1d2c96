//! The schema that holds our tables.

use millstream_pg::{quote_identifier, quote_literal, template};
use std::fmt;

/// Version of the tables that this program works with.
pub const SCHEMA_VERSION: i32 = 4;

/// The skip scan for distinct values, as a text for SQL's `format`. Our function in the database fills it in.
/// `distinct` of the crate `millstream-publish` fills it in itself, because the first call of such a function costs a
/// new session 7 ms.
pub const DISTINCT_WALK: &str = include_str!("distinct_walk.sql");

/// The name of our schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    quoted: String,
    name: String,
    trusted: Vec<String>,
}

impl Schema {
    /// A schema by its name, unquoted.
    pub fn new(name: &str) -> Self {
        Self { quoted: quote_identifier(name), name: name.to_owned(), trusted: Vec::new() }
    }

    /// The same schema for a caller who lets these roles run code with the caller's rights, as owners of the schema or
    /// of our tables in it.
    #[must_use]
    pub fn trusting(self, roles: Vec<String>) -> Self {
        Self { trusted: roles, ..self }
    }

    /// The roles that the caller trusts.
    pub fn trusted(&self) -> &[String] {
        &self.trusted
    }

    /// The name, unquoted.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Fills in a statement: `{schema}` becomes the quoted name, `{schema_literal}` the name as a string literal. If it
    /// has other places, use [`millstream_pg::fill!`].
    ///
    /// # Panics
    /// If the statement has other places.
    pub fn sql(&self, statement: &'static str) -> String {
        let literal = quote_literal(&self.name);
        template::filled(statement, &["schema", "schema_literal"], &[self, &literal])
    }
}

/// The quoted name, as it is written into SQL.
impl fmt::Display for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.quoted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_may_look_like_a_place() {
        let schema = Schema::new("{schema_literal}");
        assert_eq!(
            schema.sql("select {schema}.f({schema_literal}, '{}')"),
            r#"select "{schema_literal}".f('{schema_literal}', '{}')"#
        );
    }
}
