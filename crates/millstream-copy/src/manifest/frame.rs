//! A path and bytes that belong to it, as they lie in a file.

use super::damaged;
use crate::limits::ENTRY_BYTES_MAX;
use std::io::{self, Write};

/// Bytes before the path: the length of what follows, and that of the path.
pub(super) const HEAD_BYTES: usize = 8;

/// The bytes of a frame before its path.
///
/// # Errors
/// It would be larger than any entry that Linux allows.
pub(super) fn head(path: &[u8], body: &[u8]) -> io::Result<[u8; HEAD_BYTES]> {
    let len = path.len() + body.len();
    let lens = (u32::try_from(len), u32::try_from(path.len()));
    let (Ok(all), Ok(of_path), true) = (lens.0, lens.1, len <= ENTRY_BYTES_MAX) else {
        return Err(io::Error::other("the entry is too large"));
    };
    let mut head = [0; HEAD_BYTES];
    head[..4].copy_from_slice(&all.to_le_bytes());
    head[4..].copy_from_slice(&of_path.to_le_bytes());
    Ok(head)
}

/// Writes a frame.
pub(super) fn write(file: &mut impl Write, path: &[u8], body: &[u8]) -> io::Result<()> {
    file.write_all(&head(path, body)?)?;
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
