//! Which types of PostgreSQL take the values of columns, as they are written.

use super::mark::{JSON, SPAN, UUID};
use crate::{Nan, SchemaColumn};
use arrow_schema::{DataType, Field, Fields, TimeUnit};

/// What the schema says about each column.
pub(super) fn described(fields: &Fields, nan: Nan) -> Vec<SchemaColumn> {
    fields.iter().map(|field| described_field(field, nan)).collect()
}

fn described_field(field: &Field, nan: Nan) -> SchemaColumn {
    let (data_type, extension) = value_type(field, field.data_type());
    let (type_name, what) = match field.metadata().contains_key(SPAN) {
        true => (Some("text"), "span of time"),
        false => described_type(data_type, extension, nan),
    };
    let is_exact = !matches!(data_type, DataType::Timestamp(TimeUnit::Nanosecond, _));
    SchemaColumn { name: field.name().clone(), type_name, is_exact, what }
}

/// The type of the values that a dictionary or runs stand for, and what extension it has.
fn value_type<'f>(field: &'f Field, data_type: &'f DataType) -> (&'f DataType, Option<&'f str>) {
    match data_type {
        DataType::Dictionary(_, values) => value_type(field, values),
        DataType::RunEndEncoded(_, item) => value_type(item, item.data_type()),
        other => (other, field.extension_type_name()),
    }
}

fn described_type(data_type: &DataType, extension: Option<&str>, nan: Nan) -> (Option<&'static str>, &'static str) {
    let (type_name, what) = match data_type {
        DataType::Boolean => ("boolean", "boolean"),
        DataType::Int8 | DataType::Int16 | DataType::Int32 | DataType::UInt8 | DataType::UInt16 => {
            ("integer", "whole number of at most 32 bits")
        }
        DataType::Int64 | DataType::UInt32 => ("bigint", "whole number of at most 64 bits"),
        DataType::UInt64 => ("numeric", "whole number of 64 bits without a sign"),
        DataType::Float16 | DataType::Float32 | DataType::Float64 if nan == Nan::Text => {
            ("text", "floating point, of which --nan string makes strings")
        }
        DataType::Float16 | DataType::Float32 | DataType::Float64 => ("double precision", "floating point"),
        DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..) | DataType::Decimal256(..) => {
            ("numeric", "decimal")
        }
        // It may be a string, whose text is no JSON.
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View if extension == Some(JSON) => return (None, "JSON"),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => ("text", "text"),
        DataType::FixedSizeBinary(_) if extension == Some(UUID) => ("uuid", "UUID"),
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView | DataType::FixedSizeBinary(_) => {
            ("text", "bytes")
        }
        DataType::Timestamp(_, Some(_)) => ("timestamptz", "time with a zone"),
        DataType::Timestamp(_, None) => ("timestamp", "time without a zone"),
        DataType::Date32 | DataType::Date64 => ("date", "date"),
        DataType::Time32(_) | DataType::Time64(_) => ("text", "time of day"),
        DataType::Duration(_) | DataType::Interval(_) => ("text", "span of time"),
        DataType::List(_)
        | DataType::LargeList(_)
        | DataType::ListView(_)
        | DataType::LargeListView(_)
        | DataType::FixedSizeList(..) => ("jsonb", "list"),
        DataType::Struct(_) => ("jsonb", "struct"),
        DataType::Map(..) => ("jsonb", "map"),
        DataType::Null => return (None, "nulls"),
        DataType::Union(..) | DataType::Dictionary(..) | DataType::RunEndEncoded(..) => return (None, "union"),
    };
    (Some(type_name), what)
}
