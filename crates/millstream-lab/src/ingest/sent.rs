//! Verifies that a table holds a sent document for each key, if the order of the documents is unknown.

use crate::error::Error;
use crate::limits::COPY_MESSAGE_BYTES;
use bytes::{Bytes, BytesMut};
use futures_util::SinkExt;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use tokio_postgres::Client;

/// One document per line. No document contains the characters used as delimiter and quote.
const COPY: &str = "copy pg_temp.sent from stdin (format csv, delimiter e'\\x01', quote e'\\x02')";

/// Compares the rows of the keys in a file with the documents in the file. `table` is quoted.
pub(crate) async fn verify(client: &Client, file: &Path, table: &str) -> Result<(), Error> {
    client.batch_execute("create temp table sent (doc jsonb not null)").await?;
    copy(client, file).await?;
    client.batch_execute("analyze pg_temp.sent").await?;
    let row = client.query_one(&include_str!("sent.sql").replace("the_table", table), &[]).await?;
    client.batch_execute("drop table pg_temp.sent").await?;
    match (row.get::<_, i64>("keys"), row.get::<_, i64>("found")) {
        (keys, found) if keys == found => Ok(()),
        (keys, found) => Err(Error::Wrong(format!("{found} of {keys} keys have a document that was sent"))),
    }
}

async fn copy(client: &Client, path: &Path) -> Result<(), Error> {
    let mut file = File::open(path).map_err(Error::io("read", path))?;
    let sink = client.copy_in::<_, Bytes>(COPY).await?;
    let mut sink = std::pin::pin!(sink);
    loop {
        let mut buffer = BytesMut::zeroed(COPY_MESSAGE_BYTES);
        let len = file.read(&mut buffer).map_err(Error::io("read", path))?;
        buffer.truncate(len);
        if len == 0 {
            break;
        }
        sink.feed(buffer.freeze()).await?;
    }
    sink.finish().await?;
    Ok(())
}
