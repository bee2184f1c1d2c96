//! The schema that holds our tables.

use millstream_pg::{quote_identifier, quote_literal};

/// Version of the tables that this program works with.
pub const SCHEMA_VERSION: i32 = 5;

/// The statement that walks distinct values, a text for SQL's `format`: our function in the database fills it in, and
/// so does [`distinct`](crate::distinct()), because a new session takes 7 ms for its first call of any such function.
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

    /// A statement whose `{schema}` stands for this schema, and `{schema_literal}` for its name as a text.
    pub fn sql(&self, template: &str) -> String {
        template.replace("{schema}", &self.quoted).replace("{schema_literal}", &quote_literal(&self.name))
    }
}
