//! Folds the documents of a key into one, for every mode.

use super::{Mode, ModeKind};
use std::borrow::Cow;

/// A document of a key.
#[derive(Debug, Clone, Copy)]
pub struct Member<'d> {
    /// The JSON text of an object.
    pub document: &'d [u8],
    /// Canonical bytes of its version, which have the order of the versions. Empty if the mode compares no versions.
    pub version: &'d [u8],
    /// Whether it deletes.
    pub tombstone: bool,
}

/// What the documents of a key do together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folded<'d> {
    /// What becomes of the stored document.
    pub effect: Effect,
    /// What is sent: for [`Effect::Delete`] the tombstone.
    pub document: Cow<'d, [u8]>,
    /// The document's version.
    pub version: &'d [u8],
}

/// What becomes of the stored document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The mode merges the new document into it.
    Merge,
    /// It is deleted first, so that the new document takes its place.
    Reset,
    /// It is deleted.
    Delete,
}

/// See [`Mode::fold`].
pub(super) fn fold<'d>(mode: &Mode, kind: &ModeKind, members: &[Member<'d>]) -> Folded<'d> {
    let puts = members.iter().rposition(|m| m.tombstone).map_or(0, |last| last + 1);
    if kind.versioned || puts == 0 {
        let (document, version, tombstone) = match members {
            [only] => (Cow::Borrowed(only.document), only.version, only.tombstone),
            _ => {
                let (document, place) = (kind.fold)(mode, members);
                (document, members[place].version, members[place].tombstone)
            }
        };
        return Folded { effect: if tombstone { Effect::Delete } else { Effect::Merge }, document, version };
    }
    let Some(first) = members.get(puts) else {
        let tombstone = &members[puts - 1];
        return Folded { effect: Effect::Delete, document: tombstone.document.into(), version: tombstone.version };
    };
    let (document, _) = (kind.fold)(mode, &members[puts..]);
    Folded { effect: Effect::Reset, document, version: first.version }
}

/// See [`Mode::count_skipped`].
pub(super) fn count_skipped(kind: &ModeKind, members: &[Member<'_>]) -> (u64, u64) {
    if kind.versioned {
        let mut newest: &[u8] = &[];
        let stale = members.iter().filter(|member| {
            let stale = member.version < newest;
            newest = newest.max(member.version);
            stale
        });
        return (stale.count() as u64, 0);
    }
    if !kind.first_stays {
        return (0, 0);
    }
    let puts = members.iter().rev().take_while(|m| !m.tombstone).count() as u64;
    (0, puts.saturating_sub(1))
}
