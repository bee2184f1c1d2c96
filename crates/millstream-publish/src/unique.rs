//! The columns that tell the rows of a query apart: a materialized view is refreshed beside its readers by them.

use crate::error::Error;
use crate::limits::UNIQUE_COLUMNS;
use crate::refusal::refused_with_hint;
use crate::row_wise::plan;
use millstream_pg::quote_identifier;
use tokio_postgres::GenericClient;

/// Those columns of a view: the ones that were named, or else those of which the planner proves it. `stand_in` is an empty
/// table with the same columns.
///
/// # Errors
/// [`Error::Refused`] when the view has no such column, or when nothing proves it for any.
pub(crate) async fn unique_columns(
    client: &impl GenericClient,
    (view, stand_in): (&str, &str),
    columns: &[String],
    named: &[String],
) -> Result<Vec<String>, Error> {
    if !named.is_empty() {
        return named.iter().map(|name| column(name.trim(), columns)).collect();
    }
    let mut unique = Vec::new();
    for column in columns.iter().take(UNIQUE_COLUMNS) {
        match is_proved(client, (view, stand_in), &[column]).await? {
            Some(true) => return Ok(vec![column.clone()]),
            Some(false) => unique.push(column),
            None => {}
        }
    }
    if unique.is_empty() || is_proved(client, (view, stand_in), &unique).await? != Some(true) {
        let problem = "nothing proves which columns tell the rows of the query apart";
        let hint = "name them: --unique COLUMN[,COLUMN..]; they are found where the query groups by columns that it \
                    shows, is distinct, makes one row, or shows the whole key of the collection unsorted";
        return Err(Error::refused(problem, hint));
    }
    // From the end, so that the first columns stay.
    for n in (0..unique.len()).rev() {
        let mut fewer = unique.clone();
        fewer.remove(n);
        if !fewer.is_empty() && is_proved(client, (view, stand_in), &fewer).await? == Some(true) {
            unique = fewer;
        }
    }
    Ok(unique.into_iter().cloned().collect())
}

/// The column of this name, as in SQL without quotes: a name in capitals may stand for one in small letters.
fn column(name: &str, columns: &[String]) -> Result<String, Error> {
    let lower = name.to_lowercase();
    let found =
        columns.iter().find(|column| *column == name).or_else(|| columns.iter().find(|column| **column == lower));
    found.cloned().ok_or_else(|| {
        let problem = format!("--unique: the query has no column \"{name}\"");
        Error::refused(problem, format!("its columns are {}", columns.join(", ")))
    })
}

/// Whether no two rows of the view can agree in these columns; `None` if they cannot be compared. The planner removes a left
/// join if it has a proof of this: by a key, or by what the view is grouped by or distinct in.
async fn is_proved(
    client: &impl GenericClient,
    (view, stand_in): (&str, &str),
    columns: &[&String],
) -> Result<Option<bool>, Error> {
    let pairs: Vec<String> = columns.iter().map(|column| quote_identifier(column)).collect();
    let pairs: Vec<String> =
        pairs.iter().map(|column| format!("one.{column} operator(pg_catalog.=) other.{column}")).collect();
    let query = format!("select from {stand_in} as one left join {view} as other on {}", pairs.join(" and "));
    client.batch_execute("savepoint proof").await?;
    let planned = plan(client, &query).await;
    client.batch_execute("rollback to proof; release proof").await?;
    match planned {
        Ok(plan) => Ok(Some(plan.get("Node Type").is_some() && plan.get("Plans").is_none())),
        Err(error) => match refused_with_hint("the query", error, "") {
            Error::Refused(_) => Ok(None),
            other => Err(other),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_is_named_as_in_sql() {
        let columns = ["day", "Day", "sum of \"x\""].map(str::to_owned);
        for (name, expected) in [("day", "day"), ("DAY", "day"), ("Day", "Day"), ("sum of \"x\"", "sum of \"x\"")] {
            assert_eq!(column(name, &columns).unwrap(), expected);
        }
        assert!(column("\"day\"", &columns).is_err());
    }
}
