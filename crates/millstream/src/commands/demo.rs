//! `demo`: the main job from start to finish, checked.

use super::load::{end, run_load};
use crate::args::TargetArgs;
use crate::demo::question::{self, Answer, Question};
use crate::demo::scratch::Scratch;
use crate::demo::telemetry::{Expected, Telemetry, Totals, Wave};
use crate::demo::{cities, stream};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::limits::DEMO_DOCUMENTS_MAX;
use crate::output::Output;
use crate::progress::ProgressChoice;
use crate::signal::Signals;
use crate::target::{self, Database, Purpose};
use crate::{quantity, receipt};
use millstream_engine::LoadRequest;
use millstream_local::LocalOptions;
use millstream_model::{CollectionName, KeyRequest, Receipt};
use millstream_pg::{Connection, SessionSettings};
use millstream_store::collections;
use serde_json::{Value, json};
use std::io::Write;
use std::time::{Duration, Instant};

const EXAMPLES: &str = "\
Examples:
  millstream demo
  millstream demo --docs 100000 --output json
  millstream demo --db postgres://me@db.example/scratch";

/// Run a demonstration: load documents, ask questions in SQL, check the answers
///
/// Loads a real data set of cities, then a generated stream of telemetry, then the stream again with other
/// values. Asks two questions in SQL, prints the receipts, and checks that all rows and answers are right.
///
/// The demo starts the local server and uses it. To use another server, give --db; the demo ignores
/// MILLSTREAM_DB and DATABASE_URL. It leaves the collections demo_cities and demo_telemetry behind, and
/// replaces those of an earlier demo.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct DemoArgs {
    /// Documents in each of the two waves of telemetry
    #[arg(long, value_name = "N", default_value_t = 1_000_000,
          value_parser = clap::value_parser!(u64).range(1..=DEMO_DOCUMENTS_MAX))]
    docs: u64,

    /// How to show progress
    #[arg(long, value_name = "HOW", default_value = "auto")]
    progress: ProgressChoice,

    #[command(flatten)]
    target: TargetArgs,
}

/// A collection of the demo.
#[derive(Debug, Clone, Copy)]
struct Part {
    table: &'static str,
    key: &'static str,
}

const CITIES: Part = Part { table: "demo_cities", key: "geonameid" };
const TELEMETRY: Part = Part { table: "demo_telemetry", key: "device,ts" };

impl Part {
    fn name(self) -> CollectionName {
        CollectionName { schema: "public".to_owned(), table: self.table.to_owned() }
    }
}

/// Why the demo ends early.
#[derive(Debug)]
enum Halt {
    Stopped(Exit),
    Failed(Failure),
}

impl From<Failure> for Halt {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

/// Runs the command.
pub async fn run(args: &DemoArgs, output: Output, signals: Signals) -> Result<Exit, Failure> {
    let begun = Instant::now();
    let database = Database::connect(&args.target, &target::resolve(&args.target, Purpose::Show).await?).await?;
    // The questions are shown, and so do not name PostgreSQL's functions and operators by their schema.
    let asking = SessionSettings::control().with_own_names().without_views();
    let asking = Box::pin(millstream_pg::connect(&database.conninfo, &asking)).await?;
    let scratch = Scratch::new(&signals)?;
    let mut show = Show { args, output, signals, database, asking, scratch, receipts: Vec::new(), answers: Vec::new() };
    let ended = Box::pin(show.play()).await;
    let seconds = begun.elapsed().as_secs_f64();
    if output.is_json() {
        output.json(&json!({
            "receipts": show.receipts,
            "answers": show.answers.iter().map(Answer::json).collect::<Vec<Value>>(),
            "seconds": seconds,
            "finished": ended.is_ok(),
        }))?;
    }
    match ended {
        Ok(()) => show.tell_how_to_go_on(seconds).map(|()| Exit::Done),
        Err(Halt::Stopped(exit)) => Ok(exit),
        Err(Halt::Failed(failure)) => Err(failure),
    }
}

/// The running demo.
struct Show<'a> {
    args: &'a DemoArgs,
    output: Output,
    signals: Signals,
    /// Removes what an earlier demo left.
    database: Database,
    /// Reads what the demo has loaded.
    asking: Connection,
    scratch: Scratch,
    receipts: Vec<Receipt>,
    answers: Vec<Answer>,
}

impl Show<'_> {
    async fn play(&mut self) -> Result<(), Halt> {
        for part in [CITIES, TELEMETRY] {
            let signals = self.signals.clone();
            unless_stopped(&signals, self.clear(part)).await?;
        }
        self.cities().await?;
        let telemetry = Telemetry::new(self.args.docs);
        let expected = telemetry.expected();
        self.first_wave(telemetry, &expected).await?;
        self.second_wave(telemetry, &expected).await?;
        self.questions(&expected).await
    }

    async fn cities(&mut self) -> Result<(), Halt> {
        self.say(&format!(
            "1. {}, real ones ({})\n",
            quantity::things(cities::DOCUMENTS, "document"),
            cities::ATTRIBUTION
        ))?;
        let write = |file: &mut std::fs::File| file.write_all(cities::ARCHIVE);
        let (path, ()) = unless_stopped(&self.signals, self.scratch.file("cities.ndjson.zst", write)).await?;
        self.load("data/cities.ndjson.zst", path, CITIES, cities::DOCUMENTS, cities::DOCUMENTS).await?;
        self.check_rows(CITIES, cities::DOCUMENTS).await
    }

    async fn first_wave(&mut self, telemetry: Telemetry, expected: &Expected) -> Result<(), Halt> {
        self.say(&format!(
            "\n2. {}, generated: {} pumps, some far busier than others;\n   \
             one document in {} corrects the reading before it\n",
            quantity::things(self.args.docs, "document"),
            quantity::count(u64::from(stream::DEVICES)),
            stream::CORRECTION_EVERY,
        ))?;
        self.wave("telemetry-1.ndjson", telemetry, Wave::First, expected.first).await?;
        self.check_rows(TELEMETRY, expected.first).await
    }

    async fn second_wave(&mut self, telemetry: Telemetry, expected: &Expected) -> Result<(), Halt> {
        self.say(&format!(
            "\n3. {} again: all but the first {} have new values,\n   {} follow\n",
            quantity::things(self.args.docs, "document"),
            quantity::count(telemetry.shift()),
            quantity::things(telemetry.shift(), "new document"),
        ))?;
        self.wave("telemetry-2.ndjson", telemetry, Wave::Second, expected.second).await?;
        self.check_rows(TELEMETRY, expected.first + expected.second).await
    }

    async fn questions(&mut self, expected: &Expected) -> Result<(), Halt> {
        self.say("\n4. Questions in SQL, as any tool may ask them")?;
        self.ask(&question::CITIES).await?;
        let answer = self.ask(&question::TELEMETRY).await?;
        check("the busiest pumps", &answer, &busiest(expected, answer.len().max(1)))?;
        let sql = "select pg_catalog.count(*), pg_catalog.count(*) filter (where doc->>'state' = 'alarm'), \
                   (pg_catalog.sum((doc->>'temperature')::numeric) * 100)::bigint from public.demo_telemetry";
        let row = unless_stopped(&self.signals, async { self.row(sql).await }).await?;
        let [readings, alarms, hundredths] = [0, 1, 2].map(|n| u64::try_from(row.get::<_, i64>(n)).unwrap_or(0));
        Ok(check("all readings, alarms and temperatures", &Totals { readings, alarms, hundredths }, &expected.total())?)
    }

    /// Generates a wave into a file and loads it.
    async fn wave(&mut self, name: &str, telemetry: Telemetry, wave: Wave, new_keys: u64) -> Result<(), Halt> {
        let begun = Instant::now();
        let write = move |file: &mut std::fs::File| telemetry.write(wave, file);
        let (path, written) = unless_stopped(&self.signals, self.scratch.file(name, write)).await?;
        self.say(&format!(
            "   generated {} in {:.1} s, the first one\n\n   {}\n",
            quantity::bytes(written.bytes),
            begun.elapsed().as_secs_f64(),
            written.first.replacen(",\"rpm\"", ",\n    \"rpm\"", 1),
        ))?;
        self.load(name, path.clone(), TELEMETRY, written.documents, new_keys).await?;
        // The next wave may need the room. If this fails, the file is removed with the directory.
        let _ = std::fs::remove_file(path);
        Ok(())
    }

    /// Loads a file under the name `shown`, and checks the receipt.
    async fn load(&mut self, shown: &str, path: String, part: Part, documents: u64, new_keys: u64) -> Result<(), Halt> {
        self.say(&format!("   $ millstream load {shown} \\\n       --into {} --key {}\n", part.table, part.key))?;
        let key = KeyRequest::parse_list(part.key).map_err(|error| Failure::bug("the demo's key").because(&error))?;
        let mut request = LoadRequest::new(part.name(), key, vec![path]);
        request.schema = target::schema(&self.args.target);
        let loaded = run_load(&request, &self.database.conninfo, self.args.progress, self.signals.clone()).await;
        let outcome = match (loaded, asked(&self.signals).await) {
            (Ok(outcome), _) => outcome,
            (Err(_), Some(exit)) => return Err(Halt::Stopped(exit)),
            (Err(error), None) => return Err(Failure::from(error).into()),
        };
        self.say(&receipt::text(&outcome.receipt))?;
        self.receipts.push(outcome.receipt.clone());
        match (end(&outcome, &request)?, asked(&self.signals).await) {
            (Exit::Done | Exit::Findings, None) => {}
            (_, Some(exit)) | (exit, None) => return Err(Halt::Stopped(exit)),
        }
        let counters = outcome.receipt.counters;
        check("documents read", &counters.read, &documents)?;
        check("documents accounted for", &counters.accounted(), &documents)?;
        check("documents rejected", &counters.rejected, &0)?;
        Ok(check("keys inserted", &counters.inserted, &new_keys)?)
    }

    /// Asks the question, prints the answer and returns its rows.
    async fn ask(&mut self, question: &'static Question) -> Result<Vec<Vec<String>>, Halt> {
        let sql = question.sql.trim_end().replace('\n', "\n   ");
        self.say(&format!("\n   {}\n\n   {sql};\n", question.words))?;
        let answer = unless_stopped(&self.signals, question.ask(&self.asking.client)).await?;
        let table = answer.table().text(None);
        self.say(&table.lines().map(|line| format!("   {line}")).collect::<Vec<_>>().join("\n"))?;
        let rows = answer.rows.clone();
        self.answers.push(answer);
        Ok(rows)
    }

    async fn check_rows(&self, part: Part, rows: u64) -> Result<(), Halt> {
        let sql = format!("select pg_catalog.count(*) from public.{}", part.table);
        let row = unless_stopped(&self.signals, async { self.row(&sql).await }).await?;
        let found = u64::try_from(row.get::<_, i64>(0)).unwrap_or(0);
        Ok(check(&format!("rows in {}", part.table), &found, &rows)?)
    }

    async fn row(&self, sql: &str) -> Result<tokio_postgres::Row, Failure> {
        Ok(self.asking.client.query_one(sql, &[]).await.map_err(millstream_pg::Error::from)?)
    }

    /// Removes what an earlier demo left, and nothing else: only a recorded table with the demo's
    /// name and key that Millstream made itself.
    async fn clear(&mut self, part: Part) -> Result<(), Failure> {
        let (name, schema) = (part.name(), self.database.schema.clone());
        let client = &mut self.database.connection.client;
        schema.ensure(client).await?;
        let found = collections::find(&*client, &schema, &name).await?;
        let Some(found) = found else {
            let sql = "select pg_catalog.to_regclass($1) is not null";
            let taken = client.query_one(sql, &[&format!("public.{}", part.table)]).await;
            let taken: bool = taken.map_err(millstream_pg::Error::from)?.get(0);
            return if taken { Err(foreign(part)) } else { Ok(()) };
        };
        let key: Vec<&str> = found.key.iter().map(|column| column.name.as_str()).collect();
        if found.adopted || key.join(",") != part.key {
            return Err(foreign(part));
        }
        collections::drop(client, &schema, &found, found.present).await?;
        Ok(())
    }

    fn say(&self, text: &str) -> Result<(), Failure> {
        if self.output.is_json() { Ok(()) } else { self.output.line(text) }
    }

    fn tell_how_to_go_on(&self, seconds: f64) -> Result<(), Failure> {
        let checks = "every document accounted for, rows and answers checked";
        self.say(&format!("\nDone in {seconds:.1} s; {checks}.\n\nTry next:\n"))?;
        let typed = self.args.target.db.is_some();
        let psql = !typed && has_psql();
        for (command, what) in GO_ON.iter().filter(|(command, _)| psql || *command != PSQL) {
            self.say(&format!("   millstream {command:<32}  {what}"))?;
        }
        match target::variable_in_the_way() {
            _ if typed => self.say("\nAdd the --db that you gave the demo to each."),
            Some(name) => self.say(&format!(
                "\n{name} is set, so these would use another database; add to each:\n   --db \"$(millstream db url)\""
            )),
            None => Ok(()),
        }
    }
}

/// Whether `db psql` finds a psql for the local server: not every build has one.
fn has_psql() -> bool {
    millstream_local::connect(&LocalOptions::default()).and_then(|server| server.psql()).is_ok()
}

const PSQL: &str = "db psql";

/// Commands to try next.
const GO_ON: &[(&str, &str)] = &[
    (PSQL, "ask in SQL"),
    ("collections", "what there is"),
    ("get demo_cities 2950159", "one document by key"),
    ("loads", "what was loaded"),
    ("drop demo_telemetry --yes", "remove it"),
    ("load --help", "load your own"),
];

/// The rows that must answer the question about telemetry.
fn busiest(expected: &Expected, rows: usize) -> Vec<Vec<String>> {
    let row = |(device, totals): &(String, Totals)| {
        let mean = totals.mean_hundredths();
        vec![
            device.clone(),
            totals.readings.to_string(),
            format!("{}.{:02}", mean / 100, mean % 100),
            totals.alarms.to_string(),
        ]
    };
    expected.devices.iter().take(rows).map(row).collect()
}

fn foreign(part: Part) -> Failure {
    Failure::user(format!("{} exists already, and no demo created it", part.table))
        .hint("rename it, or use another database: millstream demo --db URL")
}

/// A bug report, if the demo found another result than the right one.
fn check<T: PartialEq + std::fmt::Debug>(what: &str, found: &T, expected: &T) -> Result<(), Failure> {
    if found == expected {
        return Ok(());
    }
    Err(Failure::bug(format!("the demo found {what} wrong: {found:?} where {expected:?} is right")))
}

async fn unless_stopped<T>(signals: &Signals, work: impl Future<Output = Result<T, Failure>>) -> Result<T, Halt> {
    tokio::select! {
        biased;
        exit = signals.stop_asked() => Err(Halt::Stopped(exit)),
        done = work => Ok(done?),
    }
}

/// The exit that a signal asked for, if there was one.
async fn asked(signals: &Signals) -> Option<Exit> {
    tokio::time::timeout(Duration::ZERO, signals.stop_asked()).await.ok()
}
