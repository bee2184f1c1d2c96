//! An open session: the client, what is known about its server, and the task that moves its bytes.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, SimpleQueryMessage, SimpleQueryRow};

use crate::conninfo::Host;
use crate::error::Error;
use crate::identifier::quote_identifier;
use crate::kind::ErrorKind;
use crate::limits;
use crate::roster::{Cancel, Roster, Seat};
use crate::session::SessionSettings;

/// An open session with its own settings.
///
/// Dropping it closes the socket at once, and the server rolls back an open transaction. [`Connection::close`] ends the
/// session properly.
#[derive(Debug)]
pub struct Connection {
    /// The driver's client. Convert its errors to ours with `?`. After the connection is lost they are transient.
    pub client: Client,
    /// What the server reported about itself when the session began.
    pub server: ServerFacts,
    driver: Driver,
    place: Seat,
}

/// What a server reports about itself and about our session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerFacts {
    /// For instance 150014 for 15.14.
    pub version_num: i32,
    /// The backend's process id, as the server (not a pooler) knows it.
    pub backend_pid: i32,
    /// When the backend started, as text that casts back to exactly the same `timestamptz`. With the pid it identifies
    /// a backend for ever.
    pub backend_start: String,
    /// The server is a standby.
    pub in_recovery: bool,
    /// Transactions of this session are read-only, for any reason.
    pub read_only: bool,
    /// Host and port, or the socket, we are connected to.
    pub host: String,
    /// The database.
    pub database: String,
    /// The current role, whose rights count.
    pub role: String,
    /// `lz4` can be chosen for a column's compression.
    pub lz4: bool,
}

#[derive(Debug)]
struct Driver {
    task: JoinHandle<()>,
    end: Arc<OnceLock<Error>>,
    /// Its sender ends with the task.
    gone: watch::Receiver<()>,
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Connection {
    /// Sets the settings and reads the facts, in one round trip.
    pub(crate) async fn open<S, T>(
        client: Client,
        connection: tokio_postgres::Connection<S, T>,
        session: &SessionSettings,
        host: &Host,
        (roster, cancel): (&Roster, Cancel),
    ) -> Result<Connection, Error>
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
        T: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
    {
        let major = connection.parameter("server_version").map_or(0, major);
        let end = Arc::new(OnceLock::new());
        let reported = Arc::clone(&end);
        let (alive, gone) = watch::channel(());
        let task = tokio::spawn(async move {
            let _alive = alive;
            if let Err(error) = connection.await {
                let _ = reported.set(Error::from(error));
            }
        });
        let driver = Driver { task, end, gone };
        let host = host.to_string();
        if major < limits::SERVER_VERSION_MIN / 10_000 {
            return Err(Error::unusable(
                ErrorKind::Config,
                format!("the server at {host} is older than PostgreSQL {}", limits::SERVER_VERSION_MIN / 10_000),
                "upgrade the server, or start a local one with `millstream db start`",
            ));
        }
        let sql = [include_str!("session_path.sql"), &session.sql(major), include_str!("session.sql")].concat();
        let rows = client.simple_query(&sql).await?;
        let row = rows.iter().rev().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => Some(row),
            _ => None,
        });
        let row = row.ok_or_else(|| unexpected("no facts"))?;
        check_encoding(text(row, "server_encoding")?, text(row, "database")?, session.any_encoding)?;
        let server = facts(row, host)?;
        let place = roster.enter(server.backend_pid, cancel);
        Ok(Connection { client, server, driver, place })
    }

    /// Notes how many rows the session works on from now on, to be named if it takes long.
    pub fn works_on(&self, rows: u64) {
        self.place.works_on(rows);
    }

    /// Cancels what the session does. Returns when the server has the request, or after a second.
    pub async fn cancel(&self) {
        self.place.cancel().await;
    }

    /// The list of all sessions that were opened through the same connection info.
    pub fn roster(&self) -> &Roster {
        self.place.roster()
    }

    /// Refuses a session that cannot write.
    ///
    /// # Errors
    /// [`ErrorKind::ReadOnly`], with the reason.
    pub fn require_writable(&self) -> Result<(), Error> {
        let host = &self.server.host;
        if self.server.in_recovery {
            return Err(Error::unusable(
                ErrorKind::ReadOnly,
                format!("the server at {host} is a standby and takes no writes"),
                "connect to the primary, or name all hosts with target_session_attrs=read-write",
            ));
        }
        if self.server.read_only {
            return Err(Error::unusable(
                ErrorKind::ReadOnly,
                format!("transactions on {host} are read-only (default_transaction_read_only is on)"),
                "look for the setting in postgresql.conf, in the role, in the database and in the connection's options",
            ));
        }
        Ok(())
    }

    /// Why the connection ended; `None` if it is open or ended without an error.
    pub fn end(&self) -> Option<&Error> {
        self.driver.end.get()
    }

    /// Resolves when the connection has ended, on either side. It does not borrow the connection.
    pub fn end_signal(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut gone = self.driver.gone.clone();
        async move {
            // Nothing is ever sent, so the wait ends with the sender.
            let _ = gone.changed().await;
        }
    }

    /// Closes the socket at once, and so gives back the connection of a pool. The server rolls back an open transaction.
    pub fn abandon(&self) {
        self.driver.task.abort();
    }

    /// Ends the session. Waits, for a limited time, until the connection is closed.
    pub async fn close(self) {
        let Connection { client, mut driver, .. } = self;
        drop(client);
        if !driver.task.is_finished() {
            let _ = tokio::time::timeout(Duration::from_millis(limits::CLOSE_TIMEOUT_MS), &mut driver.task).await;
        }
    }
}

/// The major version in `15.14 (Debian 15.14-0+deb12u1)` or `18devel`.
fn major(version: &str) -> i32 {
    let digits = version.find(|c: char| !c.is_ascii_digit()).unwrap_or(version.len());
    version[..digits].parse().unwrap_or(0)
}

fn check_encoding(encoding: &str, database: &str, any: bool) -> Result<(), Error> {
    let why = match (encoding, any) {
        ("UTF8", _) => return Ok(()),
        ("SQL_ASCII", true) => "so its texts may be in any",
        (_, true) => return Ok(()),
        (_, false) => "JSON needs UTF8",
    };
    Err(Error::unusable(
        ErrorKind::Config,
        format!("database \"{database}\" has the encoding {encoding}; {why}"),
        "create another: create database NAME encoding 'UTF8' template template0",
    ))
}

fn facts(row: &SimpleQueryRow, host: String) -> Result<ServerFacts, Error> {
    let (role, login) = (text(row, "role")?, text(row, "login")?);
    Ok(ServerFacts {
        version_num: number(row, "version_num")?,
        backend_pid: number(row, "pid")?,
        backend_start: row.try_get("backend_start")?.ok_or_else(|| unseen(role, login))?.to_owned(),
        in_recovery: text(row, "in_recovery")? == "true",
        read_only: text(row, "read_only")? == "on",
        host,
        database: text(row, "database")?.to_owned(),
        role: role.to_owned(),
        lz4: text(row, "lz4")? == "true",
    })
}

fn text<'a>(row: &'a SimpleQueryRow, column: &str) -> Result<&'a str, Error> {
    row.try_get(column)?.ok_or_else(|| unexpected(column))
}

fn number(row: &SimpleQueryRow, column: &str) -> Result<i32, Error> {
    text(row, column)?.parse().map_err(|_| unexpected(column))
}

/// The server shows the details of a session to the role that logged in. Another role that was set needs a right.
fn unseen(role: &str, login: &str) -> Error {
    Error::unusable(
        ErrorKind::Rights,
        format!("role {role}, which is set for the sessions of {login}, may not see when these began"),
        format!("connect as {role} itself, or: grant pg_read_all_stats to {}", quote_identifier(role)),
    )
}

fn unexpected(what: &str) -> Error {
    Error::Driver { message: format!("{what} missing in the server's facts") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Explained as _;

    #[test]
    fn the_major_version_is_read_from_any_build() {
        assert_eq!(major("15.14 (Debian 15.14-0+deb12u1)"), 15);
        assert_eq!(major("18devel"), 18);
        assert_eq!(major("19beta1"), 19);
        assert_eq!(major("9.6.24"), 9);
        assert_eq!(major("odd"), 0);
    }

    #[test]
    fn databases_must_be_utf8_or_at_least_of_a_known_encoding() {
        assert!(check_encoding("UTF8", "d", false).is_ok() && check_encoding("LATIN1", "d", true).is_ok());
        for (encoding, any) in [("LATIN1", false), ("SQL_ASCII", false), ("SQL_ASCII", true)] {
            let error = check_encoding(encoding, "d", any).expect_err("not UTF-8");
            assert_eq!(error.kind(), ErrorKind::Config);
            assert!(error.to_string().contains(encoding));
        }
    }
}
