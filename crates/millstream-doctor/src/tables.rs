//! All tables of a database: their dead rows, when they were vacuumed, and what a rewrite would give back.

use crate::checks::number::{number, percent};
use crate::checks::ours;
use crate::checks::pgstattuple::Meter;
use crate::checks::space::{MEASURED, MEASURING, SIZES, Space};
use crate::limits::{LISTED_TABLES_MAX, MEASURED_TABLES_MAX, SIZED_TABLE_BYTES_MIN};
use crate::refusal::or_refusal;
use crate::server::{Database, Server};
use millstream_pg::{ConnInfo, Error, fill};
use serde::Serialize;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

/// All tables of a database, those with the most dead rows first, and Millstream's own behind them.
#[derive(Debug, Clone, Default, Serialize)]
pub struct TableList {
    /// The database.
    pub database: String,
    /// So many bytes a rewrite is assumed to read and write in a second. How long it locks a table follows from it.
    pub rewrite_bytes_per_second: u64,
    /// The tables. Partitions stand in their root.
    pub tables: Vec<TableState>,
    /// What is not known, and what would show it.
    pub unseen: Vec<String>,
}

/// A table, or a partitioned table with the sums of its partitions.
#[derive(Debug, Clone, Default, Serialize)]
pub struct TableState {
    /// Its name, as SQL needs it. `TABLE.toast` stands for the TOAST table of a table.
    pub table: String,
    /// Millstream keeps its own records in it, such as those of loads. These tables come last.
    pub is_own: bool,
    /// Rows at the last vacuum or analyze. If there was none, those that the server has counted.
    pub rows: u64,
    /// Dead rows.
    pub dead: u64,
    /// Dead rows, in percent of all.
    pub dead_percent: f64,
    /// Autovacuum comes when more rows are dead. A partitioned table has none of its own.
    pub vacuum_from: Option<u64>,
    /// More rows are dead than that; of a partitioned table: in one of its partitions.
    pub is_due: bool,
    /// Autovacuum works on it, by its own option and the server's.
    pub autovacuum: bool,
    /// When somebody vacuumed it last, in UTC.
    pub last_vacuum: Option<String>,
    /// Seconds since then.
    pub last_vacuum_seconds: Option<f64>,
    /// When autovacuum was there last, in UTC.
    pub last_autovacuum: Option<String>,
    /// Seconds since then.
    pub last_autovacuum_seconds: Option<f64>,
    /// Its size without indexes, at the last vacuum or analyze.
    pub bytes: u64,
    /// Its free space. `None` if nobody knows it, or if the table is small.
    pub free: Option<FreeSpace>,
    /// Its partitions, those with the most dead rows first.
    pub partitions: Vec<TableState>,
}

/// Free space of a table, and what a rewrite (`vacuum full`) would do.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FreeSpace {
    /// Bytes for new rows.
    pub bytes: u64,
    /// The same in percent of the table.
    pub percent: f64,
    /// Where this comes from.
    pub source: FreeSource,
    /// So many bytes a rewrite gives back at least.
    pub rewrite_gives_bytes: u64,
    /// So much free disk it needs meanwhile. Of a partitioned table: for the largest partition.
    pub rewrite_needs_bytes: u64,
    /// So long it locks the table. Of a partitioned table: one partition at a time, and so long the largest.
    pub rewrite_locks_seconds: f64,
}

/// Where the free space of a table comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FreeSource {
    /// Measured by the extension `pgstattuple`.
    Pgstattuple,
    /// What the last vacuum found, by the extension `pg_freespacemap`. What has died since is not in it.
    PgFreespacemap,
    /// Estimated from the statistics of the columns.
    Estimate,
    /// Of a partitioned table: its partitions differ in it.
    Several,
}

/// Reads all tables of a database. No more time than `measure` is spent on measuring free space with extensions; what it does
/// not suffice for is estimated.
///
/// # Errors
/// The server cannot be reached, or refuses the list.
pub async fn tables(db: &ConnInfo, measure: Duration, rewrite_bytes_per_second: u64) -> Result<TableList, Error> {
    // What waits in it is large.
    Box::pin(listed(db, measure, rewrite_bytes_per_second.max(1))).await
}

async fn listed(db: &ConnInfo, measure: Duration, pace: u64) -> Result<TableList, Error> {
    let server = Server::open(db, None).await?;
    let name = server.session.server.database.clone();
    let database = Database::open(&server, &name, measure).await?;
    let own = ours::names(&database).await?;
    let threshold = include_str!("checks/autovacuum_threshold.sql");
    let sql = fill!(include_str!("tables.sql"), threshold);
    let found = database.session.client.query(&sql, &[&LISTED_TABLES_MAX, &own]).await?;
    let mut unseen: Vec<String> = database.counts.clone().err().into_iter().collect();
    if i64::try_from(found.len()).is_ok_and(|count| count >= LISTED_TABLES_MAX) {
        unseen.push(format!("tables and TOAST tables that are smaller than the {LISTED_TABLES_MAX} largest"));
    }
    let is_vacuumed =
        |row: &Row| ["vacuum_at", "autovacuum_at"].iter().any(|at| row.get::<_, Option<&str>>(at).is_some());
    let vacuumed: Vec<u32> = found.iter().filter(|row| is_vacuumed(row)).map(|row| row.get("oid")).collect();
    let mut spaces = spaces(&database, &vacuumed, pace, &mut unseen).await?;
    let (mut tables, mut roots) = (Vec::new(), BTreeMap::<String, Vec<TableState>>::new());
    for row in &found {
        let state = TableState::of(row, spaces.remove(&row.get::<_, u32>("oid")));
        match database.roots.root_of(row.get("owner")) {
            Some(root) => roots.entry(root).or_default().push(state),
            None => tables.push(state),
        }
    }
    tables.extend(roots.into_iter().map(|(root, partitions)| TableState::together(root, partitions)));
    tables.sort_by(TableState::by_dead);
    Ok(TableList { database: name, rewrite_bytes_per_second: pace, tables, unseen })
}

/// The free space of tables by their numbers. The ones that are believed to have most are measured first. The map of the free
/// space is empty until a table is vacuumed.
async fn spaces(
    database: &Database,
    vacuumed: &[u32],
    pace: u64,
    unseen: &mut Vec<String>,
) -> Result<BTreeMap<u32, FreeSpace>, Error> {
    let parameters: [&(dyn ToSql + Sync); 5] =
        [&SIZED_TABLE_BYTES_MIN, &f64::NEG_INFINITY, &LISTED_TABLES_MAX, &None::<f64>, &LISTED_TABLES_MAX];
    let rows = match or_refusal(database.session.client.query(SIZES, &parameters).await)? {
        Ok(rows) => rows,
        Err(why) => {
            unseen.push(format!("free space: {why}"));
            return Ok(BTreeMap::new());
        }
    };
    let mut exact = Meter::of(database, MEASURING, MEASURED, &rows).await?;
    let map = Meter::of_map(database, &rows).await?;
    let mut known = BTreeMap::new();
    for (place, row) in rows.iter().enumerate() {
        let (oid, mut measured) = (row.get::<_, u32>("oid"), None);
        if place < MEASURED_TABLES_MAX {
            measured = exact.measure(oid).await?.map(|numbers| (numbers, FreeSource::Pgstattuple));
            if measured.is_none() && vacuumed.contains(&oid) {
                measured = map.measure(oid).await?.map(|numbers| (numbers, FreeSource::PgFreespacemap));
            }
        }
        let (numbers, source) = measured.unzip();
        match Space::of(row, numbers.as_deref()) {
            Some(space) => {
                let source = source.unwrap_or(FreeSource::Estimate);
                known.insert(oid, FreeSpace::of(&space, source, number(row, "other_bytes"), pace));
            }
            None => exact.unknown += 1,
        }
    }
    unseen.extend(exact.unseen("the free space of tables", 0));
    Ok(known)
}

impl FreeSpace {
    /// `others`: bytes that a rewrite copies besides these rows, such as indexes.
    fn of(space: &Space, source: FreeSource, others: u64, pace: u64) -> Self {
        let Space { size, after, free, .. } = *space;
        let written = after + others;
        Self {
            bytes: free,
            percent: percent(free, size),
            source,
            rewrite_gives_bytes: size.saturating_sub(after),
            rewrite_needs_bytes: written,
            // Indexes are made from the rows.
            rewrite_locks_seconds: (size + written) as f64 / pace as f64,
        }
    }

    /// Of several partitions that take so many bytes.
    fn together(all: &[&Self], size: u64) -> Option<Self> {
        let first = all.first()?;
        let is_one = all.iter().all(|one| one.source == first.source);
        let bytes = all.iter().map(|one| one.bytes).sum();
        Some(Self {
            bytes,
            percent: percent(bytes, size),
            source: if is_one { first.source } else { FreeSource::Several },
            rewrite_gives_bytes: all.iter().map(|one| one.rewrite_gives_bytes).sum(),
            rewrite_needs_bytes: all.iter().map(|one| one.rewrite_needs_bytes).max().unwrap_or(0),
            rewrite_locks_seconds: all.iter().map(|one| one.rewrite_locks_seconds).fold(0.0, f64::max),
        })
    }
}

impl TableState {
    fn of(row: &Row, free: Option<FreeSpace>) -> Self {
        let (dead, live) = (number(row, "dead"), number(row, "live"));
        let owner: String = row.get("owner");
        Self {
            table: if row.get("is_toast") { format!("{owner}.toast") } else { owner },
            is_own: row.get("is_own"),
            rows: number(row, "rows"),
            dead,
            dead_percent: percent(dead, live + dead),
            vacuum_from: Some(number(row, "vacuum_from")),
            is_due: row.get("is_due"),
            autovacuum: row.get("autovacuum"),
            last_vacuum: row.get("vacuum_at"),
            last_vacuum_seconds: row.get("vacuum_age"),
            last_autovacuum: row.get("autovacuum_at"),
            last_autovacuum_seconds: row.get("autovacuum_age"),
            bytes: number(row, "bytes"),
            free,
            partitions: Vec::new(),
        }
    }

    /// A partitioned table.
    fn together(root: String, mut partitions: Vec<Self>) -> Self {
        partitions.sort_by(Self::by_dead);
        let sum = |of: fn(&Self) -> u64| partitions.iter().map(of).sum::<u64>();
        let (rows, dead, bytes) = (sum(|one| one.rows), sum(|one| one.dead), sum(|one| one.bytes));
        let known: Vec<&FreeSpace> = partitions.iter().filter_map(|one| one.free.as_ref()).collect();
        Self {
            table: root,
            rows,
            dead,
            dead_percent: percent(dead, rows + dead),
            is_due: partitions.iter().any(|one| one.is_due),
            autovacuum: partitions.iter().all(|one| one.autovacuum),
            bytes,
            free: FreeSpace::together(&known, bytes),
            partitions,
            ..Self::default()
        }
    }

    /// The user's first, then by dead rows, then by rows.
    fn by_dead(&self, other: &Self) -> Ordering {
        let by_rows = || (other.dead, other.rows).cmp(&(self.dead, self.rows));
        self.is_own.cmp(&other.is_own).then_with(by_rows).then_with(|| self.table.cmp(&other.table))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partition(name: &str, dead: u64, source: FreeSource) -> TableState {
        let space = Space { size: 1_000, after: 400, free: 500, dead: None };
        TableState {
            table: name.to_owned(),
            rows: 100,
            dead,
            is_due: dead > 50,
            autovacuum: true,
            bytes: 1_000,
            free: Some(FreeSpace::of(&space, source, dead, 100)),
            ..TableState::default()
        }
    }

    #[test]
    fn a_partitioned_table_has_the_sums_of_its_partitions_and_locks_one_at_a_time() {
        let both = vec![partition("s.a1", 20, FreeSource::Estimate), partition("s.a2", 80, FreeSource::Estimate)];
        let root = TableState::together("s.a".to_owned(), both);
        assert_eq!((root.rows, root.dead, root.bytes, root.is_due), (200, 100, 2_000, true));
        assert_eq!(root.partitions[0].table, "s.a2", "the most dead rows come first");
        let free = root.free.unwrap();
        assert_eq!((free.bytes, free.rewrite_gives_bytes, free.source), (1_000, 1_200, FreeSource::Estimate));
        assert_eq!(free.rewrite_needs_bytes, 480, "that of the largest");
        assert!((free.percent - 50.0).abs() < 1e-9 && (free.rewrite_locks_seconds - 14.8).abs() < 1e-9, "{free:?}");

        let mixed = vec![partition("s.a1", 1, FreeSource::Estimate), partition("s.a2", 1, FreeSource::Pgstattuple)];
        let root = TableState::together("s.a".to_owned(), mixed);
        assert_eq!(root.free.map(|free| free.source), Some(FreeSource::Several));
    }
}
