//! `guard status`: what the rules in effect have dropped.

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::quantity::bytes;
use crate::table::{Align, Column, Table};
use millstream_guard::in_effect::{self, Drops};
use millstream_guard::packet_filter;
use millstream_guard::policy::reason;
use serde_json::json;

/// Print how many packets each line of the policy in effect has dropped
///
/// Packets of lines that accept are not counted: that would cost time for each of them.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  millstream guard status --output json")]
pub struct StatusArgs {}

/// Runs the command.
pub async fn run(_args: &StatusArgs, output: Output) -> Result<Exit, Failure> {
    let drops = in_effect::drops().await?.ok_or_else(|| match packet_filter::confirmed_rules() {
        Some(file) => {
            Failure::user("no policy is in effect, although one was confirmed: something has removed its table")
                .hint(format!("nft -f {} loads its rules again", file.display()))
        }
        None => Failure::user("no policy is in effect: there is no table inet millstream")
            .hint("millstream guard apply POLICY loads the rules of one"),
    })?;
    if output.is_json() {
        let drops: Vec<_> = drops
            .iter()
            .map(|drop| json!({ "direction": drop.direction, "line": drop.line, "packets": drop.packets, "bytes": drop.bytes }))
            .collect();
        output.json(&drops)?;
        return Ok(Exit::Done);
    }
    output.table(&Table::of(&drops, COLUMNS))?;
    Ok(Exit::Done)
}

const COLUMNS: &[Column<Drops>] = &[
    ("packets", Align::Right, |drop| drop.packets.to_string()),
    ("bytes", Align::Right, |drop| bytes(drop.bytes)),
    ("", Align::Left, |drop| drop.direction.clone()),
    ("line", Align::Left, |drop| drop.line.clone()),
    ("why", Align::Wrap, |drop| reason(&drop.line)),
];
