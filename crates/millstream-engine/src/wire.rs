//! Values of rows as the server sends them, and keys made of them.

use crate::error::Error;
use millstream_model::KeyType;
use millstream_model::key_bytes::put_from_wire;
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, Type};

/// A value as the server sends it.
pub(crate) struct Wire<'a>(pub(crate) &'a [u8]);

impl<'a> FromSql<'a> for Wire<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(raw))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

/// Appends the canonical bytes of column `n` of a row; `false` when it is null.
///
/// # Errors
/// The value is not one of the type.
pub(crate) fn put_column(row: &Row, n: usize, key_type: KeyType, key: &mut Vec<u8>) -> Result<bool, Error> {
    const ODD: Error = Error::BrokenOff("the server sent a key column of an odd length");
    let Some(Wire(value)) = row.try_get::<_, Option<Wire<'_>>>(n)? else { return Ok(false) };
    put_from_wire(key_type, value, key).ok_or(ODD)?;
    Ok(true)
}

/// Appends the canonical bytes of a key, whose columns come first in a row; `false` when one of them is null.
///
/// # Errors
/// As [`put_column`].
pub(crate) fn put_key(row: &Row, types: &[KeyType], key: &mut Vec<u8>) -> Result<bool, Error> {
    for (n, &key_type) in types.iter().enumerate() {
        if !put_column(row, n, key_type, key)? {
            return Ok(false);
        }
    }
    Ok(true)
}
