//! CSV: a line for each range, a column for each member.

use super::{Export, ExportOptions, braced, damaged, failed, members, unfit};
use crate::error::Error;
use crate::limits::CSV_COLUMNS_MAX;
use crate::store::Generation;
use crate::value;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, Write};

pub(super) const EXPORT: Export = Export {
    name: "csv",
    about: "CSV with the columns first and last, or network, and one for each member",
    needs: "reads the store twice, because the columns come first",
    write,
};

/// The columns of the addresses.
const ADDRESSES: &[&str] = &["first", "last"];

/// The column of a network.
const NETWORK: &[&str] = &["network"];

fn write(generation: &Generation, out: &mut dyn Write, options: &ExportOptions) -> Result<u64, Error> {
    let place = if options.cidr { NETWORK } else { ADDRESSES };
    let columns = Columns::of(generation, place)?;
    let mut writer = ::csv::Writer::from_writer(out);
    let header = place.iter().copied().chain(columns.names.iter().map(String::as_str));
    writer.write_record(header).map_err(unwritten)?;
    let mut ranges = 0;
    for found in generation.ranges()? {
        let found = found?;
        let members = braced(&members(&found)?);
        let mut fields: Vec<Cow<'_, str>> = vec![Cow::Borrowed(""); columns.names.len()];
        for (name, value) in value::object(&members).map_err(|problem| damaged(found.range, &problem))? {
            fields[columns.places[&name]] = field(value);
        }
        let mut write = |place: &[String]| {
            let fields = fields.iter().map(|field| &**field);
            writer.write_record(place.iter().map(String::as_str).chain(fields)).map_err(unwritten)
        };
        if options.cidr {
            for (address, length) in found.range.prefixes() {
                write(&[format!("{address}/{length}")])?;
            }
        } else {
            write(&[found.range.first().to_string(), found.range.last().to_string()])?;
        }
        ranges += 1;
    }
    writer.flush().map_err(failed)?;
    Ok(ranges)
}

/// Members as columns, in the order in which they appear first.
#[derive(Default)]
struct Columns {
    names: Vec<String>,
    places: HashMap<String, usize>,
}

impl Columns {
    fn of(generation: &Generation, place: &[&str]) -> Result<Self, Error> {
        let mut columns = Self::default();
        for found in generation.ranges()? {
            let found = found?;
            let members = braced(&members(&found)?);
            for (name, _) in value::object(&members).map_err(|problem| damaged(found.range, &problem))? {
                if columns.places.contains_key(&name) {
                    continue;
                }
                if place.contains(&name.as_str()) {
                    let problem = format!("its member {name:?} has the name of a column of addresses");
                    return Err(unfit(found.range, &problem, "export it as sql or mmdb, where names cannot clash"));
                }
                if columns.names.len() == CSV_COLUMNS_MAX {
                    let problem = format!("with it, the ranges have more than {CSV_COLUMNS_MAX} different members");
                    return Err(unfit(found.range, &problem, "export them as ndjson"));
                }
                columns.places.insert(name.clone(), columns.names.len());
                columns.names.push(name);
            }
        }
        Ok(columns)
    }
}

/// A string as it is, everything else as JSON. So is a string with half a surrogate pair, which is not text. A null is no
/// text either, and the word would look like a string.
fn field(value: &RawValue) -> Cow<'_, str> {
    let json = value.get();
    if json == "null" {
        return Cow::Borrowed("");
    }
    let text = if json.starts_with('"') { serde_json::from_str(json).ok() } else { None };
    text.map_or(Cow::Borrowed(json), Cow::Owned)
}

fn unwritten(error: ::csv::Error) -> Error {
    failed(match error.into_kind() {
        ::csv::ErrorKind::Io(error) => error,
        kind => io::Error::other(format!("{kind:?}")),
    })
}

#[cfg(test)]
mod tests {
    use super::super::ExportOptions;
    use super::super::tests::{exported, text};

    #[test]
    fn columns_are_the_members_in_order_of_appearance() {
        let ranges = [
            ("1.0.0.0-1.0.0.9", "\"cc\":\"AU\",\"n\":1.50"),
            ("1.0.1.0", "\"city\":\"a \\\"b\\\", \\u00e9\",\"cc\":null"),
            ("2001:db8::/32", "\"tags\":[1, \"x\"],\"n\":true,\"half\":\"\\ud800\""),
            ("2001:db9::/32", ""),
        ];
        let expected = "first,last,cc,n,city,tags,half\n\
            1.0.0.0,1.0.0.9,AU,1.50,,,\n\
            1.0.1.0,1.0.1.0,,,\"a \"\"b\"\", é\",,\n\
            2001:db8::,2001:db8:ffff:ffff:ffff:ffff:ffff:ffff,,true,,\"[1, \"\"x\"\"]\",\"\"\"\\ud800\"\"\"\n\
            2001:db9::,2001:db9:ffff:ffff:ffff:ffff:ffff:ffff,,,,,\n";
        assert_eq!(text("csv", &ranges), expected);
    }

    #[test]
    fn networks_make_up_the_ranges_on_request() {
        let options = ExportOptions { cidr: true, ..ExportOptions::default() };
        let ranges =
            [("1.0.0.0-1.0.2.0", "\"cc\":\"AU\",\"first\":1"), ("1.2.3.4", ""), ("2001:db8::/32", "\"cc\":\"DE\"")];
        let (csv, written) = exported("csv", &options, &ranges).unwrap();
        let expected = "network,cc,first\n1.0.0.0/23,AU,1\n1.0.2.0/32,AU,1\n1.2.3.4/32,,\n2001:db8::/32,DE,\n";
        assert_eq!((String::from_utf8(csv).unwrap().as_str(), written), (expected, 3));
        let error = exported("csv", &options, &[("1.0.0.0", "\"network\":1")]).unwrap_err();
        assert!(error.to_string().contains("its member \"network\" has the name of a column of addresses"), "{error}");
    }

    #[test]
    fn a_member_with_the_name_of_an_address_column_is_refused() {
        let ranges = [("1.0.0.0", "\"a\":1"), ("1.0.0.1", "\"last\":1")];
        let error = exported("csv", &ExportOptions::default(), &ranges).unwrap_err();
        let says = "1.0.0.1-1.0.0.1: its member \"last\" has the name of a column of addresses";
        assert_eq!(error.to_string(), says);
    }
}
