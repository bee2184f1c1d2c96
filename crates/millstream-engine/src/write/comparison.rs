//! `compared`: asks for fingerprints of the stored documents first, and sends only those that differ.
//!
//! The fingerprint is taken of the text that PostgreSQL makes of the stored jsonb, by the server, in the
//! snapshot of the question; of a new document, by us, of the same text. It has 128 bits, under seeds
//! that nobody else knows. A document whose fingerprint differs may still be equal, spelled otherwise
//! (1 and 1.00): the upsert that follows leaves those alone too.

use super::copy_stream::{Destination, copy_groups};
use super::{Session, Writer, Writing};
use crate::batch::{Batch, Group};
use crate::decode::JsonbText;
use crate::error::Error;
use crate::limits::COMPARED_SAMPLE;
use crate::merge::Written;
use bytes::{BufMut, BytesMut};
use futures_util::FutureExt;
use millstream_model::key_bytes::put_copy_fields;
use millstream_pg::hash_text;
use std::error::Error as StdError;
use std::hash::{BuildHasher, Hasher, RandomState};
use tokio_postgres::types::{FromSql, IsNull, Kind, ToSql, Type, to_sql_checked};

pub(super) static WRITER: Writer = Writer { name: "compared", write };

fn write<'a>(session: Session<'a>, batch: &'a Batch, groups: &'a [Group]) -> Writing<'a> {
    async move {
        let equal = equal(session, batch, groups).await?;
        let different = |equal: &bool| !equal;
        let rest: Vec<Group> =
            groups.iter().zip(&equal).filter(|(_, equal)| different(equal)).map(|(group, _)| group.clone()).collect();
        let written = batch.written(groups, &session.target.mode);
        let (mut inserted, mut updated) = (0, 0);
        if !rest.is_empty() {
            let session = Session { opening: "", ..session };
            let staged = copy_groups(session, Destination::Stage, batch, &rest).await?;
            assert_eq!(staged, rest.len() as u64, "the staging table takes every row");
            let row = session.client.query_one(&statements(session).upsert, &[]).await?;
            let count = |n: usize| u64::try_from(row.get::<_, i64>(n)).expect("a count is not negative");
            (inserted, updated) = (count(0), count(1));
        }
        Ok(Some(Written { inserted, updated, unchanged: written.keys - inserted - updated, ..written }))
    }
    .boxed()
}

/// How many of a sample of the batch's keys have an unchanged document, and the size of the sample.
pub(super) async fn sample(session: Session<'_>, batch: &Batch) -> Result<(u64, u64), Error> {
    let groups = batch.groups();
    let step = groups.len().div_ceil(COMPARED_SAMPLE).max(1);
    let sample: Vec<Group> = groups.iter().step_by(step).cloned().collect();
    let equal = equal(session, batch, &sample).await?;
    Ok((equal.iter().filter(|equal| **equal).count() as u64, equal.len() as u64))
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
    let arrays: Vec<Array<'_>> = asked.columns.iter().map(|elements| Array { count: groups.len(), elements }).collect();
    let mut values: Vec<&(dyn ToSql + Sync)> = arrays.iter().map(|array| array as &(dyn ToSql + Sync)).collect();
    values.extend(seeds.iter().map(|seed| seed as &(dyn ToSql + Sync)));
    let (_, row) = tokio::try_join!(
        biased;
        session.client.batch_execute(session.opening),
        session.client.query_one(compare, &values),
    )?;
    let mut equal = vec![false; groups.len()];
    let Some(found) = row.get::<_, Option<Elements<'_>>>(0) else { return Ok(equal) };
    let old = row.get::<_, Vec<i64>>(1).into_iter().zip(row.get::<_, Vec<i64>>(2));
    let mut asked = asked.identities().zip(&asked.fingerprints).zip(&mut equal);
    for (identity, old) in found.zip(old) {
        // Both are in key order; were they not, documents would be sent that need not be.
        let Some(((_, new), equal)) = asked.find(|((asked, _), _)| *asked == identity) else { break };
        *equal = *new == <[i64; 2]>::from(old);
    }
    Ok(equal)
}

/// Keys as array elements of PostgreSQL's binary format, and what their new documents look like.
struct Asked {
    /// One array per key column.
    columns: Vec<Vec<u8>>,
    /// Places as array elements, where the key has several columns.
    places: Vec<u8>,
    fingerprints: Vec<[i64; 2]>,
}

impl Asked {
    fn new(session: Session<'_>, batch: &Batch, groups: &[Group], seeds: [i64; 2]) -> Self {
        let types = &session.target.key_types;
        let mut columns = vec![Vec::new(); types.len()];
        let (mut places, mut fingerprints) = (Vec::new(), Vec::with_capacity(groups.len()));
        let (mut writer, mut text, mut fields) = (JsonbText::default(), Vec::new(), Vec::new());
        for (place, group) in (1_i64..).zip(groups) {
            let (key, folded) = batch.winner(group, &session.target.mode);
            fields.clear();
            put_copy_fields(types, key, &mut fields);
            let mut rest = fields.as_slice();
            for column in &mut columns {
                let (element, more) = rest.split_at(element_bytes(rest));
                column.extend_from_slice(element);
                rest = more;
            }
            if types.len() > 1 {
                places.put_i32(8);
                places.put_i64(place);
            }
            text.clear();
            writer.put(&folded.document, &mut text);
            fingerprints.push(hash_text(&text, seeds));
        }
        Self { columns, places, fingerprints }
    }

    /// By which an answer names the keys: the key itself, or its place where it has several columns.
    fn identities(&self) -> Elements<'_> {
        Elements(if self.columns.len() == 1 { &self.columns[0] } else { &self.places })
    }
}

/// Bytes of the element at the front, with its length.
fn element_bytes(elements: &[u8]) -> usize {
    let length = elements.first_chunk().map_or(0, |length| i32::from_be_bytes(*length));
    (4 + usize::try_from(length).unwrap_or(0)).min(elements.len())
}

/// A one-dimensional array without nulls, its elements in binary format with their lengths.
#[derive(Debug)]
struct Array<'a> {
    count: usize,
    elements: &'a [u8],
}

impl ToSql for Array<'_> {
    fn to_sql(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, Box<dyn StdError + Sync + Send>> {
        let Kind::Array(element) = ty.kind() else { return Err("not an array".into()) };
        out.put_i32(1);
        out.put_i32(0);
        out.put_u32(element.oid());
        out.put_i32(i32::try_from(self.count)?);
        out.put_i32(1);
        out.put_slice(self.elements);
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        matches!(ty.kind(), Kind::Array(_))
    }

    to_sql_checked!();
}

/// The elements of such an array, with their lengths.
struct Elements<'a>(&'a [u8]);

impl<'a> FromSql<'a> for Elements<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn StdError + Sync + Send>> {
        const HEADER_BYTES: usize = 20;
        Ok(Self(raw.get(HEADER_BYTES..).unwrap_or_default()))
    }

    fn accepts(ty: &Type) -> bool {
        matches!(ty.kind(), Kind::Array(_))
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (element, rest) = self.0.split_at(element_bytes(self.0));
        self.0 = rest;
        (!element.is_empty()).then_some(element)
    }
}
