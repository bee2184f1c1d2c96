//! What a lane writes into our tables with each batch: its own row, and rejects.

use crate::counters::each_counter;
use crate::error::Error;
use crate::mark::TableMark;
use crate::schema::Schema;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use millstream_model::{Counters, Fault, Position};
use millstream_pg::fill;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Statement};

/// A document that cannot be stored, on its way into the reject table.
#[derive(Debug, Clone)]
pub struct RejectedDocument {
    /// Where it begins.
    pub position: Position,
    /// On which line.
    pub line: u64,
    /// Why.
    pub fault: Fault,
    /// The bytes that are kept: all, or head and tail.
    pub bytes: Bytes,
    /// Length of the whole document.
    pub whole_bytes: u64,
}

/// Takes over a lane's row and raises its epoch on a reconnect. Reads the epoch, how many batches are committed, and
/// whether a crash emptied the table.
pub const ATTACH: &str = include_str!("lane_attach.sql");

/// Terminates the recorded backend of a lane of this run; of all lanes of all runs without a lane and a run.
pub const TERMINATE: &str = include_str!("lane_terminate.sql");

/// Writes a lane's row unchanged, when only a commit is needed.
pub const TOUCH: &str = include_str!("lane_touch.sql");

/// Locks a lane's slots against other loads that compare versions with those of tombstones.
pub const TURN: &str = include_str!("lane_turn.sql");

/// Stores rejects, see [`insert_rejects`].
pub const INSERT_REJECTS: &str = include_str!("reject_insert.sql");

/// A batch's update of its lane's row: position and counters, committed with the batch.
#[derive(Debug)]
pub struct Advance<'a> {
    /// The load's number.
    pub load_id: i64,
    /// The lane's number.
    pub lane: u16,
    /// The epoch that the lane attached with. If the row has another one, the lane is fenced.
    pub epoch: i32,
    /// The source of the batch's last document.
    pub source: u32,
    /// Uncompressed bytes of that source that are committed with this batch.
    pub offset: u64,
    /// Hash of all sources up to there.
    pub prefix_hash: u128,
    /// Counts of the batch.
    pub counters: Counters,
    /// Bytes of its rejects.
    pub reject_bytes: u64,
    /// What became of its documents in the transforms of the load; empty if it has none.
    pub outcomes: &'a [u64],
    /// The table as the run found it.
    pub table: &'a TableMark,
}

/// `division_by_zero`: how `lane_advance.sql` ends the transaction of a lane that no longer owns its row, or whose
/// table was renamed or replaced.
const FENCED_SQLSTATE: &str = "22012";

/// `foreign_key_violation`: a reject refers to nothing but its load.
const NO_LOAD_SQLSTATE: &str = "23503";

impl Advance<'_> {
    /// The statement that updates a lane's row with its batch.
    pub fn sql(schema: &Schema) -> String {
        let added = each_counter(|n, counter| format!("{counter} = {counter} + ${}", n + 7));
        fill!(include_str!("lane_advance.sql"), schema, added)
    }

    /// Executes `lane_advance.sql`.
    ///
    /// # Errors
    /// [`Error::Fenced`] when another run owns the load, or when the table has another name. The transaction
    /// then cannot commit.
    pub async fn execute(&self, client: &Client, statement: &Statement) -> Result<(), Error> {
        let int = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let lane = i16::try_from(self.lane).expect("lanes are few");
        let source = i32::try_from(self.source).expect("sources are few");
        let offset = int(self.offset);
        let hash = self.prefix_hash.to_be_bytes();
        let hash: &[u8] = &hash;
        let counters = self.counters.to_array().map(int);
        let reject_bytes = int(self.reject_bytes);
        let mut values: Vec<&(dyn ToSql + Sync)> = vec![&self.load_id, &lane, &self.epoch, &source, &offset, &hash];
        values.extend(counters.iter().map(|c| c as &(dyn ToSql + Sync)));
        let outcomes: Vec<i64> = self.outcomes.iter().map(|count| int(*count)).collect();
        let outcomes = Some(outcomes).filter(|outcomes| !outcomes.is_empty());
        let TableMark { oid, name, .. } = self.table;
        values.extend([&reject_bytes as &(dyn ToSql + Sync), oid, &name.table, &name.schema, &outcomes]);
        let advanced = client.query_one(statement, &values).await;
        advanced.map(drop).map_err(|error| fenced(error, FENCED_SQLSTATE, self.load_id))
    }
}

/// Turns the error with this SQLSTATE into `Fenced`: the load's record is gone, or belongs to another run.
fn fenced(error: tokio_postgres::Error, sqlstate: &str, load_id: i64) -> Error {
    if error.code().is_some_and(|code| code.code() == sqlstate) { Error::Fenced { load_id } } else { error.into() }
}

/// Stores rejects, at most [`REJECT_ROWS`](crate::limits::REJECT_ROWS). A reject that is stored already stays as it is.
///
/// # Errors
/// [`Error::Fenced`] when the load's record was deleted.
pub async fn insert_rejects(
    client: &Client,
    statement: &Statement,
    load_id: i64,
    rejects: &[&RejectedDocument],
) -> Result<(), Error> {
    if rejects.is_empty() {
        return Ok(());
    }
    let int = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let sources: Vec<i32> = rejects.iter().map(|r| i32::try_from(r.position.source).unwrap_or(i32::MAX)).collect();
    let offsets: Vec<i64> = rejects.iter().map(|r| int(r.position.offset)).collect();
    let lines: Vec<i64> = rejects.iter().map(|r| int(r.line)).collect();
    let reasons: Vec<&str> = rejects.iter().map(|r| r.fault.reason.code()).collect();
    let details: Vec<String> = rejects.iter().map(|r| r.fault.detail.replace('\0', "\u{fffd}")).collect();
    let texts: Vec<Option<&str>> = rejects.iter().map(|r| text_of(&r.bytes)).collect();
    let base64: Vec<Option<String>> =
        rejects.iter().map(|r| text_of(&r.bytes).is_none().then(|| STANDARD.encode(&r.bytes))).collect();
    let whole: Vec<i64> = rejects.iter().map(|r| int(r.whole_bytes)).collect();
    let truncated: Vec<bool> = rejects.iter().map(|r| r.bytes.len() as u64 != r.whole_bytes).collect();
    let values: [&(dyn ToSql + Sync); 10] =
        [&load_id, &sources, &offsets, &lines, &reasons, &details, &texts, &base64, &whole, &truncated];
    let inserted = client.execute(statement, &values).await;
    inserted.map(drop).map_err(|error| fenced(error, NO_LOAD_SQLSTATE, load_id))
}

/// The bytes as text, if PostgreSQL can store them as text.
fn text_of(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok().filter(|t| !t.contains('\0'))
}
