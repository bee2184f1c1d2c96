//! Check `bond-leg-down`: a card of a bond does not work.

use super::network_link;
use crate::check::{Check, Look, Task};
use millstream_host::kernel::link::{BONDS, Degraded};
use millstream_model::{Class, Finding, Level, shell_word};

pub(super) const CHECK: Check = Check {
    id: "bond-leg-down",
    about: "a card of a bond does not work, so that the next failure cuts the machine off",
    class: Class::Fact,
    thresholds: &[],
    manual: include_str!("bond_leg_down.md"),
    looks: &[Look::Host(|host, task| network_link::seen(host, task, found))],
};

fn found(one: &Degraded<'_>, task: &Task) -> Option<Finding> {
    let (Degraded::LegsDown { link, dead, working }, Some(bond)) = (one, one.link().bond()) else { return None };
    let source = format!("{BONDS}/{}", link.name);
    let failures: Vec<String> = bond.legs.iter().map(|leg| format!("{} {}", leg.name, leg.failures)).collect();
    let level = if *working == 0 { Level::Critical } else { Level::Warning };
    Some(
        task.finding(level, &link.name, one.to_string())
            .with("cards that work", format!("{working} of {}", bond.legs.len()), &source)
            .with("failures since they were added", failures.join(", "), &source)
            .unless("somebody has switched the card off on purpose, for example to replace a switch")
            .repaired(
                "look at the cable, the card and the port of the switch",
                "none; pulling the wrong cable cuts the machine off",
            )
            .run(dead.iter().map(|name| format!("$ ip -statistics link show {}", shell_word(name)))),
    )
}
