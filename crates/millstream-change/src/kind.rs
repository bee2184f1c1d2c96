//! Kinds of changes: how a value is read and written, how it lasts, and what would decide about it.

use crate::place::Place;
use crate::sides::Sides;
use millstream_model::{Change, Refusal};
use std::fmt::Debug;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;

/// A kind of change, such as a kernel setting. It answers everything about its changes; nothing else knows it by name. A
/// target is the text by which it finds what it changes again, also in another process.
pub trait Kind: Debug + Send + Sync {
    /// Its name in the journal.
    fn name(&self) -> &'static str;

    /// Whether its targets are on the server that the user names, which may be on another machine, and not on this machine.
    fn is_of_server(&self) -> bool {
        false
    }

    /// The first word of the commands that confirm and undo its changes.
    fn commands(&self) -> &'static str {
        "doctor"
    }

    /// Refuses a confirmation that would prove nothing, for example because it comes over a connection that is older than
    /// the change. `since`: when the change took effect, in seconds since 1970.
    ///
    /// # Errors
    /// It would prove nothing.
    fn may_confirm(&self, _since: u64) -> Result<(), Refusal> {
        Ok(())
    }

    /// The value of a target now; `None` if the target has none of its own, so that a default is valid.
    fn read<'a>(&'a self, place: &'a Place, target: &'a str) -> Answer<'a, Option<String>>;

    /// Gives a target a value, or takes its own value away.
    fn write<'a>(&'a self, place: &'a Place, target: &'a str, value: Option<&'a str>) -> Answer<'a, ()>;

    /// A value in the words in which [`Kind::read`] returns it, before it is recorded. Nothing is changed.
    ///
    /// # Errors
    /// The target cannot take the value.
    fn spelled<'a>(&'a self, _place: &'a Place, _target: &'a str, value: &'a str) -> Answer<'a, String> {
        Box::pin(async move { Ok(value.to_owned()) })
    }

    /// For values that are too large for the journal's entry, such as a set of rules: what the entry holds of one. The
    /// whole value then stands in a file beside it, and [`Kind::read`] returns the digest, too.
    fn digest(&self, _whole: &str) -> Option<String> {
        None
    }

    /// The whole value of a target, of which [`Kind::read`] returns the digest.
    fn whole<'a>(&'a self, place: &'a Place, target: &'a str) -> Answer<'a, Option<String>> {
        self.read(place, target)
    }

    /// Whether an undo gives the old value back also if the value was changed since. That holds for targets that
    /// are ours alone, and for those that others may half give back before a confirmation.
    fn overwrites(&self, _is_confirmed: bool) -> bool {
        false
    }

    /// Recalls which things of a target are its own, before a change that was not confirmed is taken back: those of the old and of
    /// the new value, whole. A target may hold things of others, too, which must stay.
    ///
    /// # Errors
    /// That cannot be noted.
    fn recall(&self, _place: &Place, _values: Values<'_>) -> Result<(), Refusal> {
        Ok(())
    }

    /// Ends what would give the old value back by itself, such as a timer of another program. Called before a change is
    /// recorded as confirmed, undone or closed.
    ///
    /// # Errors
    /// It cannot be ended.
    fn release<'a>(&'a self, _place: &'a Place) -> Answer<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    /// What tells the thing behind a target from another that may get its name later, such as a disk's serial number.
    fn identity<'a>(&'a self, _place: &'a Place, _target: &'a str) -> Answer<'a, Option<String>> {
        Box::pin(async { Ok(None) })
    }

    /// Whether an interrupted [`Kind::write`] has left something behind that [`Kind::read`] does not show. Writing the old
    /// value removes it.
    fn has_parts<'a>(&'a self, _place: &'a Place, _target: &'a str) -> Answer<'a, bool> {
        Box::pin(async { Ok(false) })
    }

    /// What an interrupted [`Kind::write`] may have left behind, and how you remove it, as a part of a sentence.
    fn leftover(&self, _target: &str) -> Option<String> {
        None
    }

    /// Whether a target can get another name, under which [`Kind::read`] does not find it.
    fn can_be_renamed(&self) -> bool {
        false
    }

    /// How a value of a target lasts beyond a restart. Of a value that is too large for an entry, that is the whole.
    ///
    /// # Errors
    /// The target is not of this kind.
    fn lasting(&self, _place: &Place, _target: &str, _value: Option<&str>) -> Result<Lasting, Refusal> {
        Ok(Lasting::Always)
    }

    /// Every file by which [`Kind::lasting`] makes a value of this target last, whatever the machine allows now. An undo writes
    /// no other.
    fn lasting_files(&self, _place: &Place, _target: &str) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Refuses while somebody holds this target for a time, and gives it back afterwards: a change meanwhile would be
    /// overwritten, and the value that is read is not the one to come back to. Without a target, refuses while somebody
    /// holds any of this kind.
    ///
    /// # Errors
    /// Somebody does.
    fn is_free(&self, _place: &Place, _target: Option<&str>) -> Result<(), Refusal> {
        Ok(())
    }

    /// Whether an experiment of the lab can make a change for the time of a run, and shows what it does.
    fn is_measurable(&self, _change: &Change) -> bool {
        false
    }

    /// What such an experiment sets. `before`: the value now.
    ///
    /// # Errors
    /// No experiment can make the change in this place.
    fn sides<'a>(&'a self, _place: &'a Place, change: &'a Change, _before: Option<&'a str>) -> Answer<'a, Sides> {
        Box::pin(async { Err(Refusal::new(format!("{} cannot be measured", change.target))) })
    }
}

/// Reads the old and the new value of a change, whole.
pub type Values<'a> = &'a dyn Fn() -> Result<[Option<String>; 2], Refusal>;

/// What a kind answers.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, Refusal>> + Send + 'a>>;

/// How a value lasts beyond a restart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lasting {
    /// By itself.
    Always,
    /// By a line of a file.
    Line {
        /// The file.
        file: PathBuf,
        /// How the line begins. There is at most one such line.
        beginning: String,
        /// The line.
        line: String,
    },
    /// By whole files that are ours alone, each with its text.
    Files(Vec<(PathBuf, String)>),
    /// Not at all, because of this.
    UntilRestart(String),
}

/// The kind of a name.
pub fn find<'a>(kinds: &[&'a dyn Kind], name: &str) -> Option<&'a dyn Kind> {
    kinds.iter().copied().find(|kind| kind.name() == name)
}
