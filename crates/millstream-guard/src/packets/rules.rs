//! Loading a row's rules.

use super::Generator;
use super::row::Row;
use millstream_host::{Sandbox, in_path};
use millstream_model::Refusal;
use millstream_model::range::Family;
use serde::{Deserialize, Serialize};

/// The kernel's answer to a message that is longer than this account may send.
const TOO_LONG: &str = "Message too long";

/// A program that gives the kernel rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Backend {
    /// `nft`.
    Nft,
    /// `iptables`, which makes nftables of its rules.
    IptablesNft,
    /// `iptables` with the kernel's older filter.
    IptablesLegacy,
    /// A program of XDP of our own, which needs root.
    Xdp,
}

impl Backend {
    /// Every backend.
    pub const ALL: [Self; 4] = [Self::Nft, Self::IptablesNft, Self::IptablesLegacy, Self::Xdp];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nft => "nft",
            Self::IptablesNft => "iptables-nft",
            Self::IptablesLegacy => "iptables-legacy",
            Self::Xdp => "xdp",
        }
    }

    /// Why the row cannot be measured here: a program is not installed.
    pub(super) fn missing(self, row: &Row, family: Family) -> Option<String> {
        let mut programs = ["unshare", "nsenter", "ip"].map(str::to_owned).to_vec();
        match self {
            Self::Nft => programs.push("nft".to_owned()),
            Self::IptablesNft | Self::IptablesLegacy => {
                programs.extend(["restore", "save"].map(|what| self.tool(family, what)));
                programs.extend(row.needs_ipset().then(|| "ipset".to_owned()));
            }
            Self::Xdp => {}
        }
        programs
            .iter()
            .find(|program| in_path(program).is_none())
            .map(|program| format!("there is no program {program} in PATH"))
    }

    /// Loads a row's rules into the network. Returns why they cannot be loaded here, if they are too many for this account.
    pub(super) fn load(
        self,
        sandbox: &Sandbox,
        row: &Row,
        generator: Generator,
        family: Family,
    ) -> Result<Option<String>, Refusal> {
        let load = |program: &str, args: &[&str], rules: String| {
            sandbox.feed(0, program, args, rules).map_err(|error| Refusal::new(format!("{}: {error}", row.name)))
        };
        if self == Self::Xdp {
            // The process that makes the packets loads it, and it ends with that.
            return Ok(None);
        }
        if self == Self::Nft {
            return match load("nft", &["-f", "-"], row.nft(generator, family)) {
                // Only root may send the kernel messages of any length.
                Err(refusal) if refusal.problem.contains(TOO_LONG) => {
                    Ok(Some(format!("only root can load so large a set with nft: {TOO_LONG}")))
                }
                loaded => loaded.map(|_| None),
            };
        }
        if let Some(sets) = row.ipset(generator, family) {
            load("ipset", &["restore"], sets)?;
        }
        // Others may hold the lock.
        load(&self.tool(family, "restore"), &["-w"], row.iptables(generator, family)).map(|_| None)
    }

    /// A program of iptables.
    pub(super) fn tool(self, family: Family, what: &str) -> String {
        let program = if family == Family::V4 { self.name().to_owned() } else { self.name().replace("ip", "ip6") };
        format!("{program}-{what}")
    }
}
