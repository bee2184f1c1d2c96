//! The header of a page, and the footer as far as it must be known before the footer is decoded.

use super::thrift::{Fault, Kind, Thrift};
use crate::Trouble;
use crate::limits::NESTING_MAX;
use parquet::basic::Encoding;

/// The header of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) page: PageHeader,
    /// Bytes of the page when it is opened.
    pub(super) opened_bytes: usize,
    /// Bytes of the page in the file, behind its header.
    pub(super) bytes: usize,
    /// The CRC-32 of these bytes, if the writer has given it.
    pub(super) checksum: Option<u32>,
}

/// What a page holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PageHeader {
    Dictionary {
        values: u32,
        encoding: Encoding,
        is_sorted: bool,
    },
    Data(DataHeader),
    DataV2(DataHeaderV2),
    /// Something else, which is skipped.
    Other,
}

/// A page of data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DataHeader {
    pub(super) values: u32,
    pub(super) encoding: Encoding,
    pub(super) definition: Encoding,
    pub(super) repetition: Encoding,
}

/// A page of data whose levels are not compressed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct DataHeaderV2 {
    pub(super) values: u32,
    pub(super) nulls: u32,
    pub(super) rows: u32,
    pub(super) encoding: Encoding,
    pub(super) definition_bytes: u32,
    pub(super) repetition_bytes: u32,
    pub(super) is_compressed: bool,
}

/// Reads the header of a page. Also returns its length.
///
/// # Errors
/// It ends too early, or is none.
pub(super) fn header(bytes: &[u8]) -> Result<(Header, usize), Fault> {
    let mut thrift = Thrift::new(bytes);
    let (mut kind, mut opened_bytes, mut length, mut checksum) = (None, None, None, None);
    let (mut data, mut dictionary, mut data_v2) = (None, None, None);
    let mut last = 0;
    while let Some(field) = thrift.field(&mut last)? {
        match field {
            (1, Kind::Integer) => kind = Some(thrift.integer()?),
            (2, Kind::Integer) => opened_bytes = Some(thrift.size()?),
            (3, Kind::Integer) => length = Some(thrift.size()?),
            // The checksum is an unsigned number that was written as a signed one.
            (4, Kind::Integer) => checksum = i32::try_from(thrift.integer()?).ok().map(i32::cast_unsigned),
            (5, Kind::Struct) => data = Some(data_header(&mut thrift)?),
            (7, Kind::Struct) => dictionary = Some(dictionary_header(&mut thrift)?),
            (8, Kind::Struct) => data_v2 = Some(data_header_v2(&mut thrift)?),
            (_, kind) => thrift.skip(kind)?,
        }
    }
    let page = match kind.ok_or(Fault::Broken)? {
        0 => PageHeader::Data(data.ok_or(Fault::Broken)?),
        2 => dictionary.ok_or(Fault::Broken)?,
        3 => PageHeader::DataV2(data_v2.ok_or(Fault::Broken)?),
        _ => PageHeader::Other,
    };
    let (opened_bytes, bytes) = (opened_bytes.ok_or(Fault::Broken)?, length.ok_or(Fault::Broken)?);
    Ok((Header { page, opened_bytes, bytes, checksum }, thrift.passed()))
}

fn number(thrift: &mut Thrift<'_>) -> Result<u32, Fault> {
    u32::try_from(thrift.integer()?).map_err(|_| Fault::Broken)
}

#[expect(deprecated, reason = "old writers use BIT_PACKED for levels")]
fn encoding(thrift: &mut Thrift<'_>) -> Result<Encoding, Fault> {
    Ok(match thrift.integer()? {
        0 => Encoding::PLAIN,
        2 => Encoding::PLAIN_DICTIONARY,
        3 => Encoding::RLE,
        4 => Encoding::BIT_PACKED,
        5 => Encoding::DELTA_BINARY_PACKED,
        6 => Encoding::DELTA_LENGTH_BYTE_ARRAY,
        7 => Encoding::DELTA_BYTE_ARRAY,
        8 => Encoding::RLE_DICTIONARY,
        9 => Encoding::BYTE_STREAM_SPLIT,
        _ => return Err(Fault::Broken),
    })
}

fn data_header(thrift: &mut Thrift<'_>) -> Result<DataHeader, Fault> {
    let (mut values, mut values_in, mut definition, mut repetition) = (None, None, None, None);
    let mut last = 0;
    while let Some(field) = thrift.field(&mut last)? {
        match field {
            (1, Kind::Integer) => values = Some(number(thrift)?),
            (2, Kind::Integer) => values_in = Some(encoding(thrift)?),
            (3, Kind::Integer) => definition = Some(encoding(thrift)?),
            (4, Kind::Integer) => repetition = Some(encoding(thrift)?),
            (_, kind) => thrift.skip(kind)?,
        }
    }
    Ok(DataHeader {
        values: values.ok_or(Fault::Broken)?,
        encoding: values_in.ok_or(Fault::Broken)?,
        definition: definition.unwrap_or(Encoding::RLE),
        repetition: repetition.unwrap_or(Encoding::RLE),
    })
}

fn dictionary_header(thrift: &mut Thrift<'_>) -> Result<PageHeader, Fault> {
    let (mut values, mut values_in, mut is_sorted) = (None, None, false);
    let mut last = 0;
    while let Some(field) = thrift.field(&mut last)? {
        match field {
            (1, Kind::Integer) => values = Some(number(thrift)?),
            (2, Kind::Integer) => values_in = Some(encoding(thrift)?),
            (3, Kind::True) => is_sorted = true,
            (_, kind) => thrift.skip(kind)?,
        }
    }
    let (values, encoding) = (values.ok_or(Fault::Broken)?, values_in.ok_or(Fault::Broken)?);
    Ok(PageHeader::Dictionary { values, encoding, is_sorted })
}

fn data_header_v2(thrift: &mut Thrift<'_>) -> Result<DataHeaderV2, Fault> {
    let (mut values, mut nulls, mut rows, mut values_in) = (None, None, None, None);
    let (mut definition_bytes, mut repetition_bytes, mut is_compressed) = (None, None, true);
    let mut last = 0;
    while let Some(field) = thrift.field(&mut last)? {
        match field {
            (1, Kind::Integer) => values = Some(number(thrift)?),
            (2, Kind::Integer) => nulls = Some(number(thrift)?),
            (3, Kind::Integer) => rows = Some(number(thrift)?),
            (4, Kind::Integer) => values_in = Some(encoding(thrift)?),
            (5, Kind::Integer) => definition_bytes = Some(number(thrift)?),
            (6, Kind::Integer) => repetition_bytes = Some(number(thrift)?),
            (7, Kind::False) => is_compressed = false,
            (_, kind) => thrift.skip(kind)?,
        }
    }
    Ok(DataHeaderV2 {
        values: values.ok_or(Fault::Broken)?,
        nulls: nulls.ok_or(Fault::Broken)?,
        rows: rows.ok_or(Fault::Broken)?,
        encoding: values_in.ok_or(Fault::Broken)?,
        definition_bytes: definition_bytes.ok_or(Fault::Broken)?,
        repetition_bytes: repetition_bytes.ok_or(Fault::Broken)?,
        is_compressed,
    })
}

/// Checks what would break the decoder of the footer: it recurses over the schema, and believes its counts.
///
/// # Errors
/// The footer is broken, or that of a file with encrypted columns.
pub(super) fn check_footer(bytes: &[u8]) -> Result<(), Trouble> {
    let broken = |_| Trouble::Damaged("its footer is broken".into());
    let mut thrift = Thrift::new(bytes);
    let mut last = 0;
    while let Some(field) = thrift.field(&mut last).map_err(broken)? {
        match field {
            (2, Kind::List) => {
                let children = children(&mut thrift).map_err(broken)?;
                check_schema(&children)?;
            }
            (8, _) => return Err(encrypted()),
            (_, kind) => thrift.skip(kind).map_err(broken)?,
        }
    }
    Ok(())
}

/// The refusal of a file of which a part is encrypted.
pub(super) fn encrypted() -> Trouble {
    let hint = "decrypt it where its keys are, for instance with pyarrow, and load what that writes";
    Trouble::Refused { problem: "is Parquet with encryption, which Millstream does not open".into(), hint: hint.into() }
}

/// How many children each element of the schema has, in order.
fn children(thrift: &mut Thrift<'_>) -> Result<Vec<usize>, Fault> {
    let (count, kind) = thrift.list()?;
    if kind != Kind::Struct {
        return Err(Fault::Broken);
    }
    let mut all = Vec::with_capacity(count);
    for _ in 0..count {
        let (mut last, mut own) = (0, 0);
        while let Some(field) = thrift.field(&mut last)? {
            match field {
                (5, Kind::Integer) => own = thrift.size()?,
                (_, kind) => thrift.skip(kind)?,
            }
        }
        all.push(own);
    }
    Ok(all)
}

fn check_schema(children: &[usize]) -> Result<(), Trouble> {
    // Of each group that is open, how many of its children are to come.
    let mut open: Vec<usize> = Vec::new();
    for &own in children {
        while open.last() == Some(&0) {
            open.pop();
        }
        if let Some(left) = open.last_mut() {
            *left -= 1;
        }
        if own > children.len() {
            return Err(Trouble::Damaged("its footer names more columns than it describes".into()));
        }
        if own > 0 {
            open.push(own);
        }
        if open.len() > NESTING_MAX {
            let problem = format!("is Parquet whose columns nest deeper than {NESTING_MAX} levels");
            return Err(Trouble::Refused { problem, hint: "write the inner ones as JSON".into() });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_of_a_dictionary_is_read() {
        // Type 2, 100 bytes that become 200, a checksum of -1, and a dictionary of 5 values in PLAIN.
        let bytes = [0x15, 4, 0x15, 0x90, 3, 0x15, 0xc8, 1, 0x15, 1, 0x3c, 0x15, 10, 0x15, 0, 0x11, 0, 0, 99];
        let (header, length) = header(&bytes).unwrap();
        assert_eq!(length, bytes.len() - 1);
        let page = PageHeader::Dictionary { values: 5, encoding: Encoding::PLAIN, is_sorted: true };
        assert_eq!(header, Header { page, opened_bytes: 200, bytes: 100, checksum: Some(u32::MAX) });
    }

    #[test]
    fn a_header_that_ends_early_is_no_broken_one() {
        let bytes = [0x15, 4, 0x15, 0x90, 3, 0x15, 0xc8, 1, 0x4c, 0x15, 10, 0x15, 0, 0, 0];
        for end in 0..bytes.len() {
            assert_eq!(header(&bytes[..end]), Err(Fault::Short), "{end}");
        }
        assert_eq!(header(&[0x15, 4, 0x15, 1, 0]), Err(Fault::Broken), "a size below zero");
    }

    #[test]
    fn a_schema_too_deep_or_too_wide_is_refused() {
        assert!(check_schema(&[2, 1, 0, 0]).is_ok());
        assert!(matches!(check_schema(&[1; 1000]), Err(Trouble::Refused { .. })));
        assert!(matches!(check_schema(&[1_000_000, 0]), Err(Trouble::Damaged(_))));
    }
}
