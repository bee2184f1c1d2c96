//! The two sides of an experiment about a change.

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
    /// The server of the lab starts again between the arms.
    pub restarts: bool,
}

impl Sides {
    /// Two arms that differ in one line, which `line` makes of a value.
    pub fn of(change: &Change, value: &str, line: impl Fn(&str) -> String) -> Self {
        let proposed = change.value.as_deref().unwrap_or_default();
        Self { now: line(value), changed: line(proposed), value: value.to_owned(), ..Self::default() }
    }

    /// A table of the file with one entry.
    pub fn entry(table: &str, name: &str, value: &str) -> String {
        // Strings of TOML are written as those of JSON.
        let text = |value: &str| serde_json::Value::String(value.to_owned()).to_string();
        format!("{table} = {{ {} = {} }}\n", text(name), text(value))
    }
}
