//! The schema that holds our tables.

use millstream_pg::{quote_identifier, quote_literal};

/// Version of the tables that this program works with.
pub const SCHEMA_VERSION: i32 = 6;

/// The skip scan for distinct values, as a text for SQL's `format`. Our function in the database fills it in.
/// `distinct` of the crate `millstream-publish` fills it in itself, because the first call of such a function costs a
/// new session 7 ms.
pub const DISTINCT_WALK: &str = include_str!("distinct_walk.sql");

/// The name of our schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    quoted: String,
    name: String,
}

impl Schema {
    /// A schema by its name, unquoted.
    pub fn new(name: &str) -> Self {
        Self { quoted: quote_identifier(name), name: name.to_owned() }
    }

    /// The name, unquoted.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Fills in a statement: `{schema}` becomes the quoted name, `{schema_literal}` the name as a string literal.
    pub fn sql(&self, template: &str) -> String {
        template.replace("{schema}", &self.quoted).replace("{schema_literal}", &quote_literal(&self.name))
    }
}
