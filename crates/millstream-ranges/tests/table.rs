//! Tables of PostgreSQL that are filled from a store.

use crate::stored::built;
use fastrand::Rng;
use millstream_model::CollectionName;
use millstream_pg::Explained;
use millstream_ranges::export::{TableOptions, lateral, to_table};
use millstream_ranges::input::{InputOptions, open};
use millstream_ranges::{
    AddressReading, BuildRequest, ColumnType, Error, FAMILIES, Family, Generation, Range, Silent, build,
};
use millstream_testkit::{cases, each_build, every_build};
use serde_json::Value;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
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

/// Ranges of both families with gaps of all sizes, some of them of one address.
fn random(rng: &mut Rng, count: usize) -> Vec<(Range, String)> {
    let mut all = Vec::new();
    for family in FAMILIES {
        // The first range leaves addresses below it, and the last one addresses above it.
        let step = family.last() / (count as u128 + 2);
        let mut next = step;
        for n in 0..count {
            let at_most = |rng: &mut Rng, most: u128| if rng.u8(..4) == 0 { 0 } else { rng.u128(..=most) };
            let start = next + at_most(rng, step / 2);
            let end = start + at_most(rng, step / 2 - 1);
            let members = if n % 10 == 0 { String::new() } else { format!("\"n\":{n},\"t\":\"\\u00e9\\n{family:?}\"") };
            all.push((Range { family, start, end }, members));
            next = end + 1 + at_most(rng, 3).min(step / 4);
        }
    }
    all
}

/// Every boundary, the addresses beside it, and random ones.
fn addresses(rng: &mut Rng, ranges: &[(Range, String)], random: usize) -> Vec<IpAddr> {
    let mut all = Vec::new();
    for (Range { family, start, end }, _) in ranges {
        let middle = start + (end - start) / 2;
        let beside = [start.checked_sub(1), end.checked_add(1)].into_iter().flatten();
        let numbers = beside.chain([*start, middle, *end]).filter(|number| *number <= family.last());
        all.extend(numbers.map(|number| family.address(number)));
    }
    for family in FAMILIES {
        all.extend([0, 1, family.last()].map(|number| family.address(number)));
        all.extend((0..random / 2).map(|_| family.address(rng.u128(..=family.last()))));
    }
    all
}

/// What an address gets: first, last and document.
type Answer = Option<(IpAddr, IpAddr, Value)>;

fn from_store(generation: &Generation, address: IpAddr) -> Answer {
    let found = generation.get(address).unwrap()?;
    let doc = serde_json::from_str(&format!("{{{}}}", found.members().unwrap())).unwrap();
    Some((found.range.first(), found.range.last(), doc))
}

/// Answers of a statement whose rows have start, end and document as text, in the order of the addresses.
async fn from_table(client: &Client, sql: &str) -> Vec<Answer> {
    let rows = client.query(sql, &[]).await.unwrap();
    rows.iter()
        .map(|row| {
            let doc: Option<String> = row.get("doc");
            Some((row.get::<_, Option<IpAddr>>("start")?, row.get("end"), serde_json::from_str(&doc?).unwrap()))
        })
        .collect()
}

/// Makes the table `addresses` with the columns `n` and `ip`.
async fn fill_addresses(client: &Client, addresses: &[IpAddr]) {
    client.batch_execute("drop table if exists addresses; create table addresses (n bigint, ip inet)").await.unwrap();
    let insert = "insert into addresses select n, ip from unnest($1::inet[]) with ordinality a (ip, n)";
    client.execute(insert, &[&addresses]).await.unwrap();
    client.batch_execute("analyze addresses").await.unwrap();
}

#[tokio::test]
async fn addresses_get_the_same_from_the_table_and_the_store() {
    let mut rng = Rng::with_seed(11);
    let ranges = random(&mut rng, 2_000);
    let wanted = addresses(&mut rng, &ranges, cases(10_000));
    let folder = Folder::new();
    let count = ranges.len() as u64;
    let generation = folder.build(ranges);
    let expected: Vec<Answer> = wanted.iter().map(|address| from_store(&generation, *address)).collect();
    each_build(async |db| {
        let client = db.client().await;
        let table = name("ranges");
        let rows = to_table(&client, &generation, &table, &TableOptions::default()).await.unwrap();
        assert_eq!(rows, count);
        fill_addresses(&client, &wanted).await;
        let by_function = "select r.start, r.\"end\", r.doc::text as doc from addresses a
            left join lateral millstream.range_of('ranges', a.ip) r on true order by a.n";
        let by_statement = format!("select start, \"end\", doc::text as doc from ({}) l order by n", lateral(&table));
        for sql in [by_function, &by_statement] {
            let found = from_table(&client, sql).await;
            assert_eq!(found.len(), expected.len());
            for ((found, expected), address) in found.iter().zip(&expected).zip(&wanted) {
                assert_eq!(found, expected, "{address} {sql}");
            }
        }
        let odd = "select (select count(*) from millstream.range_of('ranges', null)),
            (select count(*) from addresses a, millstream.range_of('ranges', a.ip)),
            (select count(*) from addresses a, millstream.range_of('ranges', a.ip) r,
                millstream.range_of('ranges', set_masklen(a.ip, 8)) s where r.start = s.start)";
        let row = client.query_one(odd, &[]).await.unwrap();
        let [null, plain, netmask] = [0, 1, 2].map(|column| row.get::<_, i64>(column));
        assert!(null == 0 && plain > 0 && plain == netmask, "{null} {plain} {netmask}");
    })
    .await;
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
    let generation = folder.build(random(&mut Rng::with_seed(12), 20_000));
    each_build(async |db| {
        let client = db.client().await;
        let table = name("ranges");
        to_table(&client, &generation, &table, &TableOptions::default()).await.unwrap();
        let all: Vec<IpAddr> = (0..5_000).map(|number| Family::V4.address(number * 800_000)).collect();
        fill_addresses(&client, &all).await;
        client.batch_execute("alter table ranges set (autovacuum_enabled = false)").await.unwrap();
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

async fn explain(client: &Client, sql: &str) -> String {
    let rows = client.query(&format!("explain {sql}"), &[]).await.unwrap();
    rows.iter().map(|row| row.get::<_, String>(0)).collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn ip4r_is_used_where_it_is_installed() {
    let mut rng = Rng::with_seed(13);
    let ranges = random(&mut rng, 300);
    let wanted = addresses(&mut rng, &ranges, 1_000);
    let folder = Folder::new();
    let generation = folder.build(ranges);
    let tried = AtomicBool::new(false);
    let expected: Vec<Answer> = wanted.iter().map(|address| from_store(&generation, *address)).collect();
    every_build(async |db| {
        let client = db.client().await;
        let options = TableOptions { ip4r: true, ..TableOptions::default() };
        let table = name("ranges");
        let error = to_table(&client, &generation, &table, &options).await.unwrap_err();
        assert_eq!(error.to_string(), "the extension ip4r is not installed in this database");
        let there = "select exists (select from pg_available_extensions where name = 'ip4r')";
        if !client.query_one(there, &[]).await.unwrap().get::<_, bool>(0) {
            return;
        }
        tried.store(true, Relaxed);
        client.batch_execute("create schema \"IP\"; create extension ip4r schema \"IP\"").await.unwrap();
        for _ in 0..2 {
            to_table(&client, &generation, &table, &options).await.unwrap();
        }
        fill_addresses(&client, &wanted).await;
        let path = "select set_config('search_path', current_setting('search_path') || ', \"IP\"', false)";
        client.batch_execute(&format!("{path}; set enable_seqscan = off")).await.unwrap();
        let sql = "select r.start, r.\"end\", r.doc::text as doc from addresses a
            left join ranges r on r.range >>= a.ip::ipaddress order by a.n";
        assert_eq!(from_table(&client, sql).await, expected);
        let plan = explain(&client, "select from ranges where range >>= '1.2.3.4'::ipaddress").await;
        assert!(plan.contains("ranges_range"), "{plan}");
    })
    .await;
    if !tried.load(Relaxed) {
        millstream_testkit::skip("no build of PostgreSQL here has ip4r");
    }
}
