//! Loads that are killed and run again, against an independent reading of their input.

mod commit;
mod finish;
mod moment;
mod point;

use crate::location::{Documents, Location};
use fastrand::Rng;
use millstream_testkit::{Server, connect, until};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use tokio_postgres::Client;

/// Most runs of one load. A run that is not killed finishes the load.
const RUNS_MAX: u32 = 200;

/// Modes in which loads are killed. A batch that is applied twice leaves no trace in the first, and a wrong sum in
/// the second.
const MODES: [&str; 2] = ["replace", SUM];
const SUM: &str = "sum:value";

/// Documents of a batch that does not go as arrays.
const LARGE_BATCH_ROWS: usize = 700;

/// The rows that the input must leave.
struct Input {
    /// Values of the last document of a key.
    last: BTreeMap<String, i64>,
    /// Sums of the values of a key's documents.
    sums: BTreeMap<String, i64>,
    documents: u64,
    bad: u64,
}

impl Input {
    /// Writes a file of this many documents, some of them malformed.
    fn write(path: &Path, rng: &mut Rng, documents: u64) -> Self {
        let mut input = Self { last: BTreeMap::new(), sums: BTreeMap::new(), documents, bad: 0 };
        let keys = rng.u64(documents / 4..documents * 2);
        let padding = "x".repeat(400);
        let mut text = String::new();
        for value in 0..i64::try_from(documents).unwrap() {
            let id = format!("k{:06}", rng.u64(..keys));
            if rng.u8(..) < 5 {
                input.bad += 1;
                writeln!(text, "{{\"id\":\"{id}\",\"value\":{value}").unwrap();
            } else {
                writeln!(text, "{{\"id\":\"{id}\",\"value\":{value},\"padding\":\"{padding}\"}}").unwrap();
                *input.sums.entry(id.clone()).or_default() += value;
                input.last.insert(id, value);
            }
        }
        std::fs::write(path, text).unwrap();
        input
    }
}

/// A load that may be killed: a file, a table, and the server that it goes to.
struct Victim {
    input: Input,
    dir: tempfile::TempDir,
    table: String,
    url: String,
    client: Client,
    /// Keys that were in the table before, with a value of -1.
    before: Vec<String>,
    mode: &'static str,
    more: Vec<String>,
    /// Small batches go as arrays, large ones are divided by what is stored.
    batch_rows: usize,
    documents: Documents,
}

impl Victim {
    /// A load of new documents, which lie anywhere.
    async fn new(server: &Server, rng: &mut Rng, documents: u64) -> Self {
        let location = Location::any(rng);
        Self::at(location, server, rng, documents).await
    }

    /// A load of new documents, in one of the modes. Half of these loads go into a table with rows, the others create it.
    async fn at(location: Location, server: &Server, rng: &mut Rng, documents: u64) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.ndjson");
        let input = Input::write(&file, rng, documents);
        let documents = Documents::of(location, file);
        let url = server.url("postgres");
        let client = connect(&url).await;
        // The superuser has the name of our schema, which comes first in its search path.
        let table = format!("public.victim_{}", rng.u64(..));
        let (before, more, mode) = (Vec::new(), Vec::new(), rng.choice(MODES).expect("some"));
        let batch_rows = rng.choice([100, LARGE_BATCH_ROWS]).expect("some");
        let mut victim = Self { input, dir, table, url, client, before, mode, more, batch_rows, documents };
        if rng.bool() {
            victim.fill(rng).await;
        }
        victim
    }

    /// Creates the table by hand, with rows for some of the keys.
    async fn fill(&mut self, rng: &mut Rng) {
        let create = format!("create table {} (id text collate \"C\" primary key, doc jsonb not null)", self.table);
        self.client.batch_execute(&create).await.unwrap();
        let some: Vec<String> = self.input.last.keys().filter(|_| rng.bool()).cloned().collect();
        let insert = format!("insert into {} select id, '{{\"value\":-1}}' from unnest($1::text[]) id", self.table);
        self.client.execute(&insert, &[&some]).await.unwrap();
        self.before = some;
        self.more.push("--adopt".into());
    }

    /// A path beside the input.
    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Starts the load. Only the number of lanes differs from run to run.
    fn start(&self, lanes: u16, failpoints: &str) -> Child {
        let mut command = self.documents.load();
        command.args(["--into", &self.table, "--key", "id:text"]);
        command.args(["--mode", self.mode, "--lanes", &lanes.to_string(), "--db", &self.url]);
        command.args(["--batch-rows", &self.batch_rows.to_string()]);
        command.args(["--output", "json", "--progress", "none", "--max-rejects", "1000000"]).args(&self.more);
        command.env("MILLSTREAM_FAILPOINTS", failpoints);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Runs the load until it ends or is killed.
    async fn run(&self, lanes: u16, failpoints: &str) -> ExitStatus {
        let child = self.start(lanes, failpoints);
        self.end(child).await
    }

    /// Waits for the end of a run. A run that was not killed must have finished the load.
    async fn end(&self, mut child: Child) -> ExitStatus {
        until("the load ends", async || child.try_wait().unwrap().is_some()).await;
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(is_killed(output.status) || output.status.code() == Some(self.code()), "{stderr}");
        output.status
    }

    /// The rows that the table must hold.
    fn expected(&self) -> BTreeMap<String, i64> {
        if self.mode != SUM {
            return self.input.last.clone();
        }
        let mut sums = self.input.sums.clone();
        for id in &self.before {
            *sums.get_mut(id).expect("its documents come") -= 1;
        }
        sums
    }

    /// Exit code of a load that is done.
    fn code(&self) -> i32 {
        i32::from(self.input.bad > 0)
    }

    /// Documents committed so far, whatever state the load is in.
    async fn committed(&self) -> u64 {
        if !self.recorded().await {
            return 0;
        }
        let sql = "select coalesce(sum(l.read + (select coalesce(sum(n.read), 0) from millstream.lane n
                       where n.load_id = l.load_id)), 0)::bigint
                   from millstream.load l where table_oid = to_regclass($1)";
        let row = self.client.query_one(sql, &[&self.table]).await.unwrap();
        u64::try_from(row.get::<_, i64>(0)).unwrap()
    }

    /// The recorded loads, for the message of a failure.
    async fn loads(&self) -> String {
        let sql = "select coalesce(string_agg(load_id || ' ' || state || ' ' || runs || ' runs', ', '), '')
                   from millstream.load where table_oid = to_regclass($1)";
        self.client.query_one(sql, &[&self.table]).await.unwrap().get(0)
    }

    /// Whether our tables exist.
    async fn recorded(&self) -> bool {
        let sql = "select to_regclass('millstream.reject') is not null";
        self.client.query_one(sql, &[]).await.unwrap().get(0)
    }

    /// Waits until the server has noticed that the load's process is gone.
    async fn left_alone(&self) {
        let sql = "select not exists (select from pg_stat_activity where application_name like '%millstream control%')";
        until("the killed session ends", async || self.client.query_one(sql, &[]).await.unwrap().get(0)).await;
    }

    /// The recorded receipt of a load that has ended.
    async fn receipt(&self) -> Option<Value> {
        if !self.recorded().await {
            return None;
        }
        let sql = "select receipt::text from millstream.load where table_oid = to_regclass($1) and state = 'finished'";
        let rows = self.client.query(sql, &[&self.table]).await.unwrap();
        assert!(rows.len() <= 1, "one load, however often it was killed");
        rows.first().map(|row| serde_json::from_str(row.get(0)).unwrap())
    }

    /// Runs the load until it is done, then compares everything with the input.
    async fn finish(&self, rng: &mut Rng) {
        for _ in 0..RUNS_MAX {
            if let Some(receipt) = self.receipt().await {
                return self.check(&receipt).await;
            }
            let status = self.run(rng.u16(1..5), "").await;
            assert_eq!(status.code(), Some(self.code()));
        }
        panic!("the load does not end in {RUNS_MAX} runs");
    }

    /// The table holds what the input says, and the receipt is that of a run without interruption.
    async fn check(&self, receipt: &Value) {
        let sql = format!("select id, (doc ->> 'value')::bigint from {}", self.table);
        let rows = self.client.query(&sql, &[]).await.unwrap();
        let found: BTreeMap<String, i64> = rows.iter().map(|r| (r.get(0), r.get(1))).collect();
        let expected = self.expected();
        let differs = found.iter().filter(|(id, value)| expected.get(*id) != Some(value)).count();
        let missing = expected.keys().filter(|id| !found.contains_key(*id)).count();
        let (mode, loads) = (self.mode, self.loads().await);
        assert_eq!((differs, missing), (0, 0), "rows that differ and that are missing; {mode}, {loads}");
        let count = |name: &str| receipt[name].as_u64().unwrap();
        assert_eq!((count("read"), count("rejected")), (self.input.documents, self.input.bad), "{receipt}");
        assert_eq!(count("inserted") - count("deleted"), (found.len() - self.before.len()) as u64, "{receipt}");
        let rest = ["updated", "unchanged", "superseded"].map(count).iter().sum::<u64>();
        assert_eq!(count("inserted") + rest, self.input.documents - self.input.bad, "{receipt}");
        let sql = "select count(*) from millstream.reject join millstream.load using (load_id) where table_oid = to_regclass($1)";
        let rejects: i64 = self.client.query_one(sql, &[&self.table]).await.unwrap().get(0);
        assert_eq!(u64::try_from(rejects).unwrap(), self.input.bad);
        self.client.batch_execute(&format!("drop table {}", self.table)).await.unwrap();
    }
}

/// Whether a process died by SIGKILL.
pub fn is_killed(status: ExitStatus) -> bool {
    status.signal() == Some(9)
}
