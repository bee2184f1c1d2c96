//! Copies of whole clusters, made while they are written, on this machine and over ssh.

use crate::process::{Run, command, killed, run, until_held};
use millstream_failpoint::COPY_CLUSTER;
use millstream_testkit::{Server, Settings, SshServer, StopMode, builds, connect, default_build, skip};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::Relaxed};
use std::time::{Duration, Instant};
use tokio_postgres::Client;

/// Longest time in which a standby must catch up.
const WAIT_MAX: Duration = Duration::from_secs(120);

/// A cluster with something of everything, and a directory for the notes of copies.
pub struct Cluster {
    pub server: Arc<Server>,
    dir: tempfile::TempDir,
}

impl Cluster {
    pub async fn start(server: Server) -> Self {
        let dir = tempfile::Builder::new().permissions(permissions(0o755)).tempdir().unwrap();
        let cluster = Self { server: Arc::new(server), dir };
        let space = cluster.path("space");
        fs::create_dir(&space).unwrap();
        cluster.server.own(&space);
        let client = connect(&cluster.server.url("postgres")).await;
        let sql = format!("create tablespace space location '{}'", space.display());
        client.batch_execute(&sql).await.unwrap();
        client.batch_execute(include_str!("copy_cluster.sql")).await.unwrap();
        cluster
    }

    pub fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }

    pub fn command(&self, args: &[&str]) -> Command {
        let mut command = command(args);
        command.env("MILLSTREAM_HOME", self.path("home")).current_dir(self.dir.path());
        command
    }

    pub fn mapping(&self, to: &str) -> String {
        format!("{}={}", self.path("space").display(), self.path(to).display())
    }

    pub fn copy(&self, args: &[&str]) -> Run {
        // Over the socket, nobody asks a standby for a password.
        let url = self.server.socket_url("postgres");
        let args = [&["copy", "--postgres", &url, "--progress", "none", "--output", "json"], args].concat();
        run(&mut self.command(&args))
    }

    /// A copy that waits at a point until something has happened.
    pub async fn copy_while(&self, args: &[&str], point: &str, happens: impl Future<Output = ()>) -> Output {
        let held = self.path("held");
        let url = self.server.socket_url("postgres");
        let mut copy = self.command(&[&["copy", "--postgres", &url, "--progress", "none"], args].concat());
        copy.env("MILLSTREAM_FAILPOINTS", format!("{point}=wait:{}", held.display()));
        let mut copy = copy.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        until_held(&mut copy, &held).await;
        happens.await;
        fs::remove_file(&held).unwrap();
        copy.wait_with_output().unwrap()
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
}

fn permissions(mode: u32) -> fs::Permissions {
    std::os::unix::fs::PermissionsExt::from_mode(mode)
}

/// Inserts numbers one after the other until it is told to end. Holds the last one that was acknowledged.
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
        let cluster = Cluster::start(Server::start(build, Settings::default()).await).await;
        let documents: String =
            (0..20_000).map(|n| format!("{{\"id\":{n},\"text\":\"{}\"}}\n", "y".repeat(200))).collect();
        fs::write(cluster.path("documents.ndjson"), documents).unwrap();
        let url = cluster.server.url("postgres");
        let load = ["load", "documents.ndjson", "--into", "documents", "--key", "id:int8", "--db", &url];
        run(&mut cluster.command(&load)).ends(0);
        let (acknowledged, is_over) = (Arc::new(AtomicI32::new(0)), Arc::new(AtomicBool::new(false)));
        let inserting = tokio::spawn(insert(url.clone(), Arc::clone(&acknowledged), Arc::clone(&is_over)));
        let mut loading = cluster
            .command(&["load", "documents.ndjson", "--into", "others", "--key", "id:int8", "--db", &url])
            .stderr(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let mut copy = cluster.server.without_data();
        let to = copy.data();
        let to = to.to_str().unwrap();
        let before = acknowledged.load(Relaxed);
        let mapping = cluster.mapping("space-of-copy");
        let receipt = cluster.copy(&[to, "--tablespace", &mapping]).ends(0).json();
        assert!(receipt["unlogged"].as_array().unwrap().contains(&"postgres.public.unlogged".into()), "{receipt}");
        cluster.is_verified(&copy.data());
        copy.start_copy().await;
        is_whole(&copy, before).await;
        let copied = copy.url("postgres");
        let verify = ["verify", "documents.ndjson", "--into", "documents", "--key", "id:int8", "--db", &copied];
        run(&mut cluster.command(&verify)).ends(0);
        if let Some(mut amcheck) = cluster.program("pg_amcheck") {
            amcheck.args(["-h", "127.0.0.1", "-p", &copy.port().to_string(), "-U", "millstream"]);
            amcheck.args(["--heapallindexed", "--install-missing", "postgres"]).env("PGPASSWORD", copy.password());
            let output = amcheck.output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() || said.contains("could not open extension control file"), "{said}");
        }
        let running = cluster.copy(&[to, "--tablespace", &mapping]).ends(2);
        assert!(running.stderr.contains("a server runs in"), "{running:?}");
        // What the copy has become is made the cluster's again, and only what differs is sent.
        copy.stop(StopMode::Fast).await;
        fs::write(copy.data().join("base/stray"), "of nobody").unwrap();
        let before = acknowledged.load(Relaxed);
        let again = cluster.copy(&[to, "--tablespace", &mapping, "--standby", "standby"]).ends(0).json();
        assert!(again["same"].as_u64() > again["copied"].as_u64() && again["deleted"].as_u64() > Some(0), "{again}");
        cluster.is_verified(&copy.data());
        copy.start_copy().await;
        is_over.store(true, Relaxed);
        inserting.await.unwrap();
        assert!(loading.wait().unwrap().success());
        // A standby catches up.
        let last = acknowledged.load(Relaxed);
        assert!(last >= before);
        let client = connect(&copy.url("postgres")).await;
        let caught_up = async || {
            let row =
                client.query_one("select coalesce(max(n), 0), pg_is_in_recovery() from numbers", &[]).await.unwrap();
            assert!(row.get::<_, bool>(1));
            (row.get::<_, i32>(0) == last).then_some(())
        };
        let begun = Instant::now();
        while caught_up().await.is_none() {
            assert!(begun.elapsed() < WAIT_MAX, "{}", copy.log());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let primary = connect(&url).await;
        let slots = primary.query("select slot_name::text, active from pg_replication_slots", &[]).await.unwrap();
        let slots: Vec<(String, bool)> = slots.iter().map(|row| (row.get(0), row.get(1))).collect();
        assert_eq!(slots, [("standby".to_owned(), true)]);
        let taken = cluster.copy(&["elsewhere", "--tablespace", &cluster.mapping("e"), "--standby", "standby"]).ends(2);
        assert!(taken.stderr.contains("there is a slot standby already"), "{taken:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_is_copied_to_another_machine() {
    let Some(ssh) = SshServer::start() else { return };
    let cluster = Cluster::start(Server::start(default_build().await, Settings::default()).await).await;
    let client = connect(&cluster.server.url("postgres")).await;
    client.execute("insert into numbers select n, 'x' from generate_series(1, 5000) n", &[]).await.unwrap();
    let mut copy = cluster.server.without_data();
    let to = format!("127.0.0.1:{}", copy.data().display());
    let shell = ssh.shell(ssh.port());
    let mapping = cluster.mapping("space-of-copy");
    let args = [&*to, "--tablespace", &mapping, "--ssh", &shell];
    let refused = cluster.copy(&[&args[..], &["--standby", "far"]].concat()).ends(2);
    assert!(refused.stderr.contains("could not reach its primary"), "{refused:?}");
    cluster.copy(&args).ends(0);
    cluster.is_verified(&copy.data());
    let again = cluster.copy(&args).ends(0).json();
    assert!(again["same"].as_u64() > again["copied"].as_u64(), "{again}");
    cluster.is_verified(&copy.data());
    let done = cluster.copy_while(&args, "copy-listed", drop_a_table(&client)).await;
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    cluster.is_verified(&copy.data());
    copy.start_copy().await;
    is_whole(&copy, 5_000).await;
    let running = cluster.copy(&args).ends(2);
    assert!(running.stderr.contains("a server runs in"), "{running:?}");
    let refused = cluster.copy(&["rsync://127.0.0.1/files/x", "--tablespace", &mapping]).ends(2);
    assert!(refused.stderr.contains("tells no hashes"), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_that_cannot_be_copied_is_refused_with_the_way_out() {
    let minimal = Settings::with(&["wal_level = minimal", "max_wal_senders = 0"]);
    let server = Server::start(default_build().await, minimal).await;
    let cluster = Cluster::start(server).await;
    let client = connect(&cluster.server.url("postgres")).await;
    let refused = cluster.copy(&["to"]).ends(2);
    assert!(
        refused.stderr.contains("wal_level = minimal") && refused.stderr.contains("stop the server"),
        "{refused:?}"
    );
    cluster.server.write("postgresql.conf", "max_replication_slots = 0").await;
    let auto = fs::read_to_string(cluster.server.data().join("postgresql.auto.conf")).unwrap();
    let auto: Vec<_> = auto.lines().filter(|line| !line.contains("wal_level") && !line.contains("senders")).collect();
    cluster.server.write("postgresql.auto.conf", &auto.join("\n")).await;
    cluster.server.restart(StopMode::Fast).await;
    drop(client);
    let refused = cluster.copy(&["to"]).ends(2);
    assert!(refused.stderr.contains("no replication slot is free"), "{refused:?}");
    cluster.server.write("postgresql.conf", "max_replication_slots = 5").await;
    cluster.server.restart(StopMode::Fast).await;
    let client = connect(&cluster.server.url("postgres")).await;
    client.batch_execute("create role plain login password 'plain' in role pg_read_all_settings").await.unwrap();
    fs::create_dir(cluster.path("full")).unwrap();
    fs::write(cluster.path("full/file"), "of somebody").unwrap();
    let mapping = cluster.mapping("new");
    let same = cluster.mapping("to");
    let cases: &[(&[&str], &str, &str)] = &[
        (&["to"], "would be copied onto itself", "=NEW"),
        (&["to", "--tablespace", "/nowhere=/else"], "there is no tablespace at /nowhere", "they are at"),
        (&["to", "--tablespace", &same], "which overlaps", "a folder of its own"),
        (&["to", "--tablespace", &mapping, "--tablespace", &same], "has two new places", "give one"),
        (&["full", "--tablespace", &mapping], "is not empty, and holds no earlier copy", "choose an empty folder"),
        (&["far/er/to", "--tablespace", &mapping], "there is no folder for", "mkdir -p"),
        (&["from", "to", "--tablespace", &mapping], "there is one path", "copy --postgres URL DESTINATION"),
        (&["to", "--delete"], "cannot be used with", ""),
        (&["to", "--tablespace", "old"], "expected OLD=NEW", ""),
    ];
    for (args, says, hint) in cases {
        let refused = cluster.copy(args).ends(2);
        assert!(refused.stderr.contains(says) && refused.stderr.contains(hint), "{args:?}: {refused:?}");
    }
    assert!(!cluster.path("to").exists() && cluster.path("full/file").exists());
    let plain = cluster.server.url("postgres");
    let at = plain.find('@').unwrap();
    let plain = format!("postgres://plain:plain{}", &plain[at..]);
    let args = ["copy", "--postgres", &plain, "to", "--tablespace", &mapping, "--progress", "none"];
    let refused = run(&mut cluster.command(&args)).ends(2);
    assert!(refused.stderr.contains("may not copy the cluster") && refused.stderr.contains("superuser"), "{refused:?}");
    let plan = cluster.copy(&["to", "--tablespace", &mapping, "--dry-run"]).ends(0).json();
    assert_eq!(plan["unlogged"][0], "postgres.public.unlogged");
    assert!(!cluster.path("to").exists());
    // A killed copy is no cluster, and goes on from what is there.
    let url = cluster.server.url("postgres");
    let args = ["copy", "--postgres", &url, "to", "--tablespace", &mapping];
    for point in COPY_CLUSTER {
        killed(cluster.command(&args).args(["--standby", "left"]), &format!("{point}=kill"));
        assert!(!cluster.path("to/global/pg_control").exists(), "a server would start on it");
    }
    // A temporary slot ends with its session, a moment after the command.
    let lasting = "select from pg_replication_slots where not temporary";
    let slots = async || client.query(lasting, &[]).await.unwrap().len();
    assert_eq!(slots().await, 1, "what is killed drops no slot");
    cluster.copy(&["to", "--tablespace", &mapping]).ends(0);
    assert_eq!(slots().await, 0);
    killed(&mut cluster.command(&args), "folders-made=kill");
    assert!(!cluster.path("to/global/pg_control").exists(), "a server would start on what is half old");
    let receipt: Value = cluster.copy(&["to", "--tablespace", &mapping]).ends(0).json();
    assert!(receipt["same"].as_u64() > receipt["copied"].as_u64(), "{receipt}");
    cluster.is_verified(&cluster.path("to"));
    let done = cluster.copy_while(&["to", "--tablespace", &mapping], "copy-listed", drop_a_table(&client)).await;
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    cluster.is_verified(&cluster.path("to"));
    assert_eq!(run(&mut cluster.command(&["copy", "verify", "to"])).ends(0).code, 0);
    // A copy of which a tablespace is missing would use the original's.
    let late = cluster.path("late");
    fs::create_dir(&late).unwrap();
    cluster.server.own(&late);
    let late = format!("create tablespace late location '{}'", late.display());
    let refused = cluster
        .copy_while(&["to", "--tablespace", &mapping], "cluster-copied", async {
            client.batch_execute(&late).await.unwrap();
        })
        .await;
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(2) && said.contains("a tablespace was made"), "{said}");
    assert!(!cluster.path("to/global/pg_control").exists(), "a server would start on it");
    client.batch_execute("drop tablespace late").await.unwrap();
    // What was noted of files that somebody has removed says nothing of the new ones.
    for folder in ["to", "new"] {
        fs::remove_dir_all(cluster.path(folder)).unwrap();
    }
    cluster.copy(&["to", "--tablespace", &mapping]).ends(0);
    cluster.is_verified(&cluster.path("to"));
    assert_eq!(slots().await, 0);
}
