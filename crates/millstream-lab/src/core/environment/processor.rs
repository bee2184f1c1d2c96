//! Section `processor`: model, number, SMT, governor, NUMA nodes and virtualisation.

use super::{Facts, Section, facts};
use millstream_host::kernel::file::{text, value, word};
use std::collections::BTreeSet;
use std::fs;

pub(super) const SECTION: Section = Section {
    name: "processor",
    read: |_| {
        let cpuinfo = text("/proc/cpuinfo").unwrap_or_default();
        let system = |file: &str| word(format!("/sys/devices/system/{file}"));
        let mut found = facts([
            ("architecture", Some(std::env::consts::ARCH.to_owned())),
            ("model", value(&cpuinfo, "model name").map(str::to_owned)),
            ("microcode", value(&cpuinfo, "microcode").map(str::to_owned)),
            ("online", system("cpu/online")),
            ("isolated", system("cpu/isolated")),
            ("smt_active", system("cpu/smt/active")),
            ("governor", governors()),
            ("frequency_driver", system("cpu/cpu0/cpufreq/scaling_driver")),
            ("boost", system("cpu/cpufreq/boost")),
            ("no_turbo", system("cpu/intel_pstate/no_turbo")),
            ("idle_driver", system("cpu/cpuidle/current_driver")),
            ("idle_governor", system("cpu/cpuidle/current_governor")),
            ("numa_nodes", system("node/online")),
            ("numa_balancing", word("/proc/sys/kernel/numa_balancing")),
        ]);
        found.extend(virtualisation(&cpuinfo));
        found
    },
};

/// The governors of all processors, each once.
fn governors() -> Option<String> {
    let entries = fs::read_dir("/sys/devices/system/cpu").ok()?.flatten();
    let found: BTreeSet<String> =
        entries.filter_map(|entry| word(entry.path().join("cpufreq/scaling_governor"))).collect();
    (!found.is_empty()).then(|| found.into_iter().collect::<Vec<_>>().join(" "))
}

/// Whether a hypervisor is below, and what the firmware says the machine is.
fn virtualisation(cpuinfo: &str) -> Facts {
    let flags = value(cpuinfo, "flags");
    let hypervisor = flags.map(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor"));
    facts([
        ("hypervisor", hypervisor.map(|there| there.to_string())),
        ("vendor", word("/sys/class/dmi/id/sys_vendor")),
        ("product", word("/sys/class/dmi/id/product_name")),
        ("xen", word("/sys/hypervisor/type")),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hypervisor_is_known_by_its_flag() {
        let text = "processor : 0\nmodel name\t: A B\nflags\t\t: fpu hypervisor lm\n";
        assert_eq!(value(text, "model name"), Some("A B"));
        assert_eq!(virtualisation(text)["hypervisor"], "true");
        assert_eq!(virtualisation("flags : fpu lm\n")["hypervisor"], "false");
        assert!(!virtualisation("").contains_key("hypervisor"), "other architectures have no flags");
    }
}
