//! Repairs that the doctor applies and takes back, also when it is killed.

use crate::process::{Run, command, doctor, killed, run};
use millstream_failpoint::CHANGE;
use millstream_testkit::{Server, Settings, SmallDisk, StopMode, connect, dealt_builds};
use serde_json::Value;
use std::path::Path;
use std::process::Stdio;
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
        Self::with(build, Settings::default()).await
    }

    async fn with(build: &'static millstream_testkit::Build, settings: Settings) -> Self {
        let server = Server::start(build, settings).await;
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

    fn doctor(&self, args: &[&str]) -> Run {
        run(&mut self.command(args))
    }

    fn command(&self, args: &[&str]) -> std::process::Command {
        doctor(args, &self.server.url("postgres"), self.home.path())
    }

    /// The server as the doctor names it: without the password.
    fn described(&self) -> String {
        let url = self.server.url("postgres");
        let (place, rest) = url.split_once("://").unwrap();
        let (user, host) = rest.split_once('@').unwrap();
        let name = user.split_once(':').unwrap().0;
        format!("{place}://{name}@{host} (sslmode=prefer)")
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

    /// How a process ends that watches over the first change.
    async fn watching_ends(&self) -> std::process::ExitStatus {
        let mut command = self.command(&["undo-in-time", "1"]);
        let mut watching = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        for _ in 0..1_200 {
            if let Some(status) = watching.try_wait().unwrap() {
                return status;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        watching.kill().unwrap();
        watching.wait().unwrap();
        panic!("the process does not end: {:?}", self.states());
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
    for build in dealt_builds().await {
        let place = Place::new(build).await;
        let asks = place.doctor(&["fix", KEY]).ends(2);
        assert!(asks.stderr.contains("hint: --yes changes it without asking"), "{asks:?}");
        let place_and_change = format!("\nserver: {}\nfull_page_writes: off -> on\n", place.described());
        assert!(asks.stderr.contains(&place_and_change), "{asks:?}");
        place.doctor(&["fix", KEY, "--yes"]).ends(0);
        place.comes_to("on").await;
        let twice = place.doctor(&["fix", KEY, "--yes"]).ends(2);
        assert!(twice.stderr.contains("there is no finding durability-off:full_page_writes now"), "{twice:?}");
        let open = format!("change 1 is not confirmed: full_page_writes: off -> on\n  server: {}\n", place.described());
        assert!(twice.stderr.contains(&open), "{twice:?}");
        let mut changes = command(&["doctor", "changes"]);
        let listed = run(changes.env("MILLSTREAM_HOME", place.home.path())).ends(0).stdout;
        assert!(listed.ends_with(&format!(" ({KEY}), server: {}\n", place.described())), "{listed}");
        place.doctor(&["confirm"]).ends(0);
        place.doctor(&["undo"]).ends(2);
        place.doctor(&["undo", "1"]).ends(0);
        place.comes_to("off").await;
        let again = place.doctor(&["undo", "1"]).ends(0);
        assert!(again.stderr.contains("change 1 was undone before"), "{again:?}");
        assert_eq!(place.states(), ["undone"]);

        place.doctor(&["fix", KEY, "--yes"]).ends(0);
        place.sql("alter system reset full_page_writes").await;
        let theirs = place.doctor(&["undo"]).ends(2);
        assert!(theirs.stderr.contains("somebody else has changed full_page_writes since"), "{theirs:?}");
        let way_out = "millstream doctor undo 2 --keep closes the change and keeps";
        assert!(theirs.stderr.contains(&format!("hint: {way_out}")), "{theirs:?}");
        let confirmed = place.doctor(&["confirm"]).ends(2);
        assert!(confirmed.stderr.contains(way_out), "{confirmed:?}");
        place.sql("alter system set full_page_writes = off").await;
        place.sql("select pg_reload_conf()").await;
        place.comes_to("off").await;
        let planned = place.doctor(&["fix", KEY, "--yes"]).ends(2);
        assert!(planned.stderr.contains(way_out), "{planned:?}");

        let closed = place.doctor(&["undo", "--keep"]).ends(0);
        assert!(closed.stderr.contains("change 2 is closed; full_page_writes keeps its present value"), "{closed:?}");
        for again in [&["undo", "2", "--keep"][..], &["undo", "2"]] {
            let again = place.doctor(again).ends(0);
            assert!(again.stderr.contains("change 2 was closed before"), "{again:?}");
        }
        assert_eq!(place.states(), ["undone", "closed"]);
        assert_eq!(place.value().await, "off");
        place.doctor(&["fix", KEY, "--yes"]).ends(0);
        place.comes_to("on").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_change_of_a_server_that_is_gone_can_be_closed_and_is_not_watched_for_ever() {
    let place = Place::new(millstream_testkit::default_build().await).await;
    place.doctor(&["fix", KEY, "--yes"]).ends(0);
    assert!(place.watching_ends().await.success(), "a change without a deadline needs nobody");
    let path = place.home.path().join("changes/000001.json");
    let mut entry: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    // As if somebody had watched it for more than a day.
    entry["deadline"] = Value::from(1);
    std::fs::write(&path, entry.to_string()).unwrap();
    place.server.stop(StopMode::Fast).await;
    assert_eq!(place.watching_ends().await.code(), Some(2));
    assert_eq!(place.states(), ["verified"]);

    let gone = place.doctor(&["undo"]).ends(2);
    assert!(gone.stderr.contains("gone for good, millstream doctor undo 1 --keep closes the change"), "{gone:?}");
    let mut command = command(&["doctor", "undo", "--keep"]);
    run(command.env("MILLSTREAM_HOME", place.home.path())).ends(0);
    assert_eq!(place.states(), ["closed"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_nobody_confirms_is_undone_also_if_the_doctor_is_killed() {
    // Most of it is waiting.
    let mut all = tokio::task::JoinSet::new();
    for build in dealt_builds().await {
        all.spawn(killed_on(build));
    }
    while let Some(ended) = all.join_next().await {
        ended.unwrap();
    }
}

async fn killed_on(build: &'static millstream_testkit::Build) {
    let place = Place::new(build).await;
    let first = ["", "change-planned", "change-written", "change-verified"];
    // No line makes the change of a server last.
    let is_tested = |point: &&str| first.contains(point) || KILLED_LATER.iter().any(|(_, later, ..)| later == point);
    assert!(CHANGE.iter().all(|point| point.starts_with("line-") || is_tested(point)));
    for point in first {
        let mut fixing = place.command(&["fix", KEY, "--yes", "--confirm-within", "3s"]);
        if point.is_empty() {
            // It has read the value again. Perhaps the change is undone by now.
            run(&mut fixing).ends(0);
        } else {
            killed(&mut fixing, &format!("{point}=kill"));
        }
        // Nobody watches over a plan that was just made: the next run shows it.
        if point == "change-planned" {
            let shown = place.doctor(&[]).ends(1);
            assert!(shown.stderr.contains("change 2 is not confirmed"), "{shown:?}");
            place.doctor(&["undo"]).ends(0);
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
    place.doctor(&["fix", KEY, "--yes"]).ends(0);
    let number = place.states().len().to_string();
    for (args, point, state, value) in KILLED_LATER {
        let args: Vec<&str> = args.iter().map(|arg| if *arg == "NUMBER" { number.as_str() } else { *arg }).collect();
        killed(&mut place.command(&args), &format!("{point}=kill"));
        assert_eq!(place.states().last().unwrap(), state, "{point}");
        place.comes_to(value).await;
    }
    place.doctor(&["undo"]).ends(0);
    assert_eq!(place.states().last().unwrap(), "undone");
    place.comes_to("off").await;
}

/// Commands on a change that was applied, the points at which they are killed, and what is left: the change's state and
/// the value.
const KILLED_LATER: [(&[&str], &str, &str, &str); 3] = [
    (&["confirm"], "change-confirmed", "confirmed", "on"),
    (&["undo", "NUMBER"], "change-reopened", "verified", "on"),
    (&["undo"], "value-restored", "verified", "off"),
];

#[tokio::test(flavor = "multi_thread")]
async fn after_a_restart_of_the_machine_the_next_run_shows_first_what_nobody_has_confirmed() {
    let place = Place::new(millstream_testkit::default_build().await).await;
    place.doctor(&["fix", KEY, "--yes"]).ends(0);
    place.comes_to("on").await;
    let path = |number: u32| place.home.path().join(format!("changes/{number:06}.json"));
    let mut entry: Value = serde_json::from_slice(&std::fs::read(path(1)).unwrap()).unwrap();
    // As if both changes had been made before the machine was started.
    entry["boot"] = "earlier".into();
    std::fs::write(path(1), entry.to_string()).unwrap();
    // The kernel takes neither value.
    for (name, value) in [("kind", "sysctl"), ("target", "vm.swappiness"), ("before", "9001"), ("value", "9002")] {
        entry[name] = value.into();
    }
    entry["number"] = Value::from(2);
    (entry["identity"], entry["server"]) = (Value::Null, Value::Null);
    std::fs::write(path(2), entry.to_string()).unwrap();

    let shown = place.doctor(&["fix", KEY, "--yes"]).ends(2).stderr;
    let since = "is not confirmed, made before the machine was started again:";
    let server = place.described();
    let first = format!(
        "change 1 {since} full_page_writes: off -> on\n  server: {server}\n  \
         millstream doctor confirm 1, or millstream doctor undo 1\n\
         change 2 {since} vm.swappiness: 9001 -> 9002\n  millstream doctor undo 2\n"
    );
    assert!(shown.starts_with(&first), "{shown}");
    let late = place.doctor(&["confirm", "2"]).ends(2);
    assert!(late.stderr.contains("a restart of the machine has undone change 2\n"), "{late:?}");
    assert!(late.stderr.contains("hint: close it with millstream doctor undo 2"), "{late:?}");
    let closed = place.doctor(&["undo", "2"]).ends(0);
    assert!(closed.stderr.contains("a restart of the machine has undone change 2 already"), "{closed:?}");
    // A setting of a server outlives a restart.
    place.doctor(&["undo"]).ends(0);
    place.comes_to("off").await;
    assert_eq!(place.states(), ["undone", "undone"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_and_an_option_of_a_table_come_back_as_they_were() {
    for build in dealt_builds().await {
        let place = Place::new(build).await;
        place.sql("create table t (a int, \"B\" text); create index one on t (a); create index \"Two\" on t (a)").await;
        let count = "select count(*) from pg_indexes where tablename = 't' and indexname = 'Two'";
        let indexes = async || place.client.query_one(count, &[]).await.unwrap().get::<_, i64>(0);
        place.doctor(&["fix", "duplicate-index:postgres:public.\"Two\"", "--yes"]).ends(0);
        assert_eq!(indexes().await, 0);
        place.doctor(&["undo"]).ends(0);
        assert_eq!(indexes().await, 1);

        std::fs::write(place.home.path().join("doctor.toml"), "[threshold.dead-tuples]\ntable_mb = 0.1\n").unwrap();
        place.sql("create table \"D\" (n int) with (autovacuum_enabled = off, fillfactor = 90)").await;
        place.sql("insert into \"D\" select generate_series(1, 5000)").await;
        place.sql("update \"D\" set n = n + 1").await;
        place.sql("select pg_stat_force_next_flush()").await;
        let options = "select array_to_string(reloptions, ' ') from pg_class where relname = 'D'";
        let options = async || place.client.query_one(options, &[]).await.unwrap().get::<_, String>(0);
        place.doctor(&["fix", "dead-tuples:postgres:public.\"D\"", "--yes"]).ends(0);
        assert_eq!(options().await, "fillfactor=90");
        place.doctor(&["undo"]).ends(0);
        assert_eq!(options().await, "fillfactor=90 autovacuum_enabled=off");

        let by_hand = place.doctor(&["fix", "long-transaction:x"]).ends(2);
        assert!(by_hand.stderr.contains("there is no finding long-transaction:x now"), "{by_hand:?}");
        let unknown = place.doctor(&["fix", "weather"]).ends(2);
        assert!(unknown.stderr.contains("there is no check weather"), "{unknown:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_owner_of_a_table_changes_it_without_other_rights() {
    for build in dealt_builds().await {
        let place = Place::new(build).await;
        for sql in [
            "create role owner login password 'p'",
            "create database shop owner owner",
            "create database other",
            "revoke connect on database other from public",
        ] {
            place.sql(sql).await;
        }
        let url = |database: &str| format!("postgres://owner:p@127.0.0.1:{}/{database}", place.server.port());
        let shop = connect(&url("shop")).await;
        shop.batch_execute("create table t (a int); create index one on t (a); create index two on t (a)")
            .await
            .unwrap();
        let key = "duplicate-index:shop:public.two";
        let doctor = |args: &[&str]| run(&mut doctor(args, &url("postgres"), place.home.path()));
        let count = "select count(*) from pg_indexes where tablename = 't'";
        let indexes = async || shop.query_one(count, &[]).await.unwrap().get::<_, i64>(0);
        doctor(&["fix", key, "--yes"]).ends(0);
        assert_eq!(indexes().await, 1);
        doctor(&["confirm"]).ends(0);
        doctor(&["undo", "1"]).ends(0);
        assert_eq!(indexes().await, 2);

        // What could not be looked at may be the reason. Only the database that the key names counts.
        let hidden = doctor(&["fix", "duplicate-index:other:public.two"]).ends(2);
        let why = "now; not looked at in other: this role may not connect to it; grant connect on database";
        assert!(hidden.stderr.contains(why), "{hidden:?}");
        let gone = doctor(&["fix", "duplicate-index:shop:public.three"]).ends(2);
        assert!(gone.stderr.contains("public.three now\n"), "{gone:?}");
        let late = doctor(&["fix", key, "--budget", "1ms"]).ends(2);
        assert!(late.stderr.contains("the time of 1ms was used up; --budget gives more"), "{late:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_setting_of_a_role_comes_back_as_it_was() {
    for build in dealt_builds().await {
        let counting = Settings::with(&["shared_preload_libraries = 'pg_stat_statements'"]);
        let place = Place::with(build, counting).await;
        let settings = "[threshold.temporary-files]\nfiles_per_hour = 1e-9\ngb_per_hour = 1e-12\nhours = 0\n";
        std::fs::write(place.home.path().join("doctor.toml"), settings).unwrap();
        for sql in [
            "create extension pg_stat_statements",
            "create role \"R\"",
            "alter role \"R\" in database postgres set work_mem = '100kB'",
            "alter role \"R\" in database postgres set jit = off",
            "set role \"R\"",
            "set work_mem = '64kB'",
            "select count(*) from (select n from generate_series(1, 200000) as n order by n desc offset 1) as sorted",
            "reset role",
            "select pg_stat_force_next_flush()",
        ] {
            place.sql(sql).await;
        }
        let own = "select array_to_string(setconfig, ' ') from pg_db_role_setting where setrole = '\"R\"'::regrole";
        let own = async || place.client.query_one(own, &[]).await.unwrap().get::<_, String>(0);
        let fix = || place.doctor(&["fix", "temporary-files:postgres", "--yes"]).ends(0);
        let is_changed = |own: &str| own.contains("work_mem=") && own.contains("MB") && own.contains("jit=off");
        fix();
        assert!(is_changed(&own().await), "{}", own().await);
        place.doctor(&["undo"]).ends(0);
        assert_eq!(own().await, "work_mem=100kB jit=off");

        // The value of the server counts.
        place.sql("alter role \"R\" in database postgres reset work_mem").await;
        fix();
        assert!(is_changed(&own().await), "{}", own().await);
        place.doctor(&["undo"]).ends(0);
        assert_eq!(own().await, "jit=off");

        // An undo does not find what has another name by now.
        fix();
        place.sql("alter role \"R\" rename to \"S\"").await;
        let gone = place.doctor(&["undo"]).ends(0);
        assert!(gone.stderr.contains("if it was renamed, the change is still in effect"), "{gone:?}");
        place.sql("alter role \"S\" rename to \"R\"").await;
        assert!(is_changed(&own().await), "{}", own().await);
        place.sql("alter role \"R\" in database postgres reset work_mem").await;

        fix();
        place.sql("alter role \"R\" in database postgres set work_mem = '7MB'").await;
        let theirs = place.doctor(&["undo"]).ends(2);
        assert!(theirs.stderr.contains("changed R/postgres/work_mem since: it is 7MB"), "{theirs:?}");
        place.doctor(&["undo", "--keep"]).ends(0);
        assert_eq!((own().await.as_str(), place.states().last().unwrap().as_str()), ("jit=off work_mem=7MB", "closed"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_touched_if_the_old_value_cannot_be_recorded() {
    let Some(disk) = SmallDisk::mount(64 << 10) else { return };
    let build = millstream_testkit::default_build().await;
    let place = Place::new(build).await;
    fill(&disk.dir.join("filler"));
    let refused = run(place.command(&["fix", KEY, "--yes"]).env("MILLSTREAM_HOME", &disk.mount)).ends(2);
    assert!(refused.stderr.contains("No space left on device"), "{refused:?}");
    assert_eq!(place.value().await, "off");
}

/// Fills a disk to the last byte.
fn fill(file: &Path) {
    use std::io::Write;
    let mut file = std::fs::File::create(file).unwrap();
    while file.write_all(&[0; 512]).is_ok() {}
}

/// It is not applied here: as root it would change the machine of the test.
#[tokio::test(flavor = "multi_thread")]
async fn a_profile_is_shown_line_by_line_before_anything_is_changed() {
    let place = Place::new(millstream_testkit::default_build().await).await;
    let asked = place.doctor(&["fix", "--profile", "database"]).ends(2);
    for part in ["changes: ", "left out: synchronous_commit off", "  a fact: a crash loses the last transactions"] {
        assert!(asked.stdout.contains(part), "{part}: {asked:?}");
    }
    assert!(asked.stderr.contains("there is no terminal to ask on"), "{asked:?}");
    assert_eq!(place.states(), [""; 0], "nothing was changed");
    let both = place.doctor(&["fix", KEY, "--profile", "database"]).ends(2);
    assert!(both.stderr.contains("cannot be used with"), "{both:?}");
    let none = place.doctor(&["fix"]).ends(2);
    assert!(none.stderr.contains("KEY"), "{none:?}");
}
