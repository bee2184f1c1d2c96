//! Check `bond-partner`: the switch does not speak LACP with a bond, or not with all of its cards as one group.

use super::network_link;
use crate::check::{Check, Look, Task};
use millstream_host::kernel::link::{BONDS, Degraded, Leg};
use millstream_model::{Class, Finding, Level, shell_word};

pub(super) const CHECK: Check = Check {
    id: "bond-partner",
    about: "the switch does not speak LACP with a bond, or not with all of its cards as one group, so only some work",
    class: Class::Fact,
    thresholds: &[],
    manual: include_str!("bond_partner.md"),
    looks: &[Look::Host(|host, task| network_link::seen(host, task, found))],
};

fn found(one: &Degraded<'_>, task: &Task) -> Option<Finding> {
    let (Degraded::NoPartner(link) | Degraded::Split(link), Some(bond)) = (one, one.link().bond()) else { return None };
    let source = format!("{BONDS}/{}", link.name);
    let group = |leg: &Leg| leg.aggregator.map_or_else(|| "-".to_owned(), |group| group.to_string());
    let groups: Vec<String> = bond.legs.iter().map(|leg| format!("{} {}", leg.name, group(leg))).collect();
    Some(
        task.finding(Level::Warning, &link.name, one.to_string())
            .with("partner", bond.partner.as_deref().unwrap_or("unknown"), &source)
            .with("group of each card", groups.join(", "), &source)
            .repaired(
                "let the switch have the ports of these cards in one group that speaks LACP; cards at two switches need \
                 switches that act as one",
                "a wrong group at the switch cuts the machine off",
            )
            .run([format!("$ cat {}", shell_word(&source))]),
    )
}
