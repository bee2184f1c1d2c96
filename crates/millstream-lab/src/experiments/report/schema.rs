//! Tests that the published schema describes what a report prints as JSON.

use super::fixture::record;
use crate::experiments::Analysis;
use millstream_testkit::misfit;
use serde_json::Value;

/// The published schema.
const SCHEMA: &str = include_str!("../../../../../lab/report.schema.json");

#[test]
fn the_published_schema_describes_reports() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    for (arms, blocks) in [(1, 1), (3, 0), (5, 10)] {
        let report = serde_json::to_value(Analysis::of(&record(arms, blocks, 5))).unwrap();
        assert_eq!(misfit(&report, &schema), None);
    }
    let mut wrong = serde_json::to_value(Analysis::of(&record(2, 2, 5))).unwrap();
    wrong["arms"][0]["limited"]["by"] = "weather".into();
    assert!(misfit(&wrong, &schema).unwrap().contains("weather"));
    wrong["arms"][0]["limited"] = Value::Null;
    wrong["arms"][0]["new"] = 1.into();
    assert_eq!(misfit(&wrong, &schema).unwrap(), ".arms: nothing is called new");
}
