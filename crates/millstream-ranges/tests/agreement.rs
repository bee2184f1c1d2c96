//! 100,000 addresses get the same from everything that knows the ranges.

use crate::stored::{built, exported, range};
use crate::table::explain;
use fastrand::Rng;
use maxminddb::Reader;
use millstream_ranges::export::{ExportOptions, TableOptions, lateral, to_table};
use millstream_ranges::{FAMILIES, Family, Generation, Index, Range};
use millstream_testkit::{every_build, skip};
use serde_json::Value;
use std::net::IpAddr;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use tokio_postgres::Client;

const ADDRESSES: usize = 100_000;

/// A range as a table has it: its first and its last address, and its document as text.
type Stored = (IpAddr, IpAddr, String);

/// Ranges of all sizes with gaps, by a walk through the address space. IPv6 begins at 2000::, because an `.mmdb` keeps
/// IPv4 in its lowest part.
fn ranges(rng: &mut Rng) -> Vec<Range> {
    let mut ranges = Vec::new();
    for (family, mut next, step) in [(Family::V4, 1 << 24, 24), (Family::V6, 0x2000_u128 << 112, 118)] {
        for _ in 0..10_000 {
            let start = next + (rng.u128(..) >> (128 - rng.u32(1..=step / 2)));
            let end = start + (rng.u128(..) >> (128 - rng.u32(1..=step - 4)));
            if end > family.last() {
                break;
            }
            ranges.push(range(family, start, end));
            next = end + 1;
        }
    }
    ranges
}

/// Random addresses, half of them in a range or beside one.
fn addresses(rng: &mut Rng, ranges: &[Range]) -> Vec<IpAddr> {
    let near = |rng: &mut Rng| {
        let range = rng.choice(ranges).unwrap();
        let number = match rng.u8(..4) {
            0 => range.start.saturating_sub(1),
            1 => range.end.saturating_add(1).min(range.family.last()),
            2 => range.end,
            _ => range.start + (rng.u128(..) % (range.end - range.start + 1)),
        };
        range.family.address(number)
    };
    let anywhere = |rng: &mut Rng| {
        let family = *rng.choice(&FAMILIES).unwrap();
        let low = if family == Family::V6 { 0x2000_u128 << 112 } else { 0 };
        family.address(rng.u128(low..=family.last()))
    };
    (0..ADDRESSES).map(|_| if rng.bool() { near(rng) } else { anywhere(rng) }).collect()
}

/// The number of the range that holds each address: addresses and ranges are walked side by side, in order.
fn by_list(ranges: &[Range], addresses: &[IpAddr]) -> Vec<Option<usize>> {
    let mut in_order: Vec<usize> = (0..addresses.len()).collect();
    in_order.sort_by_key(|n| addresses[*n]);
    let (mut found, mut at) = (vec![None; addresses.len()], 0);
    for n in in_order {
        while at < ranges.len() && ranges[at].last() < addresses[n] {
            at += 1;
        }
        let holds = ranges.get(at).is_some_and(|range| range.contains(addresses[n]));
        found[n] = holds.then_some(at);
    }
    found
}

/// The answers of a statement for the addresses, in their order.
async fn by_table(client: &Client, sql: &str) -> Vec<Option<Stored>> {
    let answers = format!("select start, \"end\", doc::text from ({sql}) answers order by n");
    let rows = client.query(&answers, &[]).await.unwrap();
    rows.iter().map(|row| row.get::<_, Option<IpAddr>>(0).map(|start| (start, row.get(1), row.get(2)))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn all_ways_to_ask_give_the_same_answer() {
    let mut rng = Rng::with_seed(2026);
    let ranges = ranges(&mut rng);
    let asked = addresses(&mut rng, &ranges);
    let at = by_list(&ranges, &asked);
    assert!(at.iter().flatten().count() > ADDRESSES / 4);
    // Every tenth range has no members.
    let number_of = |n: usize| (!n.is_multiple_of(10)).then_some(n as u64);
    let members = |n| number_of(n).map_or_else(String::new, |n| format!("\"t\":\"\\u00e9\\n\",\"n\":{n}"));
    let dir = tempfile::tempdir().unwrap();
    let named = ranges.iter().enumerate().map(|(n, range)| (*range, members(n)));
    built(&dir.path().join("store"), named, |_| ()).unwrap();
    let store = Generation::open(&dir.path().join("store"), None).unwrap();

    let number = |members: &str| -> Option<u64> {
        let (_, n) = members.rsplit_once(':')?;
        n.trim_end_matches('}').parse().ok()
    };
    let from_store = |address: &IpAddr| {
        let found = store.get(*address).unwrap()?;
        Some((found.range, number(&found.members().unwrap())))
    };
    assert!(asked.iter().map(from_store).eq(at.iter().map(|at| at.map(|n| (ranges[n], number_of(n))))), "the store");
    let numbers: Vec<_> = at.iter().map(|at| at.map(number_of)).collect();
    let index = Index::read(&store, None).unwrap();
    assert!(asked.iter().map(|address| index.get(*address).map(number)).eq(numbers.iter().copied()), "the index");
    let reader = Reader::from_source(exported(&store, "mmdb", &ExportOptions::default())).unwrap();
    let from_mmdb = |address: &IpAddr| {
        let found: Option<Value> = reader.lookup(*address).unwrap().decode().unwrap();
        Some(found?["n"].as_u64())
    };
    assert!(asked.iter().map(from_mmdb).eq(numbers.iter().copied()), "maxminddb");

    let stored = |(n, range): (usize, &Range)| {
        let doc = number_of(n).map_or_else(|| "{}".to_owned(), |n| format!("{{\"n\": {n}, \"t\": \"é\\n\"}}"));
        (range.first(), range.last(), doc)
    };
    let stored: Vec<Stored> = ranges.iter().enumerate().map(stored).collect();
    let expected: Vec<Option<Stored>> = at.iter().map(|at| at.map(|n| stored[n].clone())).collect();
    let tried = AtomicBool::new(false);
    every_build(async |db| {
        let client = db.client().await;
        let table = "geo".parse().unwrap();
        let mut options = TableOptions { ip4r: true, ..TableOptions::default() };
        let missing = to_table(&client, &store, &table, &options).await.unwrap_err();
        assert_eq!(missing.to_string(), "the extension ip4r is not installed in this database");
        let there = "select exists (select from pg_available_extensions where name = 'ip4r')";
        options.ip4r = client.query_one(there, &[]).await.unwrap().get(0);
        if options.ip4r {
            client.batch_execute("create schema \"IP\"; create extension ip4r schema \"IP\"").await.unwrap();
        }
        // The second one takes the place of the first one.
        for _ in 0..2 {
            assert_eq!(to_table(&client, &store, &table, &options).await.unwrap(), ranges.len() as u64);
        }
        let all = by_table(&client, "select start as n, start, \"end\", doc from geo").await;
        assert!(all.iter().flatten().eq(&stored), "the table");
        client.batch_execute("create table addresses (n bigint, ip inet)").await.unwrap();
        let insert = "insert into addresses select n, ip from unnest($1::inet[]) with ordinality a (ip, n)";
        client.execute(insert, &[&asked]).await.unwrap();
        client.batch_execute("analyze addresses").await.unwrap();
        assert!(by_table(&client, &lateral(&table)).await == expected, "the B-tree");
        let function = "select a.n, r.* from addresses a left join lateral millstream.range_of('geo', a.ip) r on true
            where n <= 10000";
        assert!(by_table(&client, function).await == expected[..10_000], "the function");
        let odd = "select (select count(*) from millstream.range_of('geo', null)),
            (select count(*) from addresses a, millstream.range_of('geo', a.ip) where n <= 1000),
            (select count(*) from addresses a, millstream.range_of('geo', a.ip) r,
                millstream.range_of('geo', set_masklen(a.ip, 8)) s where n <= 1000 and r.start = s.start)";
        let row = client.query_one(odd, &[]).await.unwrap();
        let [null, plain, netmask] = [0, 1, 2].map(|column| row.get::<_, i64>(column));
        assert!(null == 0 && plain > 0 && plain == netmask, "{null} {plain} {netmask}");
        if options.ip4r {
            let path = "select set_config('search_path', current_setting('search_path') || ', \"IP\"', false)";
            client.batch_execute(path).await.unwrap();
            let join = "select a.n, r.* from addresses a left join geo r on r.range >>= a.ip::ipaddress";
            assert!(by_table(&client, join).await == expected, "ip4r");
            client.batch_execute("set enable_seqscan = off").await.unwrap();
            let plan = explain(&client, "select from geo where range >>= '1.2.3.4'::ipaddress").await;
            assert!(plan.contains("geo_range"), "{plan}");
            tried.store(true, Relaxed);
        }
    })
    .await;
    if !tried.load(Relaxed) {
        skip("no build of PostgreSQL here has ip4r");
    }
}
