//! `keep`: a stored document stays; only new keys are written.

use super::ModeKind;

pub(super) static KIND: ModeKind = ModeKind {
    name: "keep",
    about: "the new document is dropped if there is a stored one, so the first document of a key stays",
    fold: |_, members| (members[0].document.into(), 0),
    first_stays: true,
    ..ModeKind::PLAIN
};
