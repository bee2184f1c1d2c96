//! One record as one object of JSON.

use super::number::{LONGEST, digits, whole};
use super::schema::{MICROSECONDS, MILLISECONDS, SPAN_BYTES, Scalar, Schema, Type, UUID_BYTES};
use crate::columns::line::Line;
use crate::columns::scalar::{bytes, decimal, json, uuid};
use crate::columns::time;
use crate::limits::{AVRO_DECIMAL_BYTES_MAX, AVRO_EMPTY_ITEMS_MAX, AVRO_NESTING_MAX};
use crate::spelling;

/// Why a record cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// Its line is too long.
    TooLong,
    /// What is wrong with its bytes.
    Broken(&'static str),
}

/// Writes records. It does not recurse, so that no nesting exhausts the stack.
pub(super) struct Writer {
    pub(super) schema: Schema,
    levels: Vec<Level>,
}

/// A value with others in it that is being written.
enum Level {
    Record {
        record: usize,
        /// The next of its fields.
        next: usize,
    },
    /// An array or a map. Its items come in blocks.
    Items {
        of: Type,
        is_map: bool,
        /// Items of the block that were not written.
        left: u64,
        has_items: bool,
    },
}

impl Writer {
    pub(super) fn new(schema: Schema) -> Self {
        Self { schema, levels: Vec::new() }
    }

    /// Appends the next record.
    ///
    /// # Errors
    /// [`Fault`]. A part of it was appended.
    pub(super) fn write(&mut self, reader: &mut Reader<'_>, line: &mut Line<'_>) -> Result<(), Fault> {
        let Self { schema, levels } = self;
        levels.clear();
        begin(schema.root, schema, levels, reader, line)?;
        while let Some(level) = levels.last_mut() {
            let of = match level {
                Level::Record { record, next } => {
                    let Some(field) = schema.records[*record].get(*next) else {
                        line.push("}");
                        levels.pop();
                        continue;
                    };
                    *next += 1;
                    line.text.extend_from_slice(&field.opens);
                    field.of
                }
                Level::Items { of, is_map, left, has_items } => {
                    if *left == 0 {
                        *left = reader.count()?;
                    }
                    if *left == 0 {
                        line.push(if *is_map { "}" } else { "]" });
                        levels.pop();
                        continue;
                    }
                    *left -= 1;
                    if std::mem::replace(has_items, true) {
                        line.push(",");
                    }
                    if *is_map {
                        string(reader.bytes()?, line)?;
                        line.push(":");
                    }
                    *of
                }
            };
            begin(of, schema, levels, reader, line)?;
            line.require_room().map_err(|_| Fault::TooLong)?;
        }
        Ok(())
    }
}

/// Writes a value, or begins one that holds others.
fn begin(
    of: Type,
    schema: &Schema,
    levels: &mut Vec<Level>,
    reader: &mut Reader<'_>,
    line: &mut Line<'_>,
) -> Result<(), Fault> {
    let level = match of {
        Type::Scalar(of) => return scalar(of, reader, line),
        Type::Enum(number) => {
            let symbols = &schema.enums[number];
            line.text.extend_from_slice(&symbols[reader.index(symbols.len())?]);
            return Ok(());
        }
        // A union holds no other one.
        Type::Union(union) => {
            let branches = &schema.unions[union];
            return begin(branches[reader.index(branches.len())?], schema, levels, reader, line);
        }
        Type::Record(record) => {
            // Each field brings what stands before it.
            if schema.records[record].is_empty() {
                line.push("{");
            }
            Level::Record { record, next: 0 }
        }
        Type::Array(items) => {
            line.push("[");
            Level::Items { of: schema.items[items], is_map: false, left: 0, has_items: false }
        }
        Type::Map(items) => {
            line.push("{");
            Level::Items { of: schema.items[items], is_map: true, left: 0, has_items: false }
        }
    };
    if levels.len() == AVRO_NESTING_MAX {
        return Err(Fault::Broken("it nests too deeply"));
    }
    levels.push(level);
    Ok(())
}

fn scalar(of: Scalar, reader: &mut Reader<'_>, line: &mut Line<'_>) -> Result<(), Fault> {
    match of {
        Scalar::Null => line.null(),
        Scalar::Boolean => line.push(match reader.take::<1>()? {
            [0] => "false",
            [1] => "true",
            _ => return Err(Fault::Broken("a boolean is neither true nor false")),
        }),
        Scalar::Int => json(line.text, &reader.int()?),
        Scalar::Long => json(line.text, &reader.long()?),
        Scalar::Float => line.single(f32::from_le_bytes(reader.take()?)),
        Scalar::Double => line.double(f64::from_le_bytes(reader.take()?)),
        Scalar::Text | Scalar::UuidText => string(reader.bytes()?, line)?,
        Scalar::Bytes(size) => {
            let value = reader.sized(size)?;
            require_room_for(value, line)?;
            bytes(line.text, value);
        }
        Scalar::Date => time::date(line.text, reader.int()?.into()),
        Scalar::TimeMillis => time::time(line.text, reader.int()?.into(), MILLISECONDS),
        Scalar::TimeMicros => time::time(line.text, reader.long()?, MICROSECONDS),
        Scalar::Timestamp { a_second, is_instant } => time::timestamp(line.text, reader.long()?, a_second, is_instant),
        Scalar::Decimal { size, scale } => {
            let value = reader.sized(size)?;
            if value.len() > AVRO_DECIMAL_BYTES_MAX {
                return Err(Fault::Broken("a decimal has more digits than any database takes"));
            }
            decimal(line.text, &digits(value), scale.into());
        }
        Scalar::Uuid => uuid(line.text, reader.part(UUID_BYTES)?),
        Scalar::Span => time::months_days_milliseconds(line.text, reader.part(SPAN_BYTES)?),
    }
    Ok(())
}

/// Writes a string. What is not UTF-8 stays: whoever reads the line says so, and the records behind it are read.
fn string(value: &[u8], line: &mut Line<'_>) -> Result<(), Fault> {
    require_room_for(value, line)?;
    spelling::string(line.text, value);
    Ok(())
}

/// Requires that a line with these bytes is not too long, before they are copied.
fn require_room_for(value: &[u8], line: &Line<'_>) -> Result<(), Fault> {
    if line.text.len() + value.len() > line.len_max { Err(Fault::TooLong) } else { Ok(()) }
}

/// Reads what stands in a block.
pub(super) struct Reader<'b> {
    pub(super) bytes: &'b [u8],
    pub(super) at: usize,
}

impl<'b> Reader<'b> {
    /// So many bytes.
    fn part(&mut self, length: usize) -> Result<&'b [u8], Fault> {
        let Some(taken) = self.bytes[self.at..].get(..length) else { return Err(beyond()) };
        self.at += length;
        Ok(taken)
    }

    /// As many bytes as the result has.
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let Some(taken) = self.bytes[self.at..].first_chunk() else { return Err(beyond()) };
        self.at += N;
        Ok(*taken)
    }

    #[inline]
    fn long(&mut self) -> Result<i64, Fault> {
        let rest = &self.bytes[self.at..];
        let Some((number, length)) = whole(rest) else {
            let is_cut = rest.len() < LONGEST;
            return Err(if is_cut { beyond() } else { Fault::Broken("a number has more than 64 bits") });
        };
        self.at += length;
        Ok(number)
    }

    fn int(&mut self) -> Result<i32, Fault> {
        i32::try_from(self.long()?).map_err(|_| Fault::Broken("an int has more than 32 bits"))
    }

    fn length(&mut self) -> Result<usize, Fault> {
        usize::try_from(self.long()?).map_err(|_| Fault::Broken("a length is negative"))
    }

    /// Bytes with their length before them.
    fn bytes(&mut self) -> Result<&'b [u8], Fault> {
        let length = self.length()?;
        self.part(length)
    }

    /// Bytes of this size, or of their own.
    fn sized(&mut self, size: Option<usize>) -> Result<&'b [u8], Fault> {
        match size {
            Some(size) => self.part(size),
            None => self.bytes(),
        }
    }

    /// Which of so many symbols or branches it is.
    fn index(&mut self, count: usize) -> Result<usize, Fault> {
        let index = usize::try_from(self.long()?).ok().filter(|index| *index < count);
        index.ok_or(Fault::Broken("the schema has no such symbol or branch"))
    }

    /// Items of the next block of an array or a map. Before a negative number's items, their length stands.
    fn count(&mut self) -> Result<u64, Fault> {
        let count = self.long()?;
        if count < 0 {
            self.length()?;
        }
        let (count, bytes) = (count.unsigned_abs(), (self.bytes.len() - self.at) as u64);
        if count > bytes.max(AVRO_EMPTY_ITEMS_MAX) {
            return Err(Fault::Broken("an array or a map names more items than there are bytes"));
        }
        Ok(count)
    }
}

fn beyond() -> Fault {
    Fault::Broken("a value goes beyond the end of its block")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Nan;

    #[test]
    fn a_line_that_becomes_too_long_ends_before_its_bytes_are_copied() {
        for (of, bytes) in [
            (r#""string""#, [&b"\xc8\x01"[..], &[b'x'; 100]].concat()),
            (r#""bytes""#, [&b"\xc8\x01"[..], &[b'x'; 100]].concat()),
            (r#"{"type":"map","values":"null"}"#, [&b"\x02\xc8\x01"[..], &[b'x'; 100], b"\0"].concat()),
            (r#"{"type":"array","items":"null"}"#, b"\xc8\x01\0".to_vec()),
        ] {
            let schema = format!(r#"{{"type":"record","name":"R","fields":[{{"name":"v","type":{of}}}]}}"#);
            let mut writer = Writer::new(Schema::of(schema.as_bytes()).unwrap());
            for (len_max, expected) in [(2_000, Ok(())), (60, Err(Fault::TooLong))] {
                let mut text = Vec::new();
                let mut line = Line { text: &mut text, len_max, nan: Nan::Null, not_finite: 0 };
                let mut reader = Reader { bytes: &bytes, at: 0 };
                assert_eq!(writer.write(&mut reader, &mut line), expected, "{of}");
                assert!(text.len() <= len_max + 10, "{of}");
            }
        }
    }
}
