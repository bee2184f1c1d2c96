//! `divided` and `compared`: ask first what is stored under the keys of a batch, and divide it by the answer.
//!
//! Absent keys go by COPY straight into the table. `divided` asks only whether keys are stored, unless the lane knows it,
//! and merges the documents of those that are, as [`staged`](super::staged) does. `compared` asks for fingerprints of the
//! stored documents, and sends only those that differ. The upsert that follows also skips equal documents that are
//! spelled in another way.
//!
//! If another session inserts a key after the answer, the COPY or the merge fails on the duplicate, and the batch is
//! [upserted](super::upsert).

use super::copy_stream::{Destination, copy_groups, stage_groups};
use super::names::Names;
use super::probe::{self, Stored};
use super::statement::Sql;
use super::upsert::UPSERT_CHANGED;
use super::{Facts, Session, Writer, Writing, arrays, counts, staged, unchanged_rest};
use crate::batch::{Batch, Group};
use crate::error::Error;
use crate::merge::Written;
use futures_util::future::BoxFuture;
use futures_util::{FutureExt, TryFutureExt};
use millstream_failpoint as failpoint;
use std::future::ready;

/// For batches of new keys, some of which are stored.
pub(super) static DIVIDED: Writer = Writer {
    name: "divided",
    facts: Facts { leaves_large: true, asks: true, ..Facts::NONE },
    sql: |names: &Names<'_>| {
        let texts = [(probe::PRESENT, probe::present(names)), (probe::KEYS, probe::all_keys(names))];
        names.plan.merges().then(|| Sql::of(texts))
    },
    write: divide,
};

/// For batches of which many documents are unchanged.
pub(super) static COMPARED: Writer = Writer {
    name: "compared",
    facts: Facts { compares: true, leaves_large: true, ..Facts::NONE },
    sql: |names: &Names<'_>| names.plan.skips().then(|| Sql::of([(probe::COMPARE, probe::compare(names))])),
    write: compare,
};

fn divide<'a>(session: Session<'a>, batch: &'a Batch, groups: &'a [Group]) -> Writing<'a> {
    async move {
        let (session, stored) = match session.met {
            Some(met) => (session, met.to_vec()),
            None => (Session { opening: "", ..session }, probe::keys(session, batch, groups).await?),
        };
        let divided = split(session, groups.iter().zip(&stored).map(|(group, stored)| (group, !stored)));
        failpoint::hit("batch-divided").await?;
        let merge = staged::merge(session).boxed();
        send(session, batch, &divided, merge).await
    }
    .boxed()
}

fn compare<'a>(session: Session<'a>, batch: &'a Batch, groups: &'a [Group]) -> Writing<'a> {
    async move {
        let stored = probe::documents(session, batch, groups).await?;
        let session = Session { opening: "", ..session };
        let differing = groups.iter().zip(stored).filter(|(_, stored)| *stored != Stored::Equal);
        let divided = split(session, differing.map(|(group, stored)| (group, stored == Stored::Absent)));
        let upsert = counts(session.client, session.prepared.statement(UPSERT_CHANGED), &[]).boxed();
        let sent = send(session, batch, &divided, upsert).await?;
        Ok(sent.map(|sent| unchanged_rest(sent, groups)))
    }
    .boxed()
}

/// What is sent of a batch, each part in key order.
struct Divided {
    /// Groups whose keys are not stored.
    absent: Vec<Group>,
    rest: Vec<Group>,
}

/// Divides groups, each with whether its key is absent. So few absent keys that arrays could hold them are not worth a
/// COPY of their own.
fn split<'a>(session: Session<'_>, groups: impl Iterator<Item = (&'a Group, bool)>) -> Divided {
    let groups: Vec<(&Group, bool)> = groups.collect();
    let few = groups.iter().filter(|(_, absent)| *absent).count() <= session.plan.request.arrays_rows_max;
    let (absent, rest): (Vec<_>, Vec<_>) = groups.into_iter().partition(|(_, absent)| *absent && !few);
    let owned = |groups: Vec<(&Group, bool)>| groups.into_iter().map(|(group, _)| group.clone()).collect();
    Divided { absent: owned(absent), rest: owned(rest) }
}

/// Copies absent keys into the table and writes the rest: as arrays, or by `staged`, the statements that write what is
/// staged. `None` if another session has inserted a key meanwhile.
async fn send(
    session: Session<'_>,
    batch: &Batch,
    Divided { absent, rest }: &Divided,
    staged: BoxFuture<'_, Result<(u64, u64), Error>>,
) -> Result<Option<Written>, Error> {
    // Whatever comes second finds the transaction open.
    let later = Session { opening: "", ..session };
    let copied_and = async |session, rest: BoxFuture<'_, Result<Written, Error>>| {
        if absent.is_empty() {
            return rest.await;
        }
        let (copied, rest) = copy_groups(session, Destination::Table, batch, absent, rest).await?;
        Ok(Written { inserted: copied + rest.inserted, ..rest })
    };
    let sent = async {
        if rest.is_empty() {
            return copied_and(session, ready(Ok(Written::default())).boxed()).await;
        }
        failpoint::hit("batch-merging").await?;
        if arrays::fit(session, batch, rest) {
            let second = if absent.is_empty() { session } else { later };
            return copied_and(session, arrays::upsert(second, batch, rest).boxed()).await;
        }
        let written = staged.map_ok(|(inserted, updated)| Written { inserted, updated, ..Written::default() });
        if absent.is_empty() {
            return stage_groups(session, batch, rest, written).await;
        }
        // Only when all is staged does the next COPY begin: its start in a failed transaction would cost the connection.
        stage_groups(session, batch, rest, ready(Ok(()))).await?;
        copied_and(later, written.boxed()).await
    };
    match sent.await {
        Ok(sent) => Ok(Some(sent)),
        Err(error) if error.is_duplicate() => Ok(None),
        Err(error) => Err(error),
    }
}
