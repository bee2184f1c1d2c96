//! Paths, ready to be compared with member names.

use super::text;
use millstream_model::limits::KEY_COLUMNS_MAX;

/// Paths that one pass looks for: those of a key, of a version and of what makes a tombstone.
pub(super) const PATHS_MAX: usize = KEY_COLUMNS_MAX + 2;

const _: () = assert!(PATHS_MAX <= u16::BITS as usize, "a set of paths is the bits of a mask");

/// A set of key columns, by their index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mask(u16);

impl Mask {
    pub(super) const NONE: Self = Self(0);

    #[inline(always)]
    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    #[inline(always)]
    pub(super) fn columns(self) -> impl Iterator<Item = usize> + Clone {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let column = rest.trailing_zeros() as usize;
            (rest != 0).then(|| {
                rest &= rest - 1;
                column
            })
        })
    }

    #[inline(always)]
    pub(super) fn filter(self, mut keep: impl FnMut(usize) -> bool) -> Self {
        let kept = self.columns().filter(|&column| keep(column));
        Self(kept.fold(0, |mask, column| mask | 1 << column))
    }
}

/// Paths that one pass over a document looks for: those of columns, and others.
#[derive(Debug, Clone)]
pub(crate) struct Columns {
    paths: Vec<Vec<Segment>>,
}

#[derive(Debug, Clone)]
struct Segment {
    name: Box<[u8]>,
    /// The array element that the segment names, if it names one.
    index: Option<i32>,
}

impl Columns {
    /// Takes at most [`PATHS_MAX`] paths, none of them empty.
    pub(crate) fn new<'p>(paths: impl Iterator<Item = &'p [String]>) -> Self {
        let segment = |name: &String| Segment { name: name.as_bytes().into(), index: array_index(name) };
        let paths: Vec<Vec<Segment>> = paths.map(|path| path.iter().map(segment).collect()).collect();
        assert!(
            paths.len() <= PATHS_MAX && paths.iter().all(|path| !path.is_empty()),
            "a key was checked when it was parsed"
        );
        Self { paths }
    }

    pub(super) fn all(&self) -> Mask {
        Mask((0..self.paths.len()).fold(0, |mask, column| mask | 1 << column))
    }

    #[inline(always)]
    pub(super) fn ends_at(&self, column: usize, depth: usize) -> bool {
        self.paths[column].len() == depth
    }

    pub(super) fn index(&self, column: usize, depth: usize) -> Option<i32> {
        self.paths[column][depth].index
    }

    /// The paths of `open` that continue with a member of this name, as written in the document.
    #[inline(always)]
    pub(super) fn with_member(&self, open: Mask, depth: usize, name: &[u8], escaped: bool) -> Mask {
        if escaped {
            return self.with_escaped_member(open, depth, name);
        }
        open.filter(|column| *self.paths[column][depth].name == *name)
    }

    #[cold]
    fn with_escaped_member(&self, open: Mask, depth: usize, name: &[u8]) -> Mask {
        let mut plain = Vec::with_capacity(name.len());
        text::put_unescaped(name, &mut plain);
        self.with_member(open, depth, &plain, false)
    }
}

/// The array element that a path segment names for `#>>`, which reads it with `strtol`: leading white space and a sign
/// are allowed, and negative numbers count from the array's end.
fn array_index(segment: &str) -> Option<i32> {
    let number = segment.trim_start_matches([' ', '\t', '\n', '\u{b}', '\u{c}', '\r']);
    number.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_iterate_and_filter_columns() {
        let mask = Mask(0b1010_0001);
        assert_eq!(mask.columns().collect::<Vec<_>>(), [0, 5, 7]);
        assert_eq!(mask.filter(|column| column > 4), Mask(0b1010_0000));
        assert!(Mask::NONE.is_empty() && Mask::NONE.columns().next().is_none());
    }

    #[test]
    fn array_indexes_are_read_like_strtol() {
        for (segment, index) in [
            ("0", Some(0)),
            ("-1", Some(-1)),
            ("+2", Some(2)),
            (" \t\n\u{b}\u{c}\r07", Some(7)),
            ("-0", Some(0)),
            ("2147483647", Some(i32::MAX)),
            ("2147483648", None),
            ("1 ", None),
            ("", None),
            ("+", None),
            ("- 1", None),
            ("\u{a0}1", None),
            ("1.0", None),
        ] {
            assert_eq!(array_index(segment), index, "{segment:?}");
        }
    }
}
