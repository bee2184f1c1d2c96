//! How many lengths a page names. The crate `parquet` makes room for as many before it looks whether the page has them.
//!
//! The encodings are described in Parquet's `Encodings.md`: "Delta-length byte array" and "Delta Strings".

use super::thrift::{Fault, Thrift};
use parquet::basic::Encoding;

/// Whether texts of this encoding have their lengths apart.
pub(super) fn is_packed(encoding: Encoding) -> bool {
    matches!(encoding, Encoding::DELTA_LENGTH_BYTE_ARRAY | Encoding::DELTA_BYTE_ARRAY)
}

/// Checks that the texts of a page name no more lengths than the page has values. `data` begins behind the levels.
///
/// # Errors
/// They name more, or the lengths are broken.
pub(super) fn check(encoding: Encoding, data: &[u8], values: u32) -> Result<(), Fault> {
    match encoding {
        Encoding::DELTA_LENGTH_BYTE_ARRAY => Lengths::of(data, values).map(drop),
        Encoding::DELTA_BYTE_ARRAY => {
            // First the lengths of what a text shares with the one before it, then those of the rest.
            let shared = Lengths::of(data, values)?.pass()?;
            Lengths::of(data.get(shared..).ok_or(Fault::Short)?, values).map(drop)
        }
        _ => Ok(()),
    }
}

/// Whole numbers as `DELTA_BINARY_PACKED` has them: a first one, then blocks of differences, each cut into small blocks whose
/// numbers have a width of their own.
struct Lengths<'a> {
    data: &'a [u8],
    /// Bytes of `data` that were looked at.
    passed: usize,
    numbers_left: u64,
    small_blocks: u64,
    numbers_of_small_block: u64,
}

impl<'a> Lengths<'a> {
    /// Reads the header.
    fn of(data: &'a [u8], values: u32) -> Result<Self, Fault> {
        let mut header = Thrift::new(data);
        let (numbers_of_block, small_blocks, numbers) = (header.unsigned()?, header.unsigned()?, header.unsigned()?);
        let _first = header.unsigned()?;
        let numbers_of_small_block = numbers_of_block.checked_div(small_blocks).ok_or(Fault::Broken)?;
        if numbers > u64::from(values) || !numbers_of_small_block.is_multiple_of(32) || numbers_of_small_block == 0 {
            return Err(Fault::Broken);
        }
        let numbers_left = numbers.saturating_sub(1);
        Ok(Self { data, passed: header.passed(), numbers_left, small_blocks, numbers_of_small_block })
    }

    /// Passes all blocks. Returns where they end.
    fn pass(mut self) -> Result<usize, Fault> {
        while self.numbers_left > 0 {
            let rest = self.data.get(self.passed..).ok_or(Fault::Short)?;
            let mut block = Thrift::new(rest);
            let _least = block.unsigned()?;
            let small_blocks = usize::try_from(self.small_blocks).map_err(|_| Fault::Broken)?;
            let widths = rest.get(block.passed()..).and_then(|rest| rest.get(..small_blocks)).ok_or(Fault::Short)?;
            self.passed += block.passed() + small_blocks;
            for width in widths {
                // The widths of small blocks without a number mean nothing.
                if self.numbers_left == 0 {
                    break;
                }
                let bytes = u64::from(*width).checked_mul(self.numbers_of_small_block / 8).ok_or(Fault::Broken)?;
                let bytes = usize::try_from(bytes).map_err(|_| Fault::Broken)?;
                self.passed = self.passed.checked_add(bytes).ok_or(Fault::Broken)?;
                self.numbers_left = self.numbers_left.saturating_sub(self.numbers_of_small_block);
            }
        }
        Ok(self.passed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A header, and what follows it.
    fn packed(numbers: u64, blocks: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0x80, 0x01, 4];
        let mut rest = numbers;
        while rest > 0x7f {
            bytes.push(0x80 | u8::try_from(rest & 0x7f).unwrap());
            rest >>= 7;
        }
        bytes.push(u8::try_from(rest).unwrap());
        bytes.push(0);
        [bytes, blocks.to_vec()].concat()
    }

    /// A block of 128 numbers, the first 32 with one bit each, and nothing else.
    fn block() -> Vec<u8> {
        [vec![0, 1, 0, 0, 0], vec![0xff; 4]].concat()
    }

    #[test]
    fn a_page_names_no_more_lengths_than_it_has_values() {
        let encodings = [Encoding::DELTA_LENGTH_BYTE_ARRAY, Encoding::DELTA_BYTE_ARRAY];
        for (numbers, fits) in [(0, true), (1, true), (3, true), (4, false), ((1 << 52) - 1, false), (u64::MAX, false)]
        {
            let blocks = if numbers > 1 { block() } else { Vec::new() };
            let lengths = packed(numbers, &blocks);
            let both = [lengths.clone(), lengths.clone()].concat();
            let behind = [packed(0, &[]), lengths.clone()].concat();
            for (encoding, data) in encodings.into_iter().zip([&lengths, &both]) {
                assert_eq!(check(encoding, data, 3).is_ok(), fits, "{encoding} {numbers}");
            }
            assert_eq!(check(Encoding::DELTA_BYTE_ARRAY, &behind, 3).is_ok(), fits, "{numbers}");
            assert!(check(Encoding::PLAIN, &lengths, 3).is_ok());
        }
    }

    #[test]
    fn blocks_are_passed_as_long_as_they_are() {
        // The widths behind the last number may be anything.
        let widths = [vec![0, 1, 0, 0xff, 0xff], vec![0; 4]].concat();
        let more = [block(), block()].concat();
        for (numbers, blocks, length) in
            [(0, vec![], 0), (1, vec![], 0), (65, widths, 9), (129, block(), 9), (130, more, 18)]
        {
            let bytes = packed(numbers, &[blocks, vec![7; 3]].concat());
            let header = bytes.len() - length - 3;
            let passed = Lengths::of(&bytes, 1_000).unwrap().pass().unwrap();
            assert_eq!(passed, header + length, "{numbers}");
        }
        let bytes = packed(200, &block());
        assert_eq!(Lengths::of(&bytes, 1_000).unwrap().pass(), Err(Fault::Short));
        for bytes in [[0x80, 0x01, 0, 0, 0], [0x80, 0x01, 5, 0, 0], [0, 4, 0, 0, 0]] {
            assert!(check(Encoding::DELTA_LENGTH_BYTE_ARRAY, &bytes, 9).is_err(), "{bytes:?}");
        }
    }
}
