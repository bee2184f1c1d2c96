//! The rules of others as what their programs read, to make them once more in another network.

use super::{LEGACY, saved};
use crate::limits::RULES_BYTES_MAX;
use crate::nft::{asked, printed};
use crate::rules::TABLE;
use millstream_host::{Sandbox, in_path};
use millstream_model::Refusal;

/// The rules of other programs on a host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Copied {
    /// Tables of nft, as a script.
    pub nft: String,
    /// Programs that make tables of iptables and the sets of addresses that these name, and what they read.
    pub saved: Vec<(&'static str, String)>,
}

/// A family of nft in which iptables makes its tables, and the programs that print and make them. The first that is there is
/// run.
struct Family {
    name: &'static str,
    savers: [&'static str; 2],
    restorers: [&'static str; 2],
}

const FAMILIES: [Family; 2] = [
    Family {
        name: "ip",
        savers: ["iptables-nft-save", "iptables-save"],
        restorers: ["iptables-nft-restore", "iptables-restore"],
    },
    Family {
        name: "ip6",
        savers: ["ip6tables-nft-save", "ip6tables-save"],
        restorers: ["ip6tables-nft-restore", "ip6tables-restore"],
    },
];

/// How nft prints what only iptables can read. Its older versions print a remark, which would be lost.
const OF_IPTABLES: [&str; 4] = ["managed by iptables-nft", "xt match ", "xt target ", "# xt_"];

/// What makes sets of addresses, and how rules of iptables name these.
const IPSET: &str = "ipset";
const OF_SETS: [&str; 2] = ["--match-set", "-j SET"];

impl Copied {
    /// Copies the rules of this host that are not ours. Those for ARP are left out, because no policy is about them.
    ///
    /// # Errors
    /// A program is missing, this account may not ask, or there is too much.
    pub async fn read() -> Result<Self, Refusal> {
        let mut copied = Self::default();
        let tables = asked(&["list", "tables"]).await?.unwrap_or_default();
        for line in tables.lines().filter(|line| !line.trim().is_empty()) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let &["table", family, name] = words.as_slice() else {
                return Err(Refusal::new(format!("nft lists a table that cannot be read: {line}")));
            };
            if family == "arp" || (family == "inet" && name == TABLE) {
                continue;
            }
            let list = ["--stateless", "list", "table", family, name];
            let text = printed("nft", &list, String::new(), RULES_BYTES_MAX).await?.succeeded()?.stdout;
            if OF_IPTABLES.iter().any(|sign| text.contains(sign)) {
                let made = FAMILIES.iter().find(|one| one.name == family).ok_or_else(|| {
                    Refusal::new(format!("the table {family} {name} has rules that only iptables can read"))
                })?;
                copied.saved.push((first(made.restorers), saved(made.savers, &["-t", name]).await?));
            } else {
                copied.nft += &text;
            }
            if copied.nft.len() as u64 > RULES_BYTES_MAX {
                return Err(Refusal::new("there are too many rules"));
            }
        }
        for (legacy, restorer) in LEGACY.iter().zip(["iptables-legacy-restore", "ip6tables-legacy-restore"]) {
            if let Some((_, rules)) = legacy.saved().await? {
                copied.saved.push((restorer, rules));
            }
        }
        if copied.saved.iter().any(|(_, rules)| OF_SETS.iter().any(|sign| rules.contains(sign))) {
            let sets = saved([IPSET; 2], &["save"]).await?;
            copied.saved.insert(0, (IPSET, sets));
        }
        Ok(copied)
    }

    /// Makes the rules in a network of a sandbox.
    ///
    /// # Errors
    /// A program is missing, or refuses them there: they may name a device or a set that only the host has.
    pub(crate) fn load(&self, sandbox: &Sandbox, network: usize) -> Result<(), Refusal> {
        if !self.nft.is_empty() {
            sandbox.feed(network, "nft", ["-f", "-"], self.nft.clone())?;
        }
        for (program, rules) in &self.saved {
            // Others may hold the lock of iptables.
            let word = if *program == IPSET { "restore" } else { "-w" };
            sandbox.feed(network, program, [word], rules.clone())?;
        }
        Ok(())
    }
}

fn first([first, second]: [&'static str; 2]) -> &'static str {
    if in_path(first).is_some() { first } else { second }
}
