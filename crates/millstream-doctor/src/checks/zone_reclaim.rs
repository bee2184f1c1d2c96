//! Check `zone-reclaim`: memory of one node is freed although another has some.

use crate::check::{Check, Look, Looked, Seen, Task};
use crate::host::Host;
use millstream_model::{Change, Class, Level};

pub(super) const CHECK: Check = Check {
    id: "zone-reclaim",
    about: "the kernel frees pages of one memory node although another node has free memory",
    class: Class::Fact,
    thresholds: &[],
    manual: include_str!("zone_reclaim.md"),
    looks: &[Look::Host(look)],
};

fn look(host: &Host, task: &Task) -> Looked {
    let Some(mode) = host.number("/proc/sys/vm/zone_reclaim_mode") else { return Ok(Seen::default()) };
    let nodes = host.word("/sys/devices/system/node/has_memory").unwrap_or_default();
    if mode == 0.0 || !nodes.contains(['-', ',']) {
        return Ok(Seen::default());
    }
    let sentence = "the kernel frees cached pages of one memory node although others have free memory";
    Ok(task
        .finding(Level::Warning, "vm.zone_reclaim_mode", sentence)
        .with("zone_reclaim_mode", mode, "/proc/sys/vm/zone_reclaim_mode")
        .with("nodes with memory", nodes, "/sys/devices/system/node/has_memory")
        .repaired(
            "let a process use the memory of all nodes",
            "none for a database; some reads come from the memory of another node",
        )
        .run(["$ sysctl -w vm.zone_reclaim_mode=0"])
        .changes(Change::new("sysctl", "vm.zone_reclaim_mode", "0"))
        .into())
}
