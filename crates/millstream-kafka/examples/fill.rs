//! Fills topics, for the experiments of the lab on Kafka.
//!
//! It waits for a broker that is starting, makes each topic, and writes in turn into its partitions: the lines of a file, or
//! documents at a rate. With `--keyed`, the key of each message is the member `id` of its document. With `--held`, the lines are
//! one transaction: it prints `ready` when they are written, and commits them when it reads a line. With `--rate`, it prints
//! `ready` and writes so many documents a second until it reads a line. Both then print `done N`, the number of documents, and
//! delete the topic when their input ends.

use krafka::admin::{CreateTopicsOptions, DeleteTopicsOptions, NewTopic};
use krafka::producer::DeliveryHandle;
use krafka::{Kafka, KrafkaError, Record};
use std::error::Error;
use std::io::{Read as _, Write as _};
use std::time::Duration;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep};

const USAGE: &str = "usage: fill [--keyed] HOST:PORT FILE TOPIC=PARTITIONS..\n       \
                     fill --held HOST:PORT FILE TOPIC=PARTITIONS\n       \
                     fill --rate RATE HOST:PORT TOPIC=PARTITIONS";

/// How long the broker may take to start.
const START_WAIT: Duration = Duration::from_secs(60);

/// Pause between two tries.
const TRY_AGAIN: Duration = Duration::from_millis(500);

/// How long a transaction may wait to be committed.
const HELD_MAX: Duration = Duration::from_secs(600);

/// Pause between two looks at how many documents are due.
const DUE_EVERY: Duration = Duration::from_millis(1);

/// Messages that are on their way at once.
const MESSAGES_MAX: usize = 10_000;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match &arguments[..] {
        ["--held", broker, file, topic] => {
            let (documents, topic) = (std::fs::read_to_string(file)?, Topic::make(broker, topic).await?);
            Box::pin(topic.hold(&documents)).await
        }
        ["--rate", rate, broker, topic] => {
            let (rate, topic) = (rate.parse()?, Topic::make(broker, topic).await?);
            Box::pin(topic.stream(rate)).await
        }
        ["--keyed", broker, file, topics @ ..] => fill(broker, file, topics, keyed).await,
        [broker, file, topics @ ..] if !broker.starts_with("--") => fill(broker, file, topics, Ok).await,
        _ => Err(USAGE.into()),
    }
}

async fn fill(broker: &str, file: &str, topics: &[&str], made: fn(Record) -> Made) -> Result<(), Box<dyn Error>> {
    let documents = std::fs::read_to_string(file)?;
    for topic in topics {
        let topic = Topic::make(broker, topic).await?;
        let producer = topic.kafka.producer().build().await?;
        write(async |record| producer.enqueue(record).await, topic.records(&documents).map(made)).await?;
        producer.close().await?;
    }
    Ok(())
}

/// A message with the key of its document.
fn keyed(record: Record) -> Made {
    let document: serde_json::Value = serde_json::from_slice(record.value.as_deref().unwrap_or_default())?;
    let key = document["id"].as_str().ok_or("a document has no text `id`")?.to_owned();
    Ok(record.key(key))
}

type Made = Result<Record, Box<dyn Error>>;

struct Topic {
    kafka: Kafka,
    name: String,
    partitions: i32,
    /// Until when the broker may still be starting.
    until: Instant,
}

impl Topic {
    /// Makes a topic that is named like this: `TOPIC=PARTITIONS`.
    async fn make(broker: &str, asked: &str) -> Result<Self, Box<dyn Error>> {
        let (name, partitions) = asked.split_once('=').ok_or(USAGE)?;
        let (name, partitions, until) = (name.to_owned(), partitions.parse()?, Instant::now() + START_WAIT);
        let kafka = tried(until, async || Kafka::builder(broker.to_owned()).connect().await).await?;
        let topic = NewTopic::new(name.as_str(), partitions, 1)?;
        let make = async || {
            let made = kafka.admin().create_topics([topic.clone()], CreateTopicsOptions::default()).await?;
            made.into_values().collect::<Result<(), KrafkaError>>()
        };
        tried(until, make).await?;
        Ok(Self { kafka, name, partitions, until })
    }

    /// The lines as messages, in turn for each partition.
    fn records(&self, documents: &str) -> impl Iterator<Item = Record> {
        let turns = (0..self.partitions).cycle().zip(documents.lines());
        turns.map(|(partition, document)| self.record(partition, document.to_owned()))
    }

    fn record(&self, partition: i32, document: String) -> Record {
        Record::new(self.name.as_str(), document).partition(partition)
    }

    async fn hold(&self, documents: &str) -> Result<(), Box<dyn Error>> {
        let build =
            async || self.kafka.producer().transaction_timeout(HELD_MAX).build_transactional(self.name.as_str()).await;
        let producer = tried(self.until, build).await?;
        producer.begin()?;
        let written = write(async |record| producer.enqueue(record).await, self.records(documents).map(Ok)).await?;
        say("ready")?;
        spawn_blocking(line).await??;
        producer.commit().await?;
        producer.close().await?;
        self.end(written).await
    }

    async fn stream(&self, rate: u64) -> Result<(), Box<dyn Error>> {
        let producer = self.kafka.producer().build().await?;
        let mut turns = (0..self.partitions).cycle();
        let mut written = 0;
        say("ready")?;
        let (stopped, begun) = (spawn_blocking(line), Instant::now());
        while !stopped.is_finished() {
            let due = u64::try_from(begun.elapsed().as_millis())? * rate / 1_000;
            let documents = (written..due).map(|n| format!("{{\"id\":\"{n}\",\"n\":{n}}}"));
            // A turn is taken only for a document.
            let records =
                documents.zip(turns.by_ref()).map(|(document, partition)| Ok(self.record(partition, document)));
            written += write(async |record| producer.enqueue(record).await, records).await?;
            sleep(DUE_EVERY).await;
        }
        stopped.await??;
        producer.close().await?;
        self.end(written).await
    }

    /// Says how many documents were written, and deletes the topic once nobody needs it.
    async fn end(&self, written: u64) -> Result<(), Box<dyn Error>> {
        say(&format!("done {written}"))?;
        spawn_blocking(|| std::io::stdin().read_to_end(&mut Vec::new())).await??;
        let deleted = self.kafka.admin().delete_topics([&self.name], DeleteTopicsOptions::default()).await?;
        Ok(deleted.into_values().collect::<Result<(), KrafkaError>>()?)
    }
}

/// Writes messages. Returns how many there were.
async fn write(
    enqueue: impl AsyncFn(Record) -> Result<DeliveryHandle, KrafkaError>,
    records: impl Iterator<Item = Made>,
) -> Result<u64, Box<dyn Error>> {
    let (mut on_way, mut written) = (Vec::new(), 0);
    for record in records {
        on_way.push(enqueue(record?).await?);
        written += 1;
        if on_way.len() == MESSAGES_MAX {
            for message in on_way.drain(..) {
                let _ = message.await?;
            }
        }
    }
    for message in on_way {
        let _ = message.await?;
    }
    Ok(written)
}

/// Tries again what a broker that has just started may not do yet.
async fn tried<T>(until: Instant, mut work: impl AsyncFnMut() -> Result<T, KrafkaError>) -> Result<T, Box<dyn Error>> {
    loop {
        match work().await {
            Ok(done) => return Ok(done),
            Err(error) if Instant::now() > until => return Err(error.into()),
            Err(_) => sleep(TRY_AGAIN).await,
        }
    }
}

/// Waits for a line.
fn line() -> std::io::Result<usize> {
    std::io::stdin().read_line(&mut String::new())
}

fn say(word: &str) -> std::io::Result<()> {
    writeln!(std::io::stdout(), "{word}")
}
