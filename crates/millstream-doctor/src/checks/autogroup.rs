//! Check `autogroup`: the kernel shares processors between groups of processes, and the server is one of them.

use super::dead_sysctl::file_that_sets;
use crate::check::{Check, Look, Seen, Task};
use crate::host::Host;
use millstream_model::{Class, Finding, Level, Repair, Restart};

pub(super) const CHECK: Check = Check {
    id: "autogroup",
    about: "the kernel shares processors between terminals and services, and not between processes",
    class: Class::Hypothesis,
    thresholds: &[],
    manual: include_str!("autogroup.md"),
    looks: &[Look::Host(look)],
};

const FILE: &str = "/proc/sys/kernel/sched_autogroup_enabled";

const NAME: &str = "kernel.sched_autogroup_enabled";

fn look(host: &Host, task: &Task) -> Seen {
    let Some(flag) = host.number(FILE) else {
        let what = Host::hidden("whether processes are grouped", FILE);
        return Seen::default().but(Some(format!("{what}; the kernel may be built without autogroup")));
    };
    if flag != 1.0 {
        return Seen::default();
    }
    let Some(cgroup) = host.cgroup("cpu") else {
        let what = "the server's control group, by which autogroup counts or not";
        return Seen::default().but(Some(Host::hidden(what, "/proc/PID/cgroup")));
    };
    match cgroup.below_root {
        false => [shared(task, cgroup.version)].into_iter().collect(),
        // Only who has set it will wonder.
        true => file_that_sets(host, NAME).map(|file| idle(task, &file)).into_iter().collect(),
    }
}

/// In a control group of its own for the processor, the group counts and autogroup does nothing.
fn idle(task: &Task, file: &str) -> Finding {
    let sentence = format!("{file} sets it, but it has no effect here: the server is in a control group of its own");
    let mut finding = task.finding(Level::Info, NAME, sentence).with(NAME, 1, FILE).with("set in", file, "the file");
    finding.repair = Some(Repair {
        sentence: "leave it, or delete the line; to share the processors in another way, set CPUWeight of the service"
            .to_owned(),
        commands: Vec::new(),
        risk: "none: it does nothing for the server".to_owned(),
        restart: Restart::Nothing,
        change: None,
    });
    finding
}

fn shared(task: &Task, version: u8) -> Finding {
    let sentence = "the server shares the processors as one of several groups, whatever its number of sessions";
    let mut finding = task.finding(Level::Info, NAME, sentence).with(NAME, 1, FILE).with(
        "control group of the server",
        format!("the root (version {version})"),
        "/proc/PID/cgroup",
    );
    finding.alternative = Some("nothing else on the machine wants the processors".to_owned());
    finding.repair = Some(Repair {
        sentence: "switch it off, and measure before and after".to_owned(),
        commands: vec![format!("$ sysctl -w {NAME}=0")],
        risk: "programs on a terminal feel slower while the server works".to_owned(),
        restart: Restart::Nothing,
        change: Some(Host::sysctl(NAME, "0")),
    });
    finding
}
