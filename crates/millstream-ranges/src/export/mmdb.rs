//! MaxMind's database format: a tree of prefixes that its many readers look up.

use super::{Export, ExportOptions, braced, failed, unfit};
use crate::column_type::ColumnType;
use crate::diff::answers;
use crate::error::Error;
use crate::limits::VALUE_BYTES_MAX;
use crate::store::Generation;
use millstream_model::range::{Family, Range};
use mmdb_writer::ipnet::IpNet;
use mmdb_writer::{Ipv4Aliasing, Value, Writer};
use std::collections::HashMap;
use std::io::Write;

pub(super) const EXPORT: Export = Export {
    name: "mmdb",
    about: "a MaxMind database; members become typed values, null is left out",
    needs: "memory for the whole file, several times its size",
    write,
};

/// The last address of `::/96`, where a file keeps IPv4.
const IPV4_SPACE_LAST: u128 = 0xffff_ffff;

fn write(generation: &Generation, out: &mut dyn Write, options: &ExportOptions) -> Result<u64, Error> {
    // Without aliases of IPv4: a store answers 2002::/16 and the like by its own ranges.
    let mut writer = Writer::builder(options.name.as_str())
        .description(&[("en", "IP ranges, exported by Millstream")])
        .ipv4_aliasing(Ipv4Aliasing::Disabled)
        .build();
    let types: HashMap<&str, ColumnType> = generation.types().collect();
    let mut ranges = 0;
    for answer in answers(generation)? {
        let (range, members) = answer?;
        let Some(part) = outside_ipv4_space(range, options.without_ipv4_space)? else { continue };
        if members.len() > VALUE_BYTES_MAX {
            let problem = format!("its value has {} bytes, more than {VALUE_BYTES_MAX}", members.len());
            return Err(unfit(range, &problem, "export it as ndjson"));
        }
        let value: serde_json::Value = serde_json::from_str(&braced(&members))
            .map_err(|error| unfit(range, &format!("its value does not fit: {error}"), "export it as ndjson"))?;
        let value = typed(value, &types);
        for (address, length) in part.prefixes() {
            let length = u8::try_from(length).expect("a prefix has at most 128 bits");
            let network = IpNet::new(address, length).expect("a prefix is no longer than its address");
            writer.insert_value(network, value.clone()).map_err(refused)?;
        }
        ranges += 1;
    }
    writer.write_to(out).map_err(refused)?;
    Ok(ranges)
}

/// What of a range a file can hold beside IPv4; `None`: nothing.
fn outside_ipv4_space(range: Range, cut: bool) -> Result<Option<Range>, Error> {
    if range.family == Family::V4 || range.start > IPV4_SPACE_LAST {
        return Ok(Some(range));
    }
    if !cut {
        let problem = "it lies in ::/96, at least in part, which is where an .mmdb file keeps IPv4";
        return Err(unfit(range, problem, "leave these addresses out: --without-ipv4-space"));
    }
    Ok((range.end > IPV4_SPACE_LAST).then_some(Range { start: IPV4_SPACE_LAST + 1, ..range }))
}

/// The value of a range. Members that have a type get it.
fn typed(value: serde_json::Value, types: &HashMap<&str, ColumnType>) -> Value {
    let serde_json::Value::Object(members) = value else { return Value::map::<String, Value, _>([]) };
    let members = members.into_iter().filter_map(|(name, value)| {
        let wanted = types.get(name.as_str()).and_then(|kind| of_type(&value, *kind));
        Some((name, wanted.or_else(|| converted(value))?))
    });
    Value::Map(members.collect())
}

/// A number as a type says; `None` if there is nothing to choose, or if it is none.
fn of_type(value: &serde_json::Value, kind: ColumnType) -> Option<Value> {
    Some(match kind {
        ColumnType::Boolean | ColumnType::String => return None,
        ColumnType::Double => Value::Double(value.as_f64()?),
        ColumnType::Int32 => Value::I32(value.as_i64()?.try_into().ok()?),
        ColumnType::Uint16 => Value::U16(value.as_u64()?.try_into().ok()?),
        ColumnType::Uint32 => Value::U32(value.as_u64()?.try_into().ok()?),
        ColumnType::Uint64 => Value::U64(value.as_u64()?),
    })
}

/// The value with the narrowest integers that fit. The format has no null, and no integer below -2^31: such numbers
/// become doubles, as do those that are not integers.
fn converted(value: serde_json::Value) -> Option<Value> {
    use serde_json::Value as Json;
    Some(match value {
        Json::Null => return None,
        Json::Bool(value) => Value::Bool(value),
        Json::Number(number) => integer(&number).unwrap_or_else(|| Value::Double(number.as_f64().unwrap_or(f64::NAN))),
        Json::String(text) => Value::String(text),
        Json::Array(values) => Value::Array(values.into_iter().filter_map(converted).collect()),
        Json::Object(members) => {
            let members = members.into_iter().filter_map(|(name, value)| Some((name, converted(value)?)));
            Value::Map(members.collect())
        }
    })
}

fn integer(number: &serde_json::Number) -> Option<Value> {
    if let Some(number) = number.as_u64() {
        let narrow = u16::try_from(number).map(Value::U16).or_else(|_| u32::try_from(number).map(Value::U32));
        return Some(narrow.unwrap_or(Value::U64(number)));
    }
    i32::try_from(number.as_i64()?).ok().map(Value::I32)
}

fn refused(error: mmdb_writer::Error) -> Error {
    match error {
        mmdb_writer::Error::Io(error) => failed(error),
        error => Error::refused(error.to_string(), "export fewer ranges, or as ndjson"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::exported;
    use super::*;
    use maxminddb::Reader;
    use millstream_pg::Explained as _;
    use serde_json::json;
    use std::net::IpAddr;

    fn read(ranges: &[(&str, &str)], options: &ExportOptions) -> Reader<Vec<u8>> {
        let (bytes, _) = exported("mmdb", options, ranges).unwrap();
        let reader = Reader::from_source(bytes).unwrap();
        reader.verify().unwrap();
        reader
    }

    fn found(reader: &Reader<Vec<u8>>, address: IpAddr) -> Option<serde_json::Value> {
        reader.lookup(address).unwrap().decode().unwrap()
    }

    #[test]
    fn maxminddb_reads_every_kind_of_value() {
        let members = "\"n\":[0,65535,65536,4294967296,18446744073709551615,-1,-2147483648,-2147483649,1.5,1e3],\
                       \"none\":null,\"yes\":true,\"o\":{\"t\":\"\\u00e9\",\"z\":null,\"e\":[]}";
        let reader = read(&[("1.0.0.0-1.0.129.0", members), ("2001:db8::/32", "")], &ExportOptions::default());
        let expected = json!({
            "n": [0, 65535, 65536, 4_294_967_296_u64, u64::MAX, -1, i32::MIN, -2_147_483_649.0, 1.5, 1000.0],
            "yes": true,
            "o": {"t": "é", "e": []},
        });
        for (address, expected) in [
            ("0.255.255.255", None),
            ("1.0.0.0", Some(&expected)),
            ("1.0.77.1", Some(&expected)),
            ("1.0.129.0", Some(&expected)),
            ("1.0.129.1", None),
            ("2001:db7:ffff:ffff:ffff:ffff:ffff:ffff", None),
            ("2001:db8::1", Some(&json!({}))),
            ("2001:db9::", None),
            ("::ffff:1.0.0.0", None),
            ("2002:100::", None),
        ] {
            assert_eq!(found(&reader, address.parse().unwrap()).as_ref(), expected, "{address}");
        }
    }

    #[test]
    fn a_number_that_a_file_cannot_hold_is_named() {
        let error = exported("mmdb", &ExportOptions::default(), &[("1.0.0.0", "\"a\":1e400")]).unwrap_err();
        assert!(
            error.to_string().starts_with("1.0.0.0-1.0.0.0: its value does not fit: number out of range"),
            "{error}"
        );
        assert_eq!(error.hint().as_deref(), Some("export it as ndjson"));
    }

    #[test]
    fn integers_get_the_narrowest_type() {
        let of = |json: serde_json::Value| converted(json).unwrap();
        assert_eq!(of(json!(65535)), Value::U16(u16::MAX));
        assert_eq!(of(json!(65536)), Value::U32(65536));
        assert_eq!(of(json!(u64::from(u32::MAX) + 1)), Value::U64(1 << 32));
        assert_eq!(of(json!(-1)), Value::I32(-1));
        assert_eq!(of(json!(-4_294_967_296_i64)), Value::Double(-4_294_967_296.0));
        assert_eq!(of(json!(1.0)), Value::Double(1.0));
        assert_eq!(of(json!([null, {"a": null}])), Value::array([Value::map::<String, Value, _>([])]));
    }

    #[test]
    fn members_get_the_types_of_their_columns() {
        let types = [
            ("wide", ColumnType::Uint32),
            ("wider", ColumnType::Uint64),
            ("narrow", ColumnType::Uint16),
            ("signed", ColumnType::Int32),
            ("real", ColumnType::Double),
            ("text", ColumnType::String),
            ("odd", ColumnType::Uint16),
        ];
        let json = json!({
            "wide": 7, "wider": 7, "narrow": 7, "signed": 7, "real": 7.0, "text": "7", "odd": 65536, "plain": 7, "no": null,
        });
        let expected = Value::map([
            ("wide", Value::U32(7)),
            ("wider", Value::U64(7)),
            ("narrow", Value::U16(7)),
            ("signed", Value::I32(7)),
            ("real", Value::Double(7.0)),
            ("text", Value::String("7".into())),
            ("odd", Value::U32(65536)),
            ("plain", Value::U16(7)),
        ]);
        assert_eq!(typed(json, &HashMap::from(types)), expected);
    }

    #[test]
    fn ipv6_in_the_place_of_ipv4_is_refused_or_left_out() {
        let ranges = [("0.0.0.0-0.0.0.255", "\"a\":4"), ("::-1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "\"a\":6")];
        let error = exported("mmdb", &ExportOptions::default(), &ranges).unwrap_err();
        assert!(error.to_string().contains("it lies in ::/96, at least in part"), "{error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("out: --without-ipv4-space")));
        let options = ExportOptions { without_ipv4_space: true, ..ExportOptions::default() };
        let reader = read(&ranges, &options);
        for (address, expected) in [
            ("0.0.0.255", Some(json!({"a": 4}))),
            ("0.0.1.0", None),
            ("::1:0:0", Some(json!({"a": 6}))),
            ("1fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Some(json!({"a": 6}))),
            ("2000::", None),
        ] {
            assert_eq!(found(&reader, address.parse().unwrap()), expected, "{address}");
        }
        let inside = exported("mmdb", &options, &[("::5", "\"a\":6"), ("::1:0:0:0", "\"a\":7")]).unwrap();
        assert_eq!(inside.1, 1, "a range that is left out is not counted");
    }
}
