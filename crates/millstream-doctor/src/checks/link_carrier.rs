//! Check `link-carrier`: nothing is at the other end of a card's cable, although packets are sent by it.

use super::network_link;
use crate::check::{Check, Look, Seen, Task};
use crate::host::Host;
use millstream_host::kernel::link::{Degraded, LINKS};
use millstream_model::{Class, Finding, Level, Repair, Restart};

pub(super) const CHECK: Check = Check {
    id: "link-carrier",
    about: "a card that carries addresses or VLANs has no cable, or nothing is at its other end",
    class: Class::Fact,
    thresholds: &[],
    manual: include_str!("link_carrier.md"),
    looks: &[Look::Host(look)],
};

fn look(host: &Host, task: &Task) -> Seen {
    network_link::seen(host, |one| found(one, task))
}

fn found(one: &Degraded<'_>, task: &Task) -> Option<Finding> {
    let Degraded::NoCarrier { link, .. } = one else { return None };
    let mut finding = task.finding(Level::Warning, &link.name, one.to_string()).with(
        &link.name,
        "0",
        &format!("{LINKS}/{}/carrier", link.name),
    );
    finding.repair = Some(Repair {
        sentence: "look at the cable, and at the port of the switch".to_owned(),
        commands: vec![format!("$ ip -statistics link show dev {}", link.name)],
        risk: "none: it only shows more".to_owned(),
        restart: Restart::Nothing,
        change: None,
    });
    Some(finding)
}
