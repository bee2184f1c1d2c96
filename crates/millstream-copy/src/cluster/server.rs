//! The server of a cluster: what it is, and the backup mode that a copy needs.

use crate::error::Error;
use crate::limits::{SEGMENT_BYTES, UNLOGGED_LISTED_MAX};
use crate::path::shown_path;
use millstream_model::{Refusal, shell_word};
use millstream_pg::{ConnInfo, Connection, SessionSettings, connect};
use std::path::PathBuf;
use tokio_postgres::error::SqlState;

/// A session on the server. The backup ends when it does.
pub(super) struct Server {
    connection: Connection,
    pub(super) facts: Facts,
}

/// What a copy needs to know of a cluster.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    /// Its data directory.
    pub(super) data: PathBuf,
    /// Its main file of settings.
    pub(super) config: PathBuf,
    /// For instance 150014.
    pub(super) version_num: i32,
    /// The number that all copies of a cluster share.
    pub(super) system: u64,
    /// Bytes of a file of WAL.
    pub(super) segment_bytes: u64,
    /// Bytes of all databases.
    pub(super) bytes: u64,
    /// Tablespaces outside of the data directory.
    pub(super) tablespaces: Vec<Tablespace>,
    /// Unlogged tables, as `DATABASE.SCHEMA.TABLE`.
    pub(super) unlogged: Vec<String>,
}

/// A tablespace outside of the data directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Tablespace {
    pub(super) oid: u32,
    pub(super) location: PathBuf,
}

/// A backup that is over.
#[derive(Debug, Clone)]
pub(super) struct Stopped {
    /// Where its WAL ends.
    pub(super) lsn: u64,
    /// The content of `backup_label`.
    pub(super) label: String,
}

impl Server {
    /// Connects, and checks that the cluster can be copied while it runs.
    ///
    /// # Errors
    /// The server cannot be reached, or the cluster cannot be copied like this.
    pub(super) async fn open(conninfo: &ConnInfo) -> Result<Self, Error> {
        let session =
            SessionSettings { any_encoding: true, ..SessionSettings::named("millstream copy").with_own_names() };
        let connection = connect(conninfo, &session).await?;
        let client = &connection.client;
        let row = client.query_one(include_str!("server.sql"), &[]).await.map_err(denied)?;
        let data = absolute(row.try_get("data")?)?;
        let from = shell_word(&data.join("").display());
        let stopped = format!("stop the server and copy its directory: millstream copy {from} DESTINATION");
        if row.try_get("is_standby")? {
            let says = "the server is a standby, and a copy needs its primary";
            return Err(Error::refused(says, "connect to the primary"));
        }
        if row.try_get::<_, &str>("wal_level")? == "minimal" {
            let says = "with wal_level = minimal, a cluster cannot be copied while it runs";
            return Err(Error::refused(says, format!("set it to replica and restart the server, or {stopped}")));
        }
        if row.try_get::<_, i64>("slots")? >= row.try_get::<_, i64>("slots_max")? {
            let says = "no replication slot is free, and without one the server may remove WAL that the copy needs";
            return Err(Error::refused(says, format!("raise max_replication_slots, or {stopped}")));
        }
        let facts = Facts {
            data,
            config: row.try_get::<_, String>("config")?.into(),
            version_num: connection.server.version_num,
            system: row.try_get::<_, &str>("system")?.parse().unwrap_or_default(),
            segment_bytes: segment_bytes(row.try_get("segment_bytes")?)?,
            bytes: u64::try_from(row.try_get::<_, i64>("bytes")?).unwrap_or_default(),
            tablespaces: tablespaces(&connection).await?,
            unlogged: unlogged(&connection, conninfo, &session).await?,
        };
        Ok(Self { connection, facts })
    }

    /// Makes a slot that keeps WAL from now on: a lasting one of this name, else one that ends with the session. Returns where
    /// the WAL begins.
    ///
    /// # Errors
    /// There is a slot of this name; the role may not.
    pub(super) async fn reserve_wal(&self, lasting: Option<&str>) -> Result<String, Error> {
        let own = format!("millstream_copy_{}", self.connection.server.backend_pid);
        let (name, is_temporary) = lasting.map_or((own.as_str(), true), |name| (name, false));
        let sql = "select lsn::text from pg_catalog.pg_create_physical_replication_slot($1, true, $2)";
        let made = self.connection.client.query_one(sql, &[&name, &is_temporary]).await;
        match made {
            Err(error) if error.code() == Some(&SqlState::DUPLICATE_OBJECT) => {
                let hint = format!("choose another name, or drop it: select pg_drop_replication_slot('{name}')");
                Err(Error::refused(format!("there is a slot {name} already"), hint))
            }
            made => Ok(made.map_err(denied)?.try_get(0)?),
        }
    }

    /// Drops the slot of this name that a killed copy has left, unless somebody else has one of this name by now: nobody has
    /// used ours, so its WAL begins where it did. Returns whether it is gone.
    pub(super) async fn drop_left(&self, name: &str, lsn: &str) -> bool {
        self.connection.client.execute(include_str!("left_slot.sql"), &[&name, &lsn]).await.is_ok()
    }

    /// Drops a lasting slot that nobody will need. Returns whether it is gone.
    pub(super) async fn drop_slot(&self, name: &str) -> bool {
        let sql = "select pg_catalog.pg_drop_replication_slot($1)";
        match self.connection.client.execute(sql, &[&name]).await {
            Err(error) => error.code() == Some(&SqlState::UNDEFINED_OBJECT),
            Ok(_) => true,
        }
    }

    /// Refuses a cluster that has other tablespaces by now: a copy would have a link to where the original has them.
    ///
    /// # Errors
    /// It has.
    pub(super) async fn refuse_other_tablespaces(&self) -> Result<(), Error> {
        if tablespaces(&self.connection).await? == self.facts.tablespaces {
            return Ok(());
        }
        let says = "a tablespace was made, moved or dropped while the cluster was copied";
        Err(Error::refused(says, "the copy cannot be used; run the command again"))
    }

    /// Begins the backup mode.
    ///
    /// # Errors
    /// The role may not.
    pub(super) async fn start(&self) -> Result<(), Error> {
        let sql = "select pg_catalog.pg_backup_start('millstream copy', true)::text";
        self.connection.client.query_one(sql, &[]).await.map(drop).map_err(denied)
    }

    /// Ends the backup mode.
    ///
    /// # Errors
    /// The server was restarted meanwhile, or became a standby.
    pub(super) async fn stop(&self) -> Result<Stopped, Error> {
        let sql = "select lsn::text as lsn, labelfile as label from pg_catalog.pg_backup_stop(false)";
        let row = self.connection.client.query_one(sql, &[]).await?;
        let lsn = super::wal::lsn(row.try_get("lsn")?).ok_or_else(|| odd("where the backup ends"))?;
        Ok(Stopped { lsn, label: row.try_get("label")? })
    }
}

/// Tablespaces outside of the data directory.
async fn tablespaces(connection: &Connection) -> Result<Vec<Tablespace>, Error> {
    let rows = connection.client.query(include_str!("tablespaces.sql"), &[]).await?;
    rows.iter()
        .map(|row| Ok(Tablespace { oid: row.try_get("oid")?, location: absolute(row.try_get("location")?)? }))
        .collect()
}

/// Names of the unlogged tables of all databases that can be entered.
async fn unlogged(
    connection: &Connection,
    conninfo: &ConnInfo,
    session: &SessionSettings,
) -> Result<Vec<String>, Error> {
    let sql = "select datname from pg_catalog.pg_database where datallowconn order by datname";
    let mut found = Vec::new();
    for row in connection.client.query(sql, &[]).await? {
        let database: String = row.try_get(0)?;
        let mut info = conninfo.clone();
        info.dbname.clone_from(&database);
        // A database that this role may not enter has tables whose names it does not learn.
        let Ok(session) = connect(&info, session).await else { continue };
        for row in session.client.query(include_str!("unlogged.sql"), &[]).await? {
            if found.len() < UNLOGGED_LISTED_MAX {
                found.push(format!("{database}.{}", row.try_get::<_, &str>("name")?));
            }
        }
    }
    Ok(found)
}

/// A path that the server says. What a relative one means would depend on where the copy runs.
fn absolute(path: String) -> Result<PathBuf, Error> {
    match path.starts_with('/') {
        true => Ok(path.into()),
        false => Err(odd(&format!("the path {}", shown_path(&path)))),
    }
}

/// Bytes of a file of WAL: a power of two, from 1 MiB to 1 GiB.
fn segment_bytes(said: i64) -> Result<u64, Error> {
    let bytes = u64::try_from(said).ok().filter(|bytes| bytes.is_power_of_two() && SEGMENT_BYTES.contains(bytes));
    bytes.ok_or_else(|| odd(&format!("files of WAL of {said} bytes")))
}

/// The server says what none of PostgreSQL would say.
fn odd(what: &str) -> Error {
    Refusal::new(format!("the server says {what}, which a server of PostgreSQL does not")).into()
}

/// An error of a statement that needs rights.
fn denied(error: tokio_postgres::Error) -> Error {
    if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) {
        let says = format!("the role may not copy the cluster: {}", millstream_pg::Error::from(error));
        return Error::refused(says, "connect as a superuser");
    }
    millstream_pg::Error::from(error).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_server_would_say_is_refused() {
        for path in ["", "data", "../data"] {
            assert!(absolute(path.to_owned()).is_err(), "{path}");
        }
        assert_eq!(absolute("/srv/data".to_owned()).unwrap(), PathBuf::from("/srv/data"));
        for bytes in [-1, 0, 3 << 20, 1 << 19, 1 << 31] {
            assert!(segment_bytes(bytes).is_err(), "{bytes}");
        }
        assert_eq!((segment_bytes(1 << 20).unwrap(), segment_bytes(1 << 30).unwrap()), (1 << 20, 1 << 30));
    }
}
