//! Avro's object container files: a header with the schema, and blocks of records, each compressed by itself.
//!
//! Our own code reads them, and no crate. Each value becomes text anyway: `apache-avro` would make a tree of values of each
//! record, and `arrow-avro` columns, which hold no type that holds itself. What is left is short, its codecs are here for
//! Parquet and Arrow, and every size that a file names is bounded before it is believed.

mod codec;
mod described;
mod header;
mod number;
mod record;
mod schema;
mod source;

use super::line::Line;
use crate::limits::{AVRO_BLOCK_BYTES_MAX, AVRO_EMPTY_ITEMS_MAX, LINE_BYTES_MAX, TEXT_BYTES};
use crate::{Converter, FileExtent, Nan, SchemaColumn, Trouble};
use codec::{Codec, Unopened};
use described::described;
use header::{Header, Mark};
use record::{Fault, Reader, Writer};
use schema::Schema;
use source::{Missing, Source};
use std::fmt::{self, Display};
use std::io::Read;

/// The records of a file.
struct Avro {
    nan: Nan,
    /// Bytes that were read.
    at: u64,
    /// What the header says. `None`: it was not read yet.
    begun: Option<Begun>,
    block: Place,
    /// The block as it is in the file, and opened.
    stored: Vec<u8>,
    opened: Vec<u8>,
    /// Where in the opened block the next record begins, and how many there are from there on.
    next: usize,
    left: u64,
    /// Records that were written.
    written: u64,
    /// Numbers that became null.
    not_finite: u64,
}

/// What the header says.
struct Begun {
    writer: Writer,
    codec: Codec,
    mark: Mark,
}

/// A block, by its number, and by where it begins in the file without the compression of that.
#[derive(Clone, Copy)]
struct Place {
    number: u64,
    at: u64,
}

impl Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "its block {} (at byte {})", self.number, self.at)
    }
}

/// Opens a file. It is read in order, so that it may come from a pipe.
///
/// # Errors
/// None.
pub(super) fn open(_extent: Option<FileExtent>, nan: Nan) -> Result<Box<dyn Converter>, Trouble> {
    Ok(Box::new(Avro {
        nan,
        at: 0,
        begun: None,
        block: Place { number: 0, at: 0 },
        stored: Vec::new(),
        opened: Vec::new(),
        next: 0,
        left: 0,
        written: 0,
        not_finite: 0,
    }))
}

impl Begun {
    fn read(source: &mut Source<'_>) -> Result<Self, Trouble> {
        let Header { schema, codec, mark } = Header::read(source)?;
        Ok(Self { codec: Codec::of(&codec)?, writer: Writer::new(Schema::of(&schema)?), mark })
    }
}

impl Avro {
    /// Reads and opens the next block. `false`: the file ends before it.
    fn next_block(&mut self, from: &mut dyn Read) -> Result<bool, Trouble> {
        let Some(Begun { codec, mark, .. }) = &mut self.begun else { return Ok(false) };
        let block = Place { number: self.block.number + 1, at: self.at };
        let within = |missing: Missing| missing.trouble(&block);
        let mut source = Source { from, at: &mut self.at };
        let Some(records) = source.whole_or_end().map_err(within)? else { return Ok(false) };
        let records = u64::try_from(records).map_err(|_| damaged(&block, "has a negative number of records"))?;
        let length = source.length().map_err(within)?;
        if length > AVRO_BLOCK_BYTES_MAX {
            return Err(too_large(block));
        }
        source.fill(length, &mut self.stored).map_err(within)?;
        let found: Mark = source.array().map_err(within)?;
        if found != *mark {
            return Err(damaged(&block, "does not end with the mark that the header names"));
        }
        codec.open(&mut self.stored, &mut self.opened, AVRO_BLOCK_BYTES_MAX).map_err(|unopened| match unopened {
            Unopened::TooLarge => too_large(block),
            Unopened::Damaged(why) => damaged(&block, &format!("cannot be decompressed: {why}")),
        })?;
        let bytes = self.opened.len() as u64;
        if records > bytes.max(AVRO_EMPTY_ITEMS_MAX) {
            return Err(damaged(&block, &format!("names {records} records, and has {bytes} bytes")));
        }
        (self.block, self.next, self.left) = (block, 0, records);
        Ok(true)
    }

    /// Appends records of the block until there is enough text.
    fn write(&mut self, text: &mut Vec<u8>) -> Result<(), Trouble> {
        let Some(Begun { writer, .. }) = &mut self.begun else { return Ok(()) };
        let before = text.len();
        while self.left > 0 && text.len() - before < TEXT_BYTES {
            let start = text.len();
            let mut reader = Reader { bytes: &self.opened, at: self.next };
            let mut line = Line { text: &mut *text, len_max: start + LINE_BYTES_MAX, nan: self.nan, not_finite: 0 };
            let written = writer.write(&mut reader, &mut line);
            let not_finite = line.not_finite;
            if let Err(fault) = written {
                text.truncate(start);
                let why = match fault {
                    Fault::TooLong => format!("it stands for a line of more than {LINE_BYTES_MAX} bytes"),
                    Fault::Broken(why) => why.to_owned(),
                };
                let record = self.written + 1;
                return Err(damaged(
                    &self.block,
                    &format!("has a record, number {record}, that cannot be read: {why}"),
                ));
            }
            text.push(b'\n');
            self.next = reader.at;
            self.left -= 1;
            self.written += 1;
            self.not_finite += not_finite;
        }
        if self.left == 0 && self.next < self.opened.len() {
            return Err(damaged(&self.block, "has bytes behind its last record"));
        }
        Ok(())
    }
}

impl Converter for Avro {
    fn more(&mut self, from: &mut dyn Read, text: &mut Vec<u8>) -> Result<bool, Trouble> {
        if self.begun.is_none() {
            self.begun = Some(Begun::read(&mut Source { from, at: &mut self.at })?);
            return Ok(true);
        }
        if self.left == 0 && !self.next_block(from)? {
            return Ok(false);
        }
        self.write(text)?;
        Ok(true)
    }

    fn bytes_read(&self) -> Option<u64> {
        None
    }

    fn not_finite(&self) -> u64 {
        self.not_finite
    }

    fn columns(&self) -> Option<Vec<SchemaColumn>> {
        described(&self.begun.as_ref()?.writer.schema, self.nan)
    }
}

fn damaged(block: &Place, why: &str) -> Trouble {
    Trouble::Damaged(format!("{block} {why}"))
}

fn too_large(block: Place) -> Trouble {
    let Place { number, at } = block;
    let limit = AVRO_BLOCK_BYTES_MAX >> 20;
    let problem = format!("is Avro whose block {number} (at byte {at}) has more than {limit} MiB");
    Trouble::Refused { problem, hint: "write it in smaller blocks, or as several files".into() }
}
