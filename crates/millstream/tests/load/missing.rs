//! `load --delete-missing`: a dump says what should be there now, and a bad dump deletes nothing.

use crate::process::{Run, command, millstream, run};
use millstream_testkit::{TestDatabase, each_build, every_build, gzip};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Stdio;

/// Rows of the table before a dump is loaded.
const ROWS: i64 = 400;

fn write(dir: &Path, name: &str, content: impl AsRef<[u8]>) -> String {
    let path = dir.join(name);
    std::fs::write(&path, content).unwrap();
    path.to_str().unwrap().to_owned()
}

fn documents(ids: impl Iterator<Item = i64>) -> String {
    ids.map(|id| format!("{{\"id\":{id},\"n\":{}}}\n", id % 7)).collect()
}

fn load(url: &str, args: &[&str]) -> Run {
    let fixed = ["load", "--into", "public.t", "--key", "id:bigint", "--progress", "plain", "--output", "json"];
    millstream(&[&fixed[..], &["--db", url], args].concat())
}

fn size(rows: i64) -> usize {
    usize::try_from(rows).unwrap()
}

async fn ids(db: &TestDatabase) -> Vec<i64> {
    let rows = db.client().await.query("select id from public.t order by id", &[]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

/// Every document is in one count, and rows that no document has are counted apart.
#[track_caller]
fn adds_up(receipt: &Value) {
    let count = |name: &str| receipt[name].as_u64().unwrap_or_default();
    let names = ["inserted", "updated", "unchanged", "superseded", "stale", "kept", "deleted", "appended", "rejected"];
    let sum: u64 = names.iter().map(|name| count(name)).sum();
    assert_eq!(count("read"), sum - count("deleted_missing"), "{receipt}");
}

/// A table that a load has filled.
async fn filled(db: &TestDatabase, dir: &Path) {
    let file = write(dir, "before.ndjson", documents(1..=ROWS));
    assert_eq!(load(&db.url(), &[&file]).ends(0).json()["inserted"], ROWS);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_that_a_dump_lacks_are_deleted_and_read_models_follow() {
    every_build(async |db| {
        let (dir, url) = (tempfile::tempdir().unwrap(), db.url());
        filled(&db, dir.path()).await;
        let model = ["publish", "t", "--as", "t_read", "--column", "n:bigint=n", "--index", "n"];
        millstream(&[&model[..], &["--db", &url]].concat()).ends(0);
        // Some are missing, one is new, one has changed, and one comes twice.
        let kept = (1..=ROWS).filter(|id| id % 20 != 3);
        let text = format!("{}{{\"id\":2,\"n\":70}}\n{{\"id\":2,\"n\":71}}\n", documents(kept.clone().chain([900])));
        let dump = write(dir.path(), "dump.ndjson.gz", gzip(text.as_bytes()));
        let done = load(&url, &[&dump, "--delete-missing", "--batch-rows", "7"]).ends(0);
        let receipt = done.json();
        assert_eq!((&receipt["deleted"], &receipt["deleted_missing"]), (&json!(20), &json!(20)), "{receipt}");
        assert_eq!((&receipt["inserted"], &receipt["finished"]), (&json!(1), &json!(true)), "{receipt}");
        adds_up(&receipt);
        assert!(done.stderr.contains("the files lack 20 of 401 rows, which are deleted now"), "{done:?}");
        // The deletes are in the change record.
        millstream(&["refresh", "t_read", "--way", "incremental", "--db", &url]).ends(0);
        let expected: Vec<i64> = kept.chain([900]).collect();
        assert_eq!(ids(&db).await, expected);
        let model = "select count(*), count(*) filter (where n = 71) from public.t_read";
        let row = db.client().await.query_one(model, &[]).await.unwrap();
        assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (381, 1));
        let verify = ["verify", &dump, "--into", "public.t", "--key", "id", "--exact", "--db", &url];
        millstream(&verify).ends(0);
        // Nothing is missing now.
        let again = load(&url, &[&dump, "--delete-missing"]).ends(0).json();
        assert_eq!((&again["deleted"], again.get("deleted_missing")), (&json!(0), None), "{again}");
        let recorded = "select receipt ->> 'deleted' from millstream.load where deleted_missing > 0";
        assert_eq!(db.client().await.query_one(recorded, &[]).await.unwrap().get::<_, &str>(0), "20");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_dump_deletes_nothing() {
    each_build(async |db| {
        let (dir, url) = (tempfile::tempdir().unwrap(), db.url());
        filled(&db, dir.path()).await;
        let all: Vec<i64> = (1..=ROWS).collect();
        let most = documents(1..=ROWS - 10);
        let zipped = gzip(most.as_bytes());
        let file = |name: &str, content: &[u8]| write(dir.path(), name, content);
        for (dump, code, says) in [
            (file("half.ndjson", documents(1..=ROWS / 2).as_bytes()), 2, "lack 200 of the 400 rows"),
            (file("empty.ndjson", b""), 2, "the sources have no document"),
            (file("cut.ndjson.gz", &zipped[..zipped.len() - 9]), 2, "the source is damaged"),
            (file("torn.ndjson", &most.as_bytes()[..most.len() - 4]), 1, "(rejects: 1)"),
            (file("bad.ndjson", format!("{most}{{\"id\":\"x\"}}\n").as_bytes()), 1, "no missing row is deleted"),
        ] {
            let done = load(&url, &[&dump, "--delete-missing"]).ends(code);
            assert!(done.stderr.contains(says), "{dump}: {done:?}");
            assert_eq!(ids(&db).await, all, "{dump}");
            millstream(&["loads", "--db", &url]).ends(0);
        }
        // A check of the server rejects, too.
        let checked = file("checked.ndjson", format!("{most}{{\"id\":5,\"n\":99}}\n").as_bytes());
        let refused = load(&url, &[&checked, "--delete-missing", "--check", "(doc ->> 'n')::int <> 99"]).ends(1);
        assert!(refused.stderr.contains("no missing row is deleted"), "{refused:?}");
        assert_eq!(ids(&db).await, all);
        // A dump of another table is large enough that the rows are a small part of what is there afterwards.
        let other = file("other.ndjson", documents(10_000..20_000).as_bytes());
        let done = load(&url, &[&other, "--delete-missing"]).ends(2);
        assert!(done.stderr.contains("lack 400 of the 400 rows"), "{done:?}");
        assert_eq!(ids(&db).await[..size(ROWS)], all);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_load_goes_on_with_a_higher_limit_and_writes_nothing_again() {
    each_build(async |db| {
        let (dir, url) = (tempfile::tempdir().unwrap(), db.url());
        filled(&db, dir.path()).await;
        let dump = write(dir.path(), "dump.ndjson", documents((1..=ROWS).filter(|id| id % 4 == 0)));
        let refused = load(&url, &[&dump, "--delete-missing"]).ends(2);
        assert!(refused.stderr.contains("--delete-missing-max 75"), "{refused:?}");
        assert_eq!(refused.json()["finished"], false);
        for max in ["74.9", "10%"] {
            load(&url, &[&dump, "--delete-missing", "--delete-missing-max", max]).ends(2);
            assert_eq!(ids(&db).await.len(), size(ROWS));
        }
        let done = load(&url, &[&dump, "--delete-missing", "--delete-missing-max", "75%"]).ends(0).json();
        assert_eq!((&done["resumed_from"], &done["read"]), (&json!(100), &json!(100)), "{done}");
        assert_eq!(done["deleted_missing"], 300, "{done}");
        adds_up(&done);
        assert_eq!(ids(&db).await, (1..=ROWS).filter(|id| id % 4 == 0).collect::<Vec<_>>());
        // What is not a part of a hundred is not understood.
        for max in ["101", "-1", "many"] {
            load(&url, &[&dump, "--delete-missing", "--delete-missing-max", max]).ends(2);
        }
        load(&url, &[&dump, "--delete-missing-max", "5"]).ends(2);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sums_that_were_added_before_delete_nothing_and_say_so() {
    each_build(async |db| {
        let (dir, url) = (tempfile::tempdir().unwrap(), db.url());
        filled(&db, dir.path()).await;
        let dump = write(dir.path(), "dump.ndjson", documents(1..=ROWS - 10));
        load(&url, &[&dump, "--mode", "sum:n"]).ends(0);
        let again = load(&url, &[&dump, "--mode", "sum:n", "--delete-missing"]).ends(0);
        assert!(again.stderr.contains("no missing row is deleted now"), "{again:?}");
        assert_eq!(ids(&db).await.len(), size(ROWS));
        // A load that adds them deletes, too.
        let other = write(dir.path(), "other.ndjson", documents(1..=ROWS - 10));
        let added = load(&url, &[&other, "--mode", "sum:n", "--delete-missing"]).ends(0).json();
        assert_eq!(added["deleted_missing"], 10, "{added}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_dump_cannot_say_is_refused() {
    each_build(async |db| {
        let (dir, url) = (tempfile::tempdir().unwrap(), db.url());
        filled(&db, dir.path()).await;
        let dump = write(dir.path(), "dump.ndjson", documents(1..=ROWS - 5));
        for (more, says) in [
            (&["--mode", "newest:n:bigint"][..], "--delete-missing does not go with --mode newest"),
            (&["--delete-when", "n=1"], "--delete-missing does not go with --delete-when"),
            (&["--layout", "log"], "--delete-missing does not go with --layout log"),
            (&["--skip-loaded"], "cannot be used with"),
        ] {
            let refused = load(&url, &[&[dump.as_str(), "--delete-missing"], more].concat()).ends(2);
            assert!(refused.stderr.contains(says), "{more:?}: {refused:?}");
        }
        let unnamed = load(&url, &["-", "--delete-missing"]).ends(2);
        assert!(unnamed.stderr.contains("--source-name"), "{unnamed:?}");
        assert_eq!(ids(&db).await.len(), size(ROWS));
        // A stream with a name can be resumed, so it may delete.
        let args =
            ["load", "-", "--source-name", "dump", "--delete-missing", "--into", "public.t", "--key", "id:bigint"];
        let mut piped = command(&[&args[..], &["--db", &url, "--output", "json"]].concat());
        piped.stdin(Stdio::from(std::fs::File::open(&dump).unwrap()));
        assert_eq!(run(&mut piped).ends(0).json()["deleted_missing"], 5);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_of_every_kind_and_tables_of_others_are_compared() {
    each_build(async |db| {
        let (dir, url) = (tempfile::tempdir().unwrap(), db.url());
        let client = db.client().await;
        client
            .batch_execute(
                "create table public.adopted (part text collate \"C\", n numeric, doc jsonb not null, primary key (n, part));
                 insert into public.adopted select 'p' || g % 3, g / 2.0, '{}' from generate_series(1, 90) g;
                 insert into public.adopted values ('p1', 'NaN', '{}'), ('p1', 'Infinity', '{}');
                 create table public.parted (id bigint primary key, doc jsonb not null) partition by range (id);
                 create table public.parted_1 partition of public.parted for values from (0) to (50);
                 create table public.parted_2 partition of public.parted for values from (50) to (500);
                 insert into public.parted select g, '{}' from generate_series(1, 100) g;
                 create table public.timed (at timestamptz primary key, doc jsonb not null);
                 insert into public.timed select '2026-01-01Z'::timestamptz + g * interval '1 hour', '{}'
                 from generate_series(1, 20) g;
                 insert into public.timed values ('-infinity', '{}')",
            )
            .await
            .unwrap();
        // 1.50 and 1.5 are one key.
        let adopted: String = (1..=90)
            .filter(|g| g % 30 != 0)
            .map(|g| format!("{{\"part\":\"p{}\",\"n\":{:.2}}}\n", g % 3, f64::from(g) / 2.0))
            .collect();
        let parted: String = (1..=100).filter(|n| n % 25 != 0).map(|n| format!("{{\"id\":{n}}}\n")).collect();
        let timed: String =
            (1..=19).map(|h| format!("{{\"at\":\"2026-01-01T{:02}:00:00+01:00\"}}\n", h + 1)).collect();
        for (table, key, text, missing) in [
            ("adopted", "part,n", adopted, 5),
            ("parted", "id", parted, 4),
            ("timed", "at", timed, 2),
        ] {
            let file = write(dir.path(), table, text);
            let into = format!("public.{table}");
            let args = ["load", &file, "--format", "ndjson", "--into", &into, "--key", key, "--adopt", "--db", &url];
            let done = millstream(&[&args[..], &["--delete-missing", "--output", "json"]].concat()).ends(0).json();
            assert_eq!(done["deleted_missing"], missing, "{table}: {done}");
            let verify = ["verify", &file, "--format", "ndjson", "--into", &into, "--key", key, "--exact", "--db", &url];
            millstream(&verify).ends(0);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_key_that_forbids_a_delete_ends_the_load_and_a_mended_one_goes_on() {
    each_build(async |db| {
        let (dir, url) = (tempfile::tempdir().unwrap(), db.url());
        filled(&db, dir.path()).await;
        let client = db.client().await;
        client
            .batch_execute(
                "create table public.uses (id bigint references public.t deferrable initially deferred);
                 insert into public.uses values (398)",
            )
            .await
            .unwrap();
        let dump = write(dir.path(), "dump.ndjson", documents(1..=ROWS - 10));
        let stopped = load(&url, &[&dump, "--delete-missing", "--batch-rows", "4"]).ends(2);
        assert!(stopped.stderr.contains("violates foreign key constraint"), "{stopped:?}");
        // A batch is all or nothing: those before it are done.
        assert_eq!(ids(&db).await.len(), size(ROWS - 4));
        client.batch_execute("delete from public.uses").await.unwrap();
        let done = load(&url, &[&dump, "--delete-missing", "--batch-rows", "4"]).ends(0).json();
        assert_eq!(done["deleted_missing"], 10, "{done}");
        assert_eq!(ids(&db).await.len(), size(ROWS - 10));
    })
    .await;
}
