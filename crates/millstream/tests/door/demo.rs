//! The demo: what it prints, what it leaves behind, what it refuses to touch.

use crate::process::{Run, command, run, send};
use millstream_testkit::{TestDatabase, database, until};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// The demo of so many documents in a database of its own, with a temporary directory to look into.
struct Demo {
    database: TestDatabase,
    url: String,
    tmp: tempfile::TempDir,
}

impl Demo {
    async fn new() -> Self {
        let database = database().await;
        let url = database.url();
        Self { database, url, tmp: tempfile::tempdir().unwrap() }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = command(&["demo", "--db", &self.url]);
        command.args(args).env("TMPDIR", self.tmp.path());
        command
    }

    fn run(&self, args: &[&str]) -> Run {
        run(&mut self.command(args))
    }

    async fn count(&self, table: &str) -> i64 {
        let sql = format!("select count(*) from {table}");
        self.database.client().await.query_one(&sql, &[]).await.unwrap().get(0)
    }
}

fn is_empty(dir: &Path) -> bool {
    std::fs::read_dir(dir).unwrap().next().is_none()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_shows_loads_questions_and_next_steps() {
    let demo = Demo::new().await;
    let run = demo.run(&["--docs", "20000"]).ends(0);
    for said in [
        "1. 69,472 documents, real ones (GeoNames, CC BY 4.0)",
        "$ millstream load data/cities.ndjson.zst",
        "receipt of load 1 into demo_cities",
        "2. 20,000 documents, generated",
        "--into demo_telemetry --key device,ts",
        "receipt of load 2 into demo_telemetry",
        "3. 20,000 documents again",
        "receipt of load 3 into demo_telemetry",
        "In which countries do most people live in cities?",
        "count(*) as cities",
        "CN         2879  752727610  Shanghai",
        "Which pumps report most",
        "every document accounted for",
        "millstream collections",
        "Add the --db",
    ] {
        assert!(run.stdout.contains(said), "{said}: {}", run.stdout);
    }
    for line in run.stdout.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    assert!(run.stderr.starts_with("target: postgres://"), "{run:?}");
    assert!(is_empty(demo.tmp.path()));
    assert_eq!(demo.count("demo_cities").await, 69_472);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_demo_replaces_the_first_and_speaks_json() {
    let demo = Demo::new().await;
    demo.run(&["--docs", "5000"]).ends(0);
    let shown = demo.run(&["--docs", "3000", "--output", "json"]).ends(0).json();
    assert_eq!(shown["finished"], true);
    let receipts = shown["receipts"].as_array().unwrap();
    assert_eq!(receipts.len(), 3);
    assert_eq!(receipts[0]["inserted"], 69_472);
    assert_eq!((&receipts[1]["read"], &receipts[2]["read"]), (&3_000.into(), &3_000.into()));
    let inserted = receipts[1]["inserted"].as_i64().unwrap() + receipts[2]["inserted"].as_i64().unwrap();
    assert_eq!(demo.count("demo_telemetry").await, inserted);
    let answers = shown["answers"].as_array().unwrap();
    assert_eq!(answers[0]["rows"][0]["people"], 752_727_610);
    assert_eq!(answers[1]["rows"].as_array().unwrap().len(), 5);
    let client = demo.database.client().await;
    let loads: i64 = client.query_one("select count(*) from millstream.load", &[]).await.unwrap().get(0);
    assert_eq!(loads, 3, "the record of the first demo went with its tables");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_does_not_replace_tables_of_others() {
    let demo = Demo::new().await;
    let client = demo.database.client().await;
    client.batch_execute("create table demo_telemetry (a int); insert into demo_telemetry values (7)").await.unwrap();
    let run = demo.run(&["--docs", "10"]).ends(2);
    assert!(run.stderr.contains("error: demo_telemetry exists already, and no demo created it"), "{run:?}");
    assert!(run.stderr.contains("hint: rename it"), "{run:?}");
    assert_eq!(demo.count("demo_telemetry").await, 1);
    assert!(is_empty(demo.tmp.path()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_temporary_directory_that_cannot_be_used_is_a_clear_error() {
    let demo = Demo::new().await;
    let missing = demo.tmp.path().join("missing");
    let run = run(demo.command(&["--docs", "10"]).env("TMPDIR", &missing)).ends(2);
    assert!(run.stderr.contains("error: cannot make a temporary directory"), "{run:?}");
    assert!(run.stderr.contains("set TMPDIR"), "{run:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_demo_leaves_no_files_and_can_be_repeated() {
    let demo = Demo::new().await;
    let mut child = demo.command(&["--docs", "500000"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_for_second_load(&demo, &mut child).await;
    send("INT", child.id());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(is_empty(demo.tmp.path()));
    demo.run(&["--docs", "1000"]).ends(0);
}

/// Waits until rows of telemetry are committed.
async fn wait_for_second_load(demo: &Demo, child: &mut Child) {
    let client = demo.database.client().await;
    until("rows of telemetry are committed", async || {
        assert!(child.try_wait().unwrap().is_none(), "the demo ended before it was interrupted");
        let rows = client.query_one("select count(*) from demo_telemetry", &[]).await;
        rows.is_ok_and(|row| row.get::<_, i64>(0) > 0)
    })
    .await;
}
