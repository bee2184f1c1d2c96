//! Whose code runs with the rights of a session: of the owners of our tables, and of the owners of a collection.

use crate::error::Error;
use crate::schema::Schema;
use millstream_model::shell_word;
use millstream_pg::fill;
use tokio_postgres::GenericClient;

/// Which roles a session trusts, as tables of a statement. It has a place for the parameter that names more roles.
pub(crate) const ROLES: &str = include_str!("trusted_roles.sql");

/// A query for the sentences that say what a session may do, and code of others must not. No rows: it can only read and
/// write tables.
pub const POWERS: &str = include_str!("powers.sql");

/// The tables that we make in every schema.
const TABLES: &[&str] =
    &["meta", "collection", "load", "lane", "reject", "unlogged_load", "tombstone", "model", "segment", "merged_range"];

/// The sequences that no column owns.
const SEQUENCES: &[&str] = &["run_number", "segment_number"];

/// Our functions, whatever their arguments: a call finds the one that fits its arguments best. `range_of` is made by an
/// export of IP ranges.
const FUNCTIONS: &[&str] = &["merge_deep", "distinct_walk", "distinct_values", "range_of"];

impl Schema {
    /// Requires that nobody can use this schema to run code with the rights of this session. Its owner, and the owners
    /// of our tables and functions in it, must be this role, a superuser, a role of which this role is a member, or one
    /// named by [`Schema::trusting`]. Our tables must be plain ones: no views, rules, row-level security or triggers.
    ///
    /// Other roles may own segments, read models and change records. Whoever writes those checks their owner.
    ///
    /// A schema that does not exist is trusted.
    ///
    /// # Errors
    /// [`Error::Untrusted`] names the owner or the object; the server's.
    pub async fn require_trusted(&self, client: &impl GenericClient) -> Result<(), Error> {
        let trusted = self.trusted();
        let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 5] =
            [&self.name(), &trusted, &TABLES, &SEQUENCES, &FUNCTIONS];
        let sql = fill!(include_str!("trust.sql"), roles = fill!(ROLES, trusted = "$2"));
        let Some(row) = client.query_opt(&sql, &parameters).await? else { return Ok(()) };
        let (what, owner): (String, Option<String>) = (row.get("problem"), row.get("owner"));
        let problem = match &owner {
            Some(owner) => format!("{what} belongs to role {owner}"),
            None => what,
        };
        Err(Error::Untrusted { schema: self.name().to_owned(), problem, owner, role: row.get("role") })
    }

    /// Requires that a session with more rights than tables need trusts everybody who may write our tables. What they say
    /// decides which tables a refresh, a publish or a compaction reads, writes and drops.
    ///
    /// # Errors
    /// [`Error::Writers`] names the roles that it does not trust; the server's.
    pub async fn require_trusted_writers(&self, client: &impl GenericClient) -> Result<(), Error> {
        let sql = fill!(include_str!("writers.sql"), roles = fill!(ROLES, trusted = "$2"), powers = POWERS);
        let rows = client.query(&sql, &[&self.name(), &self.trusted(), &TABLES]).await?;
        let Some(first) = rows.first() else { return Ok(()) };
        let (role, writers) = (first.get("role"), rows.iter().map(|row| row.get("writer")).collect());
        Err(Error::Writers { schema: self.name().to_owned(), writers, role })
    }

    /// Requires that a session with more rights than tables need trusts everybody who may change what the SQL of a read
    /// model calls: who may create in these schemas, for a new function can fit a call better than the one that was
    /// found there, and these owners of functions, operators and types, by their OIDs.
    ///
    /// # Errors
    /// [`Error::Refused`] names the role; the server's.
    pub async fn require_trusted_calls(
        &self,
        client: &impl GenericClient,
        schemas: &[String],
        owners: &[u32],
    ) -> Result<(), Error> {
        let sql = fill!(include_str!("creators.sql"), roles = fill!(ROLES, trusted = "$2"), powers = POWERS);
        let Some(row) = client.query_opt(&sql, &[&schemas, &self.trusted(), &owners]).await? else { return Ok(()) };
        let creator: String = row.get("creator");
        let of = if schemas.is_empty() { String::new() } else { format!(" of the schema {}", schemas.join(", ")) };
        let who = named(&creator);
        let problem =
            format!("{who} may change what the model's functions, operators or types{of} do, with your rights");
        let hint = format!(
            "publish as a role that has no more rights than tables need; or, if you trust {creator} with yours: \
             --trust-owner {}",
            shell_word(&creator)
        );
        Err(Error::refused(problem, hint))
    }
}

/// The roles that a session trusts with its rights, by OID, itself among them. What belongs to others is not taken for
/// Millstream's, whatever it says of itself.
///
/// # Errors
/// The server's.
pub async fn trusted_owners(client: &impl GenericClient, schema: &Schema) -> Result<Vec<u32>, Error> {
    let sql = fill!(include_str!("trusted_owners.sql"), roles = fill!(ROLES, trusted = "$1"));
    Ok(client.query(&sql, &[&schema.trusted()]).await?.iter().map(|row| row.get(0)).collect())
}

/// Whether a session, or a role that it may become, has more rights than tables need.
///
/// # Errors
/// The server's.
pub async fn has_powers(client: &impl GenericClient) -> Result<bool, Error> {
    Ok(client.query_one(&format!("select exists (\n{POWERS})"), &[]).await?.get(0))
}

/// Whether a session writes a table or only reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Triggers, checks and the like run for each row.
    Write,
    /// Casts can run, and what the planner evaluates: expressions of indexes, statistics and keys of partitions, checks of
    /// partitions, policies.
    Read,
}

/// Sentences that name the code of other roles that runs with this session's rights when a table is written or read.
/// None if this session neither has more rights than tables need nor may become a role that has.
///
/// # Errors
/// The server's.
pub async fn foreign_code(
    client: &impl GenericClient,
    schema: &Schema,
    table_oid: u32,
    access: Access,
) -> Result<Vec<String>, Error> {
    let sql = fill!(include_str!("foreign_code.sql"), roles = fill!(ROLES, trusted = "$2"), powers = POWERS);
    let rows = client.query(&sql, &[&table_oid, &schema.trusted(), &(access == Access::Read), &schema.name()]).await?;
    let when = match access {
        Access::Write => "for each document",
        Access::Read => "when the collection is read",
    };
    let warning = |owner: &str, code: &str| {
        format!("code of role {owner} runs with your rights {when}: {code}; connect as {owner} instead")
    };
    Ok(rows.iter().map(|row| warning(row.get("owner"), row.get("code"))).collect())
}

/// The owner of a view, if reading it would run code of a role that this session does not trust with its rights.
///
/// # Errors
/// The server's.
pub async fn foreign_owner(
    client: &impl GenericClient,
    schema: &Schema,
    view_oid: u32,
) -> Result<Option<String>, Error> {
    let sql = fill!(include_str!("foreign_owner.sql"), roles = fill!(ROLES, trusted = "$2"), powers = POWERS);
    Ok(client.query_opt(&sql, &[&view_oid, &schema.trusted()]).await?.map(|row| row.get("owner")))
}

/// How a problem names a role. No role can be named public: it stands for everybody.
pub(crate) fn named(role: &str) -> String {
    if role == "public" { "every role".to_owned() } else { format!("role {role}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_and_function_that_we_make_is_checked() {
        let made = [
            include_str!("schema.sql"),
            include_str!("schema_2.sql"),
            include_str!("schema_3.sql"),
            include_str!("schema_4.sql"),
        ];
        let made = made.concat();
        let names = |word: &str| -> Vec<String> {
            let start = format!("create {word} {{schema}}.");
            let ends = |c: char| !c.is_ascii_alphanumeric() && c != '_';
            made.split(&start).skip(1).filter_map(|text| text.split(ends).next()).map(str::to_owned).collect()
        };
        let tables = [names("table"), names("unlogged table")].concat();
        assert_eq!(sorted(tables), sorted(TABLES.iter().map(ToString::to_string).collect()));
        assert_eq!(sorted(names("sequence")), sorted(SEQUENCES.iter().map(ToString::to_string).collect()));
        let functions = names("function");
        assert!(
            functions.len() == 3 && functions.iter().all(|name| FUNCTIONS.contains(&name.as_str())),
            "{functions:?}"
        );
    }

    fn sorted(mut names: Vec<String>) -> Vec<String> {
        names.sort();
        names
    }
}
