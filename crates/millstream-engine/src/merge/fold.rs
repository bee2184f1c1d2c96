//! Folds the documents of a key into one, for every mode.

use super::{Member, Mode};
use std::borrow::Cow;

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

impl Mode {
    /// What the documents of a key, oldest first, do together to the stored one.
    ///
    /// Folding all documents of a key and applying the result equals applying them one after another. This holds for
    /// members that `Mode::cuts` does not separate, and for all members if nothing is stored.
    ///
    /// # Panics
    /// Without members.
    pub fn fold<'d>(&self, members: &[Member<'d>]) -> Folded<'d> {
        // A tombstone ends what came before it. Versions decide for themselves.
        let last = if self.kind.versioned { None } else { members.iter().rposition(|member| member.tombstone) };
        let counted = match last {
            None => members,
            Some(last) if last + 1 == members.len() => &members[last..],
            Some(last) => &members[last + 1..],
        };
        let (document, place) = match counted {
            [only] => (only.document.into(), 0),
            _ => (self.kind.fold)(self, counted),
        };
        let effect = match last {
            _ if counted[place].tombstone => Effect::Delete,
            Some(_) => Effect::Reset,
            None => Effect::Merge,
        };
        Folded { effect, document, version: counted[place].version }
    }

    /// Counts the members of a key that came too late: those older than one before them (stale), and those after one
    /// that stays (kept).
    pub(crate) fn count_skipped(&self, members: &[Member<'_>]) -> (u64, u64) {
        if self.kind.versioned {
            let mut newest: &[u8] = &[];
            let stale = members.iter().filter(|member| {
                let stale = member.version < newest;
                newest = newest.max(member.version);
                stale
            });
            return (stale.count() as u64, 0);
        }
        if !self.kind.first_stays {
            return (0, 0);
        }
        let puts = members.iter().rev().take_while(|m| !m.tombstone).count() as u64;
        (0, puts.saturating_sub(1))
    }
}
