//! Random schemas of Avro, and random records of them.

use super::avro_file::{CODECS, packed};
use super::whole;
use crate::columns::AVRO;
use fastrand::Rng;
use millstream_testkit::Cases;
use millstream_testkit::avro::{block, header, number, sized};
use serde_json::{Value, json};

/// A type whose values are made.
enum Shape {
    Null,
    Boolean,
    Int,
    Long,
    Float,
    Double,
    Text,
    Bytes,
    Fixed(usize),
    Enum,
    Array(Box<Shape>),
    Map(Box<Shape>),
    Union(Vec<Shape>),
    Record(Vec<Shape>),
}

const SYMBOLS: [&str; 3] = ["A", "B", "C"];

impl Shape {
    fn random(rng: &mut Rng, levels: usize) -> Self {
        let inner = |rng: &mut Rng| Box::new(Self::random(rng, levels - 1));
        match rng.u8(..if levels > 0 { 14 } else { 10 }) {
            0 => Self::Null,
            1 => Self::Boolean,
            2 => Self::Int,
            3 => Self::Long,
            4 => Self::Float,
            5 => Self::Double,
            6 => Self::Text,
            7 => Self::Bytes,
            8 => Self::Fixed(rng.usize(..5)),
            9 => Self::Enum,
            10 => Self::Array(inner(rng)),
            11 => Self::Map(inner(rng)),
            12 => {
                let branch = |rng: &mut Rng| match Self::random(rng, levels - 1) {
                    Self::Union(_) => Self::Null,
                    other => other,
                };
                Self::Union((0..rng.usize(1..4)).map(|_| branch(rng)).collect())
            }
            _ => Self::record(rng, levels - 1),
        }
    }

    fn record(rng: &mut Rng, levels: usize) -> Self {
        Self::Record((0..rng.usize(..5)).map(|_| Self::random(rng, levels)).collect())
    }

    /// Its schema. Each name is used once.
    fn schema(&self, names: &mut usize) -> Value {
        *names += 1;
        let name = format!("n{names}");
        match self {
            Self::Null => json!("null"),
            Self::Boolean => json!("boolean"),
            Self::Int => json!({"type": "int"}),
            Self::Long => json!("long"),
            Self::Float => json!("float"),
            Self::Double => json!("double"),
            Self::Text => json!("string"),
            Self::Bytes => json!("bytes"),
            Self::Fixed(size) => json!({"type": "fixed", "name": name, "size": size}),
            Self::Enum => json!({"type": "enum", "name": name, "symbols": SYMBOLS}),
            Self::Array(items) => json!({"type": "array", "items": items.schema(names)}),
            Self::Map(values) => json!({"type": "map", "values": values.schema(names)}),
            Self::Union(branches) => branches.iter().map(|branch| branch.schema(names)).collect(),
            Self::Record(fields) => {
                let field = |(n, of): (usize, &Self)| json!({"name": format!("f{n}"), "type": of.schema(names)});
                let fields: Vec<Value> = fields.iter().enumerate().map(field).collect();
                json!({"type": "record", "name": name, "fields": fields})
            }
        }
    }

    /// Appends a value, and returns what it should become.
    fn value(&self, rng: &mut Rng, bytes: &mut Vec<u8>) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Boolean => {
                let value = rng.bool();
                bytes.push(value.into());
                value.into()
            }
            Self::Int => {
                let value = rng.i32(..);
                bytes.extend(number(value.into()));
                value.into()
            }
            Self::Long => {
                let value = rng.i64(..) >> rng.u8(..64);
                bytes.extend(number(value));
                value.into()
            }
            Self::Float => {
                let value = f32::from_bits(rng.u32(..));
                bytes.extend(value.to_le_bytes());
                // It has its own digits, and not those of its double.
                if value.is_finite() { serde_json::from_str(&json_text(&value)).unwrap() } else { Value::Null }
            }
            Self::Double => {
                let value = f64::from_bits(rng.u64(..));
                bytes.extend(value.to_le_bytes());
                value.into()
            }
            Self::Text => {
                let value: String = (0..rng.usize(..8))
                    .map(|_| *rng.choice(&['a', '"', '\n', 'é', '😀', '\0', '\u{1f}']).unwrap())
                    .collect();
                bytes.extend(sized(value.as_bytes()));
                value.into()
            }
            Self::Bytes => {
                let value: Vec<u8> = (0..rng.usize(..8)).map(|_| rng.u8(..)).collect();
                bytes.extend(sized(&value));
                base64(&value)
            }
            Self::Fixed(size) => {
                let value: Vec<u8> = (0..*size).map(|_| rng.u8(..)).collect();
                bytes.extend(&value);
                base64(&value)
            }
            Self::Enum => {
                let at = rng.usize(..SYMBOLS.len());
                bytes.extend(number(at.try_into().unwrap()));
                SYMBOLS[at].into()
            }
            Self::Array(items) => in_blocks(rng, bytes, |rng, bytes, _| items.value(rng, bytes)).into(),
            Self::Map(values) => {
                let all = in_blocks(rng, bytes, |rng, bytes, n| {
                    bytes.extend(sized(format!("k{n}").as_bytes()));
                    values.value(rng, bytes)
                });
                Value::Object(all.into_iter().enumerate().map(|(n, value)| (format!("k{n}"), value)).collect())
            }
            Self::Union(branches) => {
                let at = rng.usize(..branches.len());
                bytes.extend(number(at.try_into().unwrap()));
                branches[at].value(rng, bytes)
            }
            Self::Record(fields) => {
                let field = |(n, of): (usize, &Self)| (format!("f{n}"), of.value(rng, bytes));
                Value::Object(fields.iter().enumerate().map(field).collect())
            }
        }
    }
}

/// Appends items in blocks, of which some say how many bytes they have.
fn in_blocks(
    rng: &mut Rng,
    bytes: &mut Vec<u8>,
    mut item: impl FnMut(&mut Rng, &mut Vec<u8>, usize) -> Value,
) -> Vec<Value> {
    let mut all = Vec::new();
    for _ in 0..rng.usize(..3) {
        let (count, mut items) = (rng.i64(1..4), Vec::new());
        for _ in 0..count {
            let value = item(rng, &mut items, all.len());
            all.push(value);
        }
        if rng.bool() {
            bytes.extend([number(-count), sized(&items)].concat());
        } else {
            bytes.extend([number(count), items].concat());
        }
    }
    bytes.extend(number(0));
    all
}

fn base64(value: &[u8]) -> Value {
    let mut text = Vec::new();
    crate::spelling::bytes(&mut text, value);
    serde_json::from_slice(&text).unwrap()
}

fn json_text(value: &f32) -> String {
    serde_json::to_string(value).unwrap()
}

#[test]
fn random_records_are_what_their_schemas_say() {
    for mut rng in Cases::new(500) {
        let shape = Shape::record(&mut rng, 3);
        let schema = shape.schema(&mut 0).to_string();
        let codec = *rng.choice(&CODECS).unwrap();
        let (mut content, mut expected) = (header(&schema, codec), Vec::new());
        for _ in 0..rng.usize(..4) {
            let (count, mut records) = (rng.i64(0..5), Vec::new());
            expected.extend((0..count).map(|_| shape.value(&mut rng, &mut records)));
            content.extend(block(count, &packed(codec, &records)));
        }
        let text = whole(AVRO, &content);
        let found: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(found, expected, "{codec} {schema}");
    }
}
