//! Section `kernel`: release, preemption, mitigations, clock, and the words of its command line that matter.

use super::{Section, facts, files};
use millstream_host::kernel::file::{text, word};

pub(super) const SECTION: Section = Section {
    name: "kernel",
    read: |_| {
        let version = word("/proc/sys/kernel/version");
        let mut found = facts([
            ("release", word("/proc/sys/kernel/osrelease")),
            ("preemption", version.as_deref().and_then(preemption)),
            ("version", version),
            ("realtime", word("/sys/kernel/realtime")),
            ("preempt_mode", word("/sys/kernel/debug/sched/preempt").map(|modes| chosen_mode(&modes).to_owned())),
            ("clocksource", word("/sys/devices/system/clocksource/clocksource0/current_clocksource")),
            ("command_line", text("/proc/cmdline").map(|words| kept(&words)).filter(|words| !words.is_empty())),
        ]);
        let vulnerabilities = files("/sys/devices/system/cpu/vulnerabilities", |_| true);
        found.extend(vulnerabilities.into_iter().map(|(name, state)| (format!("vulnerability.{name}"), state)));
        found
    },
};

/// How parameters begin that change speed. The other parameters of a command line may name disks, hosts and paths.
const PARAMETERS: &[&str] = &[
    "mitigations",
    "preempt",
    "nohz",
    "isolcpus",
    "rcu_nocbs",
    "idle",
    "intel_idle.",
    "intel_pstate",
    "amd_pstate",
    "processor.max_cstate",
    "cpuidle",
    "transparent_hugepage",
    "hugepages",
    "hugepagesz",
    "default_hugepagesz",
    "spectre_",
    "spec_",
    "nospectre",
    "pti",
    "nopti",
    "mds",
    "l1tf",
    "tsx",
    "retbleed",
    "elevator",
    "scsi_mod.use_blk_mq",
    "threadirqs",
    "skew_tick",
    "clocksource",
    "tsc",
    "nosmt",
    "numa_balancing",
    "psi",
    "cgroup_",
    "systemd.unified_cgroup_hierarchy",
    "audit",
    "maxcpus",
    "mem",
];

/// The words of a command line that may be recorded.
fn kept(command_line: &str) -> String {
    let kept = |word: &&str| {
        let name = word.split('=').next().unwrap_or_default();
        let wanted = |prefix: &str| name == prefix || (prefix.ends_with(['_', '.']) && name.starts_with(prefix));
        PARAMETERS.iter().any(|prefix| wanted(prefix)) && !word.contains('/')
    };
    command_line.split_whitespace().filter(kept).collect::<Vec<_>>().join(" ")
}

/// The word of `uname -v` that says how the kernel was built, such as `PREEMPT_DYNAMIC`.
fn preemption(version: &str) -> Option<String> {
    version.split_whitespace().find(|word| word.starts_with("PREEMPT")).map(str::to_owned)
}

/// The word in parentheses of a list such as `none voluntary (full)`.
fn chosen_mode(modes: &str) -> &str {
    let inner = modes.split_once('(').and_then(|(_, rest)| rest.split_once(')'));
    inner.map_or(modes, |(mode, _)| mode)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_that_name_disks_or_hosts_are_not_recorded() {
        let line = "root=/dev/sda1 mitigations=off nohz=on ip=10.0.0.1 spec_store_bypass_disable=on mem=/x memmap=4G quiet psi=1";
        assert_eq!(kept(line), "mitigations=off nohz=on spec_store_bypass_disable=on psi=1");
    }

    #[test]
    fn preemption_is_a_word_of_the_version() {
        assert_eq!(preemption("#1 SMP PREEMPT_DYNAMIC Debian 6.12").as_deref(), Some("PREEMPT_DYNAMIC"));
        assert_eq!(preemption("#1 SMP"), None);
        assert_eq!(chosen_mode("none voluntary (full) lazy"), "full");
    }
}
