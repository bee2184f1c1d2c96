//! What is done to the tables of a database, between two looks.

use crate::host::is_here;
use crate::limits::BUSY_TABLES_MAX;
use crate::server::Server;
use crate::snapshot::Snapshot;
use millstream_pg::{ConnInfo, Error};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A session that looks at the tables of a database again and again.
#[derive(Debug)]
pub struct Activity {
    server: Server,
}

/// What was done to a table, in rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Work {
    /// Inserted, updated and deleted.
    pub written: u64,
    /// Of these, updated.
    pub updated: u64,
    /// Read by scans and by look-ups in indexes.
    pub read: u64,
}

/// Work by table, the name as SQL needs it.
pub type Tables = BTreeMap<String, Work>;

impl Activity {
    /// Opens the session. It reads and waits for no lock.
    ///
    /// # Errors
    /// The server's.
    pub async fn open(db: &ConnInfo) -> Result<Self, Error> {
        Ok(Self { server: Server::open(db, None).await? })
    }

    /// The server runs on this machine.
    pub fn is_here(&self) -> bool {
        is_here(&self.server)
    }

    /// The server's data directory, if this role may know it.
    ///
    /// # Errors
    /// The server's.
    pub async fn data_directory(&self) -> Result<Option<PathBuf>, Error> {
        self.server.data_directory().await
    }

    /// What the server has counted, and the tables of the database.
    ///
    /// # Errors
    /// The server's.
    pub async fn snapshot(&self) -> Result<Snapshot, Error> {
        Snapshot::read(&self.server.session.client).await
    }

    /// What was done to the busiest tables since the counters began.
    ///
    /// # Errors
    /// The server's.
    pub async fn tables(&self) -> Result<Tables, Error> {
        let rows = self.server.session.client.query(include_str!("activity.sql"), &[&BUSY_TABLES_MAX]).await?;
        let work = rows.iter().map(|row| {
            let count = |name: &str| u64::try_from(row.get::<_, i64>(name)).unwrap_or(0);
            (row.get("name"), Work { written: count("written"), updated: count("updated"), read: count("read") })
        });
        Ok(work.collect())
    }
}

/// What was done between two looks, the table with the most writes first, then by reads. Idle tables are left out.
pub fn work_between(before: &Tables, after: &Tables) -> Vec<(String, Work)> {
    let done = |(name, after): (&String, &Work)| {
        // A table that was not among the busiest before was idle only if all were listed.
        let listed = || i64::try_from(before.len()).is_ok_and(|count| count < BUSY_TABLES_MAX);
        let before = before.get(name).copied().or_else(|| listed().then(Work::default))?;
        // A reset of the counters in between begins at 0.
        let work = Work {
            written: after.written.saturating_sub(before.written),
            updated: after.updated.saturating_sub(before.updated),
            read: after.read.saturating_sub(before.read),
        };
        (work != Work::default()).then(|| (name.clone(), work))
    };
    let mut all: Vec<(String, Work)> = after.iter().filter_map(done).collect();
    all.sort_by_key(|(_, work)| std::cmp::Reverse((work.written, work.read)));
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_what_came_between_two_looks() {
        let tables = |list: &[(&str, u64, u64)]| -> Tables {
            let work = |written, read| Work { written, read, updated: 0 };
            list.iter().map(|(name, written, read)| ((*name).to_owned(), work(*written, *read))).collect()
        };
        let before = tables(&[("idle", 5, 5), ("read", 0, 10), ("reset", 100, 0), ("written", 10, 0)]);
        let after = tables(&[("idle", 5, 5), ("new", 7, 0), ("read", 0, 30), ("reset", 3, 0), ("written", 30, 1)]);
        let done = work_between(&before, &after);
        let names: Vec<&str> = done.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["written", "new", "read"]);
        assert_eq!(done[0].1, Work { written: 20, updated: 0, read: 1 });
    }
}
