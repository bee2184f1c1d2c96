//! Which types of PostgreSQL take the values of columns.

use super::sample;
use crate::columns::described::described;
use crate::columns::mark::{JSON, UUID};
use crate::columns::{ARROW_FILE, ARROW_STREAM, PARQUET};
use crate::{FileExtent, Nan, Open};
use arrow_array::RecordBatch;
use arrow_ipc::writer::{FileWriter, StreamWriter};
use arrow_schema::extension::EXTENSION_TYPE_NAME_KEY;
use arrow_schema::{DataType, Field, Fields, IntervalUnit, TimeUnit};
use parquet::arrow::ArrowWriter;
use std::io::{Cursor, Write};
use std::sync::Arc;

fn type_name(field: Field, nan: Nan) -> Option<&'static str> {
    described(&Fields::from(vec![field]), nan)[0].type_name
}

#[test]
fn each_type_has_a_column_that_takes_its_values() {
    let item = || Arc::new(Field::new("item", DataType::Int64, true));
    let dictionary = |values| DataType::Dictionary(Box::new(DataType::Int8), Box::new(values));
    for (data_type, expected) in [
        (DataType::Int8, Some("integer")),
        (DataType::UInt16, Some("integer")),
        (DataType::Int32, Some("integer")),
        (DataType::UInt32, Some("bigint")),
        (DataType::Int64, Some("bigint")),
        (DataType::UInt64, Some("numeric")),
        (DataType::Decimal128(20, 2), Some("numeric")),
        (DataType::Float32, Some("double precision")),
        (DataType::Boolean, Some("boolean")),
        (DataType::Utf8View, Some("text")),
        (DataType::Binary, Some("text")),
        (DataType::FixedSizeBinary(16), Some("text")),
        (DataType::Timestamp(TimeUnit::Second, Some("UTC".into())), Some("timestamptz")),
        (DataType::Timestamp(TimeUnit::Nanosecond, None), Some("timestamp")),
        (DataType::Date32, Some("date")),
        (DataType::Time64(TimeUnit::Nanosecond), Some("text")),
        (DataType::Duration(TimeUnit::Second), Some("text")),
        (DataType::Interval(IntervalUnit::MonthDayNano), Some("text")),
        (DataType::List(item()), Some("jsonb")),
        (DataType::Struct(Fields::from(vec![Field::new("a", DataType::Int8, true)])), Some("jsonb")),
        (dictionary(DataType::Utf8), Some("text")),
        (dictionary(DataType::Int64), Some("bigint")),
        (DataType::RunEndEncoded(item(), item()), Some("bigint")),
        (DataType::Null, None),
    ] {
        assert_eq!(type_name(Field::new("v", data_type.clone(), true), Nan::Null), expected, "{data_type}");
    }
    let called =
        |data_type, name: &str| Field::new("v", data_type, true).with_metadata([(EXTENSION_TYPE_NAME_KEY, name)]);
    assert_eq!(type_name(called(DataType::FixedSizeBinary(16), UUID), Nan::Null), Some("uuid"));
    assert_eq!(type_name(called(DataType::Utf8, JSON), Nan::Null), None);
    assert_eq!(type_name(Field::new("v", DataType::Float64, true), Nan::Text), Some("text"));
    let exact =
        |unit| described(&Fields::from(vec![Field::new("v", DataType::Timestamp(unit, None), true)]), Nan::Null);
    assert!(exact(TimeUnit::Microsecond)[0].is_exact && !exact(TimeUnit::Nanosecond)[0].is_exact);
}

/// The types of the columns of a file, before and after its first rows.
fn of_file(open: Option<Open>, content: &[u8]) -> [Option<Vec<Option<&'static str>>>; 2] {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(content).unwrap();
    let extent = FileExtent { file: Box::new(file), start: 0, len: content.len() as u64 };
    let mut converter = open.expect("the feature is on")(Some(extent), Nan::Null).unwrap();
    let types = |columns: Option<Vec<crate::SchemaColumn>>| -> Option<Vec<Option<&'static str>>> {
        columns.map(|columns| columns.into_iter().map(|column| column.type_name).collect())
    };
    let before = types(converter.columns());
    converter.more(&mut Cursor::new(content), &mut Vec::new()).unwrap();
    [before, types(converter.columns())]
}

#[test]
fn files_say_their_columns_when_they_are_opened_and_streams_with_their_first_rows() {
    let batch: RecordBatch = sample(3);
    let mut parquet = ArrowWriter::try_new(Vec::new(), batch.schema(), None).unwrap();
    parquet.write(&batch).unwrap();
    let mut file = FileWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    file.write(&batch).unwrap();
    let mut stream = StreamWriter::try_new(Vec::new(), &batch.schema()).unwrap();
    stream.write(&batch).unwrap();
    let expected = Some(vec![Some("bigint"), Some("text"), Some("double precision"), Some("timestamptz")]);
    assert_eq!(of_file(PARQUET, &parquet.into_inner().unwrap()), [expected.clone(), expected.clone()]);
    assert_eq!(of_file(ARROW_FILE, &file.into_inner().unwrap()), [expected.clone(), expected.clone()]);
    assert_eq!(of_file(ARROW_STREAM, &stream.into_inner().unwrap()), [None, expected]);
}
