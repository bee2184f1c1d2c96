//! The command `explain-index`: which indexes of a model a query uses.

use crate::process::millstream;
use millstream_testkit::each_build;
use serde_json::Value;
use std::process::Command;

#[tokio::test(flavor = "multi_thread")]
async fn explain_index_names_a_missed_index_and_prints_a_working_fix() {
    each_build(async |db| {
        let dir = tempfile::tempdir().unwrap();
        let (url, file) = (db.url(), dir.path().join("a.ndjson"));
        let documents: Vec<String> =
            (1..=2_000).map(|id| format!("{{\"id\":{id},\"mac\":\"A{id}\",\"price\":{id}}}\n")).collect();
        std::fs::write(&file, documents.concat()).unwrap();
        let run = |args: &[&str], code: i32| {
            let run = millstream(&[args, &["--db", &url]].concat()).ends(code);
            (run.stdout, run.stderr)
        };
        run(&["load", file.to_str().unwrap(), "--into", "offers", "--key", "id:bigint"], 0);
        let index = ["--index", "lower(doc->>'mac')", "--index", "price"];
        let publish = ["publish", "offers", "--as", "seen", "--column", "price:numeric=price", "--where", "id > 0"];
        run(&[&publish[..], &index].concat(), 0);
        let explain = |query: &str, code: i32| run(&["explain-index", "seen", query], code);

        for (query, expected) in [
            ("select * from seen where price > 1990", "seen: uses index (price)\n"),
            ("select * from seen where price = $1", "seen: uses index (price)\n"),
            ("select * from seen where id = 3", "seen: uses the key\n"),
            (
                "select * from seen where price > 0",
                "seen: can use index (price), and the planner thinks that another way is cheaper\n",
            ),
        ] {
            let (stdout, _) = explain(query, 0);
            assert!(stdout.starts_with(expected), "{query}: {stdout}");
        }
        for (query, expected) in [
            ("select * from seen", "nothing that an index could look up"),
            ("select * from seen a join seen b using (id) where b.doc ? 'x'", "no index covers it"),
        ] {
            let (stdout, _) = explain(query, 1);
            assert!(stdout.contains(expected), "{query}: {stdout}");
        }
        for (query, expected) in [
            ("select 1", "the plan of this query reads no row of seen"),
            ("select 1; drop table offers", "this is more than one statement"),
            ("delete from seen", "begins with \"delete\""),
            ("with gone as (delete from offers returning *) select * from gone, seen", "the query changes rows"),
            ("select * from seen where cost = 1", "column \"cost\" does not exist"),
            ("select * form seen", "the query is refused: syntax error at or near \"form\" (SQLSTATE 42601)"),
            ("select id, count(*) from seen", "must appear in the GROUP BY clause"),
            ("select $1 from seen where id = 3 and $2 is null", "could not determine data type of parameter $2"),
        ] {
            let (_, stderr) = explain(query, 2);
            assert!(stderr.contains(expected) && stderr.contains("error: "), "{query}: {stderr}");
        }
        let client = db.client().await;
        let part = "select format('millstream.model_%s_%s', model_id, serving) from millstream.model";
        let part: String = client.query_one(part, &[]).await.unwrap().get(0);
        client.batch_execute(&format!("create index by_hand on {part} ((doc->>'id'))")).await.unwrap();
        let (by_hand, _) = explain("select * from seen where doc->>'id' = '7'", 0);
        assert!(by_hand.starts_with("seen: uses index by_hand\n"), "{by_hand}");
        client.batch_execute("drop index millstream.by_hand").await.unwrap();
        let (_, nothing) = run(&["explain-index", "nothing", "select 1"], 2);
        assert!(nothing.contains("nothing is neither a model nor a collection"), "{nothing}");

        let missed = "select * from seen where doc->>'mac' = 'A7'";
        let (json, _) = run(&["explain-index", "seen", missed, "--output", "json"], 1);
        let found: Value = serde_json::from_str(&json).unwrap();
        let near = &found["readings"][0]["missed"][0]["near"][0];
        assert_eq!((&near["kind"], &near["index"]), (&"wrapped".into(), &"(lower(doc->>'mac'))".into()), "{json}");
        let (text, _) = explain(missed, 1);
        let line = |start: &str| {
            text.lines().find_map(|line| line.trim().strip_prefix(start)).unwrap_or_else(|| panic!("{text}"))
        };
        assert!(text.contains("the query compares doc ->> 'mac', the index holds lower(doc ->> 'mac')"), "{text}");
        let changed = line("change the query: ");
        assert_eq!(changed, "lower(doc ->> 'mac') = lower('A7')");
        explain(&format!("select * from seen where {changed}"), 0);
        // The printed command can be run as it is, and keeps the rest of the model.
        let again = format!("\"$0\" {} --db '{url}'", line("millstream "));
        let binary = env!("CARGO_BIN_EXE_millstream");
        assert!(Command::new("sh").args(["-c", &again, binary]).output().unwrap().status.success(), "{again}");
        for query in
            [missed, "select * from seen where price > 1990", "select * from seen where lower(doc->>'mac') = ''"]
        {
            explain(query, 0);
        }

        let (of_table, _) = run(&["explain-index", "offers", "select * from offers where doc->>'mac' = 'A7'"], 1);
        let create = of_table.lines().map(str::trim).find(|line| line.starts_with("create index on ")).unwrap();
        let client = db.client().await;
        client.batch_execute(create).await.unwrap();
        run(&["explain-index", "offers", "select * from offers where doc->>'mac' = 'A7'"], 0);

        // If no copy can be made, repairs are printed but not tried.
        client
            .batch_execute(&format!("alter database {} set default_transaction_read_only = on", db.name))
            .await
            .unwrap();
        let (untried, warned) = explain("select * from seen where doc->>'name' = 'x' and doc->>'mac' || '' = 'y'", 1);
        assert!(warned.contains("warning: the repairs were not tried") && !untried.contains("was tried"), "{warned}");
        client.batch_execute(&format!("alter database {} reset default_transaction_read_only", db.name)).await.unwrap();
    })
    .await;
}
