//! The session that compares and deletes, and goes on in another one after an error that may pass.

use crate::control::connect_control;
use crate::error::Error;
use crate::plan::LoadPlan;
use crate::turns::turn;
use crate::watched::{Harmless, Stake, Watched};
use crate::write::Lanes;
use millstream_model::CollectionName;
use millstream_pg::{Connection, ErrorKind, Explained, Failures, quote_qualified};
use millstream_store::GUARD;
use tokio_postgres::{Client, Transaction};

/// A session that knows the table.
pub(super) struct Session<'l> {
    pub(super) lanes: &'l Lanes,
    watched: Watched,
    connection: Connection,
    failures: Failures,
    reconnected: bool,
    /// Whether a batch has deadlocked, so that batches are written alone.
    alone: bool,
}

impl<'l> Session<'l> {
    /// Connects, and looks at the table.
    pub(super) async fn open(lanes: &'l Lanes, watched: Watched) -> Result<Self, Error> {
        let mut failures = Failures::default();
        let connection = loop {
            match connect_control(&lanes.around.db).await {
                Ok(connection) => break connection,
                Err(error) if failures.wait(error.kind()).await => {}
                Err(error) => return Err(error),
            }
        };
        let mut session = Self { lanes, watched, connection, failures, reconnected: false, alone: false };
        if let Err(error) = session.begin().await {
            session.recover(error).await?;
        }
        Ok(session)
    }

    /// What a session needs: it finds out what happened to the table, and prepares the guard of the table's state.
    async fn begin(&mut self) -> Result<(), Error> {
        let Lanes { plan, owned, around, .. } = self.lanes;
        let (load_id, documents) = (owned.load_id, owned.stored() + around.tally.documents());
        let stake = Stake { load_id, documents, adds_up: plan.mode.adds_up() };
        if let Some(Harmless { mark, doubtful, .. }) =
            self.watched.look(&self.connection.client, plan.schema(), stake).await?
        {
            if doubtful {
                return Err(Error::PerhapsTruncated { collection: mark.name, load_id });
            }
            self.watched.mark = mark;
        }
        Ok(self.connection.client.batch_execute(&self.watched.mark.guard()).await?)
    }

    /// Goes on in another session.
    ///
    /// # Errors
    /// The error that was met, if it does not pass, or has not passed for too long.
    pub(super) async fn recover(&mut self, mut error: Error) -> Result<(), Error> {
        loop {
            // Somebody changed the table. The new session finds out how.
            let kind = if matches!(error, Error::TableDiffers) { ErrorKind::Serialization } else { error.kind() };
            self.alone |= kind == ErrorKind::Deadlock;
            if !self.failures.wait(kind).await {
                return Err(error);
            }
            // A pool may have no second connection.
            self.connection.abandon();
            let again = async {
                self.connection = connect_control(&self.lanes.around.db).await?;
                self.begin().await
            };
            match again.await {
                Ok(()) => {
                    self.reconnected = true;
                    return Ok(());
                }
                Err(another) => error = another,
            }
        }
    }

    /// There was progress: the next error is the first one.
    pub(super) fn advanced(&mut self) {
        self.failures = Failures::default();
    }

    /// Begins to write into the table, as a lane does.
    ///
    /// # Errors
    /// [`Error::TableDiffers`] if somebody has changed it.
    pub(super) async fn transaction(&mut self) -> Result<Transaction<'_>, Error> {
        let mark = &self.watched.mark;
        let (turn, CollectionName { schema, table }) = (turn(mark.oid, self.alone), &mark.name);
        let table = quote_qualified(schema, table);
        let opening =
            format!("set constraints all immediate;\n{turn};\nlock table only {table} in row exclusive mode; {GUARD}");
        let transaction = self.connection.client.transaction().await?;
        transaction.batch_execute(&opening).await.map_err(crate::write::differing)?;
        Ok(transaction)
    }

    /// Begins a transaction that only reads.
    pub(super) async fn reading(&mut self) -> Result<Transaction<'_>, Error> {
        Ok(self.connection.client.transaction().await?)
    }

    pub(super) fn client(&self) -> &Client {
        &self.connection.client
    }

    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    pub(super) fn plan(&self) -> &'l LoadPlan {
        &self.lanes.plan
    }

    pub(super) fn load_id(&self) -> i64 {
        self.lanes.owned.load_id
    }

    /// Whether its backend is not the first one.
    pub(super) fn has_reconnected(&self) -> bool {
        self.reconnected
    }
}
