//! `guard explain`: why each line is there, and which one decides about a packet.

use super::PolicyArg;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, note};
use crate::table::{Align, Column, Table};
use millstream_guard::policy::{Content, Direction, Flags, Packet, meaning, reason};
use millstream_guard::rules::Rules;
use millstream_model::range::Family;
use serde_json::json;
use std::net::IpAddr;

const EXAMPLES: &str = "\
Examples:
  millstream guard explain host.toml
  millstream guard explain host.toml 10.1.2.3 5432
  millstream guard explain host.toml 192.0.2.53 40000 --udp --from-port 53
  millstream guard explain host.toml 192.0.2.9 443 --out";

/// Print the lines of a policy and why each is there, or the line that decides about a packet
///
/// With ADDRESS and PORT: the first packet of a connection from an address to a port of this host, or with --out from this
/// host to a port there. A limit that has been reached, and what is denied for a time, are left out.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ExplainArgs {
    #[command(flatten)]
    policy: PolicyArg,

    /// Address of the other side
    #[arg(requires = "port")]
    address: Option<IpAddr>,

    /// Port that the packet goes to
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,

    /// The packet leaves this host
    #[arg(long)]
    out: bool,

    /// The packet is one of UDP, not of TCP
    #[arg(long)]
    udp: bool,

    /// Text that the datagram holds, for services that deny one
    #[arg(long, requires = "udp", conflicts_with = "out")]
    text: Option<String>,

    /// Port of the sender
    #[arg(long, value_name = "PORT", default_value_t = 50_000, value_parser = clap::value_parser!(u16).range(1..))]
    from_port: u16,

    /// Interface by which the packet comes in or goes out [default: one that no line names]
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,
}

/// Runs the command.
pub fn run(args: &ExplainArgs, output: Output) -> Result<Exit, Failure> {
    let policy = args.policy.read()?;
    let (Some(peer), Some(to)) = (args.address.map(|address| address.to_canonical()), args.port) else {
        return lines(&Rules::of(&policy), output);
    };
    let content = match args.udp {
        true => Content::Udp { from: args.from_port, to },
        false => Content::Tcp { from: args.from_port, to, flags: Flags::SYN },
    };
    let host = match Family::of(peer) {
        Family::V4 => [0, 0, 0, 0].into(),
        Family::V6 => [0_u16; 8].into(),
    };
    let is_named = policy.services.iter().any(|one| one.interface.is_some())
        || policy.clients.iter().any(|one| one.interface.is_some());
    let interface = match &args.interface {
        Some(name) => name.clone(),
        None if peer.is_loopback() => "lo".to_owned(),
        None => {
            if is_named {
                note("by an interface that no line names; --interface NAME asks about another");
            }
            String::new()
        }
    };
    let (direction, source, destination) =
        if args.out { (Direction::Out, host, peer) } else { (Direction::In, peer, host) };
    let text = args.text.as_deref().map_or(Packet::USUAL_TEXT, str::as_bytes).to_vec();
    let packet = Packet { direction, interface, source, destination, content, text, is_established: false };
    let decision = meaning(&policy, &packet);
    let verdict = if decision.accepts { "accepted" } else { "dropped" };
    let why = reason(&decision.line);
    let known = json!({ "accepted": decision.accepts, "line": decision.line, "reason": why });
    output.print(&known, &format!("{verdict} by {}: {why}", decision.line))?;
    Ok(Exit::Done)
}

fn lines(rules: &Rules, output: Output) -> Result<Exit, Failure> {
    let lines = rules.lines();
    if output.is_json() {
        let lines: Vec<_> = lines.iter().map(|line| json!({ "line": line, "reason": reason(line) })).collect();
        output.json(&lines)?;
        return Ok(Exit::Done);
    }
    let columns: &[Column<String>] =
        &[("line", Align::Left, String::clone), ("why it is there", Align::Wrap, |line| reason(line))];
    output.table(&Table::of(&lines, columns))?;
    Ok(Exit::Done)
}
