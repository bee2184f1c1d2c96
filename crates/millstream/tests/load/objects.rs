//! Objects in a store as sources of loads: each promise of a file, and no object is read that need not be.

use crate::process::{Run, command, killed, run};
use millstream_failpoint::LOAD;
use millstream_testkit::{Answer, Bucket, each_build, gzip, todays};
use std::collections::BTreeSet;
use std::process::Command;
use std::time::Duration;
use tokio_postgres::Client;

/// Documents in each object.
const DOCUMENTS: u32 = 10;

/// Fills a bucket with this many objects `d/NNNN.ndjson`.
fn fill(bucket: &Bucket, objects: u32) {
    (0..objects).for_each(|n| bucket.put(&key(n), text(n)));
}

fn key(n: u32) -> String {
    format!("d/{n:04}.ndjson")
}

fn text(n: u32) -> String {
    (0..DOCUMENTS).map(|i| format!("{{\"id\":{},\"n\":1}}\n", n * DOCUMENTS + i)).collect()
}

fn load(bucket: &Bucket, url: &str, source: &str, more: &[&str]) -> Command {
    let mut command = command(&["load", source, "--into", "t", "--key", "id:bigint", "--db", url]);
    command.args(["--progress", "none", "--output", "json"]).args(more).envs(bucket.environment());
    command
}

fn verify(bucket: &Bucket, url: &str, source: &str) -> Run {
    let args = ["verify", source, "--into", "t", "--key", "id", "--exact", "--db", url, "--progress", "none"];
    run(command(&args).envs(bucket.environment()))
}

/// The keys of the objects that were read.
fn read(bucket: &Bucket) -> Vec<String> {
    bucket
        .asked()
        .into_iter()
        .filter(|asked| asked.method == "GET" && !asked.key.is_empty())
        .map(|asked| asked.key)
        .collect()
}

#[tokio::test]
async fn objects_load_as_files_do_and_no_record_has_credentials() {
    each_build(async |db| {
        let (bucket, url, client) = (Bucket::start(), db.url(), db.client().await);
        fill(&bucket, 5);
        bucket.put("d/0005.ndjson", "{\"id\":\"no number\"}\n{\"id\":1000}\n");
        bucket.set_page_keys(2);
        let source = Bucket::s3("d/*.ndjson");
        let receipt = load(&bucket, &url, &source, &[]).output().unwrap();
        assert_eq!(receipt.status.code(), Some(1), "{receipt:?}");
        let receipt: serde_json::Value = serde_json::from_slice(&receipt.stdout).unwrap();
        assert_eq!((&receipt["read"], &receipt["inserted"], &receipt["rejected"]), (&52.into(), &51.into(), &1.into()));
        // One listing says their sizes and tags.
        assert!(bucket.asked().iter().all(|asked| asked.method == "GET"), "{:?}", bucket.asked());
        let ended = verify(&bucket, &url, &source).ends(0);
        assert!(!ended.stderr.contains("hush"), "{ended:?}");
        let rejects = run(&mut command(&["rejects", "t", "--db", &url])).ends(0);
        assert!(rejects.stdout.contains("s3://bucket/d/0005.ndjson"), "{rejects:?}");
        // A signature in an address, and a load that the store refuses half-way.
        let signed = format!("{}?X-Amz-Signature=hush", bucket.web("d/0005.ndjson"));
        run(&mut load(&bucket, &url, &signed, &[])).ends(1);
        bucket.answers(|asked| match asked.key.as_str() {
            "d/0003.ndjson" => Answer::Status(403, "ExpiredToken"),
            _ => Answer::Whole,
        });
        let refused = run(load(&bucket, &url, &source, &[]).env("AWS_SESSION_TOKEN", "hush-token")).ends(2);
        assert!(refused.stderr.contains("ExpiredToken") && !refused.stderr.contains("hush"), "{refused:?}");
        calm(&bucket);
        run(&mut load(&bucket, &url, &source, &[])).ends(1);
        let records = records(&client).await;
        assert!(records.contains("s3://bucket/d/0000.ndjson") && !records.contains("hush"), "{records}");
        let again = run(&mut load(&bucket, &url, &Bucket::s3("d/0001.ndjson"), &[])).ends(0).json();
        assert_eq!(again["unchanged"], DOCUMENTS);
    })
    .await;
}

/// Lets the store answer as it should, and forgets what clients that have ended have asked.
fn calm(bucket: &Bucket) {
    bucket.until_alone();
    bucket.calm();
}

/// All that our tables hold.
async fn records(client: &Client) -> String {
    let tables = "select format('millstream.%I', tablename) from pg_tables where schemaname = 'millstream'";
    let mut records = String::new();
    for table in client.query(tables, &[]).await.unwrap() {
        let text = format!("select coalesce(string_agg(t::text, ' '), '') from {} t", table.get::<_, &str>(0));
        let text: String = client.query_one(&text, &[]).await.unwrap().get(0);
        records.push_str(&text);
    }
    records
}

#[tokio::test]
async fn a_killed_load_does_not_read_again_what_it_has_committed() {
    each_build(async |db| {
        let (url, client) = (db.url(), db.client().await);
        // With one connection, each object is a batch, and they are committed in their order.
        for (objects, lanes, batch_rows, mode, point) in [
            (1_000, "1", DOCUMENTS, "replace", "batch-committed=kill@900"),
            (120, "2", 3 * DOCUMENTS, "sum:n", "batch-committed=kill@9"),
        ] {
            let (bucket, source) = (Bucket::start(), Bucket::s3("d/*.ndjson"));
            fill(&bucket, objects);
            client.batch_execute("drop table if exists t").await.unwrap();
            let batch_rows = batch_rows.to_string();
            let args = ["--lanes", lanes, "--batch-rows", &batch_rows, "--mode", mode];
            killed(&mut load(&bucket, &url, &source, &args), point);
            calm(&bucket);
            let stored: i64 = client.query_one("select count(*) from t", &[]).await.unwrap().get(0);
            let ended = run(&mut load(&bucket, &url, &source, &["--lanes", "1", "--mode", mode])).ends(0).json();
            assert_eq!(ended["read"], objects * DOCUMENTS, "{mode}");
            let again = read(&bucket);
            assert_eq!(again.len(), again.iter().collect::<BTreeSet<_>>().len(), "none is read twice: {again:?}");
            if lanes == "1" {
                assert_eq!(stored, i64::from(900 * DOCUMENTS));
                assert!((100..=101).contains(&again.len()), "{again:?}");
            }
            let sum = "select count(*), sum((doc->>'n')::bigint)::bigint from t";
            let row = client.query_one(sum, &[]).await.unwrap();
            let all = i64::from(objects * DOCUMENTS);
            assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (all, all), "{mode}");
        }
    })
    .await;
}

/// Points that a load of new keys does not pass.
const ELSEWHERE: [&str; 4] = ["batch-divided", "batch-merging", "batch-replayed", "lane-reattached"];

#[tokio::test]
async fn a_load_of_objects_killed_at_any_point_resumes_correctly() {
    let db = millstream_testkit::database().await;
    let (bucket, url, client) = (Bucket::start(), db.url(), db.client().await);
    let objects = 40;
    fill(&bucket, objects);
    let source = Bucket::s3("d/*.ndjson");
    let args = ["--lanes", "2", "--batch-rows", "30", "--mode", "sum:n"];
    for point in todays(LOAD.iter().filter(|point| !ELSEWHERE.contains(point))) {
        client.batch_execute("drop table if exists t").await.unwrap();
        killed(&mut load(&bucket, &url, &source, &args), &format!("{point}=kill"));
        let ended = run(&mut load(&bucket, &url, &source, &args)).ends(0).json();
        assert_eq!(ended["read"], objects * DOCUMENTS, "{point}");
        let sum = "select count(*), sum((doc->>'n')::bigint)::bigint from t";
        let row = client.query_one(sum, &[]).await.unwrap();
        let all = i64::from(objects * DOCUMENTS);
        assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (all, all), "{point}");
    }
}

#[tokio::test]
async fn an_object_that_was_replaced_is_refused_by_its_tag() {
    each_build(async |db| {
        let (bucket, url) = (Bucket::start(), db.url());
        fill(&bucket, 40);
        let source = Bucket::s3("d/*.ndjson");
        let args = ["--lanes", "1", "--batch-rows", "30"];
        killed(&mut load(&bucket, &url, &source, &args), "batch-committed=kill@4");
        // The same bytes as another version: nobody has compared them.
        bucket.put(&key(0), text(0));
        calm(&bucket);
        let refused = run(&mut load(&bucket, &url, &source, &[])).ends(2);
        assert!(refused.stderr.contains("have changed since the load read them"), "{refused:?}");
        assert!(refused.stderr.contains("--resume off"), "{refused:?}");
        assert!(!read(&bucket).contains(&key(0)), "its tag says enough");
        run(&mut load(&bucket, &url, &source, &["--resume", "off"])).ends(0);
    })
    .await;
}

#[tokio::test]
async fn sums_of_the_same_objects_are_added_once() {
    each_build(async |db| {
        let (bucket, url) = (Bucket::start(), db.url());
        fill(&bucket, 20);
        let (source, sum) = (Bucket::s3("d/*.ndjson"), ["--mode", "sum:n"]);
        let first = run(&mut load(&bucket, &url, &source, &sum)).ends(0).json();
        calm(&bucket);
        let again = run(&mut load(&bucket, &url, &source, &sum)).ends(0).json();
        assert_eq!(again["load_id"], first["load_id"]);
        assert_eq!(read(&bucket), [key(19)], "only the last may have gone on");
        bucket.put(&key(3), text(3));
        let refused = run(&mut load(&bucket, &url, &source, &sum)).ends(2);
        assert!(refused.stderr.contains("changed"), "{refused:?}");
    })
    .await;
}

#[tokio::test]
async fn an_object_that_is_replaced_while_it_is_read_ends_the_load() {
    each_build(async |db| {
        let (bucket, url, client) = (Bucket::start(), db.url(), db.client().await);
        // Larger than what is read at once.
        let text: String =
            (0..200_000).map(|id| format!("{{\"id\":{id},\"padding\":\"{}\"}}\n", "x".repeat(60))).collect();
        bucket.put("large.ndjson", text.clone());
        bucket.answers(|asked| match asked.range {
            Some((start, _)) if start > 8 << 20 => Answer::CutAndReplaced(1_000),
            _ => Answer::Whole,
        });
        let source = Bucket::s3("large.ndjson");
        let ended = run(&mut load(&bucket, &url, &source, &["--batch-rows", "10000"])).ends(2);
        assert!(ended.stderr.contains("s3://bucket/large.ndjson was replaced while it was read"), "{ended:?}");
        assert!(ended.stderr.contains("--resume off"), "{ended:?}");
        // Nothing of the other version.
        let broken: i64 =
            client.query_one("select count(*) from t where doc->>'padding' !~ '^x{60}$'", &[]).await.unwrap().get(0);
        assert_eq!(broken, 0);
        calm(&bucket);
        bucket.put("large.ndjson", text);
        run(&mut load(&bucket, &url, &source, &["--resume", "off"])).ends(0);
        verify(&bucket, &url, &source).ends(0);
    })
    .await;
}

#[tokio::test]
async fn a_store_in_trouble_is_no_trouble_for_a_load() {
    each_build(async |db| {
        let (bucket, url) = (Bucket::start(), db.url());
        fill(&bucket, 30);
        let mut requests = 0;
        bucket.answers(move |_| {
            requests += 1;
            match requests % 7 {
                1 => Answer::Status(503, "SlowDown"),
                3 => Answer::Cut(40),
                5 => Answer::Closed,
                6 => Answer::Late(Duration::from_millis(20)),
                _ => Answer::Whole,
            }
        });
        let source = Bucket::s3("d/*.ndjson");
        let receipt = run(&mut load(&bucket, &url, &source, &["--strict"])).ends(0).json();
        assert_eq!((&receipt["read"], &receipt["inserted"]), (&300.into(), &300.into()));
    })
    .await;
}

/// How many objects a load has left out, and how many documents it has read.
#[track_caller]
fn skipped_and_read(run: &Run) -> (u64, u64) {
    let receipt = run.json();
    (receipt["skipped_files"].as_u64().unwrap_or_default(), receipt["read"].as_u64().unwrap())
}

/// The keys of the objects that were read, each once.
fn read_keys(bucket: &Bucket) -> BTreeSet<String> {
    read(bucket).into_iter().collect()
}

#[tokio::test]
async fn objects_that_were_loaded_before_are_left_out_without_reading_them() {
    each_build(async |db| {
        let (bucket, url) = (Bucket::start(), db.url());
        fill(&bucket, 20);
        let source = Bucket::s3("d/*.ndjson");
        let skipping = |more: &[&str]| load(&bucket, &url, &source, &[&["--skip-loaded"][..], more].concat());
        assert_eq!(skipped_and_read(&run(&mut skipping(&[])).ends(0)), (0, 200));
        calm(&bucket);
        let again = run(&mut skipping(&[])).ends(0);
        assert!(again.stderr.contains("skipped 20 of 20 files: loaded before"), "{again:?}");
        assert_eq!(again.json()["load_id"], 0);
        assert!(read(&bucket).is_empty(), "their tags say enough");
        // The same bytes as another version, and a new object.
        bucket.put(&key(3), text(3));
        bucket.put(&key(20), text(20));
        assert_eq!(skipped_and_read(&run(&mut skipping(&[])).ends(0)), (19, 20));
        assert_eq!(read_keys(&bucket), BTreeSet::from([key(3), key(20)]));
        // What a killed load has committed is not read again, and counts as loaded once the load is finished.
        (21..61).for_each(|n| bucket.put(&key(n), text(n)));
        killed(&mut skipping(&["--lanes", "1", "--batch-rows", "30"]), "batch-committed=kill@5");
        calm(&bucket);
        assert_eq!(skipped_and_read(&run(&mut skipping(&[])).ends(0)), (21, 400));
        assert!(!read(&bucket).contains(&key(21)), "{:?}", read(&bucket));
        calm(&bucket);
        assert_eq!(skipped_and_read(&run(&mut skipping(&[])).ends(0)), (61, 0));
        assert!(read(&bucket).is_empty());
    })
    .await;
}

#[tokio::test]
async fn sums_of_new_objects_are_added_and_a_replaced_one_is_refused() {
    each_build(async |db| {
        let (bucket, url) = (Bucket::start(), db.url());
        fill(&bucket, 5);
        let source = Bucket::s3("d/*.ndjson");
        let sum = || run(&mut load(&bucket, &url, &source, &["--skip-loaded", "--mode", "sum:n"]));
        assert_eq!(skipped_and_read(&sum().ends(0)), (0, 50));
        bucket.put(&key(5), text(5));
        assert_eq!(skipped_and_read(&sum().ends(0)), (5, 10));
        bucket.put(&key(2), text(2));
        let refused = sum().ends(2);
        assert!(refused.stderr.contains("s3://bucket/d/0002.ndjson"), "{refused:?}");
        let total = "select sum((doc->>'n')::bigint)::bigint from t";
        assert_eq!(db.client().await.query_one(total, &[]).await.unwrap().get::<_, i64>(0), 60);
    })
    .await;
}

#[tokio::test]
async fn rows_that_no_object_has_are_deleted_also_after_a_kill() {
    each_build(async |db| {
        let (bucket, url, client) = (Bucket::start(), db.url(), db.client().await);
        let objects = 100;
        fill(&bucket, objects);
        let source = Bucket::s3("d/*.ndjson");
        run(&mut load(&bucket, &url, &source, &[])).ends(0);
        let args = ["--delete-missing", "--lanes", "1", "--batch-rows", "30"];
        for (n, point) in (0_u32..).zip(["batch-committed=kill@9", "missing-found=kill"]) {
            bucket.delete(&key(n));
            killed(&mut load(&bucket, &url, &source, &args), point);
            calm(&bucket);
            let receipt = run(&mut load(&bucket, &url, &source, &args)).ends(0).json();
            assert_eq!(receipt["deleted_missing"], DOCUMENTS, "{point}: {receipt}");
            let left = objects - n - 1;
            assert_eq!(receipt["read"], left * DOCUMENTS, "{point}: {receipt}");
            assert_eq!(read_keys(&bucket).len(), left as usize, "{point}: the keys of all documents are needed");
            let count: i64 = client.query_one("select count(*) from t", &[]).await.unwrap().get(0);
            assert_eq!(count, i64::from(left * DOCUMENTS), "{point}");
        }
    })
    .await;
}

#[tokio::test]
async fn documents_say_which_object_they_come_from() {
    each_build(async |db| {
        let (bucket, url, client) = (Bucket::start(), db.url(), db.client().await);
        for day in [1, 2] {
            bucket.put(&format!("lake/year=2026/day=0{day}/a.ndjson"), format!("{{\"id\":{day}}}\n"));
        }
        let origin = ["--with-source", "from", "--with-partitions"];
        let source = Bucket::s3("lake/**/*.ndjson");
        run(&mut load(&bucket, &url, &source, &origin)).ends(0);
        let verify = ["verify", &source, "--into", "t", "--key", "id", "--exact", "--db", &url, "--progress", "none"];
        run(command(&[&verify[..], &origin].concat()).envs(bucket.environment())).ends(0);
        let stored =
            "select string_agg(concat_ws(' ', doc->>'from', doc->>'year', doc->>'day'), ',' order by id) from t";
        let stored: String = client.query_one(stored, &[]).await.unwrap().get(0);
        let expected = ["01", "02"].map(|day| format!("s3://bucket/lake/year=2026/day={day}/a.ndjson 2026 {day}"));
        assert_eq!(stored, expected.join(","));
        // What follows the path may be a secret.
        let web = bucket.web("lake/year=2026/day=01/a.ndjson");
        run(&mut load(&bucket, &url, &format!("{web}?sig=hush"), &origin)).ends(0);
        let stored = client.query_one("select doc->>'from', doc->>'day' from t where id = 1", &[]).await.unwrap();
        assert_eq!((stored.get::<_, &str>(0), stored.get::<_, &str>(1)), (web.as_str(), "01"));
    })
    .await;
}

#[tokio::test]
async fn dumps_of_mongodb_are_objects_too() {
    // Two documents, with 1 and 3 as their _id.
    let documents = b"\x0e\0\0\0\x10_id\0\x01\0\0\0\0\x0e\0\0\0\x10_id\0\x03\0\0\0\0";
    each_build(async |db| {
        let (bucket, url, client) = (Bucket::start(), db.url(), db.client().await);
        for (name, content) in [("orders.bson", documents.to_vec()), ("orders.bson.gz", gzip(documents))] {
            client.batch_execute("drop table if exists orders").await.unwrap();
            bucket.put(&format!("{name}/{name}"), content);
            bucket.put(&format!("{name}/orders.metadata.json"), "{\"options\":{}}");
            let pattern = Bucket::s3(&format!("{name}/*"));
            let fixed = ["--into", "orders", "--db", &url, "--progress", "none", "--output", "json"];
            let load = [&["load", &pattern][..], &fixed].concat();
            let receipt = run(command(&load).envs(bucket.environment())).ends(0).json();
            assert_eq!((&receipt["read"], &receipt["inserted"]), (&2.into(), &2.into()), "{name}: {receipt}");
            let keys = "select string_agg(_id::text, ',' order by _id) from orders";
            let keys: String = client.query_one(keys, &[]).await.unwrap().get(0);
            assert_eq!(keys, "1,3", "{name}");
            let verify = [&["verify", &pattern, "--exact"][..], &fixed].concat();
            run(command(&verify).envs(bucket.environment())).ends(0);
            let cat = run(command(&["cat", &pattern]).envs(bucket.environment())).ends(0);
            assert_eq!(cat.stdout, "{\"_id\":1}\n{\"_id\":3}\n", "{name}");
        }
    })
    .await;
}
