//! Changes that commands make and take back: their kinds, their journal, and what every command says of them.

mod commands;
mod watchdog;

pub use commands::{ConfirmArgs, NumberArg, UndoArgs, changes, confirm, confirm_change, undo, undo_change};
pub use watchdog::{UndoInTimeArgs, made, undo_in_time};

use crate::args::TargetArgs;
use crate::failure::Failure;
use crate::output::note;
use crate::quantity::age;
use crate::target::resolve_running;
use millstream_change::{Entry, Journal, Kind, Lasting, Place, State, Sysctl, SysfsAttribute, find};
use millstream_doctor::{IndexKind, ProfileKind, RoleSettingKind, SettingKind, TableOptionKind};
use millstream_guard::packet_filter::PacketFilter;
use millstream_local::Home;
use millstream_network::profile::NetworkProfiles;
use millstream_pg::ConnInfo;
use std::time::Duration;

/// The kinds of changes that this program knows.
pub static KINDS: &[&dyn Kind] = &[
    &Sysctl,
    &SysfsAttribute,
    &SettingKind,
    &IndexKind,
    &TableOptionKind,
    &RoleSettingKind,
    &ProfileKind,
    &PacketFilter,
    &NetworkProfiles,
];

/// The journal of all changes.
pub fn journal() -> Result<Journal, Failure> {
    Ok(Journal::new(&Home::choose(None)?.folder("changes")?))
}

/// Where changes are made: this machine, and a server if there is one.
pub fn place(server: Option<ConnInfo>) -> Result<Place, Failure> {
    Ok(Place { server, root: None, lab: Some(Home::choose(None)?.folder("lab")?) })
}

/// The place of a change that was made. One of this machine needs no server.
async fn place_of(entry: &Entry, target: Option<&TargetArgs>) -> Result<Place, Failure> {
    let needs_server = find(KINDS, &entry.kind).is_some_and(|kind| kind.is_of_server());
    match target.filter(|_| needs_server) {
        Some(target) => place(Some(resolve_running(target).await?)),
        None => place(None),
    }
}

/// Prints changes that wait for a confirmation, also those that a kill or a restart has left.
pub fn note_open() {
    let found = journal().and_then(|journal| Ok((journal.open_entries()?, journal)));
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
        let room = room(entry);
        let confirm = format!("millstream {room} confirm {number}, or ");
        let confirm = if entry.state == State::Verified && !is_gone { confirm.as_str() } else { "" };
        note(&format!("  {confirm}millstream {room} undo {number}"));
    }
}

/// Says until when a change must be confirmed, and by which command. `how`: more about that, after a space.
pub fn note_deadline(number: u32, confirm_within: Duration, how: &str, command: &str) {
    let time = age(confirm_within.as_secs_f64().ceil());
    note(&format!("change {number} is in effect, and is undone in {time} unless you confirm it{how}:"));
    note(&format!("  millstream {command}"));
}

/// Whether the new value survives a restart of the machine by itself, or a part of it does.
fn lasts(entry: &Entry) -> bool {
    let lasting = |kind: &dyn Kind| kind.lasting(&Place::default(), &entry.target, entry.value.as_deref());
    let stays = |kind: &dyn Kind| kind.lasts().is_some_and(|lasts| lasts.stays_in_part(&entry.target));
    find(KINDS, &entry.kind).is_none_or(|kind| stays(kind) || lasting(kind) == Ok(Lasting::Always))
}

/// The first word of the commands that confirm and undo a change.
fn room(entry: &Entry) -> &'static str {
    find(KINDS, &entry.kind).map_or("doctor", Kind::commands)
}

fn described(entry: &Entry) -> String {
    format!("{}: {} -> {}", entry.target, shown(entry.before.as_deref()), shown(entry.value.as_deref()))
}

pub fn shown(value: Option<&str>) -> &str {
    value.unwrap_or("none")
}
