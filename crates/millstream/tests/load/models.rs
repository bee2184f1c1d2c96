//! Read models, by their commands.

use crate::process::{assert_runs, command, millstream, send};
use millstream_testkit::{each_build, until};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

#[tokio::test(flavor = "multi_thread")]
async fn a_model_is_published_refreshed_listed_and_removed() {
    each_build(async |db| {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.ndjson");
        std::fs::write(&file, "{\"id\":1,\"price\":2.5}\n{\"id\":2,\"price\":\"dear\"}\n{\"id\":3,\"price\":7}\n")
            .unwrap();
        let url = db.url();
        let run = |args: &[&str], code: i32| {
            let run = millstream(&[args, &["--db", &url]].concat()).ends(code);
            (run.stdout, run.stderr)
        };
        run(&["load", file.to_str().unwrap(), "--into", "public.offers", "--key", "id:bigint"], 0);
        let publish =
            ["publish", "offers", "--as", "offers_read", "--column", "price:numeric=price", "--index", "price"];
        let (built, _) = run(&publish, 0);
        assert!(built.starts_with("offers_read: 3 rows by swap in "), "{built}");
        assert!(built.contains("price: null for 1 document whose value does not fit numeric, such as 2"), "{built}");

        let client = db.client().await;
        let dear = "select count(*) from public.offers_read where price > 3";
        assert_eq!(client.query_one(dear, &[]).await.unwrap().get::<_, i64>(0), 1);
        client
            .batch_execute("analyze public.offers; update public.offers set doc = '{\"price\": 9}' where id = 1")
            .await
            .unwrap();
        let (dry, _) = run(&["refresh", "offers_read", "--dry-run", "--way", "incremental"], 0);
        assert!(dry.contains("incremental") && dry.contains("it was asked for"), "{dry}");
        let (changed, _) = run(&["refresh", "offers_read", "--way", "incremental", "--output", "json"], 0);
        let changed: Value = serde_json::from_str(&changed).unwrap();
        assert_eq!((&changed[0]["way"], &changed[0]["rows"]), (&"incremental".into(), &1.into()), "{changed}");
        assert_eq!(client.query_one(dear, &[]).await.unwrap().get::<_, i64>(0), 2);

        let (listed, _) = run(&["models"], 0);
        assert!(listed.contains("offers_read") && listed.contains("offers") && listed.contains("(price)"), "{listed}");
        let (_, refused) = run(&["drop", "offers", "--yes"], 2);
        assert!(refused.contains("millstream unpublish offers_read"), "{refused}");
        let (_, wrong) = run(&["publish", "offers", "--as", "other", "--index", "no_such("], 2);
        assert!(wrong.contains("the server refuses index \"no_such(\""), "{wrong}");
        run(&["unpublish", "offers_read"], 0);
        run(&["refresh", "offers_read"], 2);
        let (_, none) = run(&["models"], 0);
        assert!(none.contains("no models yet"), "{none}");
        run(&["drop", "offers", "--yes"], 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn models_lists_kinds_and_pending_changes() {
    each_build(async |db| {
        let dir = tempfile::tempdir().unwrap();
        let (url, file) = (db.url(), dir.path().join("a.ndjson"));
        let file = file.to_str().unwrap();
        let run = |args: &[&str], code: i32| millstream(&[args, &["--db", &url]].concat()).ends(code);
        let load = |text: &str, more: &[&str]| {
            std::fs::write(file, text).unwrap();
            run(&[&["load", file, "--into", "public.offers", "--key", "id:bigint"], more].concat(), 0);
        };
        load("{\"id\":1}\n{\"id\":2}\n{\"id\":3}\n", &[]);
        run(&["publish", "offers", "--as", "plain"], 0);
        let publish = ["publish", "offers", "--as", "kept", "--materialized", "--index", "doc->>'price'"];
        let built = run(&publish, 0).stdout;
        assert!(built.starts_with("kept: 3 rows by materialized in "), "{built}");
        // The line of a model as text, and as JSON.
        let line = |model: &str| {
            let table = run(&["models"], 0).stdout;
            let line = table.lines().find(|line| line.starts_with(model)).unwrap_or_else(|| panic!("{table}"));
            line.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let json = |model: &str| -> Value {
            let all: Vec<Value> = serde_json::from_str(&run(&["models", "--output", "json"], 0).stdout).unwrap();
            all.into_iter().find(|one| one["name"]["table"] == model).unwrap()
        };
        assert!(line("plain").contains(" swap 0 0 B"), "{}", line("plain"));
        assert!(line("kept").contains(" materialized ? 0 B"), "{}", line("kept"));
        assert_eq!((&json("plain")["owner"], &json("kept")["owner"]), (&"millstream".into(), &"millstream".into()));
        assert_eq!(json("kept")["definition"]["materialized"], true);

        let client = db.client().await;
        client.batch_execute("update public.offers set doc = '{\"price\": 9}' where id < 3").await.unwrap();
        assert!(line("plain").contains(" swap 2 "), "{}", line("plain"));
        assert!(json("plain")["lag_seconds"].is_number(), "{}", json("plain"));
        load("{\"id\":4}\n{\"id\":5}\n", &["--layout", "log", "--lanes", "1"]);
        for (model, waiting) in [("plain", " swap 2 + 2 in 1 segment "), ("kept", " materialized ? + 2 in 1 segment ")]
        {
            assert!(line(model).contains(waiting), "{}", line(model));
        }
        assert_eq!((&json("kept")["waiting_segments"], &json("kept")["waiting_documents"]), (&1.into(), &2.into()));
        run(&["refresh", "plain", "kept"], 0);
        for model in ["plain", "kept"] {
            let rows = client.query_one(&format!("select count(*) from public.{model}"), &[]).await.unwrap();
            assert_eq!(rows.get::<_, i64>(0), 5, "{model}");
        }
        client.batch_execute("truncate public.offers").await.unwrap();
        assert!(line("plain").contains(" all "), "{}", line("plain"));
        let other = run(&["publish", "offers", "--as", "kept", "--materialized", "--where", "id > 1"], 2).stderr;
        assert!(other.contains("only the indexes can change") && other.contains("hint: "), "{other}");
        let plain = run(&["publish", "offers", "--as", "kept", "--index", "id"], 2).stderr;
        assert!(plain.contains("is a materialized view, and stays one"), "{plain}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_refreshes_the_models_it_names() {
    each_build(async |db| {
        let dir = tempfile::tempdir().unwrap();
        let (url, file) = (db.url(), dir.path().join("a.ndjson"));
        let load = |text: &str, more: &[&str], code: i32| {
            std::fs::write(&file, text).unwrap();
            let file = file.to_str().unwrap();
            let args = ["load", file, "--into", "public.offers", "--key", "id:bigint", "--db", &url];
            millstream(&[&args, more].concat()).ends(code)
        };
        let client = db.client().await;
        let rows = async |table: &str| {
            client.query_one(&format!("select count(*) from {table}"), &[]).await.unwrap().get::<_, i64>(0)
        };
        load("{\"id\":1}\n", &[], 0);
        let early = load("{\"id\":2}\n", &["--publish", "offers_read"], 2);
        assert!(early.stderr.contains("offers_read is not a model"), "{early:?}");
        assert_eq!(rows("public.offers").await, 1, "nothing is loaded for a name that is not a model");
        for model in ["offers_read", "offers_too"] {
            millstream(&["publish", "offers", "--as", model, "--db", &url]).ends(0);
        }

        let other = [
            "load",
            file.to_str().unwrap(),
            "--into",
            "others",
            "--key",
            "id",
            "--publish",
            "offers_read",
            "--db",
            &url,
        ];
        let other = millstream(&other).ends(2).stderr;
        assert!(other.contains("offers_read is a model of offers, not of others"), "{other}");
        for workers in ["0", "9"] {
            millstream(&["refresh", "offers_read", "--workers", workers, "--db", &url]).ends(2);
        }

        let both = ["--publish", "offers_read", "--publish", "offers_too"];
        let printed = load("{\"id\":2}\n", &both, 0).stdout;
        assert!(printed.find("1 inserted").unwrap_or(0) < printed.find("offers_read: ").unwrap(), "{printed}");
        assert!(printed.contains("offers_too: "), "{printed}");
        assert_eq!((rows("public.offers_read").await, rows("public.offers_too").await), (2, 2));

        // A reject still gives exit code 1. The receipt is the first JSON value, the refresh the second.
        let found = load("{\"id\":3}\n{\"no\":1}\n", &[&both[..2], &["--output", "json"]].concat(), 1);
        let values: Vec<Value> =
            serde_json::Deserializer::from_str(&found.stdout).into_iter().collect::<Result<_, _>>().unwrap();
        assert_eq!(values.len(), 2, "{found:?}");
        assert_eq!((&values[0]["inserted"], &values[1][0]["model"]["table"]), (&1.into(), &"offers_read".into()));
        assert_eq!(rows("public.offers_read").await, 3);

        // If the refresh fails, the load, its receipt and the rows shown stay.
        let publish = ["publish", "offers", "--as", "fragile", "--index", "1 / (id - 4)", "--db", &url];
        millstream(&publish).ends(0);
        let failed = load("{\"id\":4}\n", &["--publish", "fragile"], 2);
        assert!(failed.stdout.contains("receipt of load 4"), "{failed:?}");
        assert!(failed.stderr.contains("bring them up to date: millstream refresh fragile"), "{failed:?}");
        assert!(failed.stderr.contains("error: ") && failed.stderr.contains("division by zero"), "{failed:?}");
        assert_eq!((rows("public.offers").await, rows("public.fragile").await), (4, 3));
    })
    .await;
}

fn interrupt(running: &mut Child) -> Option<i32> {
    send("INT", running.id());
    running.wait().unwrap().code()
}

#[tokio::test(flavor = "multi_thread")]
async fn one_process_at_a_time_keeps_refreshing_a_model() {
    each_build(async |db| {
        let dir = tempfile::tempdir().unwrap();
        let (url, file) = (db.url(), dir.path().join("a.ndjson"));
        std::fs::write(&file, "{\"id\":1}\n").unwrap();
        let file = file.to_str().unwrap();
        millstream(&["load", file, "--into", "public.offers", "--key", "id:bigint", "--db", &url]).ends(0);
        let publish = ["publish", "offers", "--as", "offers_read", "--every", "1h", "--db", &url];
        let start = || command(&publish).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut first = start();
        let mut line = String::new();
        BufReader::new(first.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("offers_read: 1 row by swap"), "{line}");
        let client = db.client().await;
        let runner = format!(
            "select pid from pg_locks where locktype = 'advisory' and classid = {} \
             and database = (select oid from pg_database where datname = current_database())",
            0x6d73_6c72
        );
        let pid: i32 = client.query_one(&runner, &[]).await.unwrap().get(0);
        let defined = "select string_agg(concat(definition, wanted), '') from millstream.model";
        let before: String = client.query_one(defined, &[]).await.unwrap().get(0);
        let second = millstream(&[&publish[..], &["--index", "doc"]].concat()).ends(2);
        assert_eq!(client.query_one(defined, &[]).await.unwrap().get::<_, String>(0), before, "it changes nothing");
        assert!(second.stderr.contains(&format!("is kept up to date by another session: pid {pid} ")), "{second:?}");
        assert_eq!(interrupt(&mut first), Some(130), "between two refreshes");

        // In the middle of its first refresh, which waits for the collection.
        client.batch_execute("insert into public.offers values (2, '{}')").await.unwrap();
        let owner = db.client().await;
        owner.batch_execute("begin; lock table public.offers in access exclusive mode").await.unwrap();
        let mut third = start();
        let waiting = "select count(*) from pg_locks where relation = 'public.offers'::regclass and not granted";
        until("the refresh waits for the collection", async || {
            assert_runs(&mut third);
            client.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) > 0
        })
        .await;
        assert_eq!(interrupt(&mut third), Some(130), "in the middle of a refresh");
        owner.batch_execute("commit").await.unwrap();
        millstream(&["refresh", "offers_read", "--db", &url]).ends(0);
        let rows = client.query_one("select count(*) from public.offers_read", &[]).await.unwrap();
        assert_eq!(rows.get::<_, i64>(0), 2);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runner_ends_when_its_model_is_unpublished() {
    each_build(async |db| {
        let dir = tempfile::tempdir().unwrap();
        let (url, file) = (db.url(), dir.path().join("a.ndjson"));
        std::fs::write(&file, "{\"id\":1}\n").unwrap();
        millstream(&["load", file.to_str().unwrap(), "--into", "offers", "--key", "id:bigint", "--db", &url]).ends(0);
        let publish = ["publish", "offers", "--as", "offers_read", "--every", "50ms", "--db", &url];
        let mut runner = command(&publish).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(runner.stdout.take().unwrap());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        assert!(line.starts_with("offers_read: 1 row by"), "{line}");
        millstream(&["unpublish", "offers_read", "--db", &url]).ends(0);
        std::io::copy(&mut lines, &mut std::io::sink()).unwrap();
        let ended = runner.wait_with_output().unwrap();
        let printed = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(2), "{printed}");
        assert!(printed.contains("error: offers_read is not a model"), "{printed}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_an_invalid_value_makes_its_column_null() {
    each_build(async |db| {
        let dir = tempfile::tempdir().unwrap();
        let (url, file) = (db.url(), dir.path().join("a.ndjson"));
        std::fs::write(&file, "{\"id\":1,\"n\":5}\n{\"id\":2,\"n\":-5}\n{\"id\":3,\"n\":\"x\"}\n").unwrap();
        let load = ["load", file.to_str().unwrap(), "--into", "offers", "--key", "id:bigint", "--db", &url];
        millstream(&load).ends(0);
        let client = db.client().await;
        client.batch_execute(include_str!("models.sql")).await.unwrap();
        let publish = |column: &str, code: i32| {
            let model = column.split(':').next().unwrap();
            millstream(&["publish", "offers", "--as", model, "--column", column, "--db", &url]).ends(code)
        };
        let printed = publish("few:public.positive=n", 0).stdout;
        assert!(printed.contains("few: null for 2 documents"), "{printed}");
        let failed = publish("none:public.greedy=n", 2).stderr;
        assert!(failed.contains("no memory for this"), "{failed}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn publishing_survives_the_end_of_its_session() {
    each_build(async |db| {
        let (dir, url, client) = (tempfile::tempdir().unwrap(), db.url(), db.client().await);
        let file = dir.path().join("a.ndjson");
        std::fs::write(&file, "{\"id\":1}\n").unwrap();
        millstream(&["load", file.to_str().unwrap(), "--into", "ended", "--key", "id:bigint", "--db", &url]).ends(0);
        // Creating the triggers waits for this.
        client.batch_execute("begin; lock table public.ended in row exclusive mode").await.unwrap();
        let mut publish = command(&["publish", "ended", "--as", "ended_read", "--db", &url]);
        let mut publishing = publish.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let other = db.client().await;
        let end = "select pg_terminate_backend(pid) from pg_stat_activity
                   where wait_event_type = 'Lock' and datname = current_database()";
        until("a session waits for the lock, and is ended", async || {
            assert_runs(&mut publishing);
            other.batch_execute("select pg_stat_clear_snapshot()").await.unwrap();
            !other.query(end, &[]).await.unwrap().is_empty()
        })
        .await;
        client.batch_execute("rollback").await.unwrap();
        assert!(publishing.wait_with_output().unwrap().status.success());
        assert_eq!(client.query("select from ended_read", &[]).await.unwrap().len(), 1);
    })
    .await;
}
