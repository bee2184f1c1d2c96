//! What a subject's commits promise.

use serde::{Deserialize, Serialize};

/// What is left of acknowledged documents after a crash of the server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// All of them: the server's own setting is left alone. The only one of records that do not name any.
    #[default]
    Durable,
    /// All but the last moments' (`synchronous_commit` is off in the subject's sessions).
    Async,
    /// None: the table is unlogged.
    Unlogged,
}

impl Durability {
    /// Its name, as `millstream load --durability` knows it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Durable => "durable",
            Self::Async => "async",
            Self::Unlogged => "unlogged",
        }
    }

    /// Whether it is the one that is not named.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// What tells durabilities and networks apart; the usual ones go without saying.
pub(crate) fn mark(durability: Durability, round_trip_ms: Option<u32>) -> String {
    let durability = if durability.is_default() { String::new() } else { format!(", {}", durability.name()) };
    let network = round_trip_ms.map_or_else(String::new, |ms| format!(", {ms} ms"));
    durability + &network
}
