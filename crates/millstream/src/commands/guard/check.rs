//! `guard check`: whether a policy can be used here.

use super::PolicyArg;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, note};
use crate::quantity::things;
use millstream_guard::rules::Rules;
use millstream_guard::warning::doubts;
use serde_json::json;

/// Check a policy and the lists that it names, and let nft read its rules
///
/// Nothing is changed. The rules are given to nft in a network of their own.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  millstream guard check host.toml")]
pub struct CheckArgs {
    #[command(flatten)]
    policy: PolicyArg,
}

/// Runs the command.
pub fn run(args: &CheckArgs, output: Output) -> Result<Exit, Failure> {
    let policy = args.policy.read()?;
    let rules = Rules::of(&policy);
    let (services, clients) = (policy.services.len(), policy.clients.len());
    let (lines, ranges) = (rules.count(), rules.ranges());
    let form = millstream_guard::prove::accepted(&rules)?;
    if let Err(refusal) = rules.fit_nft() {
        note(&format!("warning: this policy cannot be applied: {}", refusal.problem));
    }
    doubts(&policy).iter().for_each(|doubt| note(&format!("warning: {doubt}")));
    let counted = json!({ "services": services, "clients": clients, "rules": lines, "ranges": ranges });
    let counts = [(services, "service"), (clients, "client"), (lines, "rule"), (ranges, "range")];
    let counts = counts.map(|(count, noun)| things(count as u64, noun));
    output.print(
        &counted,
        &format!("{}: {}; {} takes them", args.policy.policy.display(), counts.join(", "), form.name()),
    )?;
    Ok(Exit::Done)
}
