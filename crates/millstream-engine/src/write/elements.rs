//! Arrays in PostgreSQL's binary format, made and read element by element.

use bytes::{BufMut, BytesMut};
use millstream_model::KeyType;
use millstream_model::key_bytes::put_copy_fields;
use std::error::Error as StdError;
use tokio_postgres::types::{FromSql, IsNull, Kind, ToSql, Type, to_sql_checked};

/// Keys as array elements, one array per key column.
#[derive(Debug)]
pub(super) struct Keys<'t> {
    types: &'t [KeyType],
    pub(super) columns: Vec<Vec<u8>>,
    fields: Vec<u8>,
}

impl<'t> Keys<'t> {
    pub(super) fn new(types: &'t [KeyType]) -> Self {
        Self { types, columns: vec![Vec::new(); types.len()], fields: Vec::new() }
    }

    pub(super) fn push(&mut self, key: &[u8]) {
        self.fields.clear();
        put_copy_fields(self.types, key, &mut self.fields);
        let mut rest = self.fields.as_slice();
        for column in &mut self.columns {
            let (element, more) = rest.split_at(element_bytes(rest));
            column.extend_from_slice(element);
            rest = more;
        }
    }

    /// The arrays of so many keys, as values of a statement.
    pub(super) fn arrays(&self, count: usize) -> Vec<Array<'_>> {
        self.columns.iter().map(|elements| Array { count, elements }).collect()
    }
}

/// Size in bytes of the first element, including its length.
fn element_bytes(elements: &[u8]) -> usize {
    let length = elements.first_chunk().map_or(0, |length| i32::from_be_bytes(*length));
    (4 + usize::try_from(length).unwrap_or(0)).min(elements.len())
}

/// A one-dimensional array without nulls, its elements in binary format with their lengths.
#[derive(Debug)]
pub(super) struct Array<'a> {
    pub(super) count: usize,
    pub(super) elements: &'a [u8],
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
pub(super) struct Elements<'a>(pub(super) &'a [u8]);

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
