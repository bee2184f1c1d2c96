//! `load --skip-loaded`: a folder is loaded again and again, and only what is new or has changed is read.

use crate::process::{Run, command, killed, millstream};
use millstream_testkit::{TestDatabase, each_build, gzip};
use serde_json::json;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// A folder, and a database.
struct Folder {
    dir: tempfile::TempDir,
    db: TestDatabase,
}

impl Folder {
    fn new(db: TestDatabase) -> Self {
        Self { dir: tempfile::tempdir().unwrap(), db }
    }

    fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.dir.path().join(name), content).unwrap();
    }

    fn args(&self, more: &[&str]) -> Vec<String> {
        let (pattern, url) = (self.dir.path().join("*.ndjson*").to_str().unwrap().to_owned(), self.db.url());
        let fixed = ["--into", "public.dropped", "--key", "id:bigint", "--progress", "none", "--output", "json"];
        let all = [&["load", &pattern, "--skip-loaded", "--db", &url][..], &fixed, more].concat();
        all.into_iter().map(str::to_owned).collect()
    }

    fn load(&self, more: &[&str]) -> Run {
        let args = self.args(more);
        millstream(&args.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Loads the folder, of which so many files must be skipped and so many documents be read.
    #[track_caller]
    fn loads(&self, more: &[&str], skipped: u64, read: u64) -> Run {
        let done = self.load(more).ends(0);
        let receipt = done.json();
        let found = (receipt["skipped_files"].as_u64().unwrap_or_default(), receipt["read"].as_u64().unwrap());
        assert_eq!(found, (skipped, read), "{done:?}");
        assert_eq!(receipt["finished"], true);
        done
    }

    async fn number(&self, sql: &str) -> i64 {
        self.db.client().await.query_one(sql, &[]).await.unwrap().get(0)
    }
}

fn line(id: u32, n: u32) -> String {
    format!("{{\"id\":{id},\"n\":{n}}}\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn only_files_that_are_new_or_have_changed_are_loaded() {
    each_build(async |db| {
        let folder = Folder::new(db);
        folder.write("a.ndjson", line(1, 1));
        folder.write("b.ndjson.gz", gzip(line(2, 1).as_bytes()));
        folder.write("empty.ndjson", "");
        let first = folder.loads(&[], 0, 2);
        assert!(first.stderr.contains("skipped 0 of 3 files"), "{first:?}");
        // Nothing is new: nothing is loaded, and no load is recorded.
        let none = folder.loads(&[], 3, 0);
        assert!(none.stderr.contains("skipped 3 of 3 files: loaded before"), "{none:?}");
        assert_eq!(none.json()["load_id"], 0);
        assert_eq!(folder.number("select count(*) from millstream.load").await, 1);
        // A file with another time has not changed; one that was replaced by as many bytes has.
        let file = std::fs::File::options().append(true).open(folder.dir.path().join("a.ndjson")).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(86_400)).unwrap();
        folder.loads(&[], 3, 0);
        folder.write("a.ndjson", line(1, 2));
        folder.write("c.ndjson", line(3, 1));
        folder.loads(&[], 2, 2);
        assert_eq!(folder.number("select sum((doc ->> 'n')::bigint)::bigint from public.dropped").await, 4);
        // What was there before is not what the table has now.
        folder.write("a.ndjson", line(1, 1));
        folder.loads(&[], 3, 1);
        // One that grew is loaded from its start.
        folder.write("c.ndjson", line(3, 1) + &line(4, 1));
        assert_eq!(folder.loads(&[], 3, 2).json()["unchanged"], 1);
        // Another path is another file.
        std::fs::rename(folder.dir.path().join("c.ndjson"), folder.dir.path().join("d.ndjson")).unwrap();
        folder.loads(&[], 3, 2);
        // Neither rejects nor a plain load make a difference.
        folder.write("e.ndjson", "{\"id\":\"x\"}\n");
        let rejected = folder.load(&[]).ends(1).json();
        assert_eq!((&rejected["rejected"], &rejected["skipped_files"]), (&json!(1), &json!(4)));
        folder.loads(&[], 5, 0);
        let file = folder.dir.path().join("f.ndjson");
        folder.write("f.ndjson", line(9, 1));
        let plain =
            ["load", file.to_str().unwrap(), "--into", "public.dropped", "--key", "id", "--db", &folder.db.url()];
        millstream(&plain).ends(0);
        folder.loads(&[], 6, 0);
        // The files of a forgotten load are loaded again, and all of them if the table was emptied.
        let last = folder.number("select max(load_id) from millstream.load").await;
        millstream(&["loads", "forget", &last.to_string(), "--db", &folder.db.url()]).ends(0);
        folder.loads(&[], 5, 1);
        folder.db.client().await.batch_execute("truncate public.dropped").await.unwrap();
        assert_eq!(folder.load(&[]).ends(1).json()["read"], 6);
        folder.loads(&[], 6, 0);
        // Another load has filled it again meanwhile.
        folder.db.client().await.batch_execute("truncate public.dropped").await.unwrap();
        let file = folder.dir.path().join("a.ndjson");
        let plain =
            ["load", file.to_str().unwrap(), "--into", "public.dropped", "--key", "id", "--db", &folder.db.url()];
        millstream(&plain).ends(0);
        assert_eq!(folder.load(&[]).ends(1).json()["skipped_files"], 1, "what the others stored is gone");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sums_of_new_files_are_added_and_a_file_that_grew_is_refused() {
    each_build(async |db| {
        let folder = Folder::new(db);
        let sum = ["--mode", "sum:n"];
        folder.write("a.ndjson", line(1, 1));
        folder.loads(&sum, 0, 1);
        folder.write("b.ndjson", line(1, 2));
        folder.loads(&sum, 1, 1);
        folder.loads(&sum, 2, 0);
        let total = "select (doc ->> 'n')::bigint from public.dropped";
        assert_eq!(folder.number(total).await, 3);
        folder.write("a.ndjson", line(1, 1) + &line(1, 5));
        let refused = folder.load(&sum).ends(2);
        assert!(refused.stderr.contains("a.ndjson"), "{refused:?}");
        folder.write("a.ndjson", line(1, 9));
        folder.load(&sum).ends(2);
        assert_eq!(folder.number(total).await, 3);
        folder.write("a.ndjson", line(1, 1));
        folder.loads(&sum, 2, 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_load_is_finished_before_what_came_meanwhile() {
    each_build(async |db| {
        let folder = Folder::new(db);
        folder.write("b.ndjson", line(2, 1));
        folder.loads(&[], 0, 1);
        folder.write("c.ndjson", line(3, 1));
        folder.write("e.ndjson", line(5, 1));
        let args = folder.args(&[]);
        killed(&mut command(&args.iter().map(String::as_str).collect::<Vec<_>>()), "lanes-ended=kill");
        // New ones that sort before, between and behind them.
        for (name, id) in [("a.ndjson", 1), ("d.ndjson", 4), ("f.ndjson", 6)] {
            folder.write(name, line(id, 1));
        }
        let receipt = folder.loads(&[], 1, 5).json();
        assert_eq!(receipt["resumed_from"], 2, "{receipt}");
        assert_eq!(folder.number("select count(*) from public.dropped").await, 6);
        assert_eq!(folder.number("select count(*) from millstream.load where state = 'finished'").await, 2);
        folder.loads(&[], 6, 0);
        // If a file of a killed load is gone, somebody has to say what should happen.
        folder.write("g.ndjson", line(7, 1));
        folder.write("h.ndjson", line(8, 1));
        let args = folder.args(&[]);
        killed(&mut command(&args.iter().map(String::as_str).collect::<Vec<_>>()), "lanes-ended=kill");
        std::fs::remove_file(folder.dir.path().join("g.ndjson")).unwrap();
        let refused = folder.load(&[]).ends(2);
        assert!(refused.stderr.contains("--resume off"), "{refused:?}");
        folder.loads(&["--resume", "off"], 6, 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_compared_is_refused_and_nothing_new_still_refreshes_models() {
    each_build(async |db| {
        let folder = Folder::new(db);
        folder.write("a.ndjson", line(1, 1));
        folder.loads(&[], 0, 1);
        let url = folder.db.url();
        millstream(&["publish", "dropped", "--as", "new_read", "--db", &url]).ends(0);
        folder.db.client().await.batch_execute("insert into public.dropped values (2, '{}')").await.unwrap();
        folder.load(&["--publish", "new_read"]).ends(0);
        assert_eq!(folder.number("select count(*) from public.new_read").await, 2);
        // A dry run leaves out the same files.
        folder.write("b.ndjson", line(3, 1));
        let dry = folder.load(&["--dry-run"]).ends(0);
        assert_eq!(dry.json()["read"], 1, "{dry:?}");
        let plain = ["--into", "public.dropped", "--key", "id", "--skip-loaded", "--db", &url];
        let streamed = millstream(&[&["load", "-"][..], &plain].concat()).ends(2);
        assert!(streamed.stderr.contains("--skip-loaded takes files, and - is a stream"), "{streamed:?}");
        let absent = Path::new("absent.ndjson").to_str().unwrap();
        millstream(&[&["load", absent][..], &plain].concat()).ends(2);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_whose_documents_a_crash_has_taken_are_loaded_again() {
    each_build(async |db| {
        let (folder, unlogged) = (Folder::new(db), ["--durability", "unlogged"]);
        folder.write("a.ndjson", line(1, 1));
        folder.loads(&unlogged, 0, 1);
        folder.loads(&unlogged, 1, 0);
        // A crash of the server empties unlogged tables, those of ours too. Others have written into this one since.
        folder.db.client().await.batch_execute("delete from millstream.unlogged_load").await.unwrap();
        folder.loads(&unlogged, 0, 1);
    })
    .await;
}
