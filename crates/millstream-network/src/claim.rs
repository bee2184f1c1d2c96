//! The links that a profile of NetworkManager claims: one by its name, or cards by address, by pattern, or all of them.

use crate::difference::Live;
use crate::topology::{Link, LinkKind, Topology};
use glob::Pattern;
use millstream_host::kernel::link::NetKind;

/// A profile of NetworkManager.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Profile {
    /// Its name.
    pub id: String,
    /// Whether it starts by itself.
    pub starts: bool,
    /// What it is for.
    claim: Claim,
}

/// What a profile is for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Claim {
    /// The link of this name.
    Name(String),
    /// Every card that has all this.
    Cards {
        /// The hardware address; `None`: any.
        address: Option<String>,
        /// Hardware addresses that it must not have.
        without: Vec<String>,
        /// Patterns of names, with the signs of NetworkManager in front.
        names: Vec<String>,
        /// Whether more is asked that is not looked at here, such as the driver.
        has_more: bool,
    },
}

impl Profile {
    /// The profile of a keyfile, if it is for links that a topology may describe.
    /// Source: NetworkManager, nm-settings-keyfile.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let of = |sections: &[&str], keys: &[&str]| value(text, sections, keys);
        let list = |sections: &[&str], keys: &[&str]| {
            let values = of(sections, keys).unwrap_or_default();
            values.split(';').map(str::trim).filter(|value| !value.is_empty()).map(str::to_owned).collect::<Vec<_>>()
        };
        let ethernet = ["ethernet", "802-3-ethernet"];
        let kind = of(&["connection"], &["type"]).unwrap_or_default();
        let claim = match of(&["connection"], &["interface-name"]) {
            Some(name) => Claim::Name(name.to_owned()),
            // Its link is named after what it lies on.
            None if kind == "vlan" => {
                Claim::Name(format!("{}.{}", of(&["vlan"], &["parent"])?, of(&["vlan"], &["id"])?))
            }
            None if ethernet.contains(&kind) => Claim::Cards {
                address: of(&ethernet, &["mac-address"]).map(plain),
                without: list(&ethernet, &["mac-address-blacklist", "mac-address-denylist"])
                    .iter()
                    .map(|address| plain(address))
                    .collect(),
                names: list(&["match"], &["interface-name"]),
                has_more: of(&["match"], &["driver", "path", "kernel-command-line"]).is_some(),
            },
            None => return None,
        };
        let starts = of(&["connection"], &["autoconnect"]);
        Some(Self {
            id: of(&["connection"], &["id"]).unwrap_or_default().to_owned(),
            starts: starts.is_none_or(|value| !["false", "0", "no"].contains(&value)),
            claim,
        })
    }

    /// Whether it is named after the one link that it is for, as those of a topology are.
    pub(crate) fn is_named_after_its_link(&self) -> bool {
        matches!(&self.claim, Claim::Name(name) if *name == self.id)
    }

    /// The first link of a topology that it claims on this machine.
    pub(crate) fn claimed<'a>(&self, topology: &'a Topology, live: &Live) -> Option<&'a Link> {
        topology.links.iter().find(|link| self.is_for(&link.name, link.kind == LinkKind::Card, live))
    }

    /// Whether it is for no link but those of a topology: then it can go when they come.
    pub(crate) fn is_for_these_alone(&self, topology: &Topology, live: &Live) -> bool {
        let mut others = live.links.iter().filter(|link| topology.link(&link.name).is_none());
        match self.claim {
            Claim::Name(_) => true,
            Claim::Cards { has_more: true, .. } => false,
            Claim::Cards { .. } => !others.any(|link| self.is_for(&link.name, link.kind == NetKind::Card, live)),
        }
    }

    /// Whether it may be for a link.
    pub(crate) fn is_for(&self, link: &str, is_card: bool, live: &Live) -> bool {
        match &self.claim {
            Claim::Name(name) => name == link,
            Claim::Cards { address, without, names, .. } => {
                let own = live.hardware.get(link);
                let is_it = address.is_none() || address.as_ref() == own;
                is_card && is_it && own.is_none_or(|own| !without.contains(own)) && fit(names, link)
            }
        }
    }
}

/// The last value of one of these keys in one of these sections.
fn value<'a>(text: &'a str, sections: &[&str], keys: &[&str]) -> Option<&'a str> {
    let mut section = "";
    let mut found = None;
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            section = name;
        } else if let Some((key, value)) = line.split_once('=')
            && sections.contains(&section)
            && keys.contains(&key.trim())
        {
            found = Some(value.trim());
        }
    }
    found
}

/// A hardware address as the kernel writes it.
fn plain(address: &str) -> String {
    address.replace('-', ":").to_ascii_lowercase()
}

/// Whether a name fits patterns: each that must, and, if there are some that may, one of these.
/// Source: NetworkManager, `nm_wildcard_match_check`.
fn fit(patterns: &[String], name: &str) -> bool {
    let mut may = None;
    for pattern in patterns {
        let is_optional = !pattern.starts_with(['&', '!']);
        let rest = pattern.strip_prefix(['&', '|']).unwrap_or(pattern);
        let (is_inverted, rest) = rest.strip_prefix('!').map_or((false, rest), |rest| (true, rest));
        let rest = rest.strip_prefix('\\').unwrap_or(rest);
        // What is no pattern here may still be one there.
        let fits = match Pattern::new(rest) {
            Ok(one) => one.matches(name) != is_inverted,
            Err(_) => true,
        };
        match is_optional {
            true => may = Some(may.unwrap_or(false) || fits),
            false if !fits => return false,
            false => {}
        }
    }
    may.unwrap_or(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::difference::card;

    fn machine(cards: &[&str]) -> Live {
        let hardware = cards.iter().map(|name| ((*name).to_owned(), format!("52:54:00:00:00:0{}", &name[3..])));
        Live { links: cards.iter().map(|name| card(name)).collect(), hardware: hardware.collect(), ..Live::default() }
    }

    #[test]
    fn profiles_claim_links_by_name_address_pattern_or_all_cards() {
        let live = machine(&["eth0", "eth1", "eth2"]);
        let topology = Topology::parse("[bonds.bond0]\nports = ['eth0', 'eth1']\nmode = 'broadcast'").unwrap();
        let claimed = |text: &str| {
            let profile = Profile::parse(&format!("[connection]\nid=x\n{text}\n"));
            profile.map(|one| {
                let alone = one.is_for_these_alone(&topology, &live);
                one.claimed(&topology, &live).map(|link| (link.name.as_str(), alone))
            })
        };
        let ethernet = |text: &str| claimed(&format!("type=ethernet\n{text}")).unwrap();
        let only = |name| Some((name, true));
        assert_eq!(ethernet("interface-name=eth1"), only("eth1"));
        assert_eq!(ethernet("interface-name = eth7"), None);
        assert_eq!(claimed("type=bond\ninterface-name=bond0"), Some(only("bond0")));
        assert_eq!(claimed("type=vlan\n[vlan]\nparent=eth0\nid=5"), Some(None));
        assert_eq!(claimed("type=wifi"), None);
        assert_eq!(ethernet("[ethernet]\nmac-address=52:54:00:00:00:01"), only("eth1"));
        assert_eq!(ethernet("[802-3-ethernet]\nmac-address=52-54-00-00-00-01"), only("eth1"));
        assert_eq!(ethernet("[ethernet]\nmac-address=52:54:00:00:00:02"), None);
        assert_eq!(ethernet("[match]\ninterface-name=eth[01];"), only("eth0"));
        assert_eq!(ethernet("[match]\ninterface-name=en*;eth1;"), only("eth1"));
        assert_eq!(ethernet("[match]\ninterface-name=eth*;!eth2;"), only("eth0"));
        assert_eq!(ethernet("[match]\ninterface-name=&eth*;&!eth0;&!eth2;"), only("eth1"));
        assert_eq!(ethernet("[match]\ninterface-name=en*;"), None);
        // Those of other cards, too, cannot go.
        let others = |name| Some((name, false));
        assert_eq!(ethernet(""), others("eth0"));
        assert_eq!(ethernet("[match]\ninterface-name=eth*;"), others("eth0"));
        assert_eq!(ethernet("[ethernet]\nmac-address-denylist=52:54:00:00:00:00;"), others("eth1"));
        assert_eq!(ethernet("[match]\ninterface-name=eth1\ndriver=e1000"), others("eth1"));
    }

    #[test]
    fn profiles_are_read_as_networkmanager_reads_them() {
        let text =
            "# by hand\n[connection]\nid=Wired connection 1\ntype=ethernet\ninterface-name=eth0\n\n[ipv4]\nid=no\n";
        let read = |text: &str| Profile::parse(text).map(|one| (one.id, one.claim, one.starts));
        let named = |id: &str, starts| Some((id.to_owned(), Claim::Name("eth0".to_owned()), starts));
        assert_eq!(read(text), named("Wired connection 1", true));
        let spaced =
            text.replace("interface-name=eth0", "interface-name = eth0").replace("id=Wired connection 1\n", "");
        assert_eq!(read(&spaced), named("", true));
        assert_eq!(read(&text.replace("type=", "autoconnect=false\ntype=")), named("Wired connection 1", false));
        assert_eq!(read(""), None);
    }
}
