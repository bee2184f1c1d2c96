//! The checks: one file each, named after what is wrong, with its manual page beside it.

mod accept_queue_full;
mod archiver_failing;
mod atime;
mod autovacuum_off;
mod blocked_session;
mod bond_leg_down;
mod bond_partner;
mod bridge_port_blocked;
mod cache_misses;
mod checkpoint_forced;
mod checkpoint_spread;
mod checkpoint_timeout;
mod checkpoints;
mod checksum_failure;
mod clock_source;
mod collation_version;
mod command;
mod commit_delay;
mod connection_churn;
mod connection_slots;
mod conntrack_full;
mod constraint_not_validated;
mod cpu_governor;
mod cpu_taken;
mod dead_sysctl;
mod dead_tuples;
mod deadlock;
mod default_setting;
mod definition;
mod device_saturated;
pub(crate) mod dirty_limits;
mod disk_full;
mod disk_read_ahead;
pub(crate) mod disk_scheduler;
mod distinct_prefix;
mod duplicate_index;
mod durability_off;
mod few_reads_ahead;
mod few_statistics;
mod foreign_key_without_index;
pub(crate) mod ground;
mod hot_row;
mod huge_pages_unused;
mod index_bloat;
mod invalid_index;
mod json_member_missing;
mod kernel_known_bad;
mod link_carrier;
mod link_mtu;
mod log_not_compacted;
mod long_transaction;
mod memory_overcommitted;
mod memory_pressure;
mod memory_promised;
mod minor_version_behind;
pub(crate) mod missed_index;
mod missing_index;
mod model_behind;
mod narrow_key;
mod network_link;
mod never_analyzed;
mod new_index;
mod no_room_for_update;
mod not_recorded;
pub(crate) mod number;
mod open_files_near_limit;
pub(crate) mod ours;
mod out_of_memory_kill;
pub(crate) mod pgstattuple;
mod planner_cost;
mod prefix_index;
mod proof;
mod replica_behind;
mod replication_slot;
mod rollback;
mod rotational_flag;
mod sequence_end;
mod setting_not_in_effect;
mod sort_index;
pub(crate) mod space;
mod standby_conflict;
mod table_bloat;
mod table_without_key;
mod temporary_files;
mod together;
mod top_statement;
mod transparent_huge_pages;
mod trigger_disabled;
mod unlogged_table;
mod unused_index;
mod vacuum_pace;
mod wal_buffers_full;
mod wraparound;
mod write_barrier_off;
mod written_setting;
mod zone_reclaim;

use crate::check::Check;

/// Every check, by its name.
pub const CHECKS: &[Check] = &[
    accept_queue_full::CHECK,
    archiver_failing::CHECK,
    atime::CHECK,
    autovacuum_off::CHECK,
    blocked_session::CHECK,
    bond_leg_down::CHECK,
    bond_partner::CHECK,
    bridge_port_blocked::CHECK,
    cache_misses::CHECK,
    checkpoint_forced::CHECK,
    checkpoint_spread::CHECK,
    checkpoint_timeout::CHECK,
    checksum_failure::CHECK,
    clock_source::CHECK,
    collation_version::CHECK,
    commit_delay::CHECK,
    connection_churn::CHECK,
    connection_slots::CHECK,
    conntrack_full::CHECK,
    constraint_not_validated::CHECK,
    cpu_governor::CHECK,
    cpu_taken::CHECK,
    dead_sysctl::CHECK,
    dead_tuples::CHECK,
    deadlock::CHECK,
    default_setting::CHECK,
    device_saturated::CHECK,
    dirty_limits::CHECK,
    disk_full::CHECK,
    disk_read_ahead::CHECK,
    disk_scheduler::CHECK,
    distinct_prefix::CHECK,
    duplicate_index::CHECK,
    durability_off::CHECK,
    few_reads_ahead::CHECK,
    few_statistics::CHECK,
    foreign_key_without_index::CHECK,
    hot_row::CHECK,
    huge_pages_unused::CHECK,
    index_bloat::CHECK,
    invalid_index::CHECK,
    json_member_missing::CHECK,
    kernel_known_bad::CHECK,
    link_carrier::CHECK,
    link_mtu::CHECK,
    log_not_compacted::CHECK,
    long_transaction::CHECK,
    memory_overcommitted::CHECK,
    memory_pressure::CHECK,
    memory_promised::CHECK,
    minor_version_behind::CHECK,
    missed_index::CHECK,
    missing_index::CHECK,
    model_behind::CHECK,
    narrow_key::CHECK,
    never_analyzed::CHECK,
    no_room_for_update::CHECK,
    not_recorded::CHECK,
    open_files_near_limit::CHECK,
    out_of_memory_kill::CHECK,
    planner_cost::CHECK,
    prefix_index::CHECK,
    replica_behind::CHECK,
    replication_slot::CHECK,
    rollback::CHECK,
    rotational_flag::CHECK,
    sequence_end::CHECK,
    setting_not_in_effect::CHECK,
    sort_index::CHECK,
    standby_conflict::CHECK,
    table_bloat::CHECK,
    table_without_key::CHECK,
    temporary_files::CHECK,
    top_statement::CHECK,
    transparent_huge_pages::CHECK,
    trigger_disabled::CHECK,
    unlogged_table::CHECK,
    unused_index::CHECK,
    wal_buffers_full::CHECK,
    wraparound::CHECK,
    write_barrier_off::CHECK,
    zone_reclaim::CHECK,
];

#[cfg(test)]
mod tests;
