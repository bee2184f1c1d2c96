//! `guard import`: a policy from rules of iptables or nft.

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, note, wrapped};
use crate::quantity::things;
use millstream_guard::import::{Import, Text, import};
use millstream_guard::limits::RULES_BYTES_MAX;
use millstream_guard::prove::Differences;
use millstream_host::{read_at_most, write_target};
use serde_json::{Value, json};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  iptables-save > rules.v4; ip6tables-save > rules.v6
  millstream guard import rules.v4 rules.v6 > host.toml
  nft list ruleset > rules.nft
  millstream guard import rules.nft --to host.toml

Exit code 1 if a rule was left out, or a part of it.";

/// Make a policy from rules of iptables or nft, and list what it cannot say
///
/// The rules are read as text, and nothing is changed. The policy tracks connections. A rule of which one word is not
/// known is left out as a whole, and so is each later rule that accepts packets which that one may drop. Then packets are
/// compared, without sending any: what the policy decides otherwise than the rules is printed by its lines.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ImportArgs {
    /// Files with what iptables-save, ip6tables-save, ipset save or nft list ruleset has printed
    #[arg(value_name = "RULES", required = true)]
    rules: Vec<PathBuf>,

    /// Write the policy to this file, not to standard output
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: &ImportArgs, output: Output) -> Result<Exit, Failure> {
    let mut texts = Vec::new();
    for path in &args.rules {
        let text = read_at_most(path, RULES_BYTES_MAX, Some("give the rules of one table"))?;
        texts.push(Text { file: path.display().to_string(), text });
    }
    let import = import(&texts)?;
    if let Some(path) = &args.to {
        write_target(path, &import.text).map_err(Failure::cannot("write", path))?;
    }
    if output.is_json() {
        output.json(&as_json(&import))?;
    } else {
        if args.to.is_none() {
            output.data(&import.text)?;
        }
        report(&import);
    }
    Ok(if import.left_out.is_empty() { Exit::Done } else { Exit::Findings })
}

/// Says on stderr what the policy does not say, and what it says otherwise.
fn report(import: &Import) {
    for one in &import.left_out {
        // A rule stays on one line, as it is in its file.
        note(&format!("left out: {}: {}\n{}", one.place, one.rule, wrapped(&one.why)));
    }
    for one in import.differences.iter() {
        let examples: Vec<String> = one.examples.iter().map(|packet| format!("\n{packet}")).collect();
        note(&wrapped(&format!("different: {one}, such as{}", examples.concat())));
    }
    import.remarks.iter().for_each(|remark| note(&wrapped(&format!("warning: {remark}"))));
    let (services, clients) = (import.policy.services.len() as u64, import.policy.clients.len() as u64);
    let left_out = import.left_out.len() as u64;
    note(&format!(
        "{}, {}; left out: {}",
        things(services, "service"),
        things(clients, "client"),
        things(left_out, "rule")
    ));
}

fn as_json(import: &Import) -> Value {
    let left_out: Vec<Value> =
        import.left_out.iter().map(|one| json!({ "place": one.place, "rule": one.rule, "reason": one.why })).collect();
    json!({
        "policy": import.text,
        "left_out": left_out,
        "differences": lines(&import.differences),
        "remarks": import.remarks,
    })
}

/// Differences by the lines of a policy, for programs.
pub fn lines(differences: &Differences) -> Vec<Value> {
    let of = |one: &millstream_guard::prove::Difference| {
        let examples: Vec<String> = one.examples.iter().map(ToString::to_string).collect();
        let policy = if one.accepts { "accepts" } else { "drops" };
        json!({ "line": one.line, "policy": policy, "packets": one.packets, "examples": examples })
    };
    differences.iter().map(of).collect()
}
