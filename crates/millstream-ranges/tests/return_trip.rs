//! What is exported builds the same store again, and a MaxMind database answers as the store that it was made of.

use crate::dirty::DIRTY;
use crate::stored::{built_from, exported, known, stored};
use millstream_pg::Explained;
use millstream_ranges::export::ExportOptions;
use millstream_ranges::input::{InputOptions, MmdbFile};
use millstream_ranges::{BuildRequest, ColumnType, Error, Generation, braced, diff};
use millstream_testkit::Place;
use std::path::Path;

/// Whether all addresses get the same from a generation and from the current one of a store.
fn is_equal(generation: &Generation, store: &Path) -> bool {
    diff(generation, &Generation::open(store, None).unwrap(), &mut |_| Ok(())).unwrap().is_empty()
}

#[test]
fn what_is_exported_builds_the_same_store_again() {
    let place = Place::make();
    let generation = stored(place.path("geo"), &place.write("dirty.csv", DIRTY));
    let text =
        |format: &str, options: &ExportOptions| String::from_utf8(exported(&generation, format, options)).unwrap();
    for (format, cidr) in [("csv", false), ("csv", true), ("ndjson", false), ("mmdb", false)] {
        let options = ExportOptions { cidr, ..ExportOptions::default() };
        let file = place.write(&format!("out.{format}"), exported(&generation, format, &options));
        let mut request = BuildRequest::new(place.path(&format!("again {format} {cidr}")));
        request.merge = cidr;
        built_from(&request, &file, &InputOptions::default()).unwrap();
        assert!(is_equal(&generation, &request.store), "{format} {cidr}");
    }
    for (format, name, cidr, part) in [
        ("csv", "", false, "first,last,country\n1.0.0.0,1.0.129.0,AU\n"),
        ("csv", "", true, "network,country\n1.0.0.0/17,AU\n1.0.128.0/24,AU\n1.0.129.0/32,AU\n"),
        ("nftables", "geo", false, "add element inet geo v4 {\n\t1.0.0.0-1.0.129.0,\n"),
        ("sql", "geo.au", false, "\n127.0.0.1\t127.1.2.3\t{}\n"),
    ] {
        let options = ExportOptions { name: name.to_owned(), cidr, ..ExportOptions::default() };
        let text = text(format, &options);
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn typed_values_come_out_typed() {
    let place = Place::make();
    let file = place.write("typed.csv", "network,asn,lat\n1.0.0.0/24,64512,-33.80\n1.0.1.0/24,AS7,1\n");
    let types = ["asn=uint32", "lat=double"].map(|text| ColumnType::parse_named(text).unwrap()).to_vec();
    let options = InputOptions { types, ..InputOptions::default() };
    let [request, again] = ["geo", "again"].map(|name| BuildRequest::new(place.path(name)));
    let (receipt, rejects) = built_from(&request, &file, &options).unwrap();
    let problem = "\"AS7\" in the column \"asn\" is not of the type uint32: a whole number from 0 to 4294967295";
    assert_eq!(rejects.iter().map(|r| (r.line, r.reason.as_str())).collect::<Vec<_>>(), [(3, problem)]);
    let types = [("asn", ColumnType::Uint32), ("lat", ColumnType::Double)];
    assert!(receipt.types.iter().map(|(name, kind)| (name.as_str(), *kind)).eq(types));
    assert_eq!(known(&request.store, "1.0.0.7").as_deref(), Some("\"asn\":64512,\"lat\":-33.8"));
    let generation = Generation::open(&request.store, None).unwrap();
    let csv = place.write("out.csv", exported(&generation, "csv", &ExportOptions::default()));
    built_from(&again, &csv, &options).unwrap();
    assert!(is_equal(&generation, &again.store));
    let script = String::from_utf8(exported(&generation, "sql", &ExportOptions::default())).unwrap();
    assert!(script.contains("\"asn\" bigint generated always as ((doc ->> 'asn')::bigint) stored,\n"), "{script}");
}

#[test]
fn csv_there_and_back_invents_no_values() {
    let place = Place::make();
    let lines = [
        r#"{"start":"1.0.0.0","end":"1.0.0.9","a":null,"b":"","c":"null"}"#,
        r#"{"start":"1.0.1.0","end":"1.0.1.9","a":"x","b":"y","c":"say \"so\""}"#,
    ];
    let generation = stored(place.path("geo"), &place.write("values.ndjson", lines.join("\n")));
    let csv = place.write("values.csv", exported(&generation, "csv", &ExportOptions::default()));
    let again = place.path("again");
    drop(stored(again.clone(), &csv));
    assert_eq!(known(&again, "1.0.0.5").as_deref(), Some(r#""c":"null""#));
    assert_eq!(known(&again, "1.0.1.5").as_deref(), Some(r#""a":"x","b":"y","c":"say \"so\"""#));
}

#[test]
fn a_file_of_maxmind_answers_as_the_store_and_is_not_opened_as_one() {
    let place = Place::make();
    let file = place.write("a.csv", "network,cc\n1.0.0.0/24,AU\n2001:db8::/32,DE\n");
    let generation = stored(place.path("geo"), &file);
    let file = place.write("geo.mmdb", exported(&generation, "mmdb", &ExportOptions::default()));
    let opened = MmdbFile::open(&file).unwrap();
    for address in ["1.0.0.7", "2001:db8::1", "9.9.9.9", "::9"].map(|address| address.parse().unwrap()) {
        let found = generation.get(address).unwrap();
        let found = found.map(|found| (found.range, braced(&found.members().unwrap())));
        assert_eq!(opened.get(address).unwrap(), found, "{address}");
    }
    let refused = Generation::open(&file, None).unwrap_err();
    let says = "it is a MaxMind database";
    assert!(matches!(&refused, Error::NoStore { problem, .. } if problem == says), "{refused}");
    let hint = format!("build one of it: millstream ranges build STORE {}", file.display());
    assert_eq!(refused.hint(), Some(hint));
}
