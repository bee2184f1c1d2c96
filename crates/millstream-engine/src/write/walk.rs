//! Writes a batch on the server, row by row where necessary. The batch is staged once, and a function that lives as
//! long as the connection writes it. Without the function, a million documents of which a tenth is refused, or that
//! have one key and cannot be folded, would take as many round trips.

use super::copy_stream::{Destination, Step, copy_groups};
use super::refused::{Refused, reject};
use super::{Session, Target};
use crate::batch::{Batch, Group};
use crate::collection::{Collection, key_columns};
use crate::error::{Error, REFUSALS};
use crate::limits::{
    KEY_TURNS_MAX, REFUSAL_BYTES_MAX, WALK_CODES_MAX, WALK_PAGES_MAX, WALK_PAGES_ONE_BY_ONE, WALK_REFUSED_SHARE,
    WALK_TURNS_MAX,
};
use crate::merge::Written;
use futures_util::TryStreamExt;
use millstream_pg::{ErrorKind, quote_literal};
use std::collections::HashMap;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Statement};

/// The SQLSTATE by which the function reports that a trigger or rule dropped a row. No server uses it.
const DROPPED: &str = "MS001";

/// Staged rows that together stand for every key. The others are tried only if one of these is refused.
pub(super) const KEYS: &str = "millstream_fold >= 0";
/// Staged rows that are written by one statement.
pub(super) const PAGES: &str =
    "ctid >= walk.first and ctid < walk.beyond and millstream_fold >= 0 and millstream_turn = walk.turn";
/// The staged row that is tried alone.
pub(super) const ONE: &str = "ctid = r.millstream_tid";

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

/// What differs between collections and modes.
pub(super) struct Tries<'a> {
    pub(super) table: &'a str,
    /// Quoted names of the key's columns.
    pub(super) keys: &'a [String],
    /// Definitions and names of the staging table's columns behind the document, with a comma before each.
    pub(super) stage: (&'a str, &'a str),
    /// What runs before the first try.
    pub(super) lock: String,
    /// Whether to skip documents that equal the stored one.
    pub(super) compares: bool,
    /// Write what [`PAGES`] and [`ONE`] select.
    pub(super) pages: String,
    pub(super) one: String,
}

impl Sql {
    pub(super) fn new(collection: &Collection, tries: &Tries<'_>) -> Self {
        let Tries { table, keys, stage: (columns, names), lock, compares, pages, one } = tries;
        let key = keys.join(", ");
        let values: Vec<String> = keys.iter().map(|key| format!("r.{key}")).collect();
        let join = |new: &str| {
            let columns = keys.iter().map(|key| format!("stored.{key} = {new}.{key}"));
            columns.collect::<Vec<_>>().join(" and ")
        };
        let deletes = !names.is_empty();
        let body = include_str!("walk.sql")
            .replace("{lock}", lock)
            .replace("{write_pages}", pages)
            .replace("{write_one}", one)
            .replace("{screen}", include_str!("walk_screen.sql"))
            .replace("{breaches}", include_str!("walk_breaches.sql"))
            .replace("{unchanged}", if *compares { include_str!("walk_unchanged.sql") } else { "" })
            .replace("{unchanged_one}", if *compares { include_str!("walk_unchanged_one.sql") } else { "" })
            .replace("{join}", &join("staged"))
            .replace("{join_one}", &join("r"))
            .replace("pg_temp.millstream_stage", "pg_temp.millstream_replay")
            .replace("{puts}", if deletes { "millstream_effect <> 2" } else { "true" })
            .replace("{pages}", PAGES)
            .replace("{dropped}", DROPPED)
            .replace("{span_max}", &WALK_PAGES_MAX.to_string())
            .replace("{span_one_by_one}", &WALK_PAGES_ONE_BY_ONE.to_string())
            .replace("{turns_max}", &WALK_TURNS_MAX.to_string())
            .replace("{share}", &WALK_REFUSED_SHARE.to_string())
            .replace("{message_max}", &REFUSAL_BYTES_MAX.to_string())
            .replace("{oid}", &collection.table_oid.to_string())
            .replace("{values}", &values.join(", "))
            .replace("{table}", table)
            .replace("{key}", &key);
        let create = include_str!("walk_create.sql")
            .replace("{columns}", &key_columns(&collection.key).join(", "))
            .replace("{marks}", columns)
            .replace("{body}", &quote_literal(&body));
        let copy = format!(
            "copy pg_temp.millstream_replay ({key}, doc{names}, millstream_place, millstream_fold, millstream_turn) \
             from stdin (format binary)"
        );
        // A document that is older than a tombstone is stale, whatever else is wrong with it.
        let screens = !deletes || collection.mode.version().is_none();
        Self { create, copy, screens, compares: *compares }
    }
}

/// What a connection has for writing row by row, and what its lane has learned.
#[derive(Debug)]
pub(super) struct Walker {
    /// `None` if the role may not create functions, or the server has no PL/pgSQL.
    statements: Option<Statements>,
    /// SQLSTATEs that refuse data. The function ends with any other error, because only we can decide what that error
    /// means.
    refusing: Vec<String>,
}

#[derive(Debug)]
struct Statements {
    copy: Statement,
    walk: Statement,
}

impl Walker {
    /// Creates on the connection what writing row by row needs.
    pub(super) async fn open(client: &Client, target: &Target) -> Result<Self, Error> {
        let sql = target.walk();
        let statements = match client.batch_execute(&sql.create).await.map_err(Error::from) {
            Ok(()) => Some(Statements {
                copy: client.prepare(&sql.copy).await?,
                walk: client.prepare("select * from pg_temp.millstream_walk($1, $2, $3, $4, $5, $6, $7, $8)").await?,
            }),
            Err(error) if is_final(error.kind()) => None,
            Err(error) => return Err(error),
        };
        let refusing = REFUSALS.iter().chain(COMMON).map(|code| (*code).to_owned()).collect();
        Ok(Self { statements, refusing })
    }

    pub(super) fn usable(&self) -> bool {
        self.statements.is_some()
    }

    /// Remembers the SQLSTATE of a refusal. False if it was known, or cannot be remembered.
    pub(super) fn learns(&mut self, refusal: &Error) -> bool {
        let Error::Postgres(error) = refusal else { return false };
        // 42501 (a right is missing) refuses data only if it comes from certain places in the server, which the
        // function does not see.
        let code =
            error.sqlstate().filter(|_| error.kind() == ErrorKind::DataRefused && error.sqlstate() != Some("42501"));
        let Some(code) = code.filter(|code| self.refusing.len() < WALK_CODES_MAX && !self.knows(code)) else {
            return false;
        };
        self.refusing.push(code.to_owned());
        true
    }

    fn knows(&self, code: &str) -> bool {
        self.refusing.iter().any(|known| known == code)
    }
}

/// SQLSTATEs that need not be learned: of values, constraints, triggers and limits.
const COMMON: &[&str] = &[
    DROPPED, "22001", "22003", "22007", "22008", "22012", "22023", "22P02", "23502", "23503", "23505", "23514",
    "23P01", "54000", "P0001", "P0004",
];

/// Whether another try cannot help.
fn is_final(kind: ErrorKind) -> bool {
    use ErrorKind::{Bug, Config, DataRefused, Exists, NotFound, Rights};
    matches!(kind, Bug | Config | DataRefused | Exists | NotFound | Rights)
}

/// Stages the batch and lets the server write it, in a transaction that begins with the session's opening. `None` if
/// more than `rejects_max` documents are refused, or if a refused row stands for more documents than one transaction
/// should write.
pub(super) async fn walk(
    session: Session<'_>,
    walker: &Walker,
    batch: &Batch,
    fresh: bool,
    rejects_max: u64,
) -> Result<Option<Refused>, Error> {
    let Session { client, target, opening, .. } = session;
    let statements = walker.statements.as_ref().expect("it is usable");
    let (groups, steps) = staged(session, batch);
    let opening = format!("{opening}; truncate pg_temp.millstream_replay");
    let session = Session { opening: &opening, ..session };
    let to = Destination::Replay(&statements.copy, &steps);
    let refused_max = i64::try_from(rejects_max).unwrap_or(i64::MAX);
    let tombstones = batch.has_tombstones();
    let fresh = fresh && !target.guarded && !tombstones;
    let parted_max = if batch.parts() > 1 { KEY_TURNS_MAX } else { usize::MAX };
    let parted_max = i32::try_from(parted_max).unwrap_or(i32::MAX);
    let walked = async {
        let Sql { screens, compares, .. } = target.walk();
        let values: &[&(dyn ToSql + Sync)] = &[
            &walker.refusing,
            &refused_max,
            &target.mode.leaves(),
            &fresh,
            &tombstones,
            &parted_max,
            screens,
            compares,
        ];
        // Read the result row by row: it may hold as many refusals as there are documents, and a row takes more memory
        // than its text.
        let rows = client.query_raw(&statements.walk, values.iter().copied()).await?;
        let (mut rows, mut refused, mut counts) = (std::pin::pin!(rows), HashMap::new(), None);
        while let Some(row) = rows.try_next().await? {
            match usize::try_from(row.get::<_, i32>("place")).expect("a place is not negative").checked_sub(1) {
                Some(place) => _ = refused.insert(place, refusal(&row)),
                None => counts = Some(row),
            }
        }
        Ok((refused, counts.expect("one row is the counts")))
    };
    let (rows, (refused, counts)) = copy_groups(session, to, batch, &groups, walked).await?;
    assert_eq!(rows, groups.len() as u64, "the staging table takes every row");
    if refused.len() as u64 > rejects_max || counts.get::<_, Option<i64>>("inserted").is_none() {
        return Ok(None);
    }
    Ok(Some(account(session, batch, &groups, &steps, refused, &counts)))
}

/// The rows to stage, in key order, with the step of each.
fn staged(session: Session<'_>, batch: &Batch) -> (Vec<Group>, Vec<Step>) {
    let target = session.target;
    let few = |n: usize| i32::try_from(n).expect("a batch has few documents");
    let (mut groups, mut steps) = (Vec::with_capacity(batch.groups().len()), Vec::new());
    for group in batch.groups() {
        let alone = std::slice::from_ref(group);
        if group.len() == 1 {
            groups.push(group.clone());
            steps.push(Step { fold: 0, turn: 0 });
            continue;
        }
        let singles = batch.singles(group);
        if batch.rounds(alone, &target.mode, !target.folds).is_some() {
            steps.extend((0..singles.len()).map(|n| Step { fold: 0, turn: few(n) }));
        } else {
            groups.push(group.clone());
            steps.push(Step { fold: few(singles.len()), turn: 0 });
            steps.extend(singles.iter().map(|_| Step { fold: -1, turn: 0 }));
        }
        groups.extend(singles);
    }
    (groups, steps)
}

/// Why a staged row was refused.
fn refusal(row: &Row) -> Error {
    let sqlstate: String = row.get("code");
    if sqlstate == DROPPED {
        return Error::RowsDropped { rows: 1 };
    }
    let (message, constraint) = (row.get("message"), row.get("breach"));
    Error::Postgres(millstream_pg::Error::Server { kind: ErrorKind::DataRefused, sqlstate, message, constraint })
}

fn account(
    session: Session<'_>,
    batch: &Batch,
    groups: &[Group],
    steps: &[Step],
    mut refused: HashMap<usize, Error>,
    counts: &Row,
) -> Refused {
    let (mut stored, mut rejects) = (Vec::with_capacity(groups.len()), Vec::new());
    // Whether the last row that stands for several documents was refused.
    let mut parted = false;
    for (place, (group, Step { fold, .. })) in groups.iter().zip(steps).enumerate() {
        if *fold < 0 && !parted {
            continue;
        }
        parted &= *fold < 0;
        match refused.remove(&place) {
            None => stored.push(group.clone()),
            Some(_) if *fold > 0 => parted = true,
            Some(refusal) => rejects.push(reject(session.target, batch, group, &refusal)),
        }
    }
    let count = |name| u64::try_from(counts.get::<_, i64>(name)).expect("a count is not negative");
    let written = Written {
        inserted: count("inserted"),
        updated: count("updated"),
        deleted: count("deleted"),
        unchanged: count("unchanged"),
        ..batch.written(&stored, &session.target.mode)
    };
    let leaves = session.target.mode.leaves();
    assert!(written.done() == written.keys || leaves && written.done() < written.keys, "each row counts once");
    Refused { written, rejects }
}
