//! `network apply`, `confirm` and `undo`: a topology as a change that undoes itself unless it is confirmed.

use super::{TopologyArg, plan};
use crate::args::duration;
use crate::changes::{self, KINDS};
use crate::confirmation::confirmed;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, note};
use millstream_change::{Answer, Changes, Kind, Proposal, Step};
use millstream_model::Change;
use millstream_network::difference::{addressed, missing_cards};
use millstream_network::output::Form;
use millstream_network::profile::{DIRECTORY, NetworkProfiles, TARGET, is_running, now};
use millstream_network::proof::{Asked, verify};
use std::path::Path;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  millstream network apply host.toml
  millstream network apply host.toml --reach db1:5432 --confirm-within 5m --yes";

/// Make a topology by NetworkManager, and take it back unless you confirm it
///
/// Prints the plan and asks. The profiles that the topology replaces are kept. If a link does not start, a gateway does not
/// answer, or a port of --reach is silent for half a minute (longer with DHCP or STP), everything is undone. Otherwise it is
/// undone after --confirm-within, unless you confirm: by a separate process, and by NetworkManager if that is killed.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ApplyArgs {
    #[command(flatten)]
    topology: TopologyArg,

    /// Take it back after this time unless you confirm it
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "60s")]
    confirm_within: Duration,

    /// Also take it back if nobody answers at this port over TCP
    #[arg(long, value_name = "HOST:PORT", value_parser = host_and_port)]
    reach: Vec<String>,

    /// Do not ask the gateways: some are silent
    #[arg(long)]
    no_ping: bool,

    /// Do not ask you
    #[arg(long)]
    yes: bool,
}

/// Take a topology back: the profiles before it are started again
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  millstream network undo\n  millstream network undo 3")]
pub struct UndoArgs {
    /// Number of the change; without it, the newest that is not confirmed
    pub number: Option<u32>,

    /// Only close the change, and keep the profiles that are there
    #[arg(long)]
    pub keep: bool,
}

/// Runs `apply`.
pub async fn apply(args: &ApplyArgs, output: Output) -> Result<Exit, Failure> {
    changes::note_open();
    let plan = plan::made(&args.topology, None)?;
    if let Some(card) = missing_cards(&plan.topology, &plan.live).next() {
        return Err(Failure::user(format!("there is no card {card} on this machine; nothing was changed"))
            .hint("millstream network read lists the links"));
    }
    if !is_running().await {
        output.line(Form::Nmcli.text(&plan.topology, plan.words).trim_end())?;
        return Err(Failure::user(
            "NetworkManager does not run here, or there is no busctl to ask it; nothing was changed",
        )
        .hint("above is what it would do; network plan writes the topology for other programs"));
    }
    let (journal, place) = (changes::journal()?, changes::place(None)?);
    let asked = Asked { gateways: !args.no_ping, ports: args.reach.clone() };
    let before = now(&place).await?;
    let after = before.with(&plan.topology, plan.words, &plan.live);
    let differences = before.differences(&after);
    if differences.is_empty() {
        verify(&plan.topology, &asked).await?;
        note("these profiles are there already, and work");
        return Ok(Exit::Done);
    }
    before.may_become(&after, Path::new(DIRECTORY))?;
    for link in addressed(&plan.topology, &plan.live).filter(|link| !before.runs_on(link, &plan.live)) {
        note(&format!(
            "warning: no profile in {DIRECTORY} has made the addresses of {link}, so nobody brings them back; first write one"
        ));
    }
    note(&format!("in {DIRECTORY}:"));
    differences.iter().for_each(|difference| note(&format!("  {difference}")));
    let alone = || Failure::user("there is no terminal to ask on").hint("--yes applies the topology without asking");
    if !args.yes && !confirmed("Apply this topology?", alone)? {
        note("nothing was changed");
        return Ok(Exit::Done);
    }
    let proposal = Proposal {
        change: Change { kind: NetworkProfiles.name().to_owned(), target: TARGET.to_owned(), value: after.text() },
        from: before.text(),
        reason: args.topology.topology.display().to_string(),
        confirm_within: Some(args.confirm_within),
    };
    let works: Answer<'_, ()> = Box::pin(async {
        let worse = verify(&plan.topology, &asked).await?;
        worse.iter().for_each(|sentence| note(&format!("warning: {sentence}")));
        Ok(())
    });
    let say = |step| match step {
        Step::Applying => note("NetworkManager starts the links"),
        Step::GivenBack => note("the profiles that were there before are back"),
    };
    let made = Changes::new(&journal, KINDS, &place);
    let number = changes::made(&made, &proposal, None, works, &say).await?.number;
    changes::note_deadline(number, args.confirm_within, "", &format!("network confirm {number}"));
    Ok(Exit::Done)
}

/// A host and a port.
fn host_and_port(text: &str) -> Result<String, String> {
    match text.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => Ok(text.to_owned()),
        _ => Err("expected a host and a port, as in db1:5432".to_owned()),
    }
}
