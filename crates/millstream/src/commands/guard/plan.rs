//! `guard plan`: what a policy would change on this host.

use super::PolicyArg;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, note};
use crate::quantity::things;
use millstream_guard::in_effect::differences;
use millstream_guard::policy::Policy;
use millstream_guard::rules::Rules;
use millstream_guard::warning::{Facts, warnings};
use serde_json::json;

/// Print how a policy would change the rules of this host, and what it would cut
///
/// Nothing is changed. Lines with - go, lines with + come. Of an address list, only the number of ranges and a hash are
/// compared.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  millstream guard plan host.toml")]
pub struct PlanArgs {
    #[command(flatten)]
    policy: PolicyArg,
}

/// Runs the command.
pub async fn run(args: &PlanArgs, output: Output) -> Result<Exit, Failure> {
    let policy = args.policy.read()?;
    print(&policy, &Facts::read().await?, output).await?;
    Ok(Exit::Done)
}

/// Prints the plan. Returns whether it changes something.
pub async fn print(policy: &Policy, facts: &Facts, output: Output) -> Result<bool, Failure> {
    let found = warnings(policy, facts);
    let differences = differences(&Rules::of(policy)).await?;
    let sides = |is_new| differences.iter().filter(move |one| one.is_new == is_new).map(|one| one.text.as_str());
    let [gone, new]: [Vec<&str>; 2] = [sides(false).collect(), sides(true).collect()];
    if output.is_json() {
        output.json(&json!({ "removed": gone, "added": new, "warnings": found }))?;
        return Ok(!differences.is_empty());
    }
    for (sign, lines) in [('-', &gone), ('+', &new)] {
        lines.iter().try_for_each(|line| output.line(&format!("{sign} {line}")))?;
    }
    found.iter().for_each(|warning| note(&format!("warning: {warning}")));
    let (gone, new) = (gone.len() as u64, new.len() as u64);
    note(&match (gone, new) {
        (0, 0) => "these rules are in effect already".to_owned(),
        _ => format!("{} would go, {} would come", things(gone, "line"), things(new, "line")),
    });
    Ok(!differences.is_empty())
}
