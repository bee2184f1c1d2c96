//! What a plan warns of: what on this machine makes a topology mean something else, or cuts you off.

use crate::difference::Live;
use crate::output::DIRECTORY;
use crate::topology::{Link, Topology};
use millstream_host::Ssh;
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
    /// Profiles of NetworkManager that belong to one link.
    pub profiles: Vec<Profile>,
    /// Whether something gives zones a meaning.
    pub has_firewalld: bool,
    /// The connection of ssh in which this runs.
    pub ssh: Option<Ssh>,
}

/// A profile of NetworkManager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// Its name.
    pub id: String,
    /// The link that it is for.
    pub interface: String,
    /// Whether it starts by itself.
    pub starts: bool,
}

impl Facts {
    /// The facts of this machine. Only root can read profiles.
    pub fn read() -> Self {
        let files = PROFILES.iter().filter_map(|dir| fs::read_dir(dir).ok()).flatten().flatten();
        let texts = files.filter_map(|file| fs::read_to_string(file.path()).ok());
        Self {
            profiles: texts.filter_map(|text| profile(&text)).collect(),
            has_firewalld: Path::new(FIREWALLD).exists(),
            ssh: Ssh::here(),
        }
    }
}

/// The profile of a keyfile, if it is for one link.
pub(crate) fn profile(text: &str) -> Option<Profile> {
    let lines = text.lines().map(str::trim).skip_while(|line| *line != "[connection]").skip(1);
    let lines: Vec<&str> = lines.take_while(|line| !line.starts_with('[')).collect();
    let value = |key: &str| {
        let mut pairs = lines.iter().filter_map(|line| line.split_once('='));
        pairs.find(|(one, _)| one.trim() == key).map(|(_, value)| value.trim().to_owned())
    };
    let interface = value("interface-name")?;
    let starts = value("autoconnect").is_none_or(|value| !["false", "0", "no"].contains(&value.as_str()));
    Some(Profile { id: value("id").unwrap_or_default(), interface, starts })
}

/// What a plan warns of, as sentences.
pub fn warnings(topology: &Topology, facts: &Facts, live: &Live) -> Vec<String> {
    let mut warnings = Vec::new();
    for Profile { id, interface, .. } in facts.profiles.iter().filter(|one| one.starts) {
        // Ours are named after their links.
        if id != interface && topology.link(interface).is_some() {
            warnings.push(format!(
                "the profile \"{id}\" of NetworkManager claims {interface}, too, and may start first: apply removes it; else remove it, or set \
                 its autoconnect to no"
            ));
        }
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
    use crate::topology::Prefix;
    use millstream_host::kernel::link::{NetKind, NetLink};

    #[test]
    fn profiles_are_read_if_they_are_for_one_link() {
        let text =
            "# by hand\n[connection]\nid=Wired connection 1\ntype=ethernet\ninterface-name=eth0\n\n[ipv4]\nid=no\n";
        let profile = |text: &str| super::profile(text).map(|one| (one.id, one.interface, one.starts));
        assert_eq!(profile(text), Some(("Wired connection 1".to_owned(), "eth0".to_owned(), true)));
        let spaced =
            text.replace("interface-name=eth0", "interface-name = eth0").replace("id=Wired connection 1\n", "");
        assert_eq!(profile(&spaced), Some((String::new(), "eth0".to_owned(), true)));
        assert_eq!(profile(&text.replace("interface-name=eth0\n", "")), None);
        let quiet = profile(&text.replace("type=", "autoconnect=false\ntype="));
        assert_eq!(quiet.map(|(.., starts)| starts), Some(false));
    }

    #[test]
    fn what_this_machine_makes_of_a_topology_is_named() {
        let topology = Topology::parse("[cards.eth0]\nzone = 'public'\n[cards.eth1]\n").unwrap();
        let link = |name: &str, below: &[&str]| NetLink {
            name: name.to_owned(),
            kind: NetKind::Card,
            mtu: None,
            is_on: true,
            has_carrier: None,
            below: below.iter().map(|name| (*name).to_owned()).collect(),
            is_used: false,
            port_state: None,
        };
        let address = Prefix { address: [192, 0, 2, 5].into(), length: 24 };
        let live = Live {
            links: vec![link("v5", &["bond0"]), link("bond0", &["eth1"]), link("eth1", &[]), link("eth0", &[])],
            addresses: [("v5".to_owned(), vec![address])].into(),
        };
        let profile =
            |id: &str, interface: &str| Profile { id: id.to_owned(), interface: interface.to_owned(), starts: true };
        let facts = Facts {
            profiles: vec![profile("Wired connection 1", "eth0"), profile("eth1", "eth1"), profile("other", "eth7")],
            has_firewalld: false,
            ssh: Ssh::parse("203.0.113.7 50022 192.0.2.5 22"),
        };
        let said = warnings(&topology, &facts, &live);
        assert_eq!(said.len(), 3, "{said:?}");
        assert!(
            said[0].starts_with("the profile \"Wired connection 1\" of NetworkManager claims eth0, too"),
            "{said:?}"
        );
        assert!(said[1].contains("the zone of eth0 means nothing"), "{said:?}");
        assert_eq!(said[2], "your ssh session comes in by eth1: a mistake cuts you off");
        let quiet = Facts { has_firewalld: true, ssh: Ssh::parse("203.0.113.7 5 192.0.2.9 22"), ..Facts::default() };
        assert_eq!(warnings(&topology, &quiet, &live), [""; 0]);
    }
}
