//! The format of a record's file, and how a file of an earlier format becomes one of the current format.

use serde_json::{Map, Value};

/// Version of the format that is written. All versions up to this one can be read.
pub const FORMAT: u32 = 3;

/// Fields of a measurement that became factors of a run. Format 2 named the durability only if it was not the default.
const FACTORS: &[(&str, Option<&str>)] =
    &[("data_set", None), ("phase", None), ("durability", Some("durable")), ("round_trip_ms", None)];

/// Fields of a record that became conditions of the experiments that load documents.
const CONDITIONS: &[&str] = &["rounds", "lanes", "table", "data_sets"];

/// The record in the current format. What is not as it should be stays, so that whoever reads the result reports it.
pub(crate) fn upgrade(mut record: Value) -> Value {
    if let Some(record) = record.as_object_mut() {
        let format = record.get("format").and_then(Value::as_u64);
        if format <= Some(1) {
            from_1(record);
        }
        if format <= Some(2) {
            from_2(record);
        }
    }
    record
}

/// Format 1 had a single experiment, which data sets and measurements did not name, and another name for the third
/// wave.
fn from_1(record: &mut Map<String, Value>) {
    let Some(name) = record.remove("experiment") else { return };
    record.insert("experiments".to_owned(), Value::from(vec![name.clone()]));
    for list in ["data_sets", "samples"] {
        let items = record.get_mut(list).and_then(Value::as_array_mut);
        for one in items.into_iter().flatten().filter_map(Value::as_object_mut) {
            one.insert("experiment".to_owned(), name.clone());
            if one.get("phase").is_some_and(|phase| phase == "changed again") {
                one.insert("phase".to_owned(), Value::from("changed 3"));
            }
        }
    }
}

/// Format 2 knew only experiments that load documents. What was varied and what was measured were fixed fields.
fn from_2(record: &mut Map<String, Value>) {
    let Some(samples) = record.remove("samples") else { return };
    let conditions = CONDITIONS.iter().filter_map(|name| Some(((*name).to_owned(), record.remove(*name)?)));
    let conditions: Map<String, Value> = conditions.collect();
    let runs = match samples {
        Value::Array(samples) => samples.into_iter().map(run).collect(),
        other => other,
    };
    record.insert("ingest".to_owned(), conditions.into());
    record.insert("runs".to_owned(), runs);
    record.insert("format".to_owned(), FORMAT.into());
}

fn run(sample: Value) -> Value {
    let Value::Object(mut sample) = sample else { return sample };
    let mut factors = Map::new();
    for (name, default) in FACTORS {
        let text = match sample.remove(*name) {
            Some(Value::String(text)) => Some(text),
            Some(Value::Null) | None => default.map(str::to_owned),
            Some(other) => Some(other.to_string()),
        };
        factors.extend(text.map(|text| ((*name).to_owned(), Value::from(text))));
    }
    for (before, now) in [("subject", "arm"), ("round", "block")] {
        if let Some(value) = sample.remove(before) {
            sample.insert(now.to_owned(), value);
        }
    }
    let rows = sample.remove("rows");
    let stored = sample.remove("stored").or_else(|| rows.clone());
    if let Some(Value::Object(mut measured)) = sample.remove("measured") {
        let receipt = measured.remove("receipt").filter(|receipt| !receipt.is_null());
        measured.extend(rows.map(|rows| ("rows".to_owned(), rows)));
        measured.extend(stored.map(|stored| ("stored".to_owned(), stored)));
        measured.retain(|_, value| value.is_number());
        let mut measures = Map::from_iter([("values".to_owned(), Value::from(measured))]);
        measures.extend(receipt.map(|receipt| ("receipt".to_owned(), receipt)));
        sample.insert("measured".to_owned(), measures.into());
    }
    sample.insert("factors".to_owned(), factors.into());
    Value::from(sample)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_sample_of_format_2_becomes_a_run() {
        let sample = json!({
            "experiment": "log", "data_set": "random-150", "round": 2, "turn": 3, "subject": "copy", "phase": "fresh",
            "durability": "async", "round_trip_ms": 5, "rows": 10, "stored": 9,
            "measured": {"wall_seconds": 0.5, "client_cpu_seconds": null, "wal_bytes": 7, "receipt": {"read": 10}}
        });
        let failed = json!({"experiment": "log", "data_set": "d", "round": 1, "turn": 1, "subject": "s", "phase": "p",
            "rows": 10, "error": "why"});
        let before = json!({"format": 2, "seed": 1, "rounds": 2, "lanes": 2, "table": "t", "data_sets": [],
            "samples": [sample, failed]});
        let expected = json!({
            "format": 3, "seed": 1, "ingest": {"rounds": 2, "lanes": 2, "table": "t", "data_sets": []},
            "runs": [
                {"experiment": "log", "arm": "copy", "block": 2, "turn": 3,
                 "factors": {"data_set": "random-150", "phase": "fresh", "durability": "async", "round_trip_ms": "5"},
                 "measured": {"values": {"wall_seconds": 0.5, "wal_bytes": 7, "rows": 10, "stored": 9},
                              "receipt": {"read": 10}}},
                {"experiment": "log", "arm": "s", "block": 1, "turn": 1,
                 "factors": {"data_set": "d", "phase": "p", "durability": "durable"}, "error": "why"},
            ]
        });
        assert_eq!(upgrade(before), expected);
        assert_eq!(upgrade(expected.clone()), expected, "the current format stays");
    }
}
