//! Thrift's compact protocol, as far as Parquet's headers need it.
//!
//! Pages are opened here and not by the crate `parquet`, because it believes the sizes that a header names.

use crate::limits::NESTING_MAX;

/// Why bytes cannot be read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// They end too early.
    Short,
    /// They are no such header.
    Broken,
}

/// What a field holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    True,
    False,
    Byte,
    Integer,
    Double,
    Binary,
    List,
    Map,
    Struct,
}

impl Kind {
    fn of(code: u8) -> Result<Self, Fault> {
        Ok(match code {
            1 => Self::True,
            2 => Self::False,
            3 => Self::Byte,
            4..=6 => Self::Integer,
            7 => Self::Double,
            8 => Self::Binary,
            9 | 10 => Self::List,
            11 => Self::Map,
            12 => Self::Struct,
            _ => return Err(Fault::Broken),
        })
    }
}

/// Bytes that are read from the front.
pub(super) struct Thrift<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Thrift<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Bytes that were read.
    pub(super) fn passed(&self) -> usize {
        self.at
    }

    fn byte(&mut self) -> Result<u8, Fault> {
        let byte = self.bytes.get(self.at).ok_or(Fault::Short)?;
        self.at += 1;
        Ok(*byte)
    }

    /// A number without a sign, of as many bytes as it needs.
    pub(super) fn unsigned(&mut self) -> Result<u64, Fault> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Fault::Broken)
    }

    /// A whole number.
    pub(super) fn integer(&mut self) -> Result<i64, Fault> {
        let value = self.unsigned()?;
        Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    /// A whole number that is not negative.
    pub(super) fn size(&mut self) -> Result<usize, Fault> {
        usize::try_from(self.integer()?).map_err(|_| Fault::Broken)
    }

    /// The next field of a struct: its number and what it holds. `last` is the number of the one before, 0 at first.
    /// `None`: the struct ends.
    pub(super) fn field(&mut self, last: &mut i64) -> Result<Option<(i64, Kind)>, Fault> {
        let head = self.byte()?;
        if head == 0 {
            return Ok(None);
        }
        let step = i64::from(head >> 4);
        let id = if step == 0 { self.integer()? } else { last.saturating_add(step) };
        *last = id;
        Ok(Some((id, Kind::of(head & 0x0f)?)))
    }

    /// The head of a list: how many items it has and of what kind.
    pub(super) fn list(&mut self) -> Result<(usize, Kind), Fault> {
        let head = self.byte()?;
        let count = match head >> 4 {
            15 => usize::try_from(self.unsigned()?).map_err(|_| Fault::Broken)?,
            count => usize::from(count),
        };
        // An item has one byte at least, also a truth value within a list.
        if count > self.bytes.len() - self.at {
            return Err(Fault::Short);
        }
        Ok((count, Kind::of(head & 0x0f)?))
    }

    fn pass(&mut self, count: usize) -> Result<(), Fault> {
        if count > self.bytes.len() - self.at {
            return Err(Fault::Short);
        }
        self.at += count;
        Ok(())
    }

    /// Passes what a field holds.
    pub(super) fn skip(&mut self, kind: Kind) -> Result<(), Fault> {
        self.skip_within(kind, NESTING_MAX, false)
    }

    fn skip_within(&mut self, kind: Kind, levels: usize, in_list: bool) -> Result<(), Fault> {
        let levels = levels.checked_sub(1).ok_or(Fault::Broken)?;
        match kind {
            Kind::True | Kind::False if in_list => self.pass(1),
            Kind::True | Kind::False => Ok(()),
            Kind::Byte => self.pass(1),
            Kind::Integer => self.unsigned().map(drop),
            Kind::Double => self.pass(8),
            Kind::Binary => {
                let length = usize::try_from(self.unsigned()?).map_err(|_| Fault::Broken)?;
                self.pass(length)
            }
            Kind::List => {
                let (count, item) = self.list()?;
                (0..count).try_for_each(|_| self.skip_within(item, levels, true))
            }
            Kind::Map => {
                let count = self.unsigned()?;
                if count == 0 {
                    return Ok(());
                }
                let kinds = self.byte()?;
                let (key, value) = (Kind::of(kinds >> 4)?, Kind::of(kinds & 0x0f)?);
                (0..count).try_for_each(|_| {
                    self.skip_within(key, levels, true)?;
                    self.skip_within(value, levels, true)
                })
            }
            Kind::Struct => {
                let mut last = 0;
                while let Some((_, kind)) = self.field(&mut last)? {
                    self.skip_within(kind, levels, false)?;
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_fields_are_read() {
        // Field 1 is an i32, field 3 true, field 20 a string, field 21 a list of two i32.
        let bytes = [0x15, 0x03, 0x21, 0x08, 0x28, 2, b'h', b'i', 0x19, 0x25, 2, 4, 0];
        let mut thrift = Thrift::new(&bytes);
        let mut last = 0;
        assert_eq!(thrift.field(&mut last), Ok(Some((1, Kind::Integer))));
        assert_eq!(thrift.integer(), Ok(-2));
        assert_eq!(thrift.field(&mut last), Ok(Some((3, Kind::True))));
        assert_eq!(thrift.field(&mut last), Ok(Some((20, Kind::Binary))));
        assert_eq!(thrift.skip(Kind::Binary), Ok(()));
        assert_eq!(thrift.field(&mut last), Ok(Some((21, Kind::List))));
        assert_eq!(thrift.list(), Ok((2, Kind::Integer)));
        assert_eq!((thrift.size(), thrift.size()), (Ok(1), Ok(2)));
        assert_eq!(thrift.field(&mut last), Ok(None));
        assert_eq!(thrift.passed(), bytes.len());
    }

    #[test]
    fn what_ends_early_or_nests_too_deep_is_refused() {
        assert_eq!(Thrift::new(&[0x80]).integer(), Err(Fault::Short));
        assert_eq!(Thrift::new(&[0xff; 20]).integer(), Err(Fault::Broken));
        assert_eq!(Thrift::new(&[0xf5, 0xff, 0xff, 0x7f]).list(), Err(Fault::Short));
        assert_eq!(Thrift::new(&[0x1c; 1000]).skip(Kind::Struct), Err(Fault::Broken));
        assert_eq!(Thrift::new(&[9]).skip(Kind::Binary), Err(Fault::Short));
    }
}
