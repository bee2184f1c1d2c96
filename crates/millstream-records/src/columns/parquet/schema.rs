//! The types as which columns are decoded.

use super::super::mark::{JSON, UNCHECKED};
use crate::Trouble;
use arrow_schema::extension::EXTENSION_TYPE_NAME_KEY;
use arrow_schema::{DataType, Field, Fields, TimeUnit};
use parquet::basic::{ConvertedType, Type};
use parquet::schema::types::ColumnDescriptor;
use std::sync::Arc;

/// The same columns in types that are decoded in little memory: a value that is repeated by a dictionary is not copied.
pub(super) fn decoded(fields: &Fields, leaves: &mut dyn Iterator<Item = &ColumnDescriptor>) -> Fields {
    fields.iter().map(|field| Arc::new(decoded_field(field, leaves))).collect()
}

fn decoded_field(field: &Field, leaves: &mut dyn Iterator<Item = &ColumnDescriptor>) -> Field {
    let data_type = match field.data_type() {
        DataType::List(item) => DataType::List(Arc::new(decoded_field(item, leaves))),
        DataType::ListView(item) => DataType::ListView(Arc::new(decoded_field(item, leaves))),
        DataType::LargeList(item) => DataType::LargeList(Arc::new(decoded_field(item, leaves))),
        DataType::LargeListView(item) => DataType::LargeListView(Arc::new(decoded_field(item, leaves))),
        DataType::FixedSizeList(item, size) => DataType::FixedSizeList(Arc::new(decoded_field(item, leaves)), *size),
        DataType::Map(item, is_sorted) => DataType::Map(Arc::new(decoded_field(item, leaves)), *is_sorted),
        DataType::Struct(fields) => DataType::Struct(decoded(fields, leaves)),
        leaf => return decoded_leaf(field, leaf, leaves.next()),
    };
    field.clone().with_data_type(data_type)
}

fn decoded_leaf(field: &Field, data_type: &DataType, column: Option<&ColumnDescriptor>) -> Field {
    if let DataType::Dictionary(_, values) = data_type {
        return decoded_leaf(field, values, column);
    }
    let physical = column.map(ColumnDescriptor::physical_type);
    let called = column.map(ColumnDescriptor::converted_type);
    let is_text = matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
    // An enumeration is the names of its values.
    if is_text || called == Some(ConvertedType::ENUM) {
        let mut metadata = field.metadata().clone();
        if !is_checked(column) {
            metadata.insert(UNCHECKED, "");
        }
        if called == Some(ConvertedType::JSON) {
            metadata.insert(EXTENSION_TYPE_NAME_KEY, JSON);
        }
        return field.clone().with_data_type(DataType::Utf8View).with_metadata(metadata);
    }
    field.clone().with_data_type(match data_type {
        DataType::Binary | DataType::LargeBinary => DataType::BinaryView,
        // In nanoseconds, these have no dates after 2262. PostgreSQL keeps microseconds.
        DataType::Timestamp(_, zone) if physical == Some(Type::INT96) => {
            DataType::Timestamp(TimeUnit::Microsecond, zone.clone())
        }
        other => other.clone(),
    })
}

fn is_checked(column: Option<&ColumnDescriptor>) -> bool {
    column.is_some_and(|column| column.converted_type() == ConvertedType::UTF8)
}

/// Requires that all text is checked, by `parquet` or by us.
///
/// # Errors
/// [`Trouble::Refused`] names the column.
pub(super) fn require_checked(
    fields: &Fields,
    leaves: &mut dyn Iterator<Item = &ColumnDescriptor>,
) -> Result<(), Trouble> {
    fields.iter().try_for_each(|field| require_checked_field(field, leaves))
}

fn require_checked_field(field: &Field, leaves: &mut dyn Iterator<Item = &ColumnDescriptor>) -> Result<(), Trouble> {
    match field.data_type() {
        DataType::List(item)
        | DataType::ListView(item)
        | DataType::LargeList(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => return require_checked_field(item, leaves),
        DataType::Struct(fields) => return require_checked(fields, leaves),
        _ => {}
    }
    let column = leaves.next();
    let is_marked = || *field.data_type() == DataType::Utf8View && field.metadata().contains_key(UNCHECKED);
    let is_text = matches!(
        field.data_type(),
        DataType::Dictionary(..) | DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
    );
    if !is_text || is_checked(column) || is_marked() {
        return Ok(());
    }
    let problem = format!("has a column {:?} whose text is called something else than UTF-8", field.name());
    Err(Trouble::Refused { problem, hint: "write it as a string".into() })
}
