//! The engine: plan, apply, verify, and then confirm or undo.

use super::journal::{Entry, Journal, LastingLine, State, boot, now};
use super::kind::{Kind, Lasting, Refusal};
use super::line;
use crate::limits::CHANGE_START_SECONDS;
use millstream_failpoint as failpoint;
use millstream_model::Change;
use std::time::Duration;

/// What an undo did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Undone {
    /// It gave back the old value.
    Now,
    /// The old value was there already.
    Already,
    /// It was undone before.
    Before,
    /// Nothing, because somebody else has changed the value since, to this; `None` if they took it away.
    Theirs(Option<String>),
}

/// Makes changes, and takes them back.
#[derive(Debug, Clone, Copy)]
pub struct Engine<'a> {
    journal: &'a Journal,
    kinds: &'a [&'a dyn Kind],
}

impl<'a> Engine<'a> {
    /// An engine that knows these kinds.
    pub fn new(journal: &'a Journal, kinds: &'a [&'a dyn Kind]) -> Self {
        Self { journal, kinds }
    }

    /// The value of a change's target now.
    ///
    /// # Errors
    /// The kind is not known, or it cannot be read.
    pub async fn value_now(&self, change: &Change) -> Result<Option<String>, Refusal> {
        self.kind(&change.kind)?.read(&change.target).await
    }

    /// Records a change with the present value, and why it is made, for example the key of a finding. Nothing is touched
    /// yet. With `confirm_within`, the change has a deadline from now on, so that somebody can watch over it before it is
    /// applied.
    ///
    /// # Errors
    /// It cannot be recorded, the value is there already, or another change of the target is open.
    pub async fn plan(
        &self,
        change: &Change,
        reason: &str,
        confirm_within: Option<Duration>,
    ) -> Result<Entry, Refusal> {
        let kind = self.kind(&change.kind)?;
        let _lock = self.journal.lock(None).await?;
        let open = self.journal.open_entries()?;
        if let Some(Entry { number, target, .. }) =
            open.iter().find(|one| (&one.kind, &one.target) == (&change.kind, &change.target))
        {
            let undo = format!("millstream doctor undo {number}");
            return Err(Refusal(format!(
                "change {number} of {target} is neither confirmed nor undone; first run {undo}"
            )));
        }
        let before = kind.read(&change.target).await?;
        if same(before.as_deref(), change.value.as_deref()) {
            return Err(Refusal(format!("{} is {} already", change.target, shown(before.as_deref()))));
        }
        let identity = kind.identity(&change.target).await?;
        let Change { kind: name, target, value } = change.clone();
        // A part of a second counts as one, and the second that runs is not a whole one.
        let whole = |time: Duration| u64::try_from(time.as_millis().div_ceil(1_000)).unwrap_or(u64::MAX / 2) + 1;
        let confirm_seconds = confirm_within.map(whole);
        let entry = self.journal.add(Entry {
            number: 0,
            kind: name,
            target,
            before,
            value,
            reason: reason.to_owned(),
            state: State::Planned,
            planned: now(),
            confirm_seconds,
            deadline: confirm_seconds.map(|seconds| now() + seconds + CHANGE_START_SECONDS),
            boot: boot(),
            identity,
            line: None,
        })?;
        passed("change-planned").await?;
        Ok(entry)
    }

    /// Applies a plan: writes the new value and reads it again. If that fails, the old value is given back. The deadline
    /// begins when the value is verified.
    ///
    /// # Errors
    /// The target does not take the value, and has its old one.
    pub async fn apply(&self, number: u32) -> Result<Entry, Refusal> {
        let _lock = self.journal.lock(Some(number)).await?;
        let mut entry = self.journal.entry(number)?;
        let kind = self.kind(&entry.kind)?;
        if entry.state != State::Planned {
            return Err(Refusal(format!("change {number} was applied before, or undone")));
        }
        is_thing(kind, &entry).await?;
        if let Err(refusal) = self.write_and_verify(kind, &mut entry).await {
            let back = self.give_back(kind, &mut entry).await;
            return Err(back.err().map_or(refusal.clone(), |back| Refusal(format!("{refusal}; and {back}"))));
        }
        Ok(entry)
    }

    async fn write_and_verify(&self, kind: &dyn Kind, entry: &mut Entry) -> Result<(), Refusal> {
        kind.write(&entry.target, entry.value.as_deref()).await?;
        passed("change-written").await?;
        is_value(entry, kind.read(&entry.target).await?.as_deref())?;
        entry.state = State::Verified;
        entry.deadline = entry.confirm_seconds.map(|seconds| now() + seconds);
        self.journal.write(entry)?;
        passed("change-verified").await
    }

    /// Lets a change stay, and beyond a restart if it can. Confirming it again changes nothing.
    ///
    /// # Errors
    /// It is not in effect, or somebody else has changed the value.
    pub async fn confirm(&self, number: u32) -> Result<(Entry, Lasting), Refusal> {
        let _lock = self.journal.lock(Some(number)).await?;
        let mut entry = self.journal.entry(number)?;
        let kind = self.kind(&entry.kind)?;
        let lasting = kind.lasting(&entry.target, entry.value.as_deref())?;
        match entry.state {
            State::Verified => {}
            State::Confirmed => return Ok((entry, lasting)),
            State::Planned | State::Undone => {
                return Err(Refusal(format!("change {number} is not in effect; there is nothing to confirm")));
            }
        }
        is_thing(kind, &entry).await?;
        is_value(&entry, kind.read(&entry.target).await?.as_deref())?;
        if let Lasting::Line { file, beginning, line: text } = &lasting {
            // The line that was there is on the disk before it is replaced: an undo puts it back. If a confirmation was
            // interrupted, it is recorded already.
            if entry.line.is_none() {
                let (file, beginning, line) = (file.clone(), beginning.clone(), text.clone());
                let before = line::find(&file, &beginning)?;
                entry.line = Some(LastingLine { file, beginning, line, before });
                self.journal.write(&entry)?;
            }
            passed("line-recorded").await?;
            line::replace(file, beginning, Some(text))?;
            passed("line-written").await?;
        }
        entry.state = State::Confirmed;
        entry.deadline = None;
        self.journal.write(&entry)?;
        passed("change-confirmed").await?;
        Ok((entry, lasting))
    }

    /// Gives a target its old value again, also after a confirmation. Repeating it changes nothing.
    ///
    /// # Errors
    /// The target cannot be read or written.
    pub async fn undo(&self, number: u32) -> Result<(Entry, Undone), Refusal> {
        let _lock = self.journal.lock(Some(number)).await?;
        self.undo_entry(self.journal.entry(number)?).await
    }

    /// The same, but only if nobody has confirmed it in time.
    ///
    /// # Errors
    /// As `undo`.
    pub async fn undo_if_late(&self, number: u32) -> Result<Option<Undone>, Refusal> {
        let _lock = self.journal.lock(Some(number)).await?;
        let entry = self.journal.entry(number)?;
        if !entry.is_late() {
            return Ok(None);
        }
        Ok(Some(self.undo_entry(entry).await?.1))
    }

    async fn undo_entry(&self, mut entry: Entry) -> Result<(Entry, Undone), Refusal> {
        if entry.state == State::Undone {
            return Ok((entry, Undone::Before));
        }
        let kind = self.kind(&entry.kind)?;
        is_thing(kind, &entry).await?;
        let value = kind.read(&entry.target).await?;
        let is_old = same(value.as_deref(), entry.before.as_deref());
        if !is_old && !same(value.as_deref(), entry.value.as_deref()) {
            return Ok((entry, Undone::Theirs(value)));
        }
        self.give_back(kind, &mut entry).await?;
        Ok((entry, if is_old { Undone::Already } else { Undone::Now }))
    }

    /// Puts back the line and the value. Only then the change counts as undone.
    async fn give_back(&self, kind: &dyn Kind, entry: &mut Entry) -> Result<(), Refusal> {
        if let Some(LastingLine { file, beginning, line, before }) = &entry.line {
            // A line that somebody has changed since is theirs.
            if line::find(file, beginning)?.as_ref() == Some(line) {
                line::replace(file, beginning, before.as_deref())?;
            }
            passed("line-restored").await?;
        }
        if !same(kind.read(&entry.target).await?.as_deref(), entry.before.as_deref()) {
            kind.write(&entry.target, entry.before.as_deref()).await?;
        }
        passed("value-restored").await?;
        entry.state = State::Undone;
        entry.deadline = None;
        self.journal.write(entry)
    }

    fn kind(&self, name: &str) -> Result<&'a dyn Kind, Refusal> {
        let found = self.kinds.iter().copied().find(|kind| kind.name() == name);
        found.ok_or_else(|| Refusal(format!("this version knows no changes of the kind {name}")))
    }
}

/// Passes a point at which a test kills the program.
async fn passed(point: &'static str) -> Result<(), Refusal> {
    failpoint::hit(point).await.map_err(|failed| Refusal(failed.to_string()))
}

/// Whether two values are the same: the kernel prints tabs where a person types spaces.
fn same(one: Option<&str>, other: Option<&str>) -> bool {
    let words = |text: &'_ str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    one.map(words) == other.map(words)
}

fn shown(value: Option<&str>) -> &str {
    value.unwrap_or("none")
}

fn is_value(entry: &Entry, now: Option<&str>) -> Result<(), Refusal> {
    if same(now, entry.value.as_deref()) {
        return Ok(());
    }
    Err(Refusal(format!("{} is {}, and not {}", entry.target, shown(now), shown(entry.value.as_deref()))))
}

/// Refuses if another thing has the target's name now.
async fn is_thing(kind: &dyn Kind, entry: &Entry) -> Result<(), Refusal> {
    if kind.identity(&entry.target).await? == entry.identity {
        return Ok(());
    }
    Err(Refusal(format!("{} is not on the device or server that was changed; nothing was touched", entry.target)))
}

#[cfg(test)]
mod tests {
    use super::super::kind::Answer;
    use super::*;
    use std::collections::BTreeMap;
    use std::path::PathBuf;
    use std::sync::Mutex;

    /// Values in memory. The value `bad` is refused, `other` becomes another one.
    #[derive(Debug, Default)]
    struct Memory {
        values: Mutex<BTreeMap<String, String>>,
        identity: Mutex<Option<String>>,
        file: PathBuf,
    }

    impl Kind for Memory {
        fn name(&self) -> &'static str {
            "memory"
        }

        fn read<'a>(&'a self, target: &'a str) -> Answer<'a, Option<String>> {
            Box::pin(async move { Ok(self.values.lock().unwrap().get(target).cloned()) })
        }

        fn write<'a>(&'a self, target: &'a str, value: Option<&'a str>) -> Answer<'a, ()> {
            Box::pin(async move {
                let mut values = self.values.lock().unwrap();
                match value {
                    Some("bad") => return Err(Refusal("bad is refused".to_owned())),
                    Some("other") => values.insert(target.to_owned(), "adjusted".to_owned()),
                    Some(value) => values.insert(target.to_owned(), value.to_owned()),
                    None => values.remove(target),
                };
                Ok(())
            })
        }

        fn lasting(&self, target: &str, value: Option<&str>) -> Result<Lasting, Refusal> {
            let (file, beginning) = (self.file.clone(), format!("{target} = "));
            Ok(Lasting::Line { line: format!("{beginning}{}", value.unwrap()), file, beginning })
        }

        fn identity<'a>(&'a self, _: &'a str) -> Answer<'a, Option<String>> {
            Box::pin(async { Ok(self.identity.lock().unwrap().clone()) })
        }
    }

    struct Place {
        memory: Memory,
        journal: Journal,
        _dir: tempfile::TempDir,
    }

    impl Place {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            let memory = Memory { file: dir.path().join("lasting.conf"), ..Memory::default() };
            let place = Self { memory, journal: Journal::new(&dir.path().join("changes")), _dir: dir };
            place.memory.values.lock().unwrap().insert("t".to_owned(), "old".to_owned());
            place
        }

        fn lasting(&self) -> String {
            std::fs::read_to_string(&self.memory.file).unwrap_or_default()
        }

        fn value(&self) -> String {
            self.memory.values.lock().unwrap()["t"].clone()
        }
    }

    async fn apply(engine: &Engine<'_>, value: &str) -> Result<Entry, Refusal> {
        let planned = engine.plan(&change(value), "because", Some(Duration::from_secs(60))).await?;
        engine.apply(planned.number).await
    }

    fn change(value: &str) -> Change {
        Change { kind: "memory".to_owned(), target: "t".to_owned(), value: Some(value.to_owned()) }
    }

    #[tokio::test]
    async fn a_change_is_applied_confirmed_and_undone() {
        let place = Place::new();
        let kinds: [&dyn Kind; 1] = [&place.memory];
        let engine = Engine::new(&place.journal, &kinds);
        let entry = apply(&engine, "new").await.unwrap();
        assert_eq!(
            (place.value().as_str(), entry.state, entry.before.as_deref()),
            ("new", State::Verified, Some("old"))
        );
        assert!(entry.deadline.is_some() && place.journal.open_entries().unwrap() == [entry.clone()]);
        let twice = apply(&engine, "newer").await.unwrap_err().to_string();
        assert!(twice.ends_with("neither confirmed nor undone; first run millstream doctor undo 1"), "{twice}");
        std::fs::write(&place.memory.file, "t = theirs\nu = 1\n").unwrap();
        let (entry, _) = engine.confirm(entry.number).await.unwrap();
        assert_eq!((entry.state, place.lasting().as_str()), (State::Confirmed, "u = 1\nt = new\n"));
        assert!(place.journal.open_entries().unwrap().is_empty());
        assert_eq!(engine.undo(entry.number).await.unwrap().1, Undone::Now);
        assert_eq!(place.value(), "old");
        assert_eq!(place.lasting(), "u = 1\nt = theirs\n");
        assert_eq!(engine.undo(entry.number).await.unwrap().1, Undone::Before);
    }

    #[tokio::test]
    async fn a_value_that_is_not_taken_is_taken_back() {
        let place = Place::new();
        let kinds: [&dyn Kind; 1] = [&place.memory];
        let engine = Engine::new(&place.journal, &kinds);
        assert_eq!(apply(&engine, "bad").await.unwrap_err().to_string(), "bad is refused");
        assert_eq!(apply(&engine, "other").await.unwrap_err().to_string(), "t is adjusted, and not other");
        assert_eq!(place.value(), "old");
        assert!(place.journal.open_entries().unwrap().is_empty());
    }

    #[tokio::test]
    async fn a_change_of_somebody_else_is_not_undone() {
        let place = Place::new();
        let kinds: [&dyn Kind; 1] = [&place.memory];
        let engine = Engine::new(&place.journal, &kinds);
        let entry = apply(&engine, "new").await.unwrap();
        place.memory.values.lock().unwrap().insert("t".to_owned(), "theirs".to_owned());
        let undone = engine.undo(entry.number).await.unwrap().1;
        assert_eq!(undone, Undone::Theirs(Some("theirs".to_owned())));
        assert!(engine.confirm(entry.number).await.is_err());
        assert_eq!(place.value(), "theirs");
    }

    #[tokio::test]
    async fn another_device_with_the_same_name_is_not_touched() {
        let place = Place::new();
        let kinds: [&dyn Kind; 1] = [&place.memory];
        let engine = Engine::new(&place.journal, &kinds);
        let entry = apply(&engine, "new").await.unwrap();
        *place.memory.identity.lock().unwrap() = Some("another".to_owned());
        for refused in [engine.confirm(entry.number).await.err(), engine.undo(entry.number).await.err()] {
            assert!(refused.unwrap().to_string().contains("not on the device or server"));
        }
        assert_eq!((place.value(), place.lasting()), ("new".to_owned(), String::new()));
    }

    #[tokio::test]
    async fn a_change_is_undone_only_if_it_is_late() {
        let place = Place::new();
        let kinds: [&dyn Kind; 1] = [&place.memory];
        let engine = Engine::new(&place.journal, &kinds);
        let entry = apply(&engine, "new").await.unwrap();
        assert_eq!(engine.undo_if_late(entry.number).await.unwrap(), None);
        place.journal.write(&Entry { deadline: Some(1), ..entry.clone() }).unwrap();
        assert_eq!(engine.undo_if_late(entry.number).await.unwrap(), Some(Undone::Now));
        assert_eq!((place.value().as_str(), engine.undo_if_late(entry.number).await.unwrap()), ("old", None));
    }

    #[tokio::test]
    async fn a_confirmation_that_a_kill_interrupted_is_repeated_and_undone() {
        let place = Place::new();
        let kinds: [&dyn Kind; 1] = [&place.memory];
        let engine = Engine::new(&place.journal, &kinds);
        std::fs::write(&place.memory.file, "t = theirs\n").unwrap();
        let entry = apply(&engine, "new").await.unwrap();
        let (confirmed, _) = engine.confirm(entry.number).await.unwrap();
        // As if the process had been killed after it wrote the line.
        place.journal.write(&Entry { state: State::Verified, ..confirmed }).unwrap();
        engine.confirm(entry.number).await.unwrap();
        assert_eq!(place.lasting(), "t = new\n");
        engine.undo(entry.number).await.unwrap();
        assert_eq!((place.value(), place.lasting()), ("old".to_owned(), "t = theirs\n".to_owned()));
    }

    #[tokio::test]
    async fn a_line_that_somebody_else_has_changed_stays() {
        let place = Place::new();
        let kinds: [&dyn Kind; 1] = [&place.memory];
        let engine = Engine::new(&place.journal, &kinds);
        let entry = apply(&engine, "new").await.unwrap();
        engine.confirm(entry.number).await.unwrap();
        std::fs::write(&place.memory.file, "t = theirs\n").unwrap();
        engine.undo(entry.number).await.unwrap();
        assert_eq!((place.value(), place.lasting()), ("old".to_owned(), "t = theirs\n".to_owned()));
    }

    #[tokio::test]
    async fn what_is_so_already_is_no_change() {
        let place = Place::new();
        let kinds: [&dyn Kind; 1] = [&place.memory];
        let engine = Engine::new(&place.journal, &kinds);
        let refused = apply(&engine, "old").await.unwrap_err().to_string();
        assert_eq!(refused, "t is old already");
        assert!(place.journal.open_entries().unwrap().is_empty());
        assert!(same(Some("1\t2"), Some("1 2")) && !same(Some("1"), None));
    }

    #[tokio::test]
    async fn a_change_that_a_kill_interrupted_is_undone_wherever_it_stood() {
        for written in [false, true] {
            let place = Place::new();
            let kinds: [&dyn Kind; 1] = [&place.memory];
            let engine = Engine::new(&place.journal, &kinds);
            let entry = apply(&engine, "new").await.unwrap();
            // As if the process had been killed before it could record more than the plan.
            place.journal.write(&Entry { state: State::Planned, deadline: None, ..entry.clone() }).unwrap();
            let value = if written { "new" } else { "old" };
            place.memory.values.lock().unwrap().insert("t".to_owned(), value.to_owned());
            assert_eq!(place.journal.open_entries().unwrap().len(), 1);
            let (_, undone) = engine.undo(entry.number).await.unwrap();
            assert_eq!((place.value().as_str(), undone == Undone::Now), ("old", written));
        }
    }
}
