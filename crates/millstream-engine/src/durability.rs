//! What a committed batch survives: the promises that a load can give, and what each needs from the server.

use crate::error::Error;
use millstream_model::{CollectionName, shell_word};
use millstream_pg::catalog::Table;
use millstream_pg::{Connection, quote_qualified};
use tokio_postgres::Client;

/// A promise about committed batches.
#[derive(Debug, PartialEq, Eq)]
pub struct Durability {
    /// The name on the command line, in the load's record and in the receipt.
    pub name: &'static str,
    /// One line for the help text.
    pub about: &'static str,
    /// What the receipt says of it.
    pub promise: &'static str,
    /// Whether the collection is an unlogged table, which a crash of the server empties.
    pub unlogged: bool,
    /// Whether a lane's commits wait for the disk. If they do not and the table is logged, a lane keeps its batches
    /// until a commit has waited for the disk.
    pub(crate) waits: bool,
}

static DURABLE: Durability = Durability {
    name: "durable",
    about: "a committed batch survives a crash of the server",
    promise: "durable: every batch was flushed to disk before it was counted",
    unlogged: false,
    waits: true,
};

static ASYNC: Durability = Durability {
    name: "async",
    about: "commits do not wait for the disk; after a server crash, the running load writes lost batches again",
    promise: "async: batches did not wait for the disk; all of them were flushed before this receipt",
    unlogged: false,
    waits: false,
};

static UNLOGGED: Durability = Durability {
    name: "unlogged",
    about: "the collection is an unlogged table; a crash of the server empties it",
    promise: "unlogged: a crash of the server empties the collection",
    unlogged: true,
    waits: false,
};

/// Every promise, the default first.
pub static DURABILITIES: &[&Durability] = &[&DURABLE, &ASYNC, &UNLOGGED];

/// Settings without which a crash of the machine can lose or damage what the server has flushed.
const FLUSHING: &[&str] = &["fsync", "full_page_writes"];

impl Durability {
    /// The promise of that name.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        DURABILITIES.iter().copied().find(|d| d.name == name)
    }

    /// Sets a session's commits to what is promised.
    pub(crate) async fn begin(&self, client: &Client) -> Result<(), Error> {
        let sql = if self.waits { include_str!("write/durable.sql") } else { "set synchronous_commit = off" };
        Ok(client.batch_execute(sql).await?)
    }

    /// How a table that keeps the promise is created.
    pub(crate) fn create_table(&self) -> &'static str {
        if self.unlogged { "create unlogged table" } else { "create table" }
    }

    /// Whether a lane keeps committed batches, to write those again that a crash of the server takes.
    pub(crate) fn keeps(&self) -> bool {
        !self.waits && !self.unlogged
    }

    /// Why an existing table cannot keep the promise, and the way out. `collection` is its name if it is known as a
    /// collection.
    pub(crate) fn misfit(&self, table: &Table, collection: Option<&CollectionName>) -> Option<(String, String)> {
        let name = quote_qualified(&table.schema, &table.name);
        if table.is_partitioned() && self.unlogged {
            return Some((
                "it is partitioned, which is not unlogged as a whole".into(),
                "leave out --durability unlogged".to_owned(),
            ));
        }
        if let Some(partition) = table.unlogged_partitions.first() {
            return Some((
                format!("its partition {partition} is unlogged: a crash of the server empties it"),
                format!("alter table {partition} set logged"),
            ));
        }
        match (table.persistence == 'u', self.unlogged) {
            (true, false) => {
                let logged = || format!("alter table {name} set logged");
                let end = collection.map_or_else(logged, |name| format!("millstream freeze {}", shell_word(name)));
                let hint = format!("say so with --durability unlogged, or end that: {end}");
                Some(("it is unlogged: a crash of the server empties it".into(), hint))
            }
            (false, true) => Some((
                "it is not unlogged".into(),
                format!("leave out --durability unlogged, or make the table unlogged: alter table {name} set unlogged"),
            )),
            _ => None,
        }
    }

    /// Refuses a server that cannot keep the promise. Returns warnings about settings that weaken it.
    ///
    /// # Errors
    /// [`Error::Refused`] names the setting and what to do.
    pub(crate) async fn check(&self, control: &Connection) -> Result<Vec<String>, Error> {
        let mut warnings = Vec::new();
        if self.unlogged {
            return Ok(warnings);
        }
        for name in FLUSHING {
            let sql = "select setting, source = 'command line' from pg_catalog.pg_settings where name = $1";
            let row = control.client.query_one(sql, &[name]).await?;
            if row.get::<_, &str>(0) == "on" {
                continue;
            }
            let problem =
                format!("the server runs with {name} off: a crash of its machine can lose or damage all of it");
            if self.waits {
                let on = match row.get(1) {
                    true => format!("start the server without `-c {name}=off`, which is stronger than its files"),
                    false => format!("`alter system set {name} = on` and `select pg_reload_conf()`"),
                };
                let hint = format!("{on}, or promise less: --durability async");
                return Err(Error::refused(problem, hint));
            }
            warnings.push(problem);
        }
        Ok(warnings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_each_promise_begins_with_its_name() {
        let names: std::collections::BTreeSet<_> = DURABILITIES.iter().map(|d| d.name).collect();
        assert_eq!(names.len(), DURABILITIES.len());
        for one in DURABILITIES {
            assert_eq!(Durability::by_name(one.name), Some(*one));
            assert!(one.promise.starts_with(&format!("{}: ", one.name)));
        }
        assert_eq!(Durability::by_name("eventual"), None);
    }
}
