//! Kinds of changes: how a value is read and written, and what a kind has besides that, each in a trait of its own.

use crate::place::Place;
use crate::sides::Sides;
use millstream_model::{Change, Refusal};
use std::fmt::Debug;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

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

    /// What tells the thing behind a target from another that may get its name later, such as a disk's serial number.
    fn identity<'a>(&'a self, _place: &'a Place, _target: &'a str) -> Answer<'a, Option<String>> {
        Box::pin(async { Ok(None) })
    }

    /// Whether a target can get another name, under which [`Kind::read`] does not find it.
    fn can_be_renamed(&self) -> bool {
        false
    }

    /// Whether an undo gives the old value back also if the value was changed since. That holds for targets that
    /// are ours alone, and for those that others may half give back before a confirmation.
    fn overwrites(&self, _is_confirmed: bool) -> bool {
        false
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

    /// Refuses a confirmation that would prove nothing, for example because it comes over a connection that is older than
    /// the change. `since`: when the change took effect, in seconds since 1970.
    ///
    /// # Errors
    /// It would prove nothing.
    fn may_confirm(&self, _since: u64) -> Result<(), Refusal> {
        Ok(())
    }

    /// For values that are too large for the journal's entry, such as a set of rules.
    fn large(&self) -> Option<&dyn Large> {
        None
    }

    /// For values that a restart of the machine takes away.
    fn lasts(&self) -> Option<&dyn Lasts> {
        None
    }

    /// For a write that can be interrupted half-way, so that [`Kind::read`] does not show what it left.
    fn breakable(&self) -> Option<&dyn Breakable> {
        None
    }

    /// For targets that another program sets back by itself if nothing stops it.
    fn way_back(&self) -> Option<&dyn WayBack> {
        None
    }

    /// For changes that an experiment of the lab can make for the time of a run.
    fn measurable(&self) -> Option<&dyn Measurable> {
        None
    }
}

/// Values that are too large for the journal's entry. The entry holds a digest of one, and the whole value stands in a file
/// beside it. [`Kind::read`] returns the digest, too.
pub trait Large: Send + Sync {
    /// The digest of a value. `None`: it is none of this kind.
    fn digest(&self, whole: &str) -> Option<String>;

    /// The whole value of a target now.
    fn whole<'a>(&'a self, place: &'a Place, target: &'a str) -> Answer<'a, Option<String>>;
}

/// Values that do not survive a restart of the machine unless something makes them last.
pub trait Lasts: Send + Sync {
    /// How a value of a target lasts. Of a value that is too large for an entry, that is the whole.
    ///
    /// # Errors
    /// The target is not of this kind.
    fn lasting(&self, place: &Place, target: &str, value: Option<&str>) -> Result<Lasting, Refusal>;

    /// Every file by which [`Lasts::lasting`] makes a value of this target last, whatever the machine allows now. An undo
    /// writes no other.
    fn files(&self, place: &Place, target: &str) -> Vec<PathBuf>;

    /// Whether a part of a target keeps its value beyond a restart by itself. Then a restart has not taken the change away.
    fn stays_in_part(&self, _target: &str) -> bool {
        false
    }
}

/// A write that can be interrupted half-way.
pub trait Breakable: Send + Sync {
    /// Whether an interrupted [`Kind::write`] has left something behind. Writing the old value removes it.
    fn has_parts<'a>(&'a self, place: &'a Place, target: &'a str) -> Answer<'a, bool>;

    /// What it may have left behind, and how you remove it, as a part of a sentence.
    fn leftover(&self, target: &str) -> Option<String>;
}

/// Another program's own way back to the old value, which it takes by itself when a time is over: also if all our processes
/// are killed.
pub trait WayBack: Send + Sync {
    /// Prepares it, before anything is recorded. `values`: the one that the change was made from and the new one, whole. It
    /// may come a little later than `confirm_within`, because our own process comes first.
    ///
    /// # Errors
    /// The other program refuses, or the target has another value by now.
    fn checkpoint<'a>(
        &'a self,
        place: &'a Place,
        values: [Option<&'a str>; 2],
        confirm_within: Duration,
    ) -> Answer<'a, ()>;

    /// Lets it wait so long from now on: the change works, and a person may confirm it.
    ///
    /// # Errors
    /// The other program has no way back any more.
    fn extend<'a>(&'a self, place: &'a Place, confirm_within: Duration) -> Answer<'a, ()>;

    /// Recalls which things of a target are its own, before a change that was not confirmed is taken back: those of the old
    /// and of the new value, whole. A target may hold things of others, too, which must stay.
    ///
    /// # Errors
    /// That cannot be noted.
    fn recall(&self, place: &Place, values: Values<'_>) -> Result<(), Refusal>;

    /// Ends it. Called before a change is recorded as confirmed, undone or closed.
    ///
    /// # Errors
    /// It cannot be ended.
    fn release<'a>(&'a self, place: &'a Place) -> Answer<'a, ()>;
}

/// Changes that an experiment of the lab can make for the time of a run.
pub trait Measurable: Send + Sync {
    /// Whether an experiment shows what the change does.
    fn shows(&self, change: &Change) -> bool;

    /// What such an experiment sets. `before`: the value now.
    ///
    /// # Errors
    /// No experiment can make the change in this place.
    fn sides<'a>(&'a self, place: &'a Place, change: &'a Change, before: Option<&'a str>) -> Answer<'a, Sides>;
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

impl dyn Kind + '_ {
    /// How a value of a target lasts beyond a restart.
    ///
    /// # Errors
    /// As [`Lasts::lasting`].
    pub fn lasting(&self, place: &Place, target: &str, value: Option<&str>) -> Result<Lasting, Refusal> {
        self.lasts().map_or(Ok(Lasting::Always), |lasts| lasts.lasting(place, target, value))
    }
}

/// The kind of a name.
pub fn find<'a>(kinds: &[&'a dyn Kind], name: &str) -> Option<&'a dyn Kind> {
    kinds.iter().copied().find(|kind| kind.name() == name)
}
