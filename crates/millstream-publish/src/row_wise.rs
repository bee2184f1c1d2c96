//! Checks that each row of a model depends on one row of its collection only.

use crate::definition::Derivation;
use crate::error::Error;
use crate::refusal::refused;
use serde_json::Value;
use tokio_postgres::{GenericClient, SimpleQueryMessage};

/// Nodes of a plan, as `explain` names them, that combine several rows, or make several or none of one; and the SQL
/// that asks for them.
const STEPS: &[(&str, &str)] = &[
    ("Aggregate", "an aggregate, `distinct` or `group by`"),
    ("Append", "a union"),
    ("Group", "`group by`"),
    ("Limit", "a limit"),
    ("ProjectSet", "a function that returns a set"),
    ("SetOp", "`intersect` or `except`"),
    ("Unique", "`distinct`"),
    ("WindowAgg", "a window function"),
];

/// The server's plan of a query, as `explain (format json)` prints it.
pub(crate) async fn plan(client: &impl GenericClient, query: &str) -> Result<Value, tokio_postgres::Error> {
    let lines = client.simple_query(&format!("explain (format json) {query}")).await?;
    let text = lines.iter().find_map(|line| match line {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    let plan: Option<Value> = text.and_then(|text| serde_json::from_str(text).ok());
    Ok(plan.and_then(|mut plan| plan.pointer_mut("/0/Plan").map(Value::take)).unwrap_or_default())
}

/// Refuses a definition in which a row depends on other rows, because rows are derived from ranges of the collection
/// and from changed keys. The query is planned, not executed.
///
/// # Errors
/// [`Error::Refused`] names what the definition asks for.
pub(crate) async fn check_row_wise(client: &impl GenericClient, derivation: &Derivation) -> Result<(), Error> {
    let plan = plan(client, &derivation.rows("")).await.map_err(|error| refused("the model", error))?;
    let Some(what) = across_rows(&plan) else { return Ok(()) };
    let problem = format!("each row of a model is made of one row of the collection, and this uses {what}");
    let hint = "use it in a subselect over values of the row; or make a report with --materialized and --query, which \
                derives all rows every time";
    Err(Error::refused(problem, hint))
}

/// The SQL that combines or multiplies rows above the scan of the collection. The search stops at a join: a document
/// may be joined to what is looked up for it.
fn across_rows(plan: &Value) -> Option<&'static str> {
    let kind = plan.get("Node Type").and_then(Value::as_str)?;
    if let Some((_, what)) = STEPS.iter().find(|(step, _)| *step == kind) {
        return Some(what);
    }
    let below = plan.get("Plans").and_then(Value::as_array)?;
    // A subselect in an expression does not change the number of rows.
    let is_apart = |step: &&Value| {
        let relation = step.get("Parent Relationship").and_then(Value::as_str);
        !matches!(relation, Some("InitPlan" | "SubPlan"))
    };
    match below.iter().filter(is_apart).collect::<Vec<_>>().as_slice() {
        [step] => across_rows(step),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn steps_above_rows_are_found_and_subplans_are_ignored() {
        let scan = json!({ "Node Type": "Seq Scan", "Parent Relationship": "Outer" });
        let within = json!({ "Node Type": "Aggregate", "Parent Relationship": "SubPlan" });
        let above = |kind: &str| json!({ "Node Type": kind, "Plans": [within, scan] });
        assert_eq!(across_rows(&above("Result")), None);
        for (step, what) in STEPS {
            assert_eq!(across_rows(&above(step)), Some(*what));
            let mut under = above(step);
            under["Parent Relationship"] = "Subquery".into();
            assert_eq!(across_rows(&json!({ "Node Type": "Gather", "Plans": [under] })), Some(*what));
        }
        let looked_up = json!({ "Node Type": "Limit", "Parent Relationship": "Inner" });
        assert_eq!(across_rows(&json!({ "Node Type": "Nested Loop", "Plans": [scan, looked_up] })), None);
    }
}
