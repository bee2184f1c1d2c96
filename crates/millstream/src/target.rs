//! Finds the database that a command works on, prints it on stderr and connects to it.

use crate::args::TargetArgs;
use crate::failure::Failure;
use crate::output::note;
use millstream_host::shell_word;
use millstream_local::LocalOptions;
use millstream_model::CollectionName;
use millstream_model::limits::IDENTIFIER_BYTES_MAX;
use millstream_pg::{ConnInfo, Connection, Environment, ErrorKind, Explained, SessionSettings, quote_name};
use millstream_store::collections::{self, Collection};
use millstream_store::{Access, Schema, foreign_code, foreign_owner};

/// Variables that name the database. The first one that is set wins.
const DATABASE_VARIABLES: &[&str] = &["MILLSTREAM_DB", "DATABASE_URL"];

/// Variable that names the schema of our tables.
const SCHEMA_VARIABLE: &str = "MILLSTREAM_SCHEMA";

const SCHEMA_DEFAULT: &str = "millstream";

/// Variable that names a role which may own a part of that schema.
const TRUST_VARIABLE: &str = "MILLSTREAM_TRUST_OWNER";

/// What a command uses its target for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The user's own work. The variables apply.
    Work,
    /// A demonstration or an experiment, which creates tables of its own. Without `--db` it uses the local server.
    Show,
}

/// Finds the target and prints it on stderr. Starts the local server if that is the target.
///
/// # Errors
/// A connection string that cannot be read, a local server that cannot be started.
pub async fn resolve(args: &TargetArgs, purpose: Purpose) -> Result<ConnInfo, Failure> {
    check_schema(schema(args).name())?;
    let environment = Environment::from_process();
    let conninfo = match named(args, purpose, &environment) {
        Some((text, said_by)) => parse(text, &environment).map_err(|failure| failure.at(said_by))?,
        None => local(&millstream_local::start(&LocalOptions::default(), &mut |line| note(line)).await?)?,
    };
    announce(&conninfo);
    Ok(conninfo)
}

fn announce(conninfo: &ConnInfo) {
    for warning in conninfo.warnings() {
        note(&format!("warning: {warning}"));
    }
    note(&format!("target: {}", conninfo.describe()));
}

/// Reads a connection string that an option of its own names, and prints the target on stderr.
///
/// # Errors
/// It cannot be read.
pub fn named_by(text: &str, option: &'static str) -> Result<ConnInfo, Failure> {
    let conninfo = parse(text, &Environment::from_process()).map_err(|failure| failure.at(option))?;
    announce(&conninfo);
    Ok(conninfo)
}

/// The database that the user names, and what names it: an option or a variable. Prints the target on stderr. `None` if
/// that is the local server, of which nothing is looked at.
pub fn named_database(args: &TargetArgs) -> Option<(Result<ConnInfo, Failure>, &'static str)> {
    let environment = Environment::from_process();
    let (text, said_by) = named(args, Purpose::Work, &environment)?;
    let found = parse(text, &environment).map_err(|failure| failure.at(said_by));
    found.iter().for_each(announce);
    Some((found, said_by))
}

/// As `resolve`, for a command that only looks: a local server that does not run is not started.
///
/// # Errors
/// As `resolve`; there is no server to look at.
pub async fn resolve_running(args: &TargetArgs) -> Result<ConnInfo, Failure> {
    if is_local_server(args) && millstream_local::status(&LocalOptions::default())?.running.is_none() {
        return Err(Failure::user("no server is named, and the local server does not run")
            .hint("name one with --db postgres://USER@HOST/DB, or start the local server with millstream db start"));
    }
    resolve(args, Purpose::Work).await
}

/// Reads a connection string. Refuses a URL of another kind: it would be taken for the name of a database and printed,
/// with the password in it.
fn parse(text: &str, environment: &Environment) -> Result<ConnInfo, Failure> {
    let scheme = text.trim().split_once("://").map_or("postgres", |(scheme, _)| scheme);
    if !scheme.contains('=') && !matches!(scheme, "postgres" | "postgresql") {
        return Err(Failure::user("the database URL is not a PostgreSQL URL")
            .hint("give it as postgres://USER@HOST:PORT/DB or \"host=.. dbname=..\""));
    }
    Ok(ConnInfo::parse(text, environment)?)
}

/// How to reach the local server. Ignores the user's `PG*` variables, which are meant for other servers.
///
/// # Errors
/// Its URL cannot be read.
pub fn local(server: &millstream_local::Running) -> Result<ConnInfo, Failure> {
    Ok(ConnInfo::parse(&server.url(), &Environment::from_variables([]))?)
}

/// Whether the user's work goes to the server that Millstream itself starts.
pub fn is_local_server(args: &TargetArgs) -> bool {
    named(args, Purpose::Work, &Environment::from_process()).is_none()
}

/// The schema of our tables.
pub fn schema(args: &TargetArgs) -> Schema {
    let environment = Environment::from_process();
    let name = args.schema.as_deref().or_else(|| set(&environment, SCHEMA_VARIABLE));
    let mut trusted = args.trust_owner.clone();
    trusted.extend(set(&environment, TRUST_VARIABLE).map(str::to_owned));
    Schema::new(name.unwrap_or(SCHEMA_DEFAULT)).trusting(trusted)
}

/// Refuses names that PostgreSQL reserves or would cut: we would not find our tables again.
fn check_schema(name: &str) -> Result<(), Failure> {
    if name.len() > IDENTIFIER_BYTES_MAX {
        return Err(Failure::user(format!(
            "schema \"{name}\" is longer than {IDENTIFIER_BYTES_MAX} bytes, the longest name PostgreSQL keeps"
        ))
        .hint("choose a shorter name, as in --schema millstream"));
    }
    if name.starts_with("pg_") || name == "information_schema" {
        return Err(Failure::user(format!(
            "schema {name} cannot hold Millstream's tables: PostgreSQL reserves the name"
        ))
        .hint("choose a name that does not begin with pg_, as in --schema millstream"));
    }
    Ok(())
}

/// The connection string and where it comes from.
fn named<'a>(args: &'a TargetArgs, purpose: Purpose, environment: &'a Environment) -> Option<(&'a str, &'static str)> {
    let variables = match purpose {
        Purpose::Work => DATABASE_VARIABLES,
        Purpose::Show => &[],
    };
    let typed = args.db.as_deref().map(|text| (text, "--db"));
    typed.or_else(|| variables.iter().find_map(|name| Some((set(environment, name)?, *name))))
}

/// The variable that makes the user's commands use another database than the local server.
pub fn variable_in_the_way() -> Option<&'static str> {
    let environment = Environment::from_process();
    DATABASE_VARIABLES.iter().copied().find(|name| set(&environment, name).is_some())
}

/// A variable that is set to something.
fn set<'a>(environment: &'a Environment, name: &str) -> Option<&'a str> {
    environment.variable(name).filter(|text| !text.is_empty())
}

/// A session on the target.
#[derive(Debug)]
pub struct Database {
    /// The session.
    pub connection: Connection,
    /// The schema of our tables. The tables may not exist.
    pub schema: Schema,
    /// How it was reached.
    pub conninfo: ConnInfo,
}

impl Database {
    /// Finds the target, prints it and connects to it, for a command that uses only our tables. `None` if they are
    /// missing. A local server that does not exist is not created, because it would be empty.
    ///
    /// # Errors
    /// Our tables have a version that this program does not know; rights are missing.
    pub async fn open(args: &TargetArgs) -> Result<Option<Self>, Failure> {
        Self::open_with(args, SessionSettings::control().with_own_names().without_views()).await
    }

    async fn open_with(args: &TargetArgs, settings: SessionSettings) -> Result<Option<Self>, Failure> {
        if is_local_server(args) && millstream_local::status(&LocalOptions::default())?.major.is_none() {
            note("target: the local server, which does not exist yet");
            return Ok(None);
        }
        let conninfo = resolve(args, Purpose::Work).await?;
        let database = Self::connect_with(args, &conninfo, settings).await?;
        let exists = database.schema.exists(&database.connection.client).await?;
        Ok(exists.then_some(database))
    }

    /// Finds the target, prints it and connects to it. The local server is made if it does not exist.
    ///
    /// # Errors
    /// As `resolve` and `connect`.
    pub async fn reach(args: &TargetArgs) -> Result<Self, Failure> {
        Self::connect(args, &resolve(args, Purpose::Work).await?).await
    }

    /// As `open`, with the collection of a name.
    ///
    /// # Errors
    /// There is no such collection.
    pub async fn open_record(args: &TargetArgs, name: &CollectionName) -> Result<(Self, Collection), Failure> {
        Self::with_collection(Self::open(args).await?, name).await
    }

    /// As `open_record`, for a command that also uses the collection's table or its models.
    ///
    /// # Errors
    /// There is no such collection.
    pub async fn open_at(args: &TargetArgs, name: &CollectionName) -> Result<(Self, Collection), Failure> {
        Self::with_collection(Self::open_with(args, SessionSettings::control()).await?, name).await
    }

    /// Names code of other roles that can run with this role's rights when a table is read.
    ///
    /// # Errors
    /// The server's.
    pub async fn warn_of_code(&self, table_oid: u32) -> Result<(), Failure> {
        for text in foreign_code(&self.connection.client, &self.schema, table_oid, Access::Read).await? {
            note(&format!("warning: {text}"));
        }
        Ok(())
    }

    /// Requires that a session with more rights than tables need trusts the owner of a view, whose code it would run.
    ///
    /// # Errors
    /// It does not; the server's.
    pub async fn require_trusted_view(&self, name: &CollectionName) -> Result<(), Failure> {
        let client = &self.connection.client;
        let oid = "select $1::text::pg_catalog.regclass::pg_catalog.oid";
        let oid = client.query_one(oid, &[&quote_name(name)]).await.map_err(millstream_pg::Error::from)?.get(0);
        let Some(owner) = foreign_owner(client, &self.schema, oid).await? else { return Ok(()) };
        Err(Failure::user(format!("{name} is a view of role {owner}, whose code would run with your rights")).hint(
            format!(
                "connect as {owner}; or, if you trust {owner} with your rights: --trust-owner {}",
                shell_word(&owner)
            ),
        ))
    }

    async fn with_collection(opened: Option<Self>, name: &CollectionName) -> Result<(Self, Collection), Failure> {
        let database = opened.ok_or_else(|| no_collection(name))?;
        let collection = database.collection(name).await?;
        Ok((database, collection))
    }

    /// As `open_at`, for a command that reads the collection's table.
    ///
    /// # Errors
    /// There is no such collection, or its table is gone.
    pub async fn open_table(args: &TargetArgs, name: &CollectionName) -> Result<(Self, Collection), Failure> {
        let settings = SessionSettings::control().without_views_past_policies();
        let (database, collection) = Self::with_collection(Self::open_with(args, settings).await?, name).await?;
        if collection.replaced {
            let problem = format!("{} has another OID than the table that was loaded", collection.name);
            return Err(Failure::user(problem)
                .hint("load into it with --adopt; if documents wait for the old table, the load says what to do"));
        }
        if !collection.present {
            return Err(Failure::user(format!("the table of {} is gone", collection.name))
                .hint(format!("millstream drop {} --yes", shell_word(&collection.name))));
        }
        let kind = "select relkind in ('r', 'p') from pg_catalog.pg_class where oid operator(pg_catalog.=) $1";
        let kind = database
            .connection
            .client
            .query_opt(kind, &[&collection.table_oid])
            .await
            .map_err(millstream_pg::Error::from)?;
        if !kind.is_some_and(|row| row.get(0)) {
            let problem = format!("{} is no table any more", collection.name);
            return Err(Failure::user(problem).hint("somebody has put something else, such as a view, in its place"));
        }
        Ok((database, collection))
    }

    /// Connects to a target that was found before. Binds our tables if they were restored or copied.
    ///
    /// # Errors
    /// The server's; a restored schema that cannot be bound.
    pub async fn connect(args: &TargetArgs, conninfo: &ConnInfo) -> Result<Self, Failure> {
        Self::connect_with(args, conninfo, SessionSettings::control()).await
    }

    async fn connect_with(args: &TargetArgs, conninfo: &ConnInfo, settings: SessionSettings) -> Result<Self, Failure> {
        let mut connection = millstream_pg::connect(conninfo, &settings).await?;
        let schema = schema(args);
        match schema.bind(&mut connection.client).await {
            Ok(bound) => bound.iter().for_each(|bound| note(&bound.to_string())),
            // A role that may not bind may still read bound tables. If they are not bound, the command fails and says
            // so.
            Err(error) if [ErrorKind::Rights, ErrorKind::ReadOnly].contains(&error.kind()) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(Self { connection, schema, conninfo: conninfo.clone() })
    }

    /// The collection of a name. Our tables must exist.
    ///
    /// # Errors
    /// There is no such collection.
    pub async fn collection(&self, name: &CollectionName) -> Result<Collection, Failure> {
        let found = collections::find(&self.connection.client, &self.schema, name).await?;
        found.ok_or_else(|| no_collection(name))
    }
}

fn no_collection(name: &CollectionName) -> Failure {
    Failure::user(format!("there is no collection {name}")).hint("millstream collections")
}
