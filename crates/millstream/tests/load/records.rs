//! Commands that read and remove records, against a real server.

use crate::process::{Run, command, millstream, run};
use millstream_store::{Schema, load_lock_keys};
use millstream_testkit::{TestDatabase, database};
use serde_json::{Value, json};
use std::process::Stdio;
use tokio_postgres::Client;

/// Two collections and their loads, as rows: 1 finished long ago, 2 the same with `sum`, 3
/// stopped, 4 recorded as running, 5 finished just now, all into `events`; none into `readings`.
const RECORDS: &str = include_str!("records.sql");

struct Fixture {
    url: String,
    client: Client,
    _database: TestDatabase,
}

impl Fixture {
    async fn empty() -> Self {
        let database = database().await;
        Self { url: database.url(), client: database.client().await, _database: database }
    }

    async fn new() -> Self {
        let mut fixture = Self::empty().await;
        Schema::new("millstream").ensure(&mut fixture.client).await.unwrap();
        fixture.client.batch_execute(RECORDS).await.unwrap();
        fixture
    }

    fn run(&self, args: &[&str]) -> Run {
        run(command(args).args(["--db", &self.url]))
    }

    fn json(&self, args: &[&str]) -> Value {
        run(command(args).args(["--db", &self.url, "--output", "json"])).ends(0).json()
    }

    async fn count(&self, sql: &str) -> i64 {
        self.client.query_one(sql, &[]).await.unwrap().get(0)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_without_our_schema_reads_as_empty_and_stays_unchanged() {
    let fixture = Fixture::empty().await;
    for (args, said) in [(&["collections"][..], "no collections yet"), (&["loads"], "no loads yet")] {
        let run = fixture.run(args).ends(0);
        assert_eq!(run.stdout, "");
        assert!(run.stderr.contains(said), "{run:?}");
        assert_eq!(fixture.json(args), json!([]));
    }
    for args in
        [&["drop", "events", "--yes"][..], &["get", "events", "1"], &["rejects", "events"], &["loads", "forget", "1"]]
    {
        let run = fixture.run(args).ends(2);
        assert!(run.stderr.contains("error: there is no "), "{run:?}");
        assert!(run.stderr.contains("hint: millstream "), "{run:?}");
    }
    assert_eq!(fixture.json(&["loads", "prune", "--older-than", "1d"]), json!({"forgotten": []}));
    assert_eq!(fixture.count("select count(*) from pg_namespace where nspname = 'millstream'").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn collections_are_listed_with_their_figures() {
    let fixture = Fixture::new().await;
    let run = fixture.run(&["collections"]).ends(0);
    assert!(run.stderr.starts_with("target: postgres://"), "{run:?}");
    assert!(run.stdout.starts_with("NAME"), "{run:?}");
    assert!(run.stdout.lines().all(|line| line.chars().count() <= 80), "{run:?}");
    let found = fixture.json(&["collections"]);
    assert_eq!(found.as_array().unwrap().len(), 2);
    assert_eq!(found[1]["table"], "events");
    assert_eq!(found[1]["loads"], 5);
    assert_eq!(found[1]["key"], json!([{"name": "id", "path": ["id"], "type": "bigint"}]));
    assert!(found[1]["bytes"].as_u64().unwrap() > 0);
    assert_eq!(found[0]["schema"], "lab");
    assert_eq!(found[0]["adopted"], true);
    assert_eq!((&found[0]["unlogged"], &found[1]["unlogged"]), (&json!(false), &json!(true)));
    assert_eq!(found[0]["last_load_at"], Value::Null);
    fixture.client.batch_execute("alter table events rename to happenings").await.unwrap();
    assert_eq!(fixture.json(&["collections"])[1]["table"], "happenings");
    fixture.client.batch_execute("drop table happenings").await.unwrap();
    assert_eq!(fixture.json(&["collections"])[1]["present"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_are_found_by_key() {
    let fixture = Fixture::new().await;
    let run = fixture.run(&["get", "events", "2", "1"]).ends(0);
    assert_eq!(run.stdout, "{\"id\": 2, \"price\": 1.50}\n{\"id\": 1}\n");
    let run = fixture.run(&["get", "events", "1", "7"]).ends(1);
    assert_eq!(run.stdout, "{\"id\": 1}\n");
    assert!(run.stderr.contains("missing: 7"), "{run:?}");
    let run = run_json(&fixture, &["get", "events", "2", "7"], 1);
    assert_eq!(
        run,
        json!([
            {"key": ["2"], "found": true, "doc": {"id": 2, "price": 1.50}},
            {"key": ["7"], "found": false, "doc": null},
        ])
    );
    for key in [r"a\,b,2026-01-01T00:00:00Z", r#"["a,b", "2026-01-01T01:00:00+01:00"]"#] {
        assert_eq!(fixture.run(&["get", "lab.readings", key]).ends(0).stdout, "{\"n\": 1}\n");
    }
    let run = fixture.run(&["get", "lab.readings", "a"]).ends(2);
    assert!(run.stderr.contains("\"a\" has 1 value, and a key of lab.readings has 2"), "{run:?}");
    let run = fixture.run(&["get", "events", "seven"]).ends(2);
    assert!(run.stderr.contains("invalid input syntax for type bigint"), "{run:?}");
    assert!(run.stderr.contains("hint: the key of events is id bigint\n"), "{run:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_is_running_only_while_a_session_holds_its_lock() {
    let fixture = Fixture::new().await;
    let states = |list: Value| -> Vec<String> {
        list.as_array().unwrap().iter().map(|load| load["state"].as_str().unwrap().into()).collect()
    };
    let list = fixture.json(&["loads"]);
    assert_eq!(list[1]["read"], 110, "settled counts and the lanes'");
    assert_eq!(list[4]["receipt"]["read"], 10);
    assert_eq!(list[4]["durability"], "durable");
    assert_eq!(states(list), ["finished", "crashed", "stopped", "finished", "finished"]);
    hold(&fixture.client, 4).await;
    assert_eq!(states(fixture.json(&["loads"]))[1], "running");
    for args in [&["loads", "forget", "4"][..], &["drop", "events", "--yes"]] {
        let run = fixture.run(args).ends(2);
        assert!(run.stderr.contains("error: load 4 is running in another process"), "{run:?}");
    }
    let text = fixture.run(&["loads"]).ends(0).stdout;
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    fixture.client.batch_execute("update millstream.load set durability = 'async' where load_id = 5").await.unwrap();
    assert!(fixture.run(&["loads"]).ends(0).stdout.contains("5  events (async)  finished"));
    fixture.client.batch_execute("select pg_advisory_unlock_all()").await.unwrap();
    let run = fixture.run(&["loads", "forget", "4"]).ends(0);
    assert_eq!(run.stdout, "forgot load 4 into events\n");
    assert!(run.stderr.contains("it cannot be resumed"), "{run:?}");
    assert_eq!(fixture.count("select count(*) from millstream.lane").await, 0);
    assert!(fixture.run(&["loads", "forget", "4"]).ends(2).stderr.contains("no load 4"));
    assert_eq!(fixture.count("select count(*) from events").await, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn pruning_keeps_unfinished_loads_and_sums() {
    let fixture = Fixture::new().await;
    let pruned = fixture.json(&["loads", "prune", "--older-than", "1d"]);
    assert_eq!(pruned, json!({"forgotten": [1]}));
    assert_eq!(fixture.count("select sum(load_id)::bigint from millstream.load").await, 2 + 3 + 4 + 5);
    let stopped = ["loads", "prune", "--stopped", "--older-than"];
    let prune = |age| fixture.json(&[&stopped[..], &[age]].concat());
    assert_eq!(prune("60d"), json!({"forgotten": []}));
    assert_eq!(prune("1d"), json!({"forgotten": [3]}));
    assert_eq!(fixture.count("select sum(load_id)::bigint from millstream.load").await, 2 + 4 + 5);
    assert_eq!(fixture.count("select count(*) from millstream.reject where load_id = 3").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn drop_needs_yes_and_deletes_the_records() {
    let fixture = Fixture::new().await;
    let run = fixture.run(&["drop", "events"]).ends(2);
    assert!(run.stderr.contains("hint: millstream drop events --yes"), "{run:?}");
    fixture.client.batch_execute("create view v as select * from events").await.unwrap();
    let run = fixture.run(&["drop", "events", "--yes"]).ends(2);
    assert!(run.stderr.contains("other objects depend on it"), "{run:?}");
    assert_eq!(fixture.json(&["collections"])[1]["loads"], 5, "a refused drop changes nothing");
    fixture.client.batch_execute("drop view v").await.unwrap();
    let run = fixture.run(&["drop", "events", "--yes"]).ends(0);
    assert_eq!(run.stdout, "dropped events and the record of 5 loads\n");
    assert_eq!(fixture.count("select count(*) from millstream.reject").await, 0);
    assert_eq!(fixture.count("select count(*) from pg_class where relname = 'events'").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn freeze_prints_an_estimate_and_needs_yes() {
    let fixture = Fixture::new().await;
    let run = fixture.run(&["freeze", "events"]).ends(2);
    assert!(run.stderr.contains("freezing events needs a confirmation"), "{run:?}");
    assert!(run.stderr.contains("millstream freeze events --yes"), "{run:?}");
    let run = fixture.run(&["freeze", "events", "--dry-run"]).ends(0);
    assert!(run.stdout.starts_with("freezing events rewrites 1 table of "), "{run:?}");
    let estimate = fixture.json(&["freeze", "events", "--dry-run"]);
    assert_eq!((&estimate["tables"], &estimate["wal_level"]), (&json!(1), &json!("replica")));
    assert_eq!(estimate["wal_bytes"], estimate["bytes"]);
    let run = fixture.run(&["load", "-", "--into", "events", "--key", "id"]).ends(2);
    assert!(run.stderr.contains("or end that: millstream freeze events"), "{run:?}");
    assert_eq!(fixture.json(&["collections"])[1]["unlogged"], true, "nothing was done so far");
    hold(&fixture.client, 4).await;
    let run = fixture.run(&["freeze", "events", "--yes"]).ends(2);
    assert!(run.stderr.contains("error: load 4 is running in another process"), "{run:?}");
    fixture.client.batch_execute("select pg_advisory_unlock_all()").await.unwrap();
    let run = fixture.run(&["freeze", "events", "--yes"]).ends(0);
    assert_eq!(run.stdout, "froze events: 1 table rewritten, it survives crashes now\n");
    assert_eq!(fixture.json(&["collections"])[1]["unlogged"], false);
    assert_eq!(fixture.json(&["freeze", "events"])["tables"], 0, "nothing is left to ask about");
    assert!(fixture.run(&["freeze", "none", "--yes"]).ends(2).stderr.contains("there is no collection none"));
}

#[tokio::test(flavor = "multi_thread")]
async fn freeze_in_place_is_announced_confirmed_and_undone() {
    let fixture = Fixture::new().await;
    let announced = fixture.run(&["freeze", "events", "--in-place", "--dry-run"]).ends(0).stdout;
    assert!(announced.starts_with("freezing events in place rewrites 1 table of "), "{announced}");
    assert!(announced.ends_with("; it takes no writes afterwards\n"), "{announced}");
    let estimate = fixture.json(&["freeze", "events", "--in-place", "--dry-run"]);
    assert_eq!((&estimate["tables"], &estimate["left"], &estimate["read_only"]), (&json!(1), &json!(0), &json!(false)));
    assert!(estimate["wal_bytes"] == estimate["bytes"] && estimate["bytes"].as_u64() > Some(0), "{estimate}");
    let run = fixture.run(&["freeze", "events", "--in-place"]).ends(2);
    assert!(run.stderr.contains("millstream freeze events --in-place --yes"), "{run:?}");
    for other in ["--in-place", "--dry-run"] {
        assert!(fixture.run(&["freeze", "events", "--undo", other]).ends(2).stderr.contains("cannot be used with"));
    }
    hold(&fixture.client, 4).await;
    let run = fixture.run(&["freeze", "events", "--in-place", "--yes"]).ends(2);
    assert!(run.stderr.contains("error: load 4 is running in another process"), "{run:?}");
    fixture.client.batch_execute("select pg_advisory_unlock_all()").await.unwrap();
    assert_eq!(fixture.json(&["collections"])[1]["unlogged"], true, "nothing was done so far");
    let run = fixture.run(&["freeze", "events", "--in-place", "--yes"]).ends(0);
    assert_eq!(run.stdout, "froze events in place: 1 table rewritten, it survives crashes and takes no writes now\n");
    assert_eq!(fixture.json(&["collections"])[1]["unlogged"], false);
    assert_eq!(fixture.json(&["collections"])[1]["read_only"], true);
    let again = fixture.json(&["freeze", "events", "--in-place"]);
    assert_eq!((&again["tables"], &again["read_only"]), (&json!(0), &json!(true)), "nothing is left to ask about");
    let run = fixture.run(&["load", "-", "--into", "events", "--key", "id"]).ends(2);
    assert!(run.stderr.contains("it is frozen and takes no writes"), "{run:?}");
    assert!(run.stderr.contains("hint: let it take writes again: millstream freeze events --undo"), "{run:?}");
    assert_eq!(fixture.run(&["freeze", "events", "--undo"]).ends(0).stdout, "events takes writes again\n");
    let undone = fixture.json(&["freeze", "events", "--undo"]);
    assert_eq!((&undone["undone"], &undone["read_only"]), (&json!(false), &json!(false)));
    fixture.client.batch_execute("delete from events").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_adopted_table_outlives_its_collection() {
    let fixture = Fixture::new().await;
    let run = fixture.run(&["drop", "lab.readings", "--yes"]).ends(0);
    assert!(run.stdout.contains("its adopted table stays"), "{run:?}");
    assert_eq!(fixture.count("select count(*) from lab.readings").await, 1);
    let fixture = Fixture::new().await;
    let run = fixture.run(&["drop", "lab.readings", "--yes", "--table"]).ends(0);
    assert!(run.stdout.starts_with("dropped lab.readings"), "{run:?}");
    assert_eq!(fixture.count("select count(*) from pg_class where relname = 'readings'").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn rejects_are_summed_up_listed_and_cleared() {
    let fixture = Fixture::new().await;
    let run = fixture.run(&["rejects", "events", "--limit", "2"]).ends(0);
    assert!(run.stdout.starts_with("REASON"), "{run:?}");
    assert!(run.stdout.contains("a.ndjson:17"), "{run:?}");
    assert!(run.stderr.contains("1 more; --limit"), "{run:?}");
    let all = fixture.json(&["rejects", "events"]);
    assert_eq!(all["reasons"][0], json!({"reason": "not_json", "count": 2, "bytes": 10}));
    assert_eq!(all["rejects"][0]["document"], "{oops");
    assert_eq!(all["rejects"][2]["document_base64"], "/w==");
    let one = fixture.json(&["rejects", "events", "--load", "3"]);
    assert_eq!(one["rejects"].as_array().unwrap().len(), 1);
    let cleared = fixture.json(&["rejects", "events", "--clear", "--older-than", "1d"]);
    assert_eq!(cleared, json!({"exported": null, "cleared": 2}));
    let run = fixture.run(&["rejects", "events", "--clear", "--load", "3"]).ends(0);
    assert_eq!(run.stdout, "cleared 1 reject\n");
    assert!(fixture.run(&["rejects", "events"]).ends(0).stderr.contains("no rejects"));
    assert_eq!(fixture.json(&["loads"])[2]["rejected"], 1, "the loads keep their counts");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reject_of_a_damaged_file_stays_while_its_load_can_be_resumed() {
    let fixture = Fixture::new().await;
    let sql = "insert into millstream.reject \
                   (load_id, source, byte_offset, line, reason, detail, document, bytes, truncated) \
               values (3, 1, 7, 2, 'damaged_source', 'the CSV record has an open quote', '2,\"', 3, false)";
    fixture.client.batch_execute(sql).await.unwrap();
    let clear = ["rejects", "events", "--load", "3", "--clear"];
    let run = fixture.run(&clear).ends(0);
    assert_eq!(run.stdout, "cleared 1 reject\n");
    assert!(run.stderr.contains("kept 1 reject where a file is damaged"), "{run:?}");
    fixture.client.batch_execute("update millstream.load set resumable = false where load_id = 3").await.unwrap();
    let run = fixture.run(&clear).ends(0);
    assert!(run.stdout == "cleared 1 reject\n" && !run.stderr.contains("kept"), "{run:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn export_writes_whole_rejects_and_clears_only_those() {
    let fixture = Fixture::new().await;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("mend.rejects");
    let file = path.to_str().unwrap();
    let reason = ["--reason", "not_json"];
    let done = fixture.json(&[&["rejects", "events", "--export", file, "--clear"], &reason[..]].concat());
    assert_eq!(done, json!({"exported": 2, "cleared": 2}));
    let lines: Vec<Value> =
        std::fs::read_to_string(&path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    assert_eq!((&lines[0]["source"], &lines[0]["line"]), (&json!("a.ndjson"), &json!(17)));
    assert_eq!(lines[1]["document"], "{\"a\":");
    let run = fixture.run(&["rejects", "events", "--export", file, "--clear"]).ends(2);
    assert!(run.stderr.contains("exists already"), "{run:?}");
    assert_eq!(fixture.count("select count(*) from millstream.reject").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_schema_and_missing_rights_are_reported() {
    let fixture = Fixture::new().await;
    fixture.client.batch_execute("create role guest login password 'hunter2'").await.unwrap();
    let guest = fixture.url.replace("postgres://", "").split_once('@').unwrap().1.to_owned();
    let guest = format!("postgres://guest:hunter2@{guest}");
    let run = millstream(&["collections", "--db", &guest]).ends(2);
    assert!(run.stderr.contains("error: permission denied for schema millstream"), "{run:?}");
    assert!(run.stderr.contains("hint: "), "{run:?}");
    assert!(!run.stderr.contains("hunter2"), "{run:?}");
    fixture.client.batch_execute("update millstream.meta set schema_version = 999").await.unwrap();
    let run = fixture.run(&["collections"]).ends(2);
    assert!(run.stderr.contains("holds version 999"), "{run:?}");
    fixture.client.batch_execute("drop role guest").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_schema_may_have_another_name() {
    let mut fixture = Fixture::empty().await;
    Schema::new("Mill \"1\"").ensure(&mut fixture.client).await.unwrap();
    let records = RECORDS.replace("millstream.", "\"Mill \"\"1\"\"\".");
    fixture.client.batch_execute(&records).await.unwrap();
    assert_eq!(fixture.json(&["collections"]), json!([]));
    let found = fixture.json(&["collections", "--schema", "Mill \"1\""]);
    assert_eq!(found.as_array().unwrap().len(), 2);
    let named = run(command(&["loads", "--db", &fixture.url]).env("MILLSTREAM_SCHEMA", "Mill \"1\""));
    assert!(named.ends(0).stdout.starts_with("ID"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_output_pipe_is_not_an_error() {
    let fixture = Fixture::new().await;
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut listing = command(&["rejects", "events", "--db", &fixture.url]);
    let run = run(listing.stdout(writer).stderr(Stdio::piped())).ends(0);
    assert!(!run.stderr.contains("error"), "{run:?}");
}

fn run_json(fixture: &Fixture, args: &[&str], code: i32) -> Value {
    run(command(args).args(["--db", &fixture.url, "--output", "json"])).ends(code).json()
}

/// Holds a load's lock, as its control connection does.
async fn hold(client: &Client, load_id: i64) {
    let (class, id) = load_lock_keys(&Schema::new("millstream"), load_id);
    let row = client.query_one("select pg_try_advisory_lock($1, $2)", &[&class, &id]).await.unwrap();
    assert!(row.get::<_, bool>(0));
}
