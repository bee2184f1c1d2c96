//! Loads of which the server refuses a tenth of the documents, for any reason, against plain Rust and single inserts.

use crate::scene::{Files, request, run, stopped, surroundings};
use fastrand::Rng;
use millstream_engine::limits::UNFOLDED_CHUNK_BYTES;
use millstream_engine::{LoadRequest, Mode, StopReason, load};
use millstream_pg::{ErrorKind, Explained};
use millstream_testkit::{Cases, TestDatabase, each_build};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use tokio_postgres::Client;

/// SQL that makes the table `{t}` refuse documents whose `bad` is not 0.
const OBSTACLES: &[&str] = &[
    "alter table {t} add check (doc ->> 'bad' is not distinct from '0')",
    "alter table {t} add constraint b check (doc ->> 'bad' <> '1'), add constraint a check ((doc -> 'bad') not in ('2', '1')),
         add constraint c check (id <> 'x' and doc ->> 'bad' <= '0')",
    // An expression that fails if it is not true, and one over a column that no document has.
    "alter table {t} add check (1 / (1 - (doc ->> 'bad')::integer) = 1)",
    "alter table {t} add \"at\" integer default 5, add constraint a check (\"at\" > 0 and doc ->> 'bad' < '2'),
         add constraint b check (doc ->> 'bad' < '1')",
    "create function judge_{n}() returns trigger language plpgsql as
         $$begin if new.doc ->> 'bad' <> '0' then raise 'a bad % document', new.doc ->> 'bad'; end if; return new; end$$;
     create trigger judge before insert or update on {t} for each row execute function judge_{n}()",
    "create function judge_{n}() returns trigger language plpgsql as
         $$begin if new.doc ->> 'bad' <> '0' then raise sqlstate 'ZX001'; end if; return null; end$$;
     create trigger judge after insert or update on {t} for each row execute function judge_{n}();
     alter table {t} add check (doc ->> 'bad' < '2')",
    "create function judge_{n}() returns trigger language plpgsql as
         $$begin assert new.doc ->> 'bad' = '0', repeat('long ', 1000); return new; end$$;
     create trigger judge before insert on {t} for each row execute function judge_{n}()",
    "create table kind_{n} (name text primary key); insert into kind_{n} values ('0');
     alter table {t} add kind text generated always as (doc ->> 'bad') stored references kind_{n}",
];

/// Documents, and the rows that they leave when the good ones take effect one after the other.
#[derive(Default)]
struct Mixed {
    text: String,
    rows: BTreeMap<String, i64>,
    /// The sum of the good documents of a key.
    sums: BTreeMap<String, i64>,
    /// Lines of bad documents.
    bad: BTreeSet<i64>,
    documents: i64,
}

impl Mixed {
    fn push(&mut self, rng: &mut Rng, id: &str) {
        let bad = if rng.u8(..10) == 0 { rng.u8(1..3) } else { 0 };
        self.add(id, bad);
    }

    fn add(&mut self, id: &str, bad: u8) {
        self.documents += 1;
        writeln!(self.text, "{{\"id\":\"{id}\",\"value\":{},\"bad\":{bad}}}", self.documents).expect("a text grows");
        if bad > 0 {
            self.bad.insert(self.documents);
        } else {
            self.rows.insert(id.to_owned(), self.documents);
            *self.sums.entry(id.to_owned()).or_default() += self.documents;
        }
    }
}

async fn table(client: &Client, obstacle: &str) -> String {
    let n = fastrand::u32(..);
    // Qualified, because the test role has the name of our own schema.
    let name = format!("public.refusing_{n}");
    let made = format!("create table {name} (id text collate \"C\" primary key, doc jsonb not null); {obstacle}");
    client
        .batch_execute(&made.replace("{t}", &name).replace("{n}", &format!("{n}")))
        .await
        .expect("the server makes the table");
    name
}

fn adopting(table: &str, file: String) -> LoadRequest {
    let mut wanted = request(table, "id:text", &[file]);
    wanted.adopt = true;
    wanted.rejects_max = 1_000_000;
    wanted
}

/// The same in batches of a few documents, of some hundreds, or of all documents.
fn in_batches(wanted: LoadRequest, rng: &mut Rng) -> LoadRequest {
    let (batch_rows, chunk_bytes) = [(7, 200), (300, 4_000), (100_000, 1 << 20)][rng.usize(..3)];
    LoadRequest { lanes: Some(rng.u16(1..4)), batch_rows, chunk_bytes, ..wanted }
}

/// Lines, documents and details of the rejects.
async fn rejects(client: &Client, load_id: i64) -> Vec<(i64, String, String)> {
    let sql = "select line, document, detail from millstream.reject where load_id = $1 order by 1";
    let rows = client.query(sql, &[&load_id]).await.expect("the rejects can be read");
    rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect()
}

async fn stored(client: &Client, table: &str) -> BTreeMap<String, i64> {
    let rows = client.query(&format!("select id, (doc ->> 'value')::bigint from {table}"), &[]).await;
    rows.expect("the table can be read").iter().map(|row| (row.get(0), row.get(1))).collect()
}

/// What a constraint checks.
async fn expression(client: &Client, table: &str, name: &str) -> String {
    let sql =
        "select pg_get_expr(conbin, conrelid) from pg_constraint where conrelid = $1::text::regclass and conname = $2";
    client.query_one(sql, &[&table, &name]).await.expect("the constraint is there").get(0)
}

#[tokio::test]
async fn batches_refuse_exactly_what_single_inserts_refuse() {
    each_build(async |db| {
        let client = db.client().await;
        for mut rng in Cases::new(1) {
            for obstacle in OBSTACLES {
                Box::pin(new_keys(&db, &client, &mut rng, obstacle)).await;
            }
        }
    })
    .await;
}

async fn new_keys(db: &TestDatabase, client: &Client, rng: &mut Rng, obstacle: &str) {
    let table = table(client, obstacle).await;
    let mut mixed = Mixed::default();
    for _ in 0..rng.u64(1_000..3_000) {
        let id = format!("{:016x}", rng.u64(..));
        mixed.push(rng, &id);
    }
    let files = Files::new();
    let wanted = in_batches(adopting(&table, files.write("a", &mixed.text)), rng);
    let ended = rng.bool() && stopped(&db.url(), &wanted, mixed.documents as u64, rng).await.is_some();
    for again in [ended, true] {
        let receipt = run(&db.url(), &wanted).await.receipt;
        let (new, counters) = (if again { 0 } else { mixed.rows.len() }, receipt.counters);
        assert_eq!((counters.read, counters.inserted), (mixed.documents as u64, new as u64), "{obstacle}");
        assert_eq!(counters.rejected, mixed.bad.len() as u64, "{obstacle}");
        assert!(stored(client, &table).await == mixed.rows, "{obstacle}");
        let rejects = rejects(client, receipt.load_id).await;
        assert!(rejects.iter().map(|reject| &reject.0).eq(&mixed.bad), "{obstacle}");
        for (line, document, detail) in rejects {
            let alone = format!("insert into {table} (id, doc) values ($1::text::jsonb ->> 'id', $1::text::jsonb)");
            let error = client.execute(&alone, &[&document]).await.expect_err("the server refuses it");
            let said = error.as_db_error().expect("the server says so");
            let mut expected = match said.constraint().filter(|_| said.code().code() == "23514") {
                Some(name) => format!("check {name}: {}", expression(client, &table, name).await),
                None => format!("{} (SQLSTATE {})", said.message(), said.code().code()),
            };
            expected.truncate(500);
            assert_eq!(detail, expected, "line {line}, {obstacle}");
        }
    }
}

#[tokio::test]
async fn an_earlier_document_stays_if_a_later_one_is_refused() {
    each_build(async |db| {
        let client = db.client().await;
        for mut rng in Cases::new(2) {
            for obstacle in OBSTACLES {
                let table = table(&client, obstacle).await;
                let (mut mixed, keys) = (Mixed::default(), [3, 40, 1_000][rng.usize(..3)]);
                for _ in 0..rng.u64(1_000..2_000) {
                    let id = format!("{:04}", rng.u16(..keys));
                    mixed.push(&mut rng, &id);
                }
                let files = Files::new();
                let wanted = in_batches(adopting(&table, files.write("a", &mixed.text)), &mut rng);
                let ended = match rng.bool() {
                    true => stopped(&db.url(), &wanted, mixed.documents as u64, &mut rng).await,
                    false => None,
                };
                let receipt = match ended {
                    Some(outcome) => outcome.receipt,
                    None => run(&db.url(), &wanted).await.receipt,
                };
                assert!(stored(&client, &table).await == mixed.rows, "{obstacle}");
                assert_eq!(
                    (receipt.counters.read, receipt.counters.inserted),
                    (mixed.documents as u64, mixed.rows.len() as u64)
                );
                // A document is not checked if a later one of its batch replaces it.
                let rejects = rejects(&client, receipt.load_id).await;
                assert!(rejects.iter().all(|reject| mixed.bad.contains(&reject.0)), "{obstacle}");
                assert_eq!(rejects.len() as u64, receipt.counters.rejected);
            }
        }
    })
    .await;
}

#[tokio::test]
async fn documents_of_a_hot_key_are_checked_one_by_one() {
    each_build(async |db| {
        let client = db.client().await;
        for mut rng in Cases::new(1) {
            for obstacle in [OBSTACLES[0], OBSTACLES[4]] {
                let mut mixed = Mixed::default();
                let one_bad_of = [20, 1_000][rng.usize(..2)];
                for _ in 0..6_000 {
                    let id = match rng.u8(..10) {
                        0..6 => format!("hot {}", rng.u8(..2)),
                        6..9 => format!("warm {}", rng.u8(..100)),
                        _ => format!("{}", rng.u32(..)),
                    };
                    let bad = u8::from(rng.u32(..one_bad_of) == 0);
                    mixed.add(&id, bad);
                }
                mixed.add("hot 0", 1);
                for mode in ["sum:value", "replace"] {
                    let (table, files) = (table(&client, obstacle).await, Files::new());
                    let mut wanted = adopting(&table, files.write("a", &mixed.text));
                    (wanted.mode, wanted.lanes) = (mode.parse().expect("a mode"), Some(1));
                    (wanted.batch_rows, wanted.chunk_bytes) = (100_000, 1 << rng.u32(13..17));
                    let receipt = run(&db.url(), &wanted).await.receipt;
                    let adds_up = mode != "replace";
                    let expected = if adds_up { &mixed.sums } else { &mixed.rows };
                    assert!(stored(&client, &table).await == *expected, "{mode}: {obstacle}");
                    let rejects: BTreeSet<i64> =
                        rejects(&client, receipt.load_id).await.iter().map(|reject| reject.0).collect();
                    assert_eq!(rejects.len() as u64, receipt.counters.rejected);
                    assert!(rejects.is_subset(&mixed.bad) && (!adds_up || rejects == mixed.bad), "{mode}: {obstacle}");
                    // In one batch, the hottest key would leave over a thousand row versions.
                    let batches: u64 = receipt.writers.values().sum();
                    assert!(batches > 1 && receipt.writers.contains_key("replay"), "{mode}: {receipt:?}");
                }
            }
        }
    })
    .await;
}

#[tokio::test]
async fn unfolded_documents_of_one_key_are_split_into_batches() {
    each_build(async |db| {
        let client = db.client().await;
        let text = "{\"id\":\"a\",\"value\":1,\"bad\":0}\n".repeat(5_000);
        // What a trigger looks at is not known, so nothing is folded.
        let (table, files) = (table(&client, OBSTACLES[5]).await, Files::new());
        let mut wanted = adopting(&table, files.write("a", &text));
        wanted.mode = "sum:value".parse().expect("a mode");
        let receipt = run(&db.url(), &wanted).await.receipt;
        assert_eq!((receipt.counters.inserted, receipt.counters.updated), (1, 4_999), "{receipt:?}");
        let batches = text.len() / UNFOLDED_CHUNK_BYTES;
        assert!(receipt.writers.values().sum::<u64>() >= batches as u64, "{receipt:?}");
    })
    .await;
}

#[tokio::test]
async fn a_role_without_plpgsql_fails_on_the_first_refused_document() {
    each_build(async |db| {
        let (client, role) = (db.client().await, format!("loader_{}", fastrand::u32(..)));
        let create = format!("create role {role} login password 'x'; grant create on database {} to {role}", db.name);
        client.batch_execute(&create).await.unwrap();
        let url = format!("postgres://{role}:x@127.0.0.1:{}/{}", db.server.port(), db.name);
        let (table, files) = (table(&client, OBSTACLES[0]).await, Files::new());
        client.batch_execute(&format!("grant select, insert, update on {table} to {role}")).await.unwrap();
        // Creating our own tables takes a right that is revoked below.
        let good = |n: u32| format!("{{\"id\":\"{n}\",\"value\":{n},\"bad\":0}}\n");
        run(&url, &adopting(&table, files.write("first", good(0)))).await;
        client.batch_execute("revoke usage on language plpgsql from public").await.unwrap();
        run(&url, &adopting(&table, files.write("second", good(1)))).await;
        let bad = good(2) + "{\"id\":\"3\",\"value\":3,\"bad\":1}\n";
        let mut wanted = adopting(&table, files.write("third", &bad));
        wanted.lanes = Some(1);
        let outcome = run(&url, &wanted).await;
        let error = outcome.error.expect("the server refused a document");
        assert!(
            error.to_string().contains("needs PL/pgSQL") && error.hint().unwrap().contains("grant usage"),
            "{error}"
        );
        assert_eq!(stored(&client, &table).await.len(), 2, "nothing is half done");
    })
    .await;
}

#[tokio::test]
async fn errors_other_than_refusals_reject_nothing() {
    each_build(async |db| {
        let client = db.client().await;
        for (code, kind) in
            [("53100", ErrorKind::DiskFull), ("0L000", ErrorKind::Rights), ("58030", ErrorKind::ServerFault)]
        {
            let failing = format!(
                "create function judge_{{n}}() returns trigger language plpgsql as
                     $$begin if new.id = '150' then raise sqlstate '{code}'; end if;
                     if new.doc ->> 'bad' <> '0' then raise 'bad'; end if; return new; end$$;
                 create trigger judge before insert or update on {{t}} for each row execute function judge_{{n}}()"
            );
            let table = table(&client, &failing).await;
            let (mut rng, mut mixed, files) = (Rng::with_seed(42), Mixed::default(), Files::new());
            for n in 100..300 {
                mixed.push(&mut rng, &n.to_string());
            }
            let mut wanted = adopting(&table, files.write("a", &mixed.text));
            (wanted.lanes, wanted.batch_rows) = (Some(1), 1_000);
            let outcome = run(&db.url(), &wanted).await;
            assert_eq!(outcome.stopped, Some(StopReason::Failed));
            assert_eq!(outcome.error.as_ref().map(millstream_engine::Error::kind), Some(kind), "{outcome:?}");
            assert_eq!((outcome.receipt.counters.read, outcome.receipt.counters.rejected), (0, 0));
            assert!(stored(&client, &table).await.is_empty(), "nothing is half done");
        }
    })
    .await;
}

#[tokio::test]
async fn a_deadlock_during_a_replay_is_retried() {
    each_build(async |db| {
        let client = db.client().await;
        let failing = "create sequence judged_{n};
             create function judge_{n}() returns trigger language plpgsql as
                 $$begin if nextval('judged_{n}') = 150 then raise sqlstate '40P01'; end if;
                 if new.doc ->> 'bad' <> '0' then raise 'bad'; end if; return new; end$$;
             create trigger judge before insert or update on {t} for each row execute function judge_{n}()";
        let table = table(&client, failing).await;
        let (mut rng, mut mixed, files) = (Rng::with_seed(43), Mixed::default(), Files::new());
        for n in 100..400 {
            mixed.push(&mut rng, &n.to_string());
        }
        let mut wanted = adopting(&table, files.write("a", &mixed.text));
        (wanted.lanes, wanted.batch_rows) = (Some(1), 1_000);
        let receipt = run(&db.url(), &wanted).await.receipt;
        assert_eq!((receipt.deadlocks, receipt.counters.rejected), (1, mixed.bad.len() as u64), "{receipt:?}");
        assert!(stored(&client, &table).await == mixed.rows);
    })
    .await;
}

#[tokio::test]
async fn a_load_stops_soon_after_its_reject_limit_and_resumes() {
    /// Documents of a chunk of 256 KiB, all lanes together.
    const CHUNK_DOCUMENTS: u64 = 7_000;
    each_build(async |db| {
        let client = db.client().await;
        for obstacle in [OBSTACLES[0], OBSTACLES[4]] {
            let table = table(&client, obstacle).await;
            let (mut rng, mut mixed, files) = (Rng::with_seed(44), Mixed::default(), Files::new());
            for n in 0..60_000 {
                mixed.push(&mut rng, &n.to_string());
            }
            let mut wanted = adopting(&table, files.write("a", &mixed.text));
            (wanted.lanes, wanted.batch_rows, wanted.rejects_max) = (Some(2), 100_000, 500);
            let (around, _) = surroundings(&db.url());
            let outcome = Box::pin(load(&wanted, &around)).await.expect("the load begins");
            assert_eq!(outcome.stopped, Some(StopReason::Rejects));
            let rejected = outcome.receipt.counters.rejected;
            assert!((500..=500 + 2 * CHUNK_DOCUMENTS / 8).contains(&rejected), "{:?}", outcome.receipt);
            wanted.rejects_max = 1_000_000;
            let receipt = run(&db.url(), &wanted).await.receipt;
            assert_eq!(receipt.counters.rejected, mixed.bad.len() as u64);
            assert!(stored(&client, &table).await == mixed.rows);
        }
    })
    .await;
}

#[tokio::test]
async fn a_document_deleted_in_its_batch_is_gone_beside_refused_ones() {
    each_build(async |db| {
        let client = db.client().await;
        let table = table(&client, OBSTACLES[0]).await;
        let mut text = String::from("{\"id\":\"bad\",\"bad\":1}\n");
        for n in 0..400 {
            writeln!(text, "{{\"id\":\"a{n:04}\",\"bad\":0,\"v\":1}}").unwrap();
        }
        text.push_str("{\"id\":\"k\",\"bad\":0}\n{\"id\":\"k\",\"bad\":0,\"gone\":true}\n");
        let files = Files::new();
        for mode in ["merge", "merge:deep", "sum:v", "replace"] {
            client.batch_execute(&format!("truncate {table}")).await.unwrap();
            let mut wanted = adopting(&table, files.write(mode, &text));
            wanted.mode = mode.parse::<Mode>().unwrap().with_tombstone(Some("gone=true".parse().unwrap()));
            (wanted.batch_rows, wanted.lanes) = (100_000, Some(1));
            let receipt = run(&db.url(), &wanted).await.receipt;
            assert_eq!(receipt.counters.rejected, 1, "{mode}: {receipt:?}");
            let left = format!("select count(*), count(*) filter (where id = 'k') from {table}");
            let row = client.query_one(&left, &[]).await.unwrap();
            assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (400, 0), "{mode}: {receipt:?}");
        }
    })
    .await;
}
