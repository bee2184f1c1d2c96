//! A mode as CONTRIBUTING.md says to write one: the last document of a key is stored.

use crate::merge::ModeKind;

pub(super) static KIND: ModeKind = ModeKind {
    name: "last",
    about: "the new document replaces the stored one",
    fold: |_, members| (members[members.len() - 1].document.into(), members.len() - 1),
    set: Some(|_, _, new, _| new.to_owned()),
    ..ModeKind::PLAIN
};
