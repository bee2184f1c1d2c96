//! A data set: what identifies the documents that an experiment loaded.

use serde::{Deserialize, Serialize};

/// How the keys of a data set arrive in its first wave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Keys {
    /// 16 random hexadecimal digits: each insert touches another page of the index.
    Random,
    /// 16 decimal digits, counting up: each insert touches the last page of the index.
    Sequential,
}

/// Every way, in the order of the report.
pub const KEYS: &[Keys] = &[Keys::Random, Keys::Sequential];

/// Documents of one length, with one kind of key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataSet {
    /// Name of the experiment it is for.
    pub experiment: String,
    /// Kind and length, such as `random-150`.
    pub name: String,
    /// How keys arrive.
    pub keys: Keys,
    /// Length of a document in bytes, without newline.
    pub document_bytes: usize,
    /// Number of keys, and so of documents in a wave. Every wave has the same keys.
    pub documents: u64,
    /// Seed of keys, documents and orders.
    pub seed: u64,
    /// Rounds of its subjects; if `None`, those of the record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounds: Option<u32>,
}

impl Keys {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Random => "random",
            Self::Sequential => "sequential",
        }
    }
}

impl DataSet {
    /// Bytes of a wave's file.
    pub fn source_bytes(&self) -> u64 {
        self.documents * (self.document_bytes as u64 + 1)
    }
}
