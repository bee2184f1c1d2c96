//! Every run of a record as CSV: one line each.

use super::super::record::Record;
use crate::core::{Metric, Outcome, Run};

/// The runs of a record: experiment, block, turn, arm, outcome, and a column for each metric that a run has.
pub fn csv(record: &Record) -> String {
    let has = |metric: &&Metric| record.runs.iter().any(|run| run.value(&metric.name).is_some());
    let metrics: Vec<&Metric> = record.conditions.experiment.metrics().filter(has).collect();
    let names = metrics.iter().map(|metric| metric.name.as_ref());
    let heading: Vec<&str> = ["experiment", "block", "turn", "arm", "outcome"].into_iter().chain(names).collect();
    let mut text = heading.join(",") + "\n";
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

/// A field as RFC 4180 writes it.
fn field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_with_a_comma_is_quoted() {
        assert_eq!([field("a"), field("a,\"b\"")], ["a".to_owned(), "\"a,\"\"b\"\"\"".to_owned()]);
    }
}
