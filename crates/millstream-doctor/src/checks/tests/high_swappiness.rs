//! A check as CONTRIBUTING.md says to write one: the kernel swaps programs out early.

use crate::check::{Check, Look, Looked, Seen, Task};
use crate::host::Host;
use millstream_model::{Class, Level};

pub(super) const CHECK: Check = Check {
    id: "high-swappiness",
    about: "the kernel swaps programs out rather than its file cache",
    class: Class::Fact,
    thresholds: &[("percent", 60.0)],
    manual: include_str!("high_swappiness.md"),
    looks: &[Look::Host(look)],
};

const FILE: &str = "/proc/sys/vm/swappiness";

fn look(host: &Host, task: &Task) -> Looked {
    let Some(percent) = host.number(FILE) else {
        return Ok(Seen::default().but(Some(Host::hidden("how early programs are swapped out", FILE))));
    };
    if percent < task.threshold("percent") {
        return Ok(Seen::default());
    }
    Ok(task
        .finding(Level::Info, "vm.swappiness", "the kernel swaps programs out early")
        .with("swappiness", percent, FILE)
        .repaired("set it to 10", "the file cache becomes smaller before programs are swapped out")
        .run(["$ sysctl -w vm.swappiness=10"])
        .into())
}
