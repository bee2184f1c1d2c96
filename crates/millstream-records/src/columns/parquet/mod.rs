//! Parquet: a footer that describes row groups, each with its part of every column in compressed pages.
//!
//! The crate `parquet` decodes the footer and the values of pages. Which bytes it gets, and how many, is decided here.

mod codec;
mod header;
mod lengths;
mod pages;
mod schema;
mod source;
mod thrift;

use super::described::described;
use super::rows::{Rows, require_names};
use crate::limits::{BATCH_FIXED_BYTES, BATCH_ROWS, FOOTER_BYTES_MAX};
use crate::{Converter, FileExtent, Nan, SchemaColumn, Trouble};
use arrow_array::RecordBatchReader;
use codec::Codec;
use header::{check_footer, encrypted};
use pages::{Groups, place};
use parquet::arrow::arrow_reader::ParquetRecordBatchReader;
use parquet::arrow::{ProjectionMask, parquet_to_arrow_field_levels, parquet_to_arrow_schema};
use parquet::basic::Type;
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};
use parquet::schema::types::{ColumnDescriptor, SchemaDescriptor};
use source::Source;
use std::io::Read;
use std::sync::Arc;

/// What stands at the beginning and at the end of a file, and in place of both if the footer is encrypted.
const MAGIC: &[u8] = b"PAR1";
const ENCRYPTED: &[u8] = b"PARE";

/// Bytes at the end of a file: the length of the footer, and the magic number.
const END_BYTES: usize = 8;

/// The rows of a Parquet file.
struct Parquet {
    source: Arc<Source>,
    metadata: Arc<ParquetMetaData>,
    reader: ParquetRecordBatchReader,
    rows: Rows,
    /// How many rows the footer names.
    rows_named: u64,
}

/// Opens a Parquet file.
///
/// # Errors
/// It cannot be read, is damaged, or is of a kind that we do not read.
pub(super) fn open(extent: Option<FileExtent>, nan: Nan) -> Result<Box<dyn Converter>, Trouble> {
    let extent = extent.ok_or_else(|| Trouble::Refused {
        problem: "is Parquet in a pipe, and it is read from its end".into(),
        hint: "write it into a file, and name the file".into(),
    })?;
    let source = Arc::new(Source::new(extent));
    let metadata = Arc::new(footer(&source)?);
    let named: u64 = metadata.row_groups().iter().map(|group| u64::try_from(group.num_rows()).unwrap_or(0)).sum();
    for chunk in metadata.row_groups().iter().flat_map(|group| group.columns()) {
        Codec::of(chunk.compression())?;
        if chunk.file_path().is_some() {
            let problem = "is Parquet whose columns are in other files".into();
            return Err(Trouble::Refused { problem, hint: "name the files that hold the columns".into() });
        }
        place(chunk, source.len()).map_err(|error| source.trouble(&error))?;
    }
    let columns = metadata.file_metadata().schema_descr();
    let plain = schema::with_raw_spans(columns).map_err(|error| source.trouble(&error))?;
    let schema = parquet_to_arrow_schema(&plain, metadata.file_metadata().key_value_metadata())
        // The writer's own description of the columns may be wrong, and is not needed.
        .or_else(|_| parquet_to_arrow_schema(&plain, None))
        .map_err(|error| source.trouble(&error))?;
    require_names(schema.fields())?;
    let types = schema::decoded(schema.fields(), &mut leaves(columns));
    let levels = parquet_to_arrow_field_levels(&plain, ProjectionMask::all(), Some(&types))
        .map_err(|error| source.trouble(&error))?;
    let groups = Groups { source: Arc::clone(&source), metadata: Arc::clone(&metadata) };
    let reader = ParquetRecordBatchReader::try_new_with_row_groups(&levels, &groups, batch_rows(columns), None)
        .map_err(|error| source.trouble(&error))?;
    Ok(Box::new(Parquet { source, metadata, reader, rows: Rows::new(nan), rows_named: named }))
}

/// The columns without members, in the order of the schema.
fn leaves(columns: &SchemaDescriptor) -> impl Iterator<Item = &ColumnDescriptor> {
    columns.columns().iter().map(|column| column.as_ref())
}

/// How many rows are decoded at once.
fn batch_rows(columns: &SchemaDescriptor) -> usize {
    let fixed = leaves(columns).filter(|column| column.physical_type() == Type::FIXED_LEN_BYTE_ARRAY);
    let row_bytes: usize = fixed.map(|column| usize::try_from(column.type_length()).unwrap_or(0)).sum();
    (BATCH_FIXED_BYTES / row_bytes.max(1)).clamp(1, BATCH_ROWS)
}

fn footer(source: &Source) -> Result<ParquetMetaData, Trouble> {
    let damaged = |why: &str| Trouble::Damaged(why.to_owned());
    let truncated = || damaged("it does not end as a Parquet file ends, so a part of it is missing");
    let failed = |error: ParquetError| source.trouble(&error);
    if source.len() < (MAGIC.len() + END_BYTES) as u64 {
        return Err(truncated());
    }
    let end_at = source.len() - END_BYTES as u64;
    let end = source.bytes(end_at, END_BYTES).map_err(failed)?;
    let (length, magic) = end.split_at(END_BYTES - MAGIC.len());
    if magic == ENCRYPTED {
        return Err(encrypted());
    }
    if magic != MAGIC {
        return Err(truncated());
    }
    let length = length.iter().rev().fold(0_usize, |length, byte| (length << 8) | usize::from(*byte));
    if length as u64 > end_at - MAGIC.len() as u64 {
        return Err(damaged("its footer is longer than the file"));
    }
    if length > FOOTER_BYTES_MAX {
        let problem = format!("is Parquet whose footer has more than {} MiB", FOOTER_BYTES_MAX >> 20);
        return Err(Trouble::Refused { problem, hint: "write it with larger row groups, or as several files".into() });
    }
    let bytes = source.bytes(end_at - length as u64, length).map_err(failed)?;
    check_footer(&bytes)?;
    source.passed((length + END_BYTES + MAGIC.len()) as u64);
    ParquetMetaDataReader::decode_metadata(&bytes).map_err(|error| damaged(&format!("its footer is broken: {error}")))
}

impl Converter for Parquet {
    fn more(&mut self, _from: &mut dyn Read, text: &mut Vec<u8>) -> Result<bool, Trouble> {
        if self.rows.are_written() {
            self.source.begin_batch();
            match self.reader.next() {
                Some(Ok(batch)) => {
                    let columns = self.metadata.file_metadata().schema_descr();
                    schema::require_checked(batch.schema().fields(), &mut leaves(columns))?;
                    self.rows.begin(batch);
                }
                Some(Err(error)) => return Err(self.source.trouble(&error)),
                None if self.rows.written == self.rows_named => {
                    self.source.passed(self.source.len());
                    return Ok(false);
                }
                None => {
                    let (written, named) = (self.rows.written, self.rows_named);
                    return Err(Trouble::Damaged(format!("it has {written} rows, and its footer says {named}")));
                }
            }
        }
        self.rows.write(text)?;
        Ok(true)
    }

    fn bytes_read(&self) -> Option<u64> {
        Some(self.source.read())
    }

    fn not_finite(&self) -> u64 {
        self.rows.not_finite
    }

    fn columns(&self) -> Option<Vec<SchemaColumn>> {
        Some(described(self.reader.schema().fields(), self.rows.nan))
    }
}
