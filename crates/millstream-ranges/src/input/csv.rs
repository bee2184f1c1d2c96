//! Comma-separated values: the range in one or two columns, the others as members.

use super::columns::{Columns, RangeColumns};
use super::join::Join;
use super::members::{Member, fitting};
use super::records::Records;
use super::{Format, Header, Input, InputOptions, Read, so_far};
use crate::column_type::ColumnTypes;
use crate::error::Error;
use crate::limits::JOIN_BYTES_MAX;
use millstream_input::Window;
use millstream_model::range::{AddressReading, Range};
use std::sync::Arc;

/// The format's entry in the list.
pub(super) const FORMAT: Format = Format {
    name: "csv",
    about: "comma-separated values (RFC 4180), with a header line unless you say otherwise; values without a type are \
            strings",
    open: |window, options| open(window, options, b','),
};

/// Reads records. The delimiter is used if the options name none.
pub(super) fn open(window: Window, options: &InputOptions, delimiter: u8) -> Result<Box<dyn Input>, Error> {
    let delimiter = options.delimiter.unwrap_or(delimiter);
    let mut records = Records::new(window, delimiter)?;
    if !records.read()? {
        let (members, types) = (Vec::new(), ColumnTypes::new());
        let nothing = Layout { columns: 0, place: RangeColumns::One(0), members, types, join: None };
        return Ok(Box::new(Csv { records, layout: nothing, reading: options.reading, is_read: false }));
    }
    let layout = Layout::of(&records, options, delimiter)?;
    records.expect(layout.columns);
    Ok(Box::new(Csv { records, layout, reading: options.reading, is_read: options.header != Header::Record }))
}

/// Records of a file.
struct Csv {
    records: Records,
    layout: Layout,
    reading: AddressReading,
    /// Whether the next record was read already: the first, if the file has no header.
    is_read: bool,
}

/// What the columns are.
struct Layout {
    /// How many there are.
    columns: usize,
    place: RangeColumns,
    members: Vec<Member>,
    /// Types of members, also of those that are joined.
    types: ColumnTypes,
    /// The column that is looked up, and where.
    join: Option<(usize, Arc<Join>)>,
}

impl Layout {
    /// The layout of a file whose first record was read.
    fn of(records: &Records, options: &InputOptions, delimiter: u8) -> Result<Self, Error> {
        let fields = records.fields().and_then(|fields| fields.all()).map_err(|problem| records.failed(&problem))?;
        let names = match &options.header {
            Header::Record => fields.iter().map(|name| name.trim().to_owned()).collect(),
            Header::Absent => (1..=fields.len()).map(|number| number.to_string()).collect(),
            Header::Names(names) if names.len() == fields.len() => names.clone(),
            Header::Names(names) => return Err(unlike_header(records, fields.len(), names.len())),
        };
        let columns = Columns { source: records.window().name().to_owned(), kind: "column", names };
        let is_nameless = options.header == Header::Absent && options.range.is_empty();
        let place = match fields[..] {
            // Without names, the range is at the beginning.
            [first, _, ..] if is_nameless && !first.contains(['/', '-']) => RangeColumns::Two(0, 1),
            _ if is_nameless => RangeColumns::One(0),
            _ => columns.place(&options.range).map_err(|error| without_header(error, &fields, options))?,
        };
        let keep = &options.keep;
        let is_kept = |column: usize| keep.iter().any(|name| columns.column(name) == Some(column));
        let wanted = |column: usize| if keep.is_empty() { !place.holds(column) } else { is_kept(column) };
        let mut members = columns.members(wanted)?;
        let mut types = columns.set_types(&mut members, &options.types)?;
        let join = match &options.join {
            Some(join) => {
                let taken: Vec<&str> = members.iter().map(|member| columns.names[member.column].as_str()).collect();
                let column = columns.named(&join.column, "--join FILE:COLUMN")?;
                Some((column, join.read(delimiter, options, &taken, JOIN_BYTES_MAX)?))
            }
            None => None,
        };
        let joined = join.as_ref().map(|(_, join)| &**join);
        let is_joined = |name: &str| joined.is_some_and(|join| join.columns.column(name).is_some());
        for name in keep.iter().filter(|name| !is_joined(name)) {
            columns.named(name, "--keep COLUMN,..")?;
        }
        types.extend(joined.iter().flat_map(|join| join.types.clone()));
        let is_typed = |columns: &Columns, name: &str| {
            columns.column(name).is_some_and(|column| types.contains_key(&columns.names[column]))
        };
        for (name, _) in &options.types {
            if !is_typed(&columns, name) && !joined.is_some_and(|join| is_typed(&join.columns, name)) {
                return Err(columns.untyped(name, joined.map_or(&[][..], |join| &join.columns.names)));
            }
        }
        Ok(Self { columns: fields.len(), place, members, types, join })
    }
}

/// The error of names that are not as many as the fields of the first record.
fn unlike_header(records: &Records, fields: usize, names: usize) -> Error {
    let (source, line) = (records.window().name(), records.line());
    let problem = format!("{source}: line {line}: the number of fields is {fields}, and --header names {names}");
    let hint = "name every column, in order, or choose another --delimiter";
    Error::refused(problem, hint)
}

/// The way out if the columns were not found because the first record is not a header.
fn without_header(error: Error, fields: &[&str], options: &InputOptions) -> Error {
    let is_data =
        options.header == Header::Record && fields.iter().any(|field| Range::parse(field, options.reading).is_ok());
    match error {
        Error::Refused(refusal) if is_data => {
            let hint = "add --no-header or --header NAMES: the first record holds an address and is not a header";
            Error::Refused(refusal.hint(hint))
        }
        error => error,
    }
}

impl Csv {
    /// The range and the members of the record that was read.
    fn entry(&self, members: &mut String) -> Result<Range, String> {
        let Layout { columns, place, members: wanted, join, .. } = &self.layout;
        let fields = self.records.fields()?;
        if fields.len() != *columns {
            return Err(format!("the number of fields is {}, and not {columns}", fields.len()));
        }
        let range = match *place {
            RangeColumns::One(column) => Range::parse(fields.field(column)?, self.reading)?,
            RangeColumns::Two(first, last) => {
                Range::parse_pair(fields.field(first)?, fields.field(last)?, self.reading)?
            }
        };
        for member in wanted {
            member.put(fields.field(member.column)?, fields.is_plain, members)?;
        }
        if let Some((column, join)) = join {
            join.put(fields.field(*column)?, members);
        }
        fitting(range, members)
    }
}

impl Input for Csv {
    fn next(&mut self, members: &mut String) -> Result<Option<Read>, Error> {
        members.clear();
        if !std::mem::take(&mut self.is_read) && !self.records.read()? {
            return Ok(None);
        }
        let range = self.entry(members).map_err(|reason| {
            members.clear();
            self.records.rejected(reason)
        });
        Ok(Some(Read { line: self.records.line(), range }))
    }

    fn name(&self) -> &str {
        self.records.window().name()
    }

    fn progress(&self) -> (u64, Option<u64>) {
        so_far(self.records.window())
    }

    fn types(&self) -> ColumnTypes {
        self.layout.types.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::super::transcript::{read, read_named};
    use super::*;
    use crate::column_type::ColumnType;
    use crate::limits::{LINE_BYTES_MAX, VALUE_BYTES_MAX};
    use millstream_model::range::Family;
    use millstream_pg::Explained as _;

    fn options(range: &[&str], keep: &[&str], header: bool) -> InputOptions {
        let owned = |names: &[&str]| names.iter().copied().map(str::to_owned).collect();
        let header = if header { Header::Record } else { Header::Absent };
        InputOptions { range: owned(range), keep: owned(keep), header, ..InputOptions::default() }
    }

    fn lines(content: &str, options: &InputOptions) -> Vec<String> {
        read("csv", content.as_bytes(), options).unwrap()
    }

    fn error(content: &str, options: &InputOptions) -> Error {
        read("csv", content.as_bytes(), options).unwrap_err()
    }

    #[test]
    fn columns_become_ranges_and_members() {
        let by_name = options(&[], &[], true);
        assert_eq!(
            lines(
                "start_ip,end_ip,country,city\n1.0.0.0,1.0.0.255,AU,\n::1,::2,FR,Paris\n3.0.0.0,3.0.0.0,,\n",
                &by_name
            ),
            [
                "2 1.0.0.0-1.0.0.255 \"country\":\"AU\"",
                "3 ::1-::2 \"country\":\"FR\",\"city\":\"Paris\"",
                "4 3.0.0.0-3.0.0.0 ",
            ]
        );
        assert_eq!(lines(" cc , Network \r\nAU, 1.0.0.0/24 \r\n", &by_name), ["2 1.0.0.0-1.0.0.255 \"cc\":\"AU\""]);
        assert_eq!(lines("a,ip_range,b\nx,1.0.0.0-1.0.0.9,y", &by_name), ["2 1.0.0.0-1.0.0.9 \"a\":\"x\",\"b\":\"y\""]);
        assert_eq!(lines("ip\n1.2.3.4\n", &by_name), ["2 1.2.3.4-1.2.3.4 "]);
    }

    #[test]
    fn the_user_chooses_columns() {
        let content = "id,from_ip,end,cc\n7,1.0.0.0,1.0.0.9,AU\n";
        let range = ["from_ip", "end"];
        assert_eq!(lines(content, &options(&range, &[], true)), ["2 1.0.0.0-1.0.0.9 \"id\":\"7\",\"cc\":\"AU\""]);
        assert_eq!(lines(content, &options(&range, &["cc"], true)), ["2 1.0.0.0-1.0.0.9 \"cc\":\"AU\""]);
        // The order is that of the columns, and a column of the range can be kept too.
        assert_eq!(
            lines(content, &options(&range, &["cc", "from_ip"], true)),
            ["2 1.0.0.0-1.0.0.9 \"from_ip\":\"1.0.0.0\",\"cc\":\"AU\""]
        );
        assert_eq!(lines(content, &options(&["from_ip"], &["id"], true)), ["2 1.0.0.0-1.0.0.0 \"id\":\"7\""]);
    }

    #[test]
    fn columns_that_are_missing_or_not_allowed_are_errors() {
        let content = "id,from_ip,end,cc\n7,1.0.0.0,1.0.0.9,AU\n";
        for (options, problem, hint) in [
            (options(&[], &[], true), "no column has a usual name for a range", "choose with --range COLUMN[,COLUMN]"),
            (options(&["from_ip", "to"], &[], true), "no column \"to\"", "choose with --range COLUMN[,COLUMN]"),
            (options(&["from_ip"], &[], true), "the member \"end\" is the store's own", "choose with --keep COLUMN,.."),
            (options(&["from_ip"], &["name"], true), "no column \"name\"", "choose with --keep COLUMN,.."),
            (options(&["from_ip", "end"], &["end"], true), "store's own", "choose with --keep COLUMN,.."),
        ] {
            let error = error(content, &options);
            assert!(error.to_string().contains(problem), "{error}");
            assert!(error.to_string().ends_with("its columns are \"id\", \"from_ip\", \"end\", \"cc\""), "{error}");
            assert_eq!(error.hint().as_deref(), Some(hint));
        }
        let twice = error("ip,a,a\n", &options(&[], &[], true));
        assert!(twice.to_string().contains("there are two columns \"a\""), "{twice}");
        assert_eq!(lines("ip,a,a,b\n1.2.3.4,1,2,3\n", &options(&[], &["b"], true)), ["2 1.2.3.4-1.2.3.4 \"b\":\"3\""]);
        assert!(error("ip,\u{0},\n", &options(&[], &[], true)).to_string().contains("number 3 has no name"));
        let data = error("1.0.0.0,1.0.0.9,AU\n", &options(&[], &[], true));
        assert!(data.hint().unwrap().starts_with("add --no-header"), "{data}");
        let bytes = read("csv", b"ip,\xff\n", &options(&[], &[], true)).unwrap_err().to_string();
        assert!(bytes.ends_with("line 1: the record is not UTF-8"), "{bytes}");
    }

    #[test]
    fn dirty_records_become_rejects_with_line_and_reason() {
        let content = "start,end,cc\n\
                       154.17.129.024,154.17.129.255,US\n\
                       1.2.3.9,0.0.0.0,AU\n\
                       1.2.3.4,::1,AU\n\
                       \n\
                       1.2.3.4\n\
                       1.0.0.0,1.0.0.9,AU,more\n\
                       0x1234567,1.2.3.4,\"A\nU\"\n\
                       ,,\n\
                       1.2.3.4,1.2.3.5,a\0b\n\
                       fe80::1%eth0,fe80::2%eth0,ok\n";
        assert_eq!(
            lines(content, &options(&[], &[], true)),
            [
                "2 ! 154.17.129.024 has an octet with a leading zero, 024 | 154.17.129.024,154.17.129.255,US",
                "3 ! the last address 0.0.0.0 is before the first, 1.2.3.9 | 1.2.3.9,0.0.0.0,AU",
                "4 ! 1.2.3.4 and ::1 are of two families | 1.2.3.4,::1,AU",
                "6 ! the number of fields is 1, and not 3 | 1.2.3.4",
                "7 ! the number of fields is 4, and not 3 | 1.0.0.0,1.0.0.9,AU,more",
                "8 ! \"0x1234567\" is not an IP address; it holds 2 lines | 0x1234567,1.2.3.4,\"A\nU\"",
                "10 ! the address is empty | ,,",
                "11 ! a string holds \\u0000, which jsonb cannot hold | 1.2.3.4,1.2.3.5,a\0b",
                "12 fe80::1-fe80::2 \"cc\":\"ok\"",
            ]
        );
    }

    #[test]
    fn quotation_marks_and_line_ends_within_them_are_read() {
        let content = "network,name\r\n\r\n1.0.0.0/24,\"two\r\nlines\"\r\n2.0.0.0/24,\"say \"\"so\"\"\"\r\n\
                       3.0.0.0/24,a\"b\n4.0.0.0/24,back\\slash\n5.0.0.0/24,last";
        assert_eq!(
            lines(content, &options(&[], &[], true)),
            [
                "3 1.0.0.0-1.0.0.255 \"name\":\"two\\r\\nlines\"",
                "5 2.0.0.0-2.0.0.255 \"name\":\"say \\\"so\\\"\"",
                "6 3.0.0.0-3.0.0.255 \"name\":\"a\\\"b\"",
                "7 4.0.0.0-4.0.0.255 \"name\":\"back\\\\slash\"",
                "8 5.0.0.0-5.0.0.255 \"name\":\"last\"",
            ]
        );
        let strays =
            "ip,a\n1.0.0.0,\"open\n2.0.0.0,b\n3.0.0.0,c\"d\n4.0.0.0,\"20\" pipe\n\u{feff}ip,a\n5.0.0.0,20\" \rpipe\r\n";
        assert_eq!(
            lines(strays, &options(&[], &[], true)),
            [
                "2 1.0.0.0-1.0.0.0 \"a\":\"\\\"open\"",
                "3 2.0.0.0-2.0.0.0 \"a\":\"b\"",
                "4 3.0.0.0-3.0.0.0 \"a\":\"c\\\"d\"",
                "5 4.0.0.0-4.0.0.0 \"a\":\"\\\"20\\\" pipe\"",
                "6 ! the record begins with a byte order mark, as the header of a joined file does; give the files \
                 without joining them | \u{feff}ip,a",
                "7 5.0.0.0-5.0.0.0 \"a\":\"20\\\" \\rpipe\"",
            ]
        );
        let open = "ip,a\n1.2.3.4,\"b\n1.2.3.5,\"c,d\n1.2.3.6,e,\"f\ng\"\n";
        assert_eq!(
            lines(open, &options(&[], &[], true)),
            [
                "2 1.2.3.4-1.2.3.4 \"a\":\"\\\"b\"",
                "3 ! field 2 has an open quote; write a quote within quotes twice | 1.2.3.5,\"c,d",
                "4 ! the number of fields is 3, and not 2; it holds 2 lines | 1.2.3.6,e,\"f\ng\"",
            ]
        );
        assert!(error("ip,a\n1.2.3.4,\"b", &options(&[], &[], true)).to_string().contains("never closed"));
    }

    #[test]
    fn files_without_records_are_empty() {
        for content in ["", "\u{feff}", "\n\r\n", "ip,a", "ip,a\n", "\u{feff}ip,a\r\n"] {
            assert!(lines(content, &options(&[], &[], true)).is_empty(), "{content:?}");
        }
        assert!(lines("\n", &options(&[], &[], false)).is_empty());
    }

    #[test]
    fn without_a_header_the_range_comes_first_and_columns_have_numbers() {
        let numbered = options(&[], &[], false);
        assert_eq!(
            lines("1.0.0.0,1.0.0.255,AU\n2.0.0.0,2.0.0.1,FR\n", &numbered),
            ["1 1.0.0.0-1.0.0.255 \"3\":\"AU\"", "2 2.0.0.0-2.0.0.1 \"3\":\"FR\""]
        );
        assert_eq!(lines("1.0.0.0/24,AU\n", &numbered), ["1 1.0.0.0-1.0.0.255 \"2\":\"AU\""]);
        assert_eq!(lines("\u{feff}::1-::2,AU\n", &numbered), ["1 ::1-::2 \"2\":\"AU\""]);
        assert_eq!(lines("1.2.3.4\n", &numbered), ["1 1.2.3.4-1.2.3.4 "]);
        assert_eq!(
            lines("AU,1.0.0.0,1.0.0.255\n", &options(&["2", "3"], &[], false)),
            ["1 1.0.0.0-1.0.0.255 \"1\":\"AU\""]
        );
        assert!(error("1.0.0.0,1.0.0.1\n", &options(&["2", "3"], &[], false)).to_string().contains("no column \"3\""));
    }

    #[test]
    fn columns_without_a_header_can_have_names() {
        let named = |names: &[&str]| InputOptions {
            header: Header::Names(names.iter().copied().map(str::to_owned).collect()),
            ..InputOptions::default()
        };
        let content = "1.0.0.0,1.0.0.255,AU\n2.0.0.0,2.0.0.1,FR\n";
        assert_eq!(
            lines(content, &named(&["start", "end", "country"])),
            ["1 1.0.0.0-1.0.0.255 \"country\":\"AU\"", "2 2.0.0.0-2.0.0.1 \"country\":\"FR\""]
        );
        let chosen = InputOptions { range: vec!["a".into(), "b".into()], ..named(&["a", "b", "cc"]) };
        assert_eq!(lines(content, &chosen)[1], "2 2.0.0.0-2.0.0.1 \"cc\":\"FR\"");
        let unlike = error(content, &named(&["start", "end"]));
        assert!(unlike.to_string().ends_with("line 1: the number of fields is 3, and --header names 2"), "{unlike}");
        assert_eq!(unlike.hint().unwrap(), "name every column, in order, or choose another --delimiter");
        let unclear = error(content, &named(&["a", "b", "c"]));
        assert!(unclear.to_string().contains("no column has a usual name for a range"), "{unclear}");
        assert_eq!(unclear.hint().unwrap(), "choose with --range COLUMN[,COLUMN]");
        let twice = error(content, &named(&["start", "end", "end"]));
        assert!(twice.to_string().contains("no column has a usual name for a range"), "{twice}");
        assert!(lines("", &named(&["start", "end"])).is_empty());
    }

    #[test]
    fn values_get_the_types_of_their_columns() {
        let typed = |types: &[&str], options: InputOptions| InputOptions {
            types: types.iter().map(|text| ColumnType::parse_named(text).unwrap()).collect(),
            ..options
        };
        let all = || options(&[], &[], true);
        let content =
            "ip,ASN,lat,name\n1.0.0.0,64512,-33.80,7\n1.0.0.1,AS7,1,x\n1.0.0.2,,\" \",\n1.0.0.3,4294967296,1,\n";
        assert_eq!(
            lines(content, &typed(&["asn=uint32", "lat=double", "name=string"], all())),
            [
                "2 1.0.0.0-1.0.0.0 \"ASN\":64512,\"lat\":-33.8,\"name\":\"7\"",
                "3 ! \"AS7\" in the column \"ASN\" is not of the type uint32: a whole number from 0 to 4294967295 | \
                 1.0.0.1,AS7,1,x",
                "4 1.0.0.2-1.0.0.2 ",
                "5 ! \"4294967296\" in the column \"ASN\" is not of the type uint32: a whole number from 0 to 4294967295 | \
                 1.0.0.3,4294967296,1,",
            ]
        );
        for (types, keep, problem) in [
            (&["lta=uint32"][..], &[][..], "there is no column \"lta\": did you mean \"lat\"?"),
            (&["latitude=double"], &[], "there is no column \"latitude\", or several; its"),
            (&["ip=string"], &[], "the column \"ip\" is not part of the value, so it has no type"),
            (&["lat=double"], &["ASN"], "the column \"lat\" is not part of the value, so it has no type"),
            (&["asn=uint32", "ASN=uint64"], &[], "the column \"ASN\" gets two types"),
        ] {
            let refused = error(content, &typed(types, options(&[], keep, true)));
            assert!(refused.to_string().contains(problem), "{refused}");
            assert!(refused.to_string().ends_with("its columns are \"ip\", \"ASN\", \"lat\", \"name\""), "{refused}");
            assert_eq!(refused.hint().unwrap(), "choose with --types COLUMN=TYPE,..");
        }
        assert!(lines("", &typed(&["asn=uint32"], all())).is_empty());
    }

    #[test]
    fn a_column_holds_networks_ranges_and_addresses() {
        assert_eq!(
            lines(
                "cidr,n\n1.2.3.0/24,1\n1.2.4.7,2\n1.2.5.0-1.2.5.9,3\n2001:db8::/32,4\n1.2.3.4/24,5\n",
                &options(&[], &[], true)
            ),
            [
                "2 1.2.3.0-1.2.3.255 \"n\":\"1\"",
                "3 1.2.4.7-1.2.4.7 \"n\":\"2\"",
                "4 1.2.5.0-1.2.5.9 \"n\":\"3\"",
                "5 2001:db8::-2001:db8:ffff:ffff:ffff:ffff:ffff:ffff \"n\":\"4\"",
                "6 ! 1.2.3.4 has bits beyond /24; the network is 1.2.3.0/24 | 1.2.3.4/24,5",
            ]
        );
    }

    #[test]
    fn addresses_are_read_as_the_options_say() {
        let numbers = InputOptions {
            reading: AddressReading { numbers: Some(Family::V4), unmap: true },
            ..options(&[], &[], false)
        };
        assert_eq!(
            lines("16777216,16777471,AU\n::ffff:1.2.3.4,::ffff:1.2.3.5,FR\n", &numbers),
            ["1 1.0.0.0-1.0.0.255 \"3\":\"AU\"", "2 1.2.3.4-1.2.3.5 \"3\":\"FR\""]
        );
    }

    #[test]
    fn a_delimiter_can_be_chosen() {
        let semicolons = InputOptions { delimiter: Some(b';'), ..options(&[], &[], true) };
        assert_eq!(lines("ip;a\n1.2.3.4;b,c\n", &semicolons), ["2 1.2.3.4-1.2.3.4 \"a\":\"b,c\""]);
        let tabs = read_named("a.tsv", b"ip\ta\n1.2.3.4\tb,c\n", &InputOptions::default());
        assert_eq!(tabs.unwrap(), ["2 1.2.3.4-1.2.3.4 \"a\":\"b,c\""]);
    }

    #[test]
    fn long_values_and_records_are_rejects() {
        let value = "v".repeat(VALUE_BYTES_MAX);
        let record = "r".repeat(LINE_BYTES_MAX);
        let content = format!("ip,a\n1.2.3.4,{value}\n1.2.3.5,b\n1.2.3.6,\"{record}\"\n1.2.3.7,c\n");
        let lines = lines(&content, &options(&[], &[], true));
        assert_eq!(lines.len(), 4);
        assert!(lines[0].starts_with("2 ! its value would have "), "{}", &lines[0][..100]);
        assert!(lines[0].len() < 2_000 && lines[0].ends_with("vvv…"));
        assert_eq!(lines[1], "3 1.2.3.5-1.2.3.5 \"a\":\"b\"");
        assert!(lines[2].starts_with("4 ! the record has more than "), "{}", &lines[2][..100]);
        assert!(lines[2].len() < 2_000 && lines[2].ends_with("rrr…"));
        assert_eq!(lines[3], "5 1.2.3.7-1.2.3.7 \"a\":\"c\"");
    }
}
