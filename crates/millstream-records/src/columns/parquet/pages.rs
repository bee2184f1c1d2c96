//! The pages of a column, opened one after the other.

use super::codec::Codec;
use super::header::{DataHeader, Header, PageHeader, header};
use super::lengths;
use super::source::Source;
use super::thrift::Fault;
use crate::limits::{PAGE_BYTES_MAX, PAGE_HEADER_BYTES, PAGE_HEADER_BYTES_MAX};
use parquet::arrow::arrow_reader::RowGroups;
use parquet::basic::Encoding;
use parquet::column::page::{Page, PageIterator, PageMetadata, PageReader};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData, RowGroupMetaData};
use std::sync::Arc;

/// All row groups of a file.
pub(super) struct Groups {
    pub(super) source: Arc<Source>,
    pub(super) metadata: Arc<ParquetMetaData>,
}

impl RowGroups for Groups {
    fn num_rows(&self) -> usize {
        self.metadata.row_groups().iter().map(|group| usize::try_from(group.num_rows()).unwrap_or(0)).sum()
    }

    fn column_chunks(&self, column: usize) -> Result<Box<dyn PageIterator>, ParquetError> {
        let (source, metadata) = (Arc::clone(&self.source), Arc::clone(&self.metadata));
        Ok(Box::new(Chunks { source, metadata, column, group: 0 }))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(self.metadata.row_groups().iter())
    }

    fn metadata(&self) -> &ParquetMetaData {
        &self.metadata
    }
}

/// The parts of a column, one of each row group.
struct Chunks {
    source: Arc<Source>,
    metadata: Arc<ParquetMetaData>,
    column: usize,
    group: usize,
}

impl Iterator for Chunks {
    type Item = Result<Box<dyn PageReader>, ParquetError>;

    fn next(&mut self) -> Option<Self::Item> {
        let group = self.metadata.row_groups().get(self.group)?;
        self.group += 1;
        let pages = match group.columns().get(self.column) {
            Some(chunk) => Pages::of(Arc::clone(&self.source), chunk),
            None => Err(damaged("a row group lacks a column")),
        };
        Some(pages.map(|pages| Box::new(pages) as Box<dyn PageReader>))
    }
}

impl PageIterator for Chunks {}

/// The pages of one column in one row group.
struct Pages {
    source: Arc<Source>,
    codec: Codec,
    /// The greatest levels of the column: of repetition, and of definition.
    levels_max: [i16; 2],
    at: u64,
    end: u64,
    /// The header before `at`, which was looked at.
    peeked: Option<Header>,
}

/// Where a column's part of a row group stands in the file.
///
/// # Errors
/// It is not in the file.
pub(super) fn place(chunk: &ColumnChunkMetaData, len: u64) -> Result<(u64, u64), ParquetError> {
    // Some writers write 0 for no dictionary.
    let start = chunk.dictionary_page_offset().filter(|at| *at > 0).unwrap_or_else(|| chunk.data_page_offset());
    let place = u64::try_from(start).ok().zip(u64::try_from(chunk.compressed_size()).ok());
    let place = place.and_then(|(start, length)| Some((start, start.checked_add(length)?)));
    place.filter(|(_, end)| *end <= len).ok_or_else(|| damaged("a column is not within the file"))
}

fn damaged(why: &str) -> ParquetError {
    ParquetError::General(why.to_owned())
}

impl Pages {
    fn of(source: Arc<Source>, chunk: &ColumnChunkMetaData) -> Result<Self, ParquetError> {
        let codec = Codec::of(chunk.compression()).map_err(|trouble| source.fail(trouble))?;
        let (at, end) = place(chunk, source.len())?;
        let column = chunk.column_descr();
        let levels_max = [column.max_rep_level(), column.max_def_level()];
        Ok(Self { source, codec, levels_max, at, end, peeked: None })
    }

    /// Reads the next header, unless the column ends.
    fn next_header(&mut self) -> Result<Option<Header>, ParquetError> {
        if let Some(peeked) = self.peeked.take() {
            return Ok(Some(peeked));
        }
        let mut wanted = PAGE_HEADER_BYTES;
        while self.at < self.end {
            let left = usize::try_from(self.end - self.at).unwrap_or(usize::MAX);
            let bytes = self.source.bytes(self.at, wanted.min(left))?;
            match header(&bytes) {
                Ok((header, length)) => {
                    self.pass(length);
                    if header.bytes as u64 > self.end - self.at {
                        return Err(damaged("a page ends behind its column"));
                    }
                    if header.page == PageHeader::Other {
                        self.pass(header.bytes);
                        wanted = PAGE_HEADER_BYTES;
                        continue;
                    }
                    return Ok(Some(header));
                }
                Err(Fault::Short) if bytes.len() < left && wanted < PAGE_HEADER_BYTES_MAX => wanted *= 8,
                Err(_) => return Err(damaged("the header of a page is broken")),
            }
        }
        Ok(None)
    }

    fn pass(&mut self, bytes: usize) {
        self.at += bytes as u64;
        self.source.passed(bytes as u64);
    }

    /// Opens the page behind a header.
    fn open(&mut self, header: &Header) -> Result<Page, ParquetError> {
        let (values, levels) = match &header.page {
            PageHeader::Dictionary { values, .. } => (*values, 0),
            PageHeader::Data(data) => (data.values, 0),
            PageHeader::DataV2(data) => (data.values, data.definition_bytes as usize + data.repetition_bytes as usize),
            PageHeader::Other => return Err(damaged("a page of no kind")),
        };
        let dictionary = matches!(header.page, PageHeader::Dictionary { .. });
        if header.opened_bytes > PAGE_BYTES_MAX || header.bytes > PAGE_BYTES_MAX {
            return Err(damaged("a page is larger than 256 MiB"));
        }
        // The decoder makes room for as many values as the header names.
        if dictionary && values as usize > header.opened_bytes {
            return Err(damaged("a dictionary has more values than bytes"));
        }
        self.source.claim(header.opened_bytes + header.bytes, values)?;
        let bytes = self.source.bytes(self.at, header.bytes)?;
        self.pass(header.bytes);
        if header.checksum.is_some_and(|checksum| crc32fast::hash(&bytes) != checksum) {
            return Err(damaged("the checksum of a page is wrong"));
        }
        if levels > bytes.len() || levels > header.opened_bytes {
            return Err(damaged("the levels of a page are longer than the page"));
        }
        let opened = self.opened(header, bytes, levels)?;
        self.check_lengths(header, &opened, levels, values)?;
        let buf = opened.into();
        Ok(match &header.page {
            PageHeader::Dictionary { values, encoding, is_sorted } => {
                Page::DictionaryPage { buf, num_values: *values, encoding: *encoding, is_sorted: *is_sorted }
            }
            PageHeader::Data(data) => Page::DataPage {
                buf,
                num_values: data.values,
                encoding: data.encoding,
                def_level_encoding: data.definition,
                rep_level_encoding: data.repetition,
                statistics: None,
            },
            PageHeader::DataV2(data) => Page::DataPageV2 {
                buf,
                num_values: data.values,
                encoding: data.encoding,
                num_nulls: data.nulls,
                num_rows: data.rows,
                def_levels_byte_len: data.definition_bytes,
                rep_levels_byte_len: data.repetition_bytes,
                is_compressed: data.is_compressed,
                statistics: None,
            },
            PageHeader::Other => return Err(damaged("a page of no kind")),
        })
    }

    /// Checks how many lengths a page of texts names. `levels`: bytes of its levels, in version 2.
    fn check_lengths(&self, header: &Header, opened: &[u8], levels: usize, values: u32) -> Result<(), ParquetError> {
        let (encoding, start) = match &header.page {
            PageHeader::Data(data) if lengths::is_packed(data.encoding) => {
                (data.encoding, self.levels_of(data, opened)?)
            }
            PageHeader::DataV2(data) => (data.encoding, levels),
            _ => return Ok(()),
        };
        let data = opened.get(start..).ok_or_else(|| damaged("the levels of a page are longer than the page"))?;
        lengths::check(encoding, data, values).map_err(|_| damaged("the lengths in a page are broken"))
    }

    /// How many bytes of a page of version 1 are levels.
    #[expect(deprecated, reason = "old writers use BIT_PACKED for levels")]
    fn levels_of(&self, data: &DataHeader, opened: &[u8]) -> Result<usize, ParquetError> {
        let mut passed = 0_usize;
        for (encoding, max) in [data.repetition, data.definition].into_iter().zip(self.levels_max) {
            passed = match encoding {
                _ if max == 0 => Some(passed),
                Encoding::BIT_PACKED => {
                    let bits = u64::from(data.values) * u64::from(u16::BITS - max.unsigned_abs().leading_zeros());
                    usize::try_from(bits.div_ceil(8)).ok().and_then(|bytes| passed.checked_add(bytes))
                }
                _ => opened.get(passed..).and_then(|rest| rest.first_chunk()).and_then(|length| {
                    passed.checked_add(4)?.checked_add(usize::try_from(u32::from_le_bytes(*length)).ok()?)
                }),
            }
            .ok_or_else(|| damaged("the levels of a page are broken"))?;
        }
        Ok(passed)
    }

    /// Opens the bytes of a page. Its levels are not compressed.
    fn opened(&self, header: &Header, mut bytes: Vec<u8>, levels: usize) -> Result<Vec<u8>, ParquetError> {
        let is_plain = matches!(&header.page, PageHeader::DataV2(data) if !data.is_compressed);
        // A page without values has nothing to open.
        if is_plain || self.codec == Codec::Plain || header.opened_bytes == levels {
            if bytes.len() < header.opened_bytes {
                return Err(damaged("a page is shorter than it says"));
            }
            bytes.truncate(header.opened_bytes);
            return Ok(bytes);
        }
        let mut opened = vec![0; header.opened_bytes];
        opened[..levels].copy_from_slice(&bytes[..levels]);
        self.codec.open(&bytes[levels..], &mut opened[levels..]).map_err(ParquetError::General)?;
        Ok(opened)
    }
}

impl Iterator for Pages {
    type Item = Result<Page, ParquetError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for Pages {
    fn get_next_page(&mut self) -> Result<Option<Page>, ParquetError> {
        match self.next_header()? {
            Some(header) => self.open(&header).map(Some),
            None => Ok(None),
        }
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>, ParquetError> {
        self.peeked = self.next_header()?;
        Ok(self.peeked.as_ref().map(|header| {
            let (rows, values, is_dict) = match &header.page {
                PageHeader::Data(data) => (None, Some(data.values), false),
                PageHeader::DataV2(data) => (Some(data.rows), Some(data.values), false),
                PageHeader::Dictionary { .. } | PageHeader::Other => (None, None, true),
            };
            let size = |n: u32| n as usize;
            PageMetadata { num_rows: rows.map(size), num_levels: values.map(size), is_dict }
        }))
    }

    fn skip_next_page(&mut self) -> Result<(), ParquetError> {
        if let Some(header) = self.next_header()? {
            self.pass(header.bytes);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{FileExtent, Trouble};
    use std::io::Write;

    const CONTENT: &[u8] = b"\x03\0\0\0abc";

    /// A number as Thrift writes it.
    fn number(value: i64) -> Vec<u8> {
        let mut rest = ((value << 1) ^ (value >> 63)).cast_unsigned();
        let mut bytes = Vec::new();
        while rest > 0x7f {
            bytes.push(0x80 | u8::try_from(rest & 0x7f).unwrap());
            rest >>= 7;
        }
        bytes.push(u8::try_from(rest).unwrap());
        bytes
    }

    /// A dictionary of one value, with such sizes and such a checksum.
    fn dictionary(opened: i64, values: i64, checksum: Option<u32>) -> Vec<u8> {
        let field = |head: u8, value: i64| [vec![head], number(value)].concat();
        let mut page = [field(0x15, 2), field(0x15, opened), field(0x15, 7)].concat();
        match checksum {
            Some(checksum) => page.extend([field(0x15, checksum.cast_signed().into()), vec![0x3c]].concat()),
            None => page.push(0x4c),
        }
        page.extend([field(0x15, values), field(0x15, 0), vec![0, 0], CONTENT.to_vec()].concat());
        page
    }

    fn pages(content: &[u8]) -> Pages {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(content).unwrap();
        let len = content.len() as u64;
        let source = Arc::new(Source::new(FileExtent { file: Box::new(file), start: 0, len }));
        Pages { source, codec: Codec::Plain, levels_max: [0, 0], at: 0, end: len, peeked: None }
    }

    #[test]
    fn a_page_with_a_wrong_checksum_is_damage() {
        let right = crc32fast::hash(CONTENT);
        for (checksum, fits) in [(None, true), (Some(right), true), (Some(right ^ 1), false)] {
            let content = dictionary(7, 1, checksum);
            let mut pages = pages(&content);
            assert!(pages.peek_next_page().unwrap().is_some_and(|page| page.is_dict));
            let page = pages.get_next_page();
            assert_eq!(page.is_ok(), fits, "{checksum:?}");
            assert!(page.is_ok() || page.is_err_and(|error| error.to_string().contains("checksum")));
            assert_eq!(pages.source.read(), content.len() as u64);
        }
    }

    #[test]
    fn what_a_header_says_is_not_believed() {
        for (opened, values) in [(8, 1), (1 << 30, 1), (7, 8), (7, 1 << 31)] {
            assert!(pages(&dictionary(opened, values, None)).get_next_page().is_err(), "{opened} {values}");
        }
        let content = dictionary(7, 1, None);
        for end in 1..content.len() {
            assert!(pages(&content[..end]).get_next_page().is_err(), "{end}");
        }
        assert!(pages(b"").get_next_page().unwrap().is_none());
    }

    #[test]
    fn many_pages_for_a_few_rows_are_refused() {
        let source = pages(b"").source;
        while source.claim(PAGE_BYTES_MAX, 1).is_ok() {}
        assert!(matches!(source.trouble(&""), Trouble::Refused { .. }));
        source.begin_batch();
        assert!(source.claim(PAGE_BYTES_MAX, 1).is_ok());
        assert!(source.claim(0, u32::MAX).is_err());
    }
}
