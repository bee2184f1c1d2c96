//! The two hashes that copies know: BLAKE3, and SHA-256 for whoever knows no other.

use crate::entry::Hash;
use sha2::{Digest, Sha256};

/// Which hash is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hashing {
    /// The usual one, which is fast.
    Blake3,
    /// The one that PostgreSQL and `sha256sum` compute.
    Sha256,
}

impl Hashing {
    /// Its name in the notes of a copy.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Blake3 => "BLAKE3",
            Self::Sha256 => "SHA-256",
        }
    }

    /// Whether the hash of a file can be put together from those of its pieces.
    pub(crate) fn takes_pieces(self) -> bool {
        self == Self::Blake3
    }
}

/// Hashes bytes.
pub(crate) enum Hasher {
    Blake3(Box<blake3::Hasher>),
    Sha256(Box<Sha256>),
}

impl Hasher {
    pub(crate) fn new(hashing: Hashing) -> Self {
        match hashing {
            Hashing::Blake3 => Self::Blake3(Box::default()),
            Hashing::Sha256 => Self::Sha256(Box::default()),
        }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Blake3(hasher) => drop(hasher.update(bytes)),
            Self::Sha256(hasher) => hasher.update(bytes),
        }
    }

    pub(crate) fn finish(self) -> Hash {
        match self {
            Self::Blake3(hasher) => *hasher.finalize().as_bytes(),
            Self::Sha256(hasher) => hasher.finalize().into(),
        }
    }
}

/// A hash in hex.
pub(crate) fn hex(hash: &[u8]) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_hashes_are_those_that_others_print() {
        let of = |hashing| {
            let mut hasher = Hasher::new(hashing);
            hasher.update(b"ab");
            hasher.update(b"c");
            hex(&hasher.finish())
        };
        assert!(of(Hashing::Sha256).starts_with("ba7816bf8f01cfea"));
        assert!(of(Hashing::Blake3).starts_with("6437b3ac38465133"));
    }
}
