//! Check `link-carrier`: nothing is at the other end of a card's cable, although packets are sent by it.

use super::network_link;
use crate::check::{Check, Look, Task};
use millstream_host::kernel::link::{Degraded, LINKS};
use millstream_model::{Class, Finding, Level, shell_word};

pub(super) const CHECK: Check = Check {
    id: "link-carrier",
    about: "a card that carries addresses or VLANs has no cable, or nothing is at its other end",
    class: Class::Fact,
    thresholds: &[],
    manual: include_str!("link_carrier.md"),
    looks: &[Look::Host(|host, task| network_link::seen(host, task, found))],
};

fn found(one: &Degraded<'_>, task: &Task) -> Option<Finding> {
    let Degraded::NoCarrier { link, .. } = one else { return None };
    Some(
        task.finding(Level::Warning, &link.name, one.to_string())
            .with(&link.name, "0", &format!("{LINKS}/{}/carrier", link.name))
            .repaired("look at the cable, and at the port of the switch", "none: it only shows more")
            .run([format!("$ ip -statistics link show dev {}", shell_word(&link.name))]),
    )
}
