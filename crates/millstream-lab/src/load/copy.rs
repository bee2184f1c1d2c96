//! The yardstick: binary COPY of documents that were encoded before, one transaction a connection.

use crate::error::Error;
use crate::limits::COPY_MESSAGE_BYTES;
use bytes::{Bytes, BytesMut};
use futures_util::SinkExt;
use futures_util::future::try_join_all;
use millstream_host::open_named;
use millstream_pg::{ConnInfo, SessionSettings};
use std::io::Read;
use std::path::{Path, PathBuf};
use tokio_postgres::Client;

/// Sends the files of [`super::write_streams`] for COPY that are in this directory into a table, each over a connection
/// of its own. `table` is quoted.
///
/// # Errors
/// Those of the server and the disk, and if there is no such file.
pub async fn send_streams(db: &ConnInfo, dir: &Path, table: &str) -> Result<(), Error> {
    let entries = std::fs::read_dir(dir).map_err(Error::io("read", dir))?.flatten();
    let is_stream = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "pgcopy");
    let streams: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_stream).collect();
    if streams.is_empty() {
        return Err(Error::Asked(format!("there is no .pgcopy file in {}", dir.display())));
    }
    let settings = SessionSettings::named("millstream lab");
    let connections = try_join_all(streams.iter().map(|_| millstream_pg::connect(db, &settings))).await?;
    let statement = format!("copy {table} (id, doc) from stdin (format binary)");
    let both = connections.iter().zip(&streams);
    try_join_all(both.map(|(connection, stream)| send(&connection.client, &statement, stream))).await?;
    for connection in connections {
        connection.close().await;
    }
    Ok(())
}

/// Streams a file through one COPY. Reading the file only copies it from the system's cache.
pub(super) async fn send(client: &Client, statement: &str, stream: &Path) -> Result<u64, Error> {
    let mut file = open_named(stream).map_err(Error::io("read", stream))?;
    let sink = client.copy_in::<_, Bytes>(statement).await?;
    let mut sink = std::pin::pin!(sink);
    loop {
        let mut buffer = BytesMut::zeroed(COPY_MESSAGE_BYTES);
        let len = file.read(&mut buffer).map_err(Error::io("read", stream))?;
        buffer.truncate(len);
        if len == 0 {
            return Ok(sink.finish().await?);
        }
        sink.feed(buffer.freeze()).await?;
    }
}
