//! The columns that a model gets when its definition changes.

use crate::error::Error;
use crate::storage::Storage;
use millstream_model::shell_word;
use millstream_pg::quote_identifier;
use millstream_store::models::Model;
use tokio_postgres::GenericClient;

/// Columns that a generation has and the model does not have yet.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Names, quoted, and types as in SQL.
    added: Vec<(String, String)>,
}

impl Shape {
    /// Finds the new columns of a generation that is to be attached.
    ///
    /// # Errors
    /// [`Error::Model`] when a column is gone or has another type, because queries and views rely on it; also when the
    /// type of a new column is a domain.
    pub(crate) async fn of(
        client: &impl GenericClient,
        storage: &Storage<'_>,
        generation: i16,
        model: &Model,
    ) -> Result<Self, Error> {
        let rows = client.query(include_str!("shape.sql"), &[&storage.part(generation), &storage.parts()]).await?;
        let mut shape = Self::default();
        for row in &rows {
            let name: String = row.get("name");
            match (row.get::<_, Option<String>>("declared"), row.get::<_, Option<String>>("before")) {
                (Some(declared), None) if row.get("is_domain") => return Err(domain(model, &name, &declared)),
                (Some(declared), None) => shape.added.push((quote_identifier(&name), declared)),
                (declared, before) => return Err(lost(model, &name, declared, before)),
            }
        }
        Ok(shape)
    }

    pub(crate) fn is_same(&self) -> bool {
        self.added.is_empty()
    }

    /// Names of the new columns, quoted.
    pub(crate) fn names(&self) -> Vec<String> {
        self.added.iter().map(|(name, _)| name.clone()).collect()
    }

    /// The statement that adds them to the model's table. They are null in the generations that are attached.
    pub(crate) fn add(&self, storage: &Storage<'_>) -> String {
        let columns: Vec<String> = self.added.iter().map(|(name, kind)| format!("add column {name} {kind}")).collect();
        format!("alter table {} {}", storage.parts(), columns.join(", "))
    }
}

/// The error for a new column of a domain. The server would check it in every row, and rewrite the rows that are shown.
fn domain(model: &Model, column: &str, domain: &str) -> Error {
    let hint = "name the type below the domain and put its check into --where, or publish it under another name";
    let problem = format!("cannot get the column {column} of the domain {domain} while it is in use");
    Error::model(&model.name, problem, hint)
}

fn lost(model: &Model, column: &str, declared: Option<String>, before: Option<String>) -> Error {
    let before = before.unwrap_or_default();
    let problem = match declared {
        Some(declared) => format!("keeps its column {column} of type {before}: it cannot become {declared}"),
        None => format!("keeps its column {column}: a view can only get more columns"),
    };
    let hint = format!(
        "publish it under another name, or remove it first, with the grants on it and your views over it: millstream \
         unpublish {}",
        shell_word(&model.name)
    );
    Error::model(&model.name, problem, hint)
}
