//! A record made in code, for the tests of reports.

use crate::core::{Disk, Machine, Measures, Outcome, Run, Series};
use crate::experiments::conditions::Conditions;
use crate::experiments::experiment::{AGAIN, Experiment};
use crate::experiments::record::Record;
use crate::experiments::values::Selection;
use std::collections::BTreeMap;

/// The name of the first arm: a page must escape it.
pub(super) const FIRST: &str = "<b>&\"'0";

/// A record of so many arms, blocks and seconds. The second arm is unlogged, the last one is skipped.
pub(crate) fn record(arms: usize, blocks: u32, seconds: u32) -> Record {
    let mut text = format!(
        "question = 'is <i>1</i> faster than 0?'\nexpected = 'yes & no'\nread = 'as it is'\nseconds = {seconds}\n"
    );
    for n in 0..arms {
        let name = if n == 0 { FIRST.replace('\'', "\\u0027").replace('"', "\\\"") } else { format!("arm-<{n}>") };
        text += &format!("[[arm]]\nname = \"{name}\"\nabout = 'clients <{n}>'\ngroup = 'group {}'\n", n % 2);
        text += &format!("[arm.run]\nscripts = ['builtin:select-only']\nclients = {}\nunlogged = {}\n", n + 1, n == 1);
    }
    let experiment = Experiment::parse("fixture", &text, &Selection::default()).unwrap();
    let mut rng = fastrand::Rng::with_seed(7);
    let mut runs = Vec::new();
    let names = experiment.arms.iter().map(|arm| arm.name.clone());
    let names: Vec<String> = names.chain([AGAIN.to_owned()]).collect();
    for block in 1..=blocks {
        for (n, arm) in names.iter().enumerate() {
            let speed = if arm == AGAIN { 1.0 } else { 1.0 + n as f64 / 4.0 };
            let tps = 1_000.0 * speed * (1.0 + 0.02 * rng.f64());
            let outcome = match n + 1 == arms && arms > 2 {
                true => Outcome::Skipped("needs <SSL>".to_owned()),
                false => Outcome::Measured(measures(tps, seconds, &mut rng)),
            };
            let (experiment, arm, turn) = (experiment.name.clone(), arm.clone(), u32::try_from(n).unwrap() + 1);
            runs.push(Run { experiment, arm, factors: BTreeMap::new(), block, turn, outcome });
        }
    }
    Record {
        format: 4,
        date: "2026-01-31T12:00:00Z".to_owned(),
        argv: ["millstream", "lab", "<run>"].map(str::to_owned).to_vec(),
        version: "0".to_owned(),
        machine: machine(),
        conditions: conditions(experiment, blocks, seconds),
        runs,
    }
}

fn conditions(experiment: Experiment, blocks: u32, seconds: u32) -> Conditions {
    let statement = BTreeMap::from([("select '<x>';".to_owned(), 0.25)]);
    Conditions {
        files: BTreeMap::from([("a.sql".to_owned(), "select 1 < 2;".to_owned())]),
        blocks,
        seconds,
        seed: 1,
        servers: BTreeMap::from([(String::new(), "PostgreSQL 18.1 on x86_64".to_owned())]),
        pgbench: "pgbench 18.1".to_owned(),
        log_ratios: vec![0.97, 0.98, 0.96, 0.97, 0.99, 0.95, 0.97, 0.98],
        statements: experiment.arms.iter().map(|arm| (arm.name.clone(), statement.clone())).collect(),
        steal_percent_max: 2.0,
        voids: 1,
        experiment,
        ..Conditions::default()
    }
}

fn measures(tps: f64, seconds: u32, rng: &mut fastrand::Rng) -> Measures {
    let ms = 1e3 / tps;
    let values = [("tps", tps), ("latency_ms", ms), ("p50_ms", ms), ("p99_ms", ms * 4.0), ("p999_ms", ms * 9.0)];
    let series = Series::each_second((0..seconds).map(|_| Some(tps * (0.9 + 0.2 * rng.f64()))));
    let checkpoints =
        Series::each_second((0..seconds).map(|second| Some(f64::from(u8::from(second % 30 >= 7 && second % 30 < 12)))));
    Measures {
        values: values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
        series: BTreeMap::from([("tps".to_owned(), series), ("checkpoint.running".to_owned(), checkpoints)]),
        recorded: [("processor.busy_percent", 98.0), ("sessions.active", 2.0), ("wait.CPU", 1.9)]
            .map(|(name, value)| (name.to_owned(), value))
            .into(),
        notes: vec!["a note with <tags>".to_owned()],
        ..Measures::default()
    }
}

fn machine() -> Machine {
    let disk = Disk { holds_data: true, file_system: Some("ext4".to_owned()), rotational: false, flush_us: Some(50.0) };
    Machine {
        kernel: "linux 6.12".to_owned(),
        architecture: "x86_64".to_owned(),
        processor: Some("Processor <9>".to_owned()),
        cores: 2,
        memory_bytes: 8 << 30,
        load_average: Some(0.5),
        disk,
    }
}
