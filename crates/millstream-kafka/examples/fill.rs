//! Fills topics with the lines of a file, for the experiment `topics` of the lab.
//!
//! `fill HOST:PORT FILE TOPIC=PARTITIONS..` waits for a broker that is starting, makes each topic, and writes the lines in
//! turn into its partitions.

use krafka::admin::{CreateTopicsOptions, NewTopic};
use krafka::{Kafka, Record};
use std::error::Error;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const USAGE: &str = "usage: fill HOST:PORT FILE TOPIC=PARTITIONS..";

/// How long the broker may take to start.
const START_WAIT: Duration = Duration::from_secs(60);

/// Pause between two tries.
const TRY_AGAIN: Duration = Duration::from_millis(500);

/// Messages that are on their way at once.
const MESSAGES_MAX: usize = 10_000;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [broker, file, topics @ ..] = &arguments[..] else { return Err(USAGE.into()) };
    let documents = std::fs::read_to_string(file)?;
    let until = Instant::now() + START_WAIT;
    let kafka = connected(broker, until).await?;
    for topic in topics {
        let (name, partitions) = topic.split_once('=').ok_or(USAGE)?;
        let partitions = partitions.parse()?;
        make(&kafka, NewTopic::new(name, partitions, 1)?, until).await?;
        fill(&kafka, name, partitions, &documents).await?;
    }
    Ok(())
}

async fn connected(broker: &str, until: Instant) -> Result<Kafka, Box<dyn Error>> {
    loop {
        match Kafka::builder(broker.to_owned()).connect().await {
            Ok(kafka) => return Ok(kafka),
            Err(error) if Instant::now() > until => return Err(error.into()),
            Err(_) => sleep(TRY_AGAIN).await,
        }
    }
}

/// Makes a topic. A broker that has just started may not yet do that.
async fn make(kafka: &Kafka, topic: NewTopic, until: Instant) -> Result<(), Box<dyn Error>> {
    loop {
        let made = kafka.admin().create_topics([topic.clone()], CreateTopicsOptions::default()).await;
        match made.and_then(|made| made.into_values().collect::<Result<(), _>>()) {
            Ok(()) => return Ok(()),
            Err(error) if Instant::now() > until => return Err(error.into()),
            Err(_) => sleep(TRY_AGAIN).await,
        }
    }
}

async fn fill(kafka: &Kafka, topic: &str, partitions: i32, documents: &str) -> Result<(), Box<dyn Error>> {
    let producer = kafka.producer().build().await?;
    let mut on_way = Vec::with_capacity(MESSAGES_MAX);
    for (partition, document) in (0..partitions).cycle().zip(documents.lines()) {
        on_way.push(producer.enqueue(Record::new(topic, document.to_owned()).partition(partition)).await?);
        if on_way.len() == MESSAGES_MAX {
            for message in on_way.drain(..) {
                let _ = message.await?;
            }
        }
    }
    for message in on_way {
        let _ = message.await?;
    }
    Ok(producer.close().await?)
}
