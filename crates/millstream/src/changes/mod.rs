//! Changes that commands make and take back: their kinds, their journal, and what every command says of them.

mod commands;
mod watchdog;

pub use commands::{ConfirmArgs, UndoArgs, changes, confirm, undo};
pub use watchdog::{UndoInTimeArgs, undo_in_time, watch};

use crate::args::TargetArgs;
use crate::failure::Failure;
use crate::output::note;
use crate::target::resolve_running;
use millstream_change::{
    Entry, Journal, Kind, Lasting, Place, Reach, Refusal, State, Sysctl, SysfsAttribute, WayOut, find,
};
use millstream_doctor::{IndexKind, RoleSettingKind, SettingKind, TableOptionKind};
use millstream_local::{HOME_VARIABLE, Home};
use millstream_pg::ConnInfo;

/// The kinds of changes that this program knows.
pub static KINDS: &[&dyn Kind] =
    &[&Sysctl, &SysfsAttribute, &SettingKind, &IndexKind, &TableOptionKind, &RoleSettingKind];

/// The journal of all changes.
pub fn journal() -> Result<Journal, Failure> {
    Ok(Journal::new(&Home::choose(None)?.dir.join("changes")))
}

/// Where changes are made: this machine, and a server if there is one.
pub fn place(server: Option<ConnInfo>) -> Result<Place, Failure> {
    Ok(Place { server, root: None, lab: Some(Home::choose(None)?.dir.join("lab")) })
}

/// The place of a change that was made. One of this machine needs no server.
async fn place_of(entry: &Entry, target: &TargetArgs) -> Result<Place, Failure> {
    let needs_server = find(KINDS, &entry.kind).is_some_and(|kind| kind.reach() == Reach::Server);
    place(if needs_server { Some(resolve_running(target).await?) } else { None })
}

/// A refusal in the words of the command line.
pub fn refused(refusal: Refusal) -> Failure {
    let failure = Failure::user(refusal.to_string());
    let keep =
        |number: &u32| format!("millstream doctor undo {number} --keep closes the change and keeps the present value");
    match refusal.way_out() {
        None => failure,
        Some(WayOut::End(number)) => failure.hint(format!(
            "first run millstream doctor confirm {number} or millstream doctor undo {number}; {}",
            keep(number)
        )),
        Some(WayOut::Undo(number)) => failure.hint(format!("close it with millstream doctor undo {number}")),
        Some(WayOut::Keep(number)) => failure.hint(keep(number)),
        Some(WayOut::KeepIfGone(number)) => {
            failure.hint(format!("if what was changed is gone for good, {}", keep(number)))
        }
        Some(WayOut::WaitForLab) => {
            failure.hint("wait for that; if it was killed, the next millstream lab run as root gives them back")
        }
        Some(WayOut::CompareByHand) => failure.hint(
            "fillfactor has one, and so have settings of the kernel, attributes of a disk, and settings of the server \
             that such transactions show; compare two commands of your own with millstream lab run --a COMMAND --b COMMAND",
        ),
        Some(WayOut::MoveLab(disk)) => failure.hint(format!(
            "set {HOME_VARIABLE} to a directory on {disk}, print the experiment with --experiment, and run it with \
             millstream lab run"
        )),
    }
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
        // A restart has taken away what nothing makes last.
        let is_gone = is_restarted && !entry.lasts_by_file() && !lasts(entry);
        let confirm = format!("millstream doctor confirm {number}, or ");
        let confirm = if entry.state == State::Verified && !is_gone { confirm.as_str() } else { "" };
        note(&format!("  {confirm}millstream doctor undo {number}"));
    }
}

/// Whether the new value survives a restart of the machine by itself.
fn lasts(entry: &Entry) -> bool {
    let lasting = |kind: &dyn Kind| kind.lasting(&Place::default(), &entry.target, entry.value.as_deref());
    find(KINDS, &entry.kind).is_none_or(|kind| lasting(kind) == Ok(Lasting::Always))
}

fn described(entry: &Entry) -> String {
    format!("{}: {} -> {}", entry.target, shown(entry.before.as_deref()), shown(entry.value.as_deref()))
}

pub fn shown(value: Option<&str>) -> &str {
    value.unwrap_or("none")
}
