//! Writes a refused batch row by row on the server, so that only what the server refuses is rejected.
//!
//! The batch is staged once, and a function that lives as long as the connection writes it. Without the function, a
//! million documents of which a tenth is refused, or that have one key and cannot be folded, would take as many round
//! trips.

use super::copy_stream::{Destination, copy_groups, document, marks};
use super::names::{DROPPED, Names, Staged};
use super::refused::{Refused, reject};
use super::{Session, deleting, upsert};
use crate::batch::{Batch, Group};
use crate::collection::key_columns;
use crate::error::{Error, REFUSALS};
use crate::limits::{
    KEY_TURNS_MAX, REFUSAL_BYTES_MAX, REPLAY_CODES_MAX, REPLAY_PAGES_MAX, REPLAY_PAGES_ONE_BY_ONE, REPLAY_REFUSED_MAX,
    REPLAY_REFUSED_SHARE, REPLAY_TURNS_MAX,
};
use crate::merge::Written;
use crate::unfit;
use futures_util::TryStreamExt;
use millstream_pg::{ErrorKind, Explained, fill, quote_literal};
use std::collections::HashMap;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Statement};

/// The name of this way of writing in the receipt.
pub(super) const NAME: &str = "replay";

/// The staging table of this way of writing.
const STAGE: &str = "pg_temp.millstream_replay";

/// Staged rows that are tried together.
const SPAN: &str = "ctid >= replay.first and ctid < replay.beyond";
/// Those of them that are written by one statement.
const PAGES: &str = "ctid >= replay.first and ctid < replay.beyond and millstream_turn = replay.turn";
/// The staged row that is tried alone.
const ONE: &str = "ctid = r.millstream_tid";

/// The statements for writing row by row, as text.
#[derive(Debug)]
pub(super) struct Sql {
    /// Creates the staging table and the function.
    create: String,
    copy: String,
    /// Whether documents that break a constraint may be found by its expression.
    screens: bool,
    /// Whether documents that equal the stored one are skipped.
    compares: bool,
}

impl Sql {
    pub(super) fn new(names: &Names<'_>) -> Self {
        let Names { plan, table, key, keys, join, action, inserted, .. } = names;
        let (compares, deletes, (marks, mark_names)) = (plan.skips(), plan.deletes(), marks(names));
        let join_one: Vec<String> =
            keys.iter().map(|key| format!("stored.{key} operator(pg_catalog.=) r.{key}")).collect();
        let join_one = join_one.join(" and ");
        let puts = if deletes { "millstream_effect <> 2" } else { "true" };
        // If a trigger may alter rows, the server checks what it has written, in the function that can also tell which
        // documents that concerns.
        let staged = |run: &'static str| Staged { table: STAGE, run, notes: plan.traits.alters_rows };
        let lock = match deletes {
            true => fill!(include_str!("replay_lock.sql"), lock = deleting::Steps::new(names, staged("true")).lock),
            false => String::new(),
        };
        let write = |rows: &'static str| match deletes {
            true => deleting::Steps::new(names, staged(rows)).try_run(),
            false => {
                let upsert = upsert::text(names, staged(rows), &format!("where {rows}"), action);
                format!("{upsert}into replay.added, replay.changed;")
            }
        };
        let write_one = match deletes || plan.traits.alters_rows {
            true => write(ONE),
            false => {
                fill!(include_str!("upsert_one.sql"), table, key, values = names.values("r"), action, inserted)
            }
        };
        let leaves = match (names.replaced("staged.doc"), plan.mode.condition("staged.doc", "stored.doc")) {
            (None, _) => "true".to_owned(),
            (Some(_), None) => "false".to_owned(),
            (Some(_), Some(condition)) => format!("({condition}) is not true"),
        };
        let oid = plan.table_oid;
        let breaches = fill!(include_str!("replay_breaches.sql"), oid);
        let (unchanged, unchanged_one) = if compares {
            (
                fill!(include_str!("replay_unchanged.sql"), puts, table, join),
                fill!(include_str!("replay_unchanged_one.sql"), table, join_one),
            )
        } else {
            ("null;".to_owned(), String::new())
        };
        let leaves = if deletes { format!("millstream_effect = 0 and {leaves}") } else { leaves };
        let set = names.replaced("r.doc").filter(|_| !plan.mode.stores_documents() && !deletes);
        let merged = set.map_or_else(String::new, |set| fill!(include_str!("replay_merged.sql"), set, table, join_one));
        let unfit = match plan.columns.is_empty() {
            true => String::new(),
            false => fill!(
                include_str!("replay_unfit.sql"),
                merged,
                search = unfit::search(&plan.columns, "replay.document")
            ),
        };
        let noted = format!("{join} and stored.millstream_turn = staged.millstream_turn");
        let kept_out = |rows: &str, written: &str| match plan.traits.alters_rows {
            true => fill!(
                include_str!("replay_kept_out.sql"),
                rows,
                written,
                puts,
                table,
                join,
                noted,
                leaves,
                dropped = DROPPED
            ),
            false => String::new(),
        };
        let body = fill!(
            include_str!("replay.sql"),
            table,
            key,
            puts,
            lock,
            unchanged,
            unchanged_one,
            screen = fill!(include_str!("replay_screen.sql"), breaches, puts),
            write_pages = write(PAGES),
            write_one,
            kept_out_pages = kept_out(SPAN, "all_added + all_changed"),
            kept_out_one = kept_out(ONE, "added + changed"),
            unfit,
            dropped = DROPPED,
            span_max = REPLAY_PAGES_MAX,
            span_one_by_one = REPLAY_PAGES_ONE_BY_ONE,
            turns_max = REPLAY_TURNS_MAX,
            share = REPLAY_REFUSED_SHARE,
            message_max = REFUSAL_BYTES_MAX,
        );
        let columns = key_columns(&plan.key).join(", ");
        let create = fill!(
            include_str!("replay_create.sql"),
            columns,
            document = document(plan),
            marks,
            notes = if plan.traits.alters_rows {
                fill!(include_str!("replay_notes.sql"), columns, key)
            } else {
                String::new()
            },
            body = quote_literal(&body),
        );
        let copy = format!(
            "copy {STAGE} ({key}, doc{mark_names}, millstream_place, millstream_turn) from stdin (format binary)"
        );
        // A document that is older than a tombstone is stale, whatever else is wrong with it.
        let screens = !deletes || plan.mode.version().is_none();
        Self { create, copy, screens, compares }
    }
}

/// What a connection has for writing row by row, and what its lane has learned.
#[derive(Debug)]
pub(super) struct Replayer {
    copy: Statement,
    replay: Statement,
    /// As in [`Sql`].
    screens: bool,
    compares: bool,
    /// SQLSTATEs that refuse data. The function ends with any other error, because only we can decide what that error
    /// means.
    refusing: Vec<String>,
}

impl Replayer {
    /// Creates on the connection what writing row by row needs.
    ///
    /// # Errors
    /// [`Error::Refused`] when the role may not use PL/pgSQL.
    pub(super) async fn open(client: &Client, sql: &Sql) -> Result<Self, Error> {
        client.batch_execute(&sql.create).await.map_err(|error| without_language(error.into()))?;
        let refusing = REFUSALS.iter().chain(COMMON).map(|code| (*code).to_owned()).collect();
        let replay = "select * from pg_temp.millstream_replay($1, $2, $3, $4, $5, $6, $7)";
        let (copy, replay) = (client.prepare(&sql.copy).await?, client.prepare(replay).await?);
        Ok(Self { copy, replay, screens: sql.screens, compares: sql.compares, refusing })
    }

    /// Remembers the SQLSTATE of a refusal. False if it was known, or too many are.
    fn learns(&mut self, refusal: &Error) -> bool {
        let Error::Postgres(error) = refusal else { return false };
        let code = error.sqlstate().filter(|_| self.refusing.len() < REPLAY_CODES_MAX);
        let Some(code) = code.filter(|code| self.refusing.iter().all(|known| known != code)) else { return false };
        self.refusing.push(code.to_owned());
        true
    }
}

/// The server refused something in a batch, and the function that finds out what cannot be created.
fn without_language(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Rights | ErrorKind::NotFound => Error::refused(
            format!("the server refused documents, and finding them needs PL/pgSQL: {error}"),
            "ask a superuser to: grant usage on language plpgsql to the role that loads",
        ),
        _ => error,
    }
}

/// SQLSTATEs that need not be learned: of values, constraints, triggers and limits.
const COMMON: &[&str] = &[
    DROPPED, "22001", "22003", "22007", "22008", "22012", "22023", "22P02", "23502", "23503", "23505", "23514",
    "23P01", "54000", "P0001", "P0004",
];

/// Writes the batch in a transaction that is left open. `None` if the batch should be halved first, because more than
/// `rejects_max` documents are refused, or because one key has more documents than one transaction should write. Then
/// nothing is written, and no transaction is open. A batch of one part is never halved.
pub(super) async fn replay(
    session: Session<'_>,
    replayer: &mut Replayer,
    batch: &Batch,
    rejects_max: u64,
) -> Result<Option<Refused>, Error> {
    let divisible = batch.parts() > 1;
    let rejects_max = if divisible { rejects_max.min(REPLAY_REFUSED_MAX) } else { u64::MAX };
    loop {
        let error = match write(session, replayer, batch, rejects_max).await {
            Ok(Some(refused)) => return Ok(Some(refused)),
            Ok(None) => {
                session.client.batch_execute("rollback").await?;
                return Ok(None);
            }
            Err(error) => error,
        };
        if !error.refuses_data() || !replayer.learns(&error) {
            return Err(error);
        }
        session.client.batch_execute("rollback").await?;
    }
}

/// Writes the keys of the batch, then one by one the documents of those refused keys that stand for several.
async fn write(
    session: Session<'_>,
    replayer: &Replayer,
    batch: &Batch,
    rejects_max: u64,
) -> Result<Option<Refused>, Error> {
    let keys_max = if batch.parts() > 1 { KEY_TURNS_MAX } else { usize::MAX };
    let (mut outcome, mut opening) = (Refused::default(), session.opening);
    let (mut rows, mut singly) = (rows(session, batch, batch.groups()), false);
    while !rows.is_empty() {
        let left = rejects_max - outcome.rejects.len() as u64;
        let (mut refused, counts) = run(Session { opening, ..session }, replayer, batch, &rows, singly, left).await?;
        if refused.len() as u64 > left {
            return Ok(None);
        }
        let (mut stored, mut again) = (Vec::with_capacity(rows.len()), Vec::new());
        for (place, (group, _)) in rows.into_iter().enumerate() {
            match refused.remove(&place) {
                None => stored.push(group),
                Some(_) if group.len() > keys_max => return Ok(None),
                Some(_) if group.len() > 1 => again.push(group),
                Some(refusal) => outcome.rejects.push(reject(session.plan, batch, &group, &refusal)),
            }
        }
        let written = batch.written(&stored, &session.plan.mode);
        outcome.written += counted(written, &counts, session.plan.mode.may_keep_stored());
        rows = again.iter().flat_map(|group| singles(batch, group)).collect();
        (singly, opening) = (true, "");
    }
    Ok(Some(outcome))
}

/// The rows to stage, in key order. Each has the number of rows of its key before it.
fn rows(session: Session<'_>, batch: &Batch, groups: &[Group]) -> Vec<(Group, i32)> {
    let plan = session.plan;
    let row = |group: &Group| {
        let folds = batch.rounds(std::slice::from_ref(group), &plan.mode, plan.folding.of_replay()).is_none();
        if folds { vec![(group.clone(), 0)] } else { singles(batch, group).collect() }
    };
    groups.iter().flat_map(row).collect()
}

fn singles(batch: &Batch, group: &Group) -> impl Iterator<Item = (Group, i32)> {
    batch.singles(group).into_iter().zip(0..)
}

/// Stages rows and lets the server write them. Returns why rows were refused, by their places, and the counts.
async fn run(
    session: Session<'_>,
    replayer: &Replayer,
    batch: &Batch,
    rows: &[(Group, i32)],
    singly: bool,
    rejects_max: u64,
) -> Result<(HashMap<usize, Error>, Row), Error> {
    let Session { client, plan, opening, .. } = session;
    let opening = format!("{opening}; truncate pg_temp.millstream_replay");
    let session = Session { opening: &opening, ..session };
    let (groups, turns): (Vec<Group>, Vec<i32>) = rows.iter().cloned().unzip();
    let refused_max = i64::try_from(rejects_max).unwrap_or(i64::MAX);
    let replayed = async {
        let Replayer { replay, screens, compares, refusing, .. } = replayer;
        let may_keep_stored = plan.mode.may_keep_stored();
        let values: &[&(dyn ToSql + Sync)] =
            &[refusing, &refused_max, &may_keep_stored, &batch.has_tombstones(), screens, compares, &singly];
        // Read the answer row by row: it may hold as many refusals as there are documents, and a row takes more memory
        // than its text.
        let answer = client.query_raw(replay, values.iter().copied()).await?;
        let (mut answer, mut refused, mut counts) = (std::pin::pin!(answer), HashMap::new(), None);
        while let Some(row) = answer.try_next().await? {
            match usize::try_from(row.get::<_, i32>("place")).expect("a place is not negative").checked_sub(1) {
                Some(place) => _ = refused.insert(place, refusal(&row)),
                None => counts = Some(row),
            }
        }
        Ok((refused, counts.expect("one row is the counts")))
    };
    let to = Destination::Replay(&replayer.copy, &turns);
    let (staged, answer) = copy_groups(session, to, batch, &groups, replayed).await?;
    assert_eq!(staged, groups.len() as u64, "the staging table takes every row");
    Ok(answer)
}

/// Why a staged row was refused.
fn refusal(row: &Row) -> Error {
    let sqlstate: String = row.get("code");
    if sqlstate == DROPPED {
        return Error::RowsDropped { rows: 1 };
    }
    if let Some(column) = row.get("unfit") {
        return Error::DoesNotFit { column };
    }
    let (message, constraint) = (row.get("message"), row.get("breach"));
    Error::Postgres(millstream_pg::Error::Server { kind: ErrorKind::DataRefused, sqlstate, message, constraint })
}

/// Adds the server's counts.
fn counted(written: Written, counts: &Row, may_keep_stored: bool) -> Written {
    let count = |name| u64::try_from(counts.get::<_, i64>(name)).expect("a count is not negative");
    let (inserted, updated) = (count("inserted"), count("updated"));
    let written = Written { inserted, updated, deleted: count("deleted"), unchanged: count("unchanged"), ..written };
    assert!(written.done() == written.keys || may_keep_stored && written.done() < written.keys, "each row counts once");
    written
}
