//! The two sides of an experiment about a change.

use crate::limits::CHECKPOINT_SECONDS;
use millstream_model::Change;

/// What an experiment of the lab sets, as lines of its file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sides {
    /// In both arms.
    pub both: String,
    /// In the arm that is as it is now.
    pub now: String,
    /// In the arm with the change.
    pub changed: String,
    /// The present value.
    pub value: String,
    /// How long a run must be to show the change, if the usual time is too short.
    pub seconds: Option<u32>,
    /// The server of the lab starts again between the arms.
    pub restarts: bool,
}

impl Sides {
    /// Two arms that differ in one line, which `line` makes of a value.
    pub fn of(change: &Change, value: &str, line: impl Fn(&str) -> String) -> Self {
        let proposed = change.value.as_deref().unwrap_or_default();
        Self { now: line(value), changed: line(proposed), value: value.to_owned(), ..Self::default() }
    }

    /// The same with checkpoints. A run begins right after one, and during a short run no other one would begin.
    #[must_use]
    pub fn with_checkpoints(self) -> Self {
        let every = Self::entry("settings", "checkpoint_timeout", &format!("{CHECKPOINT_SECONDS}s"));
        Self { both: self.both + &every, seconds: Some(Self::seconds_of_two(CHECKPOINT_SECONDS)), ..self }
    }

    /// The length of a run in which two checkpoints begin, one each so many seconds.
    pub fn seconds_of_two(seconds: u32) -> u32 {
        2 * seconds + 2
    }

    /// A table of the file with one entry.
    pub fn entry(table: &str, name: &str, value: &str) -> String {
        // Strings of TOML are written as those of JSON.
        let text = |value: &str| serde_json::Value::String(value.to_owned()).to_string();
        format!("{table} = {{ {} = {} }}\n", text(name), text(value))
    }
}
