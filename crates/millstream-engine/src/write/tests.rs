//! Tests over the lists of lanes and writers.

mod inserts;

use super::choice::{Choice, Share};
use super::probe::Sample;
use super::*;
use crate::layout::LAYOUTS;
use crate::merge::{Folding, MODES};
use crate::plan::tests::plan;
use crate::request::SkipUnchanged;
use std::collections::BTreeSet;

#[test]
fn every_layout_has_lanes() {
    assert!(LAYOUTS.iter().all(|layout| LANES.iter().any(|(of, _)| of.name == layout.name)));
}

/// What holds for every writer of a list.
fn check(writers: &[&Writer]) {
    let names: BTreeSet<_> = writers.iter().map(|writer| writer.name).collect();
    assert_eq!(names.len(), writers.len(), "names are unique");
    for plan in plans() {
        let names = Names::new(&plan);
        let of_writers = writers.iter().filter_map(|writer| (writer.sql)(&names));
        let made = of_writers.chain([copy_stream::sql(&names)]).chain(judge::sql(&names));
        let all: Vec<&str> = made.flat_map(|sql| sql.statements).map(|(name, _)| name).collect();
        let unique: BTreeSet<&str> = all.iter().copied().collect();
        assert_eq!(unique.len(), all.len(), "names of statements are unique: {all:?}");
    }
}

/// Loads in every mode, into tables of all kinds, some of which delete or remember what was deleted.
fn plans() -> impl Iterator<Item = LoadPlan> {
    let modes = MODES
        .iter()
        .map(|kind| if kind.arguments.is_empty() { kind.name.to_owned() } else { format!("{}:n", kind.name) });
    modes.flat_map(|mode| (0..128_u8).map(move |bits| (mode.clone(), bits))).map(|(mode, bits)| {
        let is = |bit: u8| bits & (1 << bit) != 0;
        let mut plan = plan(&mode);
        (plan.traits.can_join, plan.traits.may_refuse) = (is(0), is(1));
        (plan.traits.alters_rows, plan.traits.partitioned) = (is(2), is(3));
        plan.mode = plan.mode.with_tombstone(is(4).then(|| "op=d".parse().expect("a path and a value")));
        plan.request.skip_unchanged = if is(5) { SkipUnchanged::On } else { SkipUnchanged::Off };
        plan.checks_tombstones = is(6);
        plan.folding = if plan.mode.stores_documents() { Folding::Always } else { Folding::Tried };
        plan
    })
}

#[test]
fn every_writer_of_the_list_is_whole() {
    check(WRITERS);
}

#[test]
fn a_writer_is_one_file_and_one_line() {
    let writers: Vec<&Writer> = WRITERS.iter().copied().chain([&inserts::WRITER]).collect();
    check(&writers);
    let plan = plan("replace");
    let Sql { create, statements } = (inserts::WRITER.sql)(&Names::new(&plan)).expect("any load can use it");
    assert!(create.is_empty());
    let insert = "insert into \"public\".\"events\" (\"id\", doc) \
                  select \"id\", doc from pg_temp.millstream_stage order by \"id\"";
    assert_eq!(statements, [("inserts", insert.to_owned())]);
}

#[test]
fn a_writer_is_used_only_where_it_has_made_its_statements() {
    for plan in plans() {
        let names = Names::new(&plan);
        let has = |writer: &Writer| (writer.sql)(&names).is_some();
        assert_eq!(has(&staged::WRITER) && has(&divided::DIVIDED), plan.merges());
        assert_eq!(has(&divided::COMPARED), plan.skips());
        assert_eq!(has(&deleting::WRITER), plan.deletes());
        assert!([&arrays::WRITER, &copy::WRITER, &upsert::WRITER].into_iter().all(has));
    }
}

#[test]
fn whatever_batches_meet_the_writer_that_a_lane_chooses_has_made_its_statements() {
    let events: [fn(&mut Choice); 5] = [
        |_| (),
        Choice::missed,
        Choice::deadlocked,
        |choice| choice.compared(Sample { unchanged: 2, absent: 0, keys: 2 }),
        |choice| choice.compared(Sample { unchanged: 0, absent: 2, keys: 2 }),
    ];
    let shares = [None, Some(0), Some(1), Some(2)].map(|part| part.map(|part| Share { part, of: 2 }));
    for plan in plans() {
        let names = Names::new(&plan);
        let made: BTreeSet<&str> =
            WRITERS.iter().filter(|writer| (writer.sql)(&names).is_some()).map(|writer| writer.name).collect();
        let upserts = (upsert::WRITER.sql)(&names).unwrap_or_default().statements;
        // For batches with large documents it takes the place of other writers.
        assert_eq!(upserts.iter().any(|(name, _)| *name == upsert::UPSERT_CHANGED), plan.skips());
        for (first, second) in events.iter().flat_map(|first| events.iter().map(move |second| (first, second))) {
            for table_empty in [true, false] {
                let mut choice = Choice::new(table_empty, plan.merges(), plan.skip_unchanged());
                first(&mut choice);
                second(&mut choice);
                for (small, new) in shares.iter().flat_map(|new| [(false, *new), (true, *new)]) {
                    let writer = choice.writer(small, new);
                    assert!(made.contains(writer.name), "{}: {}", plan.mode, writer.name);
                    let is_plain = small || !writer.facts.compares;
                    assert!(is_plain || plan.skips(), "{}: {} compares", plan.mode, writer.name);
                }
            }
        }
    }
}
