//! Decompresses gzip and zstd step by step, so that no byte before damage is lost.
//!
//! The reader adapters of both libraries drop what they decoded in the call that meets the damage.

use crate::limits::ZSTD_WINDOW_LOG_MAX;
use flate2::{Decompress, FlushDecompress, Status};
use std::io;
use zstd::stream::raw::{DParameter, Decoder, InBuffer, Operation, OutBuffer};

/// How many bytes one step read and wrote, and what stopped it.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) read: usize,
    pub(super) written: usize,
    pub(super) trouble: Option<Trouble>,
}

/// Why decompression cannot continue.
#[derive(Debug)]
pub(super) enum Trouble {
    Damaged(String),
    WindowTooLarge,
    /// It was compressed with a dictionary, which we do not have.
    Dictionary,
}

/// A decompressor that gets its input in steps.
pub(super) trait Decompressor: Send {
    /// Decodes from `input` into `output`. Never loses output when it meets trouble.
    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Step;

    /// How many bytes of input the next step should get, if there are so many. Then the output before damage does not
    /// depend on the sizes in which the input arrives.
    fn wanted(&self) -> usize;

    /// Whether the data may end here.
    fn at_boundary(&self) -> bool;
}

/// Makes a decompressor.
pub(super) type Make = fn() -> io::Result<Box<dyn Decompressor>>;

/// A compression, recognised by the first bytes of the content.
pub(super) struct Compression {
    pub(super) name: &'static str,
    /// The command that writes what it holds.
    pub(super) writer: &'static str,
    pub(super) magic: &'static [u8],
    pub(super) make: Make,
}

/// The compressions that Millstream opens. A zstd file may begin with a skippable frame (RFC 8878, 3.1.2); pzstd writes
/// such files.
pub(super) const COMPRESSIONS: &[Compression] = &[
    Compression { name: "gzip", writer: "gzip -dc FILE", magic: &[0x1f, 0x8b], make: Gzip::make },
    Compression { name: "zstd", writer: "zstd -dc FILE", magic: &[0x28, 0xb5, 0x2f, 0xfd], make: Zstd::make },
    Compression { name: "zstd", writer: "zstd -dc FILE", magic: &[0x50, 0x2a, 0x4d, 0x18], make: Zstd::make },
];

/// Gzip of any number of members (RFC 1952, 2.2).
///
/// Zeros after the last member are padding, such as that of tape blocks. gzip(1) skips them too.
struct Gzip {
    member: Decompress,
    fresh: bool,
    members: u64,
    /// Bytes that came out of the members before.
    before: u64,
    padding: bool,
}

const FOLLOWED: &str = "the gzip data is followed by something else";

/// Why data is damaged of which some came out: only the checksum behind it shows whether that was right.
fn damaged(name: &str, part: &str, start: u64, written: u64) -> Trouble {
    Trouble::Damaged(match written {
        0 => format!("the {name} data is damaged"),
        _ => format!(
            "the {name} data is damaged, and its text from byte {start} on, where its {part} begins, may be wrong"
        ),
    })
}

/// Largest window of deflate, as a power of two.
const DEFLATE_WINDOW_LOG: u8 = 15;

impl Gzip {
    fn make() -> io::Result<Box<dyn Decompressor>> {
        let member = Decompress::new_gzip(DEFLATE_WINDOW_LOG);
        Ok(Box::new(Self { member, fresh: true, members: 0, before: 0, padding: false }))
    }
}

impl Decompressor for Gzip {
    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Step {
        self.padding |= self.fresh && self.members > 0 && input.first() == Some(&0);
        if self.padding {
            let zeros = input.iter().take_while(|&&b| b == 0).count();
            let trouble = (zeros < input.len()).then(|| Trouble::Damaged(FOLLOWED.into()));
            return Step { read: zeros, written: 0, trouble };
        }
        let (read, written) = (self.member.total_in(), self.member.total_out());
        let result = self.member.decompress(input, output, FlushDecompress::None);
        let count = |after: u64, before: u64| usize::try_from(after - before).expect("at most the length of a slice");
        let read = count(self.member.total_in(), read);
        let written = count(self.member.total_out(), written);
        self.fresh &= read == 0;
        let trouble = match result {
            Ok(Status::StreamEnd) => {
                self.before += self.member.total_out();
                self.member = Decompress::new_gzip(DEFLATE_WINDOW_LOG);
                self.fresh = true;
                self.members += 1;
                None
            }
            Ok(Status::Ok | Status::BufError) => None,
            Err(_) if self.members > 0 && self.member.total_out() == 0 => Some(Trouble::Damaged(FOLLOWED.into())),
            // Which check failed depends on the sizes in which the input arrived, and helps nobody.
            Err(_) => Some(damaged("gzip", "member", self.before, self.member.total_out())),
        };
        Step { read, written, trouble }
    }

    fn wanted(&self) -> usize {
        1
    }

    fn at_boundary(&self) -> bool {
        self.fresh
    }
}

/// Zstd of any number of frames (RFC 8878).
struct Zstd {
    decoder: Decoder<'static>,
    /// Bytes of input up to the end of the next block or header. The decoder gets no more, so that a call decodes at
    /// most one: a call that fails does not report what it wrote.
    wanted: usize,
    fresh: bool,
    /// Bytes that came out of the frames before, and of this one.
    before: u64,
    written: u64,
}

/// Length of the shortest frame header, which a decoder asks for first (RFC 8878, 3.1.1).
const ZSTD_FRAME_HEADER_BYTES: usize = 5;

/// Length of a block's header (RFC 8878, 3.1.1.2).
const ZSTD_BLOCK_HEADER_BYTES: usize = 3;

impl Zstd {
    fn make() -> io::Result<Box<dyn Decompressor>> {
        let mut decoder = Decoder::new()?;
        decoder.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_LOG_MAX))?;
        Ok(Box::new(Self { decoder, wanted: ZSTD_FRAME_HEADER_BYTES, fresh: true, before: 0, written: 0 }))
    }
}

impl Decompressor for Zstd {
    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Step {
        let mut from = InBuffer::around(&input[..input.len().min(self.wanted)]);
        let mut to = OutBuffer::around(output);
        let result = self.decoder.run(&mut from, &mut to);
        let (read, written) = (from.pos(), to.pos());
        let trouble = match result {
            Ok(wanted) => {
                self.fresh = wanted == 0 || (self.fresh && read == 0);
                self.written += written as u64;
                if wanted == 0 {
                    self.before += std::mem::take(&mut self.written);
                }
                self.wanted = match wanted {
                    0 => ZSTD_FRAME_HEADER_BYTES,
                    // The decoder asks for a block and the header after it.
                    n if n > ZSTD_BLOCK_HEADER_BYTES => n - ZSTD_BLOCK_HEADER_BYTES,
                    n => n,
                };
                None
            }
            Err(error) if error.to_string().contains("too much memory") => Some(Trouble::WindowTooLarge),
            Err(error) if error.to_string().contains("Dictionary mismatch") => Some(Trouble::Dictionary),
            // The first frame was recognised by its magic number, so a later one has none.
            Err(error) if error.to_string().contains("Unknown frame") => {
                Some(Trouble::Damaged("the zstd data is followed by something else".into()))
            }
            Err(_) => Some(damaged("zstd", "frame", self.before, self.written)),
        };
        Step { read, written, trouble }
    }

    fn wanted(&self) -> usize {
        self.wanted
    }

    fn at_boundary(&self) -> bool {
        self.fresh
    }
}
