//! Statements as text, and prepared on a connection.

use crate::error::Error;
use futures_util::future::try_join_all;
use tokio_postgres::{Client, Statement};

/// Statements as text.
#[derive(Debug, Default)]
pub(super) struct Sql {
    /// Creates what they need; empty if that is nothing.
    pub(super) create: String,
    /// Each with a name, which no other statement of the load has.
    pub(super) statements: Vec<(&'static str, String)>,
}

impl Sql {
    /// Statements that need nothing else.
    pub(super) fn of(statements: impl IntoIterator<Item = (&'static str, String)>) -> Self {
        Self { create: String::new(), statements: statements.into_iter().collect() }
    }
}

/// Statements on one connection, by their names.
pub(crate) struct Prepared(Vec<(&'static str, Statement)>);

impl Prepared {
    /// Creates what the statements need, and prepares them.
    pub(super) async fn new(client: &Client, all: &[Sql]) -> Result<Self, Error> {
        let created: Vec<&str> = all.iter().map(|sql| &*sql.create).filter(|create| !create.is_empty()).collect();
        client.batch_execute(&created.join("; ")).await?;
        let mut preparing = Vec::new();
        for (name, text) in all.iter().flat_map(|sql| &sql.statements) {
            preparing.push(async move { Ok::<_, Error>((*name, client.prepare(text).await?)) });
        }
        Ok(Self(try_join_all(preparing).await?))
    }

    /// The statement of that name, if the load has it.
    pub(super) fn find(&self, name: &str) -> Option<&Statement> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, statement)| statement)
    }

    /// The statement of that name.
    ///
    /// # Panics
    /// If the load has none: a writer is chosen only where it has made its statements.
    pub(super) fn statement(&self, name: &str) -> &Statement {
        self.find(name).expect("a writer is chosen only where it has made its statements")
    }
}
