//! The databases in which runs work: made once for each scale and kind of tables, and kept.

use super::arm::Setup;
use super::cluster::{Cluster, Trouble};
use super::command::{self, Ground};
use super::files::Source;
use super::program::Program;
use super::via::Via;
use crate::error::Error;
use crate::limits::{INIT_SECONDS_MAX, SCALE_BYTES};
use millstream_host::disk_free_bytes;
use millstream_local::Progress;
use millstream_pg::{quote_identifier, quote_literal};

/// Vacuums the tables of pgbench and empties the one that grows, so that every run starts alike.
const TIDY: &[&str] =
    &["truncate pgbench_history", "vacuum pgbench_branches", "vacuum pgbench_tellers", "vacuum pgbench_accounts"];

/// A database for runs of one scale and kind of tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Data {
    /// Its name.
    pub(crate) name: String,
    scale: u32,
    unlogged: bool,
    fillfactor: Option<u8>,
}

impl Data {
    /// The database that a run needs.
    pub(crate) fn of(source: &Source, setup: &Setup) -> Self {
        let scale = source.experiment.data.scale;
        let (unlogged, fillfactor) = (setup.unlogged.unwrap_or(false), setup.fillfactor);
        let kind = if unlogged { "_unlogged" } else { "" };
        let fill = fillfactor.map(|percent| format!("_f{percent}")).unwrap_or_default();
        let name = match scale {
            0 => format!("lab_{}", source.experiment.name.replace(|c: char| !c.is_ascii_alphanumeric(), "_")),
            _ => format!("lab_s{scale}{fill}{kind}"),
        };
        Self { name, scale, unlogged, fillfactor }
    }

    /// Makes the database unless it is there, and runs the experiment's SQL files and its `setup`.
    pub(crate) async fn make(
        &self,
        cluster: &Cluster,
        program: &Program,
        source: &Source,
        progress: Progress<'_>,
    ) -> Result<(), Trouble> {
        let control = cluster.control().await?;
        let sql =
            "select pg_catalog.shobj_description(oid, 'pg_database') from pg_catalog.pg_database where datname = $1";
        let found = control.client.query_opt(sql, &[&self.name]).await?;
        let there = found.is_some();
        let comment = found.and_then(|row| row.get::<_, Option<String>>(0)).unwrap_or_default();
        if there && comment != COMPLETE && comment != UNFINISHED {
            let why = format!("the database {} is not one that the lab made; rename or drop it", self.name);
            return Err(Trouble::Unfit(why));
        }
        if comment != COMPLETE || self.was_emptied(cluster).await? {
            progress(&format!("making the database {} of scale {}", self.name, self.scale));
            let name = quote_identifier(&self.name);
            control.client.batch_execute(&format!("drop database if exists {name}")).await?;
            if let Some(why) = self.lacks_room(cluster.data().and_then(disk_free_bytes)) {
                return Err(Error::Asked(why).into());
            }
            control.client.batch_execute(&format!("create database {name}")).await?;
            let unfinished = format!("comment on database {name} is {}", quote_literal(UNFINISHED));
            control.client.batch_execute(&unfinished).await?;
            if self.scale > 0 {
                let mut command = program.command(&cluster.db(None, &self.name)?, Via::Socket);
                command.args(["-i", "-q", "-s", &self.scale.to_string()]);
                if let Some(percent) = self.fillfactor {
                    command.args(["-F", &percent.to_string()]);
                }
                if self.unlogged {
                    command.arg("--unlogged-tables");
                }
                command::pgbench(&mut command, INIT_SECONDS_MAX).await?;
            }
            let complete = format!("comment on database {name} is {}", quote_literal(COMPLETE));
            control.client.batch_execute(&complete).await?;
        }
        let session = cluster.session(&self.name).await?;
        for file in &source.experiment.data.files {
            let text = source.files.get(file).map_or("", String::as_str);
            session.client.batch_execute(text).await?;
        }
        let setup = self.execute(cluster, &source.experiment.setup).await;
        setup.map_err(|trouble| source.failed_setup(trouble))
    }

    /// Why its tables do not fit on a disk with so many free bytes. Without this, they would fill it.
    fn lacks_room(&self, free: Option<u64>) -> Option<String> {
        let needed = u64::from(self.scale) * SCALE_BYTES;
        let free = free.filter(|free| *free < needed)? / 1_000_000;
        let needed = needed / 1_000_000;
        Some(format!(
            "tables of scale {} take about {needed} MB, and the disk of the lab's server has {free} MB left; choose a \
             smaller scale",
            self.scale
        ))
    }

    /// Whether a crash of the server has emptied the tables: it does so to tables without WAL.
    async fn was_emptied(&self, cluster: &Cluster) -> Result<bool, Trouble> {
        if !self.unlogged || self.scale == 0 {
            return Ok(false);
        }
        let session = cluster.session(&self.name).await?;
        let row = session.client.query_one("select not exists (select from pgbench_branches)", &[]).await?;
        session.close().await;
        Ok(row.get(0))
    }

    /// Brings the tables to the point from which every run starts: vacuumed, reset, and behind a checkpoint.
    pub(crate) async fn reset(&self, cluster: &Cluster, more: &[&[String]]) -> Result<(), Trouble> {
        if self.scale > 0 {
            let session = cluster.session(&self.name).await?;
            for statement in TIDY {
                session.client.batch_execute(statement).await?;
            }
            session.close().await;
        }
        for statements in more {
            self.execute(cluster, statements).await?;
        }
        let session = cluster.session(&self.name).await?;
        // A role without the right to do so measures without it; the record says how many checkpoints began.
        let _ = session.client.batch_execute("checkpoint").await;
        session.close().await;
        Ok(())
    }

    /// Runs SQL statements, and shell commands that begin with `!`.
    pub(crate) async fn execute(&self, cluster: &Cluster, lines: &[String]) -> Result<(), Trouble> {
        for line in lines {
            match line.strip_prefix('!') {
                Some(shell) => {
                    let db = cluster.db(None, &self.name)?;
                    command::shell(shell, Ground::Server(cluster, &db)).await?;
                }
                None => {
                    let session = cluster.session(&self.name).await?;
                    session.client.batch_execute(line).await.map_err(|error| {
                        let error = Error::from(error);
                        Error::Wrong(format!("{line}: {}", error.chain()))
                    })?;
                    session.close().await;
                }
            }
        }
        Ok(())
    }
}

/// Comment of a database whose tables are complete.
const COMPLETE: &str = "millstream lab: complete";

/// Comment of a database while its tables are made.
const UNFINISHED: &str = "millstream lab: unfinished";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_that_would_fill_the_disk_are_refused() {
        let data = |scale| Data { name: "lab".to_owned(), scale, unlogged: false, fillfactor: None };
        let why = data(100_000).lacks_room(Some(57_000_000_000)).unwrap();
        assert!(why.starts_with("tables of scale 100000 take about 1500000 MB, and"), "{why}");
        assert!(why.contains("has 57000 MB left"), "{why}");
        assert_eq!([data(50).lacks_room(Some(57_000_000_000)), data(100_000).lacks_room(None)], [None, None]);
    }
}
