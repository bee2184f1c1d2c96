//! A document of a key, as a mode folds it.

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
