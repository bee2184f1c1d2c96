//! Typed columns on the command line: from their definition to a dump of their table.

use crate::process::{Run, millstream, run};
use millstream_testkit::{Feature, TestDatabase, each_build, each_build_with, every_build};
use serde_json::json;
use std::process::Command;
use tokio_postgres::Client;

/// A good document, one whose price does not fit, and one without a price.
const TEXT: &str = "{\"id\":1,\"price\":\"1.5\",\"at\":\"2026-01-02T03:04:05Z\"}\n\
                    {\"id\":2,\"price\":\"many\",\"at\":\"2026-01-02T03:04:05+01:00\"}\n\
                    {\"id\":3}\n";

const COLUMNS: &[&str] = &["--column", "price:numeric=price", "--column", "at:timestamptz=at"];

struct Scene {
    url: String,
    client: Client,
    dir: tempfile::TempDir,
}

impl Scene {
    async fn new(db: &TestDatabase) -> Self {
        Self { url: db.url(), client: db.client().await, dir: tempfile::tempdir().unwrap() }
    }

    fn run(&self, args: &[&str]) -> Run {
        millstream(&[args, &["--db", &self.url]].concat())
    }

    fn path(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().unwrap().to_owned()
    }

    fn load(&self, text: &str, more: &[&str]) -> Run {
        let file = self.path("a.ndjson");
        std::fs::write(&file, text).unwrap();
        self.run(&[&["load", &file, "--into", "public.shop", "--key", "id:bigint"], more].concat())
    }

    async fn text(&self, sql: &str) -> String {
        self.client.query_one(sql, &[]).await.unwrap_or_else(|error| panic!("{sql}: {error:?}")).get(0)
    }

    /// The prices and times of the table, in its order.
    async fn prices(&self) -> String {
        let row = "concat_ws(' ', id, price, \"at\" at time zone 'utc')";
        self.text(&format!("select string_agg({row}, ', ' order by id) from public.shop")).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rejects_name_their_column_and_are_mended() {
    every_build(async |db| {
        let scene = Scene::new(&db).await;
        let loaded = scene.load(TEXT, COLUMNS).ends(1);
        assert!(loaded.stderr.contains("column: price:numeric=price (as given)"), "{loaded:?}");
        assert_eq!(scene.prices().await, "1 1.5 2026-01-02 03:04:05, 3");
        let rejects = scene.run(&["rejects", "public.shop", "--output", "json"]).ends(0).json();
        let reject = &rejects["rejects"][0];
        assert_eq!((&reject["line"], &reject["reason"]), (&json!(2), &json!("column_type")), "{rejects}");
        let detail = "column \"price\": expected numeric, but the value at price is not one";
        assert_eq!(reject["detail"], detail, "{rejects}");

        let export = scene.path("mend.rejects");
        scene.run(&["rejects", "public.shop", "--export", &export, "--clear"]).ends(0);
        let mended = std::fs::read_to_string(&export).unwrap().replace("many", "2.5");
        std::fs::write(&export, mended).unwrap();
        let args = ["load", "--format", "rejects", &export, "--into", "public.shop", "--key", "id:bigint"];
        let mended = scene.run(&args).ends(0);
        assert!(mended.stderr.contains("column: price:numeric=price (the collection's own)"), "{mended:?}");
        assert_eq!(scene.prices().await, "1 1.5 2026-01-02 03:04:05, 2 2.5 2026-01-02 02:04:05, 3");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_is_found_before_the_load() {
    each_build(async |db| {
        let scene = Scene::new(&db).await;
        let dry = scene.load(TEXT, &[COLUMNS, &["--dry-run"]].concat()).ends(1);
        assert!(dry.stdout.contains("column: at:timestamptz=at (as given)"), "{dry:?}");
        assert!(
            dry.stdout.contains("\"price\" numeric generated always as ((doc ->> 'price')::numeric) stored"),
            "{dry:?}"
        );
        assert!(dry.stdout.contains(":2: column_type: column \"price\": expected numeric"), "{dry:?}");
        let strict = scene.load(TEXT, &[COLUMNS, &["--strict"]].concat()).ends(2);
        assert!(strict.stderr.contains("nothing was written"), "{strict:?}");
        assert_eq!(scene.text("select coalesce(to_regclass('public.shop')::text, 'none')").await, "none");
        let first = scene.load(TEXT, &[COLUMNS, &["--max-rejects", "0", "--lanes", "1"]].concat()).ends(2);
        assert!(first.stderr.contains("column \"price\": expected numeric"), "{first:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_choice_of_columns_is_printed_and_listed() {
    each_build(async |db| {
        let scene = Scene::new(&db).await;
        let loaded = scene.load(TEXT, &["--columns", "all"]).ends(0);
        for line in [
            "column: price:text=price (2 strings, 1 document without it)",
            "column: at:timestamptz=at (2 RFC 3339 times, 1 document without it)",
        ] {
            assert!(loaded.stderr.contains(line), "{loaded:?}");
        }
        let listed = scene.run(&["collections"]).ends(0);
        assert!(listed.stdout.contains("price:text=price, at:timestamptz=at"), "{listed:?}");
        let listed = scene.run(&["collections", "--output", "json"]).ends(0).json();
        let columns = &listed[0]["columns"];
        assert_eq!(
            (&columns[0]["name"], &columns[0]["type"], &columns[0]["path"]),
            (&json!("price"), &json!("text"), &json!(["price"]))
        );

        let refused = scene.load(TEXT, COLUMNS).ends(2);
        assert!(
            refused.stderr.contains("its column price is not price:numeric=price: it is price:text=price"),
            "{refused:?}"
        );
        assert!(
            refused
                .stderr
                .contains("alter table \"public\".\"shop\" drop column \"price\", add column \"price\" numeric"),
            "{refused:?}"
        );
        scene.load(TEXT, &["--columns", "all"]).ends(0);
        for wrong in [
            &["--columns", "all", "--column", "a:text=a"][..],
            &["--column", "price:money=price"],
            &["--column", "id:text=id"],
            &["--columns", "all", "--layout", "log"],
        ] {
            scene.load(TEXT, wrong).ends(2);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn read_models_may_index_them() {
    each_build(async |db| {
        let scene = Scene::new(&db).await;
        scene.load(TEXT, COLUMNS).ends(1);
        let publish = ["publish", "public.shop", "--as", "public.shown"];
        scene.run(&[&publish[..], &["--index", "price", "--index", "at desc, id"]].concat()).ends(0);
        let sql =
            "select string_agg(concat_ws(' ', id, price, \"at\" at time zone 'utc'), ', ' order by id) from public.shown";
        assert_eq!(scene.text(sql).await, "1 1.5 2026-01-02 03:04:05, 3");
        // A model keeps its columns when an index goes.
        scene.run(&[&publish[..], &["--index", "at"]].concat()).ends(0);
        scene.load("{\"id\":4,\"price\":4}\n", &[]).ends(0);
        scene.run(&["refresh", "public.shown"]).ends(0);
        assert_eq!(scene.text(sql).await, "1 1.5 2026-01-02 03:04:05, 3, 4 4");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn freezing_keeps_them() {
    each_build(async |db| {
        for in_place in [false, true] {
            let scene = Scene::new(&db).await;
            scene.load(TEXT, &[COLUMNS, &["--durability", "unlogged"]].concat()).ends(1);
            let more: &[&str] = if in_place { &["--in-place"] } else { &[] };
            scene.run(&[&["freeze", "public.shop", "--yes"], more].concat()).ends(0);
            assert_eq!(scene.prices().await, "1 1.5 2026-01-02 03:04:05, 3");
            let listed = scene.run(&["collections"]).ends(0);
            assert!(listed.stdout.contains("price:numeric=price, at:timestamptz=at"), "{listed:?}");
            scene.run(&["drop", "public.shop", "--table", "--yes"]).ends(0);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dump_restores_them() {
    each_build_with(&[Feature::Dump], async |db| {
        let mut scene = Scene::new(&db).await;
        scene.load(TEXT, COLUMNS).ends(1);
        let program = |name: &str, url: &str| {
            let mut program = Command::new(db.build().installation.program(name));
            program.args(["--dbname", url]);
            program
        };
        let file = scene.path("dump");
        run(program("pg_dump", &db.url()).args(["--format=custom", "--file", &file])).ends(0);
        // With our schema, and without it.
        for (n, more) in [&["--exit-on-error"][..], &["--exit-on-error", "--schema=public"]].iter().enumerate() {
            let copy = TestDatabase { name: format!("{}_copy_{n}", db.name), server: db.server };
            db.client()
                .await
                .batch_execute(&format!("create database {} template template0", copy.name))
                .await
                .unwrap();
            run(program("pg_restore", &copy.url()).args(*more).arg(&file)).ends(0);
            (scene.url, scene.client) = (copy.url(), copy.client().await);
            assert_eq!(scene.prices().await, "1 1.5 2026-01-02 03:04:05, 3");
            let adopt: &[&str] = if n == 0 { &[] } else { &["--adopt"] };
            let loaded =
                scene.load("{\"id\":3,\"price\":3}\n{\"id\":4,\"at\":\"noon\"}\n", &[COLUMNS, adopt].concat()).ends(1);
            assert!(loaded.stderr.contains("column: at:timestamptz=at (the collection's own)"), "{loaded:?}");
            assert_eq!(scene.prices().await, "1 1.5 2026-01-02 03:04:05, 3 3");
        }
    })
    .await;
}
