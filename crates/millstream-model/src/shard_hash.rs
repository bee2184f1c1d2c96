//! The hash by which PostgreSQL, and so Citus, finds the shard of a row.
//!
//! A row in the wrong shard is stored and never found again. So tests compare this with the server, for every type of key
//! that it knows.
//!
//! Source: `hash_bytes` and `hash_bytes_uint32` of PostgreSQL, which are Bob Jenkins' `lookup3` on a little-endian machine,
//! and the hash functions of the types.

use crate::KeyType;
use crate::key_bytes::{get_i16, get_i32, get_i64, split_column};
use crate::key_type::Shape;

/// The column of a key by which rows are distributed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HashedColumn {
    /// The types of the columns before it, and its own.
    before: Vec<KeyType>,
    key_type: KeyType,
}

impl HashedColumn {
    /// The column at this place of a key with these types. `None` if there is none, or if its hash is not known here:
    /// `numeric` and `boolean`.
    pub fn new(types: &[KeyType], column: usize) -> Option<Self> {
        let key_type = *types.get(column)?;
        let is_known = !matches!(key_type.shape(), Shape::Decimal | Shape::Boolean);
        is_known.then(|| Self { before: types[..column].to_vec(), key_type })
    }

    /// Its hash, as the hash functions of the server compute it.
    ///
    /// # Panics
    /// If `key` is not the canonical bytes of these types, which is a bug of the caller.
    #[inline]
    pub fn hash(&self, key: &[u8]) -> i32 {
        let mut rest = key;
        for &key_type in &self.before {
            split_column(key_type, &mut rest);
        }
        let (shape, value) = split_column(self.key_type, &mut rest);
        let hash = match shape {
            Shape::Int64 => of_i64(get_i64(value)),
            Shape::Int32 => of_u32(get_i32(value).cast_unsigned()),
            Shape::Int16 => of_u32(i32::from(get_i16(value)).cast_unsigned()),
            Shape::Text | Shape::Uuid | Shape::Decimal | Shape::Boolean => of_bytes(value),
        };
        hash.cast_signed()
    }
}

/// `hashint8`: numbers that an integer can hold have the hash of that integer.
fn of_i64(value: i64) -> u32 {
    let bytes = value.to_le_bytes();
    let (low, high) = (word(&bytes, 0), word(&bytes, 4));
    of_u32(low ^ if value >= 0 { high } else { !high })
}

/// `hash_bytes_uint32`.
fn of_u32(value: u32) -> u32 {
    let state = begin(4);
    finish([state.wrapping_add(value), state, state])
}

/// `hash_bytes`.
fn of_bytes(bytes: &[u8]) -> u32 {
    let mut state = [begin(bytes.len()); 3];
    let mut whole = bytes.chunks_exact(12);
    for chunk in &mut whole {
        let [a, b, c] = state;
        let words = [word(chunk, 0), word(chunk, 4), word(chunk, 8)];
        state = mix([a.wrapping_add(words[0]), b.wrapping_add(words[1]), c.wrapping_add(words[2])]);
    }
    let ([a, b, c], rest) = (state, whole.remainder());
    // The lowest byte of the last word is for the length.
    finish([a.wrapping_add(word(rest, 0)), b.wrapping_add(word(rest, 4)), c.wrapping_add(word(rest, 8) << 8)])
}

fn begin(bytes: usize) -> u32 {
    let bytes = u32::try_from(bytes).expect("a key is shorter than a document");
    0x9e37_79b9_u32.wrapping_add(bytes).wrapping_add(3_923_095)
}

/// Up to four bytes from a place on, the lowest first.
#[inline]
fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.iter().skip(at).take(4).rev().fold(0, |word, &byte| (word << 8) | u32::from(byte))
}

#[inline]
fn mix([mut a, mut b, mut c]: [u32; 3]) -> [u32; 3] {
    for turns in [4, 6, 8, 16, 19, 4] {
        a = a.wrapping_sub(c) ^ c.rotate_left(turns);
        c = c.wrapping_add(b);
        (a, b, c) = (b, c, a);
    }
    [a, b, c]
}

#[inline]
fn finish([mut a, mut b, mut c]: [u32; 3]) -> u32 {
    for turns in [14, 11, 25, 16, 4, 14, 24] {
        c = (c ^ b).wrapping_sub(b.rotate_left(turns));
        (a, b, c) = (b, c, a);
    }
    b
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::put_literal;

    fn hash(columns: &[(KeyType, &str)], column: usize) -> i32 {
        let (mut key, mut types) = (Vec::new(), Vec::new());
        for (key_type, text) in columns {
            put_literal(*key_type, text.as_bytes(), &mut key).unwrap();
            types.push(*key_type);
        }
        HashedColumn::new(&types, column).unwrap().hash(&key)
    }

    /// From a server: `select worker_hash(..)`.
    #[test]
    fn hashes_are_those_of_a_server() {
        for (key_type, text, expected) in [
            (KeyType::Text, "", -1_477_818_771),
            (KeyType::Text, "a", 1_075_015_857),
            (KeyType::Text, "abcdefghijkl", -1_586_087_212),
            (KeyType::Varchar(None), "abcdefghijklm", 405_849_808),
            (KeyType::Bigint, "0", -272_711_505),
            (KeyType::Bigint, "-1", 385_747_274),
            (KeyType::Bigint, "1099511627776", 1_851_357_687),
            (KeyType::Integer, "7", -978_793_473),
            (KeyType::Smallint, "7", -978_793_473),
        ] {
            assert_eq!(hash(&[(key_type, text)], 0), expected, "{key_type} {text}");
        }
    }

    #[test]
    fn other_columns_do_not_count() {
        let alone = hash(&[(KeyType::Bigint, "7")], 0);
        assert_eq!(hash(&[(KeyType::Bigint, "7"), (KeyType::Text, "a")], 0), alone);
        assert_eq!(hash(&[(KeyType::Text, "a"), (KeyType::Numeric, "1.5"), (KeyType::Bigint, "7")], 2), alone);
    }

    #[test]
    fn types_without_a_known_hash_are_refused() {
        for (types, column, known) in [
            (&[KeyType::Text][..], 0, true),
            (&[KeyType::Text], 1, false),
            (&[KeyType::Numeric], 0, false),
            (&[KeyType::Boolean, KeyType::Date], 0, false),
            (&[KeyType::Boolean, KeyType::Date], 1, true),
        ] {
            assert_eq!(HashedColumn::new(types, column).is_some(), known, "{types:?} {column}");
        }
    }
}
