//! A column of a batch, and how its values are written.

use super::integers::Integers;
use super::line::{Fault, Line};
use super::mark::{JSON, OURS, SPAN, UNCHECKED, UUID};
use super::scalar::{bytes, decimal, embedded, json, uuid};
use super::time;
use crate::Nan;
use crate::nan::NOT_FINITE;
use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type,
    DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType, DurationSecondType, Float16Type,
    Float32Type, Float64Type, Int16Type, Int32Type, Int64Type, IntervalDayTime, IntervalDayTimeType,
    IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalYearMonthType, Time32MillisecondType, Time32SecondType,
    Time64MicrosecondType, Time64NanosecondType, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, BooleanArray, FixedSizeBinaryArray, LargeBinaryArray,
    LargeStringArray, StringArray, StringViewArray, UnionArray,
};
use arrow_buffer::{NullBuffer, RunEndBuffer, i256};
use arrow_schema::{DataType, Field, Fields, IntervalUnit, TimeUnit};
use std::ops::Range;

/// The length of a UUID.
const UUID_BYTES: i32 = 16;

/// The length of Parquet's INTERVAL.
const SPAN_BYTES: i32 = 12;

/// The values of some rows.
pub(super) struct Column<'a> {
    nulls: Option<&'a NullBuffer>,
    values: Values<'a>,
}

enum Values<'a> {
    Null,
    Boolean(&'a BooleanArray),
    Integers(Integers<'a>),
    Half(&'a [<Float16Type as ArrowPrimitiveType>::Native]),
    Single(&'a [f32]),
    Double(&'a [f64]),
    Decimal32(&'a [i32], i8),
    Decimal64(&'a [i64], i8),
    Decimal128(&'a [i128], i8),
    Decimal256(&'a [i256], i8),
    Timestamp {
        values: &'a [i64],
        a_second: i64,
        is_instant: bool,
    },
    Date32(&'a [i32]),
    Date64(&'a [i64]),
    Time32(&'a [i32], i64),
    Time64(&'a [i64], i64),
    Duration(&'a [i64], i64),
    Months(&'a [i32]),
    DayTime(&'a [IntervalDayTime]),
    MonthDayNano(&'a [IntervalMonthDayNano]),
    Text(Text<'a>),
    /// Text that is JSON.
    Json(Text<'a>),
    Binary(&'a BinaryArray),
    LargeBinary(&'a LargeBinaryArray),
    BinaryView(&'a BinaryViewArray),
    FixedBinary(&'a FixedSizeBinaryArray),
    Uuid(&'a FixedSizeBinaryArray),
    Span(&'a FixedSizeBinaryArray),
    List(Spans<'a>, Box<Column<'a>>),
    Struct(Members<'a>),
    Map(Box<Map<'a>>),
    Dictionary(Integers<'a>, Box<Column<'a>>),
    Runs(Runs<'a>, Box<Column<'a>>),
    Union(&'a UnionArray, Vec<(i8, Column<'a>)>),
}

enum Text<'a> {
    Small(&'a StringArray),
    Large(&'a LargeStringArray),
    View(&'a StringViewArray),
    /// Bytes that may be no text.
    Unchecked(BinaryViewArray),
}

impl Text<'_> {
    fn value(&self, row: usize) -> Result<&str, Fault> {
        Ok(match self {
            Self::Small(array) => array.value(row),
            Self::Large(array) => array.value(row),
            Self::View(array) => array.value(row),
            Self::Unchecked(array) => std::str::from_utf8(array.value(row)).map_err(|_| Fault::NoText)?,
        })
    }
}

/// Where the items of each list stand.
enum Spans<'a> {
    Small(&'a [i32]),
    Large(&'a [i64]),
    /// Offsets and sizes.
    SmallViews(&'a [i32], &'a [i32]),
    LargeViews(&'a [i64], &'a [i64]),
    Fixed(usize),
}

impl Spans<'_> {
    fn range(&self, row: usize) -> Range<usize> {
        let small = |n: i32| usize::try_from(n).unwrap_or(0);
        let large = |n: i64| usize::try_from(n).unwrap_or(0);
        match self {
            Self::Small(offsets) => small(offsets[row])..small(offsets[row + 1]),
            Self::Large(offsets) => large(offsets[row])..large(offsets[row + 1]),
            Self::SmallViews(offsets, sizes) => small(offsets[row])..small(offsets[row]) + small(sizes[row]),
            Self::LargeViews(offsets, sizes) => large(offsets[row])..large(offsets[row]) + large(sizes[row]),
            Self::Fixed(size) => row * size..(row + 1) * size,
        }
    }
}

struct Map<'a> {
    offsets: &'a [i32],
    keys: Column<'a>,
    values: Column<'a>,
    /// Whether keys can be names of members. Otherwise a map is an array of pairs.
    is_object: bool,
}

enum Runs<'a> {
    Small(&'a RunEndBuffer<i16>),
    Medium(&'a RunEndBuffer<i32>),
    Large(&'a RunEndBuffer<i64>),
}

impl Runs<'_> {
    fn index(&self, row: usize) -> usize {
        match self {
            Self::Small(ends) => ends.get_physical_index(row),
            Self::Medium(ends) => ends.get_physical_index(row),
            Self::Large(ends) => ends.get_physical_index(row),
        }
    }
}

/// The members of an object.
pub(super) struct Members<'a>(Vec<(Vec<u8>, Column<'a>)>);

impl<'a> Members<'a> {
    pub(super) fn of(fields: &Fields, arrays: &'a [ArrayRef]) -> Self {
        let mut members = Vec::with_capacity(arrays.len());
        for (field, array) in fields.iter().zip(arrays) {
            let mut name = Vec::with_capacity(field.name().len() + 4);
            name.push(if members.is_empty() { b'{' } else { b',' });
            json(&mut name, field.name());
            name.push(b':');
            members.push((name, Column::of(array.as_ref(), Some(field))));
        }
        Self(members)
    }

    pub(super) fn write(&self, row: usize, line: &mut Line<'_>) -> Result<(), Fault> {
        if self.0.is_empty() {
            line.push("{");
        }
        for (name, column) in &self.0 {
            line.text.extend_from_slice(name);
            column.write(row, line)?;
        }
        line.push("}");
        line.require_room()
    }
}

impl<'a> Column<'a> {
    fn of(array: &'a dyn Array, field: Option<&Field>) -> Self {
        Self { nulls: array.nulls(), values: Values::of(array, field) }
    }

    fn write(&self, row: usize, line: &mut Line<'_>) -> Result<(), Fault> {
        if self.nulls.is_some_and(|nulls| nulls.is_null(row)) {
            line.null();
            return Ok(());
        }
        self.values.write(row, line)
    }
}

impl<'a> Values<'a> {
    fn of(array: &'a dyn Array, field: Option<&Field>) -> Self {
        if let Some(integers) = Integers::of(array) {
            return Self::Integers(integers);
        }
        let extension = field.and_then(Field::extension_type_name);
        let text = |text: Text<'a>| if extension == Some(JSON) { Self::Json(text) } else { Self::Text(text) };
        let list = |spans: Spans<'a>, items: &'a ArrayRef, item: &Field| {
            Self::List(spans, Box::new(Column::of(items.as_ref(), Some(item))))
        };
        match array.data_type() {
            DataType::Boolean => Self::Boolean(array.as_boolean()),
            DataType::Float16 => Self::Half(array.as_primitive::<Float16Type>().values()),
            DataType::Float32 => Self::Single(array.as_primitive::<Float32Type>().values()),
            DataType::Float64 => Self::Double(array.as_primitive::<Float64Type>().values()),
            DataType::Decimal32(_, scale) => Self::Decimal32(array.as_primitive::<Decimal32Type>().values(), *scale),
            DataType::Decimal64(_, scale) => Self::Decimal64(array.as_primitive::<Decimal64Type>().values(), *scale),
            DataType::Decimal128(_, scale) => Self::Decimal128(array.as_primitive::<Decimal128Type>().values(), *scale),
            DataType::Decimal256(_, scale) => Self::Decimal256(array.as_primitive::<Decimal256Type>().values(), *scale),
            DataType::Timestamp(unit, zone) => {
                let values: &[i64] = match unit {
                    TimeUnit::Second => array.as_primitive::<TimestampSecondType>().values(),
                    TimeUnit::Millisecond => array.as_primitive::<TimestampMillisecondType>().values(),
                    TimeUnit::Microsecond => array.as_primitive::<TimestampMicrosecondType>().values(),
                    TimeUnit::Nanosecond => array.as_primitive::<TimestampNanosecondType>().values(),
                };
                Self::Timestamp { values, a_second: time::a_second(*unit), is_instant: zone.is_some() }
            }
            DataType::Date32 => Self::Date32(array.as_primitive::<Date32Type>().values()),
            DataType::Date64 => Self::Date64(array.as_primitive::<Date64Type>().values()),
            DataType::Time32(TimeUnit::Second) => {
                Self::Time32(array.as_primitive::<Time32SecondType>().values(), time::a_second(TimeUnit::Second))
            }
            DataType::Time32(unit) => {
                Self::Time32(array.as_primitive::<Time32MillisecondType>().values(), time::a_second(*unit))
            }
            DataType::Time64(TimeUnit::Microsecond) => Self::Time64(
                array.as_primitive::<Time64MicrosecondType>().values(),
                time::a_second(TimeUnit::Microsecond),
            ),
            DataType::Time64(unit) => {
                Self::Time64(array.as_primitive::<Time64NanosecondType>().values(), time::a_second(*unit))
            }
            DataType::Duration(unit) => {
                let values: &[i64] = match unit {
                    TimeUnit::Second => array.as_primitive::<DurationSecondType>().values(),
                    TimeUnit::Millisecond => array.as_primitive::<DurationMillisecondType>().values(),
                    TimeUnit::Microsecond => array.as_primitive::<DurationMicrosecondType>().values(),
                    TimeUnit::Nanosecond => array.as_primitive::<DurationNanosecondType>().values(),
                };
                Self::Duration(values, time::a_second(*unit))
            }
            DataType::Interval(IntervalUnit::YearMonth) => {
                Self::Months(array.as_primitive::<IntervalYearMonthType>().values())
            }
            DataType::Interval(IntervalUnit::DayTime) => {
                Self::DayTime(array.as_primitive::<IntervalDayTimeType>().values())
            }
            DataType::Interval(IntervalUnit::MonthDayNano) => {
                Self::MonthDayNano(array.as_primitive::<IntervalMonthDayNanoType>().values())
            }
            DataType::Utf8 => text(Text::Small(array.as_string())),
            DataType::LargeUtf8 => text(Text::Large(array.as_string())),
            DataType::Utf8View if field.is_some_and(|field| is_marked(field, UNCHECKED)) => {
                text(Text::Unchecked(array.as_string_view().clone().to_binary_view()))
            }
            DataType::Utf8View => text(Text::View(array.as_string_view())),
            DataType::Binary => Self::Binary(array.as_binary()),
            DataType::LargeBinary => Self::LargeBinary(array.as_binary()),
            DataType::BinaryView => Self::BinaryView(array.as_binary_view()),
            DataType::FixedSizeBinary(UUID_BYTES) if extension == Some(UUID) => {
                Self::Uuid(array.as_fixed_size_binary())
            }
            DataType::FixedSizeBinary(SPAN_BYTES) if field.is_some_and(|field| is_marked(field, SPAN)) => {
                Self::Span(array.as_fixed_size_binary())
            }
            DataType::FixedSizeBinary(_) => Self::FixedBinary(array.as_fixed_size_binary()),
            DataType::List(item) => {
                let array = array.as_list::<i32>();
                list(Spans::Small(array.value_offsets()), array.values(), item)
            }
            DataType::LargeList(item) => {
                let array = array.as_list::<i64>();
                list(Spans::Large(array.value_offsets()), array.values(), item)
            }
            DataType::ListView(item) => {
                let array = array.as_list_view::<i32>();
                list(Spans::SmallViews(array.value_offsets(), array.value_sizes()), array.values(), item)
            }
            DataType::LargeListView(item) => {
                let array = array.as_list_view::<i64>();
                list(Spans::LargeViews(array.value_offsets(), array.value_sizes()), array.values(), item)
            }
            DataType::FixedSizeList(item, size) => {
                let array = array.as_fixed_size_list();
                list(Spans::Fixed(usize::try_from(*size).unwrap_or(0)), array.values(), item)
            }
            DataType::Struct(fields) => Self::Struct(Members::of(fields, array.as_struct().columns())),
            DataType::Map(..) => {
                let array = array.as_map();
                let is_object = !array.key_type().is_nested() && *array.key_type() != DataType::Null;
                // A key is a name, so it is no JSON of its own.
                let mut key = Field::new("", array.key_type().clone(), true);
                for mark in OURS.into_iter().filter(|mark| is_marked(array.entries_fields().0, mark)) {
                    key.metadata_mut().insert(mark, "");
                }
                let keys = Column::of(array.keys().as_ref(), Some(&key));
                let values = Column::of(array.values().as_ref(), Some(array.entries_fields().1));
                Self::Map(Box::new(Map { offsets: array.value_offsets(), keys, values, is_object }))
            }
            DataType::Dictionary(..) => {
                let array = array.as_any_dictionary();
                let values = Column::of(array.values().as_ref(), field);
                match Integers::of(array.keys()) {
                    Some(keys) if !array.values().is_empty() => Self::Dictionary(keys, Box::new(values)),
                    _ => Self::Null,
                }
            }
            DataType::RunEndEncoded(ends, item) => {
                let (runs, values) = match ends.data_type() {
                    DataType::Int16 => {
                        let array = array.as_run::<Int16Type>();
                        (Runs::Small(array.run_ends()), array.values())
                    }
                    DataType::Int32 => {
                        let array = array.as_run::<Int32Type>();
                        (Runs::Medium(array.run_ends()), array.values())
                    }
                    _ => {
                        let array = array.as_run::<Int64Type>();
                        (Runs::Large(array.run_ends()), array.values())
                    }
                };
                Self::Runs(runs, Box::new(Column::of(values.as_ref(), Some(item))))
            }
            DataType::Union(fields, _) => {
                let array = array.as_union();
                let child = |id: i8, field: &Field| (id, Column::of(array.child(id).as_ref(), Some(field)));
                Self::Union(array, fields.iter().map(|(id, field)| child(id, field)).collect())
            }
            // The whole numbers were met above.
            DataType::Null
            | DataType::Int8
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::UInt8
            | DataType::UInt16
            | DataType::UInt32
            | DataType::UInt64 => Self::Null,
        }
    }

    fn write(&self, row: usize, line: &mut Line<'_>) -> Result<(), Fault> {
        let text = &mut *line.text;
        match self {
            Self::Null => line.null(),
            Self::Boolean(array) => line.push(if array.value(row) { "true" } else { "false" }),
            Self::Integers(values) => values.write(row, text),
            Self::Half(values) => line.single(values[row].to_f32()),
            Self::Single(values) => line.single(values[row]),
            Self::Double(values) => line.double(values[row]),
            Self::Decimal32(values, scale) => decimal(text, &values[row].to_string(), (*scale).into()),
            Self::Decimal64(values, scale) => decimal(text, &values[row].to_string(), (*scale).into()),
            Self::Decimal128(values, scale) => decimal(text, &values[row].to_string(), (*scale).into()),
            Self::Decimal256(values, scale) => decimal(text, &values[row].to_string(), (*scale).into()),
            Self::Timestamp { values, a_second, is_instant } => {
                time::timestamp(text, values[row], *a_second, *is_instant);
            }
            Self::Date32(values) => time::date(text, values[row].into()),
            Self::Date64(values) => time::date_in_milliseconds(text, values[row]),
            Self::Time32(values, a_second) => time::time(text, values[row].into(), *a_second),
            Self::Time64(values, a_second) => time::time(text, values[row], *a_second),
            Self::Duration(values, a_second) => time::duration(text, values[row], *a_second),
            Self::Months(values) => time::months(text, values[row]),
            Self::DayTime(values) => time::day_time(text, values[row]),
            Self::MonthDayNano(values) => time::month_day_nano(text, values[row]),
            Self::Text(values) => json(text, values.value(row)?),
            Self::Json(values) => embedded(text, values.value(row)?),
            Self::Binary(array) => bytes(text, array.value(row)),
            Self::LargeBinary(array) => bytes(text, array.value(row)),
            Self::BinaryView(array) => bytes(text, array.value(row)),
            Self::FixedBinary(array) => bytes(text, array.value(row)),
            Self::Uuid(array) => uuid(text, array.value(row)),
            Self::Span(array) => time::months_days_milliseconds(text, array.value(row)),
            Self::List(spans, items) => return items.write_list(spans.range(row), line),
            Self::Struct(members) => return members.write(row, line),
            Self::Map(map) => return map.write(row, line),
            Self::Dictionary(keys, values) => match keys.index(row) {
                Some(index) => return values.write(index, line),
                None => line.null(),
            },
            Self::Runs(runs, values) => return values.write(runs.index(row), line),
            Self::Union(array, children) => {
                let id = array.type_id(row);
                match children.iter().find(|(child, _)| *child == id) {
                    Some((_, child)) => return child.write(array.value_offset(row), line),
                    None => line.null(),
                }
            }
        }
        Ok(())
    }
}

/// Whether a column has a mark of ours.
fn is_marked(field: &Field, mark: &str) -> bool {
    field.metadata().contains_key(mark)
}

impl Column<'_> {
    fn write_list(&self, items: Range<usize>, line: &mut Line<'_>) -> Result<(), Fault> {
        let start = items.start;
        line.push("[");
        for item in items {
            if item > start {
                line.push(",");
            }
            self.write(item, line)?;
            line.require_room()?;
        }
        line.push("]");
        Ok(())
    }
}

impl Map<'_> {
    fn write(&self, row: usize, line: &mut Line<'_>) -> Result<(), Fault> {
        let entries = Spans::Small(self.offsets).range(row);
        let start = entries.start;
        line.push(if self.is_object { "{" } else { "[" });
        for entry in entries {
            if entry > start {
                line.push(",");
            }
            if self.is_object {
                self.write_name(entry, line)?;
                line.push(":");
                self.values.write(entry, line)?;
            } else {
                line.push("[");
                self.keys.write(entry, line)?;
                line.push(",");
                self.values.write(entry, line)?;
                line.push("]");
            }
            line.require_room()?;
        }
        line.push(if self.is_object { "}" } else { "]" });
        Ok(())
    }

    /// Writes a key as the name of a member, which is a string. A word that makes the document a reject stays bare.
    fn write_name(&self, entry: usize, line: &mut Line<'_>) -> Result<(), Fault> {
        let start = line.text.len();
        self.keys.write(entry, line)?;
        let is_rejected =
            line.nan == Nan::Reject && NOT_FINITE.iter().any(|word| line.text[start..] == *word.as_bytes());
        if line.text.get(start) != Some(&b'"') && !is_rejected {
            line.text.insert(start, b'"');
            line.push("\"");
        }
        Ok(())
    }
}
