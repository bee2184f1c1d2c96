//! A merge mode as it is asked for: `NAME[:PATH..]`, and what deletes a document.

use super::{Between, MODES, Member, ModeError, ModeKind, Tombstone, Written};
use millstream_document::decode::Wanted;
use millstream_model::{Counters, KeyRequest, VersionType, VersionTypeError};
use millstream_store::Schema;

/// A merge mode with its arguments.
#[derive(Debug, Clone)]
pub struct Mode {
    pub(super) kind: &'static ModeKind,
    /// Paths of the version or of the numbers to add.
    pub(super) paths: Vec<KeyRequest>,
    /// The type by which versions are compared, if the mode compares them and the type is known.
    version_type: Option<VersionType>,
    tombstone: Option<Tombstone>,
}

impl Mode {
    /// A mode of that kind with these paths.
    pub(super) fn new(kind: &'static ModeKind, paths: Vec<KeyRequest>) -> Self {
        Self { kind, paths, version_type: None, tombstone: None }
    }

    /// The same mode, in which some documents delete what is stored under their key.
    #[must_use]
    pub fn with_tombstone(mut self, tombstone: Option<Tombstone>) -> Self {
        self.tombstone = tombstone;
        self
    }

    /// The mode's name without its arguments.
    pub fn name(&self) -> &'static str {
        self.kind.name
    }

    /// Which documents delete, if any.
    pub fn tombstone(&self) -> Option<&Tombstone> {
        self.tombstone.as_ref()
    }

    /// Path of a document's version, if the mode compares versions.
    pub fn version(&self) -> Option<&KeyRequest> {
        if self.kind.versioned { self.paths.first() } else { None }
    }

    /// The type by which versions are compared; `None` while it is not known.
    pub(crate) fn version_type(&self) -> Option<VersionType> {
        self.version_type
    }

    /// The same mode with this type of its version.
    #[must_use]
    pub(crate) fn with_version_type(mut self, version_type: VersionType) -> Self {
        if self.kind.versioned {
            self.version_type = Some(version_type);
        }
        self
    }

    /// The paths, and the type of a version. Versions can be compared if this text is the same.
    pub(crate) fn paths_text(&self) -> String {
        let mut text = self.paths.iter().map(KeyRequest::path_text).collect::<Vec<_>>().join(",");
        if let Some(version_type) = self.version_type {
            text.push_str(&format!(":{version_type}"));
        }
        text
    }

    /// Whether the mode may keep a key's stored document, and the first of several new ones: `count_skipped` can count
    /// some.
    pub(crate) fn may_keep_stored(&self) -> bool {
        self.kind.versioned || self.kind.first_stays
    }

    /// Whether a document is always stored unchanged, whatever is stored already.
    pub(crate) fn replaces(&self) -> bool {
        self.kind.set.is_some() && self.kind.condition.is_none() && self.kind.stores_documents
    }

    /// Indexes of the members of a key that cannot be folded into those before them.
    pub(crate) fn cuts(&self, members: &[Member<'_>]) -> Vec<usize> {
        self.kind.cuts.map_or_else(Vec::new, |cuts| cuts(members))
    }

    /// Whether `cuts` can return any.
    pub(crate) fn may_cut(&self) -> bool {
        self.kind.cuts.is_some()
    }

    /// Whether every row that a batch stores is one that a document alone would have stored, so that constraints decide
    /// the same.
    pub(crate) fn stores_documents(&self) -> bool {
        self.kind.stores_documents
    }

    /// Whether loading the same documents again would count them twice.
    pub fn adds_up(&self) -> bool {
        self.kind.adds_up
    }

    /// A path at which the mode would change a key: the mode's path and the key's. Only a mode that adds up can do so:
    /// the others store members of the new document, whose key is that of the row.
    pub(crate) fn changed_key(&self, key: &[KeyRequest]) -> Option<(String, String)> {
        let changing = self.paths.iter().filter(|_| self.kind.adds_up);
        let overlap = |a: &KeyRequest, b: &KeyRequest| a.path.starts_with(&b.path) || b.path.starts_with(&a.path);
        changing
            .flat_map(|path| key.iter().map(move |column| (path, column)))
            .find(|(path, column)| overlap(path, column))
            .map(|(path, column)| (path.path_text(), column.path_text()))
    }

    /// What a decoder finds and checks in documents for this mode.
    pub(crate) fn wanted(&self) -> Wanted {
        let added = self.paths.iter().filter(|_| self.kind.adds_up);
        Wanted {
            version: self.version().map(|version| (version.path.clone(), self.version_type.unwrap_or_default())),
            delete_when: self.tombstone().map(|tombstone| (tombstone.path.path.clone(), tombstone.value.clone())),
            sums: added.map(|path| path.path.clone()).collect(),
        }
    }

    /// What replaces a stored document, as SQL over `new` and `old`; `None` if the stored document stays.
    pub(crate) fn set(&self, schema: &Schema, new: &str, old: &str) -> Option<String> {
        self.kind.set.map(|set| set(self, schema, new, old))
    }

    /// The condition under which a stored document is replaced, as SQL over `new` and `old`; `None` if there is none.
    pub(crate) fn condition(&self, new: &str, old: &str) -> Option<String> {
        self.kind.condition.map(|condition| condition(self, new, old))
    }

    /// The rows that folding leaves out; `None` if the mode stores documents unchanged.
    pub(crate) fn between(&self, schema: &Schema) -> Option<Between> {
        self.kind.between.map(|between| between(self, schema))
    }

    /// The counters of a write.
    pub(crate) fn count(&self, written: Written) -> Counters {
        let Written { documents, keys, inserted, updated, unchanged, deleted, stale, kept } = written;
        let mut counters = Counters { inserted, updated, unchanged, deleted, stale, kept, ..Counters::default() };
        counters.superseded = documents - keys - stale - kept;
        if self.may_keep_stored() {
            let counter = if self.kind.versioned { &mut counters.stale } else { &mut counters.kept };
            *counter += keys - written.done();
        }
        counters
    }
}

impl Default for Mode {
    fn default() -> Self {
        Self::new(MODES[0], Vec::new())
    }
}

impl std::str::FromStr for Mode {
    type Err = ModeError;

    /// Reads `NAME[:ARGUMENTS]`.
    fn from_str(text: &str) -> Result<Self, ModeError> {
        let arguments = |kind: &ModeKind| match text.strip_prefix(kind.name) {
            Some("") => Some(""),
            Some(rest) => rest.strip_prefix(':'),
            None => None,
        };
        // The longest name: `merge:deep` is not `merge` with an argument.
        let kind = MODES.iter().filter(|kind| arguments(kind).is_some()).max_by_key(|kind| kind.name.len());
        let kind = kind.ok_or_else(|| ModeError::Name(text.to_owned()))?;
        let wrong = |problem: String| ModeError::Arguments(text.to_owned(), problem);
        let arguments = arguments(kind).unwrap_or_default();
        let (arguments, version_type) = match kind.versioned.then(|| split_type(arguments)).flatten() {
            Some((path, name)) => {
                (path, Some(name.parse().map_err(|error: VersionTypeError| wrong(error.to_string()))?))
            }
            None => (arguments, None),
        };
        let paths = match (kind.arguments.is_empty(), arguments.is_empty()) {
            (true, true) => Vec::new(),
            (true, false) => return Err(wrong(format!("{} takes no arguments", kind.name))),
            (false, true) => return Err(wrong(format!("write {}{}", kind.name, kind.arguments))),
            (false, false) => KeyRequest::parse_paths(arguments).map_err(|error| wrong(error.to_string()))?,
        };
        (kind.accept)(&paths).map_err(wrong)?;
        Ok(Self { version_type, ..Self::new(kind, paths) })
    }
}

/// A path and the type after it. A colon with a quote after it is within a name in quotes.
fn split_type(text: &str) -> Option<(&str, &str)> {
    text.rsplit_once(':').filter(|(_, name)| !name.contains('"'))
}

impl std::fmt::Display for Mode {
    /// As the command line takes it, with the type of the version. Loads are recorded and compared by this text, so it
    /// is the same however options are spelled.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.kind.name)?;
        if !self.paths.is_empty() {
            write!(f, ":{}", self.paths_text())?;
        }
        match &self.tombstone {
            Some(tombstone) => write!(f, " --delete-when {tombstone}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_model::KeyType;
    use millstream_store::recorded_mode;

    #[test]
    fn modes_round_trip() {
        for text in [
            "replace",
            "keep",
            "merge",
            "merge:deep",
            "newest:v",
            "newest:meta.v:bigint",
            "newest:/a.b/c:timestamptz",
            "newest:v:numeric",
            "newest:/\"a:b\"/\"c:numeric\"",
            "sum:n",
            "sum:a.n,b.n",
        ] {
            assert_eq!(text.parse::<Mode>().map(|m| m.to_string()), Ok(text.to_owned()));
        }
        let tombstone = "op=d".parse().unwrap();
        let mode: Mode = "newest:v".parse().unwrap();
        let mode = mode.with_tombstone(Some(tombstone)).with_version_type(VersionType(KeyType::Date));
        assert_eq!(mode.to_string(), "newest:v:date --delete-when op=d");
    }

    #[test]
    fn a_mode_says_what_it_wants_of_documents() {
        let wanted = |text: &str| text.parse::<Mode>().unwrap().wanted();
        let path = |name: &str| vec![name.to_owned()];
        for text in ["replace", "keep", "merge", "merge:deep"] {
            assert_eq!(wanted(text), Wanted::default(), "{text}");
        }
        let version = |key_type| Some((path("v"), VersionType(key_type)));
        assert_eq!(wanted("newest:v"), Wanted { version: version(KeyType::Text), ..Wanted::default() });
        assert_eq!(wanted("newest:v:bigint"), Wanted { version: version(KeyType::Bigint), ..Wanted::default() });
        let sums = vec![path("a"), path("b")];
        assert_eq!(wanted("sum:a,b"), Wanted { sums, ..Wanted::default() });
        let deleting = Mode::default().with_tombstone(Some("op=d".parse().unwrap())).wanted();
        assert_eq!(deleting, Wanted { delete_when: Some((path("op"), "d".to_owned())), ..Wanted::default() });
    }

    #[test]
    fn the_store_reads_recorded_modes_correctly() {
        for text in ["replace", "keep", "merge", "merge:deep", "newest:sum", "newest:v:bigint", "sum:n", "sum:newest"] {
            let mode: Mode = text.parse().unwrap();
            for (mode, deletes) in [(mode.clone(), false), (mode.with_tombstone(Some("op=d".parse().unwrap())), true)] {
                let written = mode.to_string();
                assert_eq!(recorded_mode::adds_up(&written), mode.adds_up(), "{mode}");
                assert_eq!(recorded_mode::compares_versions(&written), (mode.kind.versioned, deletes), "{mode}");
            }
        }
    }

    #[test]
    fn mode_errors_list_the_valid_modes() {
        for (text, part) in [
            ("", "\"\" is not a mode: expected replace, keep"),
            ("newer:v", "newest:PATH[:TYPE]"),
            ("keeper", "expected replace"),
            ("replace:x", "replace takes no arguments"),
            ("merge:shallow", "merge takes no arguments"),
            ("newest", "write newest:PATH[:TYPE]"),
            ("newest:", "write newest:PATH[:TYPE]"),
            ("newest:a,b", "one path"),
            ("newest:a:float", "\"float\" is not a type of versions: expected text,"),
            ("newest:a,b:bigint", "one path"),
            ("newest:x=a", "no column"),
            ("sum", "write sum:PATH[,PATH..]"),
            ("sum:a:bigint", "no type"),
            ("sum:a..b", "a segment is empty"),
            ("sum:a,b,a", "twice"),
            ("sum:a.b,a", "lies within"),
        ] {
            let error = text.parse::<Mode>().expect_err(text).to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
