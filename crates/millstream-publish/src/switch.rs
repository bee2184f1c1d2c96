//! The moment from which on readers are shown what was built beside them.

use crate::error::Error;
use crate::lock::lock_exclusively;
use crate::shape::Shape;
use crate::storage::Storage;
use millstream_failpoint as failpoint;
use millstream_store::models::Model;
use std::time::{Duration, Instant};
use tokio_postgres::Client;

/// What the transaction of a refresh does last, under locks that hold up readers.
///
/// A reader that planned its statement before a generation was attached, and takes its snapshot afterwards, would
/// find no rows. So nobody may be in between: no reader has the tables open when the new generations are attached.
#[derive(Debug, Default)]
pub(crate) struct Switch {
    /// What is done before the locks, in the same time.
    before: Vec<String>,
    /// Statements that lock views, as readers do before they lock tables.
    views: Vec<String>,
    tables: Vec<String>,
    statements: Vec<String>,
}

impl Switch {
    /// Attaches a generation that was built, and gives the model the columns that it has more. What is added is what
    /// the transaction does.
    pub(crate) async fn add(
        &mut self,
        client: &Client,
        storage: &Storage<'_>,
        model: &Model,
        generation: i16,
    ) -> Result<(), Error> {
        let shape = Shape::of(client, storage, generation, model).await?;
        let (parts, part) = (storage.parts(), storage.part(generation));
        let (let_vacuum, attach) = (storage.let_vacuum(generation), storage.attach(generation));
        if !model.view_present {
            // Nobody reads it now, so that statistics can be gathered of what is not committed.
            let widen = if shape.is_same() { String::new() } else { format!("{}; ", shape.add(storage)) };
            return Ok(client.batch_execute(&format!("{let_vacuum}; {widen}{attach}; analyze {parts}")).await?);
        }
        self.before.push(let_vacuum);
        if shape.is_same() {
            self.tables.push(format!("only {parts}"));
        } else {
            self.tables.push(parts);
            self.statements.push(shape.add(storage));
            let [lock, replace] = storage.widen_view(client, &model.name, shape.names()).await?;
            self.views.push(lock);
            self.statements.push(replace);
        }
        // Attaching locks it as well, and would wait for others under the locks that hold up readers.
        self.tables.push(part);
        self.statements.push(attach);
        Ok(())
    }

    /// Commits the transaction, with what was added. Returns false when readers did not let it for so long: then nothing
    /// is done and the transaction is rolled back.
    pub(crate) async fn commit(self, client: &Client, patience: Duration) -> Result<bool, Error> {
        if self.tables.is_empty() {
            failpoint::hit("refresh-committing").await?;
            client.batch_execute("commit").await?;
            return Ok(true);
        }
        let lock = format!("lock table {} in access exclusive mode", self.tables.join(", "));
        // One statement, so that all locks share the time.
        let steps: Vec<String> = self.before.into_iter().chain(self.views).chain([lock]).collect();
        let lock = format!("do $lock$ begin {}; end $lock$", steps.join("; "));
        if !lock_exclusively(client, &lock, Instant::now() + patience).await? {
            client.batch_execute("rollback").await?;
            return Ok(false);
        }
        failpoint::hit("refresh-committing").await?;
        // Readers wait for one flight, and not for the disk, which is waited for afterwards.
        let statements = self.statements.join("; ");
        client.batch_execute(&format!("{statements}; set local synchronous_commit = off; commit")).await?;
        client.execute("select pg_catalog.pg_logical_emit_message(true, 'millstream', '')", &[]).await?;
        Ok(true)
    }
}
