//! Whole numbers of any size.

use super::scalar::json;
use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_schema::DataType;

/// The values of a column of whole numbers, or the keys of a dictionary.
pub(super) enum Integers<'a> {
    I8(&'a [i8]),
    I16(&'a [i16]),
    I32(&'a [i32]),
    I64(&'a [i64]),
    U8(&'a [u8]),
    U16(&'a [u16]),
    U32(&'a [u32]),
    U64(&'a [u64]),
}

impl<'a> Integers<'a> {
    /// `None` for another type.
    pub(super) fn of(array: &'a dyn Array) -> Option<Self> {
        Some(match array.data_type() {
            DataType::Int8 => Self::I8(array.as_primitive::<Int8Type>().values()),
            DataType::Int16 => Self::I16(array.as_primitive::<Int16Type>().values()),
            DataType::Int32 => Self::I32(array.as_primitive::<Int32Type>().values()),
            DataType::Int64 => Self::I64(array.as_primitive::<Int64Type>().values()),
            DataType::UInt8 => Self::U8(array.as_primitive::<UInt8Type>().values()),
            DataType::UInt16 => Self::U16(array.as_primitive::<UInt16Type>().values()),
            DataType::UInt32 => Self::U32(array.as_primitive::<UInt32Type>().values()),
            DataType::UInt64 => Self::U64(array.as_primitive::<UInt64Type>().values()),
            _ => return None,
        })
    }

    pub(super) fn write(&self, row: usize, text: &mut Vec<u8>) {
        match self {
            Self::I8(values) => json(text, &values[row]),
            Self::I16(values) => json(text, &values[row]),
            Self::I32(values) => json(text, &values[row]),
            Self::I64(values) => json(text, &values[row]),
            Self::U8(values) => json(text, &values[row]),
            Self::U16(values) => json(text, &values[row]),
            Self::U32(values) => json(text, &values[row]),
            Self::U64(values) => json(text, &values[row]),
        }
    }

    /// The value as an index; `None` if it is negative.
    pub(super) fn index(&self, row: usize) -> Option<usize> {
        match self {
            Self::I8(values) => usize::try_from(values[row]).ok(),
            Self::I16(values) => usize::try_from(values[row]).ok(),
            Self::I32(values) => usize::try_from(values[row]).ok(),
            Self::I64(values) => usize::try_from(values[row]).ok(),
            Self::U8(values) => Some(usize::from(values[row])),
            Self::U16(values) => Some(usize::from(values[row])),
            Self::U32(values) => usize::try_from(values[row]).ok(),
            Self::U64(values) => usize::try_from(values[row]).ok(),
        }
    }
}
