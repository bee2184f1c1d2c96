//! The header of a file: its schema, its codec, and the mark that stands behind each block.

use super::source::{Missing, Source};
use crate::Trouble;
use crate::limits::AVRO_HEADER_BYTES_MAX;

/// Bytes of the magic number, by which the file was recognised.
const MAGIC_BYTES: usize = 4;

/// What stands behind each block. A writer chooses it for each file.
pub(super) type Mark = [u8; 16];

/// What the header says.
pub(super) struct Header {
    /// The schema, as JSON.
    pub(super) schema: Vec<u8>,
    /// The name of the codec; empty if there is none.
    pub(super) codec: Vec<u8>,
    pub(super) mark: Mark,
}

impl Header {
    /// Reads what the file begins with.
    ///
    /// # Errors
    /// It is damaged, or too long.
    pub(super) fn read(source: &mut Source<'_>) -> Result<Self, Trouble> {
        source.array::<MAGIC_BYTES>().map_err(within)?;
        let (mut schema, mut codec) = (None, Vec::new());
        loop {
            let count = source.whole().map_err(within)?;
            if count == 0 {
                break;
            }
            if count < 0 {
                // How many bytes these entries have.
                source.length().map_err(within)?;
            }
            for _ in 0..count.unsigned_abs() {
                let (name, value) = (entry(source)?, entry(source)?);
                match name.as_slice() {
                    b"avro.schema" => schema = Some(value),
                    b"avro.codec" => codec = value,
                    _ => {}
                }
            }
        }
        let schema = schema.ok_or_else(|| Trouble::Damaged("its header has no schema".into()))?;
        Ok(Self { schema, codec, mark: source.array().map_err(within)? })
    }
}

/// A name or a value.
fn entry(source: &mut Source<'_>) -> Result<Vec<u8>, Trouble> {
    let length = source.length().map_err(within)?;
    let room = AVRO_HEADER_BYTES_MAX.saturating_sub(usize::try_from(*source.at).unwrap_or(usize::MAX));
    if length >= room {
        let problem = format!("is Avro whose header has more than {} MiB", AVRO_HEADER_BYTES_MAX >> 20);
        return Err(Trouble::Refused {
            problem,
            hint: "write it with a shorter schema, without its documentation".into(),
        });
    }
    let mut bytes = Vec::new();
    source.fill(length, &mut bytes).map_err(within)?;
    Ok(bytes)
}

fn within(missing: Missing) -> Trouble {
    missing.trouble(&"its header")
}
