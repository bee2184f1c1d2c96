//! Where a load puts its documents: into the collection's table, or into segments behind it.

/// A place for the documents of a load.
#[derive(Debug, PartialEq, Eq)]
pub struct Layout {
    /// The name on the command line, in the load's record and in the receipt.
    pub name: &'static str,
    /// One line for the help text.
    pub about: &'static str,
    /// Whether documents are appended to segments, which a compaction merges into the table.
    pub(crate) appends: bool,
}

static TABLE: Layout =
    Layout { name: "table", about: "documents go straight into the collection's table", appends: false };

static LOG: Layout = Layout {
    name: "log",
    about: "documents are appended without looking up keys; `millstream compact` merges them into the table later",
    appends: true,
};

/// Every layout, the default first.
pub static LAYOUTS: &[&Layout] = &[&TABLE, &LOG];

impl Layout {
    /// The layout of that name.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        LAYOUTS.iter().copied().find(|layout| layout.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique() {
        let names: std::collections::BTreeSet<_> = LAYOUTS.iter().map(|layout| layout.name).collect();
        assert_eq!(names.len(), LAYOUTS.len());
        for layout in LAYOUTS {
            assert_eq!(Layout::by_name(layout.name), Some(*layout));
        }
        assert_eq!(Layout::by_name("heap"), None);
    }
}
