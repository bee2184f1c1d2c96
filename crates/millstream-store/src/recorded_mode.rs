//! Reads properties of a load from the text of its recorded mode.

/// The mode that compares versions.
const VERSIONED: &str = "newest";
/// The mode that adds numbers up.
const ADDING: &str = "sum";

fn name(mode: &str) -> Option<&str> {
    mode.split([':', ' ']).next()
}

/// Whether the loads compare versions, and whether they delete.
pub fn compares_versions(mode: &str) -> (bool, bool) {
    (name(mode) == Some(VERSIONED), mode.contains(" --delete-when "))
}

/// Whether running a finished load again would add its documents again.
pub fn adds_up(mode: &str) -> bool {
    name(mode) == Some(ADDING)
}
