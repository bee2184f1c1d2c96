//! The types as which columns are decoded.

use super::super::mark::{JSON, SPAN, UNCHECKED};
use crate::Trouble;
use arrow_schema::extension::EXTENSION_TYPE_NAME_KEY;
use arrow_schema::{DataType, Field, Fields, TimeUnit};
use parquet::basic::{ConvertedType, Type};
use parquet::errors::ParquetError;
use parquet::schema::types::{ColumnDescriptor, SchemaDescriptor, Type as Node, TypePtr};
use std::sync::Arc;

/// The length of a span of time.
const SPAN_BYTES: i32 = 12;

/// The same columns, with spans of time as the bytes that they are.
///
/// # Errors
/// `parquet` refuses a column.
pub(super) fn with_raw_spans(columns: &SchemaDescriptor) -> Result<SchemaDescriptor, ParquetError> {
    Ok(SchemaDescriptor::new(with_raw_spans_within(&columns.root_schema_ptr())?))
}

fn with_raw_spans_within(node: &TypePtr) -> Result<TypePtr, ParquetError> {
    let info = node.get_basic_info();
    let id = info.has_id().then(|| info.id());
    if let Node::GroupType { fields, .. } = node.as_ref() {
        let raw = fields.iter().map(with_raw_spans_within).collect::<Result<Vec<TypePtr>, _>>()?;
        if fields.iter().zip(&raw).all(|(field, raw)| Arc::ptr_eq(field, raw)) {
            return Ok(Arc::clone(node));
        }
        let mut group = Node::group_type_builder(info.name())
            .with_converted_type(info.converted_type())
            .with_logical_type(info.logical_type_ref().cloned())
            .with_fields(raw)
            .with_id(id);
        if info.has_repetition() {
            group = group.with_repetition(info.repetition());
        }
        return group.build().map(Arc::new);
    }
    let Node::PrimitiveType { physical_type: Type::FIXED_LEN_BYTE_ARRAY, type_length: SPAN_BYTES, .. } = node.as_ref()
    else {
        return Ok(Arc::clone(node));
    };
    if info.converted_type() != ConvertedType::INTERVAL {
        return Ok(Arc::clone(node));
    }
    let leaf = Node::primitive_type_builder(info.name(), Type::FIXED_LEN_BYTE_ARRAY);
    leaf.with_repetition(info.repetition()).with_length(SPAN_BYTES).with_id(id).build().map(Arc::new)
}

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
    if *data_type == DataType::FixedSizeBinary(SPAN_BYTES) && called == Some(ConvertedType::INTERVAL) {
        let metadata = field.metadata().clone().with(SPAN, "");
        return field.clone().with_data_type(data_type.clone()).with_metadata(metadata);
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
