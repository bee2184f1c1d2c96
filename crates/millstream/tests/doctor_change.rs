//! Repairs that the doctor applies and takes back, also when it is killed.

use crate::process::{Run, command, run};
use millstream_failpoint::CHANGE;
use millstream_testkit::{Server, Settings, SmallDisk, builds, connect};
use serde_json::Value;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::Duration;
use tokio_postgres::Client;

/// The finding that the tests repair.
const KEY: &str = "durability-off:full_page_writes";

/// A server of its own with a fault, and a journal of its own.
struct Place {
    server: Server,
    client: Client,
    home: tempfile::TempDir,
}

impl Place {
    async fn new(build: &'static millstream_testkit::Build) -> Self {
        let server = Server::start(build, Settings::default()).await;
        let client = connect(&server.url("postgres")).await;
        let place = Self { server, client, home: tempfile::tempdir().unwrap() };
        place.sql("alter system set full_page_writes = off").await;
        place.sql("select pg_reload_conf()").await;
        place.comes_to("off").await;
        place
    }

    async fn sql(&self, sql: &str) {
        self.client.batch_execute(sql).await.unwrap();
    }

    fn doctor(&self, args: &[&str], failpoints: &str) -> Run {
        run(&mut self.command(args, failpoints))
    }

    fn command(&self, args: &[&str], failpoints: &str) -> std::process::Command {
        let mut command = command(&["doctor"]);
        command.args(args).args(["--db", &self.server.url("postgres")]);
        command.current_dir(self.home.path());
        command.env("MILLSTREAM_HOME", self.home.path()).env("MILLSTREAM_FAILPOINTS", failpoints);
        command
    }

    /// States of all changes, the oldest first.
    fn states(&self) -> Vec<String> {
        let mut command = command(&["doctor", "changes", "--output", "json"]);
        let changes = run(command.env("MILLSTREAM_HOME", self.home.path())).ends(0).json();
        let state = |change: &Value| change["state"].as_str().unwrap().to_owned();
        changes.as_array().unwrap().iter().map(state).collect()
    }

    async fn value(&self) -> String {
        self.client.query_one("show full_page_writes", &[]).await.unwrap().get(0)
    }

    /// Waits until the server has a value.
    async fn comes_to(&self, value: &str) {
        for _ in 0..600 {
            if self.value().await == value {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("full_page_writes does not become {value}: {:?}", self.states());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_setting_is_changed_confirmed_and_given_back() {
    for build in builds().await {
        let place = Place::new(build).await;
        let asks = place.doctor(&["fix", KEY], "").ends(2);
        assert!(asks.stderr.contains("hint: --apply changes it without asking"), "{asks:?}");
        assert!(asks.stderr.contains("full_page_writes: off -> on"), "{asks:?}");
        place.doctor(&["fix", KEY, "--apply"], "").ends(0);
        place.comes_to("on").await;
        let twice = place.doctor(&["fix", KEY, "--apply"], "").ends(2);
        assert!(twice.stderr.contains("there is no finding durability-off:full_page_writes now"), "{twice:?}");
        assert!(twice.stderr.contains("change 1 is not confirmed: full_page_writes: off -> on"), "{twice:?}");
        place.doctor(&["confirm"], "").ends(0);
        place.doctor(&["undo"], "").ends(2);
        place.doctor(&["undo", "1"], "").ends(0);
        place.comes_to("off").await;
        let again = place.doctor(&["undo", "1"], "").ends(0);
        assert!(again.stderr.contains("change 1 was undone before"), "{again:?}");
        assert_eq!(place.states(), ["undone"]);

        place.doctor(&["fix", KEY, "--apply"], "").ends(0);
        place.sql("alter system reset full_page_writes").await;
        let theirs = place.doctor(&["undo"], "").ends(2);
        assert!(theirs.stderr.contains("somebody else has changed full_page_writes since"), "{theirs:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_nobody_confirms_is_undone_also_if_the_doctor_is_killed() {
    // Most of it is waiting.
    let mut all = tokio::task::JoinSet::new();
    for build in builds().await {
        all.spawn(killed(build));
    }
    while let Some(ended) = all.join_next().await {
        ended.unwrap();
    }
}

async fn killed(build: &'static millstream_testkit::Build) {
    let place = Place::new(build).await;
    for point in ["", "change-planned", "change-written", "change-verified"] {
        assert!(point.is_empty() || CHANGE.contains(&point));
        let kill = if point.is_empty() { String::new() } else { format!("{point}=kill") };
        let args = ["fix", KEY, "--apply", "--confirm-within", "3s"];
        let output = place.command(&args, &kill).output().unwrap();
        assert_eq!(output.status.signal(), (!point.is_empty()).then_some(9), "{point}: {output:?}");
        if point.is_empty() {
            place.comes_to("on").await;
        }
        // Nobody watches over a plan that was just made: the next run shows it.
        if point == "change-planned" {
            let shown = place.doctor(&[], "").ends(1);
            assert!(shown.stderr.contains("change 2 is not confirmed"), "{shown:?}");
            place.doctor(&["undo"], "").ends(0);
        }
        for _ in 0..1_200 {
            if place.states().iter().all(|state| state == "undone") {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert!(place.states().iter().all(|state| state == "undone"), "{point}: {:?}", place.states());
        place.comes_to("off").await;
    }
    place.doctor(&["fix", KEY, "--apply"], "").ends(0);
    let killed = place.command(&["undo"], "value-restored=kill").output().unwrap();
    assert_eq!(killed.status.signal(), Some(9), "{killed:?}");
    assert_eq!(place.states().last().unwrap(), "verified");
    place.doctor(&["undo"], "").ends(0);
    place.comes_to("off").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_and_an_option_of_a_table_come_back_as_they_were() {
    for build in builds().await {
        let place = Place::new(build).await;
        place.sql("create table t (a int, \"B\" text); create index one on t (a); create index \"Two\" on t (a)").await;
        let count = "select count(*) from pg_indexes where tablename = 't' and indexname = 'Two'";
        let indexes = async || place.client.query_one(count, &[]).await.unwrap().get::<_, i64>(0);
        place.doctor(&["fix", "duplicate-index:postgres:public.\"Two\"", "--apply"], "").ends(0);
        assert_eq!(indexes().await, 0);
        place.doctor(&["undo"], "").ends(0);
        assert_eq!(indexes().await, 1);

        std::fs::write(place.home.path().join("doctor.toml"), "[threshold.dead-tuples]\ntable_mb = 0.1\n").unwrap();
        place.sql("create table \"D\" (n int) with (autovacuum_enabled = off, fillfactor = 90)").await;
        place.sql("insert into \"D\" select generate_series(1, 5000)").await;
        place.sql("update \"D\" set n = n + 1").await;
        place.sql("select pg_stat_force_next_flush()").await;
        let options = "select array_to_string(reloptions, ' ') from pg_class where relname = 'D'";
        let options = async || place.client.query_one(options, &[]).await.unwrap().get::<_, String>(0);
        place.doctor(&["fix", "dead-tuples:postgres:public.\"D\"", "--apply"], "").ends(0);
        assert_eq!(options().await, "fillfactor=90");
        place.doctor(&["undo"], "").ends(0);
        assert_eq!(options().await, "fillfactor=90 autovacuum_enabled=off");

        let by_hand = place.doctor(&["fix", "long-transaction:x"], "").ends(2);
        assert!(by_hand.stderr.contains("there is no finding long-transaction:x now"), "{by_hand:?}");
        let unknown = place.doctor(&["fix", "weather"], "").ends(2);
        assert!(unknown.stderr.contains("there is no check weather"), "{unknown:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_touched_if_the_old_value_cannot_be_recorded() {
    let Some(disk) = SmallDisk::mount(64 << 10) else { return };
    let build = millstream_testkit::default_build().await;
    let place = Place::new(build).await;
    fill(&disk.dir.join("filler"));
    let mut command = place.command(&["fix", KEY, "--apply"], "");
    let refused = run(command.env("MILLSTREAM_HOME", &disk.dir)).ends(2);
    assert!(refused.stderr.contains("No space left on device"), "{refused:?}");
    assert_eq!(place.value().await, "off");
}

/// Fills a disk to the last byte.
fn fill(file: &Path) {
    use std::io::Write;
    let mut file = std::fs::File::create(file).unwrap();
    while file.write_all(&[0; 512]).is_ok() {}
}
