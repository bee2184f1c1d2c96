//! Facts of an environment that an experiment sets itself: what an earlier version found before its runs says nothing about
//! them.

use super::arm::Setup;
use super::place::Place;
use super::record::Record;
use crate::core::Run;
use millstream_host::setting::pair_of;
use std::collections::BTreeSet;

impl Record {
    /// The facts of a server and its machine that every measured arm on this server has set, by section and name.
    pub(super) fn own_facts(&self, server: &str) -> BTreeSet<String> {
        let experiment = &self.conditions.experiment;
        let is_measured = |name: &str| self.runs.iter().filter(|run| run.arm == name).any(has_values);
        let setups = experiment.arms.iter().filter(|arm| is_measured(&arm.name)).map(|arm| experiment.setup(arm));
        let usual = self.conditions.postgres.as_ref();
        let own = setups.filter(|setup| Place::of(setup, usual).name() == server);
        own.map(|setup| setup.own_facts()).reduce(|all, one| &all & &one).unwrap_or_default()
    }
}

fn has_values(run: &Run) -> bool {
    run.measures().is_some()
}

impl Setup {
    /// The facts that it sets.
    fn own_facts(&self) -> BTreeSet<String> {
        let settings = self.settings.keys().map(|name| format!("settings.{name}"));
        let memory = self.memory_mb.map(|_| "control_group.memory_bytes".to_owned());
        settings.chain(memory).chain(self.host.keys().flat_map(|name| of_host(name))).collect()
    }
}

/// How the names of the kernel's settings begin, and those of the facts that they are.
const SECTIONS: [(&str, &str); 2] = [("kernel.", "scheduler."), ("vm.", "memory.vm.")];

/// The facts that a setting of the host is.
fn of_host(name: &str) -> Vec<String> {
    if let Some(queue) = name.strip_prefix("disk.") {
        return ["queue", "disk.queue"].map(|of| format!("storage.data.{of}.{queue}")).to_vec();
    }
    let of_section = |(section, facts): &(&str, &str)| {
        let name = name.strip_prefix(section)?;
        let pages = (name == "nr_hugepages").then(|| "memory.huge_pages".to_owned());
        let all = std::iter::once(name).chain(pair_of(name)).map(|name| format!("{facts}{name}"));
        Some(all.chain(pages).collect())
    };
    SECTIONS.iter().find_map(of_section).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_setup_sets_has_the_names_of_facts() {
        let host = [
            ("kernel.sched_autogroup_enabled", "1"),
            ("vm.dirty_bytes", "1"),
            ("vm.nr_hugepages", "7"),
            ("disk.scheduler", "none"),
            ("net.core.somaxconn", "9"),
        ];
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        let setup = Setup {
            settings: [owned(("work_mem", "4MB"))].into(),
            host: host.map(owned).into(),
            memory_mb: Some(512),
            ..Setup::default()
        };
        let names = [
            "control_group.memory_bytes",
            "memory.huge_pages",
            "memory.vm.dirty_bytes",
            "memory.vm.dirty_ratio",
            "memory.vm.nr_hugepages",
            "scheduler.sched_autogroup_enabled",
            "settings.work_mem",
            "storage.data.disk.queue.scheduler",
            "storage.data.queue.scheduler",
        ];
        assert!(setup.own_facts().iter().eq(names), "{:?}", setup.own_facts());
    }
}
