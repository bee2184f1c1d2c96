//! `replace`: the new document takes the place of the old one.

use super::ModeKind;

pub(super) static KIND: ModeKind = ModeKind {
    name: "replace",
    about: "the new document replaces the stored one, so the last document of a key wins",
    fold: |_, members| (members[members.len() - 1].document.into(), members.len() - 1),
    set: Some(|_, _, new, _| new.to_owned()),
    ..ModeKind::PLAIN
};
