//! SQL that a user gives, which may run code of other roles as soon as the server parses it.

use crate::error::Error;
use crate::schema::Schema;
use crate::sql_names::SqlNames;
use crate::trust::{POWERS, ROLES};
use millstream_model::words::{set, shell_word};
use millstream_pg::fill;
use tokio_postgres::GenericClient;
use tokio_postgres::types::ToSql;

/// Which columns of a relation SQL may compare with values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Columns {
    /// Those that it names.
    Named,
    /// All of them.
    All,
    /// All of them, and a row as a whole.
    Rows,
}

/// SQL that a user gives.
#[derive(Debug, Clone, Copy)]
pub struct GivenSql<'a> {
    /// What it belongs to, as in "model".
    pub of: &'a str,
    /// The texts.
    pub texts: &'a [&'a str],
    /// The relation that it reads, by OID, and which columns of it.
    pub reads: Option<(u32, Columns)>,
    /// Whether the server plans it before anybody looks at what it means: to plan a query of a view can run its functions.
    pub is_planned: bool,
}

/// The names in texts of SQL, as PostgreSQL reads them, wherever they stand. `None` if one is spelled with escapes, for it can
/// be any.
#[must_use]
pub fn names_in_sql(texts: &[&str]) -> Option<Vec<String>> {
    let found = SqlNames::of(texts);
    (!found.has_escapes).then_some(found.names)
}

impl Schema {
    /// Requires that a session with more rights than tables need trusts everybody whose functions, operators and types SQL
    /// may name. Call it before the server parses the SQL: to parse it can run a domain's check, and to plan it a function.
    /// It compares names only, as the session would find them. What the SQL really means is checked once it is parsed.
    ///
    /// # Errors
    /// [`Error::Refused`] names the role; the server's.
    pub async fn require_trusted_sql(&self, client: &impl GenericClient, given: &GivenSql<'_>) -> Result<(), Error> {
        let GivenSql { of, texts, reads, is_planned } = *given;
        if texts.iter().all(|text| text.is_empty()) {
            return Ok(());
        }
        let names = SqlNames::of(texts);
        let (relation, columns) = reads.unzip();
        let (all, rows) = (columns == Some(Columns::All), columns == Some(Columns::Rows));
        let trusted = self.trusted();
        let parameters: [&(dyn ToSql + Sync); 13] = [
            &names.schemas,
            &names.names,
            &names.places,
            &names.operator_schemas,
            &names.operators,
            &trusted,
            &relation,
            &all,
            &rows,
            &names.has_literals,
            &names.has_escapes,
            &names.names_arguments,
            &is_planned,
        ];
        let sql = fill!(include_str!("given_sql.sql"), roles = fill!(ROLES, trusted = "$6"), powers = POWERS);
        let Some(row) = client.query_opt(&sql, &parameters).await? else { return Ok(()) };
        let (what, owner): (String, Option<String>) = (row.get("what"), row.get("owner"));
        let Some(owner) = owner else {
            let problem = format!("the {of} has {what} (`U&\"..\"`), and nobody can say whose code it would run");
            return Err(Error::refused(problem, "write the name itself in quotes"));
        };
        let problem = format!(
            "role {owner} may change what the {of}'s functions, operators or types do, with your rights: it may use {what}"
        );
        let hint = format!(
            "connect as {owner}, or as a role that has no more rights than tables need; or, if you trust {owner} with yours: {}",
            set("trust-owner", shell_word(&owner))
        );
        Err(Error::refused(problem, hint))
    }
}
