//! A rewrite in the order of the key, killed at every point and many times, or with its server: the table is as it was, or
//! rewritten, and has the same rows.

use crate::process::{command, killed, millstream, until_held};
use fastrand::Rng;
use millstream_failpoint::COLD;
use millstream_testkit::{Server, Settings, StopMode, cases, connect, dealt_builds};
use std::fmt::Write;
use std::process::{Command, Stdio};

/// Kills of one table.
const KILLS: usize = 20;
/// Keys of its rows.
const KEYS: usize = 400;

/// What of a table a rewrite changes.
#[derive(Debug, PartialEq, Eq)]
struct State {
    /// Options of the table and of the index of its key, and the compression of its documents.
    options: String,
    file: i64,
    /// Whether a row stands before one with a smaller key.
    unsorted: bool,
}

struct Scene {
    dir: tempfile::TempDir,
    url: String,
    table: String,
    form: &'static str,
}

impl Scene {
    fn new(server: &Server, form: &'static str) -> Self {
        let (dir, url) = (tempfile::tempdir().unwrap(), server.url("postgres"));
        Self { dir, url, table: format!("cold_{}", fastrand::u64(..)), form }
    }

    fn file(&self) -> String {
        self.dir.path().join("all.ndjson").to_str().unwrap().to_owned()
    }

    /// Loads a wave of documents in random order, of some keys or of all.
    fn load(&self, rng: &mut Rng, some: usize) {
        let mut ids: Vec<usize> = (0..KEYS).collect();
        rng.shuffle(&mut ids);
        let text = ids[..some].iter().fold(String::new(), |mut text, id| {
            writeln!(text, "{{\"id\":\"{id:05}\",\"n\":{},\"note\":\"{}\"}}", rng.u32(..), "x".repeat(rng.usize(..90)))
                .unwrap();
            text
        });
        let wave = self.dir.path().join("wave.ndjson");
        std::fs::write(&wave, &text).unwrap();
        // Later documents win, so this file has all that is stored.
        let all = std::fs::read_to_string(self.file()).unwrap_or_default() + &text;
        std::fs::write(self.file(), all).unwrap();
        let load = ["load", wave.to_str().unwrap(), "--into", &self.table, "--key", "id:varchar", "--doc", self.form];
        millstream(&[&load[..], &["--resume", "off", "--progress", "none", "--db", &self.url]].concat()).ends(0);
    }

    fn freeze(&self) -> Command {
        command(&["freeze", &self.table, "--cold", "--yes", "--db", &self.url])
    }

    /// The state of the table. Waits until the server has ended the transaction of a killed process.
    async fn state(&self) -> State {
        let sql = format!(
            "select concat_ws('; ', t.reloptions::text, x.reloptions::text, a.attcompression::text),
                    pg_relation_filenode(t.oid)::bigint,
                    (select coalesce(bool_or(id > next), false)
                     from (select id, lead(id) over (order by ctid) as next from public.{table}) as rows)
             from pg_class t
             join pg_index i on i.indrelid = t.oid and i.indisprimary
             join pg_class x on x.oid = i.indexrelid
             join pg_attribute a on a.attrelid = t.oid and a.attname = 'doc'
             where t.oid = 'public.{table}'::regclass",
            table = self.table
        );
        let row = connect(&self.url).await.query_one(&sql, &[]).await.unwrap();
        State { options: row.get(0), file: row.get(1), unsorted: row.get(2) }
    }

    /// Requires that every document is stored as it was loaded, and no other row.
    fn verify(&self) {
        let file = self.file();
        let verify = ["verify", &file, "--into", &self.table, "--key", "id:varchar", "--exact", "--db", &self.url];
        millstream(&verify).ends(0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rewrite_killed_many_times_leaves_the_table_as_it_was_or_rewritten() {
    for build in dealt_builds().await {
        println!("on {}", build.installation);
        let server = Server::start(build, Settings { durable: true, ..Settings::default() }).await;
        let (kills, mut rng) = (cases(KILLS), Rng::new());
        for form in ["whole", "without-key"] {
            let scene = Scene::new(&server, form);
            scene.load(&mut rng, KEYS);
            scene.load(&mut rng, KEYS);
            // First each of the points.
            let points: Vec<&str> =
                (0..kills).map(|n| *COLD.get(n).unwrap_or_else(|| rng.choice(COLD).unwrap())).collect();
            for point in points {
                let before = scene.state().await;
                killed(&mut scene.freeze(), &format!("{point}=kill"));
                let after = scene.state().await;
                if point == "cold-committed" {
                    assert!(after.file != before.file && !after.unsorted, "{point}: {before:?} {after:?}");
                    assert!(after.options.starts_with("{fillfactor=100}; {fillfactor=100}"), "{point}: {after:?}");
                } else {
                    assert_eq!(after, before, "{point}");
                }
                scene.verify();
                // Changes come between, and find a table that nobody has truncated.
                let some = rng.usize(1..KEYS / 10);
                scene.load(&mut rng, some);
            }
            assert!(scene.freeze().output().unwrap().status.success());
            assert!(!scene.state().await.unsorted);
            scene.verify();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_in_a_rewrite_has_the_table_as_it_was() {
    for build in dealt_builds().await {
        println!("on {}", build.installation);
        let server = Server::start(build, Settings { durable: true, ..Settings::default() }).await;
        for point in COLD {
            let (scene, mut rng) = (Scene::new(&server, "whole"), Rng::new());
            scene.load(&mut rng, KEYS);
            scene.load(&mut rng, KEYS);
            let before = scene.state().await;
            let held = scene.dir.path().join(point);
            let mut freeze = scene.freeze();
            freeze.env("MILLSTREAM_FAILPOINTS", format!("{point}=wait:{}", held.display()));
            let mut child = freeze.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
            until_held(&mut child, &held).await;
            server.restart(StopMode::Kill).await;
            std::fs::remove_file(&held).unwrap();
            let output = child.wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            let after = scene.state().await;
            if *point == "cold-committed" {
                assert!(after.file != before.file && !after.unsorted, "{point}: {before:?} {after:?}");
            } else {
                assert!(!output.status.success() && said.contains("error:"), "{point}: {said}");
                assert_eq!(after, before, "{point}");
            }
            scene.verify();
            assert!(scene.freeze().output().unwrap().status.success(), "{point}");
            assert!(!scene.state().await.unsorted, "{point}");
            scene.verify();
        }
    }
}
