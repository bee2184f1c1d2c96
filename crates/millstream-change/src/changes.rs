//! Plan, apply, verify, and then confirm or undo.

use crate::journal::{Entry, Journal, State, now};
use crate::kind::{Answer, Kind, Lasting, find};
use crate::lasting;
use crate::limits::CHANGE_START_SECONDS;
use crate::place::Place;
use crate::sides::Sides;
use crate::way_out::{Number, WayOut};
use millstream_failpoint as failpoint;
use millstream_host::setting::same;
use millstream_model::{Change, Refusal};
use millstream_pg::ConnInfo;
use std::time::Duration;

/// Names of the texts beside an entry that holds digests.
const BEFORE: &str = "before";
const VALUE: &str = "value";

/// What an undo did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Undone {
    /// It gave back the old value.
    Now,
    /// The old value was there already.
    Already,
    /// The same, but a write that was interrupted had left something behind, which it removed.
    Removed,
    /// The same, and the old value is that there is none: the target was removed, or it has another name by now, under
    /// which it keeps the new value.
    Gone,
    /// It was undone before.
    Before,
    /// Nothing, because a restart of the machine has taken the new value away.
    ByRestart,
    /// Nothing, because somebody else has changed the value since, to this; `None` if they took it away.
    Theirs(Option<String>),
    /// Nothing, because the user keeps the value that is there. The change is closed.
    Kept {
        /// Whether what made the new value last was there, and was taken back.
        is_back: bool,
    },
}

/// Makes changes, and takes them back.
#[derive(Debug, Clone, Copy)]
pub struct Changes<'a> {
    pub(crate) journal: &'a Journal,
    kinds: &'a [&'a dyn Kind],
    pub(crate) place: &'a Place,
}

impl<'a> Changes<'a> {
    /// Changes of these kinds.
    pub fn new(journal: &'a Journal, kinds: &'a [&'a dyn Kind], place: &'a Place) -> Self {
        Self { journal, kinds, place }
    }

    /// The value of a change's target now.
    ///
    /// # Errors
    /// The kind is not known, or it cannot be read.
    pub async fn value_now(&self, change: &Change) -> Result<Option<String>, Refusal> {
        self.kind(&change.kind)?.read(self.place, &change.target).await
    }

    /// What an experiment of the lab sets that would decide about a change.
    ///
    /// # Errors
    /// The kind is not known, the value cannot be read, or no experiment can make the change here.
    pub async fn sides(&self, change: &Change) -> Result<Sides, Refusal> {
        let kind = self.kind(&change.kind)?;
        let Some(measurable) = kind.measurable().filter(|one| one.shows(change)) else {
            return Err(Refusal::new("this change has no experiment: the transactions of pgbench do not show it")
                .or_hint(WayOut::CompareByHand.to_string()));
        };
        let before = kind.read(self.place, &change.target).await?;
        measurable.sides(self.place, change, before.as_deref()).await
    }

    /// The server that a change would change, without a password. `None`: this machine.
    ///
    /// # Errors
    /// The kind is not known.
    pub fn server(&self, change: &Change) -> Result<Option<String>, Refusal> {
        Ok(self.server_of(self.kind(&change.kind)?))
    }

    /// Records a change with the present value, and why it is made, for example the key of a finding. Nothing is touched
    /// yet. With `confirm_within`, the change has a deadline from now on, so that somebody can watch over it before it is
    /// applied. Until it is verified that is a short one: whoever applies it holds its lock, however long that takes, and
    /// what a kill leaves of it must not stay for the whole time.
    ///
    /// # Errors
    /// It cannot be recorded, the value is there already, another change of the target is open, or somebody holds such
    /// targets for a time.
    pub async fn plan(
        &self,
        change: &Change,
        reason: &str,
        confirm_within: Option<Duration>,
    ) -> Result<Entry, Refusal> {
        let kind = self.kind(&change.kind)?;
        kind.is_free(self.place, None)?;
        let _lock = self.journal.lock(None).await?;
        // The same setting of another server, or of another disk of this name, is another thing.
        let identity = kind.identity(self.place, &change.target).await?;
        let open = self.journal.open_entries()?;
        if let Some(Entry { number, target, .. }) =
            open.iter().find(|one| (&one.kind, &one.target, &one.identity) == (&change.kind, &change.target, &identity))
        {
            let why = format!("change {number} of {target} is neither confirmed nor undone");
            return Err(Refusal::new(why).or_hint(WayOut::End(Number(kind.commands(), *number)).to_string()));
        }
        let large = kind.large();
        let old = match large {
            Some(large) => large.whole(self.place, &change.target).await?,
            None => kind.read(self.place, &change.target).await?,
        };
        let new = match &change.value {
            Some(value) => Some(kind.spelled(self.place, &change.target, value).await?),
            None => None,
        };
        let held = |whole: &String| large.and_then(|large| large.digest(whole)).unwrap_or_else(|| whole.clone());
        let (before, value) = (old.as_ref().map(held), new.as_ref().map(held));
        let is_large = before != old || value != new;
        if same(before.as_deref(), value.as_deref()) {
            return Err(Refusal::new(format!("{} is {} already", change.target, shown(before.as_deref()))));
        }
        let Change { kind: name, target, .. } = change.clone();
        // A part of a second counts as one, and the second that runs is not a whole one.
        let seconds = |time: Duration| u64::try_from(time.as_millis().div_ceil(1_000)).unwrap_or(u64::MAX / 2) + 1;
        let confirm_seconds = confirm_within.map(seconds);
        let whole = [(BEFORE, old.as_deref()), (VALUE, new.as_deref())].into_iter().filter(|_| is_large);
        let beside: Vec<_> = whole.filter_map(|(name, text)| Some((name, text?))).collect();
        let entry = Entry {
            number: 0,
            kind: name,
            target,
            before,
            value,
            is_large,
            reason: reason.to_owned(),
            state: State::Planned,
            planned: now(),
            confirm_seconds,
            deadline: confirm_seconds.map(|_| now() + CHANGE_START_SECONDS),
            boot: self.journal.boot(),
            identity,
            server: self.server_of(kind),
            line: None,
            files: Vec::new(),
        };
        let entry = self.journal.add(entry, &beside)?;
        passed("change-planned").await?;
        Ok(entry)
    }

    /// Applies a plan: writes the new value and reads it again. If that fails, the old value is given back. The deadline
    /// begins when the value is verified.
    ///
    /// # Errors
    /// The target does not take the value, and has its old one.
    pub async fn apply(&self, number: u32) -> Result<Entry, Refusal> {
        self.apply_if_works(number, Box::pin(async { Ok(()) })).await
    }

    /// The same, but the old value is also given back if `works` refuses, which is asked when the new value is there.
    ///
    /// # Errors
    /// As `apply`, and what `works` refuses.
    pub(crate) async fn apply_if_works(&self, number: u32, works: Answer<'_, ()>) -> Result<Entry, Refusal> {
        let _lock = self.journal.lock(Some(number)).await?;
        let mut entry = self.journal.entry(number)?;
        let kind = self.kind(&entry.kind)?;
        if entry.state != State::Planned {
            return Err(Refusal::new(format!("change {number} was applied before, or undone")));
        }
        kind.is_free(self.place, Some(&entry.target))?;
        self.is_thing(kind, &entry).await?;
        if let Err(refusal) = self.write_and_verify(kind, &mut entry, works).await {
            let back = self.give_back(kind, &mut entry).await;
            return Err(back.err().map_or(refusal.clone(), |back| Refusal::new(format!("{refusal}; and {back}"))));
        }
        Ok(entry)
    }

    async fn write_and_verify(&self, kind: &dyn Kind, entry: &mut Entry, works: Answer<'_, ()>) -> Result<(), Refusal> {
        self.write(kind, entry, VALUE).await?;
        passed("change-written").await?;
        is_value(entry, kind.read(self.place, &entry.target).await?.as_deref())?;
        works.await?;
        entry.state = State::Verified;
        entry.deadline = entry.confirm_seconds.map(|seconds| now() + seconds);
        self.journal.write(entry)?;
        passed("change-verified").await
    }

    /// Lets a change stay, and beyond a restart if it can. Confirming it again changes nothing.
    ///
    /// # Errors
    /// It is not in effect, a restart of the machine has undone it, or somebody else has changed the value.
    pub async fn confirm(&self, number: u32) -> Result<(Entry, Lasting), Refusal> {
        let _lock = self.journal.lock(Some(number)).await?;
        let mut entry = self.journal.entry(number)?;
        let kind = self.kind(&entry.kind)?;
        let lasting = kind.lasting(self.place, &entry.target, self.whole(&entry, VALUE)?.as_deref())?;
        match entry.state {
            State::Verified => {}
            State::Confirmed => return Ok((entry, lasting)),
            State::Planned | State::Undone | State::Closed => {
                return Err(Refusal::new(format!("change {number} is not in effect; there is nothing to confirm")));
            }
        }
        if self.is_gone(kind, &entry).await? {
            let why = format!("a restart of the machine has undone change {number}");
            return Err(Refusal::new(why).or_hint(WayOut::Undo(Number(kind.commands(), number)).to_string()));
        }
        kind.may_confirm(entry.since())?;
        kind.is_free(self.place, Some(&entry.target))?;
        self.is_thing(kind, &entry).await?;
        let value = self.value_of(kind, &entry).await?;
        is_value(&entry, value.as_deref())
            .map_err(|why| why.or_hint(WayOut::Keep(Number(kind.commands(), number)).to_string()))?;
        if matches!(lasting, Lasting::Line { .. } | Lasting::Files(_)) {
            let _lock = self.journal.lock(None).await?;
            lasting::note(&lasting, self.journal, &mut entry)?;
            passed("line-recorded").await?;
            lasting::put(&lasting)?;
            passed("line-written").await?;
        }
        self.release(kind).await?;
        entry.state = State::Confirmed;
        entry.deadline = None;
        self.journal.write(&entry)?;
        passed("change-confirmed").await?;
        Ok((entry, lasting))
    }

    /// Gives a target its old value again, also after a confirmation. Repeating it changes nothing. If a restart of the
    /// machine has taken the new value away, it only records that.
    ///
    /// # Errors
    /// The target cannot be read or written.
    pub async fn undo(&self, number: u32) -> Result<(Entry, Undone), Refusal> {
        let _lock = self.journal.lock(Some(number)).await?;
        self.undo_entry(self.journal.entry(number)?).await
    }

    /// The same, but only if nobody has confirmed it in time, or if `is_left` and it was not verified: the process that
    /// applied it has ended. `None` also while another process works on it: that may take long, for example if an index is
    /// built, and the deadline begins afterwards.
    ///
    /// # Errors
    /// As `undo`.
    pub async fn undo_if_late(&self, number: u32, is_left: bool) -> Result<Option<Undone>, Refusal> {
        let Some(_lock) = self.journal.try_lock(number)? else { return Ok(None) };
        let entry = self.journal.entry(number)?;
        let is_left = is_left && entry.state == State::Planned;
        if !entry.is_late() && !is_left {
            return Ok(None);
        }
        Ok(Some(self.undo_entry(entry).await?.1))
    }

    /// Closes a change, and keeps the value that is there, whoever has set it. What made the new value last is taken back
    /// if it is still there. Neither the server nor the device is asked: they may be gone. Repeating it changes nothing.
    ///
    /// # Errors
    /// What made it last cannot be taken back, or the journal cannot be written.
    pub async fn keep(&self, number: u32) -> Result<(Entry, Undone), Refusal> {
        let _lock = self.journal.lock(Some(number)).await?;
        let mut entry = self.journal.entry(number)?;
        if is_taken_back(&entry) {
            return Ok((entry, Undone::Before));
        }
        if !entry.state.is_over()
            && let Ok(kind) = self.kind(&entry.kind)
        {
            self.release(kind).await?;
        }
        let is_back = self.take_lasting_back(&mut entry).await?;
        self.close(&mut entry, State::Closed)?;
        Ok((entry, Undone::Kept { is_back }))
    }

    async fn undo_entry(&self, mut entry: Entry) -> Result<(Entry, Undone), Refusal> {
        if is_taken_back(&entry) {
            return Ok((entry, Undone::Before));
        }
        let kind = self.kind(&entry.kind)?;
        self.is_newest(kind, &entry)?;
        if self.is_gone(kind, &entry).await? {
            self.close(&mut entry, State::Undone)?;
            return Ok((entry, Undone::ByRestart));
        }
        kind.is_free(self.place, Some(&entry.target))?;
        self.is_thing(kind, &entry).await?;
        if let Some(way_back) = kind.way_back().filter(|_| entry.state != State::Confirmed) {
            way_back.recall(self.place, &|| Ok([self.whole(&entry, BEFORE)?, self.whole(&entry, VALUE)?]))?;
        }
        let value = self.value_of(kind, &entry).await?;
        let is_old = same(value.as_deref(), entry.before.as_deref());
        if !is_old
            && !kind.overwrites(entry.state == State::Confirmed)
            && !same(value.as_deref(), entry.value.as_deref())
        {
            return Ok((entry, Undone::Theirs(value)));
        }
        let may_be_renamed = entry.state != State::Planned && entry.before.is_none() && kind.can_be_renamed();
        let has_removed = self.give_back(kind, &mut entry).await?;
        let undone = match (is_old, may_be_renamed) {
            (false, _) => Undone::Now,
            (true, _) if has_removed => Undone::Removed,
            (true, false) => Undone::Already,
            (true, true) => Undone::Gone,
        };
        Ok((entry, undone))
    }

    /// Refuses if a later change of a target that is overwritten is in effect: giving back the value before both would
    /// take that one away too.
    fn is_newest(&self, kind: &dyn Kind, entry: &Entry) -> Result<(), Refusal> {
        let is_later = |one: &&Entry| {
            let is_same = (&one.kind, &one.target, &one.identity) == (&entry.kind, &entry.target, &entry.identity);
            is_same && one.number > entry.number && !is_taken_back(one)
        };
        let entries =
            if kind.overwrites(entry.state == State::Confirmed) { self.journal.entries()? } else { Vec::new() };
        match entries.iter().filter(is_later).map(|one| one.number).next_back() {
            None => Ok(()),
            Some(later) => Err(Refusal::new(format!("change {later} of {} came later", entry.target))
                .or_hint(WayOut::UndoFirst(Number(kind.commands(), later)).to_string())),
        }
    }

    /// Refuses if a later change lasts by the same line or file: what is there may be its own, although this one wrote the same.
    fn is_last_written(&self, entry: &Entry) -> Result<(), Refusal> {
        if !entry.lasts_by_file() || !lasting::is_left(self.journal, entry)? {
            return Ok(());
        }
        let is_later = |one: &&Entry| one.number > entry.number && !is_taken_back(one) && lasting::meet(one, entry);
        let entries = self.journal.entries()?;
        let Some(later) = entries.iter().rfind(is_later) else { return Ok(()) };
        let number = Number(self.kind(&later.kind)?.commands(), later.number);
        Err(Refusal::new(format!("change {} lasts by the same file, and came later", later.number))
            .or_hint(WayOut::UndoFirst(number).to_string()))
    }

    /// Refuses an entry whose notes of what makes it last its kind cannot have made.
    fn check_lasting(&self, entry: &Entry) -> Result<(), Refusal> {
        if !entry.lasts_by_file() {
            return Ok(());
        }
        let files = self.kind(&entry.kind)?.lasts().map(|lasts| lasts.files(self.place, &entry.target));
        lasting::check(entry, &files.unwrap_or_default())
    }

    /// Whether a restart of the machine has taken the value away, and nothing of ours brings it back.
    async fn is_gone(&self, kind: &dyn Kind, entry: &Entry) -> Result<bool, Refusal> {
        self.check_lasting(entry)?;
        let stays = kind.lasts().is_some_and(|lasts| lasts.stays_in_part(&entry.target));
        let lasts = kind.lasting(self.place, &entry.target, entry.value.as_deref())? == Lasting::Always;
        if lasts || stays || !self.journal.is_of_earlier_boot(entry) {
            return Ok(false);
        }
        // The target itself may be another disk by now.
        if !entry.lasts_by_file() {
            return Ok(true);
        }
        // Somebody may have removed what makes it last after it took effect.
        let value = kind.read(self.place, &entry.target).await;
        let is_new = value.is_ok_and(|value| same(value.as_deref(), entry.value.as_deref()));
        Ok(!is_new && !lasting::is_there(self.journal, entry)?)
    }

    /// Puts back what made the value last, and the value. Only then the change counts as undone. `true` if it removed
    /// what a write that was interrupted had left behind.
    async fn give_back(&self, kind: &dyn Kind, entry: &mut Entry) -> Result<bool, Refusal> {
        self.take_lasting_back(entry).await?;
        // How far a write came that was not verified, is not known.
        let has_parts = match kind.breakable().filter(|_| entry.state == State::Planned) {
            Some(breakable) => {
                let has_parts = breakable.has_parts(self.place, &entry.target).await;
                has_parts.map_err(|why| perhaps_gone(why, kind, entry))?
            }
            None => false,
        };
        if has_parts || !same(self.value_of(kind, entry).await?.as_deref(), entry.before.as_deref()) {
            let written = self.write(kind, entry, BEFORE).await;
            written.map_err(|why| perhaps_gone(why, kind, entry))?;
            let now = self.value_of(kind, entry).await?;
            if !same(now.as_deref(), entry.before.as_deref()) {
                let (now, before) = (shown(now.as_deref()), shown(entry.before.as_deref()));
                let why = format!("{} is still {now}, although {before} was written", entry.target);
                return Err(perhaps_gone(Refusal::new(why), kind, entry));
            }
        }
        passed("value-restored").await?;
        self.release(kind).await?;
        self.close(entry, State::Undone)?;
        Ok(has_parts)
    }

    /// Puts back what was there before a confirmation made the change last. `false` if nothing of ours is there.
    async fn take_lasting_back(&self, entry: &mut Entry) -> Result<bool, Refusal> {
        self.check_lasting(entry)?;
        self.is_last_written(entry)?;
        if entry.state == State::Confirmed {
            // If this is interrupted, the next run must show it.
            entry.state = State::Verified;
            self.journal.write(entry)?;
            passed("change-reopened").await?;
        }
        if !entry.lasts_by_file() {
            return Ok(false);
        }
        let _lock = self.journal.lock(None).await?;
        let is_back = lasting::take_back(self.journal, entry)?;
        passed("line-restored").await?;
        Ok(is_back)
    }

    /// Ends what would give the old value back by itself.
    async fn release(&self, kind: &dyn Kind) -> Result<(), Refusal> {
        match kind.way_back() {
            Some(way_back) => way_back.release(self.place).await,
            None => Ok(()),
        }
    }

    fn close(&self, entry: &mut Entry, state: State) -> Result<(), Refusal> {
        entry.state = state;
        entry.deadline = None;
        self.journal.write(entry)
    }

    /// Gives a change's target its new or its old value.
    async fn write(&self, kind: &dyn Kind, entry: &Entry, which: &str) -> Result<(), Refusal> {
        let whole = self.whole(entry, which)?;
        kind.write(self.place, &entry.target, whole.as_deref()).await
    }

    /// The whole new or old value of a change. A large one stands beside the entry, under this name.
    fn whole(&self, entry: &Entry, which: &str) -> Result<Option<String>, Refusal> {
        match if which == VALUE { &entry.value } else { &entry.before } {
            Some(_) if entry.is_large => Ok(Some(self.journal.read_beside(entry.number, which)?)),
            held => Ok(held.clone()),
        }
    }

    /// The value of a change's target now.
    async fn value_of(&self, kind: &dyn Kind, entry: &Entry) -> Result<Option<String>, Refusal> {
        kind.read(self.place, &entry.target).await.map_err(|why| perhaps_gone(why, kind, entry))
    }

    /// Refuses if another thing has the target's name now.
    async fn is_thing(&self, kind: &dyn Kind, entry: &Entry) -> Result<(), Refusal> {
        let identity = kind.identity(self.place, &entry.target).await.map_err(|why| perhaps_gone(why, kind, entry))?;
        if identity == entry.identity {
            return Ok(());
        }
        let why = "is not on the device or server that was changed; nothing was touched";
        Err(perhaps_gone(Refusal::new(format!("{} {why}", entry.target)), kind, entry))
    }

    fn server_of(&self, kind: &dyn Kind) -> Option<String> {
        self.place.server.as_ref().filter(|_| kind.is_of_server()).map(ConnInfo::describe)
    }

    /// The kind of this name.
    pub(crate) fn kind(&self, name: &str) -> Result<&'a dyn Kind, Refusal> {
        find(self.kinds, name).ok_or_else(|| Refusal::new(format!("this version knows no changes of the kind {name}")))
    }
}

/// Passes a point at which a test kills the program.
async fn passed(point: &'static str) -> Result<(), Refusal> {
    failpoint::hit(point).await.map_err(|failed| Refusal::new(failed.to_string()))
}

fn shown(value: Option<&str>) -> &str {
    value.unwrap_or("none")
}

fn is_value(entry: &Entry, now: Option<&str>) -> Result<(), Refusal> {
    if same(now, entry.value.as_deref()) {
        return Ok(());
    }
    Err(Refusal::new(format!("{} is {}, and not {}", entry.target, shown(now), shown(entry.value.as_deref()))))
}

/// Whether a change was undone or closed before.
fn is_taken_back(entry: &Entry) -> bool {
    matches!(entry.state, State::Undone | State::Closed)
}

/// A refusal of the target itself, with what helps if it never answers again.
fn perhaps_gone(why: Refusal, kind: &dyn Kind, entry: &Entry) -> Refusal {
    why.or_hint(WayOut::KeepIfGone(Number(kind.commands(), entry.number)).to_string())
}

#[cfg(test)]
mod tests;
