//! The yardstick: binary COPY of documents encoded before the clock starts, over open connections, into a table of the
//! same definition.

use super::{Subject, Trait, Trial};
use crate::error::Error;
use crate::ingest::durability::Durability;
use crate::ingest::phase::Phase;
use crate::ingest::timing::Timing;
use crate::limits::COPY_MESSAGE_BYTES;
use bytes::{Bytes, BytesMut};
use futures_util::SinkExt;
use futures_util::future::try_join_all;
use millstream_host::own_cpu_seconds;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Instant;
use tokio_postgres::Client;

pub(crate) const SUBJECT: Subject = Subject {
    name: "copy",
    about: "binary COPY, encoded beforehand, one transaction a connection: no key, no check, no account",
    traits: &[Trait::Encoded],
    run: |trial, phase, table| Box::pin(run(trial, phase, table)),
    ..Subject::PLAIN
};

async fn run(trial: &Trial<'_>, phase: &Phase, table: &str) -> Result<Timing, Error> {
    trial.create_first(phase, table).await?;
    send_all(trial, table).await
}

/// Sends the first wave into an existing table.
pub(super) async fn send_all(trial: &Trial<'_>, table: &str) -> Result<Timing, Error> {
    let name = trial.bench.quoted(table);
    let mut connections = Vec::new();
    for _ in &trial.prepared.streams {
        let connection = trial.bench.connect_through(trial.proxy).await?;
        if trial.durability == Durability::Async {
            connection.client.batch_execute("set synchronous_commit = off").await?;
        }
        connections.push(connection);
    }
    let statement = format!("copy {name} (id, doc) from stdin (format binary)");
    let cpu_before = own_cpu_seconds();
    let start = Instant::now();
    let pairs = connections.iter().zip(&trial.prepared.streams);
    try_join_all(pairs.map(|(connection, stream)| send(&connection.client, &statement, stream))).await?;
    let wall_seconds = start.elapsed().as_secs_f64();
    // The proxy runs in this process, so its processor time would count.
    let cpu_after = own_cpu_seconds().filter(|_| trial.proxy.is_none());
    let client_cpu_seconds = cpu_after.zip(cpu_before).map(|(after, before)| after - before);
    for connection in connections {
        connection.close().await;
    }
    Ok(Timing { client_cpu_seconds, ..Timing::of(wall_seconds) })
}

/// Streams a file through one COPY. Reading the file only copies it from the system's cache.
async fn send(client: &Client, statement: &str, stream: &PathBuf) -> Result<u64, Error> {
    let mut file = File::open(stream).map_err(Error::io("read", stream))?;
    let sink = client.copy_in::<_, Bytes>(statement).await?;
    let mut sink = std::pin::pin!(sink);
    while let Some(message) = message(&mut file, stream)? {
        sink.feed(message).await?;
    }
    Ok(sink.finish().await?)
}

/// The next part of the file; `None` at its end.
fn message(file: &mut File, path: &Path) -> Result<Option<Bytes>, Error> {
    let mut buffer = BytesMut::zeroed(COPY_MESSAGE_BYTES);
    let len = file.read(&mut buffer).map_err(Error::io("read", path))?;
    buffer.truncate(len);
    Ok((len > 0).then(|| buffer.freeze()))
}
