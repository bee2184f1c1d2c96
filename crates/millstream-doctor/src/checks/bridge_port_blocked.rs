//! Check `bridge-port-blocked`: a port of a bridge passes nothing on.

use super::network_link;
use crate::check::{Check, Look, Task};
use millstream_host::kernel::link::{Degraded, LINKS};
use millstream_model::{Class, Finding, Level, shell_word};

pub(super) const CHECK: Check = Check {
    id: "bridge-port-blocked",
    about: "a port of a bridge passes nothing on, because there is a loop or its link is down",
    class: Class::Fact,
    thresholds: &[],
    manual: include_str!("bridge_port_blocked.md"),
    looks: &[Look::Host(|host, task| network_link::seen(host, task, found))],
};

fn found(one: &Degraded<'_>, task: &Task) -> Option<Finding> {
    let Degraded::Blocked { link, state, .. } = one else { return None };
    Some(
        task.finding(Level::Warning, &link.name, one.to_string())
            .with("state of the port", state.name(), &format!("{LINKS}/{}/brport/state", link.name))
            .unless("the port is a spare one, which STP keeps for the time when another fails")
            .repaired(
                "find the second way to the same network, or the reason why the link is down",
                "a port that is forced open while there is a loop stops the whole network",
            )
            .run([format!("$ bridge -details link show dev {}", shell_word(&link.name))]),
    )
}
