//! What arrays, Parquet, Arrow and Avro become.

mod arrow;
mod avro;
mod avro_blocks;
mod avro_file;
mod avro_random;
mod described;
mod parquet;
mod random;
mod written;

use super::rows::Rows;
use crate::{FileExtent, Nan, Open, Trouble};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use std::io::{Cursor, Write};
use std::sync::Arc;

/// A batch of one column.
fn batch_of(array: ArrayRef) -> RecordBatch {
    let field = Field::new("v", array.data_type().clone(), true);
    RecordBatch::try_new(Arc::new(Schema::new(vec![field])), vec![array]).unwrap()
}

/// The text of batches, and how many numbers became null.
fn text_of(batches: &[RecordBatch], nan: Nan) -> (String, u64) {
    let (mut rows, mut text) = (Rows::new(nan), Vec::new());
    for batch in batches {
        rows.begin(batch.clone());
        while !rows.are_written() {
            let mut more = Vec::new();
            rows.write(&mut more).unwrap();
            text.extend(more);
        }
    }
    (String::from_utf8(text).unwrap(), rows.not_finite)
}

/// The values of an array as they are written.
fn values(array: ArrayRef) -> Vec<String> {
    let (text, _) = text_of(&[batch_of(array)], Nan::Null);
    let value = |line: &str| line.strip_prefix("{\"v\":").unwrap().strip_suffix('}').unwrap().to_owned();
    text.lines().map(value).collect()
}

/// What a file becomes, and how it ends.
fn converted(open: Option<Open>, content: &[u8]) -> (String, Result<(), Trouble>) {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(content).unwrap();
    let extent = FileExtent { file: Box::new(file), start: 0, len: content.len() as u64 };
    converted_from(open, Some(extent), content)
}

/// The same for a pipe.
fn piped(open: Option<Open>, content: &[u8]) -> (String, Result<(), Trouble>) {
    converted_from(open, None, content)
}

fn converted_from(open: Option<Open>, extent: Option<FileExtent>, content: &[u8]) -> (String, Result<(), Trouble>) {
    let mut text = Vec::new();
    let ended = crate::guarded(|| {
        let mut converter = open.expect("the feature is on")(extent, Nan::Null)?;
        let mut from = Cursor::new(content);
        // As its caller does, it gives an empty buffer each time: a full one gets nothing.
        loop {
            let mut more = Vec::new();
            let goes_on = converter.more(&mut from, &mut more);
            text.extend(more);
            if !goes_on? {
                break;
            }
        }
        assert!(converter.bytes_read().is_none_or(|bytes| bytes == content.len() as u64));
        Ok(())
    });
    (String::from_utf8(text).unwrap(), ended)
}

fn whole(open: Option<Open>, content: &[u8]) -> String {
    let (text, ended) = converted(open, content);
    ended.unwrap();
    text
}

/// Columns of most types, with nulls, and a nested one.
fn sample(rows: i64) -> RecordBatch {
    use arrow_array::{Float64Array, Int64Array, StringArray, TimestampMicrosecondArray};
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("id", Arc::new(Int64Array::from_iter_values(0..rows))),
        ("name", Arc::new(StringArray::from_iter((0..rows).map(|n| (n % 3 > 0).then(|| format!("name \"{n}\"")))))),
        ("ratio", Arc::new(Float64Array::from_iter((0..rows).map(|n| Some(n as f64 / 4.0))))),
        (
            "at",
            Arc::new(
                TimestampMicrosecondArray::from_iter_values((0..rows).map(|n| n * 1_000_003)).with_timezone("UTC"),
            ),
        ),
    ];
    let fields: Vec<Field> =
        columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true)).collect();
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).unwrap()
}

#[test]
fn the_sample_is_what_it_seems() {
    let (text, _) = text_of(&[sample(2)], Nan::Null);
    let first = "{\"id\":0,\"name\":null,\"ratio\":0.0,\"at\":\"1970-01-01T00:00:00.000000Z\"}";
    let second = "{\"id\":1,\"name\":\"name \\\"1\\\"\",\"ratio\":0.25,\"at\":\"1970-01-01T00:00:01.000003Z\"}";
    assert_eq!(text, format!("{first}\n{second}\n"));
    assert_eq!(values(arrow_array::new_null_array(&DataType::Null, 2)), ["null", "null"]);
}
