//! The checks: one file each, named after what is wrong, with its manual page beside it.

mod checkpoint_forced;
mod connection_slots;
mod conntrack_full;
mod dead_sysctl;
mod dead_tuples;
mod dirty_limits;
mod disk_full;
mod duplicate_index;
mod durability_off;
mod invalid_index;
mod kernel_known_bad;
mod long_transaction;
mod number;
mod replication_slot;
mod rotational_flag;
mod sequence_end;
mod setting_not_in_effect;
mod unused_index;
mod wraparound;
mod write_barrier_off;
mod zone_reclaim;

use crate::check::Check;

/// Every check, by its name.
pub const CHECKS: &[Check] = &[
    checkpoint_forced::CHECK,
    connection_slots::CHECK,
    conntrack_full::CHECK,
    dead_sysctl::CHECK,
    dead_tuples::CHECK,
    dirty_limits::CHECK,
    disk_full::CHECK,
    duplicate_index::CHECK,
    durability_off::CHECK,
    invalid_index::CHECK,
    kernel_known_bad::CHECK,
    long_transaction::CHECK,
    replication_slot::CHECK,
    rotational_flag::CHECK,
    sequence_end::CHECK,
    setting_not_in_effect::CHECK,
    unused_index::CHECK,
    wraparound::CHECK,
    write_barrier_off::CHECK,
    zone_reclaim::CHECK,
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
                let row = format!("| `{}` | {} | ", threshold.name, threshold.default);
                let row = check.manual.lines().find_map(|line| line.strip_prefix(row.as_str()));
                assert!(row.is_some_and(|text| text.len() > 10), "{}: {}", check.id, threshold.name);
            }
        }
    }
}
