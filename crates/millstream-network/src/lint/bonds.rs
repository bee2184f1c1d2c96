//! Mistakes in bonds.

use super::{Found, Level, Lint};
use crate::topology::{Bond, BondMode, Link, LinkKind, Monitor, Topology, TransmitHash};

pub(super) const FEW_PORTS: Lint = Lint {
    name: "few-ports",
    level: Level::Warning,
    reason: "a bond of one card survives no failure, and one of none never works",
    find: |topology| {
        each(topology, |bond| {
            let count = bond.ports.len();
            (count < 2).then(|| format!("it has {count} {}", if count == 1 { "port" } else { "ports" }))
        })
    },
};

pub(super) const NOT_WATCHED: Lint = Lint {
    name: "not-watched",
    level: Level::Error,
    reason: "the bond does not notice that a card is dead, and keeps sending to it; write miimon = 100",
    find: |topology| each(topology, |bond| bond.monitor.is_none().then(|| "nothing watches its ports".to_owned())),
};

pub(super) const SWITCH_MUST_SPEAK: Lint = Lint {
    name: "switch-must-speak",
    level: Level::Note,
    reason: "check that the switch speaks LACP on these ports as one group: else only one of them works, or none",
    find: |topology| {
        each(topology, |bond| (bond.mode == BondMode::Lacp).then(|| "it needs a switch that speaks LACP".to_owned()))
    },
};

pub(super) const ONE_LEG_FOR_ALL: Lint = Lint {
    name: "one-leg-for-all",
    level: Level::Note,
    reason: "a hash of hardware addresses sends everything to one router by one card; write transmit_hash = \"layer3+4\"",
    find: |topology| {
        each(topology, |bond| {
            let hash = bond.transmit_hash.unwrap_or(TransmitHash::Layer2);
            let is_coarse = matches!(hash, TransmitHash::Layer2 | TransmitHash::VlanSource);
            let shares = matches!(bond.mode, BondMode::Lacp | BondMode::BalanceXor);
            (shares && is_coarse).then(|| format!("transmit_hash is {}", hash.name()))
        })
    },
};

pub(super) const UNEVEN_DELAY: Lint = Lint {
    name: "uneven-delay",
    level: Level::Warning,
    reason: "the kernel rounds a delay down to whole looks; make it a multiple of miimon",
    find: |topology| {
        each(topology, |bond| {
            let Some(Monitor::Carrier { interval_ms, up_delay_ms, down_delay_ms }) = &bond.monitor else { return None };
            let mut delays = [("up_delay", up_delay_ms), ("down_delay", down_delay_ms)].into_iter();
            let (key, delay) = delays.find_map(|(key, delay)| Some((key, delay.filter(|ms| ms % interval_ms > 0)?)))?;
            Some(format!("{key} is {delay} ms, and miimon {interval_ms} ms"))
        })
    },
};

pub(super) const PORT_IS_NO_CARD: Lint = Lint {
    name: "port-is-no-card",
    level: Level::Warning,
    reason: "a bond joins cards; put VLANs and bridges on the bond, not below it",
    find: |topology| {
        let mut found = Vec::new();
        for link in &topology.links {
            let LinkKind::Bond(bond) = &link.kind else { continue };
            let others =
                bond.ports.iter().filter_map(|port| topology.link(port)).filter(|port| port.kind != LinkKind::Card);
            found.extend(others.map(|port| (link.place(), format!("its port {} is no card", port.name))));
        }
        found
    },
};

/// What is wrong with a bond, for each.
fn each(topology: &Topology, wrong: impl Fn(&Bond) -> Option<String>) -> Vec<Found> {
    let of = |link: &Link| match &link.kind {
        LinkKind::Bond(bond) => Some((link.place(), wrong(bond)?)),
        _ => None,
    };
    topology.links.iter().filter_map(of).collect()
}
