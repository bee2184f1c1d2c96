//! A note that files were replaced whose profiles have not all been started: whoever was interrupted in that must not find the
//! files as they should be, and call it done.

use millstream_change::Place;
use millstream_host::{make_folder, read_note, remove_whole, write_private};
use millstream_model::Refusal;
use std::collections::BTreeSet;
use std::path::Path;

/// Where the note is. A restart of the machine starts what the files say.
const NOTE: &str = "/run/millstream-network.unfinished";

/// The files that were replaced. `None`: nothing is unfinished.
pub(super) fn read(place: &Place) -> Result<Option<BTreeSet<String>>, Refusal> {
    let note = place.path(Path::new(NOTE));
    let text = read_note(&note).map_err(|error| Refusal::file("read", &note, &error))?;
    Ok(text.map(|text| text.lines().map(str::to_owned).collect()))
}

pub(super) fn write(place: &Place, names: &BTreeSet<String>) -> Result<(), Refusal> {
    let note = place.path(Path::new(NOTE));
    let made = note.parent().map_or(Ok(()), make_folder);
    let text: String = names.iter().map(|name| format!("{name}\n")).collect();
    made.and_then(|()| write_private(&note, &text)).map_err(|error| Refusal::file("write", &note, &error))
}

pub(super) fn remove(place: &Place) -> Result<(), Refusal> {
    let note = place.path(Path::new(NOTE));
    remove_whole(&note).map_err(|error| Refusal::file("remove", &note, &error))
}
