//! `network read`: the links of this machine, and what works worse than it should.

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, note};
use crate::table::{Align, Column, Table};
use millstream_host::kernel::link::{NetLink, degraded, links};
use serde_json::json;
use std::path::Path;

/// Print the links of this machine, how they lie on each other, and what works worse than it should
///
/// The exit code is 1 if something works worse than it should. No server is needed; the doctor has the same as checks. Only
/// root sees the partner of a bond that speaks LACP.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  millstream network read")]
pub struct ReadArgs {}

/// Runs the command.
pub fn run(_args: &ReadArgs, output: Output) -> Result<Exit, Failure> {
    let links = links(Path::new("/"))
        .ok_or_else(|| Failure::user("the network links of this machine cannot be read").hint("mount /sys"))?;
    let degraded = degraded(&links);
    if output.is_json() {
        let troubles: Vec<_> =
            degraded.iter().map(|one| json!({ "link": one.link().name, "sentence": one.to_string() })).collect();
        let all: Vec<_> = links.iter().map(as_json).collect();
        output.json(&json!({ "links": all, "degraded": troubles }))?;
    } else {
        output.table(&Table::of(&links, COLUMNS))?;
        for one in &degraded {
            output.line(&format!("degraded: {one}"))?;
        }
        if degraded.is_empty() {
            note("nothing works worse than it should");
        }
    }
    Ok(if degraded.is_empty() { Exit::Done } else { Exit::Findings })
}

const COLUMNS: &[Column<NetLink>] = &[
    ("link", Align::Left, |link| link.name.clone()),
    ("kind", Align::Left, |link| link.kind.name().to_owned()),
    ("state", Align::Left, |link| state(link).to_owned()),
    ("mtu", Align::Right, |link| link.mtu.map_or_else(String::new, |mtu| mtu.to_string())),
    ("lies on", Align::Wrap, |link| link.below.join(", ")),
];

fn state(link: &NetLink) -> &'static str {
    match (link.is_on, link.has_carrier) {
        (false, _) => "off",
        (true, Some(false)) => "no carrier",
        (true, _) => "up",
    }
}

fn as_json(link: &NetLink) -> serde_json::Value {
    let legs = link.bond().map(|bond| {
        let legs: Vec<_> = bond
            .legs
            .iter()
            .map(|leg| json!({ "name": leg.name, "up": leg.is_up, "failures": leg.failures }))
            .collect();
        json!({ "mode": bond.mode, "partner": bond.partner, "cards": legs })
    });
    json!({
        "name": link.name,
        "kind": link.kind.name(),
        "state": state(link),
        "mtu": link.mtu,
        "lies_on": link.below,
        "port_state": link.port_state.map(|state| state.name()),
        "bond": legs,
    })
}
