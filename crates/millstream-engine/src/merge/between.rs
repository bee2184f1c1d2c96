//! The rows that folding leaves out, as SQL.

/// SQL for the rows that a key has while its documents are merged one by one into the stored one. `write/between.sql` puts
/// it together.
#[derive(Debug)]
pub(crate) struct Between {
    /// Creates what the rest needs; empty if that is nothing.
    pub(crate) create: String,
    /// The document with which the rows begin, over `stored.doc`.
    pub(crate) first: &'static str,
    /// Columns over the documents so far: the window `so_far`.
    pub(crate) so_far: String,
    /// The document of a row, over these columns and the document that made it, in `folded`.
    pub(crate) document: String,
}

impl Between {
    /// What a function makes of the documents so far, each merged into what those before it left.
    pub(super) fn merged(function: &str, first: &'static str) -> Self {
        Self {
            create: format!("create aggregate pg_temp.millstream_merged (jsonb) (sfunc = {function}, stype = jsonb)"),
            first,
            so_far: "pg_temp.millstream_merged(told.doc) over so_far as millstream_merged".to_owned(),
            document: "folded.millstream_merged".to_owned(),
        }
    }
}
