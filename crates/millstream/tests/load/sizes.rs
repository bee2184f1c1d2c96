//! `collections --sizes`: the parts of a collection add up to what the server says of it.

use crate::process::millstream;
use millstream_testkit::{TestDatabase, each_build};
use serde_json::Value;
use std::fmt::Write;
use tokio_postgres::Client;

/// Documents of each collection. The tables are large enough for free space to be listed.
const DOCUMENTS: usize = 4_000;

/// Some documents are too long for a page, and do not compress.
fn documents() -> String {
    let mut text = String::new();
    for n in 0..DOCUMENTS {
        let long = if n % 500 == 0 { 6_000 } else { 0 };
        let noise: String = std::iter::repeat_with(fastrand::alphanumeric).take(long).collect();
        writeln!(text, "{{\"id\":{n},\"name\":\"document {n}\",\"noise\":\"{noise}\"}}").unwrap();
    }
    text
}

struct Place {
    db: TestDatabase,
    client: Client,
    dir: tempfile::TempDir,
}

impl Place {
    async fn new(db: TestDatabase) -> Self {
        let client = db.client().await;
        Self { db, client, dir: tempfile::tempdir().unwrap() }
    }

    #[track_caller]
    fn load(&self, into: &str, more: &[&str]) {
        let file = self.dir.path().join("documents.ndjson");
        std::fs::write(&file, documents()).unwrap();
        let (file, url) = (file.to_str().unwrap().to_owned(), self.db.url());
        let fixed = ["load", &file, "--into", into, "--key", "id:bigint", "--progress", "none", "--db", &url];
        millstream(&[&fixed[..], more].concat()).ends(0);
    }

    /// The list of sizes.
    #[track_caller]
    fn sizes(&self) -> Vec<Value> {
        let url = self.db.url();
        let listed = millstream(&["collections", "--sizes", "--db", &url, "--output", "json"]).ends(0).json();
        listed.as_array().unwrap().clone()
    }

    async fn number(&self, sql: &str) -> u64 {
        let n: i64 = self.client.query_one(sql, &[]).await.unwrap().get(0);
        u64::try_from(n).unwrap()
    }
}

fn of<'a>(all: &'a [Value], table: &str) -> &'a Value {
    all.iter().find(|one| one["table"] == table).unwrap_or_else(|| panic!("{table} is not listed"))
}

fn parts(collection: &Value) -> &[Value] {
    collection["parts"].as_array().unwrap()
}

/// The bytes of the parts of this kind.
fn bytes(collection: &Value, kind: &str) -> u64 {
    parts(collection).iter().filter(|part| part["part"] == kind).map(|part| part["bytes"].as_u64().unwrap()).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_add_up_to_what_the_server_says() {
    each_build(async |db| {
        let place = Place::new(db).await;
        let tables = "
            create table public.parted (id bigint primary key, doc jsonb not null) partition by hash (id);
            create table public.parted_0 partition of public.parted for values with (modulus 2, remainder 0);
            create table public.parted_1 partition of public.parted for values with (modulus 2, remainder 1);
            create table public.\"Big Table\" (id bigint primary key, doc jsonb not null)";
        place.client.batch_execute(tables).await.unwrap();
        let collections = [
            ("plain", &[][..]),
            ("short", &["--doc", "without-key"]),
            ("brief", &["--durability", "unlogged"]),
            ("parted", &["--adopt"]),
            ("Big Table", &["--adopt"]),
        ];
        for (into, more) in collections {
            place.load(into, more);
        }
        place.load("later", &["--layout", "log"]);
        let indexes = "
            create index plain_name on public.plain ((doc->>'name')) with (fillfactor = 70);
            create index parted_name on public.parted ((doc->>'name'));
            vacuum (analyze) public.plain, public.short, public.brief, public.parted, public.\"Big Table\"";
        for statement in indexes.split(';') {
            place.client.batch_execute(statement).await.unwrap();
        }
        let all = place.sizes();
        assert_eq!(all.len(), 6, "{all:?}");
        for (table, _) in collections {
            let one = of(&all, table);
            // The function has no row for a table without partitions.
            let leaves = format!(
                "from (select relid from pg_partition_tree('public.\"{table}\"') union select 'public.\"{table}\"'::regclass) leaf
                 join pg_class c on c.oid = leaf.relid where c.relkind = 'r'"
            );
            let total = place.number(&format!("select sum(pg_total_relation_size(c.oid))::bigint {leaves}")).await;
            let listed: u64 = parts(one).iter().map(|part| part["bytes"].as_u64().unwrap()).sum();
            assert_eq!((one["bytes"].as_u64(), listed), (Some(total), total), "{one}");
            for (kind, sql) in [
                ("heap", "sum(pg_relation_size(c.oid))"),
                ("toast", "sum(pg_total_relation_size(c.reltoastrelid))"),
                ("index", "sum(pg_indexes_size(c.oid))"),
            ] {
                let said = place.number(&format!("select {sql}::bigint {leaves}")).await;
                assert!(said > 0 && bytes(one, kind) == said, "{table}: {kind} has {said}: {one}");
            }
            assert_eq!(one["rows_estimate"], DOCUMENTS);
            let each = one["bytes_per_document"].as_f64().unwrap();
            assert!((each - total as f64 / DOCUMENTS as f64).abs() < 1e-6, "{one}");
            assert_eq!(one["doc"], if table == "short" { "without-key" } else { "whole" });
        }
        // The bytes of the heaps say nothing here: lanes that wait for each other make a table grow by pages that stay empty.
        let rows = async |table: &str| place.number(&format!("select sum(pg_column_size(t))::bigint from public.{table} t")).await;
        let (short, plain) = (rows("short").await, rows("plain").await);
        assert!(short < plain, "{short} bytes of rows without the key, {plain} with it");
        let names = |table: &str| {
            let indexes = parts(of(&all, table)).iter().filter(|part| part["part"] == "index");
            let mut names: Vec<String> = indexes.map(|part| part["name"].as_str().unwrap().to_owned()).collect();
            names.sort();
            names
        };
        assert_eq!(names("plain"), ["plain_name", "plain_pkey"]);
        assert_eq!(names("parted"), ["parted_name", "parted_pkey"], "partitions count under the index of their table");
        let options = |table: &str, part: &str| {
            let found = parts(of(&all, table)).iter().find(|one| one["name"] == part || one["part"] == part);
            found.unwrap()["options"].to_string()
        };
        assert_eq!(options("plain", "heap"), "[\"fillfactor=90\"]");
        assert_eq!(options("plain", "plain_name"), "[\"fillfactor=70\"]");
        assert_eq!(options("parted", "heap"), "[]");

        let segments =
            "select sum(pg_total_relation_size(oid))::bigint from pg_class where relname ~ '^segment_[0-9]+$'
                        and relnamespace = 'millstream'::regnamespace and relkind = 'r'";
        let waiting = of(&all, "later");
        assert!(
            bytes(waiting, "waiting") > 0 && bytes(waiting, "waiting") == place.number(segments).await,
            "{waiting}"
        );
        let table = place.number("select pg_total_relation_size('public.later')").await;
        assert_eq!(waiting["bytes"], table, "what waits is not in the table");

        let url = place.db.url();
        let shown = millstream(&["collections", "--sizes", "--db", &url]).ends(0);
        assert!(shown.stdout.starts_with("NAME"), "{shown:?}");
        for text in ["heap (fillfactor=90)", "index plain_pkey", "all, documents without key", "waiting", "toast"] {
            assert!(shown.stdout.contains(text), "{text}: {shown:?}");
        }
        place.client.batch_execute("drop table public.plain").await.unwrap();
        let gone = place.sizes();
        let gone = of(&gone, "plain");
        assert!(gone["bytes"].is_null() && parts(gone).is_empty(), "{gone}");
        assert!(millstream(&["collections", "--sizes", "--db", &url]).ends(0).stdout.contains("no table"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn free_space_is_what_the_doctor_finds() {
    each_build(async |db| {
        let place = Place::new(db).await;
        place.load("things", &[]);
        let prune = "delete from public.things where id % 4 <> 0";
        for statement in
            ["alter table public.things set (autovacuum_enabled = off)", prune, "vacuum (analyze) public.things"]
        {
            place.client.batch_execute(statement).await.unwrap();
        }
        let url = place.db.url();
        let listed = millstream(&["doctor", "tables", "--db", &url, "--output", "json"]).ends(0).json();
        let states = listed["tables"].as_array().unwrap();
        let state = states.iter().find(|one| one["table"] == "public.things").unwrap();
        let all = place.sizes();
        let heap = parts(of(&all, "things")).iter().find(|part| part["part"] == "heap").unwrap();
        assert!(heap["free"]["bytes"].as_u64().unwrap() > 0, "{heap}");
        assert_eq!(heap["free"]["bytes"], state["free"]["bytes"], "{heap} {state}");
        assert_eq!(heap["free"]["source"], state["free"]["source"], "{heap} {state}");
        assert!(millstream(&["collections", "--sizes", "--db", &url]).ends(0).stdout.contains("FREE"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_without_collections_says_so() {
    each_build(async |db| {
        let url = db.url();
        let none = millstream(&["collections", "--sizes", "--db", &url]).ends(0);
        assert!(none.stdout.is_empty() && none.stderr.contains("no collections yet"), "{none:?}");
        let none = millstream(&["collections", "--sizes", "--db", &url, "--output", "json"]).ends(0).json();
        assert_eq!(none, serde_json::json!([]));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cold_freeze_is_announced_confirmed_and_undone() {
    each_build(async |db| {
        let place = Place::new(db).await;
        place.load("things", &["--doc", "without-key"]);
        let url = place.db.url();
        let freeze = |more: &[&str]| millstream(&[&["freeze", "things", "--cold", "--db", &url][..], more].concat());
        let unsure = freeze(&[]).ends(2);
        assert!(unsure.stderr.contains("millstream freeze things --cold --yes"), "{unsure:?}");
        for text in ["in the order of things_pkey", "of free disk", "Nobody can read or write the table meanwhile"] {
            assert!(freeze(&["--dry-run"]).ends(0).stdout.contains(text), "{text}");
        }
        let estimate = freeze(&["--dry-run", "--output", "json"]).ends(0).json();
        let number = |one: &Value, name: &str| one[name].as_u64().unwrap_or_else(|| panic!("{name}: {one}"));
        let bytes = number(&estimate, "bytes");
        assert!(number(&estimate, "needs_bytes") > bytes && number(&estimate, "heap_bytes") < bytes, "{estimate}");
        for other in ["--in-place", "--undo"] {
            freeze(&[other]).ends(2);
        }
        let heap = || parts(of(&place.sizes(), "things"))[0]["options"].to_string();
        assert_eq!(heap(), "[\"fillfactor=90\"]", "nothing was done so far");

        let done = freeze(&["--yes", "--output", "json"]).ends(0).json();
        assert!(number(&done, "bytes_after") < number(&done, "bytes_before"), "{done}");
        assert_eq!(heap(), "[\"fillfactor=100\"]");
        let undo = done["undo"].as_str().unwrap();
        assert!(freeze(&["--yes"]).ends(0).stdout.contains(undo), "it is said again");
        place.client.batch_execute(undo).await.unwrap();
        assert_eq!(heap(), "[\"fillfactor=90\"]");
        let got = millstream(&["get", "things", "7", "--db", &url]).ends(0);
        assert_eq!(got.json()["id"], 7);
    })
    .await;
}
