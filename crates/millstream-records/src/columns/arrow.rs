//! Arrow's IPC format: a stream of messages, which its file holds between a magic number and a footer.
//!
//! A file is read by its footer. In a pipe, or without its end, it is read as the stream that it holds, in order. Messages
//! are taken apart here and not by the crate `arrow-ipc`, because it believes the sizes that they name.

use super::described::described;
use super::footer::{CONTINUATION, Footer, MAGIC, MAGIC_BYTES_PADDED, damaged};
use super::rows::{Rows, require_names};
use crate::limits::{ARROW_BATCH_BYTES_MAX, MESSAGE_BYTES_MAX};
use crate::{Converter, FileExtent, Nan, SchemaColumn, Trouble};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_buffer::Buffer;
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::reader::{read_dictionary, read_record_batch};
use arrow_ipc::{CompressionType, Endianness, Message, MessageHeader, Schema, root_as_message};
use arrow_schema::{ArrowError, SchemaRef};
use std::collections::HashMap;
use std::io::Read;

/// Words of zeros that are passed behind what a file begins with. Arrow's writers align to 64 bytes at most.
const PADDING_WORDS_MAX: usize = 16;

/// No description of columns is as short as this.
const DESCRIPTION_BYTES_MIN: usize = 32;

/// Bytes that are read at once of what is passed, and that are reserved before a body is read.
const PASSED_AT_ONCE: usize = 64 << 10;
const RESERVED: usize = 16 << 20;

/// The length before a compressed buffer, and its value if the buffer is not compressed after all.
const LENGTH_BYTES: usize = 8;
const NOT_COMPRESSED: i64 = -1;

/// The rows of a file or a stream.
struct Arrow {
    is_file: bool,
    has_begun: bool,
    has_ended: bool,
    schema: Option<SchemaRef>,
    dictionaries: HashMap<i64, ArrayRef>,
    /// Bytes of each dictionary.
    dictionary_bytes: HashMap<i64, usize>,
    rows: Rows,
    /// Where the messages lie. `None`: they come in order.
    footer: Option<Footer>,
    /// Whether it is a file without its end.
    is_cut: bool,
}

/// Opens a file.
///
/// # Errors
/// It cannot be read, or its footer is damaged or describes what we do not read.
pub(super) fn open_file(extent: Option<FileExtent>, nan: Nan) -> Result<Box<dyn Converter>, Trouble> {
    let mut arrow = Arrow::new(true, nan);
    if let Some(extent) = extent {
        arrow.footer = Footer::read(extent, |schema| arrow.describe(schema))?;
        arrow.is_cut = arrow.footer.is_none();
    }
    Ok(Box::new(arrow))
}

/// Opens a stream.
///
/// # Errors
/// None.
pub(super) fn open_stream(_extent: Option<FileExtent>, nan: Nan) -> Result<Box<dyn Converter>, Trouble> {
    Ok(Box::new(Arrow::new(false, nan)))
}

impl Arrow {
    fn new(is_file: bool, nan: Nan) -> Self {
        Self {
            is_file,
            has_begun: false,
            has_ended: false,
            schema: None,
            dictionaries: HashMap::new(),
            dictionary_bytes: HashMap::new(),
            rows: Rows::new(nan),
            footer: None,
            is_cut: false,
        }
    }

    /// Reads up to the next batch of rows. `None`: the messages end.
    fn next_batch(&mut self, from: &mut dyn Read) -> Result<Option<RecordBatch>, Trouble> {
        while let Some(description) = self.next_description(from)? {
            let message = root_as_message(&description).map_err(|error| damaged(&error))?;
            let body_bytes = usize::try_from(message.bodyLength()).map_err(|error| damaged(&error))?;
            if body_bytes > ARROW_BATCH_BYTES_MAX {
                return Err(too_large());
            }
            let body = match &mut self.footer {
                Some(footer) => footer.body(body_bytes)?,
                None => exactly(from, body_bytes)?,
            };
            if let Some(batch) = self.take(&message, &Buffer::from_vec(body))? {
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }

    /// The description of the next message. `None`: there is none. A stream may end without saying so, a file may not.
    fn next_description(&mut self, from: &mut dyn Read) -> Result<Option<Vec<u8>>, Trouble> {
        if let Some(footer) = &mut self.footer {
            return footer.next_description();
        }
        let mut head = up_to(from, CONTINUATION.len())?;
        if head.is_empty() && !self.is_file {
            return Ok(None);
        }
        // Some writers fill up what a file begins with to more bytes than it needs.
        for _ in 0..PADDING_WORDS_MAX {
            if !self.is_file || self.schema.is_some() || head != [0; 4] {
                break;
            }
            head = up_to(from, CONTINUATION.len())?;
        }
        if head == CONTINUATION {
            head = up_to(from, CONTINUATION.len())?;
        }
        let length = <[u8; 4]>::try_from(head).map_err(|_| truncated())?;
        match usize::try_from(u32::from_le_bytes(length)).unwrap_or(usize::MAX) {
            // Polars writes the columns of a file here without their length.
            length if length < DESCRIPTION_BYTES_MIN && self.is_file && self.schema.is_none() => {
                Err(if self.is_cut { truncated() } else { described_at_the_end() })
            }
            0 => Ok(None),
            length if length > MESSAGE_BYTES_MAX => Err(damaged(&"a message has no plausible length")),
            length => exactly(from, length).map(Some),
        }
    }

    /// Takes the columns.
    fn describe(&mut self, schema: Schema<'_>) -> Result<(), Trouble> {
        if schema.endianness() != Endianness::Little {
            let problem = "is Arrow in big-endian byte order, which Millstream does not read".into();
            return Err(Trouble::Refused { problem, hint: "write it as Parquet".into() });
        }
        let schema = try_fb_to_schema(schema).map_err(|error| undecoded(&error))?;
        require_names(schema.fields())?;
        self.schema = Some(SchemaRef::new(schema));
        Ok(())
    }

    fn take(&mut self, message: &Message<'_>, body: &Buffer) -> Result<Option<RecordBatch>, Trouble> {
        let version = message.version();
        if let Some(schema) = message.header_as_schema() {
            if self.schema.is_some() {
                return Err(damaged(&"it describes its columns twice"));
            }
            self.describe(schema)?;
            return Ok(None);
        }
        let Some(schema) = &self.schema else { return Err(damaged(&"it does not begin with its columns")) };
        if let Some(batch) = message.header_as_record_batch() {
            require_room(&batch, body)?;
            let batch = read_record_batch(body, batch, SchemaRef::clone(schema), &self.dictionaries, None, &version);
            return batch.map(Some).map_err(|error| undecoded(&error));
        }
        if let Some(dictionary) = message.header_as_dictionary_batch() {
            let values = dictionary.data().ok_or_else(|| damaged(&"a dictionary has no values"))?;
            let bytes = require_room(&values, body)?;
            let held = self.dictionary_bytes.entry(dictionary.id()).or_default();
            *held = if dictionary.isDelta() { held.saturating_add(bytes) } else { bytes };
            if self.dictionary_bytes.values().fold(0_usize, |all, bytes| all.saturating_add(*bytes))
                > ARROW_BATCH_BYTES_MAX
            {
                return Err(too_large());
            }
            read_dictionary(body, dictionary, schema, &mut self.dictionaries, &version)
                .map_err(|error| undecoded(&error))?;
            return Ok(None);
        }
        match message.header_type() {
            MessageHeader::NONE => Ok(None),
            other => Err(damaged(&format!("it holds a message of the kind {other:?}"))),
        }
    }

    /// Requires that nothing follows the messages but what a file has there.
    fn require_end(&self, from: &mut dyn Read) -> Result<(), Trouble> {
        if self.footer.is_some() {
            return Ok(());
        }
        if !self.is_file {
            return match from.read(&mut [0])? {
                0 => Ok(()),
                _ => Err(damaged(&"the Arrow stream is followed by something else")),
            };
        }
        let (mut end, mut buffer) = (Vec::new(), vec![0; PASSED_AT_ONCE]);
        loop {
            let bytes = from.read(&mut buffer)?;
            if bytes == 0 {
                break;
            }
            end.extend_from_slice(&buffer[..bytes]);
            end.drain(..end.len().saturating_sub(MAGIC.len()));
        }
        if end == MAGIC { Ok(()) } else { Err(truncated()) }
    }
}

impl Converter for Arrow {
    fn more(&mut self, from: &mut dyn Read, text: &mut Vec<u8>) -> Result<bool, Trouble> {
        if self.rows.are_written() {
            if self.has_ended {
                return Ok(false);
            }
            if self.is_file && !self.has_begun && self.footer.is_none() {
                exactly(from, MAGIC_BYTES_PADDED)?;
            }
            self.has_begun = true;
            match self.next_batch(from)? {
                Some(batch) => self.rows.begin(batch),
                None => {
                    self.require_end(from)?;
                    self.has_ended = true;
                    return Ok(false);
                }
            }
        }
        self.rows.write(text)?;
        Ok(true)
    }

    fn bytes_read(&self) -> Option<u64> {
        self.footer.as_ref().map(|footer| footer.read)
    }

    fn not_finite(&self) -> u64 {
        self.rows.not_finite
    }

    fn columns(&self) -> Option<Vec<SchemaColumn>> {
        self.schema.as_ref().map(|schema| described(schema.fields(), self.rows.nan))
    }
}

/// Requires that a batch does not become too large when it is opened. Returns its size.
fn require_room(batch: &arrow_ipc::RecordBatch<'_>, body: &[u8]) -> Result<usize, Trouble> {
    let Some(compression) = batch.compression() else { return Ok(body.len()) };
    match compression.codec() {
        CompressionType::LZ4_FRAME | CompressionType::ZSTD => {}
        other => {
            let problem = format!("is Arrow compressed with {other:?}, which Millstream does not open");
            return Err(Trouble::Refused { problem, hint: "write it with zstd, lz4 or without compression".into() });
        }
    }
    let mut opened = 0_usize;
    for buffer in batch.buffers().into_iter().flatten() {
        let (offset, length) = (usize::try_from(buffer.offset()), usize::try_from(buffer.length()));
        let (Ok(offset), Ok(length)) = (offset, length) else { return Err(damaged(&"a buffer has no place")) };
        if length == 0 {
            continue;
        }
        let bytes = body.get(offset..).and_then(|rest| rest.first_chunk::<LENGTH_BYTES>());
        let bytes = match bytes.map(|bytes| i64::from_le_bytes(*bytes)) {
            Some(NOT_COMPRESSED) => length,
            Some(length) => usize::try_from(length).map_err(|error| damaged(&error))?,
            None => return Err(damaged(&"a buffer is not within its batch")),
        };
        opened = opened.saturating_add(bytes);
        if opened > ARROW_BATCH_BYTES_MAX {
            return Err(too_large());
        }
    }
    Ok(opened)
}

/// Reads so many bytes, or those up to the end.
fn up_to(from: &mut dyn Read, length: usize) -> Result<Vec<u8>, Trouble> {
    let mut bytes = Vec::with_capacity(length.min(RESERVED));
    Read::take(&mut *from, length as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads so many bytes.
fn exactly(from: &mut dyn Read, length: usize) -> Result<Vec<u8>, Trouble> {
    let bytes = up_to(from, length)?;
    if bytes.len() == length { Ok(bytes) } else { Err(truncated()) }
}

fn undecoded(error: &ArrowError) -> Trouble {
    Trouble::Damaged(format!("its columns cannot be decoded: {error}"))
}

fn truncated() -> Trouble {
    damaged(&"a part of it is missing at the end")
}

fn described_at_the_end() -> Trouble {
    let problem = "is an Arrow file that describes its columns only at its end, and here it is read in order".into();
    Trouble::Refused { problem, hint: "write it into a file without compression around it, and name the file".into() }
}

fn too_large() -> Trouble {
    let problem = format!("is Arrow with a batch or dictionaries above {} MiB", ARROW_BATCH_BYTES_MAX >> 20);
    let hint = "write it in smaller batches, for instance with max_chunksize of pyarrow, or as Parquet";
    Trouble::Refused { problem, hint: hint.into() }
}
