//! Reports: materialized views of a query over a collection, from the first build to the last.

use crate::process::{Run, command, millstream, run, send, until_held};
use millstream_testkit::{Feature, TestDatabase, each_build, each_build_with, every_build, until};
use serde_json::{Value, json};
use std::process::{Command, Stdio};
use tokio_postgres::Client;

pub const SUMS: &str = "select doc->>'shop' as shop, count(*) as sold, sum((doc->>'price')::numeric) as total \
                        from sales group by 1";

/// The collection `sales`, of six documents.
pub struct Scene {
    pub url: String,
    pub client: Client,
    dir: tempfile::TempDir,
}

impl Scene {
    pub async fn new(db: &TestDatabase) -> Self {
        let scene = Self { url: db.url(), client: db.client().await, dir: tempfile::tempdir().unwrap() };
        let document = |id: u32| {
            let shop = if id.is_multiple_of(2) { "even" } else { "odd" };
            format!("{{\"id\":{id},\"shop\":\"{shop}\",\"price\":{}}}\n", id * 10)
        };
        scene.load(&(1..=6).map(document).collect::<String>(), "sales", &[]).ends(0);
        scene
    }

    pub fn load(&self, text: &str, table: &str, more: &[&str]) -> Run {
        let file = self.dir.path().join("a.ndjson");
        std::fs::write(&file, text).unwrap();
        self.run(&[&["load", file.to_str().unwrap(), "--into", table, "--key", "id:bigint"], more].concat())
    }

    pub fn run(&self, args: &[&str]) -> Run {
        millstream(&[args, &["--db", &self.url]].concat())
    }

    /// Publishes a report of the sales.
    pub fn publish(&self, model: &str, query: &str, more: &[&str]) -> Run {
        self.run(&[&["publish", "sales", "--as", model, "--materialized", "--query", query], more].concat())
    }

    pub async fn execute(&self, sql: &str) {
        self.client.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    }

    pub async fn number(&self, sql: &str) -> i64 {
        self.client.query_one(sql, &[]).await.unwrap_or_else(|error| panic!("{sql}: {error:?}")).get(0)
    }

    /// The rows of a table or view, as text and in order.
    pub async fn rows(&self, table: &str) -> Vec<String> {
        let sql = format!("select one::text from {table} as one order by 1");
        let rows = self.client.query(&sql, &[]).await.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        rows.iter().map(|row| row.get(0)).collect()
    }

    /// Asserts that the report shows what its query gives now.
    pub async fn assert_shows(&self, model: &str, query: &str) {
        self.execute(&format!("create temp view expected as {query}")).await;
        assert_eq!(self.rows(model).await, self.rows("expected").await, "{query}");
        self.execute("drop view expected").await;
    }

    /// What `models` prints of it.
    pub fn model(&self, name: &str) -> Value {
        let all = self.run(&["models", "--output", "json"]).ends(0).json();
        all.as_array().unwrap().iter().find(|one| one["name"]["table"] == name).cloned().unwrap_or_default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_is_published_refreshed_listed_and_removed() {
    every_build(async |db| {
        let scene = Scene::new(&db).await;
        let built = scene.publish("sums", SUMS, &["--index", "total"]).ends(0);
        assert!(built.stdout.starts_with("sums: 2 rows by materialized in "), "{built:?}");
        scene.assert_shows("sums", SUMS).await;
        let model = scene.model("sums");
        assert_eq!(model["definition"]["query"], SUMS);
        assert_eq!(model["definition"]["unique"], json!(["shop"]));
        assert_eq!((&model["waiting_changes"], &model["everything_waits"]), (&json!(0), &json!(false)), "{model}");
        let listed = scene.run(&["models"]).ends(0).stdout;
        assert!(listed.contains("unique (shop)") && listed.contains("(total)"), "{listed}");

        // How far it is behind is known, also after another model of the collection was refreshed.
        scene.run(&["publish", "sales", "--as", "plain"]).ends(0);
        scene.execute("update public.sales set doc = doc || '{\"price\": 500}' where id = 1").await;
        scene.run(&["refresh", "plain"]).ends(0);
        let model = scene.model("sums");
        assert_eq!(model["waiting_changes"], 1, "{model}");
        assert!(model["lag_seconds"].is_number(), "{model}");
        let dry = scene.run(&["refresh", "sums", "--dry-run"]).ends(0).stdout;
        assert!(dry.contains("materialized") && !dry.contains("swap"), "{dry}");
        let refreshed = scene.run(&["refresh", "sums", "--output", "json"]).ends(0).json();
        assert_eq!(
            (&refreshed[0]["way"], &refreshed[0]["rows"]),
            (&json!("materialized"), &json!(2)),
            "one is replaced"
        );
        scene.assert_shows("sums", SUMS).await;
        assert_eq!(scene.model("sums")["waiting_changes"], 0);
        let again = scene.run(&["refresh", "sums", "--output", "json"]).ends(0).json();
        assert_eq!(again[0]["rows"], 0, "{again}");
        let wrong = scene.run(&["refresh", "sums", "--way", "swap"]).ends(2).stderr;
        assert!(wrong.contains("is a materialized view: it cannot be refreshed by swap"), "{wrong}");

        // Documents that wait in segments are merged first.
        scene.load("{\"id\":7,\"shop\":\"new\",\"price\":1}\n", "sales", &["--layout", "log", "--lanes", "1"]).ends(0);
        assert_eq!(scene.model("sums")["waiting_documents"], 1);
        scene.run(&["refresh", "sums"]).ends(0);
        assert_eq!(scene.number("select count(*) from sums where shop = 'new'").await, 1);
        scene.load("{\"id\":8,\"shop\":\"last\",\"price\":1}\n", "sales", &["--publish", "sums"]).ends(0);
        scene.assert_shows("sums", SUMS).await;

        let refused = scene.run(&["drop", "sales", "--yes"]).ends(2).stderr;
        assert!(refused.contains("millstream unpublish"), "{refused}");
        let triggers = "select count(*) from pg_trigger where tgrelid = 'public.sales'::regclass and not tgisinternal";
        scene.run(&["unpublish", "plain"]).ends(0);
        assert_eq!(scene.number(triggers).await, 6, "the report needs the record");
        scene.run(&["unpublish", "sums"]).ends(0);
        assert_eq!(scene.number(triggers).await, 0);
        assert_eq!(scene.number("select count(*) from pg_class where relname = 'sums'").await, 0);
        scene.run(&["drop", "sales", "--yes"]).ends(0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_of_a_report_neither_wait_nor_see_a_part() {
    each_build(async |db| {
        let scene = Scene::new(&db).await;
        scene.publish("sums", SUMS, &[]).ends(0);
        let before = scene.rows("sums").await;
        scene.execute("update public.sales set doc = doc || '{\"price\": 7}'").await;
        let held = scene.dir.path().join("held");
        let mut refresh = command(&["refresh", "sums", "--db", &scene.url]);
        refresh.env("MILLSTREAM_FAILPOINTS", format!("changes-applied=wait:{}", held.display()));
        let mut refresh = refresh.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        until_held(&mut refresh, &held).await;
        let old = db.client().await;
        old.batch_execute("begin isolation level repeatable read; select from sums").await.unwrap();
        // Whoever had to wait would fail.
        scene.execute("set lock_timeout = '1ms'").await;
        assert_eq!(scene.rows("sums").await, before);
        scene.execute("reset lock_timeout").await;
        std::fs::remove_file(&held).unwrap();
        assert!(refresh.wait().unwrap().success());
        scene.assert_shows("sums", SUMS).await;
        let seen = old.query("select one::text from sums as one order by 1", &[]).await.unwrap();
        assert_eq!(seen.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>(), before);
        old.batch_execute("commit").await.unwrap();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_indexes_of_a_report_change() {
    each_build(async |db| {
        let scene = Scene::new(&db).await;
        scene.publish("sums", SUMS, &["--index", "sold"]).ends(0);
        let changed = scene.publish("sums", SUMS, &["--index", "total", "--unique", "shop"]).ends(0).stderr;
        assert!(changed.contains("1 index made, 1 index dropped"), "{changed}");
        let indexes = "select count(*) from pg_index where indrelid = 'sums'::regclass";
        assert_eq!(scene.number(indexes).await, 2, "the unique one and the new one");
        let other = "select doc->>'shop' as shop, count(*) as sold from sales group by 1";
        let agree = scene.publish("sums", SUMS, &["--unique", "sold"]).ends(2).stderr;
        assert!(agree.contains("rows of the model agree in the columns sold"), "{agree}");
        let more = scene.publish("sums", SUMS, &["--unique", "shop,sold", "--index", "total"]).ends(0).stderr;
        assert!(more.contains("1 index made, 1 index dropped"), "{more}");
        assert_eq!(scene.model("sums")["definition"]["unique"], json!(["shop", "sold"]));
        assert_eq!(scene.number(indexes).await, 2, "the former unique one is gone");
        scene.publish("sums", SUMS, &["--unique", "SHOP", "--index", "total"]).ends(0);
        let refused = scene.publish("sums", other, &[]).ends(2).stderr;
        assert!(refused.contains("only the indexes can change") && refused.contains("unpublish sums"), "{refused}");
        scene.run(&["publish", "sales", "--as", "sums", "--materialized", "--index", "sold"]).ends(2);
        scene.run(&["publish", "sales", "--as", "sums", "--where", "id > 1"]).ends(2);
        scene.run(&["publish", "sales", "--as", "sums"]).ends(0);
        assert_eq!(scene.number(indexes).await, 2, "nothing was asked for");
        scene.assert_shows("sums", SUMS).await;

        let explained = scene.run(&["explain-index", "sums", "select * from sums where sold = 3"]).ends(1).stdout;
        assert!(explained.contains(" --query ") && explained.contains(" --unique shop "), "{explained}");
        scene.run(&["unpublish", "sums"]).ends(0);
        scene.publish("sums", other, &[]).ends(0);
        scene.assert_shows("sums", other).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_is_kept_up_to_date_until_it_is_stopped() {
    each_build(async |db| {
        let scene = Scene::new(&db).await;
        let publish = ["publish", "sales", "--as", "sums", "--materialized", "--query", SUMS, "--every", "50ms"];
        let mut runner = command(&[&publish[..], &["--db", &scene.url]].concat());
        let mut runner = runner.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let there = "select count(*) from pg_class where relname = 'sums' and relispopulated";
        until("the report is there", async || scene.number(there).await == 1).await;
        scene.execute("insert into public.sales values (9, '{\"shop\": \"late\", \"price\": 1}')").await;
        until("the report shows it", async || scene.number("select count(*) from sums where shop = 'late'").await == 1)
            .await;
        send("INT", runner.id());
        assert_eq!(runner.wait().unwrap().code(), Some(130));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_survives_what_happens_to_its_view_and_its_collection() {
    each_build(async |db| {
        let scene = Scene::new(&db).await;
        scene.publish("sums", SUMS, &["--index", "total"]).ends(0);
        let dropped = scene.client.batch_execute("alter table public.sales drop column doc").await;
        assert_eq!(dropped.unwrap_err().code().unwrap().code(), "2BP01", "something depends on it");
        scene.client.batch_execute("alter table public.sales alter doc type json").await.unwrap_err();

        let change = "update public.sales set doc = doc || '{\"price\": 70}' where id = 2";
        scene.execute(&format!("alter table public.sales add extra int; {change}")).await;
        scene.run(&["refresh", "sums"]).ends(0);
        scene.assert_shows("sums", SUMS).await;

        // As a restore of definitions alone leaves it.
        scene.execute("refresh materialized view sums with no data").await;
        scene.run(&["refresh", "sums"]).ends(0);
        scene.assert_shows("sums", SUMS).await;

        scene.execute("drop materialized view sums").await;
        let made = scene.run(&["refresh", "sums"]).ends(0);
        assert!(made.stderr.contains("its view was gone and was created again"), "{made:?}");
        scene.assert_shows("sums", SUMS).await;
        assert_eq!(scene.number("select count(*) from pg_index where indrelid = 'sums'::regclass").await, 2);

        let drop = "do $$ begin execute (select format('drop index %s', indexrelid::regclass) from pg_index
                                         where indrelid = 'sums'::regclass and indisunique); end $$";
        scene.execute(drop).await;
        let lost = scene.run(&["refresh", "sums"]).ends(2).stderr;
        assert!(lost.contains("create unique index on \"public\".\"sums\" (\"shop\")"), "{lost}");
        scene.execute("create unique index on public.sums (shop)").await;

        scene.execute("alter table public.sales rename to moved; alter materialized view sums rename to told").await;
        scene.execute(&change.replace("sales", "moved").replace("70", "80")).await;
        scene.run(&["refresh", "told"]).ends(0);
        scene.assert_shows("told", &SUMS.replace("sales", "moved")).await;
        scene.execute("drop materialized view told; create table public.sales as table public.moved").await;
        let other = scene.run(&["refresh", "told"]).ends(2).stderr;
        assert!(other.contains("the query may read moved alone, and it reads public.sales"), "{other}");
        assert_eq!(scene.number("select count(*) from pg_class where relname = 'told'").await, 0);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_report_of_an_unlogged_collection_survives_its_freezing() {
    each_build(async |db| {
        let scene = Scene::new(&db).await;
        scene.load("{\"id\":1,\"n\":1}\n{\"id\":2,\"n\":2}\n", "quick", &["--durability", "unlogged"]).ends(0);
        let query = "select sum((doc->>'n')::int) as total from quick";
        let publish = ["publish", "quick", "--as", "told", "--materialized", "--query", query];
        scene.run(&publish).ends(0);
        scene.run(&["freeze", "quick", "--yes"]).ends(0);
        scene.execute("update public.quick set doc = '{\"n\": 5}' where id = 1").await;
        assert_eq!(scene.model("told")["waiting_changes"], 1);
        scene.run(&["refresh", "told"]).ends(0);
        scene.assert_shows("told", query).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_report_is_refreshed() {
    each_build_with(&[Feature::Dump], async |db| {
        let mut scene = Scene::new(&db).await;
        scene.publish("sums", SUMS, &["--index", "total"]).ends(0);
        let copy = TestDatabase { name: format!("{}_copy", db.name), server: db.server };
        scene.execute(&format!("create database {} template template0", copy.name)).await;
        let file = scene.dir.path().join("dump");
        let program = |name: &str, url: &str| {
            let mut program = Command::new(db.build().installation.program(name));
            program.args(["--dbname", url]);
            program
        };
        run(program("pg_dump", &db.url()).args(["--format=custom", "--file"]).arg(&file)).ends(0);
        run(program("pg_restore", &copy.url()).arg("--exit-on-error").arg(&file)).ends(0);
        (scene.url, scene.client) = (copy.url(), copy.client().await);
        scene.execute("update public.sales set doc = doc || '{\"price\": 1}' where id < 4").await;
        scene.run(&["refresh", "sums"]).ends(0);
        scene.assert_shows("sums", SUMS).await;
        assert_eq!(scene.model("sums")["waiting_changes"], 0);
    })
    .await;
}
