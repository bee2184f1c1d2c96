//! `guard apply`, `confirm` and `undo`: the rules of a policy as a change that can be taken back.

use super::{PolicyArg, plan, prober};
use crate::args::duration;
use crate::changes::{self, KINDS};
use crate::confirmation::confirmed;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, note};
use millstream_change::{Changes, Kind, Proposal};
use millstream_guard::packet_filter::{PacketFilter, TARGET};
use millstream_guard::prove::try_beside;
use millstream_guard::rules::Rules;
use millstream_guard::warning::{Facts, may_apply};
use millstream_model::Change;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  millstream guard apply host.toml
  millstream guard apply host.toml --confirm-within 5m --yes";

/// Load the rules of a policy, and take them back unless you confirm them over a new connection
///
/// Prints the plan, tries each service beside a copy of the rules of other programs, and asks. Only the table inet
/// millstream is written, in one transaction. Unless you confirm, a separate process restores the old rules when
/// the time is over, also if this one is killed or the terminal is closed.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ApplyArgs {
    #[command(flatten)]
    policy: PolicyArg,

    /// Take the rules back after this time unless they are confirmed
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "60s")]
    confirm_within: Duration,

    /// Do not ask
    #[arg(long)]
    yes: bool,

    /// Apply a policy that has no service for ssh: you can reach this host in another way
    #[arg(long)]
    i_have_console: bool,
}

/// Take the rules back: those before them are loaded again
///
/// Rules of others are not touched.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  millstream guard undo\n  millstream guard undo 3")]
pub struct UndoArgs {
    /// Number of the change; without it, the newest that is not confirmed
    pub number: Option<u32>,

    /// Only close the change, and keep the rules that are there
    #[arg(long)]
    pub keep: bool,
}

/// Runs `apply`.
pub async fn apply(args: &ApplyArgs, output: Output) -> Result<Exit, Failure> {
    changes::note_open();
    let (policy, facts) = (args.policy.read()?, Facts::read().await?);
    may_apply(&policy, &facts, args.i_have_console)?;
    if !plan::print(&policy, &facts, output).await? {
        return Ok(Exit::Done);
    }
    if let Some(why) = try_beside(&policy, &prober()?).await? {
        note(&format!("warning: {why}"));
    }
    let alone = || Failure::user("there is no terminal to ask on").hint("--yes applies the policy without asking");
    if !args.yes && !confirmed("Apply these rules?", alone)? {
        note("nothing was changed");
        return Ok(Exit::Done);
    }
    let (journal, place) = (changes::journal()?, changes::place(None)?);
    let proposal = Proposal {
        change: Change::new(PacketFilter.name(), TARGET, Rules::of(&policy).nft()),
        from: None,
        reason: args.policy.policy.display().to_string(),
        confirm_within: Some(args.confirm_within),
    };
    let made = Changes::new(&journal, KINDS, &place);
    let number = changes::made(&made, &proposal, None, Box::pin(async { Ok(()) }), &|_| {}).await?.number;
    let command = format!("guard confirm {number}");
    changes::note_deadline(number, args.confirm_within, " over a new connection", &command);
    Ok(Exit::Done)
}
