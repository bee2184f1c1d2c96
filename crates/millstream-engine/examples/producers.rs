//! Prints how many documents a second eight tasks hand over at once, onto one hot key, a hundred and as many as there are documents.
//!
//! `cargo run --release -p millstream-engine --example producers -- URL [DOCUMENTS]`. It makes, fills and
//! drops tables named `producers_*` in that database. The time is that of a whole stream, from opening to the
//! receipt; the documents are made before.

#![expect(clippy::print_stdout, reason = "printing is what it is for")]

use bytes::Bytes;
use millstream_engine::{Error, LoadRequest, Stream, Surroundings};
use millstream_model::KeyRequest;
use millstream_pg::{ConnInfo, Environment, SessionSettings};
use std::fmt::Write as _;
use std::time::Instant;
use tokio::task::JoinSet;

/// Tasks that send at once.
const PRODUCERS: usize = 8;

/// Documents of all of them together, unless the command line says otherwise.
const DOCUMENTS: usize = 1_000_000;

/// Rounds, each of every case; the median is printed.
const ROUNDS: usize = 5;

/// Documents of one send.
const LOTS: [usize; 2] = [1_000, 1];

/// A name, and the number of keys for so many documents.
type Case = (&'static str, fn(usize) -> usize);

const CASES: [Case; 3] = [("uniform", |documents| documents), ("hundred", |_| 100), ("one", |_| 1)];

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().ok_or("name a database: postgres://..")?;
    let documents = arguments.next().map_or(Ok(DOCUMENTS), |text| text.parse())?;
    let db = ConnInfo::parse(&url, &Environment::from_process())?;
    println!("{PRODUCERS} producers, {documents} documents of about 150 bytes, median of {ROUNDS} rounds");
    println!("{:<12}{:>18}{:>16}{:>12}", "keys", "documents a send", "documents/s", "of uniform");
    for lot in LOTS {
        let mut rates = [const { Vec::new() }; CASES.len()];
        for round in 0..ROUNDS {
            for (rates, (name, keys)) in rates.iter_mut().zip(CASES) {
                let sends = sends(documents, keys(documents), lot, round);
                rates.push(Box::pin(measure(&db, name, sends, documents)).await?);
            }
        }
        let medians = rates.map(|mut rates: Vec<f64>| {
            rates.sort_by(f64::total_cmp);
            rates[ROUNDS / 2]
        });
        for (median, (name, _)) in medians.iter().zip(CASES) {
            println!("{name:<12}{lot:>18}{median:>16.0}{:>12.2}", median / medians[0]);
        }
    }
    Ok(())
}

/// What each producer sends, drawn at random over the keys.
fn sends(documents: usize, keys: usize, lot: usize, round: usize) -> Vec<Vec<Bytes>> {
    let mut rng = fastrand::Rng::with_seed(round as u64);
    let mut number = 0;
    let share = documents.div_ceil(PRODUCERS);
    let mut producers = Vec::new();
    while number < documents {
        let (end, mut sends) = ((number + share).min(documents), Vec::new());
        while number < end {
            let mut text = String::with_capacity(lot * 160);
            for n in number..(number + lot).min(end) {
                let key = rng.usize(0..keys);
                let _ = writeln!(
                    text,
                    r#"{{"id":"device-{key:09}","n":{n},"value":{},"unit":"celsius","note":"measured by one of many devices, as they do","ok":true}}"#,
                    rng.u32(..)
                );
            }
            number = (number + lot).min(end);
            sends.push(text.into());
        }
        producers.push(sends);
    }
    producers
}

/// Documents a second of one stream into a table of its own.
async fn measure(
    db: &ConnInfo,
    name: &str,
    sends: Vec<Vec<Bytes>>,
    documents: usize,
) -> Result<f64, Box<dyn std::error::Error>> {
    let drop_table = format!("drop table if exists public.producers_{name}; checkpoint");
    let control = millstream_pg::connect(db, &SessionSettings::control()).await?;
    control.client.batch_execute(&drop_table).await?;
    let into = format!("public.producers_{name}").parse()?;
    let request = LoadRequest::new(into, KeyRequest::parse_list("id:text")?, Vec::new());
    let began = Instant::now();
    let stream = Stream::open(&request, &Surroundings::new(db.clone())).await?;
    let mut tasks = JoinSet::new();
    for sends in sends {
        let producer = stream.producer();
        tasks.spawn(async move {
            for send in sends {
                producer.send(send).await?;
            }
            Ok::<_, Error>(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    let outcome = stream.close().await?;
    let seconds = began.elapsed().as_secs_f64();
    if let Some(error) = outcome.error {
        return Err(error.into());
    }
    assert_eq!(outcome.receipt.counters.read, documents as u64, "every document is accounted for");
    control.client.batch_execute(&drop_table).await?;
    #[expect(clippy::cast_precision_loss, reason = "a rate needs no 53 bits")]
    Ok(documents as f64 / seconds)
}
