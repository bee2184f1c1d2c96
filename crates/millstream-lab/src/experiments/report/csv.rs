//! Every run of a record as CSV: one line each.

use super::super::record::Record;
use crate::core::{Metric, Outcome, Run};

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
    fn a_field_with_a_comma_is_quoted() {
        assert_eq!([field("a"), field("a,\"b\"")], ["a".to_owned(), "\"a,\"\"b\"\"\"".to_owned()]);
    }
}
