//! Which types of PostgreSQL take the values of fields, as they are written.

use super::schema::{Field, NANOSECONDS, Scalar, Schema, Type};
use crate::{Nan, SchemaColumn};

/// What the schema says about each field. `None`: not all records have the same.
pub(super) fn described(schema: &Schema, nan: Nan) -> Option<Vec<SchemaColumn>> {
    let Type::Record(root) = schema.root else { return None };
    let column = |field: &Field| {
        let of = value_type(field.of, schema);
        let (type_name, what) = described_type(of, nan);
        let is_exact = !matches!(of, Type::Scalar(Scalar::Timestamp { a_second: NANOSECONDS, .. }));
        SchemaColumn { name: field.name.clone(), type_name, is_exact, what }
    };
    Some(schema.records[root].iter().map(column).collect())
}

/// The type of what is not null.
fn value_type(of: Type, schema: &Schema) -> Type {
    let Type::Union(union) = of else { return of };
    let mut others = schema.unions[union].iter().filter(|branch| **branch != Type::Scalar(Scalar::Null));
    match (others.next(), others.next()) {
        (Some(one), None) => *one,
        (Some(_), Some(_)) => of,
        (None, _) => Type::Scalar(Scalar::Null),
    }
}

fn described_type(of: Type, nan: Nan) -> (Option<&'static str>, &'static str) {
    let (type_name, what) = match of {
        Type::Scalar(Scalar::Null) => return (None, "nulls"),
        Type::Union(_) => return (None, "union"),
        Type::Record(_) => ("jsonb", "record"),
        Type::Array(_) => ("jsonb", "array"),
        Type::Map(_) => ("jsonb", "map"),
        Type::Enum(_) => ("text", "enumeration"),
        Type::Scalar(Scalar::Boolean) => ("boolean", "boolean"),
        Type::Scalar(Scalar::Int) => ("integer", "whole number of at most 32 bits"),
        Type::Scalar(Scalar::Long) => ("bigint", "whole number of at most 64 bits"),
        Type::Scalar(Scalar::Float | Scalar::Double) if nan == Nan::Text => {
            ("text", "floating point, of which --nan string makes strings")
        }
        Type::Scalar(Scalar::Float | Scalar::Double) => ("double precision", "floating point"),
        Type::Scalar(Scalar::Decimal { .. }) => ("numeric", "decimal"),
        Type::Scalar(Scalar::Text) => ("text", "text"),
        Type::Scalar(Scalar::Bytes(_)) => ("text", "bytes"),
        Type::Scalar(Scalar::Uuid | Scalar::UuidText) => ("uuid", "UUID"),
        Type::Scalar(Scalar::Timestamp { is_instant: true, .. }) => ("timestamptz", "time with a zone"),
        Type::Scalar(Scalar::Timestamp { is_instant: false, .. }) => ("timestamp", "time without a zone"),
        Type::Scalar(Scalar::Date) => ("date", "date"),
        Type::Scalar(Scalar::TimeMillis | Scalar::TimeMicros) => ("text", "time of day"),
        Type::Scalar(Scalar::Span) => ("text", "span of time"),
    };
    (Some(type_name), what)
}
