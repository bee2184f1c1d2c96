//! Check `autogroup`: the kernel shares processors between groups of processes, and the server is one of them.

use crate::check::{Check, Look, Seen, Task};
use crate::host::Host;
use millstream_model::{Class, Level, Repair, Restart};

pub(super) const CHECK: Check = Check {
    id: "autogroup",
    about: "the kernel shares processors between terminals and services, and not between processes",
    class: Class::Hypothesis,
    thresholds: &[],
    manual: include_str!("autogroup.md"),
    looks: &[Look::Host(look)],
};

const FILE: &str = "/proc/sys/kernel/sched_autogroup_enabled";

fn look(host: &Host, task: &Task) -> Seen {
    let is_on = host.number(FILE) == Some(1.0);
    // In a control group of its own for the processor, the group counts and autogroup does nothing.
    let Some(cgroup) = host.cgroup("cpu").filter(|cgroup| is_on && !cgroup.below_root) else {
        return Seen::default();
    };
    let name = "kernel.sched_autogroup_enabled";
    let sentence = "the server shares the processors as one of several groups, whatever its number of sessions";
    let mut finding = task.finding(Level::Info, name, sentence).with(name, 1, FILE).with(
        "control group of the server",
        format!("the root (version {})", cgroup.version),
        "/proc/PID/cgroup",
    );
    finding.alternative = Some("nothing else on the machine wants the processors".to_owned());
    finding.repair = Some(Repair {
        sentence: "switch it off, and measure before and after".to_owned(),
        commands: vec![format!("$ sysctl -w {name}=0")],
        risk: "programs on a terminal feel slower while the server works".to_owned(),
        restart: Restart::Nothing,
        change: Some(Host::sysctl(name, "0")),
    });
    [finding].into_iter().collect()
}
