//! The durability of a subject's commits.

use serde::{Deserialize, Serialize};

/// Which acknowledged documents survive a crash of the server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// All of them: the server's own setting is not changed.
    #[default]
    Durable,
    /// All but those of the last moments (`synchronous_commit` is off in the subject's sessions).
    Async,
    /// None: the table is unlogged.
    Unlogged,
}

/// Every durability, the strictest first.
const DURABILITIES: &[Durability] = &[Durability::Durable, Durability::Async, Durability::Unlogged];

impl Durability {
    /// Its name, as `millstream load --durability` knows it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Durable => "durable",
            Self::Async => "async",
            Self::Unlogged => "unlogged",
        }
    }

    /// The durability of that name.
    pub(crate) fn by_name(name: &str) -> Option<Self> {
        DURABILITIES.iter().copied().find(|one| one.name() == name)
    }
}

/// A suffix that names durability and network; the defaults are left out.
pub(crate) fn mark(durability: Durability, round_trip_ms: Option<u32>) -> String {
    let durability =
        if durability == Durability::default() { String::new() } else { format!(", {}", durability.name()) };
    let network = round_trip_ms.map_or_else(String::new, |ms| format!(", {ms} ms"));
    durability + &network
}
