//! The checks: one file each, named after what is wrong, with its manual page beside it.

mod checkpoint_forced;
mod connection_slots;
mod dead_tuples;
mod duplicate_index;
mod durability_off;
mod invalid_index;
mod long_transaction;
mod number;
mod replication_slot;
mod sequence_end;
mod setting_not_in_effect;
mod unused_index;
mod wraparound;

use crate::check::Check;

/// Every check, by its name.
pub const CHECKS: &[Check] = &[
    checkpoint_forced::CHECK,
    connection_slots::CHECK,
    dead_tuples::CHECK,
    duplicate_index::CHECK,
    durability_off::CHECK,
    invalid_index::CHECK,
    long_transaction::CHECK,
    replication_slot::CHECK,
    sequence_end::CHECK,
    setting_not_in_effect::CHECK,
    unused_index::CHECK,
    wraparound::CHECK,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_check_has_a_name_of_its_own_and_a_manual_page() {
        assert!(CHECKS.is_sorted_by(|one, other| one.id < other.id));
        for check in CHECKS {
            assert!(check.id.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{}", check.id);
            assert!(check.manual.starts_with(&format!("# {}\n", check.id)), "{}", check.id);
            for part in ["## What it means", "## How it is found", "## What to do"] {
                assert!(check.manual.contains(part), "{}: {part}", check.id);
            }
            for threshold in check.thresholds {
                assert!(check.manual.contains(&format!("`{}`", threshold.name)), "{}: {}", check.id, threshold.name);
            }
        }
    }
}
