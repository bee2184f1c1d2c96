//! Doubts: reasons in a record to mistrust its numbers, printed below its tables.

use crate::core::{DataSet, Record, Run, Spread};
use crate::ingest::durability::mark;
use millstream_model::words::option;

/// Fewest rounds for which a spread means something.
const ROUNDS_ENOUGH: u32 = 3;

/// Shortest sample, in seconds, in which the start of a process hardly matters.
const WALL_ENOUGH: f64 = 1.0;

/// Ratio of the largest to the smallest sample; if it is higher, something else probably used the machine.
const SPREAD_CALM: f64 = 1.25;

/// Ratio of the first round to the median of the others; if it is higher, the first round was still warming up.
const FIRST_ROUND_CALM: f64 = 1.2;

/// Share of the processors that other programs may have used when the run began.
const LOAD_CALM: f64 = 0.5;

/// Time of a flush, in microseconds, below which durable commits cost almost nothing. A consumer SSD without protection
/// against power loss takes a millisecond or more.
const FLUSH_CHEAP_US: f64 = 200.0;

/// A reason to mistrust numbers.
#[derive(Debug, Clone, Copy)]
pub struct Doubt {
    /// Its name.
    pub name: &'static str,
    /// What it says about a record; empty if the record gives no reason.
    check: fn(&Record) -> Vec<String>,
}

/// Every doubt, the gravest first.
pub const DOUBTS: &[Doubt] = &[
    Doubt { name: "debug_build", check: debug_build },
    Doubt { name: "not_durable", check: not_durable },
    Doubt { name: "no_autovacuum", check: no_autovacuum },
    Doubt { name: "unfinished", check: unfinished },
    Doubt { name: "few_rounds", check: few_rounds },
    Doubt { name: "busy_machine", check: busy_machine },
    Doubt { name: "other_lanes", check: other_lanes },
    Doubt { name: "short_samples", check: short_samples },
    Doubt { name: "slow_first_round", check: slow_first_round },
    Doubt { name: "wide_spread", check: wide_spread },
    Doubt { name: "no_checkpoints", check: no_checkpoints },
    Doubt { name: "remote_server", check: remote_server },
    Doubt { name: "cheap_flush", check: cheap_flush },
    Doubt { name: "unknown_code", check: unknown_code },
];

/// All doubts about a record.
pub fn doubts(record: &Record) -> Vec<String> {
    DOUBTS.iter().flat_map(|doubt| (doubt.check)(record)).collect()
}

fn when(reason: bool, text: impl FnOnce() -> String) -> Vec<String> {
    if reason { vec![text()] } else { Vec::new() }
}

fn debug_build(record: &Record) -> Vec<String> {
    when(record.build.debug == Some(true), || {
        "the measured binary is a debug build; its numbers say nothing about a release build".to_owned()
    })
}

fn not_durable(record: &Record) -> Vec<String> {
    let off = record.server.durability.iter().filter(|(_, value)| *value != "on");
    let off: Vec<String> = off.map(|(name, value)| format!("{name} is {value}")).collect();
    when(!off.is_empty(), || format!("{}: commits on this server are not fully durable", off.join(", ")))
}

fn no_autovacuum(record: &Record) -> Vec<String> {
    when(record.server.settings.get("autovacuum").is_some_and(|value| value == "off"), || {
        "autovacuum is off: tables grow and waves are spared its work, unlike on a server that goes on".to_owned()
    })
}

fn unfinished(record: &Record) -> Vec<String> {
    let Some(ingest) = &record.ingest else { return Vec::new() };
    let last = ingest.data_sets.last();
    let finished = last.is_some_and(|set| round_count(record, set) == set.rounds.unwrap_or(ingest.rounds));
    when(!finished, || "the run was stopped before its end".to_owned())
}

fn few_rounds(record: &Record) -> Vec<String> {
    let few = record.ingest.as_ref().map(|ingest| ingest.rounds).filter(|rounds| *rounds < ROUNDS_ENOUGH);
    few.map_or_else(Vec::new, |rounds| {
        vec![format!(
            "{rounds} of at least {ROUNDS_ENOUGH} rounds that it takes to show a spread; ask for more {}",
            option("rounds")
        )]
    })
}

fn busy_machine(record: &Record) -> Vec<String> {
    let load = record.machine.load_average.unwrap_or(0.0);
    when(load > LOAD_CALM * f64::from(record.machine.cores), || {
        format!("other work kept {load:.1} of {} cores busy when the run began", record.machine.cores)
    })
}

fn other_lanes(record: &Record) -> Vec<String> {
    let Some(own) = record.ingest.as_ref().map(|ingest| ingest.lanes) else { return Vec::new() };
    let mut lanes = record.runs.iter().filter_map(|one| one.receipt_number("lanes"));
    let other = lanes.find(|lanes| (lanes - f64::from(own)).abs() > 0.1);
    other.map_or_else(Vec::new, |other| vec![format!("millstream used {other} connections and copy {own}")])
}

fn short_samples(record: &Record) -> Vec<String> {
    // If an answer's first row is timed, the start of the process is part of the answer.
    let long = |one: &Series<'_>| one.first.first_seconds().is_none();
    let medians = series(record).into_iter().filter(long).filter_map(|one| Some((one.wall()?.median, one.name())));
    let short: Vec<(f64, String)> = medians.filter(|(median, _)| *median < WALL_ENOUGH).collect();
    let shortest = short.iter().min_by(|a, b| a.0.total_cmp(&b.0));
    shortest.map_or_else(Vec::new, |(median, name)| {
        vec![format!(
            "{} of the results are of samples under a second ({name}: {median:.2} s), in which starting counts; \
             ask for more {}",
            short.len(),
            option("docs")
        )]
    })
}

fn slow_first_round(record: &Record) -> Vec<String> {
    let slow = series(record).into_iter().filter_map(|one| {
        let first = one.walls.iter().find(|(round, _)| *round == 1)?.1;
        let others = Spread::of(one.walls.iter().filter(|(round, _)| *round > 1).map(|(_, wall)| *wall))?;
        let factor = first / others.median;
        (one.walls.len() >= 3 && factor > FIRST_ROUND_CALM)
            .then(|| format!("{}: the first round took {factor:.2} times as long as the others", one.name()))
    });
    slow.collect()
}

fn wide_spread(record: &Record) -> Vec<String> {
    let factors = series(record).into_iter().filter_map(|one| Some((one.wall()?.max / one.wall()?.min, one.name())));
    let wide: Vec<(f64, String)> = factors.filter(|(factor, _)| *factor > SPREAD_CALM).collect();
    let widest = wide.iter().max_by(|a, b| a.0.total_cmp(&b.0));
    widest.map_or_else(Vec::new, |(factor, name)| {
        vec![format!(
            "{} of the results have a slowest round of over {SPREAD_CALM} times the fastest ({name}: {factor:.2})",
            wide.len()
        )]
    })
}

fn no_checkpoints(record: &Record) -> Vec<String> {
    when(!record.server.checkpoints, || {
        "no checkpoint could be made before each sample (that takes the role pg_checkpoint), so that one subject may \
         pay for the writes of another"
            .to_owned()
    })
}

fn remote_server(record: &Record) -> Vec<String> {
    when(!record.server.local, || {
        "the server is on another machine: the network is part of every number, and its machine is not described here"
            .to_owned()
    })
}

fn cheap_flush(record: &Record) -> Vec<String> {
    let flush = record.machine.disk.flush_us.filter(|us| *us < FLUSH_CHEAP_US && record.server.is_durable());
    flush.map_or_else(Vec::new, |us| {
        let whose = if record.machine.disk.holds_data { "disk with the data" } else { "temporary directory's disk" };
        vec![format!(
            "the {whose} says that a page is safe after {us:.0} us, so durable commits are almost free here; on a disk \
             that really waits they are not"
        )]
    })
}

fn unknown_code(record: &Record) -> Vec<String> {
    match (&record.build.commit, record.build.dirty) {
        (None, _) => vec!["the commit of the measured binary is not known".to_owned()],
        (Some(_), Some(true)) => vec!["the code held changes that are not committed".to_owned()],
        _ => Vec::new(),
    }
}

fn round_count(record: &Record, set: &DataSet) -> u32 {
    let own = |one: &&Run| (&*one.experiment, one.data_set()) == (&*set.experiment, &*set.name);
    record.runs.iter().filter(own).map(|one| one.block).max().unwrap_or(0)
}

/// The good runs of one phase of a subject on one data set.
struct Series<'a> {
    first: &'a Run,
    /// Rounds and seconds.
    walls: Vec<(u32, f64)>,
}

impl Series<'_> {
    fn name(&self) -> String {
        let first = self.first;
        let mark = mark(first.durability(), first.round_trip_ms());
        format!("{} {}, {} {}{mark}", first.experiment, first.data_set(), first.arm, first.phase())
    }

    fn wall(&self) -> Option<Spread> {
        Spread::of(self.walls.iter().map(|(_, wall)| *wall))
    }
}

fn series(record: &Record) -> Vec<Series<'_>> {
    let mut all: Vec<Series<'_>> = Vec::new();
    for run in &record.runs {
        let (Some(rows), Some(rate)) = (run.rows(), run.rows_per_second()) else { continue };
        let pair = (run.block, rows / rate);
        let same = |one: &&mut Series<'_>| {
            let first = one.first;
            (&first.experiment, &first.arm, &first.factors) == (&run.experiment, &run.arm, &run.factors)
        };
        match all.iter_mut().find(same) {
            Some(one) => one.walls.push(pair),
            None => all.push(Series { first: run, walls: vec![pair] }),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::record::tests::fixture;
    use crate::core::{IngestConditions, Outcome};

    fn said(name: &str, record: &Record) -> Vec<String> {
        let doubt = DOUBTS.iter().find(|doubt| doubt.name == name).unwrap();
        (doubt.check)(record)
    }

    fn ingest(record: &mut Record) -> &mut IngestConditions {
        record.ingest.as_mut().unwrap()
    }

    /// The fixture without anything to doubt.
    fn calm() -> Record {
        let mut record = fixture();
        ingest(&mut record).data_sets.truncate(1);
        let data_set = record.data_sets()[0].name.clone();
        record.runs.retain(|one| one.data_set() == data_set && one.phase() == "fresh" && one.block == 1);
        for round in 2..=3 {
            let more: Vec<_> = record.runs.iter().filter(|one| one.block == 1).cloned().collect();
            record.runs.extend(more.into_iter().map(|one| Run { block: round, ..one }));
        }
        for run in &mut record.runs {
            set(run, "rows", 1e6);
            set(run, "wall_seconds", 5.0);
        }
        ingest(&mut record).rounds = 3;
        record.build.dirty = Some(false);
        record.build.debug = Some(false);
        record.machine.disk.flush_us = Some(1_500.0);
        record.machine.load_average = Some(0.1);
        record
    }

    fn set(run: &mut Run, metric: &str, value: f64) {
        if let Outcome::Measured(measures) = &mut run.outcome {
            measures.set(metric, Some(value));
        }
    }

    #[test]
    fn a_calm_record_raises_no_doubt() {
        assert_eq!(doubts(&calm()), [""; 0]);
    }

    #[test]
    fn a_run_is_finished_when_its_last_data_set_has_its_own_rounds() {
        let unfinished = |rounds| {
            let mut record = calm();
            ingest(&mut record).data_sets[0].rounds = rounds;
            !unfinished(&record).is_empty()
        };
        assert!(!unfinished(None), "records of older programs tell no more than the rounds asked for");
        assert!(!unfinished(Some(3)));
        assert!(unfinished(Some(9)));
    }

    #[test]
    fn every_doubt_is_raised_by_its_reason_alone() {
        type Change = fn(&mut Record);
        let reasons: &[(&str, Change)] = &[
            ("debug_build", |record| record.build.debug = Some(true)),
            ("not_durable", |record| {
                record.server.durability.insert("fsync".to_owned(), "off".to_owned());
            }),
            ("no_autovacuum", |record| {
                record.server.settings.insert("autovacuum".to_owned(), "off".to_owned());
            }),
            ("unfinished", |record| record.runs.retain(|one| one.block < 3)),
            ("few_rounds", |record| {
                ingest(record).rounds = 2;
                record.runs.retain(|one| one.block < 3);
            }),
            ("busy_machine", |record| record.machine.load_average = Some(1.5)),
            ("other_lanes", |record| ingest(record).lanes = 4),
            ("short_samples", |record| record.runs.iter_mut().for_each(|one| set(one, "wall_seconds", 0.5))),
            ("slow_first_round", |record| {
                record.runs.iter_mut().filter(|one| one.block == 1).for_each(|one| set(one, "wall_seconds", 6.2));
            }),
            ("wide_spread", |record| {
                record.runs.iter_mut().filter(|one| one.block == 2).for_each(|one| set(one, "wall_seconds", 6.5));
            }),
            ("no_checkpoints", |record| record.server.checkpoints = false),
            ("remote_server", |record| record.server.local = false),
            ("cheap_flush", |record| record.machine.disk.flush_us = Some(46.0)),
            ("unknown_code", |record| record.build.commit = None),
        ];
        let names: Vec<&str> = DOUBTS.iter().map(|doubt| doubt.name).collect();
        assert_eq!(names, reasons.iter().map(|(name, _)| *name).collect::<Vec<_>>());
        for (name, change) in reasons {
            let mut record = calm();
            change(&mut record);
            let own = said(name, &record);
            assert!(!own.is_empty(), "{name}");
            assert_eq!(doubts(&record), own, "{name}");
        }
    }
}
