//! Tables and indexes that were freshly written: a rewrite gives nothing back, and none is promised.

use crate::checks::{keys, report, sql, subjects};
use millstream_testkit as testkit;

#[tokio::test]
async fn freshly_written_tables_and_indexes_promise_nothing() {
    testkit::every_build(async |database| {
        let client = database.client().await;
        let nulls: Vec<String> = (1..=400).map(|n| format!("n{n} int")).collect();
        let padded: Vec<String> =
            (1..=20).map(|n| format!("b{n} bool default true, i{n} bigint default {n}")).collect();
        sql(
            &client,
            &format!(
                "create table nulls (id int, {}); insert into nulls select generate_series(1, 20000);
                 create table padded (id int, {}); insert into padded select generate_series(1, 5000);
                 create table part (id int, t text);
                 insert into part select n, case when n % 20 = 0 then repeat('x', 90) || n end
                     from generate_series(1, 100000) as n;
                 create index part_t on part (t) where t is not null;
                 vacuum analyze nulls; vacuum analyze padded; vacuum analyze part",
                nulls.join(", "),
                padded.join(", ")
            ),
        )
        .await;
        let small = "[threshold.table-bloat]\ntable_mb = 0.2\nfree_mb = 0.1\n[threshold.index-bloat]\nindex_mb = 0.2";
        assert_eq!(keys(&report(&database, "table-bloat", small).await), [""; 0]);
        let indexes = report(&database, "index-bloat", small).await;
        assert_eq!(subjects(&indexes), [""; 0]);
        assert!(indexes.skipped[0].why.starts_with("large indexes: 1;"), "the partial one: {indexes:?}");
        // The measurement tells what the statistics cannot.
        sql(&client, "create extension pgstattuple").await;
        assert_eq!(keys(&report(&database, "index-bloat", small).await), [""; 0]);
        sql(&client, "delete from part where id % 200 <> 0; vacuum analyze part").await;
        assert_eq!(keys(&report(&database, "index-bloat", small).await), ["public.part_t"]);
    })
    .await;
}

#[tokio::test]
async fn wide_rows_leave_the_ends_of_their_pages_free() {
    let small = "[threshold.table-bloat]\ntable_mb = 0.2\nfree_mb = 0.1";
    testkit::every_build(async |database| {
        let client = database.client().await;
        for (name, storage, options, rows, body) in [
            ("half", "plain", "", 300, "repeat('x', 5000)"),
            ("third", "plain", "", 400, "repeat('x', 2800)"),
            ("mixed", "plain", "", 2000, "repeat('x', case when n % 10 = 0 then 7900 else 100 end)"),
            (
                "kept",
                "main",
                "",
                300,
                "(select string_agg(md5((n * 1000 + g)::text), '') from generate_series(1, 150) as g)",
            ),
            ("target", "external", "with (toast_tuple_target = 8160)", 300, "repeat('x', 4600)"),
            ("loose", "plain", "with (fillfactor = 60)", 300, "repeat('x', 3000)"),
        ] {
            sql(
                &client,
                &format!(
                    "create table {name} (id int primary key, body text) {options};
                     alter table {name} alter body set storage {storage};
                     insert into {name} select n, {body} from generate_series(1, {rows}) as n;
                     vacuum full {name}; vacuum analyze {name}"
                ),
            )
            .await;
        }
        assert_eq!(subjects(&report(&database, "table-bloat", small).await), [""; 0]);
        sql(&client, "create extension pgstattuple").await;
        assert_eq!(subjects(&report(&database, "table-bloat", small).await), [""; 0], "measured");
        sql(&client, "drop extension pgstattuple; delete from half where id % 4 <> 0").await;
        sql(&client, "vacuum (truncate false, analyze) half").await;
        let is_found = async |how: &str| {
            let found = report(&database, "table-bloat", small).await;
            assert_eq!(subjects(&found), ["public.half"], "{how}");
            assert!(found.findings[0].sentence.ends_with("at least 75 % smaller"), "{how}: {found:?}");
            found
        };
        let found = is_found("estimated").await;
        // The command reaches the same server, and has no password.
        let commands = &found.findings[0].repair.as_ref().unwrap().commands;
        let place = format!("$ pg_repack --host 127.0.0.1 --port {} --username ", database.server.port());
        assert!(commands[1].starts_with(&place) && commands[1].ends_with(" --table public.half"), "{commands:?}");
        assert!(!commands[1].contains(database.server.password()), "{commands:?}");
        sql(&client, "create extension pgstattuple").await;
        is_found("measured").await;
    })
    .await;
}

/// Shapes that are tried on a build.
const SHAPES: usize = 25;

/// Types, with an expression for the value of row `n`.
const VALUES: &[(&str, &str)] = &[
    ("int", "n"),
    ("bigint", "n * 7919"),
    ("smallint", "(n % 30000)::smallint"),
    ("bool", "n % 2 = 0"),
    ("float8", "n / 7.0"),
    ("numeric", "n * 1.25"),
    ("uuid", "md5(n::text)::uuid"),
    ("timestamptz", "'2026-01-01'::timestamptz + n * interval '1 second'"),
    ("text", "repeat('x', n % 40)"),
    ("text", "md5(n::text) || repeat('y', n % 150)"),
    ("char(9)", "'a'"),
    ("jsonb", "jsonb_build_object('a', n, 'b', repeat('z', n % 60))"),
    ("bytea", "decode(md5(n::text), 'hex')"),
];

/// Statements that make a table of a random shape, with indexes before or after its rows.
fn shape(table: &str, rng: &mut fastrand::Rng) -> String {
    let columns: Vec<(&str, String)> = (0..rng.usize(1..12))
        .map(|_| {
            let (kind, value) = VALUES[rng.usize(..VALUES.len())];
            let nulls = [0, 0, 0, 10, 50, 95][rng.usize(..6)];
            (kind, format!("case when n * 31 % 100 >= {nulls} then {value} end"))
        })
        .collect();
    let definitions: Vec<String> = columns.iter().enumerate().map(|(n, (kind, _))| format!("c{n} {kind}")).collect();
    let values: Vec<&str> = columns.iter().map(|(_, value)| value.as_str()).collect();
    let fillfactor = [100, 100, 90, 60][rng.usize(..4)];
    let mut indexes = vec![format!("alter table {table} add primary key (id)")];
    for place in 0..rng.usize(..3) {
        let indexed = rng.usize(..columns.len());
        let (column, more) = (format!("c{indexed}"), if rng.bool() { ", id" } else { "" });
        let condition = if rng.u8(..4) == 0 { " where id % 10 = 0" } else { "" };
        indexes.push(format!("create index {table}_{place} on {table} ({column}{more}){condition}"));
    }
    let rows = format!(
        "insert into {table} select n, {} from generate_series(1, {}) as n order by {}",
        values.join(", "),
        rng.u32(5_000..20_000),
        ["n", "md5(n::text)"][rng.usize(..2)],
    );
    let create = format!(
        "create table {table} (id int, {}) with (fillfactor = {fillfactor}, autovacuum_enabled = false)",
        definitions.join(", ")
    );
    let built = indexes.join(";\n");
    let steps = if rng.bool() { [create, rows, built] } else { [create, built, rows] };
    format!("{};\nvacuum analyze {table}", steps.join(";\n"))
}

/// The percentage in a sentence of a finding.
fn promised(sentence: &str) -> f64 {
    let before = sentence.split(" %").next().unwrap();
    before.rsplit(' ').next().unwrap().parse().unwrap_or_else(|_| panic!("{sentence}"))
}

#[tokio::test]
async fn a_promise_is_what_a_rewrite_gives_back() {
    let small = "[threshold.table-bloat]\ntable_mb = 0.3\nfree_mb = 0.1\n[threshold.index-bloat]\nindex_mb = 0.2";
    testkit::each_build(async |database| {
        let client = database.client().await;
        let size = async |name: &str| {
            let sql = "select pg_relation_size($1::text::regclass)::float8";
            client.query_one(sql, &[&name]).await.unwrap().get::<_, f64>(0)
        };
        for measured in [false, true] {
            if measured {
                sql(&client, "create extension pgstattuple").await;
            }
            let mut promises = 0;
            for mut rng in testkit::Cases::new(SHAPES) {
                let table = format!("t{}", rng.u32(..));
                let made = shape(&table, &mut rng);
                sql(&client, &made).await;
                for check in ["table-bloat", "index-bloat"] {
                    let found = report(&database, check, small).await;
                    assert_eq!(subjects(&found), [""; 0], "{made}\n{found:?}");
                }
                let kept = rng.u32(3..40);
                let delete = match rng.bool() {
                    true => format!("delete from {table} where id * 7 % 100 >= {kept}"),
                    false => format!("delete from {table} where id > {kept} * 100"),
                };
                sql(&client, &format!("{delete};\nvacuum (truncate false, analyze) {table}")).await;
                for check in ["index-bloat", "table-bloat"] {
                    let found = report(&database, check, small).await;
                    for finding in found.findings.iter().filter(|finding| finding.subject != database.name) {
                        let before = size(&finding.subject).await;
                        match check {
                            "index-bloat" => sql(&client, &format!("reindex index {}", finding.subject)).await,
                            _ => sql(&client, &format!("vacuum full {}", finding.subject)).await,
                        }
                        let given = 100.0 * (1.0 - size(&finding.subject).await / before);
                        let promised = promised(&finding.sentence);
                        let far = if finding.sentence.contains("at least") {
                            given < promised - 10.0
                        } else {
                            (given - promised).abs() > 10.0
                        };
                        assert!(!far, "gave back {given:.1} % of {before}: {}\n{made};\n{delete}", finding.sentence);
                        promises += 1;
                    }
                }
                sql(&client, &format!("drop table {table}")).await;
            }
            assert!(promises > 0, "some shape is bloated");
        }
    })
    .await;
}

#[tokio::test]
async fn many_small_tables_are_judged_together() {
    let settings = "[threshold.table-bloat]\ntable_mb = 3\nfree_mb = 1\n[threshold.index-bloat]\nindex_mb = 1
        [threshold.dead-tuples]\ntable_mb = 3";
    testkit::every_build(async |database| {
        let client = database.client().await;
        let of_each = |statement: &str| -> String {
            (0..20).map(|n| statement.replace('T', &format!("small_{n}")) + ";\n").collect()
        };
        sql(
            &client,
            &of_each(
                "create table T (id int primary key, t text) with (autovacuum_enabled = false);
                 insert into T select n, repeat('x', 80) from generate_series(1, 3000) as n; analyze T",
            ),
        )
        .await;
        for check in ["table-bloat", "index-bloat", "dead-tuples"] {
            assert_eq!(subjects(&report(&database, check, settings).await), [""; 0], "{check}");
        }
        sql(&client, &of_each("delete from T where id % 10 <> 0")).await;
        wait_for_dead(&client).await;
        let found = report(&database, "dead-tuples", settings).await;
        assert_eq!(subjects(&found), [database.name.as_str()]);
        assert!(
            found.findings[0]
                .sentence
                .contains("% of the rows of 20 small tables are dead: autovacuum is off for 20 of them"),
            "{found:?}"
        );
        sql(&client, &of_each("vacuum (truncate false, analyze) T")).await;
        for (check, things) in [("table-bloat", "20 small tables"), ("index-bloat", "20 small indexes")] {
            let found = report(&database, check, settings).await;
            assert_eq!(subjects(&found), [database.name.as_str()], "{check}");
            assert!(found.findings[0].sentence.contains(things), "{found:?}");
        }
    })
    .await;
}

/// Waits until the server has counted the dead rows of the small tables.
async fn wait_for_dead(client: &tokio_postgres::Client) {
    let counted = "select count(*) = 20 from pg_stat_user_tables where n_dead_tup > 2000";
    testkit::until("the server counts the dead rows", async || client.query_one(counted, &[]).await.unwrap().get(0))
        .await;
}
