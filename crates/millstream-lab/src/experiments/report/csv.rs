//! Every run of a record as CSV: one line each, or one for each second.

use super::super::record::Record;
use crate::core::{Metric, Outcome, Run, Series};
use std::collections::{BTreeMap, BTreeSet};

/// The runs of a record: experiment, block, turn, arm, outcome, and a column for each metric that a run has.
pub fn csv(record: &Record) -> String {
    let has = |metric: &&Metric| record.runs.iter().any(|run| run.value(&metric.name).is_some());
    let metrics: Vec<&Metric> = record.conditions.experiment.metrics().filter(has).collect();
    let names = metrics.iter().map(|metric| metric.name.as_ref());
    let heading = ["experiment", "block", "turn", "arm", "outcome"].into_iter().chain(names).map(field);
    let mut text = heading.collect::<Vec<_>>().join(",") + "\n";
    for run in &record.runs {
        let outcome = match &run.outcome {
            Outcome::Measured(_) => "measured".to_owned(),
            Outcome::Void(why) => format!("void: {why}"),
            Outcome::Skipped(why) => format!("skipped: {why}"),
            Outcome::Error(why) => format!("error: {why}"),
        };
        let Run { experiment, block, turn, arm, .. } = run;
        let mut cells = vec![field(experiment), block.to_string(), turn.to_string(), field(arm), field(&outcome)];
        cells.extend(
            metrics.iter().map(|metric| run.value(&metric.name).map(|value| value.to_string()).unwrap_or_default()),
        );
        text += &(cells.join(",") + "\n");
    }
    text
}

/// What good runs did over time: block, turn, arm, second, and a column for each series that a run has. A second is counted
/// from the start of the run, with its warm-up; it is the time at which its values were complete.
pub fn csv_series(record: &Record) -> String {
    let names: BTreeSet<&String> = record.runs.iter().filter_map(series).flat_map(BTreeMap::keys).collect();
    let heading =
        ["experiment", "block", "turn", "arm", "second"].into_iter().chain(names.iter().map(|name| name.as_str()));
    let mut text = heading.map(field).collect::<Vec<_>>().join(",") + "\n";
    for run in &record.runs {
        let Some(all) = series(run) else { continue };
        let Run { experiment, block, turn, arm, .. } = run;
        let own = format!("{},{block},{turn},{}", field(experiment), field(arm));
        // The series of a run may have different steps.
        let mut steps: Vec<f64> = all.values().map(|one| one.step_seconds).filter(|step| *step > 0.0).collect();
        steps.sort_by(f64::total_cmp);
        steps.dedup();
        for step in steps {
            let of_step = |one: &&Series| one.step_seconds == step;
            let length = all.values().filter(of_step).map(|one| one.values.len()).max().unwrap_or(0);
            for n in 0..length {
                let value = |name: &&String| all.get(*name).filter(of_step).and_then(|one| *one.values.get(n)?);
                let shown = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
                let cells: Vec<String> = names.iter().map(|name| shown(value(name))).collect();
                text += &format!("{own},{},{}\n", (n + 1) as f64 * step, cells.join(","));
            }
        }
    }
    text
}

fn series(run: &Run) -> Option<&BTreeMap<String, Series>> {
    run.measures().map(|measures| &measures.series)
}

/// The beginnings of a text that a spreadsheet takes for a formula. Source: OWASP, CSV injection.
const FORMULAS: &[char] = &['=', '+', '-', '@', '\t', '\r'];

/// A text as RFC 4180 writes it. An apostrophe before it says that it is no formula.
fn field(text: &str) -> String {
    let text = if text.starts_with(FORMULAS) { format!("'{text}") } else { text.to_owned() };
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

#[cfg(test)]
mod tests {
    use super::super::fixture::record;
    use super::*;

    #[test]
    fn a_text_is_no_formula() {
        let mut record = record(2, 1, 1);
        for run in &mut record.runs {
            run.arm = "=cmd|' /C calc'!A0".to_owned();
            run.outcome = Outcome::Error("x".to_owned());
        }
        let text = csv(&record);
        assert_eq!(text.lines().nth(1), Some("fixture,1,1,'=cmd|' /C calc'!A0,error: x"), "{text}");
        assert_eq!(field("-1,\"2\""), "\"'-1,\"\"2\"\"\"");
        assert_eq!(["+a", "@a", "\ta", "a-b"].map(field), ["'+a", "'@a", "'\ta", "a-b"].map(str::to_owned));
        assert_eq!(field("\ra"), "\"'\ra\"");
    }

    #[test]
    fn the_seconds_of_each_run_are_lines_and_what_is_missing_is_empty() {
        let mut record = record(2, 1, 2);
        for run in &mut record.runs {
            let Outcome::Measured(measures) = &mut run.outcome else { panic!("{run:?}") };
            measures.series = [("tps", vec![Some(7.5), None]), ("disk.data.read_mb_per_second", vec![Some(2.0)])]
                .map(|(name, values)| (name.to_owned(), Series::each_second(values)))
                .into();
        }
        record.runs[1].outcome = Outcome::Void("x".to_owned());
        let text = csv_series(&record);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "experiment,block,turn,arm,second,disk.data.read_mb_per_second,tps");
        assert_eq!((lines.len(), lines[3]), (5, "fixture,1,3,again,1,2,7.5"), "{text}");
        assert!(lines[4].ends_with(",again,2,,"), "{text}");
        for run in &mut record.runs {
            run.outcome = Outcome::Void("x".to_owned());
        }
        assert_eq!(csv_series(&record), "experiment,block,turn,arm,second\n");
    }

    #[test]
    fn a_field_with_a_comma_is_quoted() {
        assert_eq!([field("a"), field("a,\"b\"")], ["a".to_owned(), "\"a,\"\"b\"\"\"".to_owned()]);
    }
}
