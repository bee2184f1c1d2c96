//! The statements of every batch look rows up by key, whatever the statistics, the role and the database say.

use crate::scene::{Files, Stream, appending, compacted, equal, request, run};
use millstream_engine::{DeleteMissing, Mode, SkipUnchanged};
use millstream_testkit::{TestDatabase, each_build, todays, until};
use tokio_postgres::Client;

/// Rows of each table. If a statement reads a table for each of its keys, the test ends late, but it ends.
const ROWS: i64 = 4_000;
/// Documents of each load, in several batches. Some of their keys are new.
const DOCUMENTS: i64 = 500;
/// A batch ends with a chunk.
const CHUNK_BYTES: usize = 4 << 10;
/// Most rows that a load may read of a table, for each of its documents: each statement of a batch looks its keys up. A
/// scan of the table for each batch would read more.
const READ_PER_DOCUMENT: i64 = 10;
/// The tables that a batch touches. Those of the loads are read when a run begins and ends, and not for each batch.
const TABLES: &[&str] =
    &["public.checked", "public.plain", "public.tried", "millstream.lane", "millstream.reject", "millstream.tombstone"];

/// What the planner knows about the tables.
#[derive(Debug, Clone, Copy)]
enum Statistics {
    Fresh,
    /// As after a restore.
    Never,
    /// Vacuum saw the tables while all of their rows were dead or not committed yet.
    NoRowsInPages,
    TooFew,
    TooMany,
}

const STATISTICS: &[Statistics] =
    &[Statistics::Fresh, Statistics::Never, Statistics::NoRowsInPages, Statistics::TooFew, Statistics::TooMany];

/// Settings that a role or a database may have.
const SPOILED: &[&[(&str, &str)]] = &[
    &[],
    &[("enable_indexscan", "off"), ("enable_nestloop", "off"), ("enable_sort", "off"), ("random_page_cost", "1e7")],
    &[
        ("seq_page_cost", "0"),
        ("random_page_cost", "0"),
        ("cpu_tuple_cost", "0"),
        ("cpu_index_tuple_cost", "0"),
        ("cpu_operator_cost", "0"),
    ],
];

/// All statistics without settings, and all settings with the worst statistics.
fn situations() -> impl Iterator<Item = (Statistics, &'static [(&'static str, &'static str)])> {
    let known = STATISTICS.iter().map(|statistics| (*statistics, SPOILED[0]));
    known.chain(SPOILED[1..].iter().map(|settings| (Statistics::NoRowsInPages, *settings)))
}

impl Statistics {
    async fn set(self, client: &Client) {
        let of = "where oid = any ($$TABLES$$::pg_catalog.regclass[]) \
                  or oid in (select indexrelid from pg_index where indrelid = any ($$TABLES$$::pg_catalog.regclass[]))";
        let rows = match self {
            Self::Fresh => return client.batch_execute("analyze").await.expect("the server answers"),
            Self::Never => "relpages = 0, reltuples = -1",
            Self::NoRowsInPages => "relpages = pg_relation_size(oid) / 8192, reltuples = 0",
            Self::TooFew => "relpages = pg_relation_size(oid) / 8192, reltuples = 0.02",
            Self::TooMany => "relpages = pg_relation_size(oid) / 8192, reltuples = 2e10",
        };
        let sql = format!(
            "delete from pg_statistic where starelid = any ($$TABLES$$::pg_catalog.regclass[]); \
             update pg_class set {rows} {of}"
        );
        let tables = format!("{{{}}}", TABLES.join(","));
        client.batch_execute(&sql.replace("TABLES", &tables)).await.expect("the server answers");
    }
}

/// A load whose batches are written in one way.
struct Case {
    into: &'static str,
    mode: &'static str,
    deletes: bool,
    /// Whether the server refuses a document.
    refused: bool,
    skip: SkipUnchanged,
    small: bool,
    /// Whether most keys are new.
    new: bool,
    writer: &'static str,
}

const CASE: Case = Case {
    into: "plain",
    mode: "replace",
    deletes: false,
    refused: false,
    skip: SkipUnchanged::Off,
    small: false,
    new: false,
    writer: "staged",
};

const CASES: &[Case] = &[
    CASE,
    Case { mode: "keep", ..CASE },
    Case { mode: "merge", ..CASE },
    Case { mode: "sum:value", ..CASE },
    Case { new: true, writer: "divided", ..CASE },
    Case { new: true, mode: "sum:value", writer: "divided", ..CASE },
    // There are tombstones.
    Case { mode: "newest:value:bigint", writer: "deletes", ..CASE },
    Case { small: true, writer: "arrays", ..CASE },
    Case { small: true, skip: SkipUnchanged::On, writer: "arrays", ..CASE },
    Case { skip: SkipUnchanged::On, writer: "compared", ..CASE },
    Case { deletes: true, skip: SkipUnchanged::On, writer: "deletes", ..CASE },
    Case { deletes: true, mode: "newest:value:bigint", writer: "deletes", ..CASE },
    Case { into: "checked", mode: "merge", writer: "upsert", ..CASE },
    // What is folded is tried first, together with the stored rows.
    Case { into: "tried", mode: "merge", writer: "upsert", ..CASE },
    Case { into: "tried", mode: "merge:deep", writer: "upsert", ..CASE },
    Case { into: "tried", mode: "sum:value", writer: "upsert", ..CASE },
    Case { into: "checked", refused: true, skip: SkipUnchanged::On, writer: "replay", ..CASE },
    Case { into: "checked", refused: true, deletes: true, skip: SkipUnchanged::On, writer: "replay", ..CASE },
    Case { into: "checked", refused: true, deletes: true, mode: "newest:value:bigint", writer: "replay", ..CASE },
];

#[tokio::test]
async fn a_batch_looks_rows_up_by_key() {
    each_build(async |db| {
        let client = large(&db).await;
        for (value, (statistics, settings)) in situations().enumerate() {
            spoil(&db, &client, settings).await;
            for case in todays(CASES) {
                statistics.set(&client).await;
                let before = read(&client).await;
                let about = format!("{} {} by {}, {statistics:?}, {settings:?}", case.into, case.mode, case.writer);
                case.load(&db, value, &about).await;
                expect_look_ups(&client, before, &about).await;
            }
        }
    })
    .await;
}

impl Case {
    /// Loads documents for some stored keys and for some new ones. Some are then deleted.
    async fn load(&self, db: &TestDatabase, value: usize, about: &str) {
        let mut stream = Stream::default();
        let value = i64::try_from(value).expect("few cases");
        for n in 0..DOCUMENTS {
            let stored = format!("{:06}", n * (ROWS + 100) / DOCUMENTS);
            let id = if self.new && n % 3 > 0 { format!("{stored}-{}-{value}", self.mode) } else { stored };
            stream.push(&id, value);
            if self.into == "tried" {
                stream.push(&id, value);
            }
            if self.deletes && n % 10 == 0 {
                stream.text.push_str(&format!("{{\"id\":\"{id}\",\"value\":{value},\"op\":\"d\"}}\n"));
            }
        }
        if self.refused {
            stream.text.push_str("{\"id\":\"refused\",\"value\":1}\n");
        }
        let files = Files::new();
        let mut wanted = request(self.into, "id", &[files.write("wave", &stream.text)]);
        let mode: Mode = self.mode.parse().expect("a mode");
        wanted.mode = mode.with_tombstone(self.deletes.then(|| "op=d".parse().expect("a condition")));
        (wanted.lanes, wanted.chunk_bytes, wanted.batch_rows) = (Some(1), CHUNK_BYTES, 50);
        // A lane that remembers keys reads those of the table once.
        wanted.met_words = 0;
        wanted.skip_unchanged = self.skip;
        wanted.arrays_rows_max = if self.small { 10_000 } else { 0 };
        let receipt = run(&db.url(), &wanted).await.receipt;
        assert_eq!(receipt.counters.rejected, u64::from(self.refused), "{about}: {receipt:?}");
        let batches = receipt.writers.get(self.writer).copied().unwrap_or(0);
        assert!(batches > if self.refused { 0 } else { 3 }, "{about}: {receipt:?}");
    }
}

/// A trigger that could drop rows, so that a compaction looks whether they are there.
const TRIGGER: &str = "
    create or replace function same() returns trigger language plpgsql as 'begin return new; end';
    create trigger same before insert or update on plain for each row execute function same()";

#[tokio::test]
async fn a_compaction_looks_rows_up_by_key() {
    each_build(async |db| {
        let client = large(&db).await;
        for (statistics, settings) in situations() {
            spoil(&db, &client, settings).await;
            for triggers in ["", TRIGGER] {
                let mut stream = Stream::default();
                (0..DOCUMENTS).for_each(|n| stream.push(&format!("{:06}", n * 9), n));
                let files = Files::new();
                run(&db.url(), &appending("plain", &[files.write("wave", &stream.text)], 200)).await;
                client.batch_execute(triggers).await.expect("the server answers");
                statistics.set(&client).await;
                let before = read(&client).await;
                compacted(&db, "plain", 1).await.expect("it is merged");
                expect_look_ups(&client, before, &format!("{statistics:?}, {settings:?}, {triggers}")).await;
                client.batch_execute("drop trigger if exists same on plain").await.expect("the server answers");
            }
        }
    })
    .await;
}

#[tokio::test]
async fn verifying_reads_each_row_once() {
    each_build(async |db| {
        let client = large(&db).await;
        let mut stream = Stream::default();
        (0..ROWS + 100).for_each(|n| stream.push(&format!("{n:06}"), 1));
        let files = Files::new();
        let wanted = request("plain", "id", &[files.write("all", &stream.text)]);
        run(&db.url(), &wanted).await;
        for (statistics, settings) in situations() {
            spoil(&db, &client, settings).await;
            statistics.set(&client).await;
            let before = read(&client).await;
            equal(&db, &wanted).await;
            let (read, rows) = (read_since(&client, &before, "public.plain").await, ROWS + 100);
            assert!(read <= rows + READ_PER_DOCUMENT, "{statistics:?}, {settings:?}: {read} rows were read");
        }
    })
    .await;
}

#[tokio::test]
async fn missing_rows_are_deleted_by_key() {
    each_build(async |db| {
        let client = large(&db).await;
        let mut stream = Stream::default();
        (0..ROWS + 100).for_each(|n| stream.push(&format!("{n:06}"), 1));
        let files = Files::new();
        let mut wanted = request("plain", "id", &[files.write("all", &stream.text)]);
        // What is compared below are loads of unchanged documents.
        run(&db.url(), &wanted).await;
        wanted.batch_rows = 5;
        for (statistics, settings) in situations() {
            spoil(&db, &client, settings).await;
            let gone = "insert into plain select 'gone-' || g, '{}' from pg_catalog.generate_series(1, 100) g";
            client.batch_execute(gone).await.expect("the server answers");
            statistics.set(&client).await;
            let mut reads = Vec::new();
            for delete_missing in [None, Some(DeleteMissing::new(10.0, std::env::temp_dir()))] {
                wanted.delete_missing = delete_missing;
                let before = read(&client).await;
                let deleted = run(&db.url(), &wanted).await.receipt.deleted_missing;
                assert_eq!(deleted, if wanted.delete_missing.is_some() { 100 } else { 0 });
                reads.push(read_since(&client, &before, "public.plain").await);
            }
            // All keys once, and each missing row to count it and to delete it.
            let more = reads[1] - reads[0];
            assert!(more <= 2 * (ROWS + 200), "{statistics:?}, {settings:?}: {more} more rows were read");
        }
    })
    .await;
}

/// Three collections and our own tables, all with many rows of other loads. One collection has a constraint on its key, one
/// on its documents.
async fn large(db: &TestDatabase) -> Client {
    let files = Files::new();
    let mut stream = Stream::default();
    (0..100).for_each(|n| stream.push(&format!("{n:06}"), 1));
    stream.text.push_str("no JSON\n");
    for name in ["plain", "checked", "tried"] {
        run(&db.url(), &request(name, "id", &[files.write("seed", &stream.text)])).await;
    }
    let client = db.client().await;
    for table in TABLES {
        let off = format!("alter table {table} set (autovacuum_enabled = false)");
        client.batch_execute(&off).await.expect("the server answers");
    }
    // Only the server refuses it, so its batch is replayed.
    let check = "alter table checked add constraint named check (id <> 'refused');
                 alter table tried add check (doc ->> 'value' is not null)";
    client.batch_execute(check).await.expect("the server answers");
    let rows = include_str!("plan.sql").replace("{rows}", &ROWS.to_string());
    client.batch_execute(&rows).await.expect("the server answers");
    for table in TABLES {
        let count = format!("select count(*) from {table}");
        let rows: i64 = client.query_one(&count, &[]).await.expect("the server answers").get(0);
        assert!(rows >= ROWS, "{rows} rows in {table}");
    }
    client
}

/// Gives every later session of the database these settings and no others. Other tests have the same role.
async fn spoil(db: &TestDatabase, client: &Client, settings: &[(&str, &str)]) {
    let alter = format!("alter database {}", db.name);
    let set = |(name, value): &(&str, &str)| format!("{alter} set {name} = '{value}';");
    let sql: String = std::iter::once(format!("{alter} reset all;")).chain(settings.iter().map(set)).collect();
    client.batch_execute(&sql).await.expect("the server answers");
}

/// Asserts that what ended since `before` looked rows up instead of reading whole tables.
async fn expect_look_ups(client: &Client, before: Vec<i64>, about: &str) {
    for table in TABLES {
        let read = read_since(client, &before, table).await;
        assert!(read <= READ_PER_DOCUMENT * DOCUMENTS, "{about}: {read} rows of {table} were read");
    }
}

async fn read_since(client: &Client, before: &[i64], table: &str) -> i64 {
    let place = TABLES.iter().position(|known| *known == table).expect("a known table");
    read(client).await[place] - before[place]
}

/// Rows of each table that were ever read, by sequential scans or through indexes.
async fn read(client: &Client) -> Vec<i64> {
    ended(client).await;
    client.batch_execute("select pg_stat_force_next_flush()").await.expect("the server answers");
    let sql = "select seq_tup_read + idx_tup_fetch from pg_stat_user_tables where relid = $1::text::regclass";
    let mut read = Vec::new();
    for table in TABLES {
        read.push(client.query_one(sql, &[table]).await.expect("the server answers").get(0));
    }
    read
}

/// Waits until the sessions of the load are gone, because they then have reported what they read.
async fn ended(client: &Client) {
    let sql = "select count(*) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()";
    until("the sessions of the load end", async || {
        client.query_one(sql, &[]).await.expect("the server answers").get::<_, i64>(0) == 0
    })
    .await;
}
