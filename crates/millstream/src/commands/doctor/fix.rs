//! `doctor fix`: applies what the doctor recommends.

use super::measure;
use crate::args::{TargetArgs, duration};
use crate::changes::{self, KINDS, place, shown};
use crate::confirmation::{can_ask, confirmed};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, note};
use crate::signal::Signals;
use crate::target::resolve_running;
use millstream_change::{Changes, Proposal, find};
use millstream_doctor::{Report, Request, examine};
use millstream_model::{Change, Finding, Repair};
use std::path::PathBuf;
use std::time::Duration;

/// Apply the repair of a finding
///
/// Shows what changes, asks, applies it, and reads it again. The old value is on the disk before anything is touched.
/// With --confirm-within, the change is undone by itself unless you confirm it in that time: also if this program or the
/// terminal dies.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  millstream doctor fix durability-off:fsync\n  millstream doctor fix zone-reclaim:vm.zone_reclaim_mode --yes\n  millstream doctor fix sort-index:shop:public.orders_pkey --plan-as app_role\n  millstream doctor fix commit-delay:commit_delay --experiment > delay.toml\n  millstream doctor fix --profile database --confirm-within 10m"
)]
pub struct FixArgs {
    /// Key of the finding, as the report prints it
    #[arg(required_unless_present = "profile")]
    key: Option<String>,

    /// Apply a list of settings as one change, with one undo, and say of each line how sure it is
    #[arg(long, value_name = "NAME", conflicts_with_all = ["key", "prove", "plan_as", "budget", "experiment", "measure", "config"])]
    pub(super) profile: Option<ProfileName>,

    /// Do not ask
    #[arg(long)]
    pub(super) yes: bool,

    /// Plan statements to find the finding again, as `doctor --prove` does
    #[arg(long)]
    prove: bool,

    /// Plan as --prove does, in a session of this role; a superuser must name a role
    #[arg(long, value_name = "ROLE")]
    plan_as: Option<String>,

    /// Stop looking for the finding after this time
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    budget: Duration,

    /// Print an experiment for `lab run` that measures the change, and change nothing
    #[arg(long, conflicts_with_all = ["yes", "measure", "confirm_within"])]
    experiment: bool,

    /// Run that experiment first, on a server of the lab, and change it only if it is faster; takes a quarter of an hour,
    /// for settings of checkpoints longer
    #[arg(long)]
    measure: bool,

    /// Undo the change after this time unless it is confirmed
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(super) confirm_within: Option<Duration>,

    /// File with thresholds and silenced findings [default: doctor.toml, if it is there]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    #[command(flatten)]
    pub(super) target: TargetArgs,
}

/// A profile, as an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ProfileName {
    /// What a benchmark of kernels set for a server alone on its machine, as far as it is still true
    Database,
}

/// Runs `doctor fix KEY`.
pub async fn fix(args: &FixArgs, output: Output, signals: &Signals) -> Result<Exit, Failure> {
    let key = args.key.as_deref().unwrap_or_default();
    changes::note_open();
    let db = resolve_running(&args.target).await?;
    let check = key.split(':').next().unwrap_or_default();
    if super::check(check).is_none() {
        return Err(super::unknown(check));
    }
    let (checks, settings, today) = (vec![check.to_owned()], super::settings(args.config.as_deref())?, super::today());
    let request = Request {
        db: db.clone(),
        checks,
        one_database: false,
        key: Some(key.to_owned()),
        budget: args.budget,
        settings,
        planner: super::planner(args.prove, args.plan_as.as_deref(), &db),
        looks_apart: None,
        earlier: None,
        today,
        kinds: KINDS,
        root: None,
    };
    let report = examine(&request).await?;
    let finding = report.findings.iter().find(|finding| finding.key == key);
    let finding = finding.ok_or_else(|| not_found(key, &report))?;
    let (journal, place) = (changes::journal()?, place(Some(db.clone()))?);
    let made = Changes::new(&journal, KINDS, &place);
    if args.experiment {
        output.line(experiment(finding, &made).await?.trim_end())?;
        return Ok(Exit::Done);
    }
    if args.measure {
        // Not after a quarter of an hour. A change that you make yourself needs no answer.
        let asks = finding.repair.as_ref().is_some_and(|repair| repair.change.is_some());
        if asks && !args.yes && !can_ask() {
            return Err(alone());
        }
        let text = experiment(finding, &made).await?;
        let (is_faster, sentence) = Box::pin(measure::measured(&text, &db, output, signals)).await?;
        note(&sentence);
        if !is_faster {
            note("nothing was changed, because the change is not faster by enough to matter");
            return Ok(Exit::Findings);
        }
        if let Some(repair) = finding.repair.as_ref().filter(|repair| repair.change.is_none()) {
            note("the doctor does not make this change, because it needs a restart; do it yourself:");
            repair.commands.iter().for_each(|command| note(&format!("  {command}")));
            return Ok(Exit::Done);
        }
    }
    let (repair, change) = change_of(finding)?;
    let before = made.value_now(change).await?;
    if let Some(server) = made.server(change)? {
        note(&format!("server: {server}"));
    }
    note(&format!("{}: {} -> {}", change.target, shown(before.as_deref()), shown(change.value.as_deref())));
    note(&format!("risk: {}", repair.risk));
    if !args.yes && !confirmed("Change it?", alone)? {
        note("nothing was changed");
        return Ok(Exit::Done);
    }
    let (reason, confirm_within) = (finding.key.clone(), args.confirm_within);
    let proposal = Proposal { change: change.clone(), from: None, reason, confirm_within };
    let typed = args.target.db.as_deref();
    let number = changes::made(&made, &proposal, typed, Box::pin(async { Ok(()) }), &|_| {}).await?.number;
    note_made(number, args.confirm_within, &args.target, change);
    for command in remaining(repair, change) {
        note(&format!("it is complete only when you have run this on the server's machine: {command}"));
    }
    Ok(Exit::Done)
}

/// There is nobody to ask.
pub(super) fn alone() -> Failure {
    Failure::user("there is no terminal to ask on").hint("--yes changes it without asking")
}

/// Says that a change is made, and how to keep it or take it back.
pub(super) fn note_made(number: u32, confirm_within: Option<Duration>, target: &TargetArgs, change: &Change) {
    let server = same_server(target, change);
    match confirm_within {
        None => {
            note(&format!("change {number} is in effect"));
            note(&format!("  to keep it, also after a restart: millstream doctor confirm {number}{server}"));
            note(&format!("  to take it back: millstream doctor undo {number}{server}"));
        }
        Some(time) => changes::note_deadline(number, time, "", &format!("doctor confirm {number}{server}")),
    }
}

/// Commands of a repair that its change does not make. A change of this machine makes all of them.
fn remaining<'a>(repair: &'a Repair, change: &Change) -> Vec<&'a str> {
    let commands = repair.commands.iter().filter_map(|command| command.strip_prefix("$ "));
    commands.filter(|_| is_of_server(change)).collect()
}

fn is_of_server(change: &Change) -> bool {
    find(KINDS, &change.kind).is_some_and(|kind| kind.is_of_server())
}

/// A key that no finding has now. What the check could not look at may be the reason.
fn not_found(key: &str, report: &Report) -> Failure {
    let mut sentence = format!("there is no finding {key} now");
    for skip in &report.skipped {
        let place = skip.database.as_ref().map(|name| format!(" in {name}")).unwrap_or_default();
        sentence += &format!("; not looked at{place}: {}", skip.why);
    }
    Failure::user(sentence)
        .hint("millstream doctor lists what it finds; give fix the same --prove or --plan-as, --config and --db")
}

/// What must be typed besides the number of a change.
fn same_server(target: &TargetArgs, change: &Change) -> &'static str {
    if target.db.is_some() && is_of_server(change) { " (with the same --db)" } else { "" }
}

/// The experiment that measures what a finding proposes, as a file of the lab.
async fn experiment(finding: &Finding, changes: &Changes<'_>) -> Result<String, Failure> {
    let change = match &finding.experiment {
        Some(change) => change,
        // You may want to know what a change costs that is no guess.
        None => change_of(finding)?.1,
    };
    let sides = changes.sides(change).await?;
    Ok(measure::experiment(change, &sides))
}

/// The repair of a finding and its change, if it is one that can be taken back.
fn change_of(finding: &Finding) -> Result<(&Repair, &Change), Failure> {
    let by_hand = |commands: &[String]| {
        let failure = Failure::user("the doctor applies only repairs that it can undo, and this is not one");
        if commands.is_empty() { failure } else { failure.hint(format!("do it yourself: {}", commands.join("; "))) }
    };
    let repair = finding.repair.as_ref().ok_or_else(|| by_hand(&[]))?;
    Ok((repair, repair.change.as_ref().ok_or_else(|| by_hand(&repair.commands))?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_a_server_leaves_what_is_run_on_its_machine() {
        let change = |kind: &str| Change { kind: kind.to_owned(), target: String::new(), value: None };
        let commands = ["alter system set fsync = 'on'", "$ sync"].map(str::to_owned).to_vec();
        let (sentence, risk, restart) = (String::new(), String::new(), millstream_model::Restart::Nothing);
        let repair = Repair { sentence, commands, risk, restart, change: None };
        assert_eq!(remaining(&repair, &change("setting")), ["sync"]);
        assert!(remaining(&repair, &change("sysctl")).is_empty());
    }

    #[test]
    fn only_a_change_of_a_server_asks_for_the_same_server() {
        let change = |kind: &str| Change { kind: kind.to_owned(), target: String::new(), value: None };
        let target = |db: Option<&str>| TargetArgs { db: db.map(str::to_owned), ..TargetArgs::default() };
        let named = target(Some("postgres://db1/shop"));
        assert_eq!(same_server(&named, &change("setting")), " (with the same --db)");
        assert_eq!(same_server(&named, &change("sysctl")), "");
        assert_eq!(same_server(&target(None), &change("setting")), "");
    }
}
