//! The durability of a subject's commits.

use serde::{Deserialize, Serialize};

/// Which acknowledged documents survive a crash of the server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// All of them: the server's own setting is not changed. A record that names no durability means this one.
    #[default]
    Durable,
    /// All but those of the last moments (`synchronous_commit` is off in the subject's sessions).
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

    /// Whether it is the default, which records do not name.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// A suffix that names durability and network; the defaults are left out.
pub(crate) fn mark(durability: Durability, round_trip_ms: Option<u32>) -> String {
    let durability = if durability.is_default() { String::new() } else { format!(", {}", durability.name()) };
    let network = round_trip_ms.map_or_else(String::new, |ms| format!(", {ms} ms"));
    durability + &network
}
