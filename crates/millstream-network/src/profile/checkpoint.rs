//! NetworkManager's own way back: a checkpoint, to which it returns by itself when a time is over. It lives in the memory of
//! the daemon.

use super::bus;
use super::keyfiles::Profiles;
use crate::limits::{CHECKPOINT_START, CHECKPOINT_TAIL};
use millstream_change::Place;
use millstream_host::{make_folder, read_note, remove_whole, write_private};
use millstream_model::Refusal;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where this program notes its checkpoint. A restart of the machine ends both.
const NOTE: &str = "/run/millstream-network.json";

/// The way back deletes profiles that are new, whoever has added them, and takes links that are new out of use. Without the first,
/// the profiles of a change could start again. Source: NetworkManager, `NMCheckpointCreateFlags`.
const FLAGS: &str = "6";

/// A checkpoint of all links.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Checkpoint {
    /// Its object on the bus.
    path: String,
    /// The daemon's name on the bus. A daemon that was restarted has another, and no checkpoint.
    daemon: String,
    /// What tells the profiles at its creation from others.
    pub(super) before: String,
    /// The files of the profiles then, and of those that come. Others are somebody else's.
    pub(super) known: BTreeSet<String>,
}

impl Checkpoint {
    /// Makes a checkpoint. NetworkManager goes back to it after `confirm_within` and the time that activation may take.
    /// `before` and `after`: the profiles now and then.
    ///
    /// # Errors
    /// NetworkManager makes none, for example because another program has one; there is no `busctl`; the note cannot be
    /// written.
    pub(super) async fn make(
        place: &Place,
        before: &Profiles,
        after: &Profiles,
        confirm_within: Duration,
    ) -> Result<(), Refusal> {
        let known = before.names().union(&after.names()).cloned().collect();
        let time = seconds(confirm_within + CHECKPOINT_START);
        let made = bus::call(&["CheckpointCreate", "aouu", "0", &time, FLAGS]).await.map_err(|refusal| {
            refusal.or_hint(
                "another program may be changing the network; wait until it has finished, or for some minutes if it was killed",
            )
        })?;
        let path =
            made["data"][0].as_str().ok_or_else(|| Refusal::new("NetworkManager names no checkpoint"))?.to_owned();
        let daemon = bus::daemon().await.ok_or_else(|| Refusal::new("NetworkManager has ended meanwhile"))?;
        let one = Self { path, daemon, before: before.digest(), known };
        if let Err(refusal) = one.write(place) {
            one.destroy().await?;
            return Err(refusal);
        }
        Ok(())
    }

    /// Notes whose profiles are known, if that is not noted: a restart of the machine has ended the checkpoint, and the change
    /// still waits.
    pub(super) fn recall(place: &Place, before: &Profiles, after: &Profiles) -> Result<(), Refusal> {
        if Self::of_change(place)?.is_some() {
            return Ok(());
        }
        let known = before.names().union(&after.names()).cloned().collect();
        Self { path: String::new(), daemon: String::new(), before: String::new(), known }.write(place)
    }

    fn write(&self, place: &Place) -> Result<(), Refusal> {
        let note = note(place);
        let text = serde_json::to_string(self).map_err(|error| Refusal::new(error.to_string()))?;
        let made = note.parent().map_or(Ok(()), make_folder);
        made.and_then(|()| write_private(&note, &text)).map_err(|error| Refusal::file("write", &note, &error))
    }

    /// The checkpoint of the change that waits, also if the daemon has lost it.
    pub(super) fn of_change(place: &Place) -> Result<Option<Self>, Refusal> {
        let note = note(place);
        let Some(text) = read_note(&note).map_err(|error| Refusal::file("read", &note, &error))? else {
            return Ok(None);
        };
        let parsed = serde_json::from_str(&text);
        parsed.map(Some).map_err(|error| Refusal::new(format!("{} is no checkpoint: {error}", note.display())))
    }

    /// Forgets it.
    ///
    /// # Errors
    /// The note cannot be removed.
    pub(super) fn forget(place: &Place) -> Result<(), Refusal> {
        let note = note(place);
        remove_whole(&note).map_err(|error| Refusal::file("remove", &note, &error))
    }

    /// Lets NetworkManager go back to it a little after this time: our own process comes first.
    ///
    /// # Errors
    /// NetworkManager has no such checkpoint any more.
    pub(super) async fn extend(&self, confirm_within: Duration) -> Result<(), Refusal> {
        let time = seconds(confirm_within + CHECKPOINT_TAIL);
        bus::call(&["CheckpointAdjustRollbackTimeout", "ou", &self.path, &time]).await.map(|_| ())
    }

    /// Goes back to it, unless NetworkManager has done that already. `false`: the daemon was restarted, and has lost it.
    pub(super) async fn roll_back(&self) -> bool {
        if bus::daemon().await.as_ref() != Some(&self.daemon) {
            return false;
        }
        bus::call(&["CheckpointRollback", "o", &self.path]).await.is_ok() || !self.is_there().await
    }

    /// Removes it, so that NetworkManager does not go back to it.
    ///
    /// # Errors
    /// It is still there.
    pub(super) async fn destroy(&self) -> Result<(), Refusal> {
        // Another daemon may have a checkpoint of somebody else under this name.
        if bus::daemon().await.as_ref() != Some(&self.daemon) {
            return Ok(());
        }
        match bus::call(&["CheckpointDestroy", "o", &self.path]).await {
            Err(refusal) if self.is_there().await => Err(refusal),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    async fn is_there(&self) -> bool {
        if bus::daemon().await.as_ref() != Some(&self.daemon) {
            return false;
        }
        let listed = bus::property("Checkpoints").await.unwrap_or_default();
        listed["data"].as_array().is_some_and(|all| all.iter().any(|one| one == self.path.as_str()))
    }
}

fn note(place: &Place) -> PathBuf {
    place.path(Path::new(NOTE))
}

/// Whole seconds.
fn seconds(time: Duration) -> String {
    u32::try_from(time.as_secs() + 1).unwrap_or(u32::MAX).to_string()
}
