//! SQL that a user gives, which may run code of other roles as soon as the server parses it.

use crate::error::Error;
use crate::schema::Schema;
use crate::sql_names::SqlNames;
use crate::trust::{POWERS, ROLES, named};
use millstream_model::shell_word;
use millstream_pg::fill;
use tokio_postgres::GenericClient;
use tokio_postgres::types::ToSql;

/// SQL that a user gives.
#[derive(Debug, Clone, Copy)]
pub struct GivenSql<'a> {
    /// What it belongs to, as in "model".
    pub of: &'a str,
    /// The texts.
    pub texts: &'a [&'a str],
    /// The relation that it may read whoever owns it, by OID.
    pub reads: Option<u32>,
}

/// The names in texts of SQL, as PostgreSQL reads them, wherever they stand. `None` if one is spelled with escapes or computed,
/// for it can be any.
#[must_use]
pub fn names_in_sql(texts: &[&str]) -> Option<Vec<String>> {
    let found = SqlNames::of(texts);
    found.unclear.is_none().then_some(found.names)
}

impl Schema {
    /// Requires that a session with more rights than tables need trusts everybody whose relations, functions, operators and
    /// types SQL may name, and whose types the columns of these relations have. Call it before the server parses the SQL: to
    /// parse it can run a domain's check, and to plan it a function. It compares names only, as the session would find them.
    /// What the SQL really means is checked once it is parsed.
    ///
    /// # Errors
    /// [`Error::Refused`] names the role; the server's.
    pub async fn require_trusted_sql(&self, client: &impl GenericClient, given: &GivenSql<'_>) -> Result<(), Error> {
        let GivenSql { of, texts, reads } = *given;
        let names = SqlNames::of(texts);
        self.require_trusted_reads(client, of, reads.as_slice(), &names).await?;
        if texts.iter().all(|text| text.is_empty()) {
            return Ok(());
        }
        let trusted = self.trusted();
        let parameters: [&(dyn ToSql + Sync); 9] = [
            &names.schemas,
            &names.names,
            &names.places,
            &names.operator_schemas,
            &names.operators,
            &trusted,
            &names.has_literals,
            &names.unclear,
            &names.names_arguments,
        ];
        let sql = fill!(include_str!("given_sql.sql"), roles = fill!(ROLES, trusted = "$6"), powers = POWERS);
        let Some(row) = client.query_opt(&sql, &parameters).await? else { return Ok(()) };
        let (what, owner): (String, Option<String>) = (row.get("what"), row.get("owner"));
        let Some(owner) = owner else {
            let problem = format!("the {of} has {what}, and nobody can say whose code it would run");
            return Err(Error::refused(problem, "write the name itself in quotes"));
        };
        let who = named(&owner);
        let problem = format!(
            "{who} may change what the {of}'s functions, operators or types do, with your rights: it may use {what}"
        );
        let way_out = if owner == "public" {
            "`revoke create on schema .. from public`, or connect as a role".to_owned()
        } else {
            format!("connect as {owner}, or as a role")
        };
        let hint = format!(
            "{way_out} that has no more rights than tables need; or, if you trust {owner} with yours: --trust-owner {}",
            shell_word(&owner)
        );
        Err(Error::refused(problem, hint))
    }

    /// Requires that a session with more rights than tables need trusts everybody who owns the type of a column of these
    /// relations, or a type that it is made of. Such an owner decides what runs when values of the type are planned,
    /// analyzed, compared or cast, and may change it at any moment.
    ///
    /// # Errors
    /// [`Error::Refused`] names the column, the type and the role; the server's.
    pub async fn require_trusted_columns(
        &self,
        client: &impl GenericClient,
        of: &str,
        relations: &[u32],
    ) -> Result<(), Error> {
        self.require_trusted_reads(client, of, relations, &SqlNames::default()).await
    }

    /// As [`Schema::require_trusted_columns`], and requires that the session trusts the owners of all other relations that
    /// may be meant by the names.
    async fn require_trusted_reads(
        &self,
        client: &impl GenericClient,
        of: &str,
        chosen: &[u32],
        names: &SqlNames,
    ) -> Result<(), Error> {
        let trusted = self.trusted();
        let parameters: [&(dyn ToSql + Sync); 4] = [&chosen, &names.relation_schemas, &names.relations, &trusted];
        let sql = fill!(include_str!("foreign_relation.sql"), roles = fill!(ROLES, trusted = "$4"), powers = POWERS);
        let Some(row) = client.query_opt(&sql, &parameters).await? else { return Ok(()) };
        let (what, owner): (String, String) = (row.get("what"), row.get("owner"));
        let problem = format!("{what} belongs to role {owner}, whose code the {of} would run with your rights");
        let hint = format!(
            "connect as {owner}, or as a role that has no more rights than tables need; or give it, its functions and \
             those of its casts to a role that you trust (`alter .. owner to ..`); or, if you trust {owner} with your \
             rights: --trust-owner {}",
            shell_word(&owner)
        );
        Err(Error::refused(problem, hint))
    }
}
