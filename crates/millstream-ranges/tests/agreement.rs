//! 100,000 addresses get the same from everything that knows the ranges.

use crate::stored::{built, range};
use fastrand::Rng;
use maxminddb::Reader;
use millstream_ranges::export::{ExportOptions, TableOptions, export, to_table};
use millstream_ranges::{FAMILIES, Family, Generation, Index, Range};
use millstream_testkit::{every_build, skip};
use std::net::IpAddr;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use tokio_postgres::Client;

const ADDRESSES: usize = 100_000;

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
        let range = rng.choice(ranges).expect("there are ranges");
        let number = match rng.u8(..4) {
            0 => range.start.saturating_sub(1),
            1 => range.end.saturating_add(1).min(range.family.last()),
            2 => range.end,
            _ => range.start + (rng.u128(..) % (range.end - range.start + 1)),
        };
        range.family.address(number)
    };
    let anywhere = |rng: &mut Rng| {
        let family = *rng.choice(&FAMILIES).expect("there are two");
        let low = if family == Family::V6 { 0x2000_u128 << 112 } else { 0 };
        family.address(rng.u128(low..=family.last()))
    };
    (0..ADDRESSES).map(|_| if rng.bool() { near(rng) } else { anywhere(rng) }).collect()
}

/// The number of the range that holds each address: addresses and ranges are walked side by side, in order.
fn by_list(ranges: &[Range], addresses: &[IpAddr]) -> Vec<Option<i64>> {
    let mut in_order: Vec<usize> = (0..addresses.len()).collect();
    in_order.sort_by_key(|n| addresses[*n]);
    let (mut found, mut at) = (vec![None; addresses.len()], 0);
    for n in in_order {
        while at < ranges.len() && ranges[at].last() < addresses[n] {
            at += 1;
        }
        let holds = ranges.get(at).is_some_and(|range| range.contains(addresses[n]));
        found[n] = holds.then(|| i64::try_from(at).expect("it is small"));
    }
    found
}

async fn by_table(client: &Client, join: &str) -> Vec<Option<i64>> {
    let sql = format!("select (r.doc ->> 'n')::bigint from asked {join} order by asked.i");
    client.query(&sql, &[]).await.expect("the statement runs").iter().map(|row| row.get(0)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn all_ways_to_ask_give_the_same_answer() {
    let mut rng = Rng::with_seed(2026);
    let ranges = ranges(&mut rng);
    let asked = addresses(&mut rng, &ranges);
    let expected = by_list(&ranges, &asked);
    assert!(expected.iter().flatten().count() > ADDRESSES / 4);
    let dir = tempfile::tempdir().expect("there is room");
    let named = ranges.iter().enumerate().map(|(n, range)| (*range, format!("\"n\":{n}")));
    built(&dir.path().join("store"), named, |_| ()).expect("it is built");
    let store = Generation::open(&dir.path().join("store"), None).expect("it is sound");

    let number = |members: &str| members.rsplit_once(':').and_then(|(_, n)| n.trim_end_matches('}').parse().ok());
    let from_store = |address: &IpAddr| {
        let found = store.get(*address).expect("it is sound")?;
        number(&found.members().expect("it is sound"))
    };
    assert!(asked.iter().map(from_store).eq(expected.iter().copied()), "the store");
    let index = Index::read(&store, None).expect("it fits");
    assert!(asked.iter().map(|address| number(index.get(*address)?)).eq(expected.iter().copied()), "the index");
    let mut file = Vec::new();
    export(&store, "mmdb", &mut file, &ExportOptions::default()).expect("it is exported");
    let reader = Reader::from_source(file).expect("it is sound");
    let from_mmdb = |address: &IpAddr| {
        let found: Option<serde_json::Value> = reader.lookup(*address).expect("it is sound").decode().expect("JSON");
        found?["n"].as_i64()
    };
    assert!(asked.iter().map(from_mmdb).eq(expected.iter().copied()), "maxminddb");

    let tried = AtomicBool::new(false);
    every_build(async |db| {
        let client = db.client().await;
        let there = "select exists (select from pg_available_extensions where name = 'ip4r')";
        let ip4r: bool = client.query_one(there, &[]).await.expect("it answers").get(0);
        if ip4r {
            client.batch_execute("create extension ip4r").await.expect("it is made");
        }
        let options = TableOptions { ip4r, ..TableOptions::default() };
        to_table(&client, &store, &"geo".parse().expect("a name"), &options).await.expect("it is filled");
        client.batch_execute("create table asked (i bigint, ip inet)").await.expect("it is made");
        let insert = "insert into asked select i, ip from unnest($1::inet[]) with ordinality a (ip, i)";
        client.execute(insert, &[&asked]).await.expect("they are stored");
        client.batch_execute("analyze asked").await.expect("it is analyzed");
        let lateral =
            "left join lateral (select \"end\", doc from geo where start <= asked.ip order by start desc limit 1) r
            on r.\"end\" >= asked.ip";
        assert!(by_table(&client, lateral).await == expected, "the B-tree");
        if ip4r {
            let join = "left join geo r on r.range >>= asked.ip::ipaddress";
            assert!(by_table(&client, join).await == expected, "ip4r");
            tried.store(true, Relaxed);
        }
    })
    .await;
    if !tried.load(Relaxed) {
        skip("no build of PostgreSQL here has ip4r");
    }
}
