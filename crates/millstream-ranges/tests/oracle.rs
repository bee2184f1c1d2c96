//! Stores answer as a plain list does.

use crate::stored::{built, found, range};
use millstream_ranges::{FAMILIES, Family, Generation, Index, Overlap, Pick, verify};
use millstream_testkit::Cases;

/// Ranges that do not overlap, in order, with numbers as members.
fn apart(rng: &mut fastrand::Rng, family: Family, count: u128) -> Vec<(u128, u128, u128)> {
    let (mut ranges, mut next) = (Vec::new(), 0);
    for n in 0..count {
        let start = next + rng.u128(0..3) * rng.u128(0..1_000_000);
        let end = start + rng.u128(0..4) * rng.u128(1..10_000_000);
        if end > family.last() {
            break;
        }
        ranges.push((start, end, n));
        next = end + 1;
    }
    // The far end, too.
    let last = family.last();
    if ranges.last().is_none_or(|(_, end, _)| *end < last) && rng.bool() {
        ranges.push((last, last, count));
    }
    ranges
}

#[test]
fn every_boundary_is_answered_as_by_a_list() {
    for mut rng in Cases::new(20) {
        let dir = tempfile::tempdir().unwrap();
        let lists = FAMILIES.map(|family| apart(&mut rng, family, 60));
        if lists.iter().all(Vec::is_empty) {
            continue;
        }
        let ranges = FAMILIES.into_iter().zip(&lists).flat_map(|(family, list)| {
            list.iter().map(move |(start, end, n)| (range(family, *start, *end), format!("\"n\":{n}")))
        });
        let mut ranges: Vec<_> = ranges.collect();
        rng.shuffle(&mut ranges);
        let receipt = built(dir.path(), ranges, |request| request.overlap = Overlap::Error).unwrap();
        assert_eq!(receipt.stored, receipt.whole);
        let store = Generation::open(dir.path(), None).unwrap();
        let index = Index::read(&store, None).unwrap();
        let picked = Index::read(&store, Some(&Pick::parse("n as number").unwrap())).unwrap();
        for (family, list) in FAMILIES.into_iter().zip(&lists) {
            let near = |number: u128| [number.checked_sub(1), Some(number), number.checked_add(1)];
            let asked = list.iter().flat_map(|(start, end, _)| near(*start).into_iter().chain(near(*end)));
            let asked = asked.flatten().chain([0, family.last()]).chain((0..50).map(|_| rng.u128(..)));
            for number in asked.map(|number| number & family.last()) {
                let expected = list.iter().find(|(start, end, _)| (*start..=*end).contains(&number));
                let members = expected.map(|(_, _, n)| format!("\"n\":{n}"));
                let address = family.address(number);
                assert_eq!(found(&store, family, number), members, "{address}");
                assert_eq!(index.get(address).map(str::to_owned), members.map(|m| format!("{{{m}}}")), "{address}");
                let number = expected.map(|(_, _, n)| format!("{{\"number\":{n}}}"));
                assert_eq!(picked.get(address).map(str::to_owned), number, "{address}");
            }
        }
        assert_eq!(verify(&store).unwrap().problems, 0);
    }
}
