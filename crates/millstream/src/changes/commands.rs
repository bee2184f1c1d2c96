//! `confirm`, `undo` and `changes`: lets changes stay, takes them back, and lists them.

use super::{KINDS, described, journal, place, place_of, shown};
use crate::args::TargetArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, note};
use crate::quantity::age;
use millstream_change::{Changes, Entry, Journal, Lasting, LastingFile, LastingLine, State, Undone, find};

/// The change that a command of a room confirms.
#[derive(Debug, clap::Args)]
pub struct NumberArg {
    /// Number of the change; without it, the newest that waits
    pub number: Option<u32>,
}

/// Keep a change, also after a restart where possible
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

/// Runs `confirm`.
pub async fn confirm(args: &ConfirmArgs) -> Result<Exit, Failure> {
    confirm_change(args.number, None, Some(&args.target)).await
}

/// Runs `undo`.
pub async fn undo(args: &UndoArgs) -> Result<Exit, Failure> {
    undo_change(args.number, args.keep, None, Some(&args.target)).await
}

/// Lets a change stay. Without a number, the newest one that waits, in one room if that is given.
pub async fn confirm_change(
    given: Option<u32>,
    room: Option<&str>,
    target: Option<&TargetArgs>,
) -> Result<Exit, Failure> {
    let journal = journal()?;
    let number = number(&journal, given, room, |state| state == State::Verified)?;
    let place = place_of(&journal.entry(number)?, target).await?;
    let (entry, lasting) = Changes::new(&journal, KINDS, &place).confirm(number).await?;
    note(&format!("change {number} stays: {}", described(&entry)));
    match lasting {
        Lasting::Always => {}
        Lasting::Line { file, .. } => note(&format!("it lasts by a line of {}", file.display())),
        Lasting::Files(files) => {
            files.iter().for_each(|(file, _)| note(&format!("it lasts by the file {}", file.display())));
        }
        Lasting::UntilRestart(why) => note(&format!("a restart of the machine reverts it: {why}")),
    }
    Ok(Exit::Done)
}

/// Gives back the old value, or only closes the change.
pub async fn undo_change(
    given: Option<u32>,
    keeps: bool,
    room: Option<&str>,
    target: Option<&TargetArgs>,
) -> Result<Exit, Failure> {
    let journal = journal()?;
    let number = number(&journal, given, room, |state| !state.is_over())?;
    let known = journal.entry(number)?;
    let (entry, undone) = if keeps {
        // What was changed may be gone: no server is needed.
        Changes::new(&journal, KINDS, &place(None)?).keep(number).await?
    } else {
        let place = place_of(&known, target).await?;
        Changes::new(&journal, KINDS, &place).undo(number).await?
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
                "millstream {} undo {number} --keep closes the change and keeps that; or set it to {value} yourself, and \
                 undo the change again",
                super::room(&entry)
            );
            return Err(Failure::user(format!("somebody else has changed {target} since: it is {theirs}")).hint(hint));
        }
        Undone::Kept { is_back } => {
            let kept = || format!("{} keeps its present value", entry.target);
            // How far a change came that was not verified, is not known.
            let breakable = find(KINDS, &entry.kind).and_then(|kind| kind.breakable());
            let left = breakable.and_then(|breakable| breakable.leftover(&entry.target));
            let left = left.filter(|_| known.state == State::Planned);
            note(&format!("change {number} is closed; {}", left.unwrap_or_else(kept)));
            match entry.line.as_ref().filter(|_| is_back) {
                Some(LastingLine { file, before: Some(before), .. }) => {
                    note(&format!("the line that was there before is back in {}: {before}", file.display()));
                }
                Some(LastingLine { file, .. }) => {
                    note(&format!("the line that made it last is taken back from {}", file.display()));
                }
                None => {}
            }
            for LastingFile { file, .. } in entry.files.iter().filter(|_| is_back) {
                note(&format!("{} is as it was before, unless somebody has changed it", file.display()));
            }
        }
    }
    Ok(Exit::Done)
}

/// Runs `changes`.
pub fn changes(output: Output) -> Result<Exit, Failure> {
    let entries = journal()?.entries()?;
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

/// The number that was given, else that of the newest change that is in such a state.
fn number(journal: &Journal, given: Option<u32>, room: Option<&str>, fits: fn(State) -> bool) -> Result<u32, Failure> {
    if let Some(number) = given {
        return Ok(number);
    }
    let entries = journal.entries()?;
    let is_there = |entry: &&Entry| room.is_none_or(|room| super::room(entry) == room);
    let open = entries.iter().rfind(|entry| fits(entry.state) && is_there(entry));
    let none = || {
        let confirmed = entries.iter().rfind(|entry| entry.state == State::Confirmed && is_there(entry));
        let hint = confirmed.map_or_else(
            || "millstream doctor changes lists all".to_owned(),
            |one| format!("millstream {} undo {} takes back what was confirmed last", super::room(one), one.number),
        );
        Failure::user("no change waits").hint(hint)
    };
    open.map(|entry| entry.number).ok_or_else(none)
}
