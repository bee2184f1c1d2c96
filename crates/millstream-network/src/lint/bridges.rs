//! Mistakes in bridges.

use super::{Found, Level, Lint};
use crate::limits::FORWARD_DELAY_USUAL;
use crate::topology::{Bridge, Link, LinkKind, Topology};

/// What a bridge does unless its description says otherwise, in seconds.
const HELLO_TIME: u32 = 2;
const MAX_AGE: u32 = 20;

pub(super) const LOOP: Lint = Lint {
    name: "loop",
    level: Level::Warning,
    reason: "if two ports lead to the same network, packets circle until it stands still; use a bond, or stp = true",
    find: |topology| {
        each(topology, |bridge| {
            let is_wide = !bridge.stp && bridge.ports.len() > 1;
            is_wide.then(|| format!("it has no STP, and joins {}", bridge.ports.join(" and ")))
        })
    },
};

pub(super) const SLOW_START: Lint = Lint {
    name: "slow-start",
    level: Level::Note,
    reason: "with STP, a port is silent for twice forward_delay after it comes up; a host with one way out needs no STP",
    find: |topology| {
        each(topology, |bridge| {
            let silent = 2 * bridge.forward_delay.unwrap_or(FORWARD_DELAY_USUAL);
            (bridge.stp && bridge.ports.len() == 1)
                .then(|| format!("its port is silent for {silent} s after it comes up"))
        })
    },
};

pub(super) const TREE_TIMES: Lint = Lint {
    name: "tree-times",
    level: Level::Warning,
    reason: "2 x (forward_delay - 1) must be at least max_age, and max_age at least 2 x (hello_time + 1) (IEEE 802.1D): else a loop \
             may stand before all switches know of a change",
    find: |topology| {
        each(topology, |bridge| {
            let delay = bridge.forward_delay.unwrap_or(FORWARD_DELAY_USUAL);
            let (hello, age) = (bridge.hello_time.unwrap_or(HELLO_TIME), bridge.max_age.unwrap_or(MAX_AGE));
            let fits = 2 * delay.saturating_sub(1) >= age && age >= 2 * (hello + 1);
            (bridge.stp && !fits)
                .then(|| format!("forward_delay {delay}, max_age {age} and hello_time {hello} do not fit together"))
        })
    },
};

/// What is wrong with a bridge, for each.
fn each(topology: &Topology, wrong: impl Fn(&Bridge) -> Option<String>) -> Vec<Found> {
    let of = |link: &Link| match &link.kind {
        LinkKind::Bridge(bridge) => Some((link.place(), wrong(bridge)?)),
        _ => None,
    };
    topology.links.iter().filter_map(of).collect()
}
