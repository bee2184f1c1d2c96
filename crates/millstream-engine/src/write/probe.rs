//! Asks the server, before a batch is sent, which of its keys are stored, and with which documents.
//!
//! Documents are compared by fingerprints. The server computes the fingerprint of a stored document from the text that
//! PostgreSQL makes of the jsonb, in the snapshot of the query. We compute the fingerprint of a new document from the
//! same text. A fingerprint has 128 bits, under seeds that nobody else knows. A document with another fingerprint may
//! still be equal, spelled in another way (1 and 1.00).

use super::Session;
use super::elements::{Elements, Keys};
use super::names::Names;
use crate::batch::{Batch, Group};
use crate::error::Error;
use crate::limits::{COMPARED_SAMPLE, LEARNING_TIME_MAX};
use crate::wire::put_key;
use bytes::BufMut;
use futures_util::TryStreamExt;
use millstream_document::decode::JsonbText;
use millstream_model::KeyType;
use millstream_pg::{by_key, fill, hash_text};
use std::collections::HashSet;
use std::hash::{BuildHasher, Hasher, RandomState};
use tokio_postgres::types::ToSql;

/// The query for the keys that are stored.
pub(super) const PRESENT: &str = "present";
/// The query for keys of the table, whatever a batch has.
pub(super) const KEYS: &str = "keys";
/// The query for fingerprints of stored documents.
pub(super) const COMPARE: &str = "compare";

/// Begins a transaction in which [`KEYS`] reads nothing but an index, and not for long: the limit counts no dead rows, of which
/// a table may have millions before the first live one. The settings of the session turn off all plans that read a whole table.
const READING: &str = "begin; set transaction read only; set local enable_indexonlyscan = on; \
                       set local statement_timeout = {milliseconds}";

/// [`KEYS`] as text.
pub(super) fn all_keys(Names { table, key, .. }: &Names<'_>) -> String {
    format!("select {key} from {table} limit $1")
}

/// [`PRESENT`] as text.
pub(super) fn present(names: &Names<'_>) -> String {
    let Names { plan, table, keys, key, .. } = names;
    if let ([key_type], true) = (plan.key_types.as_slice(), names_itself(&plan.key_types)) {
        return fill!(include_str!("present_one.sql"), table, key, type = key_type.sql_name());
    }
    let (arrays, join) = (names.arrays(false), by_key("stored", "asked", keys));
    fill!(include_str!("present_many.sql"), table, key, arrays, join)
}

/// [`COMPARE`] as text.
pub(super) fn compare(names: &Names<'_>) -> String {
    let Names { plan, table, keys, key, .. } = names;
    if let [key_type] = plan.key_types.as_slice() {
        return fill!(include_str!("compare_one.sql"), table, key, type = key_type.sql_name());
    }
    let join: Vec<String> = keys.iter().map(|key| format!("stored.{key} operator(pg_catalog.=) asked.{key}")).collect();
    fill!(
        include_str!("compare_many.sql"),
        table,
        key,
        arrays = names.arrays(false),
        join = join.join(" and "),
        seed_1 = keys.len() + 1,
        seed_2 = keys.len() + 2,
    )
}

/// What is stored under the key of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stored {
    /// Nothing.
    Absent,
    /// The document that the group would write.
    Equal,
    /// Another document, or the same one spelled in another way.
    Different,
}

/// What is known of some keys of a batch.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    /// Those with an unchanged document.
    pub(super) unchanged: u64,
    /// Those that are not stored.
    pub(super) absent: u64,
    pub(super) keys: u64,
}

/// Compares some of the batch's keys, spread over all of them.
pub(super) async fn sample(session: Session<'_>, batch: &Batch) -> Result<Sample, Error> {
    let groups = batch.groups();
    let step = groups.len().div_ceil(COMPARED_SAMPLE).max(1);
    let sample: Vec<Group> = groups.iter().step_by(step).cloned().collect();
    let found = documents(session, batch, &sample).await?;
    let count = |what| found.iter().filter(|stored| **stored == what).count() as u64;
    Ok(Sample { unchanged: count(Stored::Equal), absent: count(Stored::Absent), keys: found.len() as u64 })
}

/// Whether keys of these types are equal only if their bytes are, so that an answer can name a key by itself.
pub(super) fn names_itself(types: &[KeyType]) -> bool {
    // 1 equals 1.0.
    matches!(types, [one] if one.column() != KeyType::Numeric)
}

/// For each group whether its key is stored.
pub(super) async fn keys(session: Session<'_>, batch: &Batch, groups: &[Group]) -> Result<Vec<bool>, Error> {
    let mut keys = Keys::new(&session.plan.key_types);
    for group in groups {
        keys.push(batch.key(group));
    }
    let present = session.prepared.statement(PRESENT);
    let arrays = keys.arrays(groups.len());
    let values: Vec<&(dyn ToSql + Sync)> = arrays.iter().map(|array| array as &(dyn ToSql + Sync)).collect();
    let row = session.first(session.client.query_one(present, &values)).await?;
    let mut stored = vec![false; groups.len()];
    if let ([column], true) = (keys.columns.as_slice(), names_itself(&session.plan.key_types)) {
        let found: HashSet<&[u8]> = row.get::<_, Option<Elements<'_>>>(0).into_iter().flatten().collect();
        for (key, stored) in Elements(column).zip(&mut stored) {
            *stored = found.contains(key);
        }
    } else {
        for place in row.get::<_, Option<Vec<i64>>>(0).unwrap_or_default() {
            let at = usize::try_from(place).ok().and_then(|place| place.checked_sub(1));
            if let Some(stored) = at.and_then(|at| stored.get_mut(at)) {
                *stored = true;
            }
        }
    }
    Ok(stored)
}

/// Passes the keys of the table to `take`, as canonical bytes. False if the table has more than `rows_max` rows: then they
/// are not all. Leaves a transaction open if it fails.
pub(super) async fn every_key(
    session: Session<'_>,
    rows_max: u32,
    mut take: impl FnMut(&[u8]) + Send,
) -> Result<bool, Error> {
    let Session { client, plan, prepared, .. } = session;
    let milliseconds = LEARNING_TIME_MAX.as_millis();
    client.batch_execute(&fill!(READING, milliseconds)).await?;
    let rows = client.query_raw(prepared.statement(KEYS), [i64::from(rows_max) + 1]).await?;
    let (mut rows, mut key, mut count) = (Box::pin(rows), Vec::new(), 0);
    while let Some(row) = rows.try_next().await? {
        count += 1;
        key.clear();
        // No document has a null in its key.
        if put_key(&row, &plan.key_types, &mut key)? {
            take(&key);
        }
    }
    client.batch_execute("commit").await?;
    Ok(count <= rows_max)
}

/// For each group what is stored under its key.
pub(super) async fn documents(session: Session<'_>, batch: &Batch, groups: &[Group]) -> Result<Vec<Stored>, Error> {
    let seeds = [(); 2].map(|()| RandomState::new().build_hasher().finish().cast_signed());
    let asked = Asked::new(session, batch, groups, seeds);
    let compare = session.prepared.statement(COMPARE);
    let arrays = asked.keys.arrays(groups.len());
    let mut values: Vec<&(dyn ToSql + Sync)> = arrays.iter().map(|array| array as &(dyn ToSql + Sync)).collect();
    values.extend(seeds.iter().map(|seed| seed as &(dyn ToSql + Sync)));
    let row = session.first(session.client.query_one(compare, &values)).await?;
    let mut stored = vec![Stored::Absent; groups.len()];
    let Some(found) = row.get::<_, Option<Elements<'_>>>(0) else { return Ok(stored) };
    let old = row.get::<_, Vec<i64>>(1).into_iter().zip(row.get::<_, Vec<i64>>(2));
    let mut asked = asked.identities().zip(&asked.fingerprints).zip(&mut stored);
    let mut ordered = true;
    for (identity, old) in found.zip(old) {
        // Both are in key order.
        let Some(((_, new), stored)) = asked.find(|((asked, _), _)| *asked == identity) else {
            ordered = false;
            break;
        };
        *stored = if *new == <[i64; 2]>::from(old) { Stored::Equal } else { Stored::Different };
    }
    if !ordered {
        // Nothing is known of the others: 1 and 1.00 are one key. What is sent without need is not written.
        for stored in stored.iter_mut().filter(|stored| **stored == Stored::Absent) {
            *stored = Stored::Different;
        }
    }
    Ok(stored)
}

/// Keys, and the fingerprints of their new documents.
struct Asked<'t> {
    keys: Keys<'t>,
    /// Places of the keys as array elements, if the key has several columns.
    places: Vec<u8>,
    fingerprints: Vec<[i64; 2]>,
}

impl<'t> Asked<'t> {
    fn new(session: Session<'t>, batch: &Batch, groups: &[Group], seeds: [i64; 2]) -> Self {
        let mut keys = Keys::new(&session.plan.key_types);
        let (mut places, mut fingerprints) = (Vec::new(), Vec::with_capacity(groups.len()));
        let (mut writer, mut text) = (JsonbText::default(), Vec::new());
        for (place, (key, folded)) in (1_i64..).zip(session.winners(batch, groups)) {
            keys.push(key);
            if keys.columns.len() > 1 {
                places.put_i32(8);
                places.put_i64(place);
            }
            text.clear();
            writer.put(&folded.document, &mut text);
            fingerprints.push(hash_text(&text, seeds));
        }
        Self { keys, places, fingerprints }
    }

    /// What an answer names a key by: the key itself, or its place if the key has several columns.
    fn identities(&self) -> Elements<'_> {
        Elements(match self.keys.columns.as_slice() {
            [column] => column,
            _ => &self.places,
        })
    }
}
