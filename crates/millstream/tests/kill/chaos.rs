//! Everything at once, against a dictionary: loads of every kind, compactions and refreshes, which are killed and
//! stopped, and a subscription, while somebody alters the tables, ends sessions and restarts the server.
//!
//! `MILLSTREAM_TEST_SCALE` sets how many files each load reads; 120 takes about an hour. By day, they are few.

use crate::process::command;
use fastrand::Rng;
use millstream_testkit::{Build, Server, Settings, StopMode, builds, cases, connect, is_night, skip, until};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::process::{Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;
use tokio::process::Command;
use tokio_postgres::Client;

/// Files that each load reads, one after another.
const FILES: usize = 40;
const FILES_BY_DAY: usize = 12;
/// Documents of a file: many batches.
const DOCUMENTS: u64 = 6_000;
const KEYS: i64 = 2_000;
/// Batches that go as arrays, and batches that are staged, copied and divided.
const BATCH_ROWS: [&str; 2] = ["100", "1000"];
/// Latest moment at which a command is killed or stopped.
const LATEST: Duration = Duration::from_millis(400);
/// Time between two tries of anything.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Most runs of one command until it succeeds.
const RUNS_MAX: usize = 2_000;

/// Runs of a command after which nothing disturbs it any more.
const RUNS_DISTURBED_MAX: usize = 100;

/// What is in a table, by key.
type Dictionary = BTreeMap<i64, Value>;

/// A load and what its documents leave.
struct Kind {
    table: &'static str,
    args: &'static [&'static str],
    /// Whether the table may be truncated between two runs: nothing of it waits elsewhere.
    truncated: bool,
    /// Puts a document into the dictionary; the second holds the versions of deleted keys.
    put: fn(&mut Dictionary, &mut BTreeMap<i64, i64>, Value),
}

const KINDS: [Kind; 5] = [
    Kind { table: "replaced", args: &["--mode", "replace"], truncated: true, put: replace },
    Kind { table: "summed", args: &["--mode", "sum:value"], truncated: true, put: add },
    Kind {
        table: "newest",
        args: &["--mode", "newest:v:bigint", "--delete-when", "op=d"],
        truncated: true,
        put: newer,
    },
    Kind { table: "appended", args: &["--layout", "log", "--delete-when", "op=d"], truncated: false, put: replace },
    // Partitions cannot be truncated without those below them.
    Kind { table: PARTITIONED, args: &["--mode", "sum:value"], truncated: false, put: add },
];

/// The table whose rows are in two of three partitions. The third stays empty.
const PARTITIONED: &str = "parted";

/// The table that a subscription fills from the database [`PUBLISHER`], and the row that both tables begin with.
const RECEIVED: &str = "received";
const PUBLISHER: &str = "publisher";
const RECEIVED_FIRST: &str = "{\"id\": 0, \"value\": 0}";

/// Tables that have read models.
const MODELED: [&str; 2] = ["replaced", "newest"];

/// Statements that change nothing that matters to a load. Some need a transaction of their own.
const HARMLESS: &[&str] = &[
    "vacuum full T",
    // Of the partitioned table. The others have none.
    "vacuum full T_0",
    "vacuum full T_2",
    "vacuum T",
    "analyze T",
    "cluster T using T_pkey",
    "reindex table concurrently T",
    "alter table T add column if not exists more int default 7",
    "alter table T drop column if exists more",
    "alter table T set (fillfactor = 70)",
    "create index if not exists T_value on T ((doc -> 'value'))",
    "drop index if exists T_value",
    "create unique index if not exists T_second on T ((doc -> 'id'), id)",
    "drop index if exists T_second",
    // Checks of the key, and of what a document becomes.
    "alter table T add constraint T_key_check check (id >= 0) not valid",
    "alter table T drop constraint if exists T_key_check",
    "alter table T add constraint T_value_check check ((doc ->> 'value')::bigint >= 0) not valid",
    "alter table T drop constraint if exists T_value_check",
    "comment on table T is 'chaos'",
];

/// Statements that make a table unfit, each with the one that mends it.
const HARMFUL: &[(&str, &str)] = &[
    ("alter table T alter column doc type text", "alter table T alter column doc type jsonb using doc::jsonb"),
    ("alter table T alter column doc type json", "alter table T alter column doc type jsonb"),
    ("alter table T alter column id type double precision", "alter table T alter column id type bigint"),
    ("alter table T drop constraint T_pkey", "alter table T add primary key (id)"),
    ("create table T_child () inherits (T)", "drop table T_child"),
    ("create rule T_rule as on insert to T do instead nothing", "drop rule T_rule on T"),
    (
        "create trigger T_trigger before insert on T for each row execute function keep_row()",
        "drop trigger T_trigger on T",
    ),
    // Batches lock the same rows in different orders.
    (
        "create trigger T_counts after insert or update on T for each row execute function count_row()",
        "drop trigger T_counts on T",
    ),
    // As a restore of data does it. A model then misses what changed meanwhile, but knows that it did.
    ("alter table T disable trigger all", "alter table T enable trigger all"),
];

/// What makes documents that are appended wait for the table to be mended, if it is done before a load begins.
const NOT_APPENDED: &[&str] = &["create index", "create unique index", "reindex", "alter table T add constraint"];

/// Harm that cannot be done to a partitioned table, or that leaves its partitions with files that nobody has counted.
const NOT_PARTITIONED: &[&str] = &["alter column", "inherits"];

fn replace(rows: &mut Dictionary, _: &mut BTreeMap<i64, i64>, document: Value) {
    let id = document["id"].as_i64().unwrap();
    match document["op"] == "d" {
        true => rows.remove(&id),
        false => rows.insert(id, document),
    };
}

fn add(rows: &mut Dictionary, _: &mut BTreeMap<i64, i64>, document: Value) {
    let id = document["id"].as_i64().unwrap();
    let before = rows.get(&id).map_or(0, |stored| stored["value"].as_i64().unwrap());
    rows.insert(id, json!({"id": id, "value": before + document["value"].as_i64().unwrap()}));
}

fn newer(rows: &mut Dictionary, deleted: &mut BTreeMap<i64, i64>, document: Value) {
    let (id, version) = (document["id"].as_i64().unwrap(), document["v"].as_i64().unwrap());
    let stored = rows.get(&id).map(|stored| stored["v"].as_i64().unwrap());
    if stored.max(deleted.get(&id).copied()).is_some_and(|known| known > version) {
        return;
    }
    if document["op"] == "d" {
        rows.remove(&id);
        deleted.insert(id, version);
    } else {
        rows.insert(id, document);
    }
}

/// Documents of a kind. No two have the same version.
fn documents(kind: &Kind, rng: &mut Rng) -> Vec<Value> {
    let document = |n: i64| {
        let (id, value) = (rng.i64(0..KEYS), rng.i64(0..1_000));
        match kind.table {
            "summed" | PARTITIONED => json!({"id": id, "value": value}),
            _ => {
                let op = if rng.u8(..6) == 0 && kind.table != "replaced" { "d" } else { "u" };
                json!({"id": id, "value": value, "v": rng.i64(0..1_000_000) * 10_000 + n, "op": op})
            }
        }
    };
    (0..i64::try_from(DOCUMENTS).unwrap()).map(document).collect()
}

/// What all actors share.
struct Stage {
    server: Server,
    dir: tempfile::TempDir,
    /// Loads that have not read all of their files.
    loading: AtomicUsize,
    /// Whether the commands are left alone.
    calm: AtomicBool,
    /// Commands that failed so often that nothing may disturb them until they have succeeded.
    struggling: AtomicUsize,
    happened: Happened,
}

/// How often something happened.
#[derive(Debug, Default)]
struct Happened {
    commands_ended: AtomicUsize,
    tables_truncated: AtomicUsize,
    tables_harmed: AtomicUsize,
    servers_restarted: AtomicUsize,
}

impl Happened {
    fn counts(&self) -> [usize; 4] {
        let Self { commands_ended, tables_truncated, tables_harmed, servers_restarted } = self;
        [commands_ended, tables_truncated, tables_harmed, servers_restarted].map(|count| count.load(SeqCst))
    }
}

impl Stage {
    fn url(&self) -> String {
        self.server.url("postgres")
    }

    fn is_over(&self) -> bool {
        self.loading.load(SeqCst) == 0
    }

    /// Waits until no command struggles. On a slow machine disturbances would come faster than anything ends.
    async fn let_struggle(&self) {
        while self.struggling.load(SeqCst) > 0 {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Runs a command, which may be killed or stopped. `None` if it was.
    async fn run(&self, args: &[&str], rng: &mut Rng) -> Option<Output> {
        let mut command = Command::from(command(&[args, &["--db", &self.url()]].concat()));
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let child = command.spawn().unwrap();
        let pid = child.id().unwrap().to_string();
        let ended = child.wait_with_output();
        tokio::pin!(ended);
        let is_calm = self.calm.load(SeqCst) || self.struggling.load(SeqCst) > 0;
        let fate = if is_calm { 9 } else { rng.u8(..6) };
        if fate < 2 {
            tokio::select! {
                output = &mut ended => return Some(checked(args, output.unwrap())),
                () = tokio::time::sleep(LATEST.mul_f64(rng.f64())) => {}
            }
            let signal = if fate == 0 { "KILL" } else { "TERM" };
            // It may have ended meanwhile.
            _ = Command::new("sh").args(["-c", "kill -s \"$0\" \"$1\"", signal, &pid]).status().await;
            checked(args, ended.await.unwrap());
            self.happened.commands_ended.fetch_add(1, SeqCst);
            return None;
        }
        Some(checked(args, ended.await.unwrap()))
    }

    /// Runs a command until it succeeds. Before each run, `between` may do something.
    async fn run_to_end(&self, args: &[&str], rng: &mut Rng, mut between: impl AsyncFnMut(&mut Rng)) {
        let mut last = None;
        for run in 0..RUNS_MAX {
            if run == RUNS_DISTURBED_MAX {
                self.struggling.fetch_add(1, SeqCst);
            }
            between(rng).await;
            last = self.run(args, rng).await.or(last);
            if last.as_ref().is_some_and(|output| output.status.success()) {
                if run >= RUNS_DISTURBED_MAX {
                    self.struggling.fetch_sub(1, SeqCst);
                }
                return;
            }
            // A server that recovers refuses every command at once.
            tokio::time::sleep(LOOK_EVERY).await;
        }
        panic!("{args:?} never succeeds: {last:?}");
    }
}

/// The output of a command that did not break, whatever happened to it.
fn checked(args: &[&str], output: Output) -> Output {
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() != Some(70) && !text.contains("panicked"), "{args:?}: {text}");
    output
}

#[tokio::test]
async fn nothing_is_lost_whatever_happens_at_once() {
    let seed = std::env::var("MILLSTREAM_TEST_SEED").map_or_else(|_| fastrand::u64(..), |seed| seed.parse().unwrap());
    println!("seed {seed}");
    let builds = builds().await;
    let files = cases(if is_night() { FILES } else { FILES_BY_DAY });
    let files = files.div_ceil(builds.len());
    for (n, build) in (0..).zip(builds) {
        println!("on {}", build.installation);
        Box::pin(chaos(build, files, seed + n)).await;
    }
}

async fn chaos(build: &'static Build, files: usize, seed: u64) {
    let conf = ["wal_level = logical", "wal_retrieve_retry_interval = 100ms"].map(str::to_owned).to_vec();
    let server = Server::start(build, Settings { durable: true, conf, ..Settings::default() }).await;
    let dir = tempfile::tempdir().unwrap();
    let (loading, calm) = (AtomicUsize::new(KINDS.len()), AtomicBool::new(false));
    let stage = Stage { server, dir, loading, calm, struggling: AtomicUsize::new(0), happened: Happened::default() };
    let client = connect(&stage.url()).await;
    for kind in &KINDS {
        let table = kind.table;
        let columns = "(id bigint primary key, doc jsonb not null)";
        let made = match table {
            PARTITIONED => format!(
                "create table {table} {columns} partition by range (id);
                 create table {table}_0 partition of {table} for values from (0) to ({half});
                 create table {table}_1 partition of {table} for values from ({half}) to ({KEYS});
                 create table {table}_2 partition of {table} default",
                half = KEYS / 2
            ),
            _ => format!("create table {table} {columns} with (autovacuum_enabled = false)"),
        };
        client.batch_execute(&made).await.unwrap();
    }
    let functions = "create function keep_row() returns trigger language plpgsql as 'begin return new; end';
         create table counts (n bigint primary key, written bigint not null);
         insert into counts select n, 0 from generate_series(0, 19) n;
         create function count_row() returns trigger language plpgsql as
         'begin update public.counts set written = written + 1 where n = new.id % 20; return null; end'";
    client.batch_execute(functions).await.unwrap();
    let mut rng = Rng::with_seed(seed);
    let subscribes = subscribe(&stage, &client, &mut rng).await;
    let mut load = |n: usize| load_files(&stage, &KINDS[n], files, rng.fork());
    let loads = (load(0), load(1), load(2), load(3), load(4));
    let loads = async { tokio::join!(loads.0, loads.1, loads.2, loads.3, loads.4) };
    let (expected, received, ..) = tokio::join!(
        loads,
        replicate(&stage, subscribes, Rng::with_seed(seed)),
        read(&stage, Rng::with_seed(seed)),
        compact(&stage, Rng::with_seed(seed)),
        alter(&stage, Rng::with_seed(seed)),
        disturb(&stage, Rng::with_seed(seed)),
    );
    let expected = <[Dictionary; 5]>::from(expected);
    stage.calm.store(true, SeqCst);
    let client = connect(&stage.url()).await;
    until(&format!("seed {seed}: the subscription has applied every change"), async || {
        stored(&client, "select id, doc::text from received").await == received
    })
    .await;
    for args in [&["compact", "appended"][..], &["refresh", "read_of_replaced"], &["refresh", "read_of_received"]] {
        stage.run_to_end(args, &mut rng, async |_| {}).await;
    }
    for (kind, expected) in KINDS.iter().zip(&expected) {
        let found = stored(&client, &format!("select id, doc::text from {}", kind.table)).await;
        assert_same(&format!("seed {seed}: {}", kind.table), &found, expected);
    }
    for (table, rows) in [("replaced", &expected[0]), (RECEIVED, &received)] {
        let model = format!("select id, jsonb_build_object('value', value)::text from read_of_{table}");
        let expected = rows.iter().map(|(id, document)| (*id, json!({"value": document["value"]}))).collect();
        assert_same(&format!("seed {seed}: the model of {table}"), &stored(&client, &model).await, &expected);
    }
    let rejected = client.query_one("select coalesce(sum(rejected), 0)::bigint from millstream.load", &[]).await;
    assert_eq!(rejected.unwrap().get::<_, i64>(0), 0, "seed {seed}: no document is bad");
    // In a short run, not everything need happen.
    let counts = stage.happened.counts();
    let is_enough = if is_night() { !counts.contains(&0) } else { counts.iter().any(|count| *count > 0) };
    assert!(is_enough, "seed {seed}: {:?}", stage.happened);
}

fn assert_same(what: &str, found: &Dictionary, expected: &Dictionary) {
    let keys: std::collections::BTreeSet<_> = found.keys().chain(expected.keys()).collect();
    let differ: Vec<_> = keys.into_iter().filter(|key| found.get(key) != expected.get(key)).collect();
    let first = differ.first().map(|key| (key, found.get(key), expected.get(key)));
    assert!(differ.is_empty(), "{what}: {} keys differ (stored, expected), the first: {first:?}", differ.len());
}

async fn stored(client: &Client, sql: &str) -> Dictionary {
    let rows = client.query(sql, &[]).await.unwrap();
    rows.iter().map(|row| (row.get(0), serde_json::from_str(row.get(1)).unwrap())).collect()
}

/// Loads file after file. Returns what must be in the table.
async fn load_files(stage: &Stage, kind: &'static Kind, files: usize, mut rng: Rng) -> Dictionary {
    let (mut rows, mut deleted) = (Dictionary::new(), BTreeMap::new());
    for n in 0..files {
        let documents = documents(kind, &mut rng);
        let file = write(stage.dir.path(), &format!("{}-{n}", kind.table), &documents);
        let batch_rows = rng.choice(BATCH_ROWS).unwrap();
        let fixed = ["load", &file, "--into", kind.table, "--adopt", "--key", "id:bigint", "--batch-rows", batch_rows];
        let args = [&fixed[..], &["--progress", "none"], kind.args].concat();
        // Once a file.
        let mut truncates = kind.truncated && rng.bool();
        let between = async |rng: &mut Rng| {
            if truncates && rng.bool() && truncated(stage, kind.table).await {
                truncates = false;
                stage.happened.tables_truncated.fetch_add(1, SeqCst);
                (rows, deleted) = Default::default();
            }
        };
        stage.run_to_end(&args, &mut rng, between).await;
        for document in documents {
            (kind.put)(&mut rows, &mut deleted, document);
        }
    }
    stage.loading.fetch_sub(1, SeqCst);
    rows
}

fn write(dir: &Path, name: &str, documents: &[Value]) -> String {
    let mut text = String::new();
    for document in documents {
        writeln!(text, "{document}").unwrap();
    }
    let path = dir.join(format!("{name}.ndjson"));
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

/// Truncates a table, unless it has another name now or the server is away.
async fn truncated(stage: &Stage, table: &str) -> bool {
    let sql = format!("set lock_timeout = '5s'; truncate only {table}");
    execute(stage, &sql).await.is_ok()
}

/// Executes statements one after another in a session of their own, up to the first that fails.
async fn execute(stage: &Stage, sql: &str) -> Result<(), tokio_postgres::Error> {
    execute_in(&stage.url(), sql).await
}

async fn execute_in(url: &str, sql: &str) -> Result<(), tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await?;
    let connection = tokio::spawn(connection);
    let mut done = Ok(());
    for statement in sql.split("; ") {
        done = client.batch_execute(statement).await;
        if done.is_err() {
            break;
        }
    }
    drop(client);
    _ = connection.await;
    done
}

/// Makes a table with a model, and a subscription that fills it. False if this build cannot subscribe.
async fn subscribe(stage: &Stage, client: &Client, rng: &mut Rng) -> bool {
    let file = write(stage.dir.path(), RECEIVED, &[serde_json::from_str(RECEIVED_FIRST).unwrap()]);
    let load = ["load", &file, "--into", RECEIVED, "--key", "id:bigint", "--progress", "none"];
    stage.run_to_end(&load, rng, async |_| {}).await;
    stage.run_to_end(&publish(RECEIVED, "read_of_received"), rng, async |_| {}).await;
    for library in ["pgoutput", "libpqwalreceiver"] {
        if client.batch_execute(&format!("load '{library}'")).await.is_err() {
            skip(&format!("a subscription: this build has no {library}"));
            return false;
        }
    }
    client.batch_execute(&format!("create database {PUBLISHER}")).await.unwrap();
    let url = stage.server.url(PUBLISHER);
    let publisher = connect(&url).await;
    for statement in [
        "create table received (id bigint primary key, doc jsonb not null)",
        &format!("insert into received values (0, '{RECEIVED_FIRST}')"),
        "create publication received for table received",
        // The publisher is on the same server, so that its slot is made before the subscription.
        "select pg_create_logical_replication_slot('received', 'pgoutput')",
    ] {
        publisher.batch_execute(statement).await.unwrap_or_else(|error| panic!("{statement}: {error:?}"));
    }
    let subscription = format!(
        "create subscription received connection '{url}' publication received
         with (create_slot = false, slot_name = 'received', copy_data = false)"
    );
    client.batch_execute(&subscription).await.unwrap();
    true
}

/// Changes the publisher's table until all loads have ended. A change whose answer is lost is made again: that does no more.
/// Returns what must be in both tables.
async fn replicate(stage: &Stage, subscribes: bool, mut rng: Rng) -> Dictionary {
    let mut rows = Dictionary::from([(0, serde_json::from_str(RECEIVED_FIRST).unwrap())]);
    let url = stage.server.url(PUBLISHER);
    while subscribes && !stage.is_over() {
        stage.let_struggle().await;
        let (id, document) = (rng.i64(0..KEYS), json!({"value": rng.i64(0..1_000)}));
        let change = match rng.u8(..40) {
            0 => {
                rows.clear();
                "truncate received".to_owned()
            }
            1..12 => {
                rows.remove(&id);
                format!("delete from received where id = {id}")
            }
            _ => {
                let put = format!(
                    "insert into received values ({id}, '{document}') on conflict (id) do update set doc = excluded.doc"
                );
                rows.insert(id, document);
                put
            }
        };
        let mut tries = 0;
        while let Err(error) = execute_in(&url, &change).await {
            tries += 1;
            assert!(tries < RUNS_MAX, "{change} never succeeds: {error:?}");
            tokio::time::sleep(LOOK_EVERY).await;
        }
        tokio::time::sleep(LATEST.mul_f64(rng.f64() / 4.0)).await;
    }
    rows
}

fn publish<'a>(table: &'a str, model: &'a str) -> [&'a str; 6] {
    ["publish", table, "--as", model, "--column", "value:bigint=value"]
}

/// Publishes a model, refreshes it and that of the subscription's table again and again, and publishes and removes another
/// one.
async fn read(stage: &Stage, mut rng: Rng) {
    // The load may not have recorded the collection yet.
    stage.run_to_end(&publish("replaced", "read_of_replaced"), &mut rng, async |_| {}).await;
    while !stage.is_over() {
        match rng.u8(..5) {
            0 => _ = stage.run(&publish("newest", "read_of_newest"), &mut rng).await,
            1 => _ = stage.run(&["unpublish", "read_of_newest"], &mut rng).await,
            2 => _ = stage.run(&["refresh", "read_of_received"], &mut rng).await,
            _ => _ = stage.run(&["refresh", "read_of_replaced"], &mut rng).await,
        }
    }
}

async fn compact(stage: &Stage, mut rng: Rng) {
    while !stage.is_over() {
        stage.run(&["compact", "appended"], &mut rng).await;
        tokio::time::sleep(LATEST.mul_f64(rng.f64())).await;
    }
}

/// Alters the tables. What makes a table unfit is mended after a while.
async fn alter(stage: &Stage, mut rng: Rng) {
    while !stage.is_over() {
        stage.let_struggle().await;
        let table = KINDS[rng.usize(..KINDS.len())].table;
        let of_table = |sql: &str| sql.replace('T', table);
        if rng.bool() {
            let sql = HARMLESS[rng.usize(..HARMLESS.len())];
            // Documents are appended only where the key has the only index. A reindex that is broken off leaves another.
            if NOT_APPENDED.iter().any(|begin| sql.starts_with(begin)) && table == "appended" {
                continue;
            }
            _ = execute(stage, &format!("set lock_timeout = '5s'; {}", of_table(sql))).await;
        } else {
            let (harm, mend) = HARMFUL[rng.usize(..HARMFUL.len())];
            // The trigger of a model depends on the key's column, so that its type cannot change, or change back.
            if harm.contains("column id") && MODELED.contains(&table) {
                continue;
            }
            if NOT_PARTITIONED.iter().any(|part| harm.contains(part)) && table == PARTITIONED {
                continue;
            }
            if execute(stage, &format!("set lock_timeout = '5s'; {}", of_table(harm))).await.is_ok() {
                stage.happened.tables_harmed.fetch_add(1, SeqCst);
                tokio::time::sleep(LATEST.mul_f64(rng.f64())).await;
            }
            // If the answer was lost, the harm may be done.
            mended(stage, &of_table(harm), &of_table(mend)).await;
        }
        tokio::time::sleep(LATEST.mul_f64(rng.f64())).await;
    }
}

/// Mends a table. Trying the harm in a transaction that is rolled back shows whether it is done, unless it is the change
/// of a type: that can be repeated, as can its mending.
async fn mended(stage: &Stage, harm: &str, mend: &str) {
    let can_be_repeated = harm.contains("alter column");
    let intact = format!("set lock_timeout = '5s'; begin; {harm}; rollback");
    let mut last = None;
    for _ in 0..RUNS_MAX {
        let Err(mending) = execute(stage, mend).await else { return };
        let harming = execute(stage, &intact).await.err();
        if harming.is_none() && !can_be_repeated {
            return;
        }
        last = Some((mending, harming));
        tokio::time::sleep(LOOK_EVERY).await;
    }
    panic!("{mend} never succeeds: {last:?}");
}

/// Restarts the server, ends sessions, and holds locks.
async fn disturb(stage: &Stage, mut rng: Rng) {
    tokio::time::sleep(LATEST).await;
    stage.server.restart(StopMode::Immediate).await;
    stage.happened.servers_restarted.fetch_add(1, SeqCst);
    while !stage.is_over() {
        tokio::time::sleep(3 * LATEST.mul_f64(rng.f64())).await;
        stage.let_struggle().await;
        let table = KINDS[rng.usize(..KINDS.len())].table;
        match rng.u8(..8) {
            mode @ 0..2 => {
                stage.server.restart([StopMode::Immediate, StopMode::Fast][usize::from(mode)]).await;
                stage.happened.servers_restarted.fetch_add(1, SeqCst);
            }
            2..5 => {
                let end = "select pg_terminate_backend(pid) from pg_stat_activity \
                           where application_name like 'millstream%' and random() < 0.3";
                _ = execute(stage, end).await;
            }
            _ => {
                let lock =
                    format!("begin; lock table {table} in share row exclusive mode; select pg_sleep(0.5); commit");
                _ = execute(stage, &lock).await;
            }
        }
    }
}
