//! Deletes the rows whose keys no document of a load has, once all of its sources were read.
//!
//! The keys of all documents were sorted on disk while they were decoded. They are read side by side with the keys of the
//! table; so the missing ones are known, and how many they are, before anything is deleted. Then their rows are deleted in
//! batches, each in a transaction that also records up to which key all are done. A row that another session has written
//! since the load began stays.

mod comparison;
mod deletion;
mod session;

use crate::batch::Keys;
use crate::engine::Finish;
use crate::error::Error;
use crate::observe::Event;
use crate::plan::LoadPlan;
use crate::request::DeleteMissing;
use crate::stop::StopReason;
use crate::verify::TableReading;
use crate::watched::Watched;
use crate::write::{Lanes, MissingRowsSql, own_wal_bytes};
use comparison::{Compared, blocking, compare};
use millstream_failpoint as failpoint;
use millstream_model::{Counters, shell_word};
use millstream_pg::catalog;
use millstream_store::{MissingRows, began, load};
use session::Session;
use std::sync::{Arc, Mutex};

/// Does so after a load that ended well and read everything; `keys` has the keys of its documents, if it was asked for that.
/// Returns how the load ends then. `watched` is the table as the run found it.
pub(crate) async fn delete_missing(finish: Finish, keys: Option<Arc<Keys>>, lanes: &Lanes, watched: Watched) -> Finish {
    let wanted = lanes.plan.request.delete_missing.as_ref();
    let (Some(keys), Some(wanted)) = (keys, wanted) else { return finish };
    if finish.stopped.is_some() {
        return finish;
    }
    let ended = tokio::select! {
        biased;
        reason = lanes.around.stop.wait() => return Finish { stopped: Some(reason), ..finish },
        ended = Box::pin(delete_all(&keys, wanted, lanes, watched)) => ended,
    };
    let Finish { mut reports, .. } = finish;
    match ended {
        Ok(wal_bytes) => {
            if let Some(report) = reports.first_mut() {
                report.wal_bytes = report.wal_bytes.zip(wal_bytes).map(|(one, other)| one + other);
            }
            Finish { reports, stopped: None, error: None }
        }
        Err(error) => Finish { reports, stopped: Some(StopReason::Failed), error: Some(error) },
    }
}

/// What is known of the load before the table is read.
struct Facts {
    counters: Counters,
    /// The snapshot in which it began.
    began: Option<String>,
    /// What earlier runs have deleted.
    done: MissingRows,
    reading: TableReading,
}

/// Returns the bytes of WAL that it took, if they are known.
async fn delete_all(
    keys: &Arc<Keys>,
    wanted: &DeleteMissing,
    lanes: &Lanes,
    watched: Watched,
) -> Result<Option<u64>, Error> {
    let plan = &lanes.plan;
    let mut session = Session::open(lanes, watched).await?;
    let Facts { counters, began, done, reading } = loop {
        match Facts::read(&session).await {
            Ok(facts) => break facts,
            Err(error) => session.recover(error).await?,
        }
    };
    if counters.rejected > 0 {
        let warning = format!(
            "no missing row is deleted, because the keys of rejected documents may not be known (rejects: {}); mend them, and \
             run the same command again",
            counters.rejected
        );
        lanes.around.observer.event(Event::Warning(warning));
        return Ok(own_wal_bytes(session.connection()).await);
    }
    let sql = MissingRowsSql::new(plan, began.ok_or_else(unknown_begin)?);
    let taken = Arc::clone(keys);
    let (sorted, documents) = blocking(move || taken.take()).await??;
    let sorted = Arc::new(Mutex::new(sorted));
    let compared = loop {
        match compare(&session, &reading, &sorted, done.mark.as_deref(), keys.directory()).await {
            Ok(compared) => break compared,
            Err(error) => session.recover(error).await?,
        }
    };
    let deletable = deletion::count(&mut session, &sql, &compared.list).await?;
    let found = Found { documents, inserted: counters.inserted, deleted: done.deleted, deletable };
    found.check(&compared, wanted, plan)?;
    failpoint::hit("missing-found").await?;
    let stay = compared.list.count - deletable;
    if stay > 0 {
        let warning = format!("{stay} missing rows stay: another session has written them since the load began");
        lanes.around.observer.event(Event::Warning(warning));
    }
    if deletable > 0 {
        lanes.around.observer.event(Event::Missing { rows: deletable, of: compared.rows });
        deletion::delete(&mut session, &sql, &compared.list).await?;
    }
    Ok(own_wal_bytes(session.connection()).await.filter(|_| !session.has_reconnected()))
}

impl Facts {
    async fn read(session: &Session<'_>) -> Result<Self, Error> {
        let (client, plan, load_id) = (session.client(), session.plan(), session.load_id());
        let name = &plan.request.collection;
        let table = catalog::table(client, &name.schema, &name.table).await?;
        let table = table.filter(|table| table.oid == plan.table_oid);
        let table = table.ok_or_else(|| Error::TableMoved { collection: name.clone() })?;
        Ok(Self {
            counters: load::counters(client, plan.schema(), load_id).await?,
            began: began(client, plan.schema(), load_id).await?,
            done: MissingRows::read(client, plan.schema(), load_id).await?,
            reading: TableReading::of_load(name, &table, &plan.key)?,
        })
    }
}

/// What decides whether missing rows are deleted.
#[derive(Debug, Clone, Copy)]
struct Found {
    /// Documents that the sources have.
    documents: u64,
    /// Rows that the load has inserted.
    inserted: u64,
    /// Missing rows that are deleted already.
    deleted: u64,
    /// Missing rows that would be deleted.
    deletable: u64,
}

impl Found {
    /// Refuses to delete too much: the sources may be cut off, or be those of another table.
    fn check(self, compared: &Compared, wanted: &DeleteMissing, plan: &LoadPlan) -> Result<(), Error> {
        let Self { documents, inserted, deleted, deletable } = self;
        let collection = &plan.request.collection;
        if documents == 0 && deletable > 0 {
            return Err(Error::refused(
                format!("the sources have no document, and {collection} has {} rows: none is deleted", compared.rows),
                "if the table should be empty, truncate it",
            ));
        }
        let missing = deleted + deletable;
        let stay = compared.list.count - deletable;
        // Rows that the load itself has inserted do not make others fewer.
        let before = (compared.rows + deleted).saturating_sub(inserted + stay).max(missing);
        if missing as f64 * 100.0 <= wanted.percent_max * before as f64 {
            return Ok(());
        }
        let percent = (missing * 100).div_ceil(before.max(1));
        let deleted = if deleted > 0 { format!(", of which {deleted} are deleted") } else { String::new() };
        Err(Error::refused(
            format!(
                "the sources lack {missing} of the {before} rows that {collection} had before, more than {} percent{deleted}: \
                 no more is deleted",
                wanted.percent_max
            ),
            format!(
                "look first: millstream verify FILE.. --into {} --key .. --exact lists them. If they should go, run the same \
                 command with --delete-missing-max {percent}: it reads the files again, and writes nothing else",
                shell_word(collection)
            ),
        ))
    }
}

/// Nobody knows which rows were written since.
fn unknown_begin() -> Error {
    Error::refused(
        "nobody knows which rows were written since this load began: an earlier version began it, or it began on another \
         server",
        "start over with --resume off",
    )
}

#[cfg(test)]
mod tests {
    use super::comparison::MissingKeys;
    use super::*;
    use crate::plan::tests::plan;
    use millstream_input::Sorter;

    fn compared(rows: u64, missing: u64) -> Compared {
        let sorted = Sorter::new(&std::env::temp_dir(), 1 << 10).finish().unwrap();
        Compared { rows, list: MissingKeys::new(sorted, missing, 1, std::env::temp_dir()) }
    }

    #[test]
    fn too_many_missing_rows_are_refused() {
        let plan = plan("replace");
        // Rows of the table now, missing ones, of which so many may be deleted; inserted, and deleted before.
        for (rows, missing, deletable, inserted, deleted, fits) in [
            (1_000, 0, 0, 0, 0, true),
            (1_000, 100, 100, 0, 0, true),
            (1_000, 101, 101, 0, 0, false),
            // A dump of another table: its own rows do not count.
            (100_000, 100, 100, 99_900, 0, false),
            (100_000, 0, 0, 100_000, 0, true),
            // Others have written beside the load.
            (1_500, 600, 100, 0, 0, true),
            (1_500, 601, 101, 0, 0, false),
            // An earlier run has deleted some.
            (960, 60, 60, 0, 40, true),
            (960, 61, 61, 0, 40, false),
        ] {
            let found = Found { documents: 1, inserted, deleted, deletable };
            let wanted = DeleteMissing::new(10.0, std::env::temp_dir());
            let refused = found.check(&compared(rows, missing), &wanted, &plan).err();
            assert_eq!(refused.is_none(), fits, "{found:?} {rows} {missing}: {refused:?}");
        }
        let all = Found { documents: 1, inserted: 0, deleted: 0, deletable: 5 };
        let wanted = DeleteMissing::new(100.0, std::env::temp_dir());
        assert!(all.check(&compared(5, 5), &wanted, &plan).is_ok());
        let empty = Found { documents: 0, ..all };
        assert!(empty.check(&compared(5, 5), &wanted, &plan).is_err(), "an empty dump deletes nothing");
        assert!(Found { deletable: 0, ..empty }.check(&compared(0, 0), &wanted, &plan).is_ok());
    }
}
