//! A path and bytes that belong to it, as they lie in a file.

use super::damaged;
use crate::limits::ENTRY_BYTES_MAX;
use std::io::{self, Write};

/// Bytes before the path: the length of what follows, and that of the path.
pub(super) const HEAD_BYTES: usize = 8;

/// Writes a frame.
///
/// # Errors
/// It would be larger than any entry that Linux allows; it cannot be written.
pub(super) fn write(file: &mut impl Write, path: &[u8], body: &[u8]) -> io::Result<()> {
    let len = path.len() + body.len();
    let lens = (u32::try_from(len), u32::try_from(path.len()));
    let (Ok(all), Ok(of_path), true) = (lens.0, lens.1, len <= ENTRY_BYTES_MAX) else {
        return Err(io::Error::other("the entry is too large"));
    };
    file.write_all(&all.to_le_bytes())?;
    file.write_all(&of_path.to_le_bytes())?;
    file.write_all(path)?;
    file.write_all(body)
}

/// Lengths that stand before a frame: of path and body together, and of the path. `None` at the end mark.
pub(super) fn lens(head: [u8; HEAD_BYTES]) -> io::Result<Option<(usize, usize)>> {
    let [a, b, c, d, e, f, g, h] = head;
    let all = u32::from_le_bytes([a, b, c, d]);
    if all == u32::MAX {
        return Ok(None);
    }
    let (all, path) = (all as usize, u32::from_le_bytes([e, f, g, h]) as usize);
    if all > ENTRY_BYTES_MAX || path > all {
        return Err(damaged("a length is wrong"));
    }
    Ok(Some((all, path)))
}
