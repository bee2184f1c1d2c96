//! Messages of FUSE, as far as a file system needs them that is one file: <https://docs.kernel.org/filesystems/fuse.html>,
//! and `include/uapi/linux/fuse.h` of Linux.

use crate::limits::SLOW_DISK_MESSAGE_BYTES_MAX;
use std::io;

/// The version that we speak. Kernels from 5.4 on know it.
const VERSION: [u32; 2] = [7, 31];

/// What we want of the kernel, if it offers that: reads and writes beside each other, and large ones.
const WANTED: u32 = ASYNC_READ | ASYNC_DIRECT | MAX_PAGES;
const ASYNC_READ: u32 = 1;
const ASYNC_DIRECT: u32 = 1 << 15;
const MAX_PAGES: u32 = 1 << 22;

/// The file is not kept in the page cache: each read and write of it reaches us.
const DIRECT: u32 = 1;

/// Requests that may wait for us at a time, and from how many on the kernel sends fewer.
const WAITING: [u16; 2] = [128, 96];

/// Bytes of the head of each message to us, and of each answer.
const HEAD: usize = 40;
const ANSWER_HEAD: u32 = 16;

/// Bytes before the data of a write.
const WRITE_HEAD: usize = 40;

/// Bytes of a page, as the kernel counts the largest write.
const PAGE: u32 = 4096;

/// What the kernel asks.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Asked<'b> {
    /// To begin.
    Begin { read_ahead: u32, offered: u32 },
    /// Size and rights of the file.
    Facts,
    /// To open the file.
    Open,
    /// Bytes of the file.
    Read { at: u64, length: u32 },
    /// To change bytes of the file.
    Write { at: u64, bytes: &'b [u8] },
    /// That what was written is on the disk.
    Flush,
    /// How much room there is.
    Room,
    /// Nothing that we have to do, but it wants an answer.
    Nothing,
    /// Nothing that we have to do, without an answer.
    Note,
    /// What this file system does not have.
    Unknown,
}

/// The number of a request, and what it asks; `None` if the message is too short.
pub(super) fn parsed(message: &[u8]) -> Option<(u64, Asked<'_>)> {
    let (head, body) = message.split_at_checked(HEAD)?;
    let asked = match word(head, 4)? {
        26 => Asked::Begin { read_ahead: word(body, 8)?, offered: word(body, 12)? },
        3 => Asked::Facts,
        14 => Asked::Open,
        15 => Asked::Read { at: long(body, 8)?, length: word(body, 16)? },
        16 => {
            let length = usize::try_from(word(body, 16)?).ok()?;
            Asked::Write { at: long(body, 8)?, bytes: body.get(WRITE_HEAD..)?.get(..length)? }
        }
        20 => Asked::Flush,
        17 => Asked::Room,
        18 | 25 | 38 => Asked::Nothing,
        2 | 36 | 42 => Asked::Note,
        _ => Asked::Unknown,
    };
    Some((long(head, 8)?, asked))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// The answer to a request: what it asked for, or why not.
pub(super) fn answer(request: u64, result: io::Result<Vec<u8>>) -> Vec<u8> {
    /// An error of the disk, if the system gave no number.
    const EIO: i32 = 5;
    let (error, body) = match result {
        Ok(body) => (0, body),
        Err(error) => (error.raw_os_error().unwrap_or(EIO), Vec::new()),
    };
    // No body is larger than what the kernel asked for.
    let length = ANSWER_HEAD.saturating_add(u32::try_from(body.len()).unwrap_or(u32::MAX));
    let head = [length.to_ne_bytes(), (-error).to_ne_bytes()].concat();
    [head, request.to_ne_bytes().to_vec(), body].concat()
}

/// How we begin.
pub(super) fn begun(read_ahead: u32, offered: u32) -> Vec<u8> {
    let pages = u16::try_from(SLOW_DISK_MESSAGE_BYTES_MAX / PAGE).unwrap_or(u16::MAX);
    let mut body = words(&[VERSION[0], VERSION[1], read_ahead, offered & WANTED]);
    body.extend(halves(WAITING));
    // Times are in nanoseconds.
    body.extend(words(&[SLOW_DISK_MESSAGE_BYTES_MAX, 1]));
    body.extend(halves([pages, 0]));
    // Numbers that mean nothing to us.
    body.extend(words(&[0; 8]));
    body
}

/// Size and rights of the file, which hold for as long as it is there.
pub(super) fn facts(bytes: u64) -> Vec<u8> {
    const VALID: u64 = 3_600;
    const MODE: u32 = 0o100600;
    let mut body = longs(&[VALID, 0, 1, bytes, bytes / 512, 0, 0, 0]);
    body.extend(words(&[0, 0, 0, MODE, 1, 0, 0, 0, PAGE, 0]));
    body
}

/// The file is open.
pub(super) fn opened() -> Vec<u8> {
    [longs(&[1]), words(&[DIRECT, 0])].concat()
}

/// So many bytes were written.
pub(super) fn written(bytes: usize) -> Vec<u8> {
    words(&[u32::try_from(bytes).unwrap_or(u32::MAX), 0])
}

/// There is no room for other files.
pub(super) fn room() -> Vec<u8> {
    [longs(&[0; 5]), words(&[PAGE, 255, PAGE, 0, 0, 0, 0, 0, 0, 0])].concat()
}

fn words(numbers: &[u32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
}

fn halves(numbers: [u16; 2]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
}

fn longs(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message to us: its head has the length, what is asked, and the number 7.
    fn message(asked: u32, body: &[u8]) -> Vec<u8> {
        [words(&[0, asked]), longs(&[7, 1]), words(&[0; 4]), body.to_vec()].concat()
    }

    #[test]
    fn what_the_kernel_asks_is_read_and_a_message_that_is_cut_off_is_none() {
        let read = message(15, &[longs(&[1, 4_096]), words(&[512, 0])].concat());
        assert_eq!(parsed(&read), Some((7, Asked::Read { at: 4_096, length: 512 })));
        let head = [longs(&[1, 8_192]), words(&[3, 0]), longs(&[0]), words(&[0, 0])].concat();
        let write = message(16, &[head, b"abc".to_vec()].concat());
        assert_eq!(parsed(&write), Some((7, Asked::Write { at: 8_192, bytes: b"abc" })));
        assert_eq!(parsed(&write[..write.len() - 1]), None);
        assert_eq!(parsed(&read[..20]), None);
        assert_eq!(parsed(&message(20, &[])), Some((7, Asked::Flush)));
        assert_eq!(parsed(&message(22, &[])), Some((7, Asked::Unknown)));
        assert_eq!(parsed(&message(42, &[])), Some((7, Asked::Note)));
    }

    #[test]
    fn answers_have_the_sizes_of_the_protocol() {
        let sizes = [begun(0, u32::MAX), facts(1 << 20), opened(), written(3), room()].map(|body| body.len());
        assert_eq!(sizes, [64, 104, 16, 8, 80]);
        let whole = answer(7, Ok(written(3)));
        assert_eq!((word(&whole, 0), word(&whole, 4), long(&whole, 8)), (Some(24), Some(0), Some(7)));
        let failed = answer(7, Err(io::Error::from_raw_os_error(28)));
        assert_eq!(failed, [16_u32.to_ne_bytes().to_vec(), (-28_i32).to_ne_bytes().to_vec(), longs(&[7])].concat());
        let begun = begun(131_072, ASYNC_READ | 2);
        assert_eq!((word(&begun, 12), &begun[16..20]), (Some(ASYNC_READ), halves([128, 96]).as_slice()));
        assert_eq!((word(&begun, 20), &begun[28..32]), (Some(1 << 20), halves([256, 0]).as_slice()));
    }
}
