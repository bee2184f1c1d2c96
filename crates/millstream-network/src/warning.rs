//! What a plan warns of: what on this machine makes a topology mean something else, or cuts you off.

use crate::claim::Profile;
use crate::difference::Live;
use crate::limits::PROFILE_BYTES_MAX;
use crate::output::DIRECTORY;
use crate::topology::{Link, Topology};
use millstream_host::{Ssh, read_at_most};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Where profiles of NetworkManager are, the first of one name before the others.
const PROFILES: [&str; 3] =
    [DIRECTORY, "/run/NetworkManager/system-connections", "/usr/lib/NetworkManager/system-connections"];

/// The program that gives zones a meaning.
const FIREWALLD: &str = "/usr/sbin/firewalld";

/// What a plan needs to know about a machine.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Facts {
    /// Profiles of NetworkManager that claim links, in the directory that `apply` writes.
    pub profiles: Vec<Profile>,
    /// The same in other directories, where for example netplan writes them.
    pub beyond: Vec<Profile>,
    /// Whether something gives zones a meaning.
    pub has_firewalld: bool,
    /// The connection of ssh in which this runs.
    pub ssh: Option<Ssh>,
}

impl Facts {
    /// The facts of this machine. Only root can read profiles.
    pub fn read() -> Self {
        let mut facts = Self { has_firewalld: Path::new(FIREWALLD).exists(), ssh: Ssh::here(), ..Self::default() };
        let mut seen = BTreeSet::new();
        for dir in PROFILES {
            for file in fs::read_dir(dir).into_iter().flatten().flatten() {
                // A file hides those of its name in the directories behind it.
                if !seen.insert(file.file_name()) {
                    continue;
                }
                let text = read_at_most(&file.path(), PROFILE_BYTES_MAX, None).unwrap_or_default();
                let found = if dir == DIRECTORY { &mut facts.profiles } else { &mut facts.beyond };
                found.extend(Profile::parse(&text));
            }
        }
        facts
    }
}

/// What a plan warns of, as sentences.
pub fn warnings(topology: &Topology, facts: &Facts, live: &Live) -> Vec<String> {
    let mut warnings = Vec::new();
    let of_apply = facts.profiles.iter().map(|one| (one, true));
    let all = of_apply.chain(facts.beyond.iter().map(|one| (one, false)));
    for (profile, is_of_apply) in all.filter(|(one, _)| one.starts && !one.is_named_after_its_link()) {
        let Some(Link { name, .. }) = profile.claimed(topology, live) else { continue };
        let way_out = match (is_of_apply, profile.is_for_these_alone(topology, live)) {
            (true, true) => "apply removes it; else remove it, or set its autoconnect to no",
            (true, false) => {
                "apply keeps it, because it may be for other cards, too; give it the interface-name of its card, or set its \
                 autoconnect to no"
            }
            (false, _) => {
                "apply keeps it, because it lies in another directory; take the link out of what writes it there, such as \
                 netplan"
            }
        };
        let id = &profile.id;
        warnings
            .push(format!("the profile \"{id}\" of NetworkManager claims {name}, too, and may start first: {way_out}"));
    }
    let zoned = topology.links.iter().find(|link| link.zone.is_some());
    if let Some(link) = zoned.filter(|_| !facts.has_firewalld) {
        warnings.push(format!("the zone of {} means nothing: firewalld is not installed", link.name));
    }
    if let Some(carrier) = facts.ssh.and_then(|ssh| carrier(live, ssh)) {
        let touched: Vec<&str> = topology.links.iter().map(|link: &Link| link.name.as_str()).collect();
        let mut below = BTreeSet::from([carrier]);
        // As many steps as there are links reach every link below.
        for _ in &live.links {
            let next = live.links.iter().filter(|link| below.contains(link.name.as_str())).flat_map(|link| &link.below);
            let next: Vec<&str> = next.map(String::as_str).collect();
            below.extend(next);
        }
        if let Some(link) = touched.iter().find(|link| below.contains(*link)) {
            warnings.push(format!("your ssh session comes in by {link}: a mistake cuts you off"));
        }
    }
    warnings
}

/// The link that has the address of this host in a connection.
fn carrier(live: &Live, ssh: Ssh) -> Option<&str> {
    let mut links = live.addresses.iter();
    links.find(|(_, own)| own.iter().any(|one| one.address == ssh.host)).map(|(name, _)| name.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::difference::card;
    use crate::topology::Prefix;
    use millstream_host::kernel::link::NetLink;

    #[test]
    fn what_this_machine_makes_of_a_topology_is_named() {
        let topology = Topology::parse("[cards.eth0]\nzone = 'public'\n[cards.eth1]\n").unwrap();
        let link = |name: &str, below: &[&str]| NetLink {
            below: below.iter().map(|name| (*name).to_owned()).collect(),
            ..card(name)
        };
        let address = Prefix { address: [192, 0, 2, 5].into(), length: 24 };
        let live = Live {
            links: vec![link("v5", &["bond0"]), link("bond0", &["eth1"]), link("eth1", &[]), link("eth0", &[])],
            addresses: [("v5".to_owned(), vec![address])].into(),
            hardware: [("eth0".to_owned(), "52:54:00:00:00:01".to_owned())].into(),
        };
        let profile = |id: &str, claim: &str| {
            Profile::parse(&format!("[connection]\nid={id}\ntype=ethernet\n{claim}\n")).unwrap()
        };
        let facts = Facts {
            profiles: vec![
                profile("Wired connection 1", "interface-name=eth0"),
                profile("eth1", "interface-name=eth1"),
                profile("other", "interface-name=eth7"),
                profile("by address", "[ethernet]\nmac-address=52:54:00:00:00:01"),
                profile("off", "autoconnect=false\n[ethernet]\nmac-address=52:54:00:00:00:01"),
                profile("by pattern", "[match]\ninterface-name=eth*"),
                profile("of all cards", ""),
                profile("by driver", "[match]\ndriver=e1000"),
            ],
            beyond: vec![profile("netplan-eth1", "interface-name=eth1"), profile("eth9", "interface-name=eth9")],
            has_firewalld: false,
            ssh: Ssh::parse("203.0.113.7 50022 192.0.2.5 22"),
        };
        let said = warnings(&topology, &facts, &live);
        assert_eq!(said.len(), 8, "{said:?}");
        let claims = [
            ("Wired connection 1", "removes"),
            ("by address", "removes"),
            ("by pattern", "removes"),
            ("of all cards", "keeps"),
            ("by driver", "keeps"),
        ];
        for (said, (id, becomes)) in said.iter().zip(claims) {
            assert!(said.starts_with(&format!("the profile \"{id}\" of NetworkManager claims eth0, too")), "{said}");
            assert!(said.contains(&format!(": apply {becomes} it")), "{said}");
        }
        assert!(said[5].starts_with("the profile \"netplan-eth1\" of NetworkManager claims eth1, too"), "{said:?}");
        assert!(said[5].contains("it lies in another directory"), "{said:?}");
        assert!(said[6].contains("the zone of eth0 means nothing"), "{said:?}");
        assert_eq!(said[7], "your ssh session comes in by eth1: a mistake cuts you off");
        let quiet = Facts { has_firewalld: true, ssh: Ssh::parse("203.0.113.7 5 192.0.2.9 22"), ..Facts::default() };
        assert_eq!(warnings(&topology, &quiet, &live), [""; 0]);
    }
}
