//! The first documents of a topic, from which types are inferred that a request leaves open.

use crate::client::{Client, ClientError, Marks, Place};
use crate::limits::{POLL_WAIT, RETRY_AFTER, SAMPLE_BYTES_MAX, SAMPLE_RECORDS, SAMPLE_WAIT};
use crate::message::Messages;
use millstream_engine::{AskedColumns, LoadRequest};
use std::collections::BTreeMap;
use tokio::time::{Instant, sleep};

/// The number of the reading. Those of partitions that are loaded come after it.
pub(crate) const READING: u64 = 0;

/// Whether a request leaves types open that a new collection needs.
pub(crate) fn is_needed(request: &LoadRequest) -> bool {
    request.key.iter().any(|column| column.key_type.is_none())
        || request.mode.version().is_some()
        || request.columns == AskedColumns::All
}

/// The first documents of some partitions, one a line. They may be few, if the topic is slow.
pub(crate) async fn sample<C: Client>(
    client: &C,
    messages: &Messages,
    partitions: &BTreeMap<i32, Marks>,
) -> Result<Vec<u8>, ClientError> {
    let place = |marks: &Marks| Some(Place { offset: marks.first, reading: READING });
    let places: Vec<(i32, Option<Place>)> = partitions.iter().map(|(number, marks)| (*number, place(marks))).collect();
    client.assign(&places).await?;
    let mut left: BTreeMap<i32, u64> = partitions
        .iter()
        .filter(|(_, marks)| marks.first < marks.end)
        .map(|(number, marks)| (*number, marks.end))
        .collect();
    let (mut lines, mut records) = (Vec::new(), 0);
    let deadline = Instant::now() + SAMPLE_WAIT;
    while !left.is_empty() && records < SAMPLE_RECORDS && lines.len() < SAMPLE_BYTES_MAX && Instant::now() < deadline {
        let lots = match client.poll(POLL_WAIT).await {
            Ok(lots) => lots,
            Err(ClientError::Passing(_)) => {
                sleep(RETRY_AFTER).await;
                continue;
            }
            // Retention has just removed what was first. What others have is enough.
            Err(ClientError::OutOfRange { partition }) => {
                left.remove(&partition);
                client.pause(partition, true).await;
                continue;
            }
            Err(error) => return Err(error),
        };
        for lot in lots {
            for record in lot.records.iter().take(SAMPLE_RECORDS - records) {
                if let Ok(document) = messages.document(lot.partition, record)
                    && lines.len() + document.len() < SAMPLE_BYTES_MAX
                {
                    // JSON has line ends only where it may have any space.
                    let one_line = document.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte });
                    lines.extend(one_line.chain([b'\n']));
                }
                records += 1;
            }
            if left.get(&lot.partition).is_some_and(|end| lot.next >= *end) {
                left.remove(&lot.partition);
            }
        }
    }
    Ok(lines)
}
