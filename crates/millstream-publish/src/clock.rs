//! Warns of casts in a definition that follow the clock: the words `now`, `today`, `tomorrow` and `yesterday` in a document
//! mean another time at each refresh.

use crate::error::Error;
use tokio_postgres::GenericClient;

/// Why the rows of a view may follow the clock, if they may; `is_query` if they are those of a query of the user's own.
pub(crate) async fn follows_clock(
    client: &impl GenericClient,
    view: &str,
    is_query: bool,
) -> Result<Option<String>, Error> {
    let types: Option<String> = client.query_one(include_str!("clock.sql"), &[&view]).await?.get(0);
    Ok(types.map(|types| warning(&types, is_query)))
}

fn warning(types: &str, is_query: bool) -> String {
    let leave_out = "leave them out, as by the condition doc->>'at' ~ '^[0-9]'";
    let (casts, way_out) = match is_query {
        true => ("--query casts", leave_out.to_owned()),
        false => ("--select or --where casts", format!("--column NAME:TYPE=PATH makes them null; or {leave_out}")),
    };
    format!(
        "{casts} text to {types}; the words now, today, tomorrow and yesterday in a document then mean the time of the \
         refresh, and another one at the next: {way_out}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_has_no_typed_columns_to_point_at() {
        let [query, rows] = [true, false].map(|is_query| warning("date", is_query));
        assert!(query.contains("casts text to date;") && !query.contains("NAME:TYPE=PATH"), "{query}");
        assert!(rows.contains("NAME:TYPE=PATH"), "{rows}");
    }
}
