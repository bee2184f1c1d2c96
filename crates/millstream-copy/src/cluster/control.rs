//! The control file of a cluster, which says where recovery begins.

use crate::error::Error;
use crate::limits::{CONTROL_BYTES_MAX, CONTROL_READ_PAUSE, CONTROL_READS_MAX};
use crate::path::shown_path;
use millstream_host::read_plain_bytes;
use millstream_model::Refusal;
use std::io::ErrorKind;
use std::ops::Range;
use std::path::Path;

/// Where its checksum may stand, in all versions: behind the fields, of which newer versions have more.
const CHECKSUM_AT: Range<usize> = 200..480;

/// Reads a control file until its checksum fits: the server may be writing it. It is not believed where a link leads: the data
/// directory belongs to the server's account.
///
/// # Errors
/// It cannot be read, or never fits.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, Error> {
    for _ in 0..CONTROL_READS_MAX {
        let bytes = read_plain_bytes(path, CONTROL_BYTES_MAX).map_err(Error::file("read", path))?;
        let bytes = bytes.ok_or_else(|| Error::file("read", path)(ErrorKind::NotFound.into()))?;
        if is_whole(&bytes) {
            return Ok(bytes);
        }
        std::thread::sleep(CONTROL_READ_PAUSE);
    }
    Err(Refusal::new(format!("the checksum of {} never fits", shown_path(path))).into())
}

/// The number that all copies of a cluster share.
pub(super) fn system(control: &[u8]) -> Option<u64> {
    Some(u64::from_ne_bytes(control.get(..8)?.try_into().ok()?))
}

fn is_whole(bytes: &[u8]) -> bool {
    let at = CHECKSUM_AT.step_by(4).filter(|at| bytes.len() >= at + 4);
    at.into_iter().any(|at| {
        let stored = u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        stored != 0 && crc32c::crc32c(&bytes[..at]) == stored
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_file_with_another_byte_is_not_whole() {
        let mut bytes = vec![7_u8; 296];
        let sum = crc32c::crc32c(&bytes[..288]);
        bytes[288..292].copy_from_slice(&sum.to_ne_bytes());
        bytes.resize(8_192, 0);
        assert!(is_whole(&bytes));
        bytes[100] ^= 1;
        assert!(!is_whole(&bytes) && !is_whole(&[0; 8_192]) && !is_whole(b""));
    }
}
