//! The log layout, with the command or the server killed at every point and at random moments: load and compaction
//! resume.

use crate::kill::is_killed;
use crate::process::{assert_runs, command, killed, until_held};
use fastrand::Rng;
use millstream_failpoint::{COMMIT, COMPACTION, SEGMENT};
use millstream_testkit::{Server, Settings, StopMode, builds, cases, connect, dealt, dealt_builds, until};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// Documents of one load: several segments for each lane.
const DOCUMENTS: i64 = 6_000;
/// Documents of one key at the beginning of a stream: enough for several chunks, wherever they are cut.
const HOT_FIRST: i64 = 8_000;
/// Latest moment of a random kill. Most runs have ended by then.
const LATEST: Duration = Duration::from_millis(400);
/// By how much the latest moment grows after a kill, and shrinks after a run that ended before its own.
const STEP: f64 = 1.3;
/// Random kills on every build.
const KILLS: usize = 12;
/// Loads that run at once, each into keys of its own.
const LOADS: i64 = 3;

/// Loads into a collection that is compacted meanwhile, and the rows that they leave.
struct Scene {
    dir: tempfile::TempDir,
    url: String,
    table: String,
    expected: BTreeMap<String, i64>,
}

impl Scene {
    async fn new(server: &Server, rng: &mut Rng) -> Self {
        let table = format!("public.log_{}", rng.u64(..));
        let dir = tempfile::tempdir().unwrap();
        Self { dir, url: server.url("postgres"), table, expected: BTreeMap::new() }
    }

    /// Writes the file of a load. Its keys begin with a word; one key is hot, some are deleted again.
    fn write(&mut self, rng: &mut Rng, word: &str, name: &str) {
        let (mut text, padding) = (String::new(), "x".repeat(200));
        for value in 0..DOCUMENTS {
            let id = if rng.u8(..5) == 0 { format!("{word}-hot") } else { format!("{word}-{:05}", rng.u32(..4_000)) };
            if rng.u8(..10) == 0 {
                writeln!(text, "{{\"id\":\"{id}\",\"op\":\"d\"}}").unwrap();
                self.expected.remove(&id);
            } else {
                writeln!(text, "{{\"id\":\"{id}\",\"value\":{value},\"padding\":\"{padding}\"}}").unwrap();
                self.expected.insert(id, value);
            }
        }
        std::fs::write(self.dir.path().join(name), text).unwrap();
    }

    /// The load of the file with this name. Only the number of lanes differs from run to run.
    fn load(&self, name: &str, lanes: u16, streamed: bool) -> Command {
        let file = self.dir.path().join(name);
        let source = if streamed { "-" } else { file.to_str().unwrap() };
        let mut load = command(&["load", source, "--into", &self.table, "--key", "id:text", "--layout", "log"]);
        if streamed {
            load.args(["--source-name", name]).stdin(std::fs::File::open(&file).unwrap());
        }
        load.args(["--delete-when", "op=d", "--lanes", &lanes.to_string(), "--batch-rows", "300", "--db", &self.url]);
        load.args(["--output", "json", "--progress", "none"]);
        load
    }

    /// Whether there is a collection to compact.
    async fn collected(&self) -> bool {
        let client = connect(&self.url).await;
        let sql = "select to_regclass('millstream.segment') is not null and to_regclass($1) is not null";
        client.query_one(sql, &[&self.table]).await.unwrap().get(0)
    }

    fn compact(&self) -> Command {
        command(&["compact", &self.table, "--workers", "2", "--db", &self.url, "--output", "json"])
    }

    /// Compacts to the end, then compares the table with what was loaded.
    async fn check(&self) {
        ends(&mut self.compact());
        let client = connect(&self.url).await;
        let rows =
            client.query(&format!("select id, (doc ->> 'value')::bigint from {}", self.table), &[]).await.unwrap();
        let found: BTreeMap<String, i64> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
        let differs = found.iter().filter(|(id, value)| self.expected.get(*id) != Some(value)).count();
        let missing = self.expected.keys().filter(|id| !found.contains_key(*id)).count();
        assert_eq!((differs, missing, found.len()), (0, 0, self.expected.len()), "differ, missing, rows");
        let left = "select (select count(*) from millstream.segment where table_oid = to_regclass($1)),
                           (select count(*) from millstream.merged_range)";
        let row = client.query_one(left, &[&self.table]).await.unwrap();
        assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (0, 0), "segments and merged ranges that are left");
    }
}

/// Runs a command, which must succeed.
fn ends(command: &mut Command) -> serde_json::Value {
    crate::process::run(command).ends(0).json()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_killed_at_any_point_of_a_segment_resumes_correctly() {
    let mut rng = Rng::new();
    let builds = builds().await;
    for (n, build) in builds.iter().enumerate() {
        println!("on {}", build.installation);
        let server = Server::start(build, Settings { durable: true, ..Settings::default() }).await;
        for point in dealt(SEGMENT.iter().chain(COMMIT), n, builds.len()) {
            let mut scene = Scene::new(&server, &mut rng).await;
            scene.write(&mut rng, "key", "a");
            let streamed = rng.bool();
            for nth in [1, rng.u32(2..5)] {
                killed(&mut scene.load("a", rng.u16(1..4), streamed), &format!("{point}=kill@{nth}"));
            }
            let receipt = ends(&mut scene.load("a", rng.u16(1..4), streamed));
            assert_eq!((&receipt["read"], &receipt["appended"]), (&DOCUMENTS.into(), &DOCUMENTS.into()), "{receipt}");
            scene.check().await;
        }
    }
}

/// A lane whose first parts are empty opens its segment for a later part, which a stream delivers only once.
#[tokio::test(flavor = "multi_thread")]
async fn a_streamed_segment_that_fails_to_open_loses_nothing() {
    let mut rng = Rng::new();
    for build in dealt_builds().await {
        println!("on {}", build.installation);
        let server = Server::start(build, Settings { durable: true, ..Settings::default() }).await;
        for nth in 1..=4 {
            let mut scene = Scene::new(&server, &mut rng).await;
            scene.write(&mut rng, "key", "a");
            let (file, padding) = (scene.dir.path().join("a"), "x".repeat(200));
            let mut text: String = (0..HOT_FIRST).fold(String::new(), |mut text, value| {
                writeln!(text, "{{\"id\":\"first\",\"value\":{value},\"padding\":\"{padding}\"}}").unwrap();
                text
            });
            text += &std::fs::read_to_string(&file).unwrap();
            std::fs::write(&file, text).unwrap();
            scene.expected.insert("first".to_owned(), HOT_FIRST - 1);
            let mut load = scene.load("a", 2, true);
            let receipt = ends(load.env("MILLSTREAM_FAILPOINTS", format!("segment-opened=error@{nth}")));
            let documents = HOT_FIRST + DOCUMENTS;
            assert_eq!((&receipt["read"], &receipt["retries"]), (&documents.into(), &1.into()), "{nth}: {receipt}");
            scene.check().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compaction_killed_at_any_point_is_completed_by_the_next() {
    let mut rng = Rng::new();
    let builds = builds().await;
    for (n, build) in builds.iter().enumerate() {
        println!("on {}", build.installation);
        let server = Server::start(build, Settings { durable: true, ..Settings::default() }).await;
        for point in dealt(COMPACTION, n, builds.len()) {
            let mut scene = Scene::new(&server, &mut rng).await;
            // Each wave changes and deletes rows of the one before. The second one finds a table with rows.
            for wave in ["first", "second"] {
                scene.write(&mut rng, "key", wave);
                ends(&mut scene.load(wave, 2, false));
                killed(&mut scene.compact(), &format!("{point}=kill"));
                let more = format!("{wave}-more");
                scene.write(&mut rng, "key", &more);
                ends(&mut scene.load(&more, 3, false));
                if rng.bool() {
                    scene.check().await;
                }
            }
            scene.check().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_load_during_a_compaction_overwrites_no_later_documents() {
    let mut rng = Rng::new();
    for build in dealt_builds().await {
        println!("on {}", build.installation);
        let server = Server::start(build, Settings::default()).await;
        let mut scene = Scene::new(&server, &mut rng).await;
        // Both write the same keys, and the second one wins.
        scene.write(&mut rng, "key", "first");
        scene.write(&mut rng, "key", "second");
        let spawned = |mut command: Command, point: &str| {
            let held = scene.dir.path().join(point);
            command.env("MILLSTREAM_FAILPOINTS", format!("{point}=wait:{}", held.display()));
            (command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap(), held)
        };
        let ended = |(child, held): (std::process::Child, std::path::PathBuf)| {
            std::fs::remove_file(&held).unwrap();
            let output = child.wait_with_output().unwrap();
            assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        };
        let mut first = spawned(scene.load("first", 1, false), "chunk-read");
        until_held(&mut first.0, &first.1).await;
        ends(&mut scene.load("second", 1, false));
        let mut compaction = spawned(scene.compact(), "compaction-listed");
        // It has seen the segments of the second load.
        until_held(&mut compaction.0, &compaction.1).await;
        ended(first);
        ended(compaction);
        scene.check().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn loads_and_compactions_survive_kills_at_any_moment() {
    for build in dealt_builds().await {
        println!("on {}", build.installation);
        let server = Server::start(build, Settings { durable: true, ..Settings::default() }).await;
        let (mut kills, seed) = (0, fastrand::u64(..));
        println!("seed {seed}");
        let mut rng = Rng::with_seed(seed);
        // On a slow machine, none would ever end before its kill.
        let mut latest = LATEST;
        while kills < cases(KILLS) {
            let mut scene = Scene::new(&server, &mut rng).await;
            let names: Vec<String> = (0..LOADS).map(|n| format!("load{n}")).collect();
            names.iter().for_each(|name| scene.write(&mut rng, name, name));
            let mut open: Vec<String> = names.clone();
            while !open.is_empty() {
                let mut running = Vec::new();
                for name in &open {
                    let mut load = scene.load(name, rng.u16(1..3), false);
                    running.push((
                        Some(name.clone()),
                        load.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap(),
                    ));
                }
                if scene.collected().await {
                    let mut compact = scene.compact();
                    running.push((None, compact.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()));
                }
                for (name, mut child) in running {
                    tokio::time::sleep(latest.mul_f64(rng.f64() / 2.0)).await;
                    child.kill().unwrap();
                    let output = child.wait_with_output().unwrap();
                    if is_killed(output.status) {
                        (kills, latest) = (kills + 1, latest.mul_f64(STEP));
                        continue;
                    }
                    latest = LATEST.max(latest.div_f64(STEP));
                    let (code, stderr) = (output.status.code(), String::from_utf8_lossy(&output.stderr));
                    match name {
                        Some(name) => {
                            assert_eq!(code, Some(0), "{stderr}");
                            open.retain(|other| *other != name);
                        }
                        // Segments may wait for a load that began before.
                        None => assert!(matches!(code, Some(0 | 1)), "{code:?} {stderr}"),
                    }
                }
            }
            scene.check().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn loads_and_compactions_survive_a_server_crash_at_any_point() {
    let mut rng = Rng::new();
    for build in dealt_builds().await {
        println!("on {}", build.installation);
        for (way, (mode, level)) in [(StopMode::Kill, "replica"), (StopMode::Immediate, "minimal")].iter().enumerate() {
            let settings = Settings::with(&[&format!("wal_level = {level}"), "max_wal_senders = 0"]);
            let server = Server::start(build, Settings { durable: true, ..settings }).await;
            // Each way takes every other point of a compaction. Together they take every point of a segment.
            let points = SEGMENT.iter().cycle().zip(COMPACTION);
            for (loading, compacting) in points.skip(way).step_by(2) {
                let mut scene = Scene::new(&server, &mut rng).await;
                scene.write(&mut rng, "key", "a");
                let output = crashed(&server, *mode, scene.load("a", 2, false), loading, 4).await;
                let stderr = String::from_utf8_lossy(&output.stderr);
                assert_eq!(output.status.code(), Some(0), "{loading}: {stderr}");
                assert!(stderr.contains("the load broke off and resumes"), "{loading}: {stderr}");
                assert_eq!(stderr.contains("no WAL is written"), *level == "minimal", "{stderr}");
                let receipt: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
                assert_eq!(receipt["read"], DOCUMENTS, "{loading}: {receipt}");
                let output = crashed(&server, *mode, scene.compact(), compacting, 1).await;
                // The compaction has lost its own connection and those of its workers, and begins again.
                assert_eq!(output.status.code(), Some(0), "{compacting}: {}", String::from_utf8_lossy(&output.stderr));
                scene.check().await;
            }
        }
    }
}

/// Crashes the server when a command is at a failpoint for the nth time, and lets the command run to its end.
async fn crashed(server: &Server, mode: StopMode, mut command: Command, point: &str, nth: u32) -> Output {
    let dir = tempfile::tempdir().unwrap();
    let held = dir.path().join("held");
    command.env("MILLSTREAM_FAILPOINTS", format!("{point}=wait:{}@{nth}", held.display()));
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until(&format!("it is held at {point}"), async || {
        assert_runs(&mut child);
        held.exists()
    })
    .await;
    server.restart(mode).await;
    std::fs::remove_file(&held).unwrap();
    child.wait_with_output().unwrap()
}
