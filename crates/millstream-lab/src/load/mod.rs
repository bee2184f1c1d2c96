//! What experiments that load documents run beside the programs they measure: they make the documents, send them by
//! COPY, ask for answers, and check what a table holds.

mod answer;
mod copy;
mod data_set;
mod document;
mod stream;
mod table;

pub use answer::{Answer, Question, ask};
pub use copy::send_streams;
pub use data_set::{DataSet, Keys};
pub use stream::{Expected, Stored, Stream};
pub use table::{check_receipt, check_sent, check_stored, sizes};

use crate::error::Error;
use crate::limits::{DOCUMENT_BYTES_MAX, DOCUMENT_BYTES_MIN, DOCUMENTS_MAX, LANES_MAX};
use millstream_host::write_target;
use std::path::Path;
use stream::Ledger;

/// Writes streams of documents, one after the other into one table, as `NAME.ndjson`, each with what the table holds
/// after it, as `NAME.json`. If `lanes` is not 0, the first wave is also written for so many connections of COPY.
///
/// # Errors
/// [`Error::Asked`] for a number that is out of its range; errors of the disk.
pub fn write_streams(set: &DataSet, streams: &[(String, Stream)], lanes: u16, dir: &Path) -> Result<(), Error> {
    let range = |name, given, min, max| match (min..=max).contains(&given) {
        true => Ok(()),
        false => Err(Error::range(name, given, min, max)),
    };
    range("the number of documents", set.documents, 1, DOCUMENTS_MAX)?;
    range("a document's size", set.document_bytes as u64, DOCUMENT_BYTES_MIN as u64, DOCUMENT_BYTES_MAX as u64)?;
    range("the number of lanes", lanes.into(), 0, LANES_MAX.into())?;
    let mut ledger = Ledger::default();
    for (name, stream) in streams {
        let expected = stream.write(set, &mut ledger, &dir.join(format!("{name}.ndjson")))?;
        let path = dir.join(format!("{name}.json"));
        let text = serde_json::to_string(&expected).map_err(|error| Error::Wrong(error.to_string()))?;
        write_target(&path, &text).map_err(Error::io("write", &path))?;
    }
    if lanes > 0 {
        set.write_copy_streams(lanes, dir)?;
    }
    Ok(())
}
