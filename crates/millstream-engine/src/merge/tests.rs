//! Tests over the list of modes.

mod last;

use super::*;
use millstream_store::recorded_mode;
use std::collections::BTreeSet;

/// Documents, none of them a tombstone, folded under a mode.
pub(super) fn folded(mode: &str, documents: &[&str]) -> String {
    let members: Vec<Member<'_>> =
        documents.iter().map(|d| Member { document: d.as_bytes(), version: &[], tombstone: false }).collect();
    String::from_utf8(mode.parse::<Mode>().unwrap().fold(&members).document.into_owned()).unwrap()
}

/// What holds for every mode of a list.
fn check(kinds: &[&'static ModeKind]) {
    let names: BTreeSet<_> = kinds.iter().map(|kind| kind.name).collect();
    assert_eq!(names.len(), kinds.len(), "names are unique");
    for kind in kinds {
        assert!(kind.set.is_some() || kind.first_stays, "{}: it does nothing", kind.name);
        assert_eq!(kind.between.is_some(), !kind.stores_documents, "{}", kind.name);
        assert_eq!(recorded_mode::adds_up(kind.name), kind.adds_up, "the store does not know {}", kind.name);
        let versioned = (kind.versioned, false);
        assert_eq!(recorded_mode::compares_versions(kind.name), versioned, "the store does not know {}", kind.name);
        let mode = Mode::new(kind, Vec::new());
        let left = u64::from(mode.may_keep_stored());
        let written = Written {
            documents: 20,
            keys: 10 + left,
            inserted: 4,
            updated: 3,
            unchanged: 2,
            deleted: 1,
            stale: 2,
            kept: 1,
        };
        let counters = mode.count(written);
        assert_eq!(counters.accounted(), 20, "{}", kind.name);
        assert_eq!(counters.stale + counters.kept, 3 + left);
    }
}

#[test]
fn every_mode_of_the_list_is_whole() {
    check(MODES);
}

#[test]
fn a_mode_is_one_file_and_one_line() {
    let kinds: Vec<&'static ModeKind> = MODES.iter().copied().chain([&last::KIND]).collect();
    check(&kinds);
    let member = |document: &'static str| Member { document: document.as_bytes(), version: &[], tombstone: false };
    let mode = Mode::new(&last::KIND, Vec::new());
    let folded = mode.fold(&[member("a"), member("b")]);
    assert_eq!((folded.effect, &*folded.document), (Effect::Merge, &b"b"[..]));
    assert_eq!(mode.set(&Schema::new("millstream"), "new.doc", "old.doc").as_deref(), Some("new.doc"));
}

#[test]
fn a_tombstone_resets_the_fold() {
    let member = |document: &'static str| Member {
        document: document.as_bytes(),
        version: &[],
        tombstone: document == "delete",
    };
    for (documents, effect, stored, kept) in [
        (&["a", "b"][..], Effect::Merge, ("b", "a"), 1),
        (&["a", "delete"], Effect::Delete, ("delete", "delete"), 0),
        (&["delete", "delete"], Effect::Delete, ("delete", "delete"), 0),
        (&["a", "delete", "b", "c"], Effect::Reset, ("c", "b"), 1),
        (&["delete", "b"], Effect::Reset, ("b", "b"), 0),
    ] {
        let members: Vec<Member<'_>> = documents.iter().map(|d| member(d)).collect();
        for (mode, stored, kept) in [("replace", stored.0, 0), ("keep", stored.1, kept)] {
            let mode: Mode = mode.parse().unwrap();
            let folded = mode.fold(&members);
            assert_eq!((folded.effect, &*folded.document), (effect, stored.as_bytes()));
            assert_eq!(mode.count_skipped(&members), (0, kept));
        }
    }
}
