//! Generations of a store: named, opened and compared.

use crate::stored::{found, one, stored};
use millstream_pg::Explained;
use millstream_ranges::{
    Difference, Differences, Error, Family, Generation, Layout, current, diff, generations, verify,
};
use millstream_testkit::Place;
use std::fs;

#[test]
fn generations_are_named_and_compared() {
    let place = Place::make();
    let store = place.path("geo");
    for lines in ["2.0.0.0,2.0.0.9,x\n::,::9,x\n", "2.0.0.0,2.0.0.4,y\n::a,::b,z\n"] {
        stored(store.clone(), &place.write("a.csv", format!("first,last,n\n1.0.0.0,1.0.0.9,x\n{lines}")));
    }
    let [one, two] = [1, 2].map(|number| Generation::open(&store, Some(number)).unwrap());
    assert_eq!(found(&one, Family::V4, 2 << 24).as_deref(), Some("\"n\":\"x\""));
    assert_eq!(found(&two, Family::V4, 2 << 24).as_deref(), Some("\"n\":\"y\""));
    for generation in [&one, &two] {
        let verified = verify(generation).unwrap();
        assert_eq!((verified.v4, verified.v6, verified.hashed, verified.problems), (2, 1, true, 0));
    }

    let mut listed = Vec::new();
    let counts = diff(&one, &two, &mut |difference| {
        let Difference { range, before, after } = difference;
        listed.push(format!("{range} {} {}", before.unwrap_or_default(), after.unwrap_or_default()));
        Ok(())
    });
    assert_eq!(
        listed,
        [
            "2.0.0.0-2.0.0.4 \"n\":\"x\" \"n\":\"y\"",
            "2.0.0.5-2.0.0.9 \"n\":\"x\" ",
            "::-::9 \"n\":\"x\" ",
            "::a-::b  \"n\":\"z\"",
        ]
    );
    let (only_a, only_b, changed) = (2, 1, 1);
    let (only_a_addresses, only_b_addresses, changed_addresses) = (15, 2, 5);
    let expected = Differences { only_a, only_b, changed, only_a_addresses, only_b_addresses, changed_addresses };
    assert_eq!(counts.unwrap(), expected);
    assert!(two.is(&store, None).unwrap() && !one.is(&store, None).unwrap());

    let files = [1, 2].map(|number| (number, store.join(format!("0000000{number}.lmdb"))));
    assert_eq!((current(&store).unwrap(), generations(&store).unwrap()), (2, files.to_vec()));
    let bytes = two.receipt().map(|receipt| receipt.bytes);
    assert_eq!((two.layout(), bytes), (Layout::Named, Some(fs::metadata(two.path()).unwrap().len())));
}

#[test]
fn a_generation_is_opened_by_the_name_of_its_file() {
    let dir = tempfile::tempdir().unwrap();
    one(dir.path(), 1);
    let damaged = Error::Damaged { path: dir.path().join("00000001.json"), problem: String::new() };
    assert!(damaged.hint().is_some_and(|hint| hint.starts_with("build the store again")), "{:?}", damaged.hint());
    one(dir.path(), 2);
    for (name, number) in [("current", 2), ("00000002.lmdb", 2), ("00000001.lmdb", 1)] {
        let opened = Generation::open(&dir.path().join(name), None).unwrap();
        assert_eq!(opened.receipt().map(|receipt| receipt.generation), Some(number), "{name}");
        assert!(opened.is(dir.path(), Some(number)).unwrap());
        assert!(opened.is(&dir.path().join(name), None).unwrap());
    }
    let other = Generation::open(&dir.path().join("current"), Some(1)).unwrap_err();
    assert!(other.to_string().ends_with("has no generations"), "{other}");
    // A copy of the file alone is one of another program, whatever its name.
    let copy = dir.path().join("copy");
    fs::create_dir(&copy).unwrap();
    fs::copy(dir.path().join("00000001.lmdb"), copy.join("00000001.lmdb")).unwrap();
    assert!(Generation::open(&copy.join("00000001.lmdb"), None).unwrap().receipt().is_none());
    let foreign = Error::Damaged { path: copy.join("data.mdb"), problem: String::new() };
    assert_eq!(foreign.hint().as_deref(), Some("correct it with the program that wrote it"));
}
