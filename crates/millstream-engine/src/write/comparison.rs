//! `compared`: asks for fingerprints of the stored documents first, and sends only those that differ.
//!
//! The server computes the fingerprint of a stored document from the text that PostgreSQL makes of the jsonb, in the
//! snapshot of the query. We compute the fingerprint of a new document from the same text. A fingerprint has 128 bits,
//! under seeds that nobody else knows. A document with another fingerprint may still be equal, spelled in another way
//! (1 and 1.00). The upsert that follows skips those too.

use super::copy_stream::{Destination, copy_groups};
use super::elements::{Array, Elements, Keys};
use super::{Session, Writer, Writing, arrays, counts};
use crate::batch::{Batch, Group};
use crate::decode::JsonbText;
use crate::error::Error;
use crate::limits::COMPARED_SAMPLE;
use crate::merge::Written;
use bytes::BufMut;
use futures_util::FutureExt;
use millstream_pg::hash_text;
use std::hash::{BuildHasher, Hasher, RandomState};
use tokio_postgres::types::ToSql;

pub(super) static WRITER: Writer = Writer { name: "compared", compares: true, sends_all: false, write };

fn write<'a>(session: Session<'a>, batch: &'a Batch, groups: &'a [Group]) -> Writing<'a> {
    async move {
        let (session, rest) = match batch.has_large() {
            true => (session, groups.to_vec()),
            false => {
                let equal = equal(session, batch, groups).await?;
                let different = groups.iter().zip(equal).filter(|(_, equal)| !equal);
                (Session { opening: "", ..session }, different.map(|(group, _)| group.clone()).collect())
            }
        };
        let written = batch.written(groups, &session.target.mode);
        let (mut inserted, mut updated) = (0, 0);
        if !rest.is_empty() {
            if arrays::fit(session, batch, &rest) {
                let arrays::Upserted { inserted, updated, equal } = arrays::upsert(session, batch, &rest).await?;
                let unchanged = written.keys - rest.len() as u64 + equal;
                return Ok(Some(Written { inserted, updated, unchanged, ..written }));
            }
            let upsert = counts(session.client, &statements(session).upsert, &[]);
            let staged;
            (staged, (inserted, updated)) = copy_groups(session, Destination::Stage, batch, &rest, upsert).await?;
            assert_eq!(staged, rest.len() as u64, "the staging table takes every row");
        }
        Ok(Some(Written { inserted, updated, unchanged: written.keys - inserted - updated, ..written }))
    }
    .boxed()
}

/// Keys that were compared, and how many of them have an unchanged document.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    pub(super) unchanged: u64,
    pub(super) keys: u64,
}

/// Compares some of the batch's keys, spread over all of them.
pub(super) async fn sample(session: Session<'_>, batch: &Batch) -> Result<Sample, Error> {
    let groups = batch.groups();
    let step = groups.len().div_ceil(COMPARED_SAMPLE).max(1);
    let sample: Vec<Group> = groups.iter().step_by(step).cloned().collect();
    let equal = equal(session, batch, &sample).await?;
    Ok(Sample { unchanged: equal.iter().filter(|equal| **equal).count() as u64, keys: equal.len() as u64 })
}

/// The statements of this writer on one connection.
pub(crate) struct Statements {
    pub(super) compare: tokio_postgres::Statement,
    pub(super) upsert: tokio_postgres::Statement,
}

fn statements<'a>(session: Session<'a>) -> &'a Statements {
    session.prepared.compared.as_ref().expect("it is chosen only where rows can be joined")
}

/// For each group whether the stored document equals the one that it would write.
async fn equal(session: Session<'_>, batch: &Batch, groups: &[Group]) -> Result<Vec<bool>, Error> {
    let seeds = [(); 2].map(|()| RandomState::new().build_hasher().finish().cast_signed());
    let asked = Asked::new(session, batch, groups, seeds);
    let compare = &statements(session).compare;
    let arrays: Vec<Array<'_>> =
        asked.keys.columns.iter().map(|elements| Array { count: groups.len(), elements }).collect();
    let mut values: Vec<&(dyn ToSql + Sync)> = arrays.iter().map(|array| array as &(dyn ToSql + Sync)).collect();
    values.extend(seeds.iter().map(|seed| seed as &(dyn ToSql + Sync)));
    let row = session.first(session.client.query_one(compare, &values)).await?;
    let mut equal = vec![false; groups.len()];
    let Some(found) = row.get::<_, Option<Elements<'_>>>(0) else { return Ok(equal) };
    let old = row.get::<_, Vec<i64>>(1).into_iter().zip(row.get::<_, Vec<i64>>(2));
    let mut asked = asked.identities().zip(&asked.fingerprints).zip(&mut equal);
    for (identity, old) in found.zip(old) {
        // Both are in key order. If they were not, we would send documents that need not be sent, and nothing worse.
        let Some(((_, new), equal)) = asked.find(|((asked, _), _)| *asked == identity) else { break };
        *equal = *new == <[i64; 2]>::from(old);
    }
    Ok(equal)
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
        let mut keys = Keys::new(&session.target.key_types);
        let (mut places, mut fingerprints) = (Vec::new(), Vec::with_capacity(groups.len()));
        let (mut writer, mut text) = (JsonbText::default(), Vec::new());
        for (place, (key, folded)) in (1_i64..).zip(batch.winners(groups, &session.target.mode)) {
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
