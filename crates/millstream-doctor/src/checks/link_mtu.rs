//! Check `link-mtu`: a link sends larger packets than what it lies on.

use super::network_link;
use crate::check::{Check, Look, Task};
use millstream_host::kernel::link::{Degraded, LINKS};
use millstream_model::{Class, Finding, Level, shell_word};

pub(super) const CHECK: Check = Check {
    id: "link-mtu",
    about: "a VLAN, bond or bridge sends larger packets than the link that it lies on, and large answers get lost",
    class: Class::Fact,
    thresholds: &[],
    manual: include_str!("link_mtu.md"),
    looks: &[Look::Host(|host, task| network_link::seen(host, task, found))],
};

fn found(one: &Degraded<'_>, task: &Task) -> Option<Finding> {
    let Degraded::Larger { link, below } = one else { return None };
    let (own, theirs) = (link.mtu.unwrap_or(0), below.mtu.unwrap_or(0));
    let mtu = |name: &str| format!("{LINKS}/{name}/mtu");
    Some(
        task.finding(Level::Warning, &link.name, one.to_string())
            .with(&link.name, own, &mtu(&link.name))
            .with(&below.name, theirs, &mtu(&below.name))
            .repaired(
                "give both the same size, and the switch too",
                "smaller packets cost some throughput; a larger size on a link below needs a switch that takes it",
            )
            .run([format!("$ ip link set dev {} mtu {theirs}", shell_word(&link.name))]),
    )
}
