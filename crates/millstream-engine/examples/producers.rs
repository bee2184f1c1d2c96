//! Loads a file of documents, one a line, from eight tasks that send at once, and prints the receipt.
//!
//! `cargo run --release -p millstream-engine --example producers -- FILE TABLE KEY [LANES [SCHEMA]]`, with KEY
//! such as `id:text`, and the database in `DATABASE_URL` or libpq's variables. It shows how a program uses
//! [`Stream`], and `millstream lab run hot` measures it: documents of one task take effect in their order, those
//! of different tasks in any.

#![expect(clippy::print_stdout, reason = "the receipt is its result")]

use bytes::Bytes;
use millstream_engine::{Error, LoadRequest, Producer, Stream, Surroundings};
use millstream_model::KeyRequest;
use millstream_pg::{ConnInfo, Environment};
use millstream_store::Schema;
use tokio::task::JoinSet;

/// Tasks that send at once.
const PRODUCERS: usize = 8;

/// Bytes of one send, unless a document is longer: some thousand small documents.
const LOT_BYTES: usize = 150_000;

const USAGE: &str = "usage: producers FILE TABLE KEY [LANES [SCHEMA]]";

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, table, key, more @ ..] = &arguments[..] else { return Err(USAGE.into()) };
    let mut request = LoadRequest::new(table.parse()?, KeyRequest::parse_list(key)?, Vec::new());
    request.lanes = more.first().map(|lanes| lanes.parse()).transpose()?;
    if let Some(schema) = more.get(1) {
        request.schema = Schema::new(schema);
    }
    let url = std::env::var("DATABASE_URL").unwrap_or_default();
    let db = ConnInfo::parse(&url, &Environment::from_process())?;
    let documents = Bytes::from(std::fs::read(file)?);

    let stream = Stream::open(&request, &Surroundings::new(db)).await?;
    let mut tasks = JoinSet::new();
    for task in 0..PRODUCERS {
        let share = lots(&documents).skip(task).step_by(PRODUCERS).collect();
        tasks.spawn(produce(stream.producer(), share));
    }
    let mut rejected = 0;
    while let Some(ended) = tasks.join_next().await {
        rejected += ended??;
    }
    // Everything is committed; the receipt sums it up.
    let outcome = stream.close().await?;
    if let Some(error) = outcome.error {
        return Err(error.into());
    }
    assert_eq!(outcome.receipt.counters.rejected, rejected, "the commits have told of every reject");
    println!("{}", serde_json::to_string_pretty(&outcome.receipt)?);
    Ok(())
}

/// Sends a task's share and waits for its commits. Returns how many of its documents were rejected.
async fn produce(producer: Producer, share: Vec<Bytes>) -> Result<u64, Error> {
    let mut commits = Vec::new();
    for lot in share {
        // Waits while too many bytes are on their way.
        commits.push(producer.send(lot).await?);
    }
    let mut rejected = 0;
    for commit in commits {
        rejected += commit.committed().await?.rejected;
    }
    Ok(rejected)
}

/// The documents in lots, which share the bytes of the file.
fn lots(documents: &Bytes) -> impl Iterator<Item = Bytes> {
    let mut rest = documents.clone();
    std::iter::from_fn(move || {
        let first = &rest[..rest.len().min(LOT_BYTES)];
        let last_line = memchr::memrchr(b'\n', first).or_else(|| memchr::memchr(b'\n', &rest));
        let end = last_line.map_or(rest.len(), |at| at + 1);
        (end > 0).then(|| rest.split_to(end))
    })
}
