//! Copies of whole clusters, made while they are written, on this machine and over ssh.

use crate::place::{Place, Process, said};
use millstream_copy::{ClusterPlan, ClusterReceipt, ClusterRequest, Error, Tally, Workers, copy_cluster, plan_cluster};
use millstream_failpoint::COPY_CLUSTER;
use millstream_host::{PRIVATE, make_ours};
use millstream_pg::{ConnInfo, Environment};
use millstream_testkit::{Build, Server, Settings, SshServer, StopMode, builds, connect, default_build, skip, until};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::Relaxed};
use tokio_postgres::Client;

/// A cluster with something of everything, and a place for its copies and their notes.
pub struct Cluster {
    pub server: Arc<Server>,
    pub place: Place,
}

impl Cluster {
    pub async fn start(build: &'static Build) -> Self {
        Self::of(Server::start(build, Settings::default()).await).await
    }

    /// One of the build for tests of one build.
    pub async fn usual() -> Self {
        Self::start(default_build().await).await
    }

    async fn of(server: Server) -> Self {
        let cluster = Self { server: Arc::new(server), place: Place::new() };
        cluster.place.shell("chmod 755 .");
        let space = cluster.path("space");
        fs::create_dir(&space).unwrap();
        cluster.server.own(&space);
        let client = connect(&cluster.server.url("postgres")).await;
        let sql = format!("create tablespace space location '{}'", space.display());
        client.batch_execute(&sql).await.unwrap();
        client.batch_execute(include_str!("cluster.sql")).await.unwrap();
        cluster
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.place.path(name)
    }

    /// A word that moves the tablespace.
    pub fn mapping(&self, to: &str) -> String {
        self.mapping_of(&self.path("space"), to)
    }

    /// A word that moves another one.
    pub fn mapping_of(&self, from: &Path, to: &str) -> String {
        format!("tablespace={}={}", from.display(), self.path(to).display())
    }

    /// Over the socket, nobody asks a standby for a password.
    fn url(&self) -> String {
        self.server.socket_url("postgres")
    }

    /// Copies it.
    pub async fn copy(&self, to: &str, words: &[&str]) -> ClusterReceipt {
        let copied = self.copied(&self.url(), to, words).await;
        copied.unwrap_or_else(|error| panic!("{to} {words:?}: {}", said(&error)))
    }

    /// What a copy of it is refused for, with the way out.
    pub async fn refused(&self, to: &str, words: &[&str]) -> String {
        said(&self.copied(&self.url(), to, words).await.unwrap_err())
    }

    /// Copies a cluster by a URL to a place of this one.
    pub async fn copied(&self, url: &str, to: &str, words: &[&str]) -> Result<ClusterReceipt, Error> {
        copy_cluster(&conninfo(url), &request(&self.path(""), to, words), &Arc::new(Tally::default())).await
    }

    pub async fn plan(&self, to: &str, words: &[&str]) -> Result<ClusterPlan, Error> {
        plan_cluster(&conninfo(&self.url()), &request(&self.path(""), to, words)).await
    }

    /// A copy by a process of its own.
    pub fn process(&self, to: &str, words: &[&str]) -> Process {
        self.place.process(&self.url(), to, words)
    }

    /// The program of the server's build, if it has it.
    fn program(&self, name: &str) -> Option<Command> {
        let path = self.server.build().installation.program(name);
        path.is_file().then(|| Command::new(path))
    }

    /// Asserts that PostgreSQL's own programs find nothing wrong with a copy.
    #[track_caller]
    pub fn is_verified(&self, data: &Path) {
        let Some(mut program) = self.program("pg_verifybackup") else {
            return skip("this build has no pg_verifybackup");
        };
        let output = program.arg(data).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Slots of this name.
    pub async fn slots(&self, name: &str) -> usize {
        let client = connect(&self.server.url("postgres")).await;
        let sql = "select from pg_replication_slots where slot_name = $1::text::name";
        client.query(sql, &[&name]).await.unwrap().len()
    }
}

fn conninfo(url: &str) -> ConnInfo {
    ConnInfo::parse(url, &Environment::default()).unwrap()
}

/// A request by the words of these tests.
fn request(place: &Path, to: &str, words: &[&str]) -> ClusterRequest {
    let destination = if to.contains(':') { PathBuf::from(to) } else { place.join(to) };
    let (mut tablespaces, mut standby, mut shell, mut home) = (Vec::new(), None, None, place.join("home"));
    for word in words {
        let (name, value) = word.split_once('=').unwrap();
        match name {
            "home" => home = place.join(value),
            "shell" => shell = Some(value.into()),
            "standby" => standby = Some(value.to_owned()),
            "tablespace" => {
                let (old, new) = value.split_once('=').unwrap();
                tablespaces.push((old.into(), new.into()));
            }
            _ => panic!("there is no word {word}"),
        }
    }
    make_ours(&home, PRIVATE).unwrap();
    let (compress, workers, bytes_per_second) = (false, Workers::Auto, None);
    ClusterRequest { destination, tablespaces, standby, shell, compress, workers, bytes_per_second, home }
}

/// A copy without a runtime, for a process of its own.
pub fn copied(place: &Path, url: &str, to: &str, words: &[&str], tally: &Arc<Tally>) -> Result<Value, Error> {
    let (conninfo, request) = (conninfo(url), request(place, to, words));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let receipt = runtime.block_on(copy_cluster(&conninfo, &request, tally))?;
    Ok(serde_json::to_value(receipt).unwrap())
}

/// Inserts one number after the other until `is_over`. `acknowledged` is the last number that the server has confirmed.
async fn insert(url: String, acknowledged: Arc<AtomicI32>, is_over: Arc<AtomicBool>) {
    let client = connect(&url).await;
    for n in 1.. {
        if is_over.load(Relaxed) {
            return;
        }
        client.execute("insert into numbers values ($1, repeat('x', 300))", &[&n]).await.unwrap();
        acknowledged.store(n, Relaxed);
    }
}

async fn is_whole(copy: &Server, at_least: i32) {
    let client = connect(&copy.url("postgres")).await;
    let row = client.query_one("select count(*)::int4, coalesce(max(n), 0) from numbers", &[]).await.unwrap();
    let (count, last): (i32, i32) = (row.get(0), row.get(1));
    assert!(count == last && last >= at_least, "{count} of {last}, at least {at_least}");
    let sql = "select (select count(*) from unlogged), (select count(*) from in_space)";
    let row = client.query_one(sql, &[]).await.unwrap();
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (0, 1_000));
}

/// Drops a table of which an earlier copy has the file.
async fn drop_a_table(client: &Client) {
    client.batch_execute("drop table passing").await.unwrap();
    // Until then its file is there, empty.
    client.batch_execute("checkpoint").await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_is_written_is_copied_and_starts_on_its_own() {
    for build in builds().await {
        let cluster = Cluster::start(build).await;
        let url = cluster.server.url("postgres");
        let primary = connect(&url).await;
        let (acknowledged, is_over) = (Arc::new(AtomicI32::new(0)), Arc::new(AtomicBool::new(false)));
        let inserting = tokio::spawn(insert(url.clone(), Arc::clone(&acknowledged), Arc::clone(&is_over)));
        let loading = connect(&url).await;
        let loading = tokio::spawn(async move {
            let load = "create table others as select n, repeat('y', 200) as text from generate_series(1, 200000) n";
            loading.batch_execute(load).await.unwrap();
        });
        let mut copy = cluster.server.without_data();
        let to = copy.data().display().to_string();
        let before = acknowledged.load(Relaxed);
        let mapping = cluster.mapping("space-of-copy");
        let receipt = cluster.copy(&to, &[&mapping]).await;
        assert!(receipt.plan.unlogged.contains(&"postgres.public.unlogged".to_owned()), "{receipt:?}");
        cluster.is_verified(&copy.data());
        copy.start_copy().await;
        is_whole(&copy, before).await;
        if let Some(mut amcheck) = cluster.program("pg_amcheck") {
            amcheck.args(["-h", "127.0.0.1", "-p", &copy.port().to_string(), "-U", "millstream"]);
            amcheck.args(["--heapallindexed", "--install-missing", "postgres"]).env("PGPASSWORD", copy.password());
            let output = amcheck.output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() || said.contains("could not open extension control file"), "{said}");
        }
        let running = cluster.refused(&to, &[&mapping]).await;
        assert!(running.contains("a server runs in"), "{running}");
        // What the copy has become is made the cluster's again, and only what differs is sent.
        copy.stop(StopMode::Fast).await;
        fs::write(copy.data().join("base/stray"), "of nobody").unwrap();
        let before = acknowledged.load(Relaxed);
        let again = cluster.copy(&to, &[&mapping, "standby=standby"]).await;
        assert!(again.same > again.copied && again.deleted > 0, "{again:?}");
        cluster.is_verified(&copy.data());
        copy.start_copy().await;
        is_over.store(true, Relaxed);
        inserting.await.unwrap();
        loading.await.unwrap();
        // A standby catches up.
        let last = acknowledged.load(Relaxed);
        assert!(last >= before);
        let client = connect(&copy.url("postgres")).await;
        until("the standby has every number", async || {
            let sql = "select coalesce(max(n), 0), pg_is_in_recovery() from numbers";
            let row = client.query_one(sql, &[]).await.unwrap();
            assert!(row.get::<_, bool>(1), "{}", copy.log());
            row.get::<_, i32>(0) == last
        })
        .await;
        let slots = primary.query("select slot_name::text, active from pg_replication_slots", &[]).await.unwrap();
        let slots: Vec<(String, bool)> = slots.iter().map(|row| (row.get(0), row.get(1))).collect();
        assert_eq!(slots, [("standby".to_owned(), true)]);
        let taken = cluster.refused("elsewhere", &[&cluster.mapping("e"), "standby=standby"]).await;
        assert!(taken.contains("there is a slot standby already"), "{taken}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_copied_to_another_machine() {
    let Some(ssh) = SshServer::start() else { return };
    let cluster = Cluster::usual().await;
    let client = connect(&cluster.server.url("postgres")).await;
    client.execute("insert into numbers select n, 'x' from generate_series(1, 5000) n", &[]).await.unwrap();
    let mut copy = cluster.server.without_data();
    let to = format!("127.0.0.1:{}", copy.data().display());
    let (shell, mapping) = (format!("shell={}", ssh.shell(ssh.port())), cluster.mapping("space-of-copy"));
    let refused = cluster.refused(&to, &[&mapping, &shell, "standby=far"]).await;
    assert!(refused.contains("could not reach its primary"), "{refused}");
    cluster.copy(&to, &[&mapping, &shell]).await;
    cluster.is_verified(&copy.data());
    let again = cluster.copy(&to, &[&mapping, &shell]).await;
    assert!(again.same > again.copied, "{again:?}");
    cluster.is_verified(&copy.data());
    let copying = cluster.process(&to, &[&mapping, &shell]);
    copying.held_while("copy-listed", drop_a_table(&client)).await.unwrap();
    cluster.is_verified(&copy.data());
    copy.start_copy().await;
    is_whole(&copy, 5_000).await;
    let running = cluster.refused(&to, &[&mapping, &shell]).await;
    assert!(running.contains("a server runs in"), "{running}");
    let refused = cluster.refused("rsync://127.0.0.1/files/x", &[&mapping]).await;
    assert!(refused.contains("tells no hashes"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_cannot_be_copied_is_refused_with_the_way_out() {
    let minimal = Settings::with(&["wal_level = minimal", "max_wal_senders = 0"]);
    let cluster = Cluster::of(Server::start(default_build().await, minimal).await).await;
    let refused = cluster.refused("to", &[]).await;
    assert!(refused.contains("wal_level = minimal") && refused.contains("stop the server"), "{refused}");
    cluster.server.write("postgresql.conf", "max_replication_slots = 0").await;
    let auto = fs::read_to_string(cluster.server.data().join("postgresql.auto.conf")).unwrap();
    let auto: Vec<_> = auto.lines().filter(|line| !line.contains("wal_level") && !line.contains("senders")).collect();
    cluster.server.write("postgresql.auto.conf", &auto.join("\n")).await;
    cluster.server.restart(StopMode::Fast).await;
    let refused = cluster.refused("to", &[]).await;
    assert!(refused.contains("no replication slot is free"), "{refused}");
    cluster.server.write("postgresql.conf", "max_replication_slots = 5").await;
    cluster.server.restart(StopMode::Fast).await;
    let client = connect(&cluster.server.url("postgres")).await;
    client.batch_execute("create role plain login password 'plain' in role pg_read_all_settings").await.unwrap();
    cluster.place.write("full/file", b"of somebody");
    let (mapping, same) = (cluster.mapping("new"), cluster.mapping("to"));
    let nowhere = "tablespace=/nowhere=/else";
    let cases: &[(&str, &[&str], &str, &str)] = &[
        ("to", &[], "would be copied onto itself", "=NEW"),
        ("to", &[nowhere], "there is no tablespace at /nowhere", "they are at"),
        ("to", &[&same], "which overlaps", "a folder of its own"),
        ("to", &[&mapping, &same], "has two new places", "give one"),
        ("full", &[&mapping], "is not empty, and holds no earlier copy", "choose an empty folder"),
        ("far/er/to", &[&mapping], "there is no folder for", "mkdir -p"),
    ];
    for (to, words, says, hint) in cases {
        let refused = cluster.refused(to, words).await;
        assert!(refused.contains(says) && refused.contains(hint), "{to} {words:?}: {refused}");
    }
    assert!(!cluster.path("to").exists() && cluster.path("full/file").exists());
    let plain = cluster.server.url("postgres");
    let plain = format!("postgres://plain:plain{}", &plain[plain.find('@').unwrap()..]);
    let refused = said(&cluster.copied(&plain, "to", &[&mapping]).await.unwrap_err());
    assert!(refused.contains("may not copy the cluster") && refused.contains("superuser"), "{refused}");
    let plan = cluster.plan("to", &[&mapping]).await.unwrap();
    assert_eq!(plan.unlogged[0], "postgres.public.unlogged");
    assert!(!cluster.path("to").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_of_a_cluster_that_is_killed_is_no_cluster_and_goes_on() {
    let cluster = Cluster::usual().await;
    let client = connect(&cluster.server.url("postgres")).await;
    let mapping = cluster.mapping("new");
    let is_no_cluster = || !cluster.path("to/global/pg_control").exists();
    for point in COPY_CLUSTER {
        cluster.process("to", &[&mapping, "standby=left"]).killed(&format!("{point}=kill"));
        assert!(is_no_cluster(), "{point}: a server would start on it");
    }
    // A temporary slot ends with its session, a moment after the process.
    let lasting = "select from pg_replication_slots where not temporary";
    let slots = async || client.query(lasting, &[]).await.unwrap().len();
    assert_eq!(slots().await, 1, "what is killed drops no slot");
    cluster.copy("to", &[&mapping]).await;
    assert_eq!(slots().await, 0);
    cluster.process("to", &[&mapping]).killed("folders-made=kill");
    assert!(is_no_cluster(), "a server would start on what is half old");
    let receipt = cluster.copy("to", &[&mapping]).await;
    assert!(receipt.same > receipt.copied, "{receipt:?}");
    cluster.is_verified(&cluster.path("to"));
    cluster.process("to", &[&mapping]).held_while("copy-listed", drop_a_table(&client)).await.unwrap();
    cluster.is_verified(&cluster.path("to"));
    cluster.place.is_whole("to", &[]);
    // A copy of which a tablespace is missing would use the original's.
    let late = cluster.path("late");
    fs::create_dir(&late).unwrap();
    cluster.server.own(&late);
    let late = format!("create tablespace late location '{}'", late.display());
    let makes = async { client.batch_execute(&late).await.unwrap() };
    let refused = cluster.process("to", &[&mapping]).held_while("cluster-copied", makes).await.unwrap_err();
    assert!(refused.contains("a tablespace was made"), "{refused}");
    assert!(is_no_cluster(), "a server would start on it");
    client.batch_execute("drop tablespace late").await.unwrap();
    // What was noted of files that somebody has removed says nothing of the new ones.
    for folder in ["to", "new"] {
        fs::remove_dir_all(cluster.path(folder)).unwrap();
    }
    cluster.copy("to", &[&mapping]).await;
    cluster.is_verified(&cluster.path("to"));
    assert_eq!(slots().await, 0);
}
