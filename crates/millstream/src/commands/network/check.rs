//! `network check`: the mistakes of a topology.

use super::TopologyArg;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::quantity::things;
use crate::table::{Align, Table};
use millstream_network::lint::{Finding, Level, lint};
use serde_json::json;

/// Find the mistakes of a topology, and say why each is one
///
/// Nothing is changed, and nothing on this host is read. The exit code is 1 if there are errors or warnings; notes are
/// what no description can answer, such as what the switch does.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  millstream network check host.toml")]
pub struct CheckArgs {
    #[command(flatten)]
    topology: TopologyArg,
}

/// Runs the command.
pub fn run(args: &CheckArgs, output: Output) -> Result<Exit, Failure> {
    let topology = args.topology.read()?;
    let findings = lint(&topology);
    if output.is_json() {
        let all: Vec<_> = findings.iter().map(as_json).collect();
        output.json(&all)?;
    } else {
        let mut table =
            Table::new(&[("level", Align::Left), ("place", Align::Left), ("what is wrong, and why", Align::Wrap)]);
        for Finding { lint, level, place, sentence, reason } in &findings {
            table.row([level.name().to_owned(), place.clone(), format!("{sentence} ({lint}): {reason}")]);
        }
        if !findings.is_empty() {
            output.table(&table)?;
        }
        let links = things(topology.links.len() as u64, "link");
        let count = |level| findings.iter().filter(|finding| finding.level == level).count() as u64;
        let [errors, warnings, notes] = [(Level::Error, "error"), (Level::Warning, "warning"), (Level::Note, "note")]
            .map(|(level, noun)| things(count(level), noun));
        output.line(&format!("{links}: {errors}, {warnings}, {notes}"))?;
    }
    let is_found = findings.iter().any(|finding| finding.level < Level::Note);
    Ok(if is_found { Exit::Findings } else { Exit::Done })
}

pub(super) fn as_json(finding: &Finding) -> serde_json::Value {
    json!({
        "lint": finding.lint,
        "level": finding.level.name(),
        "place": finding.place,
        "sentence": finding.sentence,
        "reason": finding.reason,
    })
}
