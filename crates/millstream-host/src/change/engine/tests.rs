//! Changes of things of the tests: applied, refused, kept, undone, and found after a kill.

use super::super::kind::Answer;
use super::*;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;

/// Values in memory. The value `bad` is refused, `other` becomes another one, `partial` is refused and leaves a part.
#[derive(Debug, Default)]
struct Memory {
    values: Mutex<BTreeMap<String, String>>,
    identity: Mutex<Option<String>>,
    has_part: Mutex<bool>,
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
            *self.has_part.lock().unwrap() = value == Some("partial");
            match value {
                Some("partial") => return Err(Refusal("it broke off".to_owned())),
                Some("bad") => return Err(Refusal("bad is refused".to_owned())),
                Some("other") => values.insert(target.to_owned(), "adjusted".to_owned()),
                Some(value) => values.insert(target.to_owned(), value.to_owned()),
                None => values.remove(target),
            };
            Ok(())
        })
    }

    fn spelled<'a>(&'a self, _: &'a str, value: &'a str) -> Answer<'a, String> {
        Box::pin(async move { Ok(value.to_lowercase()) })
    }

    fn has_parts<'a>(&'a self, _: &'a str) -> Answer<'a, bool> {
        Box::pin(async { Ok(*self.has_part.lock().unwrap()) })
    }

    fn can_be_renamed(&self) -> bool {
        true
    }

    fn server(&self) -> Option<String> {
        Some("postgres://a@db1/shop".to_owned())
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
    memory: &'static Memory,
    kinds: [&'static dyn Kind; 1],
    journal: Journal,
    _dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let memory = Memory { file: dir.path().join("lasting.conf"), ..Memory::default() };
        memory.values.lock().unwrap().insert("t".to_owned(), "old".to_owned());
        let memory: &'static Memory = Box::leak(Box::new(memory));
        Self { memory, kinds: [memory], journal: Journal::new(&dir.path().join("changes")), _dir: dir }
    }

    fn engine(&self) -> Engine<'_> {
        Engine::new(&self.journal, &self.kinds)
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
    let engine = place.engine();
    let entry = apply(&engine, "new").await.unwrap();
    assert_eq!((place.value().as_str(), entry.state, entry.before.as_deref()), ("new", State::Verified, Some("old")));
    assert!(entry.deadline.is_some() && place.journal.open_entries().unwrap() == [entry.clone()]);
    assert_eq!(entry.server.as_deref(), Some("postgres://a@db1/shop"));
    assert_eq!(engine.server(&change("newer")).unwrap(), entry.server);
    let twice = apply(&engine, "newer").await.unwrap_err().to_string();
    let ways = "confirm 1 or millstream doctor undo 1; millstream doctor undo 1 --keep closes the change";
    assert!(twice.contains("t is neither confirmed nor undone; first run") && twice.contains(ways), "{twice}");
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
    let engine = place.engine();
    assert_eq!(apply(&engine, "bad").await.unwrap_err().to_string(), "bad is refused");
    assert_eq!(apply(&engine, "other").await.unwrap_err().to_string(), "t is adjusted, and not other");
    assert_eq!(place.value(), "old");
    assert!(place.journal.open_entries().unwrap().is_empty());
}

#[tokio::test]
async fn a_value_is_recorded_as_it_is_read_again() {
    let place = Place::new();
    let engine = place.engine();
    assert_eq!(apply(&engine, "NEW").await.unwrap().value.as_deref(), Some("new"));
    assert_eq!(place.value(), "new");
}

#[tokio::test]
async fn what_an_interrupted_write_has_left_is_removed() {
    let place = Place::new();
    let engine = place.engine();
    assert_eq!(apply(&engine, "partial").await.unwrap_err().to_string(), "it broke off");
    assert!(!*place.memory.has_part.lock().unwrap());
    for (has_part, expected) in [(false, Undone::Already), (true, Undone::Removed)] {
        let planned = engine.plan(&change("new"), "because", None).await.unwrap();
        // As if this process had been killed before the write, or in the middle of it.
        *place.memory.has_part.lock().unwrap() = has_part;
        assert_eq!(engine.undo(planned.number).await.unwrap().1, expected);
        assert!(!*place.memory.has_part.lock().unwrap());
        assert_eq!(place.value(), "old");
    }
}

#[tokio::test]
async fn what_an_interrupted_write_has_left_does_not_stay_for_the_time_of_a_confirmation() {
    let place = Place::new();
    let engine = place.engine();
    let day = Some(Duration::from_secs(86_400));
    let planned = engine.plan(&change("new"), "because", day).await.unwrap();
    assert!(planned.deadline.unwrap() <= now() + CHANGE_START_SECONDS, "{planned:?}");
    let applied = engine.apply(planned.number).await.unwrap();
    assert!(applied.deadline.unwrap() > now() + CHANGE_START_SECONDS, "{applied:?}");
}

#[tokio::test]
async fn a_change_of_somebody_else_is_not_undone() {
    let place = Place::new();
    let engine = place.engine();
    let entry = apply(&engine, "new").await.unwrap();
    place.memory.values.lock().unwrap().insert("t".to_owned(), "theirs".to_owned());
    let undone = engine.undo(entry.number).await.unwrap().1;
    assert_eq!(undone, Undone::Theirs(Some("theirs".to_owned())));
    let refused = engine.confirm(entry.number).await.unwrap_err().to_string();
    let way_out = "millstream doctor undo 1 --keep closes the change and keeps the present value";
    assert_eq!(refused, format!("t is theirs, and not new; {way_out}"));
    assert_eq!(place.value(), "theirs");
}

#[tokio::test]
async fn a_change_is_closed_whoever_has_set_the_value_since() {
    let place = Place::new();
    let engine = place.engine();
    std::fs::write(&place.memory.file, "t = before\n").unwrap();
    let number = apply(&engine, "new").await.unwrap().number;
    engine.confirm(number).await.unwrap();
    assert_eq!(place.lasting(), "t = new\n");
    place.memory.values.lock().unwrap().insert("t".to_owned(), "theirs".to_owned());
    *place.memory.identity.lock().unwrap() = Some("another".to_owned());
    // Nothing is asked of the thing that was changed.
    let unknowing = Engine::new(&place.journal, &[]);
    let (entry, kept) = unknowing.keep(number).await.unwrap();
    assert_eq!((entry.state, kept), (State::Closed, Undone::Kept { line_is_back: true }));
    assert_eq!((place.value(), place.lasting()), ("theirs".to_owned(), "t = before\n".to_owned()));
    assert_eq!(unknowing.keep(number).await.unwrap(), (entry, Undone::Before));
    assert_eq!(engine.undo(number).await.unwrap().1, Undone::Before);
    assert!(engine.confirm(number).await.is_err());
    apply(&engine, "newer").await.unwrap();
    assert_eq!(place.value(), "newer");
}

#[tokio::test]
async fn a_change_that_is_kept_leaves_a_line_of_somebody_else() {
    let place = Place::new();
    let engine = place.engine();
    let number = apply(&engine, "new").await.unwrap().number;
    engine.confirm(number).await.unwrap();
    std::fs::write(&place.memory.file, "t = theirs\n").unwrap();
    assert_eq!(engine.keep(number).await.unwrap().1, Undone::Kept { line_is_back: false });
    assert_eq!((place.value(), place.lasting()), ("new".to_owned(), "t = theirs\n".to_owned()));
}

#[tokio::test]
async fn a_plan_that_is_closed_is_not_applied() {
    let place = Place::new();
    let engine = place.engine();
    let number = engine.plan(&change("new"), "because", None).await.unwrap().number;
    assert_eq!(engine.keep(number).await.unwrap().1, Undone::Kept { line_is_back: false });
    assert_eq!(engine.keep(number).await.unwrap().1, Undone::Before);
    assert!(engine.apply(number).await.is_err());
    assert_eq!(place.value(), "old");
}

#[tokio::test]
async fn another_device_with_the_same_name_is_not_touched() {
    let place = Place::new();
    let engine = place.engine();
    let entry = apply(&engine, "new").await.unwrap();
    *place.memory.identity.lock().unwrap() = Some("another".to_owned());
    for refused in [engine.confirm(entry.number).await.err(), engine.undo(entry.number).await.err()] {
        let text = refused.unwrap().to_string();
        assert!(text.contains("not on the device or server"), "{text}");
        assert!(text.contains("is gone for good, millstream doctor undo 1 --keep closes the change"), "{text}");
    }
    assert_eq!((place.value(), place.lasting()), ("new".to_owned(), String::new()));
}

#[tokio::test]
async fn a_change_is_undone_only_if_it_is_late() {
    let place = Place::new();
    let engine = place.engine();
    let entry = apply(&engine, "new").await.unwrap();
    assert_eq!(engine.undo_if_late(entry.number).await.unwrap(), None);
    place.journal.write(&Entry { deadline: Some(1), ..entry.clone() }).unwrap();
    assert_eq!(engine.undo_if_late(entry.number).await.unwrap(), Some(Undone::Now));
    assert_eq!((place.value().as_str(), engine.undo_if_late(entry.number).await.unwrap()), ("old", None));
}

#[tokio::test]
async fn a_change_on_which_another_process_works_is_not_late() {
    let place = Place::new();
    let engine = place.engine();
    let planned = engine.plan(&change("new"), "because", Some(Duration::from_secs(60))).await.unwrap();
    place.journal.write(&Entry { deadline: Some(1), ..planned.clone() }).unwrap();
    let at_work = place.journal.lock(Some(planned.number)).await.unwrap();
    assert_eq!(engine.undo_if_late(planned.number).await.unwrap(), None);
    drop(at_work);
    assert_eq!(engine.undo_if_late(planned.number).await.unwrap(), Some(Undone::Already));
}

#[tokio::test]
async fn what_is_gone_may_have_another_name() {
    let place = Place::new();
    let engine = place.engine();
    let made = Change { target: "u".to_owned(), ..change("new") };
    let planned = engine.plan(&made, "because", None).await.unwrap().number;
    assert_eq!(engine.undo(planned).await.unwrap().1, Undone::Already, "it was never there");
    let applied = engine.plan(&made, "because", None).await.unwrap().number;
    engine.apply(applied).await.unwrap();
    place.memory.values.lock().unwrap().remove("u");
    assert_eq!(engine.undo(applied).await.unwrap().1, Undone::Gone);
    let other = apply(&engine, "new").await.unwrap().number;
    place.memory.values.lock().unwrap().insert("t".to_owned(), "old".to_owned());
    assert_eq!(engine.undo(other).await.unwrap().1, Undone::Already, "it is there, with its old value");
}

#[tokio::test]
async fn a_line_that_somebody_else_has_changed_stays() {
    let place = Place::new();
    let engine = place.engine();
    let entry = apply(&engine, "new").await.unwrap();
    engine.confirm(entry.number).await.unwrap();
    std::fs::write(&place.memory.file, "t = theirs\n").unwrap();
    engine.undo(entry.number).await.unwrap();
    assert_eq!((place.value(), place.lasting()), ("old".to_owned(), "t = theirs\n".to_owned()));
}

#[tokio::test]
async fn a_line_that_was_there_before_stays() {
    let place = Place::new();
    let engine = place.engine();
    std::fs::write(&place.memory.file, "t = new\n").unwrap();
    let entry = apply(&engine, "new").await.unwrap();
    engine.confirm(entry.number).await.unwrap();
    engine.undo(entry.number).await.unwrap();
    assert_eq!((place.value(), place.lasting()), ("old".to_owned(), "t = new\n".to_owned()));
}

#[tokio::test]
async fn one_process_at_a_time_writes_lines() {
    let place = Place::new();
    let engine = place.engine();
    let entry = apply(&engine, "new").await.unwrap();
    let held = place.journal.lock(None).await.unwrap();
    let waiting = tokio::time::timeout(Duration::from_millis(200), engine.confirm(entry.number)).await;
    assert!(waiting.is_err() && place.lasting().is_empty(), "it waits");
    drop(held);
    engine.confirm(entry.number).await.unwrap();
    assert_eq!(place.lasting(), "t = new\n");
}

#[tokio::test]
async fn what_is_so_already_is_no_change() {
    let place = Place::new();
    let engine = place.engine();
    let refused = apply(&engine, "old").await.unwrap_err().to_string();
    assert_eq!(refused, "t is old already");
    assert!(place.journal.open_entries().unwrap().is_empty());
}
