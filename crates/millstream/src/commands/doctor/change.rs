//! `doctor fix`, `confirm`, `undo`, `changes`: applies what the doctor recommends, and takes it back.

use super::measure;
use crate::args::{TargetArgs, duration};
use crate::confirmation::{can_ask, confirmed};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::limits::{CHANGE_LATE_SECONDS_MAX, CHANGE_LOOK, CHANGE_PAUSE_MAX, WATCH_READY_MAX};
use crate::output::{Output, note};
use crate::quantity::age;
use crate::signal::Signals;
use crate::target::resolve_running;
use millstream_doctor::{IndexKind, Report, Request, RoleSettingKind, SettingKind, TableOptionKind, examine, leftover};
use millstream_host::{
    Command, Engine, Entry, Journal, KERNEL_KINDS, Kind, Lasting, LastingLine, Refusal, State, Undone, leave_terminal,
};
use millstream_local::Home;
use millstream_model::{Change, Finding, Repair};
use millstream_pg::ConnInfo;
use std::path::PathBuf;
use std::time::Duration;

/// Apply the repair of a finding
///
/// Shows what changes, asks, applies it, and reads it again. The old value is on the disk before anything is touched.
/// With --confirm-within, the change is undone by itself unless you confirm it in that time: also if this program or the
/// terminal dies.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  millstream doctor fix durability-off:fsync\n  millstream doctor fix zone-reclaim:vm.zone_reclaim_mode --apply\n  millstream doctor fix sort-index:shop:public.orders_pkey --plan-as app_role\n  millstream doctor fix commit-delay:commit_delay --experiment > delay.toml"
)]
pub struct FixArgs {
    /// Key of the finding, as the report prints it
    key: String,

    /// Do not ask
    #[arg(long)]
    apply: bool,

    /// Plan statements to find the finding again, as `doctor --prove` does
    #[arg(long)]
    prove: bool,

    /// The same in a session of this role; a superuser must name one
    #[arg(long, value_name = "ROLE")]
    plan_as: Option<String>,

    /// Stop looking for the finding after this time
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
    budget: Duration,

    /// Print an experiment for `lab run` that measures the change, and change nothing
    #[arg(long, conflicts_with_all = ["apply", "measure", "confirm_within"])]
    experiment: bool,

    /// Run that experiment first, on a server of the lab, and change it only if it is faster; takes a quarter of an hour
    #[arg(long)]
    measure: bool,

    /// Undo the change after this time unless it is confirmed
    #[arg(long, value_name = "TIME", value_parser = duration)]
    confirm_within: Option<Duration>,

    /// File with thresholds and silenced findings [default: doctor.toml, if it is there]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    #[command(flatten)]
    target: TargetArgs,
}

/// Let a change stay, and beyond a restart if it can
///
/// Without NUMBER, the newest one that waits.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  millstream doctor confirm\n  millstream doctor confirm 3")]
pub struct ConfirmArgs {
    /// Number of the change
    number: Option<u32>,

    #[command(flatten)]
    target: TargetArgs,
}

/// Give back the old value
///
/// Refuses if somebody else has changed the value since; --keep closes such a change. Without NUMBER, the newest change
/// that is not confirmed.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  millstream doctor undo\n  millstream doctor undo 3 --db postgres://postgres@db1/shop\n  millstream doctor undo 3 --keep"
)]
pub struct UndoArgs {
    /// Number of the change
    number: Option<u32>,

    /// Only close the change, and keep the present value: somebody else has set it, or the server or device is gone
    ///
    /// Takes back the line that makes the change last beyond a restart, if it is still there.
    #[arg(long)]
    keep: bool,

    #[command(flatten)]
    target: TargetArgs,
}

/// Watch over a change until it is confirmed, or undo it in time
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  millstream doctor undo-in-time 3")]
pub struct UndoInTimeArgs {
    /// Number of the change
    number: u32,

    #[command(flatten)]
    target: TargetArgs,
}

/// The kinds of changes that this program knows: those of the kernel, and those of a server.
struct Kinds(Option<ServerKinds>);

struct ServerKinds {
    setting: SettingKind,
    index: IndexKind,
    option: TableOptionKind,
    role: RoleSettingKind,
}

impl Kinds {
    fn of(db: &ConnInfo) -> Self {
        let db = || db.clone();
        Self(Some(ServerKinds {
            setting: SettingKind { db: db() },
            index: IndexKind { db: db() },
            option: TableOptionKind { db: db() },
            role: RoleSettingKind { db: db() },
        }))
    }

    /// The kinds for a change that was made. A change of the kernel needs no server.
    async fn for_change(entry: &Entry, target: &TargetArgs) -> Result<Self, Failure> {
        if is_of_kernel(&entry.kind) {
            return Ok(Self(None));
        }
        Ok(Self::of(&resolve_running(target).await?))
    }

    fn all(&self) -> Vec<&dyn Kind> {
        let [sysctl, sysfs] = KERNEL_KINDS;
        let mut all: Vec<&dyn Kind> = vec![sysctl, sysfs];
        if let Self(Some(ServerKinds { setting, index, option, role })) = self {
            all.extend([setting as &dyn Kind, index, option, role]);
        }
        all
    }
}

fn is_of_kernel(kind: &str) -> bool {
    KERNEL_KINDS.iter().any(|one| one.name() == kind)
}

fn journal() -> Result<Journal, Failure> {
    Ok(Journal::new(&Home::choose(None)?.dir.join("changes")))
}

fn refused(refusal: Refusal) -> Failure {
    Failure::user(refusal.0)
}

/// Prints changes that wait for a confirmation, also those that a kill or a restart has left.
pub fn note_open() {
    let found = journal().and_then(|journal| Ok((journal.open_entries().map_err(refused)?, journal)));
    let (entries, journal) = match found {
        Ok(found) => found,
        Err(failure) => return note(&format!("warning: the journal of changes cannot be read: {failure}")),
    };
    for entry in &entries {
        let is_restarted = journal.is_of_earlier_boot(entry);
        let since = if is_restarted { ", made before the machine was started again" } else { "" };
        let number = entry.number;
        note(&format!("change {number} is not confirmed{since}: {}", described(entry)));
        if let Some(server) = &entry.server {
            note(&format!("  server: {server}"));
        }
        // A restart has taken away what a line does not make last.
        let is_gone = is_restarted && is_of_kernel(&entry.kind) && entry.line.is_none();
        let confirm = format!("millstream doctor confirm {number}, or ");
        let confirm = if entry.state == State::Verified && !is_gone { confirm.as_str() } else { "" };
        note(&format!("  {confirm}millstream doctor undo {number}"));
    }
}

/// Runs `doctor fix`.
pub async fn fix(args: &FixArgs, output: Output, signals: &Signals) -> Result<Exit, Failure> {
    note_open();
    let db = resolve_running(&args.target).await?;
    let check = args.key.split(':').next().unwrap_or_default();
    if super::check(check).is_none() {
        return Err(super::unknown(check));
    }
    let (checks, settings, today) = (vec![check.to_owned()], super::settings(args.config.as_deref())?, super::today());
    let request = Request {
        db: db.clone(),
        checks,
        one_database: false,
        key: Some(args.key.clone()),
        budget: args.budget,
        settings,
        planner: super::planner(args.prove, args.plan_as.as_deref(), &db),
        today,
        root: None,
    };
    let report = Box::pin(examine(&request)).await?;
    let finding = report.findings.iter().find(|finding| finding.key == args.key);
    let finding = finding.ok_or_else(|| not_found(&args.key, &report))?;
    let (journal, kinds) = (journal()?, Kinds::of(&db));
    let kinds = kinds.all();
    let engine = Engine::new(&journal, &kinds);
    if args.experiment {
        output.line(experiment(finding, &engine, &db).await?.trim_end())?;
        return Ok(Exit::Done);
    }
    let alone = || Failure::user("there is no terminal to ask on").hint("--apply changes it without asking");
    if args.measure {
        // Not after a quarter of an hour. A change that you make yourself needs no answer.
        let asks = finding.repair.as_ref().is_some_and(|repair| repair.change.is_some());
        if asks && !args.apply && !can_ask() {
            return Err(alone());
        }
        let text = experiment(finding, &engine, &db).await?;
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
    let before = engine.value_now(change).await.map_err(refused)?;
    if let Some(server) = engine.server(change).map_err(refused)? {
        note(&format!("server: {server}"));
    }
    note(&format!("{}: {} -> {}", change.target, shown(before.as_deref()), shown(change.value.as_deref())));
    note(&format!("risk: {}", repair.risk));
    if !args.apply && !confirmed("Change it?", alone)? {
        note("nothing was changed");
        return Ok(Exit::Done);
    }
    let entry = engine.plan(change, &finding.key, args.confirm_within).await.map_err(refused)?;
    if args.confirm_within.is_some()
        && let Err(failure) = watch(entry.number, args.target.db.as_deref()).await
    {
        let _ = engine.undo(entry.number).await;
        return Err(failure);
    }
    let entry = engine.apply(entry.number).await.map_err(refused)?;
    let number = entry.number;
    let server = same_server(&args.target, change);
    match args.confirm_within {
        None => {
            note(&format!("change {number} is in effect"));
            note(&format!("  to keep it, also after a restart: millstream doctor confirm {number}{server}"));
            note(&format!("  to take it back: millstream doctor undo {number}{server}"));
        }
        Some(time) => {
            let time = age(time.as_secs_f64());
            note(&format!("change {number} is in effect, and is undone in {time} unless you confirm it:"));
            note(&format!("  millstream doctor confirm {number}{server}"));
        }
    }
    for command in remaining(repair, change) {
        note(&format!("it is complete only when you have run this on the server's machine: {command}"));
    }
    Ok(Exit::Done)
}

/// Commands of a repair that its change does not make. A change of the kernel makes all of them.
fn remaining<'a>(repair: &'a Repair, change: &Change) -> Vec<&'a str> {
    let commands = repair.commands.iter().filter_map(|command| command.strip_prefix("$ "));
    commands.filter(|_| !is_of_kernel(&change.kind)).collect()
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
    if target.db.is_some() && !is_of_kernel(&change.kind) { " (with the same --db)" } else { "" }
}

/// The experiment that measures what a finding proposes, as a file of the lab.
async fn experiment(finding: &Finding, engine: &Engine<'_>, db: &ConnInfo) -> Result<String, Failure> {
    let change = match &finding.experiment {
        Some(change) => change,
        // You may want to know what a change costs that is no guess.
        None => change_of(finding)?.1,
    };
    let before = engine.value_now(change).await.map_err(refused)?;
    measure::experiment(change, before.as_deref(), db).await
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

/// Starts a process that undoes the change in time, whatever happens to this one.
async fn watch(number: u32, db: Option<&str>) -> Result<(), Failure> {
    let program = std::env::current_exe().map_err(|error| Failure::user("cannot find this program").because(&error))?;
    let mut command = Command::new(program);
    command.args(["doctor", "undo-in-time", &number.to_string()]);
    if let Some(db) = db {
        // It may hold a password, which arguments would show to everybody.
        command.env("MILLSTREAM_DB", db);
    }
    let left = command.leave(WATCH_READY_MAX).await;
    left.map_err(|error| {
        Failure::user("the process that would undo the change does not start; nothing was changed").because(&error)
    })
}

/// Runs `doctor undo-in-time`.
pub async fn undo_in_time(args: &UndoInTimeArgs, output: Output) -> Result<Exit, Failure> {
    leave_terminal();
    let journal = journal()?;
    let kinds = Kinds::for_change(&journal.entry(args.number).map_err(refused)?, &args.target).await?;
    let kinds = kinds.all();
    let engine = Engine::new(&journal, &kinds);
    output.line("watching")?;
    let mut pause = CHANGE_LOOK;
    loop {
        let entry = journal.entry(args.number).map_err(refused)?;
        // Without a deadline, nothing is undone by itself.
        if entry.state.is_over() || entry.deadline.is_none() {
            return Ok(Exit::Done);
        }
        match entry.late_seconds() {
            None => pause = CHANGE_LOOK,
            Some(late) => match engine.undo_if_late(args.number).await {
                // Another process works on it, or has given it another deadline.
                Ok(None) => pause = CHANGE_LOOK,
                // What somebody else has set stays. The next run of the doctor shows that the change is open.
                Ok(Some(_)) => return Ok(Exit::Done),
                Err(refusal) if late >= CHANGE_LATE_SECONDS_MAX => return Err(refused(refusal)),
                // For example the server restarts.
                Err(_) => pause = (2 * pause).min(CHANGE_PAUSE_MAX),
            },
        }
        tokio::time::sleep(pause).await;
    }
}

/// Runs `doctor confirm`.
pub async fn confirm(args: &ConfirmArgs) -> Result<Exit, Failure> {
    let journal = journal()?;
    let number = number(&journal, args.number, |state| state == State::Verified)?;
    let kinds = Kinds::for_change(&journal.entry(number).map_err(refused)?, &args.target).await?;
    let kinds = kinds.all();
    let (entry, lasting) = Engine::new(&journal, &kinds).confirm(number).await.map_err(refused)?;
    note(&format!("change {number} stays: {}", described(&entry)));
    match lasting {
        Lasting::Always => {}
        Lasting::Line { file, .. } => note(&format!("it lasts by a line of {}", file.display())),
        Lasting::UntilRestart(why) => note(&format!("a restart of the machine reverts it: {why}")),
    }
    Ok(Exit::Done)
}

/// Runs `doctor undo`.
pub async fn undo(args: &UndoArgs) -> Result<Exit, Failure> {
    let journal = journal()?;
    let number = number(&journal, args.number, |state| !state.is_over())?;
    let known = journal.entry(number).map_err(refused)?;
    let (entry, undone) = if args.keep {
        // What was changed may be gone: no server is needed.
        Engine::new(&journal, &[]).keep(number).await.map_err(refused)?
    } else {
        let kinds = Kinds::for_change(&known, &args.target).await?;
        let kinds = kinds.all();
        Engine::new(&journal, &kinds).undo(number).await.map_err(refused)?
    };
    let value = shown(entry.before.as_deref());
    match undone {
        Undone::Now => note(&format!("{} is {value} again", entry.target)),
        Undone::Already => note(&format!("{} is {value} already", entry.target)),
        Undone::Removed => {
            note(&format!("{} is {value} again: what the interrupted change had left of it is removed", entry.target));
        }
        Undone::Gone => {
            note(&format!("{} is {value} already", entry.target));
            note("if it was renamed, the change is still in effect under the new name: look for it");
        }
        Undone::Before if entry.state == State::Closed => note(&format!("change {number} was closed before")),
        Undone::Before => note(&format!("change {number} was undone before")),
        Undone::ByRestart => note(&format!("a restart of the machine has undone change {number} already")),
        Undone::Theirs(theirs) => {
            let (target, theirs) = (&entry.target, shown(theirs.as_deref()));
            let hint = format!(
                "millstream doctor undo {number} --keep closes the change and keeps that; or set it to {value} \
                 yourself, and undo the change again"
            );
            return Err(Failure::user(format!("somebody else has changed {target} since: it is {theirs}")).hint(hint));
        }
        Undone::Kept { line_is_back } => {
            let kept = || format!("{} keeps its present value", entry.target);
            // How far a change came that was not verified, is not known.
            let left = leftover(&entry.kind, &entry.target).filter(|_| known.state == State::Planned);
            note(&format!("change {number} is closed; {}", left.unwrap_or_else(kept)));
            match entry.line.as_ref().filter(|_| line_is_back) {
                Some(LastingLine { file, before: Some(before), .. }) => {
                    note(&format!("the line that was there before is back in {}: {before}", file.display()));
                }
                Some(LastingLine { file, .. }) => {
                    note(&format!("the line that made it last is taken back from {}", file.display()));
                }
                None => {}
            }
        }
    }
    Ok(Exit::Done)
}

/// Runs `doctor changes`.
pub fn changes(output: Output) -> Result<Exit, Failure> {
    let entries = journal()?.entries().map_err(refused)?;
    if output.is_json() {
        output.json(&entries)?;
        return Ok(Exit::Done);
    }
    for entry in &entries {
        let state = match entry.state {
            State::Planned => "planned",
            State::Verified => "not confirmed",
            State::Confirmed => "confirmed",
            State::Undone => "undone",
            State::Closed => "closed",
        };
        let ago = age(entry.age_seconds() as f64);
        let server = entry.server.as_ref().map_or_else(String::new, |server| format!(", server: {server}"));
        let Entry { number, reason, .. } = entry;
        output.line(&format!("{number}  {state}, {ago} ago: {} ({reason}){server}", described(entry)))?;
    }
    if entries.is_empty() {
        note("no changes");
    }
    Ok(Exit::Done)
}

fn described(entry: &Entry) -> String {
    format!("{}: {} -> {}", entry.target, shown(entry.before.as_deref()), shown(entry.value.as_deref()))
}

fn shown(value: Option<&str>) -> &str {
    value.unwrap_or("none")
}

/// The number that was given, else that of the newest change that is in such a state.
fn number(journal: &Journal, given: Option<u32>, fits: fn(State) -> bool) -> Result<u32, Failure> {
    if let Some(number) = given {
        return Ok(number);
    }
    let entries = journal.entries().map_err(refused)?;
    let open = entries.iter().rfind(|entry| fits(entry.state));
    let none = || Failure::user("no change waits").hint("millstream doctor changes lists all; undo takes a number");
    open.map(|entry| entry.number).ok_or_else(none)
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
        let target = |db: Option<&str>| TargetArgs { db: db.map(str::to_owned), schema: None };
        let named = target(Some("postgres://db1/shop"));
        assert_eq!(same_server(&named, &change("setting")), " (with the same --db)");
        assert_eq!(same_server(&named, &change("sysctl")), "");
        assert_eq!(same_server(&target(None), &change("setting")), "");
    }
}
