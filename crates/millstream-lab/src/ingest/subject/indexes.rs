//! Eight indexes such as readers use, and a table with them into which documents are loaded.

use super::{Subject, Trial, millstream};
use crate::error::Error;
use crate::ingest::phase::Phase;
use crate::ingest::timing::Timing;

/// The part of `create index` after the table's name: values of every kind in the documents, two values, a part of the
/// rows, an expression.
pub(super) const INDEXES: &[&str] = &[
    "(((doc->>'n')::bigint))",
    "((doc->>'at'))",
    "((doc->'device'->>'kind'))",
    "(((doc->'device'->>'zone')::int))",
    "(((doc->'device'->>'load')::numeric))",
    "((doc->'device'->>'kind'), (doc->>'at'))",
    "((doc->>'at')) where doc->>'ok' = 'false'",
    "(lower(doc->>'note'))",
];

pub(crate) const SUBJECT: Subject = Subject {
    name: "indexed",
    about: "`millstream load` into a table with 8 indexes of its own beside the key's",
    run: |trial, phase, table| Box::pin(run(trial, phase, table)),
    ..millstream::SUBJECT
};

async fn run(trial: &Trial<'_>, phase: &Phase, table: &str) -> Result<Timing, Error> {
    if phase.is_fresh() {
        trial.make_collection(table).await?;
        create(trial, table).await?;
    }
    millstream::load(trial, phase, table).await
}

/// Creates the indexes on a relation.
pub(super) async fn create(trial: &Trial<'_>, relation: &str) -> Result<(), Error> {
    let name = trial.bench.quoted(relation);
    for clause in INDEXES {
        trial.control.client.batch_execute(&format!("create index on {name} {clause}")).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_eight_indexes_as_the_report_says() {
        assert_eq!(INDEXES.len(), 8);
        assert!(SUBJECT.about.contains("8 indexes"));
    }
}
