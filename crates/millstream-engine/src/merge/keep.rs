//! `keep`: a stored document stays; only new keys are written.

use super::Kind;

pub(super) static KIND: Kind = Kind {
    name: "keep",
    about: "a stored document stays; the first of a new key is written",
    fold: |_, members| (members[0].document.into(), 0),
    first_stays: true,
    left: Some(|counters| &mut counters.kept),
    ..Kind::PLAIN
};
