//! The checks: one file each, named after what is wrong, with its manual page beside it.

mod atime;
mod autogroup;
mod blocked_session;
mod checkpoint_forced;
mod checkpoint_spread;
mod collation_version;
mod command;
mod commit_delay;
mod connection_churn;
mod connection_slots;
mod conntrack_full;
mod dead_sysctl;
mod dead_tuples;
mod default_setting;
mod dirty_limits;
mod disk_full;
mod disk_read_ahead;
mod disk_scheduler;
mod distinct_prefix;
mod duplicate_index;
mod durability_off;
mod few_statistics;
mod foreign_key_without_index;
mod hot_row;
mod huge_pages_unused;
mod index_bloat;
mod invalid_index;
mod kernel_known_bad;
mod log_not_compacted;
mod long_transaction;
mod memory_overcommitted;
mod missed_index;
mod model_behind;
mod no_room_for_update;
mod not_recorded;
mod number;
mod ours;
mod pgstattuple;
mod replication_slot;
mod rotational_flag;
mod sequence_end;
mod setting_not_in_effect;
mod statement;
mod table_bloat;
mod temporary_files;
mod top_statement;
mod transparent_huge_pages;
mod unlogged_table;
mod unused_index;
mod wraparound;
mod write_barrier_off;
mod zone_reclaim;

use crate::check::Check;

/// Every check, by its name.
pub const CHECKS: &[Check] = &[
    atime::CHECK,
    autogroup::CHECK,
    blocked_session::CHECK,
    checkpoint_forced::CHECK,
    checkpoint_spread::CHECK,
    collation_version::CHECK,
    commit_delay::CHECK,
    connection_churn::CHECK,
    connection_slots::CHECK,
    conntrack_full::CHECK,
    dead_sysctl::CHECK,
    dead_tuples::CHECK,
    default_setting::CHECK,
    dirty_limits::CHECK,
    disk_full::CHECK,
    disk_read_ahead::CHECK,
    disk_scheduler::CHECK,
    distinct_prefix::CHECK,
    duplicate_index::CHECK,
    durability_off::CHECK,
    few_statistics::CHECK,
    foreign_key_without_index::CHECK,
    hot_row::CHECK,
    huge_pages_unused::CHECK,
    index_bloat::CHECK,
    invalid_index::CHECK,
    kernel_known_bad::CHECK,
    log_not_compacted::CHECK,
    long_transaction::CHECK,
    memory_overcommitted::CHECK,
    missed_index::CHECK,
    model_behind::CHECK,
    no_room_for_update::CHECK,
    not_recorded::CHECK,
    replication_slot::CHECK,
    rotational_flag::CHECK,
    sequence_end::CHECK,
    setting_not_in_effect::CHECK,
    table_bloat::CHECK,
    temporary_files::CHECK,
    top_statement::CHECK,
    transparent_huge_pages::CHECK,
    unlogged_table::CHECK,
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
