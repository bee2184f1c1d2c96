//! The findings about a query and the indexes of a table.

use serde::Serialize;

/// The findings about a query.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// Rows of the table, as the planner estimates; `None` if the table was never vacuumed or analyzed.
    pub rows: Option<f64>,
    /// The readings of the table, one for each time that the query reads it.
    pub readings: Vec<TableRead>,
    /// Why repairs could not be tested, in the server's words.
    pub untried: Option<String>,
    /// Repairs were tried on the table itself, new indexes as hypothetical ones, because no copy could be made.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub hypothetical: bool,
}

impl Explanation {
    /// Renames the indexes, for instance to the names that the user gave them.
    pub fn rename_indexes(&mut self, name: impl Fn(&str) -> String) {
        for reading in &mut self.readings {
            let near = reading.missed.iter_mut().flat_map(|missed| &mut missed.near).map(|near| &mut near.index);
            for index in reading.indexes.iter_mut().chain(near) {
                *index = name(index);
            }
        }
    }
}

/// One reading of the table in the plan of the query.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TableRead {
    /// Whether it uses an index.
    pub verdict: Verdict,
    /// The indexes, by name.
    pub indexes: Vec<String>,
    /// What it checks or sorts row by row and no index serves, if it uses none.
    pub missed: Vec<Missed>,
}

/// Whether an index is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// The plan uses an index.
    Used,
    /// An index fits. The planner estimates that another way is cheaper now.
    Usable,
    /// No index fits.
    Unusable,
}

/// A condition or an order that no index serves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Missed {
    /// The condition as the server prints it, or `order by ..`.
    pub condition: String,
    /// It is one side of an `or`. Every side of an `or` needs an index.
    pub side_of_or: bool,
    /// Indexes that nearly serve it.
    pub near: Vec<Mismatch>,
    /// An index that would serve it as it is.
    pub new_index: NewIndex,
}

/// Why an existing index is not used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mismatch {
    /// The kind's name.
    pub kind: &'static str,
    /// The index's name.
    pub index: String,
    /// What does not fit, as a sentence.
    pub reason: String,
    /// What to write so that it fits.
    pub rewrite: Option<Rewrite>,
}

/// Another form of a condition or an order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Rewrite {
    /// As SQL.
    pub sql: String,
    /// How the rows that it finds can differ; `None` if they cannot, as long as the types stay the same.
    pub caution: Option<&'static str>,
}

/// A new index for a condition as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NewIndex {
    /// What follows the table's name in `create index`.
    Clause(String),
    /// The server refuses such an index, with its message.
    Refused(String),
    /// We know of none.
    Unknown,
}
