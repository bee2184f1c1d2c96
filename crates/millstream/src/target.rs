//! The database a command works on: found, told on stderr, connected to.

use crate::args::TargetArgs;
use crate::failure::Failure;
use crate::output::note;
use millstream_engine::store::Schema;
use millstream_engine::store::collections::{self, Collection};
use millstream_model::CollectionName;
use millstream_pg::{ConnInfo, Environment, SessionSettings};
use tokio_postgres::Client;

/// Variables that name the database, the first one set wins.
const DATABASE_VARIABLES: &[&str] = &["MILLSTREAM_DB", "DATABASE_URL"];

/// Variable that names the schema of our tables.
const SCHEMA_VARIABLE: &str = "MILLSTREAM_SCHEMA";

const SCHEMA_DEFAULT: &str = "millstream";

/// What a command wants with its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The user's own work: variables count.
    Work,
    /// A show that makes tables of its own: only a server we started, unless `--db` is typed.
    Show,
}

/// Finds the target and tells it on stderr. Starts the local server where it is the target.
///
/// # Errors
/// A connection string that cannot be read, a local server that cannot be started.
pub async fn resolve(args: &TargetArgs, purpose: Purpose) -> Result<ConnInfo, Failure> {
    let environment = Environment::from_process();
    let conninfo = match named(args, purpose, &environment) {
        Some((text, said_by)) => ConnInfo::parse(text, &environment)
            .map_err(|error| Failure::from(error).at(said_by))?,
        None => start_local().await?,
    };
    for warning in conninfo.warnings() {
        note(&format!("warning: {warning}"));
    }
    note(&format!("target: {}", conninfo.describe()));
    Ok(conninfo)
}

/// The schema of our tables.
pub fn schema(args: &TargetArgs) -> Schema {
    let variable = Environment::from_process();
    let name = args.schema.as_deref().or_else(|| variable.variable(SCHEMA_VARIABLE));
    Schema::new(name.unwrap_or(SCHEMA_DEFAULT))
}

/// The connection string and who said it.
fn named<'a>(
    args: &'a TargetArgs,
    purpose: Purpose,
    environment: &'a Environment,
) -> Option<(&'a str, &'static str)> {
    let variables = match purpose {
        Purpose::Work => DATABASE_VARIABLES,
        Purpose::Show => &[],
    };
    let typed = args.db.as_deref().map(|text| (text, "--db"));
    typed.or_else(|| {
        variables
            .iter()
            .find_map(|name| environment.variable(name).map(|text| (text, *name)))
    })
}
