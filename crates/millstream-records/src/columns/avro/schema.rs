//! The schema of a file, as types by which its records are read (Avro's specification, "Schema Declaration").

use crate::Trouble;
use crate::columns::scalar::json;
use crate::spelling::NANOSECONDS_A_SECOND;
use serde_json::{Map, Value};
use std::collections::{HashMap, HashSet};

/// Lengths of what is a UUID, and of a span of time.
pub(super) const UUID_BYTES: usize = 16;
pub(super) const SPAN_BYTES: usize = 12;

/// How many of a unit a second has.
pub(super) const MILLISECONDS: i64 = 1_000;
pub(super) const MICROSECONDS: i64 = 1_000_000;
pub(super) const NANOSECONDS: i64 = NANOSECONDS_A_SECOND;

/// Characters of a name that a message shows.
const NAME_CHARACTERS_SHOWN: usize = 60;

/// A type. Those that hold others name them by their place in the schema, so that a type can hold itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    Scalar(Scalar),
    Record(usize),
    Enum(usize),
    /// The place of the type of its items.
    Array(usize),
    Map(usize),
    Union(usize),
}

/// A type whose values hold no others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scalar {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    /// Bytes. Without a size, each value has its own.
    Bytes(Option<usize>),
    Text,
    Date,
    /// A time of day, in milliseconds.
    TimeMillis,
    /// A time of day, in microseconds.
    TimeMicros,
    Timestamp {
        a_second: i64,
        is_instant: bool,
    },
    Decimal {
        size: Option<usize>,
        scale: u16,
    },
    Uuid,
    /// A UUID that is written as its text.
    UuidText,
    Span,
}

/// What a file holds.
pub(super) struct Schema {
    pub(super) root: Type,
    pub(super) records: Vec<Vec<Field>>,
    /// The symbols of each enumeration, as strings of JSON.
    pub(super) enums: Vec<Vec<Vec<u8>>>,
    pub(super) unions: Vec<Vec<Type>>,
    /// What arrays and maps hold.
    pub(super) items: Vec<Type>,
}

/// A field of a record.
pub(super) struct Field {
    pub(super) name: String,
    /// What stands before its value: a bracket or a comma, its name, a colon.
    pub(super) opens: Vec<u8>,
    pub(super) of: Type,
}

impl Schema {
    /// Of its JSON.
    ///
    /// # Errors
    /// It is none, or one that we do not read.
    pub(super) fn of(content: &[u8]) -> Result<Self, Trouble> {
        let value: Value = serde_json::from_slice(content).map_err(|error| match error.to_string() {
            why if why.starts_with("recursion limit") => Trouble::Refused {
                problem: "is Avro whose schema nests too deeply".into(),
                hint: "write it with records that nest less".into(),
            },
            why => wrong(&why),
        })?;
        let root = Type::Scalar(Scalar::Null);
        let schema = Self { root, records: Vec::new(), enums: Vec::new(), unions: Vec::new(), items: Vec::new() };
        let mut parser = Parser { schema, names: HashMap::new() };
        let root = parser.read(&value, "")?;
        let schema = Self { root, ..parser.schema };
        if !schema.is_object(root) {
            let problem = "is Avro whose values are no records".into();
            return Err(Trouble::Refused { problem, hint: "write records; each of them becomes a document".into() });
        }
        Ok(schema)
    }

    /// Whether all values of a type become objects.
    fn is_object(&self, of: Type) -> bool {
        match of {
            Type::Record(_) | Type::Map(_) => true,
            // A union holds no other one.
            Type::Union(union) => {
                let branches = &self.unions[union];
                !branches.is_empty() && branches.iter().all(|branch| self.is_object(*branch))
            }
            Type::Scalar(_) | Type::Enum(_) | Type::Array(_) => false,
        }
    }
}

/// Reads a schema. The parser of JSON bounds how deep it nests.
struct Parser {
    schema: Schema,
    /// The types that have names.
    names: HashMap<String, Type>,
}

impl Parser {
    /// A type, within a space of names.
    fn read(&mut self, value: &Value, space: &str) -> Result<Type, Trouble> {
        match value {
            Value::String(name) => self.named(name, space),
            Value::Array(branches) => self.union(branches, space),
            Value::Object(object) => self.described(object, space),
            _ => Err(wrong("a type is neither a name nor an object nor a union")),
        }
    }

    fn described(&mut self, object: &Map<String, Value>, space: &str) -> Result<Type, Trouble> {
        let kind = match object.get("type") {
            Some(Value::String(kind)) => kind,
            Some(inner @ (Value::Object(_) | Value::Array(_))) => return self.read(inner, space),
            _ => return Err(wrong("an object describes no type")),
        };
        let part =
            |name: &str| object.get(name).ok_or_else(|| wrong(&format!("a type of the kind {kind:.8} has no {name}")));
        match kind.as_str() {
            "record" | "error" => self.record(object, part("fields")?, space),
            "enum" => {
                let symbols = part("symbols")?.as_array().ok_or_else(|| wrong("the symbols of an enum are no list"))?;
                let symbols = symbols.iter().map(symbol).collect::<Result<_, _>>()?;
                self.schema.enums.push(symbols);
                let of = Type::Enum(self.schema.enums.len() - 1);
                self.define(object, space, of);
                Ok(of)
            }
            "array" => Ok(Type::Array(self.item(part("items")?, space)?)),
            "map" => Ok(Type::Map(self.item(part("values")?, space)?)),
            "fixed" => {
                let size = whole(part("size")?).and_then(|size| usize::try_from(size).ok());
                let size = size.ok_or_else(|| wrong("the size of a fixed is no length"))?;
                let of = annotated(Type::Scalar(Scalar::Bytes(Some(size))), object);
                self.define(object, space, of);
                Ok(of)
            }
            name => Ok(annotated(self.named(name, space)?, object)),
        }
    }

    fn record(&mut self, object: &Map<String, Value>, fields: &Value, space: &str) -> Result<Type, Trouble> {
        let number = self.schema.records.len();
        self.schema.records.push(Vec::new());
        // Its fields may hold it.
        let space = self.define(object, space, Type::Record(number));
        let fields = fields.as_array().ok_or_else(|| wrong("the fields of a record are no list"))?;
        let (mut names, mut read) = (HashSet::new(), Vec::with_capacity(fields.len()));
        for field in fields {
            let name = field.get("name").and_then(Value::as_str).ok_or_else(|| wrong("a field has no name"))?;
            let of = field.get("type").ok_or_else(|| wrong("a field has no type"))?;
            if !names.insert(name) {
                let problem = format!("has a record with two fields of the same name, {}", shown(name));
                return Err(Trouble::Refused { problem, hint: "rename one of them where the file is written".into() });
            }
            let mut opens = vec![if read.is_empty() { b'{' } else { b',' }];
            json(&mut opens, name);
            opens.push(b':');
            read.push(Field { name: name.to_owned(), opens, of: self.read(of, &space)? });
        }
        self.schema.records[number] = read;
        Ok(Type::Record(number))
    }

    /// The place of the type of items.
    fn item(&mut self, value: &Value, space: &str) -> Result<usize, Trouble> {
        let of = self.read(value, space)?;
        self.schema.items.push(of);
        Ok(self.schema.items.len() - 1)
    }

    fn union(&mut self, branches: &[Value], space: &str) -> Result<Type, Trouble> {
        let mut read = Vec::with_capacity(branches.len());
        for branch in branches {
            match self.read(branch, space)? {
                Type::Union(_) => return Err(wrong("a union holds a union")),
                of => read.push(of),
            }
        }
        self.schema.unions.push(read);
        Ok(Type::Union(self.schema.unions.len() - 1))
    }

    /// Keeps a type under its name. Returns the space of the names within it.
    fn define(&mut self, object: &Map<String, Value>, space: &str, of: Type) -> String {
        let text = |name: &str| object.get(name).and_then(Value::as_str);
        let Some(name) = text("name") else { return space.to_owned() };
        let (space, name) = name.rsplit_once('.').unwrap_or((text("namespace").unwrap_or(space), name));
        self.names.insert(full(space, name), of);
        space.to_owned()
    }

    /// The type of this name. One that the space does not have may be of no space.
    fn named(&self, name: &str, space: &str) -> Result<Type, Trouble> {
        let scalar = match name {
            "null" => Scalar::Null,
            "boolean" => Scalar::Boolean,
            "int" => Scalar::Int,
            "long" => Scalar::Long,
            "float" => Scalar::Float,
            "double" => Scalar::Double,
            "bytes" => Scalar::Bytes(None),
            "string" => Scalar::Text,
            _ => {
                let (space, own) = name.rsplit_once('.').unwrap_or((space, name));
                let found = self.names.get(&full(space, own)).or_else(|| self.names.get(name));
                return found.copied().ok_or_else(|| wrong(&format!("there is no type {}", shown(name))));
            }
        };
        Ok(Type::Scalar(scalar))
    }
}

/// The type with what it means. As Avro asks, a meaning that is not known or does not fit changes nothing.
fn annotated(of: Type, object: &Map<String, Value>) -> Type {
    let (Type::Scalar(scalar), Some(meaning)) = (of, object.get("logicalType").and_then(Value::as_str)) else {
        return of;
    };
    let time = |a_second: i64, is_instant: bool| Scalar::Timestamp { a_second, is_instant };
    Type::Scalar(match (scalar, meaning) {
        (Scalar::Int, "date") => Scalar::Date,
        (Scalar::Int, "time-millis") => Scalar::TimeMillis,
        (Scalar::Long, "time-micros") => Scalar::TimeMicros,
        (Scalar::Long, "timestamp-millis") => time(MILLISECONDS, true),
        (Scalar::Long, "timestamp-micros") => time(MICROSECONDS, true),
        (Scalar::Long, "timestamp-nanos") => time(NANOSECONDS, true),
        (Scalar::Long, "local-timestamp-millis") => time(MILLISECONDS, false),
        (Scalar::Long, "local-timestamp-micros") => time(MICROSECONDS, false),
        (Scalar::Long, "local-timestamp-nanos") => time(NANOSECONDS, false),
        (Scalar::Text, "uuid") => Scalar::UuidText,
        (Scalar::Bytes(Some(UUID_BYTES)), "uuid") => Scalar::Uuid,
        (Scalar::Bytes(Some(SPAN_BYTES)), "duration") => Scalar::Span,
        (Scalar::Bytes(size), "decimal") => match scale(object) {
            Some(scale) => Scalar::Decimal { size, scale },
            None => scalar,
        },
        _ => scalar,
    })
}

/// The scale of a decimal, if its precision allows it.
fn scale(object: &Map<String, Value>) -> Option<u16> {
    let precision = whole(object.get("precision")?)?;
    let scale = object.get("scale").map_or(Some(0), whole)?;
    u16::try_from(scale).ok().filter(|_| precision > 0 && scale <= precision)
}

/// A whole number. Old writers put it into a string.
fn whole(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

/// A symbol of an enumeration, as a string of JSON.
fn symbol(value: &Value) -> Result<Vec<u8>, Trouble> {
    let name = value.as_str().ok_or_else(|| wrong("a symbol of an enum is no string"))?;
    let mut text = Vec::with_capacity(name.len() + 2);
    json(&mut text, name);
    Ok(text)
}

/// A name with its space.
fn full(space: &str, name: &str) -> String {
    if space.is_empty() { name.to_owned() } else { format!("{space}.{name}") }
}

/// A name, as far as a message shows it.
fn shown(name: &str) -> String {
    format!("{:?}", name.chars().take(NAME_CHARACTERS_SHOWN).collect::<String>())
}

fn wrong(why: &str) -> Trouble {
    Trouble::Damaged(format!("its schema cannot be read: {why}"))
}
