//! Tables of PostgreSQL that are filled from a store.

use crate::stored::built;
use millstream_model::CollectionName;
use millstream_pg::Explained;
use millstream_ranges::export::{TableOptions, lateral, to_table};
use millstream_ranges::input::{InputOptions, open};
use millstream_ranges::{AddressReading, BuildRequest, ColumnType, FAMILIES, Generation, Range, Silent, build};
use millstream_testkit::each_build;
use std::net::IpAddr;
use std::path::PathBuf;
use tokio_postgres::Client;

/// A folder for a store.
pub(crate) struct Folder(tempfile::TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.0.path().join("store")
    }

    /// Builds the next generation and opens it.
    fn build(&self, ranges: Vec<(Range, String)>) -> Generation {
        built(&self.store(), ranges, |_| {}).unwrap();
        Generation::open(&self.store(), None).unwrap()
    }

    pub(crate) fn build_of(&self, ranges: &[(&str, &str)]) -> Generation {
        let parsed = |(range, members): &(&str, &str)| {
            (Range::parse(range, AddressReading::default()).unwrap(), (*members).to_owned())
        };
        self.build(ranges.iter().map(parsed).collect())
    }
}

pub(crate) fn name(text: &str) -> CollectionName {
    text.parse().unwrap()
}

/// A store of a file with a column for each of these types.
fn typed(folder: &Folder, types: &[(&str, ColumnType)]) -> Generation {
    let file = folder.0.path().join("typed.csv");
    let text = "ip,big,whole,small,short,real,yes,text,doc\n\
                1.0.0.0,18446744073709551615,4294967295,-2147483648,65535,1.5e-300,t,007,x\n1.0.0.1,,,,,,,,y\n";
    std::fs::write(&file, text).unwrap();
    let types = types.iter().map(|(name, kind)| ((*name).to_owned(), *kind)).collect();
    let input = open(&file, &InputOptions { types, ..InputOptions::default() }).unwrap();
    build(&BuildRequest::new(folder.store()), vec![input], &Silent).unwrap();
    Generation::open(&folder.store(), None).unwrap()
}

#[tokio::test]
async fn members_with_a_type_have_a_column_of_it() {
    let (folder, taken) = (Folder::new(), Folder::new());
    let types = [
        ("big", ColumnType::Uint64),
        ("whole", ColumnType::Uint32),
        ("small", ColumnType::Int32),
        ("short", ColumnType::Uint16),
        ("real", ColumnType::Double),
        ("yes", ColumnType::Boolean),
        ("text", ColumnType::String),
    ];
    let generation = typed(&folder, &types);
    let clash = typed(&taken, &[("doc", ColumnType::String)]);
    each_build(async |db| {
        let client = db.client().await;
        let (table, options) = (name("ranges"), TableOptions::default());
        assert_eq!(to_table(&client, &generation, &table, &options).await.unwrap(), 2);
        let row = client
            .query_one(
                "select big::text, whole, small, short, real, yes, text, doc::text from ranges where whole is not null",
                &[],
            )
            .await
            .unwrap();
        assert_eq!(row.get::<_, &str>(0), "18446744073709551615");
        assert_eq!(
            (row.get::<_, i64>(1), row.get::<_, i32>(2), row.get::<_, i32>(3)),
            (4_294_967_295, i32::MIN, 65_535)
        );
        assert!((row.get::<_, f64>(4) - 1.5e-300).abs() < 1e-310);
        assert_eq!((row.get::<_, bool>(5), row.get::<_, &str>(6)), (true, "007"));
        let nulls = "select count(*) from ranges where num_nulls(big, whole, small, short, real, yes, text) = 7";
        assert_eq!(client.query_one(nulls, &[]).await.unwrap().get::<_, i64>(0), 1);
        let refused = to_table(&client, &clash, &table, &options).await.unwrap_err();
        assert_eq!(refused.to_string(), "the member \"doc\" has a type, and is the name of another column");
    })
    .await;
}

#[tokio::test]
async fn an_address_of_one_family_never_gets_a_range_of_the_other() {
    let folder = Folder::new();
    let generation = folder.build_of(&[("0.0.0.0/0", "\"v\":4"), ("8000::/1", "\"v\":6")]);
    each_build(async |db| {
        let client = db.client().await;
        to_table(&client, &generation, &name("ranges"), &TableOptions::default()).await.unwrap();
        let sql = "select doc->>'v' from millstream.range_of('ranges', $1)";
        for (address, expected) in [
            ("0.0.0.0", Some("4")),
            ("255.255.255.255", Some("4")),
            ("::", None),
            ("7fff::", None),
            ("8000::", Some("6")),
        ] {
            let address: IpAddr = address.parse().unwrap();
            let row = client.query_opt(sql, &[&address]).await.unwrap();
            assert_eq!(row.map(|row| row.get::<_, String>(0)).as_deref(), expected, "{address}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_value_that_jsonb_refuses_is_named_and_nothing_is_left() {
    each_build(async |db| {
        let client = db.client().await;
        for (members, says) in [
            ("\"a\":\"\\u0000\"", "1.0.0.7-1.0.0.7: a string holds \\u0000, which jsonb cannot hold"),
            ("\"a\":1e400000", "1.0.0.7-1.0.0.7: PostgreSQL refuses its value: "),
        ] {
            let folder = Folder::new();
            let mut ranges: Vec<(String, String)> =
                (0..7).map(|n| (format!("1.0.0.{n}"), format!("\"n\":{n}"))).collect();
            ranges.push(("1.0.0.7".into(), members.into()));
            // Many messages of COPY follow.
            ranges.extend((0..200).map(|n| (format!("1.0.1.{n}"), format!("\"n\":\"{}\"", "x".repeat(5_000)))));
            let ranges: Vec<(&str, &str)> = ranges.iter().map(|(range, members)| (&**range, &**members)).collect();
            let generation = folder.build_of(&ranges);
            let error = to_table(&client, &generation, &name("ranges"), &TableOptions::default()).await.unwrap_err();
            assert!(error.to_string().starts_with(says), "{error:?}");
            assert!(error.hint().is_some());
            let left = "select count(*) from pg_class
                where relname = 'ranges' or relname like 'millstream%' or relnamespace = to_regnamespace('millstream')";
            let left: i64 = client.query_one(left, &[]).await.unwrap().get(0);
            assert_eq!(left, 0);
            // The session is not in a transaction any more.
            client.batch_execute("begin; commit").await.unwrap();
        }
    })
    .await;
}

#[tokio::test]
async fn large_values_and_no_function_are_possible() {
    let folder = Folder::new();
    let long = format!("\"a\":\"{}\"", "é".repeat(500_000));
    let generation = folder.build_of(&[("1.0.0.0", long.as_str()), ("1.0.0.1", ""), ("1.0.0.2", long.as_str())]);
    each_build(async |db| {
        let client = db.client().await;
        let options = TableOptions { function: None, ..TableOptions::default() };
        to_table(&client, &generation, &name("ranges"), &options).await.unwrap();
        let sql = "select array_agg(length(coalesce(doc->>'a', '')) order by start),
                to_regnamespace('millstream') is null from ranges";
        let row = client.query_one(sql, &[]).await.unwrap();
        assert_eq!((row.get::<_, Vec<i32>>(0), row.get::<_, bool>(1)), (vec![500_000, 0, 500_000], true));
    })
    .await;
}

#[tokio::test]
async fn look_ups_use_the_primary_key_whatever_the_statistics_say() {
    let folder = Folder::new();
    let spread = FAMILIES.into_iter().flat_map(|family| {
        let step = family.last() / 20_000;
        (0..20_000).map(move |n| (Range { family, start: n * step, end: n * step + step / 2 }, String::new()))
    });
    let generation = folder.build(spread.collect());
    each_build(async |db| {
        let client = db.client().await;
        let table = name("ranges");
        to_table(&client, &generation, &table, &TableOptions::default()).await.unwrap();
        let addresses = "create table addresses as select '0.0.0.0'::inet + n * 800000 as ip
                         from generate_series(0, 4999::bigint) n;
                         analyze addresses; alter table ranges set (autovacuum_enabled = false)";
        client.batch_execute(addresses).await.unwrap();
        // The statement of the function, for any address and for one.
        let function = include_str!("../src/export/range_of.sql");
        let inner = function.split('\'').nth(1).unwrap().replace("%s", "ranges");
        let prepare = format!("prepare look_up (inet) as {inner}");
        client.batch_execute(&prepare).await.unwrap();
        let none = "delete from pg_catalog.pg_statistic where starelid = 'ranges'::regclass";
        for statistics in ["analyze ranges", none] {
            client.batch_execute(statistics).await.unwrap();
            let mut plans = vec![explain(&client, &lateral(&table)).await];
            for mode in ["force_custom_plan", "force_generic_plan"] {
                client.batch_execute(&format!("set plan_cache_mode = {mode}")).await.unwrap();
                plans.push(explain(&client, "execute look_up ('2001:db8::1')").await);
            }
            for plan in plans {
                let expected = "Index Scan Backward using ranges_pkey on ranges";
                assert!(plan.contains(expected) && plan.contains("Index Cond: (start <= "), "{statistics}:\n{plan}");
                assert!(!plan.contains("Seq Scan on ranges") && !plan.contains("Sort"), "{statistics}:\n{plan}");
            }
        }
    })
    .await;
}

/// The plan of a statement.
pub(crate) async fn explain(client: &Client, sql: &str) -> String {
    let rows = client.query(&format!("explain {sql}"), &[]).await.unwrap();
    rows.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>().join("\n")
}
