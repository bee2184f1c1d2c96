//! Section `scheduler`: the settings `sched_*` of the kernel, and those that moved to its debug directory.
//!
//! Linux 5.13 moved settings such as `migration_cost_ns` from `/proc/sys/kernel` to `/sys/kernel/debug/sched`, which
//! only root can read.

use super::{Section, files};

pub(super) const SECTION: Section = Section {
    name: "scheduler",
    read: |_| {
        let mut found = files("/proc/sys/kernel", |name| name.starts_with("sched_"));
        let debug = files("/sys/kernel/debug/sched", |name| name.ends_with("_ns") || NAMES.contains(&name));
        found.extend(debug.into_iter().map(|(name, value)| (format!("debug.{name}"), value)));
        found
    },
};

/// Files of the debug directory that are settings; others are state.
const NAMES: &[&str] = &["features", "nr_migrate", "tunable_scaling", "latency_warn_ms"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::environment::Ground;

    #[test]
    fn the_time_slices_of_this_kernel_are_found() {
        let ground = Ground { mounts: Vec::new(), data: None, process: "self".to_owned() };
        assert!((SECTION.read)(&ground).contains_key("sched_rr_timeslice_ms"));
    }
}
