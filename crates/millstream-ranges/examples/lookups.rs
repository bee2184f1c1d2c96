//! Loops over look-ups, for the experiment `ranges` of the lab. The last line that it prints is JSON with what it measured.
//!
//! ```text
//! lookups ranges COUNT SEED               ranges as CSV, made like the splits of address registries
//! lookups documents COUNT SEED            documents of about 150 bytes with an address each, as NDJSON
//! lookups enriched COUNT SEED STORE       the same documents with what the store knows, as `load --enrich` makes them
//! lookups measure WAY FILE SECONDS [THREADS]   WAY is one of WAYS, FILE a store or an .mmdb
//! ```

use fastrand::Rng;
use maxminddb::{PathElement, Reader};
use millstream_ranges::{Generation, Index, Pick};
use serde::Deserialize;
use std::error::Error;
use std::hint::black_box;
use std::io::{BufWriter, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Look-ups between two looks at the clock.
const ROUND: usize = 1 << 12;

/// Addresses that are looked up in turn. They take 17 MB, more than a processor's caches.
const ADDRESSES: usize = 1 << 20;

/// What a loop calls for each address. Returns how long the answer is, so that it must be made.
type Way = Box<dyn Fn(IpAddr) -> usize + Send>;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut out = BufWriter::new(std::io::stdout().lock());
    match words[..] {
        ["ranges", count, seed] => ranges(count.parse()?, seed.parse()?, &mut out)?,
        ["documents", count, seed] => documents(count.parse()?, seed.parse()?, None, &mut out)?,
        ["enriched", count, seed, store] => {
            let index = Index::read(&Generation::open(Path::new(store), None)?, None)?;
            documents(count.parse()?, seed.parse()?, Some(&index), &mut out)?;
        }
        ["measure", way, file, seconds] => measure(way, file, seconds.parse()?, 1, &mut out)?,
        ["measure", way, file, seconds, threads] => measure(way, file, seconds.parse()?, threads.parse()?, &mut out)?,
        _ => {
            return Err(
                "lookups ranges|documents|enriched COUNT SEED [STORE], or lookups measure WAY FILE SECONDS [THREADS]"
                    .into(),
            );
        }
    }
    Ok(out.flush()?)
}

/// Ranges of both families, nine of ten of IPv4. As in the registries' lists, most sizes are powers of two, some are
/// sums of them, and between neighbours there are gaps.
fn ranges(count: u64, seed: u64, out: &mut impl Write) -> std::io::Result<()> {
    let mut rng = Rng::with_seed(seed);
    writeln!(out, "first,last,cc,asn,org")?;
    let v4 = count * 9 / 10;
    // From 1.0.0.0 to 223.255.255.255.
    let room = (224 - 1) << 24;
    let mut next: u64 = 1 << 24;
    for n in 0..v4 {
        // What is left for each range decides how large this one may be. Gaps and odd sizes take a tenth.
        let mean = (room + (1 << 24) - next) / (v4 - n) * 9 / 10;
        let largest = (0..31).find(|bits| (2 << bits) / u64::from(bits + 1) > mean).unwrap_or(0_u32);
        let mut size = 1u64 << rng.u32(0..=largest.saturating_sub(1));
        if rng.u8(..10) == 0 {
            size += size / 2;
        }
        let gap = if rng.u8(..8) == 0 { size / 2 } else { 0 };
        let (first, last) = (next + gap, next + gap + size - 1);
        next = last + 1;
        let address = |number: u64| Ipv4Addr::from_bits(u32::try_from(number).expect("it stays below 224.0.0.0"));
        owner(&mut rng, &address(first).to_string(), &address(last).to_string(), out)?;
    }
    // Below 2000::/3, mostly of 29 to 48 bits.
    let mut next: u128 = 0x2001 << 112;
    for _ in v4..count {
        let size = 1u128 << (128 - rng.u32(29..=48));
        let first = next.next_multiple_of(size) + if rng.u8(..8) == 0 { size } else { 0 };
        next = first + size;
        owner(&mut rng, &Ipv6Addr::from_bits(first).to_string(), &Ipv6Addr::from_bits(next - 1).to_string(), out)?;
    }
    Ok(())
}

/// A range with its owner, one of some 70,000.
fn owner(rng: &mut Rng, first: &str, last: &str, out: &mut impl Write) -> std::io::Result<()> {
    let number = rng.u32(1..70_000);
    let letter = |n: u32| char::from(b'A' + u8::try_from(n % 26).expect("there are 26 letters"));
    writeln!(out, "{first},{last},{}{},AS{number},Network {number}", letter(number), letter(number / 26))
}

fn documents(count: u64, seed: u64, index: Option<&Index>, out: &mut impl Write) -> std::io::Result<()> {
    let mut rng = Rng::with_seed(seed);
    for id in 0..count {
        let (address, bytes) = (address(&mut rng), rng.u32(..100_000));
        let known = index.and_then(|index| index.get(address));
        let geo = known.map(|known| format!(",\"geo\":{known}")).unwrap_or_default();
        writeln!(
            out,
            "{{\"id\":{id},\"client\":{{\"ip\":\"{address}\"}},\"method\":\"GET\",\"path\":\"/item/{bytes}\",\"status\":200,\
             \"bytes\":{bytes},\"agent\":\"Mozilla/5.0\"{geo}}}"
        )?;
    }
    Ok(())
}

/// An address of either family, nine of ten of IPv4, uniform over what [`ranges`] makes.
fn address(rng: &mut Rng) -> IpAddr {
    if rng.u8(..10) > 0 {
        return Ipv4Addr::from_bits(rng.u32(1 << 24..224 << 24)).into();
    }
    Ipv6Addr::from_bits((0x2001 << 112) + (rng.u128(..) >> 15)).into()
}

fn measure(way: &str, file: &str, seconds: f64, threads: usize, out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let ways = open(way, file, threads)?;
    let mut rng = Rng::with_seed(1);
    let addresses: Vec<IpAddr> = (0..ADDRESSES).map(|_| address(&mut rng)).collect();
    // Warm: each address once.
    let found = addresses.iter().filter(|address| ways[0](**address) > 0).count();
    let limit = Duration::from_secs_f64(seconds);
    let began = Instant::now();
    let counts: Vec<usize> = std::thread::scope(|scope| {
        let addresses = &addresses;
        let begin = |thread: usize| ADDRESSES / threads * thread;
        let loops: Vec<_> = ways
            .into_iter()
            .enumerate()
            .map(|(thread, way)| scope.spawn(move || count(addresses, begin(thread), &way, limit)))
            .collect();
        loops.into_iter().map(|counted| counted.join().expect("a loop does not panic")).collect()
    });
    let seconds = began.elapsed().as_secs_f64();
    let lookups: usize = counts.iter().sum();
    let line = serde_json::json!({
        "rows_per_second": lookups as f64 / seconds,
    });
    writeln!(out, "{:.1} ns, {:.1} % found", seconds * 1e9 / lookups as f64, found as f64 * 100.0 / ADDRESSES as f64)?;
    Ok(writeln!(out, "{line}")?)
}

/// Look-ups that one thread makes within a time.
fn count(addresses: &[IpAddr], begin: usize, way: &Way, limit: Duration) -> usize {
    let began = Instant::now();
    let (mut lookups, mut at) = (0, begin);
    while began.elapsed() < limit {
        for _ in 0..ROUND {
            black_box(way(addresses[at]));
            at = (at + 1) % ADDRESSES;
        }
        lookups += ROUND;
    }
    lookups
}

#[derive(Deserialize)]
struct Country<'a> {
    #[serde(borrow)]
    cc: &'a str,
}

/// A way for each thread.
fn open(way: &str, file: &str, threads: usize) -> Result<Vec<Way>, Box<dyn Error>> {
    let path = Path::new(file);
    match way {
        // The value as LMDB holds it.
        "lmdb" => of_store(path, threads, |store, address| {
            store.get(address).expect("the store is sound").map_or(0, |found| found.value.len())
        }),
        // And one member of it.
        "lmdb-member" => of_store(path, threads, |store, address| {
            let found = store.get(address).expect("the store is sound");
            found.map_or(0, |found| serde_json::from_slice::<Country<'_>>(found.value).expect("it is JSON").cc.len())
        }),
        // The member of a range in memory.
        "index" => {
            let index = Arc::new(Index::read(&Generation::open(path, None)?, Some(&Pick::parse("cc")?))?);
            let way = |index: Arc<Index>| -> Way { Box::new(move |address| index.get(address).map_or(0, str::len)) };
            Ok((0..threads).map(|_| way(Arc::clone(&index))).collect())
        }
        // The same data as prefixes, and one member.
        "maxminddb" => {
            let reader = Arc::new(Reader::open_readfile(file)?);
            let way = |reader: Arc<Reader<Vec<u8>>>| -> Way {
                Box::new(move |address| {
                    let found = reader.lookup(address).expect("the file is sound");
                    let country: Option<&str> = found.decode_path(&[PathElement::Key("cc")]).expect("it is text");
                    country.map_or(0, str::len)
                })
            };
            Ok((0..threads).map(|_| way(Arc::clone(&reader))).collect())
        }
        way => Err(format!("there is no way {way}: lmdb, lmdb-member, index, maxminddb").into()),
    }
}

fn of_store(
    path: &Path,
    threads: usize,
    look_up: fn(&Generation, IpAddr) -> usize,
) -> Result<Vec<Way>, Box<dyn Error>> {
    let store = Generation::open(path, None)?;
    let way = |store: Generation| -> Way { Box::new(move |address| look_up(&store, address)) };
    (0..threads).map(|_| Ok(way(store.try_clone()?))).collect()
}
