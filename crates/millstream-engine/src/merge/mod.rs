//! What a new document does to a stored one: one file per mode.

mod between;
mod deep;
mod error;
mod fold;
mod folding;
mod keep;
mod member;
mod mode;
mod newest;
mod replace;
mod shallow;
mod sum;
mod tombstone;
mod version;

pub(crate) use between::Between;
pub use error::ModeError;
pub use fold::{Effect, Folded};
pub(crate) use folding::Folding;
pub use member::Member;
pub use mode::Mode;
pub use tombstone::Tombstone;

use millstream_model::KeyRequest;
use millstream_store::Schema;
use std::borrow::Cow;

/// Folds documents of a key into one. Also returns the index of the document whose version it has.
type Fold = for<'d> fn(&Mode, &[Member<'d>]) -> (Cow<'d, [u8]>, usize);

/// Places before which a fold must end.
type Cuts = fn(&[Member<'_>]) -> Vec<usize>;

/// What replaces a stored document, as SQL over a new and an old one, with the functions of our schema.
type Set = fn(&Mode, &Schema, &str, &str) -> String;

/// A merge mode without its arguments: its name, and how documents are folded, written and counted.
#[derive(Debug)]
pub struct ModeKind {
    /// The name on the command line and in the receipt.
    pub name: &'static str,
    /// What follows the name on the command line, such as `:PATH[:TYPE]`.
    pub arguments: &'static str,
    /// One line for the help text.
    pub about: &'static str,
    /// Whether the arguments fit the mode; the error is the end of a sentence.
    accept: fn(&[KeyRequest]) -> Result<(), String>,
    /// Folds several documents of a key, oldest first. None of them is a tombstone, unless the mode is versioned.
    fold: Fold,
    /// `None` if a fold never ends before its last document.
    cuts: Option<Cuts>,
    /// What replaces a stored document; `None` if it stays.
    set: Option<Set>,
    /// The condition under which it is replaced, as SQL; `None` if there is none.
    condition: Option<fn(&Mode, &str, &str) -> String>,
    /// The rows that folding leaves out, for a mode that combines documents.
    between: Option<fn(&Mode, &Schema) -> Between>,
    /// Whether the first document of a key stays, also if it is stored. The others count as kept.
    first_stays: bool,
    /// Whether versions are compared. Documents older than the stored one count as stale.
    versioned: bool,
    /// Whether every stored row is an unchanged document.
    stores_documents: bool,
    /// Whether the numbers at the mode's paths are added up, so that loading the same documents again would count them
    /// twice.
    adds_up: bool,
}

impl ModeKind {
    /// What most modes have in common.
    const PLAIN: Self = Self {
        name: "",
        arguments: "",
        about: "",
        accept: |_| Ok(()),
        fold: |_, members| (members[0].document.into(), 0),
        cuts: None,
        set: None,
        condition: None,
        between: None,
        first_stays: false,
        versioned: false,
        stores_documents: true,
        adds_up: false,
    };
}

/// What a write did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Written {
    /// Documents folded into the keys.
    pub(crate) documents: u64,
    /// Keys sent.
    pub(crate) keys: u64,
    /// Keys that were new.
    pub(crate) inserted: u64,
    /// Keys whose stored document was written.
    pub(crate) updated: u64,
    /// Keys whose stored document equals the new one and was not written, and keys to be deleted that were absent.
    pub(crate) unchanged: u64,
    /// Keys whose stored document was deleted.
    pub(crate) deleted: u64,
    /// Documents folded away because an older one of the batch has a greater version.
    pub(crate) stale: u64,
    /// Documents folded away because an older one of the batch stays.
    pub(crate) kept: u64,
}

impl Written {
    /// Keys whose result is known. Of the others, the mode kept the stored document.
    pub(crate) fn done(&self) -> u64 {
        self.inserted + self.updated + self.unchanged + self.deleted
    }
}

impl std::ops::AddAssign for Written {
    fn add_assign(&mut self, other: Self) {
        let Self { documents, keys, inserted, updated, unchanged, deleted, stale, kept } = other;
        self.documents += documents;
        self.keys += keys;
        self.inserted += inserted;
        self.updated += updated;
        self.unchanged += unchanged;
        self.deleted += deleted;
        self.stale += stale;
        self.kept += kept;
    }
}

/// Every merge mode, in the order of the help text.
pub static MODES: &[&ModeKind] = &[&replace::KIND, &keep::KIND, &shallow::KIND, &deep::KIND, &newest::KIND, &sum::KIND];

/// Every mode as it is typed, with commas.
fn names() -> String {
    MODES.iter().map(|kind| format!("{}{}", kind.name, kind.arguments)).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
