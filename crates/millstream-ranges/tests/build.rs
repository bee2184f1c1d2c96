//! Building, replacing and opening stores.

use crate::stored::{built, built_from, found, given, known, one, range};
use millstream_pg::Explained;
use millstream_ranges::input::{InputOptions, open};
use millstream_ranges::{
    BuildRequest, Error, FAMILIES, Family, Generation, Layout, Observer, Overlap, Progress, Reject, Silent, build,
    verify,
};
use millstream_testkit::Place;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

#[test]
fn a_build_replaces_the_store_and_readers_keep_what_they_opened() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("geo");
    one(&store, 1);
    let first = Generation::open(&store, None).unwrap();
    one(&store, 2);
    one(&store, 3);
    assert_eq!(found(&first, Family::V4, 15).as_deref(), Some("\"build\":1"), "its file is unlinked but open");
    let opened = |number| Generation::open(&store, number);
    assert_eq!(found(&opened(None).unwrap(), Family::V4, 15).as_deref(), Some("\"build\":3"));
    assert_eq!(found(&opened(Some(2)).unwrap(), Family::V4, 15).as_deref(), Some("\"build\":2"));
    let gone = opened(Some(1)).unwrap_err();
    assert!(matches!(&gone, Error::NoGeneration { number: 1, there, .. } if there == &[2, 3]), "{gone}");
    let mut names: Vec<_> = fs::read_dir(&store).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["00000002.json", "00000002.lmdb", "00000003.json", "00000003.lmdb", "current", "lock"]);
}

#[test]
fn links_in_a_store_are_not_followed_by_a_build() {
    let dir = tempfile::tempdir().unwrap();
    let (store, victim) = (dir.path().join("geo"), dir.path().join("victim"));
    one(&store, 1);
    fs::write(&victim, "text").unwrap();
    for name in ["build.new", "00000002.json", "00000002.json.new", "current.new"] {
        symlink(&victim, store.join(name)).unwrap();
    }
    one(&store, 2);
    assert_eq!(found(&Generation::open(&store, None).unwrap(), Family::V4, 15).as_deref(), Some("\"build\":2"));
    assert!(store.join("00000002.json").symlink_metadata().unwrap().is_file());
    let lock = store.join("lock");
    fs::remove_file(&lock).unwrap();
    symlink(dir.path().join("nowhere"), &lock).unwrap();
    let refused = built(&store, [(range(Family::V4, 10, 20), String::new())], |_| ()).unwrap_err();
    assert!(refused.to_string().contains("lock"), "{refused}");
    assert!(fs::read_to_string(&victim).unwrap() == "text" && !dir.path().join("nowhere").exists());
}

#[test]
fn a_failed_build_leaves_the_store_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    one(dir.path(), 1);
    let overlapping = || [(range(Family::V4, 1, 9), "a".into()), (range(Family::V4, 9, 12), "b".into())];
    let error = built(dir.path(), overlapping(), |_| ()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "1 range overlaps one before it: given:1 0.0.0.1-0.0.0.9 and given:2 0.0.0.9-0.0.0.12"
    );
    let empty = built(dir.path(), [], |_| ()).unwrap_err();
    assert!(empty.to_string().contains("there is no range to store"), "{empty}");
    struct Stopping;
    impl Observer for Stopping {
        fn rejected(&self, _: &Reject) {}
        fn progress(&self, _: Progress) {}
        fn is_stopped(&self) -> bool {
            true
        }
    }
    let given = given([(Some(range(Family::V4, 1, 2)), String::new())]);
    let stopped = build(&BuildRequest::new(dir.path().into()), vec![given], &Stopping).unwrap_err();
    assert!(matches!(stopped, Error::Stopped));
    let serving = Generation::open(dir.path(), None).unwrap();
    assert_eq!(found(&serving, Family::V4, 10).as_deref(), Some("\"build\":1"));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 4, "current, lock, the file and its receipt");
}

#[test]
fn a_map_that_is_too_small_is_tried_again_with_more() {
    let dir = tempfile::tempdir().unwrap();
    let ranges = (0..20_000u128).map(|n| (range(Family::V6, n * 10, n * 10 + 3), format!("\"n\":{n}")));
    let receipt = built(dir.path(), ranges, |request| request.map_bytes = Some(1 << 16)).unwrap();
    assert_eq!((receipt.stored, receipt.stored_v6), (20_000, 20_000));
    let store = Generation::open(dir.path(), None).unwrap();
    assert_eq!(found(&store, Family::V6, 199_993).as_deref(), Some("\"n\":19999"));
    assert_eq!(found(&store, Family::V6, 199_994), None);
}

#[test]
fn little_memory_gives_the_same_store() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let ranges = || {
        let mut rng = fastrand::Rng::with_seed(9);
        let mut numbers: Vec<u32> = (0..30_000).collect();
        rng.shuffle(&mut numbers);
        numbers.into_iter().map(|n| {
            let (family, n) = (FAMILIES[n as usize % 2], u128::from(n));
            (range(family, n * 7, n * 7 + 20), format!("\"n\":{n}"))
        })
    };
    for (dir, memory) in dirs.iter().zip([1 << 20, 1 << 30]) {
        let receipt = built(dir.path(), ranges(), |request| {
            (request.memory_bytes, request.overlap) = (memory, Overlap::Last);
        });
        assert!(receipt.unwrap().cut > 0);
    }
    let [a, b] = dirs.each_ref().map(|dir| Generation::open(dir.path(), None).unwrap());
    let all = |store: &Generation| -> Vec<_> {
        store.ranges().unwrap().map(|found| found.map(|f| (f.range, f.value.to_vec())).unwrap()).collect()
    };
    assert!(all(&a) == all(&b));
}

#[test]
fn both_families_can_share_one_database() {
    let dir = tempfile::tempdir().unwrap();
    // The first four bytes of these IPv6 addresses lie between the first address of the IPv4 range and the one asked for.
    let v6 =
        (0..50u128).map(|n| (range(Family::V6, (0x2000_0000 + n) << 96, (0x2000_0000 + n) << 96), "\"f\":6".into()));
    let v4 = [(range(Family::V4, 0x1fff_ff00, 0x2000_00ff), "\"f\":4".to_owned())];
    built(dir.path(), v6.chain(v4), |request| request.layout = Layout::Single).unwrap();
    let store = Generation::open(dir.path(), None).unwrap();
    assert_eq!(store.layout(), Layout::Single);
    for (family, number, expected) in [
        (Family::V4, 0x2000_0020, Some("\"f\":4")),
        (Family::V4, 0x2000_0100, None),
        (Family::V4, 0x1fff_feff, None),
        (Family::V6, 0x2000_0010 << 96, Some("\"f\":6")),
        (Family::V6, (0x2000_0010 << 96) + 1, None),
        (Family::V6, 0, None),
        (Family::V6, u128::MAX, None),
    ] {
        assert_eq!(found(&store, family, number).as_deref(), expected, "{}", family.address(number));
    }
    let verified = verify(&store).unwrap();
    assert_eq!((verified.problems, verified.v4, verified.v6), (0, 1, 50), "{:?}", verified.named);
}

#[test]
fn what_is_no_store_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let problem = |path: &Path| match Generation::open(path, None).unwrap_err() {
        Error::NoStore { problem, .. } => problem,
        error => panic!("{error}"),
    };
    assert_eq!(problem(&dir.path().join("none")), "it does not exist");
    assert_eq!(problem(dir.path()), "nothing was built in it");
    fs::write(dir.path().join("current"), "x").unwrap();
    assert!(problem(dir.path()).contains("not a symbolic link"));
    assert!(!dir.path().join("none").exists(), "a question makes no store");
    let text = dir.path().join("text");
    fs::write(&text, "no LMDB").unwrap();
    let error = Generation::open(&text, None).unwrap_err();
    assert!(matches!(error, Error::Lmdb { .. }), "{error}");
    built(&text, [(range(Family::V4, 1, 2), String::new())], |_| ()).unwrap_err();
    assert_eq!(fs::read_to_string(&text).unwrap(), "no LMDB");
}

#[test]
fn the_user_decides_what_counts_where_ranges_overlap() {
    let place = Place::make();
    let store = place.path("geo");
    let file = place.write("a.csv", "first,last,n\n1.0.0.0,1.0.0.255,wide\n1.0.0.10,1.0.0.20,narrow\n");
    let mut request = BuildRequest::new(store.clone());
    let refused = built_from(&request, &file, &InputOptions::default()).unwrap_err();
    let name = file.display();
    let says = format!("1 range overlaps one before it: {name}:2 1.0.0.0-1.0.0.255 and {name}:3 1.0.0.10-1.0.0.20");
    assert_eq!(refused.to_string(), says);
    let hint = "choose which one counts: --overlap narrowest, --overlap first or --overlap last";
    assert_eq!(refused.hint().as_deref(), Some(hint));
    assert!(matches!(Generation::open(&store, None), Err(Error::NoStore { .. })));
    for (overlap, inside, counts) in [
        (Overlap::Narrowest, "narrow", [1, 0, 3]),
        (Overlap::First, "wide", [0, 1, 1]),
        (Overlap::Last, "narrow", [1, 0, 3]),
    ] {
        request.overlap = overlap;
        let (receipt, _) = built_from(&request, &file, &InputOptions::default()).unwrap();
        assert_eq!([receipt.cut, receipt.covered, receipt.stored], counts, "{overlap:?}");
        assert_eq!(known(&store, "1.0.0.15"), Some(format!("\"n\":\"{inside}\"")), "{overlap:?}");
        for outside in ["1.0.0.0", "1.0.0.9", "1.0.0.21", "1.0.0.255"] {
            assert_eq!(known(&store, outside).as_deref(), Some("\"n\":\"wide\""), "{overlap:?} {outside}");
        }
    }
    let halves = place.write("b.csv", "network,n\n1.0.0.0/25,x\n1.0.0.128/25,x\n1.0.1.0/24,y\n");
    request.merge = true;
    let (receipt, _) = built_from(&request, &halves, &InputOptions::default()).unwrap();
    assert_eq!((receipt.merged, receipt.stored), (1, 2));
    let generation = Generation::open(&store, None).unwrap();
    let found = generation.get("1.0.0.1".parse().unwrap()).unwrap();
    assert_eq!(found.map(|found| found.range.to_string()).as_deref(), Some("1.0.0.0-1.0.0.255"));
}

#[test]
fn records_that_end_with_a_carriage_return_are_all_stored() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.csv");
    fs::write(&file, "network,cc\r1.0.0.0/24,AU\r1.0.1.0/24,NZ\r").unwrap();
    let store = dir.path().join("geo");
    let inputs = vec![open(&file, &InputOptions::default()).unwrap()];
    let receipt = build(&BuildRequest::new(store.clone()), inputs, &Silent).unwrap();
    assert_eq!((receipt.read, receipt.whole, receipt.stored), (2, 2, 2));
    let store = Generation::open(&store, None).unwrap();
    assert_eq!(found(&store, Family::V4, 0x0100_0101).as_deref(), Some("\"cc\":\"NZ\""));
}

#[test]
fn a_folder_with_a_file_of_another_program_is_not_built_in() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("data.mdb"), "another program's").unwrap();
    let refused = built(dir.path(), [(range(Family::V4, 1, 2), String::new())], |_| ()).unwrap_err();
    assert!(refused.to_string().contains("holds data.mdb, a file of another program"), "{refused}");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
fn a_member_to_keep_that_no_entry_has_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let built = |contents: &[&str], keep: &[&str]| {
        let keep = keep.iter().map(|name| (*name).to_owned()).collect();
        let options = InputOptions { format: "ndjson".into(), keep, ..InputOptions::default() };
        let inputs = contents.iter().enumerate().map(|(n, content)| {
            let file = dir.path().join(n.to_string());
            fs::write(&file, content).unwrap();
            open(&file, &options).unwrap()
        });
        build(&BuildRequest::new(dir.path().join("geo")), inputs.collect(), &Silent)
    };
    let (v4, v6) = ("{\"ip\":\"1.2.3.4\",\"cc\":1}\n", "{\"ip\":\"::1\",\"asn\":2}\n");
    built(&[v4, v6], &["cc", "asn"]).unwrap();
    let error = built(&[v4, v6], &["cc", "cn", "town"]).unwrap_err();
    assert_eq!(error.to_string(), "no entry has a member cn, town");
    let error = built(&[v4, ""], &["asn"]).unwrap_err();
    assert_eq!(error.to_string(), "no entry has a member asn");
}

#[test]
fn two_builds_at_once_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    one(dir.path(), 1);
    let lock = fs::File::options().write(true).open(dir.path().join("lock")).unwrap();
    lock.lock().unwrap();
    let busy = built(dir.path(), [(range(Family::V4, 1, 2), String::new())], |_| ()).unwrap_err();
    assert!(matches!(busy, Error::Busy { .. }), "{busy}");
}
