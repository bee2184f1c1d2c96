//! Documents of a key are folded where the table may refuse some, and what is refused does not depend on it.

use crate::scene::{Files, request, run};
use millstream_engine::{LoadRequest, Mode};
use millstream_testkit::{TestDatabase, every_build};
use std::fmt::Write;
use tokio_postgres::Client;

/// What a table may have that refuses none of the documents of this test. Documents of a key are folded all the same.
const FOLDED: &[&str] = &[
    "alter table {t} add check (id >= '')",
    "alter table {t} add check (id >= ''), add check (length(id) < 9), add check (true)",
    "create domain {t}_key as text collate \"C\" check (value <> 'x'); alter table {t} alter column id type {t}_key",
    // Taking a member never fails.
    "alter table {t} add value text generated always as (doc ->> 'value') stored",
    "alter table {t} add \"in\" text generated always as ((doc -> 'a') ->> 'b''c') stored, add whole jsonb
         generated always as (doc) stored",
    // What may fail is tried for every document, and for every row.
    "alter table {t} add check (doc ->> 'bad' = '0')",
    "alter table {t} add check ((doc ->> 'value')::numeric >= 0 and id <> 'x')",
    "alter table {t} add value numeric generated always as ((doc ->> 'value')::numeric) stored",
    "alter table {t} add value bigint not null generated always as ((doc ->> 'value')::bigint) stored,
         add check (value >= 0)",
];

/// What decides by more than the document and its row, so that each document is written by itself.
const UNFOLDED: &[&str] = &[
    "create index on {t} ((doc ->> 'bad'))",
    "alter table {t} add n integer default 1, add check (n = 1 and doc ->> 'bad' = '0')",
    "create function {t}_seen() returns trigger language plpgsql as $$begin return null; end$$;
     create trigger seen after insert or update on {t} for each row execute function {t}_seen()",
];

const MODES: &[&str] = &["sum:value", "merge", "merge:deep"];
const KEYS: usize = 5;
const DOCUMENTS: usize = 2_000;

async fn table(client: &Client, obstacle: &str) -> String {
    let name = format!("public.folding_{}", fastrand::u32(..));
    let made = format!("create table {name} (id text collate \"C\" primary key, doc jsonb not null); {obstacle}");
    client.batch_execute(&made.replace("{t}", &name)).await.unwrap_or_else(|error| panic!("{obstacle}: {error:?}"));
    name
}

fn adopting(table: &str, mode: &str, file: String) -> LoadRequest {
    let mut wanted = request(table, "id:text", &[file]);
    wanted.mode = mode.parse().expect("a mode");
    (wanted.adopt, wanted.lanes, wanted.rejects_max) = (true, Some(1), 1_000_000);
    wanted
}

#[tokio::test]
async fn documents_of_hot_keys_are_folded_beside_checks_and_generated_columns() {
    every_build(async |db| {
        for mode in MODES {
            for obstacle in FOLDED {
                let superseded = Box::pin(hot(&db, mode, obstacle)).await;
                assert!(superseded > 0, "{mode}, {obstacle}: nothing is folded");
            }
            for obstacle in UNFOLDED {
                let superseded = Box::pin(hot(&db, mode, obstacle)).await;
                assert_eq!(superseded, 0, "{mode}, {obstacle}: what is folded may be refused");
            }
        }
    })
    .await;
}

/// Loads documents of few keys twice, and returns how many were folded into others.
async fn hot(db: &TestDatabase, mode: &str, obstacle: &str) -> u64 {
    let (client, files) = (db.client().await, Files::new());
    let table = table(&client, obstacle).await;
    let mut text = String::new();
    for n in 0..DOCUMENTS {
        let (key, value) = (n % KEYS, n + 1);
        writeln!(text, "{{\"id\":\"k{key}\",\"value\":{value},\"bad\":0,\"a\":{{\"m{n}\":1}}}}").expect("a text grows");
    }
    let mut superseded = 0;
    for name in ["first", "again"] {
        let receipt = run(&db.url(), &adopting(&table, mode, files.write(name, &text))).await.receipt;
        assert_eq!(receipt.counters.rejected, 0, "{mode}, {obstacle}: {receipt:?}");
        superseded += receipt.counters.superseded;
    }
    let sql = format!(
        "select count(*), sum((doc ->> 'value')::bigint)::bigint,
                sum((select count(*) from jsonb_object_keys(doc -> 'a')))::bigint from {table}"
    );
    let row = client.query_one(&sql, &[]).await.expect("the table can be read");
    let found: (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
    let [keys, documents] = [KEYS, DOCUMENTS].map(|count| i64::try_from(count).expect("few"));
    let last: i64 = (documents - keys + 1..=documents).sum();
    let expected = match mode {
        "sum:value" => (keys, documents * (documents + 1), keys),
        "merge" => (keys, last, keys),
        _ => (keys, last, documents),
    };
    assert_eq!(found, expected, "{mode}, {obstacle}");
    superseded
}

/// A table, documents, and what becomes of them whatever the batches are.
struct Case {
    obstacle: &'static str,
    mode: &'static str,
    stored: &'static str,
    documents: &'static [&'static str],
    /// Lines of the documents that are refused.
    refused: &'static [i64],
    /// What is stored in the end; empty if nothing is.
    left: &'static str,
}

const CASE: Case = Case {
    obstacle: "alter table {t} add check ((doc ->> 'n')::numeric < 9)",
    mode: "sum:n",
    stored: "",
    documents: &[],
    refused: &[],
    left: "",
};

/// Each has a fold that would pass, but a document or a row that would not, or the other way round.
const CASES: &[Case] = &[
    Case { documents: &["\"n\":5", "\"n\":5", "\"n\":-3"], refused: &[2], left: "{\"n\":2}", ..CASE },
    Case { stored: "{\"n\":-9}", documents: &["\"n\":5", "\"n\":7"], left: "{\"n\":3}", ..CASE },
    Case {
        stored: "{\"n\":6}",
        documents: &["\"n\":3", "\"n\":-5", "\"n\":1"],
        refused: &[1],
        left: "{\"n\":2}",
        ..CASE
    },
    Case { documents: &["\"n\":9", "\"n\":1"], refused: &[1], left: "{\"n\":1}", ..CASE },
    Case {
        mode: "sum:a.n,m",
        obstacle: "alter table {t} add check ((doc #>> '{a,n}')::numeric < 9 and (doc ->> 'm')::numeric >= 0)",
        documents: &["\"a\":{\"n\":8},\"m\":1", "\"a\":{\"n\":1}", "\"m\":-1", "\"m\":-1,\"a\":null", "\"x\":1"],
        refused: &[2, 3, 4],
        left: "{\"x\":1,\"a\":{\"n\":8},\"m\":1}",
        ..CASE
    },
    // The first document is stored as it is, without a number.
    Case {
        obstacle: "alter table {t} add check (not doc ? 'first' or not doc ? 'n')",
        documents: &["\"first\":1", "\"n\":1"],
        left: "{\"n\":1}",
        ..CASE
    },
    // A later document replaces what is refused of an earlier one.
    Case {
        mode: "merge",
        obstacle: "alter table {t} add check (doc ->> 'bad' is null)",
        documents: &["\"a\":1,\"bad\":1", "\"b\":1,\"bad\":null"],
        refused: &[1],
        left: "{\"b\":1,\"bad\":null}",
        ..CASE
    },
    // Each document alone would pass.
    Case {
        mode: "merge",
        obstacle: "alter table {t} add check (not (doc ? 'a' and doc ? 'b'))",
        stored: "{\"a\":1}",
        documents: &["\"b\":1", "\"c\":1", "\"b\":2"],
        refused: &[1, 3],
        left: "{\"a\":1,\"c\":1}",
    },
    Case {
        mode: "merge:deep",
        obstacle: "alter table {t} add check (doc #>> '{a,b}' is distinct from '2' or doc #>> '{a,c}' is null)",
        stored: "{\"a\":{\"b\":1,\"c\":1}}",
        documents: &["\"a\":{\"b\":2}", "\"a\":{\"b\":3}", "\"a\":{\"d\":1}"],
        refused: &[1],
        left: "{\"a\":{\"b\":3,\"c\":1,\"d\":1}}",
    },
    // A stored document that is not an object.
    Case {
        mode: "merge",
        obstacle: "alter table {t} add check (doc ->> 'n' is distinct from '2')",
        stored: "[1]",
        documents: &["\"n\":1", "\"n\":2", "\"m\":1"],
        refused: &[2],
        left: "{\"n\":1,\"m\":1}",
    },
    // The generation of the first document's column fails.
    Case {
        mode: "merge",
        obstacle: "alter table {t} add n integer generated always as ((doc ->> 'n')::integer) stored",
        documents: &["\"n\":\"x\",\"a\":1", "\"n\":\"5\"", "\"b\":1"],
        refused: &[1],
        left: "{\"n\":\"5\",\"b\":1}",
        ..CASE
    },
    Case {
        obstacle: "alter table {t} add n smallint generated always as ((doc ->> 'n')::smallint) stored",
        documents: &["\"n\":32000", "\"n\":32000", "\"n\":-32000"],
        refused: &[2],
        left: "{\"n\":0}",
        ..CASE
    },
    Case {
        mode: "merge",
        obstacle: "alter table {t} add a text not null generated always as (doc ->> 'a') stored",
        documents: &["\"b\":1", "\"a\":1"],
        refused: &[1],
        left: "{\"a\":1}",
        ..CASE
    },
    // The expression takes a member, and the column's type refuses it.
    Case {
        mode: "merge",
        obstacle: "alter table {t} add a varchar(2) generated always as (doc ->> 'a') stored",
        documents: &["\"a\":\"long\",\"b\":1", "\"a\":\"q\""],
        refused: &[1],
        left: "{\"a\":\"q\"}",
        ..CASE
    },
    Case {
        mode: "merge",
        obstacle: "create domain {t}_code as text check (length(value) < 3);
                   alter table {t} add a {t}_code generated always as (doc ->> 'a') stored",
        documents: &["\"a\":\"long\",\"b\":1", "\"a\":\"q\""],
        refused: &[1],
        left: "{\"a\":\"q\"}",
        ..CASE
    },
    // All of a key are refused, and a tombstone hides none of them.
    Case {
        obstacle: "alter table {t} add check (id <> 'k')",
        documents: &["\"n\":1", "\"n\":2", "\"op\":\"d\"", "\"n\":3"],
        refused: &[1, 2, 4],
        ..CASE
    },
    Case {
        mode: "merge",
        documents: &["\"n\":1,\"a\":1", "\"n\":10", "\"op\":\"d\"", "\"n\":11", "\"b\":1"],
        refused: &[2, 4],
        left: "{\"b\":1}",
        ..CASE
    },
    // A check of whole rows, and of a column that documents do not have.
    Case {
        obstacle: "alter table {t} add check ({row}::text not like '%99%')",
        documents: &["\"n\":99", "\"n\":1"],
        refused: &[1],
        left: "{\"n\":1}",
        ..CASE
    },
    Case {
        obstacle: "alter table {t} add \"at\" integer default 5, add check (\"at\" + (doc ->> 'n')::integer < 9)",
        documents: &["\"n\":3", "\"n\":3", "\"n\":-1"],
        refused: &[2],
        left: "{\"n\":2}",
        ..CASE
    },
];

#[tokio::test]
async fn what_is_refused_does_not_depend_on_the_batches() {
    every_build(async |db| {
        let client = db.client().await;
        for case in CASES {
            for (batch_rows, chunk_bytes, arrays_rows_max) in
                [(1, 1, 500), (2, 1, 0), (100_000, 1 << 20, 0), (100_000, 1 << 20, 500)]
            {
                let mut wanted = adopting("public.none", case.mode, String::new());
                (wanted.batch_rows, wanted.chunk_bytes) = (batch_rows, chunk_bytes);
                wanted.arrays_rows_max = arrays_rows_max;
                Box::pin(decided(&db, &client, case, wanted)).await;
            }
        }
    })
    .await;
}

async fn decided(db: &TestDatabase, client: &Client, case: &Case, mut wanted: LoadRequest) {
    let (table, files) = (table(client, "").await, Files::new());
    if !case.stored.is_empty() {
        let stored = format!("insert into {table} (id, doc) values ('k', '{}')", case.stored);
        client.batch_execute(&stored).await.expect("the server answers");
    }
    let name = table.trim_start_matches("public.");
    let obstacle = case.obstacle.replace("{row}", name).replace("{t}", &table);
    client.batch_execute(&obstacle).await.unwrap_or_else(|error| panic!("{obstacle}: {error:?}"));
    let lines = case.documents.iter().map(|members| format!("{{\"id\":\"k\",{members}}}\n"));
    wanted.sources = vec![files.write("a", lines.collect::<String>())];
    wanted.collection = table.parse().expect("a name");
    let mode: Mode = case.mode.parse().expect("a mode");
    if case.documents.iter().any(|members| members.contains("\"op\"")) {
        wanted.mode = mode.with_tombstone(Some("op=d".parse().expect("a path and a value")));
    }
    let receipt = run(&db.url(), &wanted).await.receipt;
    let about = format!("{}, {obstacle}, {:?}: {receipt:?}", case.mode, case.documents);
    let sql = "select line from millstream.reject where load_id = $1 order by 1";
    let refused = client.query(sql, &[&receipt.load_id]).await.expect("the rejects can be read");
    let refused: Vec<i64> = refused.iter().map(|row| row.get(0)).collect();
    assert_eq!(refused, case.refused, "{about}");
    let sql = format!("select doc = $1::text::jsonb from (select doc - 'id' as doc from {table}) as stored");
    let left = if case.left.is_empty() { "null" } else { case.left };
    let found = client.query(&sql, &[&left]).await.expect("the table can be read");
    let found: Vec<bool> = found.iter().map(|row| row.get(0)).collect();
    assert_eq!(found, if case.left.is_empty() { vec![] } else { vec![true] }, "{about}");
}
