//! Loading a row's rules.

use super::backend::Backend;
use super::generator::Generator;
use super::row::Row;
use millstream_host::{Sandbox, in_path};
use millstream_model::Refusal;
use millstream_model::range::Family;

/// The kernel's answer to a message that is longer than this account may send.
const TOO_LONG: &str = "Message too long";

/// Why a row cannot be measured here: a program is not installed.
pub(super) fn missing(row: &Row, backend: Backend, family: Family) -> Option<String> {
    let mut programs = ["unshare", "nsenter", "ip"].map(str::to_owned).to_vec();
    match backend {
        Backend::Nft => programs.push("nft".to_owned()),
        Backend::IptablesNft | Backend::IptablesLegacy => {
            programs.extend(["restore", "save"].map(|what| backend.tool(family, what)));
            programs.extend(row.needs_ipset().then(|| "ipset".to_owned()));
        }
        Backend::Xdp => {}
    }
    programs
        .iter()
        .find(|program| in_path(program).is_none())
        .map(|program| format!("there is no program {program} in PATH"))
}

/// Loads a row's rules into the network. Returns why they cannot be loaded here, if they are too many for this account.
pub(super) fn load(
    sandbox: &Sandbox,
    row: &Row,
    backend: Backend,
    generator: Generator,
    family: Family,
) -> Result<Option<String>, Refusal> {
    let load = |program: &str, args: &[&str], rules: String| {
        sandbox.feed(0, program, args, rules).map_err(|error| Refusal::new(format!("{}: {error}", row.name)))
    };
    if backend == Backend::Xdp {
        // The process that makes the packets loads it, and it ends with that.
        return Ok(None);
    }
    if backend == Backend::Nft {
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
    load(&backend.tool(family, "restore"), &["-w"], row.iptables(generator, family)).map(|_| None)
}
