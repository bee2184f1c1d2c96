//! The last step of a refresh: attaches what was built, under locks that block readers.

use crate::error::Error;
use crate::lock::lock_exclusively;
use crate::shape::Shape;
use crate::storage::Storage;
use millstream_failpoint as failpoint;
use millstream_pg::quote_literal;
use millstream_store::models::Model;
use std::time::{Duration, Instant};
use tokio_postgres::Client;

/// What the transaction of a refresh does last, under locks that block readers.
///
/// A reader that plans its statement before a generation is attached, and takes its snapshot afterwards, would find no
/// rows. So no reader may have the tables open when new generations are attached.
#[derive(Debug, Default)]
pub(crate) struct Switch {
    /// Statements before the locks, under the same time limit.
    before: Vec<String>,
    /// Statements that lock views, as readers do before they lock tables.
    views: Vec<String>,
    tables: Vec<String>,
    statements: Vec<String>,
}

impl Switch {
    /// Adds the statements that attach a generation, and that give the model the generation's new columns. A model
    /// without a view has no readers; for such a model it executes them at once.
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
            // Nobody reads it now, so statistics can be gathered before the commit.
            let widen = if shape.is_same() { String::new() } else { format!("{}; ", shape.add(storage)) };
            return Ok(client.batch_execute(&format!("{let_vacuum}; {widen}{attach}; analyze {parts}")).await?);
        }
        self.before.push(let_vacuum);
        if shape.is_same() && !model.view_replaced {
            // A restore gives the view another OID.
            client.batch_execute(&storage.remember_rule(&model.name)).await?;
            self.tables.push(format!("only {parts}"));
        } else {
            self.tables.push(parts);
            if !shape.is_same() {
                self.statements.push(shape.add(storage));
            }
            let [lock, replace] = storage.widen_view(client, &model.name, shape.names()).await?;
            self.views.push(lock);
            self.statements.extend([replace, storage.remember_rule(&model.name)]);
        }
        // Attaching locks this table too. Lock it now, so that attaching never waits while readers are blocked.
        self.tables.push(part);
        self.statements.push(attach);
        Ok(())
    }

    /// Executes what was added and commits. Returns false if readers did not release the tables within `patience`; then
    /// the transaction is rolled back.
    pub(crate) async fn commit(self, client: &Client, patience: Duration) -> Result<bool, Error> {
        if self.tables.is_empty() {
            failpoint::hit("refresh-committing").await?;
            client.batch_execute("commit").await?;
            return Ok(true);
        }
        let lock = format!("lock table {} in access exclusive mode", self.tables.join(", "));
        // One statement, so that all locks share the time limit.
        let steps: Vec<String> = self.before.into_iter().chain(self.views).chain([lock]).collect();
        let lock = format!("do {}", quote_literal(&format!("begin {}; end", steps.join("; "))));
        if !lock_exclusively(client, &lock, Instant::now() + patience).await? {
            client.batch_execute("rollback").await?;
            return Ok(false);
        }
        failpoint::hit("refresh-committing").await?;
        // Readers wait for one round trip, not for the disk. The next statement waits for the disk.
        let statements = self.statements.join("; ");
        client.batch_execute(&format!("{statements}; set local synchronous_commit = off; commit")).await?;
        client.execute("select pg_catalog.pg_logical_emit_message(true, 'millstream', '')", &[]).await?;
        Ok(true)
    }
}
