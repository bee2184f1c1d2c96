//! The place where a run works: two schemas on the server and a temporary directory.
//!
//! All are removed at the end.

use crate::core::{Measures, Proxy, libpq, number};
use crate::error::Error;
use crate::ingest::durability::Durability;
use crate::ingest::leftovers;
use crate::ingest::mongo_server::MongoServer;
use crate::ingest::stream::Expected;
use crate::ingest::timing::Timing;
use crate::limits::{COMPLAINT_BYTES_MAX, SAMPLE_TIME_MAX};
use millstream_host::{Command, Ended, Measured};
use millstream_pg::{ConnInfo, Connection, SessionSettings, quote_identifier};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use tempfile::TempDir;

/// Placeholder for the table's name in a definition.
pub(crate) const TABLE: &str = "the_table";

/// Environment variables that would direct a subject to another database or schema.
const VARIABLES: &[&str] = &["MILLSTREAM_DB", "DATABASE_URL", "MILLSTREAM_SCHEMA"];

/// Exit codes of a load that finished, without and with rejects. The receipt must have the expected number of rejects.
const WITH_REJECTS: &[i32] = &[0, 1];

/// The script that uses MongoDB. It is part of the binary, so that it is available wherever the binary runs.
const MONGO_SCRIPT: &str = include_str!("../../../../lab/rivals/mongo_upsert.py");

/// The server that an experiment uses, and the programs that it measures.
#[derive(Debug, Clone)]
pub struct Ground {
    /// The server.
    pub db: ConnInfo,
    /// The server as a connection string for a child process; `None` for the local server, which a child finds itself.
    pub url: Option<String>,
    /// The binary to measure.
    pub binary: PathBuf,
    /// Whether the binary was built without optimisation, if known.
    pub debug: Option<bool>,
    /// A Python that has the packages of the rivals; `None`: the run makes an environment of its own.
    pub python: Option<PathBuf>,
    /// URI of a MongoDB to measure too. The run uses only a database of its own there.
    pub mongo_uri: Option<String>,
}

/// What a table holds.
#[derive(Debug)]
pub(crate) struct State {
    /// Rows.
    pub(crate) rows: u64,
    /// Sum of the numbers in the documents, in decimal.
    pub(crate) sum: String,
    /// Documents that are stored under a key that is not their own.
    pub(crate) misplaced: u64,
}

/// The place where a run works.
#[derive(Debug)]
pub struct Bench {
    pub(crate) ground: Ground,
    pub(crate) dir: TempDir,
    /// Schema of the subjects' tables.
    pub(crate) schema: String,
    /// Schema of Millstream's own tables.
    store: String,
    /// The Python that has reached MongoDB.
    mongo_python: OnceLock<PathBuf>,
}

impl Bench {
    /// A bench with unique names. It does not touch the server before the run.
    ///
    /// # Errors
    /// A temporary directory cannot be made.
    pub fn new(ground: Ground) -> Result<Self, Error> {
        let temporary = std::env::temp_dir();
        let dir = tempfile::Builder::new().prefix("millstream-lab-").tempdir();
        let dir = dir.map_err(Error::io("make a directory in", &temporary))?;
        let schema = format!("{}{:08x}", leftovers::PREFIX, fastrand::u32(..));
        let store = format!("{schema}_store");
        Ok(Self { ground, dir, schema, store, mongo_python: OnceLock::new() })
    }

    /// Removes everything the run has made, also after the run was abandoned.
    ///
    /// # Errors
    /// Errors of the server or the disk.
    pub async fn clear(self) -> Result<(), Error> {
        let mongo = self.drop_mongo().await;
        let path = self.dir.path().to_owned();
        self.dir.close().map_err(Error::io("remove", &path))?;
        let connection = millstream_pg::connect(&self.ground.db, &SessionSettings::named("millstream lab")).await?;
        for schema in [&self.schema, &self.store] {
            let drop = format!("drop schema if exists {} cascade", quote_identifier(schema));
            connection.client.batch_execute(&drop).await?;
        }
        connection.close().await;
        mongo
    }

    /// Marks this run as alive on the server while the session lasts, and removes what killed runs have left.
    ///
    /// # Errors
    /// The server's.
    pub(crate) async fn claim(&self, progress: &mut dyn FnMut(&str)) -> Result<Connection, Error> {
        let connection = self.connect().await?;
        leftovers::claim(&connection.client, &self.schema).await?;
        for schema in leftovers::clear(&connection.client).await? {
            progress(&format!("removed {schema}, left by a run that was killed"));
        }
        Ok(connection)
    }

    /// A new session on the server.
    pub(crate) async fn connect(&self) -> Result<Connection, Error> {
        Ok(millstream_pg::connect(&self.ground.db, &SessionSettings::named("millstream lab")).await?)
    }

    /// Path of a file of the run.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A new session on the server, through the proxy if there is one.
    pub(crate) async fn connect_through(&self, proxy: Option<&Proxy>) -> Result<Connection, Error> {
        let db = proxy.map_or(&self.ground.db, |proxy| &proxy.db);
        Ok(millstream_pg::connect(db, &SessionSettings::named("millstream lab")).await?)
    }

    /// Runs `millstream load` as a process. Returns what it took, and the JSON it printed.
    pub(crate) async fn load(
        &self,
        file: &Path,
        table: &str,
        more: &[&str],
        proxy: Option<&Proxy>,
    ) -> Result<Timing, Error> {
        let (file, into) = (file.to_string_lossy(), self.dotted(table));
        let load = ["load", &file, "--into", &into, "--key", "id:text", "--progress", "none", "--output", "json"];
        self.run_to(WITH_REJECTS, "millstream", &mut self.command(&[&load, more].concat(), proxy)).await
    }

    /// Runs a command of the measured binary. Returns what it took, and the JSON it printed.
    pub(crate) async fn millstream(&self, args: &[&str], proxy: Option<&Proxy>) -> Result<Timing, Error> {
        let mut command = self.command(args, proxy);
        self.run("millstream", command.args(["--output", "json"])).await
    }

    /// Runs a command of the measured binary that prints lines. Returns what it took, and these lines.
    pub(crate) async fn answer(&self, args: &[&str]) -> Result<(Timing, Vec<String>), Error> {
        let answer = measure(&[0], "millstream", &mut self.command(args, None)).await?;
        let timing = Timing { first_seconds: answer.first_seconds, ..Timing::of(answer.wall_seconds) };
        Ok((timing, answer.ended.stdout.lines().map(str::to_owned).collect()))
    }

    /// A command of the measured binary for the run's database.
    fn command(&self, args: &[&str], proxy: Option<&Proxy>) -> Command {
        let mut command = Command::new(&self.ground.binary);
        command.args(args).args(["--schema", &self.store]);
        for name in VARIABLES {
            command.env_remove(name);
        }
        // Not as an argument, because other users can read those.
        match (proxy, &self.ground.url) {
            (Some(proxy), _) => {
                libpq::lead(&mut command, &proxy.db, false);
                command.env("MILLSTREAM_DB", format!("hostaddr=127.0.0.1 port={}", proxy.port()));
            }
            (None, Some(url)) => {
                command.env("MILLSTREAM_DB", url);
            }
            (None, None) => {}
        }
        command
    }

    /// Runs a subject's command, which must succeed. What it prints is its receipt.
    pub(crate) async fn run(&self, subject: &'static str, command: &mut Command) -> Result<Timing, Error> {
        self.run_to(&[0], subject, command).await
    }

    /// As `run`, but the command may end with any of these exit codes.
    async fn run_to(&self, codes: &[i32], subject: &'static str, command: &mut Command) -> Result<Timing, Error> {
        let measured = measure(codes, subject, command).await?;
        let printed = Some(measured.ended.stdout.trim()).filter(|text| !text.is_empty());
        let receipt = printed.map(serde_json::from_str).transpose();
        Ok(Timing {
            wall_seconds: measured.wall_seconds,
            first_seconds: None,
            client_cpu_seconds: measured.cpu_seconds,
            client_peak_bytes: measured.peak_bytes,
            receipt: receipt.map_err(|error| Error::Subject { subject, why: format!("no receipt: {error}") })?,
        })
    }

    /// Tells a client that is built on libpq where the server is and how durable its commits must be.
    pub(crate) fn client(&self, command: &mut Command, durability: Durability) {
        libpq::lead(command, &self.ground.db, durability == Durability::Async);
    }

    /// Writes a subject's script.
    pub(crate) fn script(&self, name: &str, text: &str) -> Result<PathBuf, Error> {
        let path = self.file(name);
        std::fs::write(&path, text).map_err(Error::io("write", &path))?;
        Ok(path)
    }

    /// Checks that MongoDB answers and lets us drop a database. It drops the run's own, which does not exist yet.
    pub(crate) async fn reach_mongo(&self, python: &Path) -> Result<(), Error> {
        self.run("MongoDB", &mut self.mongo_script(python, "drop")?).await?;
        self.mongo_python.get_or_init(|| python.to_owned());
        Ok(())
    }

    /// The script for MongoDB, with an action to do in the run's database.
    pub(crate) fn mongo_script(&self, python: &Path, action: &str) -> Result<Command, Error> {
        let mut command = Command::new(python);
        command.arg(self.script("mongo_upsert.py", MONGO_SCRIPT)?).args([action, &self.schema]);
        command.env("MONGO_URI", self.ground.mongo_uri.as_deref().unwrap_or_default());
        Ok(command)
    }

    /// What MongoDB says of itself and of a collection in the run's database. `None` if no MongoDB was reached.
    pub(crate) async fn mongo_server(&self, collection: &str) -> Result<Option<MongoServer>, Error> {
        let Some(python) = self.mongo_python.get() else { return Ok(None) };
        let timing = self.run("MongoDB", self.mongo_script(python, "server")?.arg(collection)).await?;
        Ok(timing.receipt.as_ref().map(MongoServer::of))
    }

    /// Drops the run's database in MongoDB, if a MongoDB was reached.
    pub(crate) async fn drop_mongo(&self) -> Result<(), Error> {
        if let Some(python) = self.mongo_python.get() {
            self.run("MongoDB", &mut self.mongo_script(python, "drop")?).await?;
        }
        Ok(())
    }

    /// The schema of Millstream's own tables and functions.
    pub(crate) fn store(&self) -> &str {
        &self.store
    }

    /// A table's name for the command line.
    pub(crate) fn dotted(&self, table: &str) -> String {
        format!("{}.{table}", self.schema)
    }

    /// A table's name for SQL.
    pub(crate) fn quoted(&self, table: &str) -> String {
        millstream_pg::quote_qualified(&self.schema, table)
    }

    /// What a table holds: the number of rows, the sum of the numbers in the documents, and how many documents are
    /// stored under a key that is not their own.
    pub(crate) async fn state(&self, control: &Connection, table: &str) -> Result<State, Error> {
        let sql = format!(
            "select count(*), coalesce(sum((doc->>'n')::bigint), 0)::text, \
             count(*) filter (where doc->>'id' is distinct from id) from {}",
            self.quoted(table)
        );
        let row = control.client.query_one(&sql, &[]).await?;
        let count = |column| u64::try_from(row.get::<_, i64>(column)).unwrap_or(0);
        Ok(State { rows: count(0), sum: row.get(1), misplaced: count(2) })
    }

    /// Measures the bytes of a table, and the number of autovacuums on it.
    pub(crate) async fn measure_table(
        &self,
        control: &Connection,
        table: &str,
        measures: &mut Measures,
    ) -> Result<(), Error> {
        let oid = control.client.query_one("select $1::text::regclass::oid", &[&self.quoted(table)]).await?;
        let row = control.client.query_one(include_str!("table_state.sql"), &[&oid.get::<_, u32>(0)]).await?;
        for metric in ["heap_bytes", "index_bytes", "toast_bytes", "autovacuums"] {
            measures.set(metric, u64::try_from(row.get::<_, i64>(metric)).ok().map(number));
        }
        Ok(())
    }
}

impl State {
    /// Checks that a table holds what the generator expects.
    pub(crate) fn verify(&self, expected: &Expected) -> Result<(), Error> {
        self.verify_keys(expected)?;
        if self.sum != expected.sum.to_string() {
            return Err(Error::Wrong("other documents than those that were loaded".to_owned()));
        }
        Ok(())
    }

    /// As `verify`, but without the documents, for subjects that load them in an order of their own.
    pub(crate) fn verify_keys(&self, expected: &Expected) -> Result<(), Error> {
        if self.rows != expected.rows {
            return Err(Error::Wrong(format!("{} rows instead of {}", self.rows, expected.rows)));
        }
        if self.misplaced != 0 {
            return Err(Error::Wrong(format!("{} documents under another key", self.misplaced)));
        }
        Ok(())
    }
}

/// Measures a subject's process. It must end with one of these exit codes.
async fn measure(codes: &[i32], subject: &'static str, command: &mut Command) -> Result<Measured, Error> {
    let failed = |why: String| Error::Subject { subject, why };
    let measured = command.measure(SAMPLE_TIME_MAX).await.map_err(|error| failed(error.to_string()))?;
    let Ended { status, stderr, .. } = &measured.ended;
    match status.code().is_some_and(|code| codes.contains(&code)) {
        true => Ok(measured),
        false => Err(failed(format!("{status}: {}", error_message(stderr)))),
    }
}

/// The error message of a failed process: its stderr from `error:` on, in one line.
pub(crate) fn error_message(stderr: &str) -> String {
    let from = stderr.find("error:").unwrap_or(0);
    let mut line = stderr[from..].split_whitespace().collect::<Vec<_>>().join(" ");
    line.truncate(line.floor_char_boundary(COMPLAINT_BYTES_MAX));
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_process_has_error_message_in_one_line() {
        assert_eq!(error_message("target: x\nerror: no rights\nhint: ask\n"), "error: no rights hint: ask");
        assert_eq!(error_message("odd"), "odd");
        assert_eq!(error_message(&"é".repeat(2_000)).len(), COMPLAINT_BYTES_MAX);
    }

    #[test]
    fn a_table_that_holds_something_else_is_wrong() {
        let expected = Expected { documents: 3, rows: 2, sum: 5 };
        let verify = |rows, sum: &str, misplaced| {
            let state = State { rows, sum: sum.to_owned(), misplaced };
            state.verify(&expected).map_err(|error| error.to_string())
        };
        assert_eq!(verify(2, "5", 0), Ok(()));
        assert_eq!(verify(1, "5", 0), Err("wrong result: 1 rows instead of 2".to_owned()));
        assert_eq!(verify(2, "5", 1), Err("wrong result: 1 documents under another key".to_owned()));
        assert!(verify(2, "6", 0).unwrap_err().contains("other documents"));
    }
}
