//! Batches of random columns.

use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, FixedSizeBinaryArray,
    Float32Array, Float64Array, Int8Array, Int32Array, Int64Array, LargeStringArray, ListArray, MapArray, RecordBatch,
    StringArray, StructArray, Time64MicrosecondArray, TimestampMicrosecondArray, TimestampNanosecondArray, UInt16Array,
    UInt64Array,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field, Fields, Schema};
use fastrand::Rng;
use std::sync::Arc;

/// Some columns of so many rows.
pub(super) fn batches(rng: &mut Rng) -> Vec<RecordBatch> {
    let seed = rng.u64(..);
    let count = rng.usize(1..4);
    // The same columns each time.
    let batch = |n: usize| {
        let mut shape = Rng::with_seed(seed);
        let mut values = Rng::with_seed(seed.wrapping_add(n as u64));
        let rows = values.usize(1..200);
        let arrays: Vec<ArrayRef> = (0..shape.usize(1..6)).map(|_| array(&mut shape, &mut values, rows, 3)).collect();
        let field = |(n, array): (usize, &ArrayRef)| Field::new(format!("c{n}"), array.data_type().clone(), true);
        let fields: Vec<Field> = arrays.iter().enumerate().map(field).collect();
        RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
    };
    (0..count).map(batch).collect()
}

fn nulls(values: &mut Rng, rows: usize) -> Option<NullBuffer> {
    Some((0..rows).map(|_| values.u8(..5) > 0).collect())
}

fn word(values: &mut Rng) -> String {
    (0..values.usize(0..8)).map(|_| *values.choice(&['a', '"', '\n', 'é', '😀', '\0']).unwrap()).collect()
}

/// What each row holds, with nulls.
fn each<T>(values: &mut Rng, rows: usize, mut value: impl FnMut(&mut Rng) -> T) -> Vec<Option<T>> {
    (0..rows).map(|_| (values.u8(..5) > 0).then(|| value(values))).collect()
}

/// An array: its type by `shape`, what it holds by `values`.
fn array(shape: &mut Rng, values: &mut Rng, rows: usize, levels: usize) -> ArrayRef {
    let kinds = if levels > 0 { 20 } else { 17 };
    match shape.u8(..kinds) {
        0 => Arc::new(BooleanArray::from(each(values, rows, Rng::bool))),
        1 => Arc::new(Int8Array::from(each(values, rows, |rng| rng.i8(..)))),
        2 => Arc::new(Int32Array::from(each(values, rows, |rng| rng.i32(..)))),
        3 => Arc::new(Int64Array::from(each(values, rows, |rng| rng.i64(..)))),
        4 => Arc::new(UInt16Array::from(each(values, rows, |rng| rng.u16(..)))),
        5 => Arc::new(UInt64Array::from(each(values, rows, |rng| rng.u64(..)))),
        6 => Arc::new(Float32Array::from(each(values, rows, |rng| f32::from_bits(rng.u32(..))))),
        7 => Arc::new(Float64Array::from(each(values, rows, |rng| f64::from_bits(rng.u64(..))))),
        8 => {
            let array = Decimal128Array::from(each(values, rows, |rng| i128::from(rng.i64(..))));
            Arc::new(array.with_precision_and_scale(38, 4).unwrap())
        }
        9 => Arc::new(StringArray::from_iter(each(values, rows, word))),
        10 => Arc::new(LargeStringArray::from_iter(each(values, rows, word))),
        11 => Arc::new(BinaryArray::from_iter(each(values, rows, |rng| word(rng).into_bytes()))),
        12 => {
            let all = each(values, rows, |rng| [rng.u8(..); 3]);
            Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(all.into_iter(), 3).unwrap())
        }
        13 => Arc::new(Date32Array::from(each(values, rows, |rng| rng.i32(-1_000_000..1_000_000)))),
        14 => {
            let array = TimestampMicrosecondArray::from(each(values, rows, |rng| rng.i64(..)));
            Arc::new(array.with_timezone("UTC"))
        }
        15 => Arc::new(TimestampNanosecondArray::from(each(values, rows, |rng| rng.i64(..)))),
        16 => Arc::new(Time64MicrosecondArray::from(each(values, rows, |rng| rng.i64(0..86_400_000_000)))),
        17 => {
            let lengths: Vec<usize> = (0..rows).map(|_| values.usize(..4)).collect();
            let items = array(shape, values, lengths.iter().sum(), levels - 1);
            let field = Arc::new(Field::new("item", items.data_type().clone(), true));
            Arc::new(ListArray::new(field, OffsetBuffer::from_lengths(lengths), items, nulls(values, rows)))
        }
        18 => {
            let members: Vec<ArrayRef> =
                (0..shape.usize(1..3)).map(|_| array(shape, values, rows, levels - 1)).collect();
            let field = |(n, array): (usize, &ArrayRef)| Field::new(format!("m{n}"), array.data_type().clone(), true);
            let fields: Fields = members.iter().enumerate().map(field).collect();
            Arc::new(StructArray::new(fields, members, nulls(values, rows)))
        }
        _ if shape.bool() => {
            let names: ArrayRef = Arc::new(StringArray::from(vec!["x", "y", "z"]));
            let keys = Int32Array::from(each(values, rows, |rng| rng.i32(0..3)));
            Arc::new(DictionaryArray::<Int32Type>::new(keys, names))
        }
        _ => {
            let lengths: Vec<usize> = (0..rows).map(|_| values.usize(..3)).collect();
            let count: usize = lengths.iter().sum();
            let keys: ArrayRef = Arc::new(StringArray::from_iter_values((0..count).map(|n| format!("k{n}"))));
            let items = array(shape, values, count, levels - 1);
            let fields = Fields::from(vec![
                Field::new("key", DataType::Utf8, false),
                Field::new("value", items.data_type().clone(), true),
            ]);
            let entries = StructArray::new(fields.clone(), vec![keys, items], None);
            let field = Arc::new(Field::new("entries", DataType::Struct(fields), false));
            let offsets = OffsetBuffer::from_lengths(lengths);
            Arc::new(MapArray::new(field, offsets, entries, nulls(values, rows), false))
        }
    }
}
