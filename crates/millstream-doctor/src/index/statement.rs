//! A query that is planned and never executed.

use super::plan::Node;
use super::sql::Sql;
use millstream_pg::{Error, ErrorKind};
use tokio_postgres::GenericClient;

/// The name under which queries are prepared for planning. It is always the same, because the server counts each
/// `explain execute NAME` as a statement of its own.
const NAME: &str = "millstream_explained";

/// Settings that make the planner use an index wherever it can.
pub(super) const USABLE: &[(&str, &str)] = &[("enable_seqscan", "off")];

/// The same for the conditions of joins.
pub(super) const USABLE_BY_JOINS: &[(&str, &str)] =
    &[("enable_seqscan", "off"), ("enable_hashjoin", "off"), ("enable_mergejoin", "off")];

/// First words of statements that can be planned and change nothing.
const QUERIES: &[&str] = &["select", "with", "table", "values", "("];

/// A query.
#[derive(Debug, Clone, Copy)]
pub(super) struct Statement<'a> {
    pub(super) sql: &'a str,
}

impl Statement<'_> {
    /// Refuses a text that is not a single query.
    pub(super) fn check(&self) -> Result<(), Error> {
        let sql = Sql::new(self.sql);
        let mut pieces = sql.pieces();
        let first = pieces.next().unwrap_or_default().to_ascii_lowercase();
        let refused =
            |message: &str, hint: &str| Err(Error::Query { message: message.to_owned(), hint: hint.to_owned() });
        match first.as_str() {
            "" => refused("the query is empty", "give one select, in quotes"),
            "explain" => refused("the query begins with explain", "give the query that is to be explained"),
            _ if !QUERIES.contains(&first.as_str()) => refused(
                &format!("only a query can be explained, and this begins with \"{first}\""),
                "give the select, or a select with the same conditions",
            ),
            _ if pieces.skip_while(|piece| *piece != ";").any(|piece| piece != ";") => {
                refused("this is more than one statement", "give one select, in quotes")
            }
            _ => Ok(()),
        }
    }

    /// The plan in the open transaction, for parameters of any value.
    pub(super) async fn plan(&self, client: &impl GenericClient) -> Result<Node, Error> {
        // The extended protocol refuses a text of two statements, and `prepare` refuses everything but a query or a
        // change of rows.
        // A plan that failed has left the name behind.
        if parameters(client).await?.is_some() {
            client.execute(&format!("deallocate {NAME}"), &[]).await?;
        }
        client.execute(&format!("prepare {NAME} as {}", self.sql), &[]).await?;
        let json = explained(client).await?;
        client.execute(&format!("deallocate {NAME}"), &[]).await?;
        Node::read(&json).map_err(|error| Error::Driver { message: format!("a plan that cannot be read: {error}") })
    }
}

/// Turns a server error about the given query into `Error::Query`: the query is wrong, not Millstream.
pub(super) fn of_query(error: Error) -> Error {
    match error {
        Error::Server { kind: ErrorKind::Bug | ErrorKind::Config, sqlstate, message, .. } => Error::Query {
            message: format!("the query is refused: {message} (SQLSTATE {sqlstate})"),
            hint: "give one that psql takes; a parameter may need its type: $1::text".to_owned(),
        },
        other => other,
    }
}

/// The plan of a prepared query, as JSON.
async fn explained(client: &impl GenericClient) -> Result<String, Error> {
    let nulls = vec!["null"; parameters(client).await?.unwrap_or(0)].join(", ");
    let given = if nulls.is_empty() { String::new() } else { format!("({nulls})") };
    client.batch_execute("set local plan_cache_mode = force_generic_plan").await?;
    // The answer has the type json. The driver returns it as text only in the simple protocol.
    let answer = client.simple_query(&format!("explain (format json, verbose) execute {NAME}{given}")).await?;
    let rows = answer.iter().filter_map(|message| match message {
        tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    Ok(rows.collect::<Vec<_>>().join("\n"))
}

/// How many parameters the prepared query has. `None` if there is none of that name.
async fn parameters(client: &impl GenericClient) -> Result<Option<usize>, Error> {
    let sql = "select coalesce(pg_catalog.cardinality(parameter_types), 0) \
               from pg_catalog.pg_prepared_statements where name = $1";
    let Some(row) = client.query_opt(sql, &[&NAME]).await? else { return Ok(None) };
    Ok(Some(usize::try_from(row.try_get::<_, i32>(0)?).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_pg::Explained as _;

    #[test]
    fn only_a_single_query_is_accepted() {
        for sql in
            ["select 1", " /* a; b */ SELECT ';' ; ", "(select 1) union (select 2);;", "with a as (select 1) table a"]
        {
            assert!(Statement { sql }.check().is_ok(), "{sql}");
        }
        for (sql, message) in [
            ("", "empty"),
            ("-- nothing", "empty"),
            ("delete from t", "begins with \"delete\""),
            ("explain analyze select 1", "begins with explain"),
            ("select 1; drop table t", "more than one"),
            ("select 1;; -- x\n commit", "more than one"),
        ] {
            let error = Statement { sql }.check().unwrap_err();
            assert!(error.to_string().contains(message) && error.hint().is_some(), "{sql}: {error}");
        }
    }
}
