//! A load that deletes missing rows, killed at every point and many times, against one that is not interrupted.

use crate::kill::is_killed;
use crate::location::{Documents, Location};
use crate::process::killed;
use fastrand::Rng;
use millstream_failpoint::MISSING;
use millstream_testkit::{Server, Settings, builds, cases, connect, dealt, dealt_builds};
use serde_json::Value;
use std::process::Command;
use tokio_postgres::Client;

/// Kills of one load, all in its delete pass. With a greater scale, more loads are killed.
const KILLS: usize = 40;
/// Rows that are deleted in one transaction.
const BATCH: usize = 20;

/// A table, and a dump that lacks every other row.
struct Scene {
    _dir: tempfile::TempDir,
    documents: Documents,
    url: String,
    client: Client,
    table: String,
    rows: usize,
}

impl Scene {
    async fn new(server: &Server, location: Location, rows: usize) -> Self {
        let (dir, url) = (tempfile::tempdir().unwrap(), server.url("postgres"));
        let (client, table) = (connect(&url).await, format!("public.missing_{}", fastrand::u64(..)));
        let sql = format!(
            "create table {table} (id bigint primary key, doc jsonb not null);
             insert into {table} select g, '{{\"old\":1}}' from generate_series(1, {rows}) g"
        );
        client.batch_execute(&sql).await.unwrap();
        let text: String = (1..=rows).filter(|id| id % 2 == 0).map(|id| format!("{{\"id\":{id}}}\n")).collect();
        let dump = dir.path().join("dump.ndjson");
        std::fs::write(&dump, text).unwrap();
        Self { _dir: dir, documents: Documents::of(location, dump), url, client, table, rows }
    }

    fn load(&self) -> Command {
        let mut load = self.documents.load();
        load.args(["--into", &self.table, "--key", "id:bigint", "--adopt"]);
        load.args(["--delete-missing", "--delete-missing-max", "60", "--batch-rows", &BATCH.to_string()]);
        load.args(["--db", &self.url, "--output", "json", "--progress", "none"]);
        load
    }

    /// Runs the load to its end, and compares everything with what an uninterrupted one leaves. So many rows were written
    /// beside it.
    async fn finish(&self, beside: usize) {
        let output = self.load().output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let receipt: Value = serde_json::from_slice(&output.stdout).unwrap();
        let (kept, gone) = (self.rows / 2, self.rows / 2 - beside);
        assert_eq!((&receipt["read"], &receipt["inserted"]), (&kept.into(), &0.into()), "{receipt}");
        assert_eq!((&receipt["deleted"], &receipt["deleted_missing"]), (&gone.into(), &gone.into()), "{receipt}");
        let sql = format!(
            "select count(*) filter (where id % 2 = 0), count(*) filter (where id % 2 = 1),
                    count(*) filter (where doc ? 'beside') from {}",
            self.table
        );
        let row = self.client.query_one(&sql, &[]).await.unwrap();
        let found = [0, 1, 2].map(|n| usize::try_from(row.get::<_, i64>(n)).unwrap());
        assert_eq!(found, [kept, beside, beside]);
        let loads = "select count(*) from millstream.load where table_oid = to_regclass($1)";
        let loads: i64 = self.client.query_one(loads, &[&self.table]).await.unwrap().get(0);
        assert_eq!(loads, 1, "one load, however often it was killed");
        self.client.batch_execute(&format!("drop table {}", self.table)).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delete_pass_killed_at_any_point_resumes_correctly() {
    let (builds, mut rng) = (builds().await, Rng::new());
    let after = ["lanes-ended", "run-settled"];
    let points: Vec<&str> = MISSING.iter().copied().chain(after).collect();
    for (n, build) in builds.iter().enumerate() {
        println!("on {}", build.installation);
        let server = Server::start(build, Settings { durable: true, ..Settings::default() }).await;
        for point in dealt(&points, n, builds.len()) {
            for location in Location::todays(&mut rng) {
                println!("{point}, {location:?}");
                kill_at(point, &server, location).await;
            }
        }
    }
}

async fn kill_at(point: &str, server: &Server, location: Location) {
    let scene = Scene::new(server, location, 10 * BATCH).await;
    killed(&mut scene.load(), &format!("{point}=kill"));
    if MISSING.contains(&point) && point != MISSING[0] {
        killed(&mut scene.load(), &format!("{point}=kill@2"));
    }
    scene.finish(0).await;
    // An error that may pass, in the middle of a batch.
    if ["missing-deleted", "missing-advanced"].contains(&point) {
        let scene = Scene::new(server, location, 10 * BATCH).await;
        let mut load = scene.load();
        let output = load.env("MILLSTREAM_FAILPOINTS", format!("{point}=error@2")).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let receipt: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(receipt["deleted_missing"], 5 * BATCH, "{receipt}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delete_pass_killed_many_times_ends_as_an_uninterrupted_one() {
    let builds = dealt_builds().await;
    let share = cases(KILLS).div_ceil(builds.len());
    for build in builds {
        println!("on {}", build.installation);
        let server = Server::start(build, Settings { durable: true, ..Settings::default() }).await;
        let mut left = share;
        while left > 0 {
            let kills = left.min(KILLS);
            kill_many_times(&server, kills).await;
            left -= kills;
        }
    }
}

async fn kill_many_times(server: &Server, kills: usize) {
    let mut rng = Rng::new();
    // A run commits at most two batches before it is killed.
    let scene = Scene::new(server, Location::any(&mut rng), 2 * BATCH * (2 * kills + 1)).await;
    for kill in 0..kills {
        let point = rng.choice(MISSING).expect("some");
        let pass = if *point == MISSING[0] { 1 } else { rng.u32(1..3) };
        let mut load = scene.load();
        let output = load.env("MILLSTREAM_FAILPOINTS", format!("{point}=kill@{pass}")).output().unwrap();
        assert!(is_killed(output.status), "{point}@{pass}, kill {kill}: {output:?}");
        if kill == 0 {
            // The greatest of the missing rows is deleted last, if at all.
            let last = scene.rows - 1;
            let sql = format!("update {} set doc = '{{\"beside\":1}}' where id = {last}", scene.table);
            scene.client.batch_execute(&sql).await.unwrap();
        }
    }
    scene.finish(1).await;
}
