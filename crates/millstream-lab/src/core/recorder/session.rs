//! The recorder's session at the server: every answer within a limit, a lost session opened again, its cost known.

use super::reading::Values;
use super::waits::{self, Sampled};
use crate::error::Error;
use crate::limits::{RECORDER_QUERY_MS, RECORDER_RECONNECT_MS, RECORDER_START_MS};
use millstream_pg::{ConnInfo, Connection, SessionSettings, quote_identifier};
use std::collections::HashMap;
use std::time::{Duration, Instant};
use tokio::task::JoinHandle;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row, Statement};

/// The session's name in `pg_stat_activity`.
const NAME: &str = "millstream lab recorder";

/// Classes of SQLSTATE by which the server says that it has no such source, or that we may not read it.
const REFUSALS: &[&str] = &["42", "55", "0A"];

/// Errors by which it says that there is no such table or function: an extension is not installed.
const ABSENT: &[&str] = &["42P01", "42883"];

/// What stands in a query for the schema of the extension `pg_stat_statements`.
const EXTENSION: &str = "the_extension";

/// That schema.
const SCHEMA: &str = "select n.nspname from pg_catalog.pg_extension as e \
                      join pg_catalog.pg_namespace as n on n.oid = e.extnamespace \
                      where e.extname = 'pg_stat_statements'";

/// A session that may be lost and found.
pub(super) struct Session {
    info: ConnInfo,
    state: State,
    statements: HashMap<&'static str, Statement>,
    version: i32,
    query_time: Duration,
    losses: u32,
    /// Processor time of the current backend, and of those before it, in seconds.
    cpu: Option<f64>,
    cpu_before: f64,
}

enum State {
    Open(Box<Connection>),
    Opening(JoinHandle<Result<Connection, millstream_pg::Error>>),
    Lost(Instant),
}

/// What became of a query.
pub(super) enum Answer<T> {
    /// The answer.
    Rows(T),
    /// None in time; the next one may come.
    Missed,
    /// There will never be one, and why if the source is there.
    Refused(Option<String>),
}

impl Session {
    /// Opens the session.
    ///
    /// # Errors
    /// The server's, or that it took too long.
    pub(super) async fn open(info: ConnInfo) -> Result<Self, Error> {
        let limit = Duration::from_millis(RECORDER_START_MS / 2);
        let connection = tokio::time::timeout(limit, connect(&info)).await;
        let connection =
            connection.map_err(|_| Error::Recorder(format!("no session at the server after {limit:?}")))??;
        let version = connection.server.version_num;
        let mut session = Self {
            info,
            state: State::Open(Box::new(connection)),
            statements: HashMap::new(),
            version,
            query_time: Duration::ZERO,
            losses: 0,
            cpu: None,
            cpu_before: 0.0,
        };
        session.look();
        Ok(session)
    }

    /// Version of the server, for instance 150014.
    pub(super) fn version(&self) -> i32 {
        self.version
    }

    /// Opens a lost session again, in the background.
    pub(super) async fn restore(&mut self) {
        match &mut self.state {
            State::Opening(task) if task.is_finished() => match task.await {
                Ok(Ok(connection)) => self.state = State::Open(Box::new(connection)),
                Ok(Err(_)) | Err(_) => self.state = State::Lost(Instant::now()),
            },
            State::Lost(since) if since.elapsed() >= Duration::from_millis(RECORDER_RECONNECT_MS) => {
                let info = self.info.clone();
                let task = tokio::spawn(async move { connect(&info).await });
                self.state = State::Opening(task);
            }
            State::Open(_) | State::Opening(_) | State::Lost(_) => {}
        }
    }

    /// Counters of a source.
    pub(super) async fn counters(&mut self, sql: &'static str) -> Answer<Values> {
        self.query(sql, |rows| rows.iter().flat_map(counters).collect()).await
    }

    /// A sample of what sessions wait for.
    pub(super) async fn sample(&mut self) -> Answer<Vec<Sampled>> {
        let text = |row: &Row, name: &str| row.try_get(name).unwrap_or_default();
        let sampled = |row: &Row| Sampled {
            kind: text(row, "kind"),
            state: text(row, "state"),
            event: text(row, "event"),
            sessions: row.try_get("sessions").unwrap_or(0.0),
        };
        self.query(waits::SQL, |rows| rows.iter().map(sampled).collect()).await
    }

    async fn query<T>(&mut self, sql: &'static str, read: impl FnOnce(&[Row]) -> T) -> Answer<T> {
        let State::Open(connection) = &self.state else { return Answer::Missed };
        let begun = Instant::now();
        let known = self.statements.get(sql).cloned();
        let asked = async {
            let statement = match known {
                Some(statement) => statement,
                None => prepare(&connection.client, sql).await?,
            };
            let rows = connection.client.query(&statement, &[]).await?;
            Ok::<_, tokio_postgres::Error>((statement, rows))
        };
        let answer = tokio::time::timeout(Duration::from_millis(RECORDER_QUERY_MS), asked).await;
        self.query_time += begun.elapsed();
        match answer {
            Ok(Ok((statement, rows))) => {
                self.statements.insert(sql, statement);
                Answer::Rows(read(&rows))
            }
            Ok(Err(error)) => match error.as_db_error() {
                Some(error) if REFUSALS.iter().any(|class| error.code().code().starts_with(class)) => {
                    let absent = ABSENT.contains(&error.code().code());
                    Answer::Refused((!absent).then(|| error.message().to_owned()))
                }
                Some(_) if !connection.client.is_closed() => Answer::Missed,
                _ => self.lose(),
            },
            // The answer would be taken for that of the next query if the session were kept.
            Err(_) => self.lose(),
        }
    }

    fn lose<T>(&mut self) -> Answer<T> {
        self.state = State::Lost(Instant::now());
        self.statements.clear();
        self.losses += 1;
        self.cpu_before += self.cpu.take().unwrap_or(0.0);
        Answer::Missed
    }

    /// Reads the processor time of the backend, if the server runs on this machine.
    pub(super) fn look(&mut self) {
        let State::Open(connection) = &self.state else { return };
        let pid = u32::try_from(connection.server.backend_pid).ok();
        let pid = pid.filter(|_| self.info.is_local());
        self.cpu = pid.and_then(|pid| millstream_host::cpu_seconds_of(pid, "postgres")).or(self.cpu);
    }

    /// Processor time of the session at the server so far, in seconds, if the server runs on this machine.
    pub(super) fn cpu_seconds(&self) -> Option<f64> {
        let known = self.cpu.is_some() || self.cpu_before > 0.0;
        known.then(|| self.cpu.unwrap_or(0.0) + self.cpu_before)
    }

    /// How often the session was lost.
    pub(super) fn losses(&self) -> u32 {
        self.losses
    }

    /// Time that answers took so far, in seconds: the most that they can have cost the server.
    pub(super) fn query_seconds(&self) -> f64 {
        self.query_time.as_secs_f64()
    }
}

/// The limit holds for the queries, not for setting the session up, which takes longer on a machine under load.
async fn connect(info: &ConnInfo) -> Result<Connection, millstream_pg::Error> {
    let connection = millstream_pg::connect(info, &SessionSettings::named(NAME).with_own_names()).await?;
    connection.client.batch_execute(&format!("set statement_timeout = {RECORDER_QUERY_MS}")).await?;
    Ok(connection)
}

/// Prepares a query. A function of the extension is called in the extension's own schema: anybody may put one of its name
/// into the search path.
async fn prepare(client: &Client, sql: &str) -> Result<Statement, tokio_postgres::Error> {
    if !sql.contains(EXTENSION) {
        return client.prepare(sql).await;
    }
    let found = client.query_opt(SCHEMA, &[]).await?;
    // PostgreSQL has no such function of its own, and so says that there is none.
    let schema = found.map_or_else(|| "pg_catalog".to_owned(), |row| quote_identifier(row.get(0)));
    client.prepare(&sql.replace(EXTENSION, &schema)).await
}

/// The columns of type float8 by name, after the label if the row has one. Nulls are left out.
fn counters(row: &Row) -> Vec<(String, f64)> {
    let label: Option<String> = row.try_get("label").ok();
    let name = |column: &str| label.as_ref().map_or_else(|| column.to_owned(), |label| format!("{label}.{column}"));
    let columns = row.columns().iter().filter(|column| *column.type_() == Type::FLOAT8);
    columns
        .filter_map(|column| Some((name(column.name()), row.try_get::<_, Option<f64>>(column.name()).ok()??)))
        .collect()
}
