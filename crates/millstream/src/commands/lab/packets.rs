//! `lab packets` and `lab send-packets`: what the experiment `packets` runs.

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::table::{Align, Table};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use millstream_guard::Prober;
use millstream_guard::packets::{Backend, Generator, Outcome, Row, Traffic, measure, rows, send};
use millstream_model::range::{FAMILIES, Family};
use serde_json::json;

const EXAMPLES: &str = "\
Examples:
  millstream lab packets
  millstream lab packets drop-raw --backend nft
  millstream lab packets drop-xdp --backend xdp --generator live";

const SEND_EXAMPLES: &str = "\
Example, as `lab packets` starts it in a network of its own:
  millstream lab send-packets TRAFFIC";

/// List the rows of the experiment `packets`, or measure one and print its metrics as JSON
#[derive(Debug, clap::Args)]
#[command(hide = true, after_help = EXAMPLES)]
pub struct PacketsArgs {
    /// Row: a construct of a packet filter
    #[arg(value_name = "ROW")]
    row: Option<String>,

    /// What gives the kernel the rules
    #[arg(long, value_name = "PROGRAM", value_parser = by_name(Backend::ALL, Backend::name), default_value = "nft")]
    backend: Backend,

    /// What makes the packets: a socket, or live frames, which a virtual cable receives and nobody sends (as root)
    #[arg(long, value_name = "NAME", value_parser = by_name(Generator::ALL, Generator::name), default_value = "send")]
    generator: Generator,

    /// Family of the addresses
    #[arg(long, value_name = "VERSION", value_parser = by_name(FAMILIES, version), default_value = "4")]
    family: Family,

    /// How long packets are sent
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    seconds: f64,
}

/// Send packets, and print how many they were and how long they took
#[derive(Debug, clap::Args)]
#[command(hide = true, after_help = SEND_EXAMPLES)]
pub struct SendPacketsArgs {
    /// What to send, as JSON
    #[arg(value_name = "TRAFFIC", value_parser = traffic)]
    traffic: Traffic,
}

/// One of these, by its name.
fn by_name<T: Copy + Send + Sync + 'static, const N: usize>(
    all: [T; N],
    name: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(all.map(name)).map(move |typed| {
        let one = all.into_iter().find(|one| name(*one) == typed);
        one.expect("it is a possible value")
    })
}

fn version(family: Family) -> &'static str {
    match family {
        Family::V4 => "4",
        Family::V6 => "6",
    }
}

fn traffic(text: &str) -> Result<Traffic, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

pub fn packets(args: &PacketsArgs, output: Output) -> Result<Exit, Failure> {
    let rows = rows()?;
    let Some(name) = &args.row else { return list(&rows, output) };
    let Some(row) = rows.iter().find(|row| row.name == *name) else {
        let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
        return Err(Failure::user(format!("there is no row {name}")).hint(format!("one of {}", names.join(", "))));
    };
    let program =
        std::env::current_exe().map_err(|error| Failure::user("this program cannot be found").because(&error))?;
    let sender = Prober { program, args: ["lab", "send-packets"].map(str::to_owned).to_vec() };
    let printed = match measure(row, args.backend, args.generator, args.family, args.seconds, &sender)? {
        Outcome::Skipped(why) => json!({ "skipped": why }),
        Outcome::Measured(sent) => {
            let packets = sent.packets as f64;
            json!({
                "packets_per_second": packets / sent.seconds,
                "ns_per_packet": sent.seconds / packets * 1e9,
                "cpu_ns_per_packet": sent.cpu_seconds / packets * 1e9,
            })
        }
    };
    output.line(&printed.to_string())?;
    Ok(Exit::Done)
}

/// The rows, with the nanoseconds that the figures of 2016 mean for a packet.
fn list(rows: &[Row], output: Output) -> Result<Exit, Failure> {
    let mut table = Table::new(&[("row", Align::Left), ("ns in 2016", Align::Right), ("what it does", Align::Wrap)]);
    for row in rows {
        let then = row.ns_2016.map_or_else(String::new, |ns| ns.to_string());
        table.row([row.name.clone(), then, row.about.clone()]);
    }
    output.table(&table)?;
    Ok(Exit::Done)
}

pub fn send_packets(args: &SendPacketsArgs, output: Output) -> Result<Exit, Failure> {
    let sent = send(&args.traffic).map_err(|error| Failure::user("packets cannot be sent").because(&error))?;
    output.line(&json!(sent).to_string())?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    #[derive(Debug, clap::Parser)]
    struct Typed {
        #[command(flatten)]
        args: PacketsArgs,
    }

    fn typed(words: &str) -> PacketsArgs {
        Typed::try_parse_from(["packets"].into_iter().chain(words.split_whitespace())).unwrap().args
    }

    #[test]
    fn every_option_reaches_what_measures() {
        let reached = |words: &str| {
            let PacketsArgs { row, backend, generator, family, seconds } = typed(words);
            (row, backend, generator, family, seconds)
        };
        let row = |name: &str| Some(name.to_owned());
        assert_eq!(reached(""), (None, Backend::Nft, Generator::Send, Family::V4, 1.0));
        for (words, backend, generator, family) in [
            ("--backend nft --generator send --family 4", Backend::Nft, Generator::Send, Family::V4),
            ("--family 6", Backend::Nft, Generator::Send, Family::V6),
            ("--generator live", Backend::Nft, Generator::Live, Family::V4),
            ("--backend iptables-nft", Backend::IptablesNft, Generator::Send, Family::V4),
            ("--backend iptables-legacy", Backend::IptablesLegacy, Generator::Send, Family::V4),
            ("--backend xdp --generator live --family 6", Backend::Xdp, Generator::Live, Family::V6),
        ] {
            let expected = (row("drop-raw"), backend, generator, family, 0.5);
            assert_eq!(reached(&format!("drop-raw {words} --seconds 0.5")), expected, "{words}");
        }
    }
}
