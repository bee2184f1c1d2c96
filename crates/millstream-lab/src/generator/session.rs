//! A session of the generator: its statements are prepared once, and it carries one request at a time.

use super::value::{Draw, Number};
use super::workload::Class;
use crate::error::Error;
use millstream_pg::{ConnInfo, Connection, SessionSettings};
use std::time::Instant;
use tokio_postgres::{Client, Statement};

/// A session in which the statements of all classes are prepared.
#[derive(Debug)]
pub(super) struct Session {
    connection: Connection,
    classes: Vec<Prepared>,
}

/// The statements of a class.
#[derive(Debug)]
struct Prepared {
    transaction: bool,
    statements: Vec<(Statement, Vec<usize>)>,
}

/// What a request needs: reused from request to request.
#[derive(Debug, Default)]
pub(super) struct Exchange {
    /// The values of the request.
    pub(super) drawn: Vec<Number>,
    /// What its finished steps took, in nanoseconds.
    pub(super) steps_ns: Vec<u64>,
}

impl Session {
    /// Connects and prepares the statements. It runs with the settings of the role and the database, as an application
    /// does, and not with Millstream's own.
    ///
    /// # Errors
    /// The server's; a value that does not fit the type of its parameter.
    pub(super) async fn open(db: &ConnInfo, classes: &[Class]) -> Result<Self, Error> {
        let connection = Box::pin(millstream_pg::connect(db, &SessionSettings::named("millstream drive"))).await?;
        connection.client.batch_execute("reset all").await?;
        let mut prepared = Vec::with_capacity(classes.len());
        for class in classes {
            prepared.push(Prepared::new(&connection.client, class).await?);
        }
        Ok(Self { connection, classes: prepared })
    }

    /// The process id of the server's process.
    pub(super) fn backend_pid(&self) -> i32 {
        self.connection.server.backend_pid
    }

    /// Whether the session has ended.
    pub(super) fn is_lost(&self) -> bool {
        self.connection.client.is_closed()
    }

    /// Sends a request with its values and waits for its end. After a failure the transaction is rolled back.
    ///
    /// # Errors
    /// The SQLSTATE, or another word for the failure.
    pub(super) async fn request(&self, class: usize, exchange: &mut Exchange) -> Result<(), String> {
        let (client, prepared) = (&self.connection.client, &self.classes[class]);
        exchange.steps_ns.clear();
        let ended = prepared.run(client, exchange).await;
        if let Err(error) = ended {
            if prepared.transaction && !client.is_closed() {
                // If it fails, the session is lost, and the next request finds that out.
                let _ = client.batch_execute("rollback").await;
            }
            let code = error.code().map_or("connection lost", |code| code.code());
            return Err(code.to_owned());
        }
        Ok(())
    }
}

impl Prepared {
    async fn new(client: &Client, class: &Class) -> Result<Self, Error> {
        let mut statements = Vec::with_capacity(class.statements.len());
        for (number, statement) in class.statements.iter().enumerate() {
            let at = || format!("class {}, statement {}", class.name, number + 1);
            let prepared = client.prepare(&statement.sql).await.map_err(|error| {
                let error = millstream_pg::Error::from(error);
                Error::Asked(format!("{}: {error}", at()))
            })?;
            for (parameter, value) in prepared.params().iter().zip(&statement.values) {
                let (name, draw): &(String, Draw) = &class.values[*value];
                if let Some(why) = Number::misfit(parameter, *draw) {
                    let message = format!("{}: {{{name}}} does not fit: {why}; write {{{name}}}::bigint", at());
                    return Err(Error::Asked(message));
                }
            }
            statements.push((prepared, statement.values.clone()));
        }
        Ok(Self { transaction: class.is_transaction(), statements })
    }

    async fn run(&self, client: &Client, exchange: &mut Exchange) -> Result<(), tokio_postgres::Error> {
        let mut from = Instant::now();
        let mut step = |steps_ns: &mut Vec<u64>| {
            let to = Instant::now();
            steps_ns.push(u64::try_from(to.duration_since(from).as_nanos()).unwrap_or(u64::MAX));
            from = to;
        };
        if self.transaction {
            client.batch_execute("begin").await?;
            step(&mut exchange.steps_ns);
        }
        for (statement, values) in &self.statements {
            let parameters = values.iter().map(|value| &exchange.drawn[*value]);
            client.execute_raw(statement, parameters).await?;
            step(&mut exchange.steps_ns);
        }
        if self.transaction {
            client.batch_execute("commit").await?;
            step(&mut exchange.steps_ns);
        }
        Ok(())
    }
}
