//! Entries that cannot be used become rejects, and the others are stored.

use crate::dirty::DIRTY;
use crate::stored::{built_from, built_of, given, known, range};
use millstream_ranges::input::InputOptions;
use millstream_ranges::limits::LINE_BYTES_MAX;
use millstream_ranges::{AddressReading, BuildRequest, Error, Family, Generation, Reject, braced};
use millstream_testkit::Place;

/// What is wrong with lines of [`DIRTY`].
const WRONG: &[(u64, &str)] = &[
    (4, "154.17.129.024 has an octet with a leading zero, 024"),
    (5, "the last address 0.0.0.0 is before the first, 1.2.3.9"),
    (6, "1.2.3.4 and ::1 are of two families"),
    (8, "the number of fields is 1, and not 3"),
    (9, "\"0x01020304\" is not an IP address"),
];

#[test]
fn dirty_lines_become_rejects_and_each_address_gets_its_range() {
    let place = Place::make();
    let (store, file) = (place.path("geo"), place.write("dirty.csv", DIRTY));
    let source = file.display().to_string();
    let request = BuildRequest::new(store.clone());
    let (receipt, rejects) = built_from(&request, &file, &InputOptions::default()).unwrap();
    assert_eq!([receipt.generation, receipt.read, receipt.whole, receipt.rejected], [1, 8, 3, 5]);
    assert_eq!([receipt.merged, receipt.cut, receipt.covered], [0; 3]);
    assert_eq!([receipt.stored, receipt.stored_v4, receipt.stored_v6], [3, 2, 1]);
    assert_eq!(receipt.sources, [source.as_str()]);
    let lines: Vec<&str> = DIRTY.lines().collect();
    let reject = |(line, reason): &(u64, &str)| {
        let text = lines[usize::try_from(*line).unwrap() - 1].to_owned();
        Reject { source: source.clone(), line: *line, reason: (*reason).to_owned(), text }
    };
    assert_eq!(rejects, WRONG.iter().map(reject).collect::<Vec<_>>());

    let generation = Generation::open(&store, None).unwrap();
    let answer = |address| {
        let found = generation.get(address).unwrap()?;
        Some(format!("{} {}", found.range, braced(&found.members().unwrap())))
    };
    let (au, none) = (Some("1.0.0.0-1.0.129.0 {\"country\":\"AU\"}"), Some("127.0.0.1-127.1.2.3 {}"));
    let de = Some("2001:db8::-2001:db8::ffff {\"country\":\"DE\"}");
    for (address, expected) in [
        ("1.0.0.0", au),
        ("1.0.128.255", au),
        ("1.0.129.0", au),
        ("1.0.129.1", None),
        ("0.255.255.255", None),
        ("127.0.0.1", none),
        ("127.1.2.3", none),
        ("127.1.2.4", None),
        ("255.255.255.255", None),
        ("::", None),
        ("2001:db8::", de),
        ("2001:0DB8::FFFF", de),
        ("2001:db8::1:0", None),
        ("::ffff:1.0.0.0", None),
    ] {
        assert_eq!(answer(address.parse().unwrap()).as_deref(), expected, "{address}");
    }
    let unmapped = AddressReading { unmap: true, ..AddressReading::default() }.address("::ffff:1.0.0.0").unwrap();
    assert_eq!(answer(unmapped).as_deref(), au);
}

#[test]
fn rejects_are_limited_and_a_failed_build_leaves_the_store_as_it_was() {
    let place = Place::make();
    let store = place.path("geo");
    let mut request = BuildRequest::new(store.clone());
    let built = |request: &BuildRequest, good: bool| {
        let range = good.then(|| range(Family::V4, 1, 2));
        let entries = [None, range, None, None].map(|range| (range, String::new()));
        built_of(request, vec![given(entries)])
    };
    let (receipt, rejects) = built(&request, true).unwrap();
    assert_eq!((receipt.read, receipt.rejected, receipt.stored), (4, 3, 1));
    assert_eq!(rejects.iter().map(|reject| reject.line).collect::<Vec<_>>(), [1, 3, 4]);
    let none = built(&request, false).unwrap_err();
    assert_eq!(none.to_string(), "there is no range to store: 4 entries read, 4 rejected");
    request.rejects_max = 2;
    let error = built(&request, true).unwrap_err();
    assert!(matches!(error, Error::Rejects { count: 3, most: 2 }), "{error}");
    let generation = Generation::open(&store, None).unwrap();
    assert_eq!(generation.receipt().map(|receipt| receipt.generation), Some(1));
}

#[test]
fn a_huge_value_is_a_reject_and_the_largest_is_stored() {
    let place = Place::make();
    let store = place.path("geo");
    let [large, huge] = [1_000_000, 2 * LINE_BYTES_MAX].map(|bytes| format!("\"x\":\"{}\"", "x".repeat(bytes)));
    let lines = [format!(",{large}"), format!(",{huge}"), String::new()];
    let lines: String = (4..).zip(lines).map(|(n, members)| format!("{{\"ip\":\"1.2.3.{n}\"{members}}}\n")).collect();
    let file = place.write("huge.ndjson", lines);
    let request = BuildRequest::new(store.clone());
    let (receipt, rejects) = built_from(&request, &file, &InputOptions::default()).unwrap();
    assert_eq!((receipt.rejected, receipt.stored), (1, 2));
    let Reject { line, reason, text, .. } = &rejects[0];
    assert!(*line == 2 && reason.contains("more than") && text.len() < 10_000, "{line}: {reason}");
    assert!(known(&store, "1.2.3.4") == Some(large));
    assert_eq!((known(&store, "1.2.3.5"), known(&store, "1.2.3.6").as_deref()), (None, Some("")));
}
