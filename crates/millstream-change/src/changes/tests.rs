//! Changes of things of the tests: applied, refused, kept, undone, and found after a kill.

use super::*;
use crate::journal::{LastingFile, LastingLine};
use crate::kind::{Answer, Breakable, Lasts, Values, WayBack};
use millstream_pg::Environment;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;

/// Values in memory. The value `bad` is refused, `other` becomes another one, `partial` is refused and leaves a part.
#[derive(Debug, Default)]
struct Memory {
    values: Mutex<BTreeMap<String, String>>,
    identity: Mutex<Option<String>>,
    has_part: Mutex<bool>,
    released: Mutex<u32>,
    file: PathBuf,
}

impl Kind for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn is_of_server(&self) -> bool {
        true
    }

    fn read<'a>(&'a self, _: &'a Place, target: &'a str) -> Answer<'a, Option<String>> {
        Box::pin(async move { Ok(self.values.lock().unwrap().get(target).cloned()) })
    }

    fn write<'a>(&'a self, _: &'a Place, target: &'a str, value: Option<&'a str>) -> Answer<'a, ()> {
        Box::pin(async move {
            let mut values = self.values.lock().unwrap();
            *self.has_part.lock().unwrap() = value == Some("partial");
            match value {
                Some("partial") => return Err(Refusal::new("it broke off")),
                Some("bad") => return Err(Refusal::new("bad is refused")),
                Some("other") => values.insert(target.to_owned(), "adjusted".to_owned()),
                Some(value) => values.insert(target.to_owned(), value.to_owned()),
                None => values.remove(target),
            };
            Ok(())
        })
    }

    fn spelled<'a>(&'a self, _: &'a Place, _: &'a str, value: &'a str) -> Answer<'a, String> {
        Box::pin(async move { Ok(value.to_lowercase()) })
    }

    fn can_be_renamed(&self) -> bool {
        true
    }

    fn identity<'a>(&'a self, _: &'a Place, _: &'a str) -> Answer<'a, Option<String>> {
        Box::pin(async { Ok(self.identity.lock().unwrap().clone()) })
    }

    fn lasts(&self) -> Option<&dyn Lasts> {
        Some(self)
    }

    fn breakable(&self) -> Option<&dyn Breakable> {
        Some(self)
    }

    fn way_back(&self) -> Option<&dyn WayBack> {
        Some(self)
    }
}

impl Breakable for Memory {
    fn has_parts<'a>(&'a self, _: &'a Place, _: &'a str) -> Answer<'a, bool> {
        Box::pin(async { Ok(*self.has_part.lock().unwrap()) })
    }

    fn leftover(&self, _: &str) -> Option<String> {
        None
    }
}

impl WayBack for Memory {
    fn checkpoint<'a>(&'a self, _: &'a Place, _: [Option<&'a str>; 2], _: Duration) -> Answer<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    fn extend<'a>(&'a self, _: &'a Place, _: Duration) -> Answer<'a, ()> {
        Box::pin(async { Ok(()) })
    }

    fn recall(&self, _: &Place, _: Values<'_>) -> Result<(), Refusal> {
        Ok(())
    }

    fn release<'a>(&'a self, _: &'a Place) -> Answer<'a, ()> {
        Box::pin(async {
            *self.released.lock().unwrap() += 1;
            Ok(())
        })
    }
}

impl Lasts for Memory {
    fn lasting(&self, _: &Place, target: &str, value: Option<&str>) -> Result<Lasting, Refusal> {
        let (file, beginning) = (self.file.clone(), format!("{target} = "));
        Ok(Lasting::Line { line: format!("{beginning}{}", value.unwrap()), file, beginning })
    }

    fn files(&self, _: &Place, _: &str) -> Vec<PathBuf> {
        vec![self.file.clone()]
    }
}

struct Scene {
    memory: &'static Memory,
    kinds: [&'static dyn Kind; 1],
    journal: Journal,
    place: Place,
    _dir: tempfile::TempDir,
}

impl Scene {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let memory = Memory { file: dir.path().join("lasting.conf"), ..Memory::default() };
        memory.values.lock().unwrap().insert("t".to_owned(), "old".to_owned());
        let memory: &'static Memory = Box::leak(Box::new(memory));
        let server = ConnInfo::parse("postgres://a@db1/shop", &Environment::from_variables([])).unwrap();
        let place = Place { server: Some(server), ..Place::default() };
        Self { memory, kinds: [memory], journal: Journal::new(&dir.path().join("changes")), place, _dir: dir }
    }

    fn changes(&self) -> Changes<'_> {
        Changes::new(&self.journal, &self.kinds, &self.place)
    }

    fn lasting(&self) -> String {
        std::fs::read_to_string(&self.memory.file).unwrap_or_default()
    }

    fn value(&self) -> String {
        self.memory.values.lock().unwrap()["t"].clone()
    }
}

async fn apply(changes: &Changes<'_>, value: &str) -> Result<Entry, Refusal> {
    let planned = changes.plan(&change(value), "because", Some(Duration::from_secs(60))).await?;
    changes.apply(planned.number).await
}

fn change(value: &str) -> Change {
    Change { kind: "memory".to_owned(), target: "t".to_owned(), value: Some(value.to_owned()) }
}

#[tokio::test]
async fn a_change_is_applied_confirmed_and_undone() {
    let scene = Scene::new();
    let changes = scene.changes();
    let entry = apply(&changes, "new").await.unwrap();
    assert_eq!((scene.value().as_str(), entry.state, entry.before.as_deref()), ("new", State::Verified, Some("old")));
    assert!(entry.deadline.is_some() && scene.journal.open_entries().unwrap() == [entry.clone()]);
    assert_eq!(entry.server.as_deref(), Some("postgres://a@db1:5432/shop (sslmode=prefer)"));
    assert_eq!(changes.server(&change("newer")).unwrap(), entry.server);
    let twice = apply(&changes, "newer").await.unwrap_err();
    assert_eq!(twice.to_string(), "change 1 of t is neither confirmed nor undone");
    assert_eq!(twice.hint, Some(WayOut::End(Number("doctor", 1)).to_string()));
    std::fs::write(&scene.memory.file, "t = theirs\nu = 1\n").unwrap();
    let (entry, _) = changes.confirm(entry.number).await.unwrap();
    assert_eq!((entry.state, scene.lasting().as_str()), (State::Confirmed, "u = 1\nt = new\n"));
    assert!(scene.journal.open_entries().unwrap().is_empty());
    assert_eq!(changes.undo(entry.number).await.unwrap().1, Undone::Now);
    assert_eq!(scene.value(), "old");
    assert_eq!(scene.lasting(), "u = 1\nt = theirs\n");
    assert_eq!(changes.undo(entry.number).await.unwrap().1, Undone::Before);
}

#[tokio::test]
async fn a_value_that_is_not_taken_is_taken_back() {
    let scene = Scene::new();
    let changes = scene.changes();
    assert_eq!(apply(&changes, "bad").await.unwrap_err().to_string(), "bad is refused");
    assert_eq!(apply(&changes, "other").await.unwrap_err().to_string(), "t is adjusted, and not other");
    assert_eq!(scene.value(), "old");
    assert!(scene.journal.open_entries().unwrap().is_empty());
}

#[tokio::test]
async fn a_value_is_recorded_as_it_is_read_again() {
    let scene = Scene::new();
    let changes = scene.changes();
    assert_eq!(apply(&changes, "NEW").await.unwrap().value.as_deref(), Some("new"));
    assert_eq!(scene.value(), "new");
}

#[tokio::test]
async fn what_an_interrupted_write_has_left_is_removed() {
    let scene = Scene::new();
    let changes = scene.changes();
    assert_eq!(apply(&changes, "partial").await.unwrap_err().to_string(), "it broke off");
    assert!(!*scene.memory.has_part.lock().unwrap());
    for (has_part, expected) in [(false, Undone::Already), (true, Undone::Removed)] {
        let planned = changes.plan(&change("new"), "because", None).await.unwrap();
        // As if this process had been killed before the write, or in the middle of it.
        *scene.memory.has_part.lock().unwrap() = has_part;
        assert_eq!(changes.undo(planned.number).await.unwrap().1, expected);
        assert!(!*scene.memory.has_part.lock().unwrap());
        assert_eq!(scene.value(), "old");
    }
}

#[tokio::test]
async fn what_an_interrupted_write_has_left_does_not_stay_for_the_time_of_a_confirmation() {
    let scene = Scene::new();
    let changes = scene.changes();
    let day = Some(Duration::from_secs(86_400));
    let planned = changes.plan(&change("new"), "because", day).await.unwrap();
    assert!(planned.deadline.unwrap() <= now() + CHANGE_START_SECONDS, "{planned:?}");
    let applied = changes.apply(planned.number).await.unwrap();
    assert!(applied.deadline.unwrap() > now() + CHANGE_START_SECONDS, "{applied:?}");
}

#[tokio::test]
async fn a_change_of_somebody_else_is_not_undone() {
    let scene = Scene::new();
    let changes = scene.changes();
    let entry = apply(&changes, "new").await.unwrap();
    scene.memory.values.lock().unwrap().insert("t".to_owned(), "theirs".to_owned());
    let undone = changes.undo(entry.number).await.unwrap().1;
    assert_eq!(undone, Undone::Theirs(Some("theirs".to_owned())));
    let refused = changes.confirm(entry.number).await.unwrap_err();
    assert_eq!(
        refused,
        Refusal::new("t is theirs, and not new").or_hint(WayOut::Keep(Number("doctor", 1)).to_string())
    );
    assert_eq!(scene.value(), "theirs");
}

#[tokio::test]
async fn a_change_is_closed_whoever_has_set_the_value_since() {
    let scene = Scene::new();
    let changes = scene.changes();
    std::fs::write(&scene.memory.file, "t = before\n").unwrap();
    let number = apply(&changes, "new").await.unwrap().number;
    changes.confirm(number).await.unwrap();
    assert_eq!(scene.lasting(), "t = new\n");
    scene.memory.values.lock().unwrap().insert("t".to_owned(), "theirs".to_owned());
    *scene.memory.identity.lock().unwrap() = Some("another".to_owned());
    // The thing that was changed is not asked.
    let (entry, kept) = changes.keep(number).await.unwrap();
    assert_eq!((entry.state, kept), (State::Closed, Undone::Kept { is_back: true }));
    assert_eq!((scene.value(), scene.lasting()), ("theirs".to_owned(), "t = before\n".to_owned()));
    assert_eq!(changes.keep(number).await.unwrap(), (entry, Undone::Before));
    assert_eq!(changes.undo(number).await.unwrap().1, Undone::Before);
    assert!(changes.confirm(number).await.is_err());
    apply(&changes, "newer").await.unwrap();
    assert_eq!(scene.value(), "newer");
}

#[tokio::test]
async fn a_change_that_is_kept_leaves_a_line_of_somebody_else() {
    let scene = Scene::new();
    let changes = scene.changes();
    let number = apply(&changes, "new").await.unwrap().number;
    changes.confirm(number).await.unwrap();
    std::fs::write(&scene.memory.file, "t = theirs\n").unwrap();
    assert_eq!(changes.keep(number).await.unwrap().1, Undone::Kept { is_back: false });
    assert_eq!((scene.value(), scene.lasting()), ("new".to_owned(), "t = theirs\n".to_owned()));
}

#[tokio::test]
async fn a_plan_that_is_closed_is_not_applied() {
    let scene = Scene::new();
    let changes = scene.changes();
    let number = changes.plan(&change("new"), "because", None).await.unwrap().number;
    assert_eq!(changes.keep(number).await.unwrap().1, Undone::Kept { is_back: false });
    assert_eq!(changes.keep(number).await.unwrap().1, Undone::Before);
    assert!(changes.apply(number).await.is_err());
    assert_eq!(scene.value(), "old");
}

#[tokio::test]
async fn another_device_with_the_same_name_is_not_touched() {
    let scene = Scene::new();
    let changes = scene.changes();
    let entry = apply(&changes, "new").await.unwrap();
    *scene.memory.identity.lock().unwrap() = Some("another".to_owned());
    for refused in [changes.confirm(entry.number).await.err(), changes.undo(entry.number).await.err()] {
        let refused = refused.unwrap();
        assert!(refused.to_string().contains("not on the device or server"), "{refused}");
        assert_eq!(refused.hint, Some(WayOut::KeepIfGone(Number("doctor", 1)).to_string()));
    }
    assert_eq!((scene.value(), scene.lasting()), ("new".to_owned(), String::new()));
}

#[tokio::test]
async fn a_change_is_undone_only_if_it_is_late() {
    let scene = Scene::new();
    let changes = scene.changes();
    let entry = apply(&changes, "new").await.unwrap();
    assert_eq!(changes.undo_if_late(entry.number, false).await.unwrap(), None);
    scene.journal.write(&Entry { deadline: Some(1), ..entry.clone() }).unwrap();
    assert_eq!(changes.undo_if_late(entry.number, false).await.unwrap(), Some(Undone::Now));
    assert_eq!((scene.value().as_str(), changes.undo_if_late(entry.number, false).await.unwrap()), ("old", None));
}

#[tokio::test]
async fn a_change_on_which_another_process_works_is_not_late() {
    let scene = Scene::new();
    let changes = scene.changes();
    let planned = changes.plan(&change("new"), "because", Some(Duration::from_secs(60))).await.unwrap();
    scene.journal.write(&Entry { deadline: Some(1), ..planned.clone() }).unwrap();
    let at_work = scene.journal.lock(Some(planned.number)).await.unwrap();
    assert_eq!(changes.undo_if_late(planned.number, false).await.unwrap(), None);
    drop(at_work);
    assert_eq!(changes.undo_if_late(planned.number, false).await.unwrap(), Some(Undone::Already));
}

#[tokio::test]
async fn a_change_that_its_process_has_left_is_undone_before_its_time_unless_it_was_verified() {
    let scene = Scene::new();
    let changes = scene.changes();
    let planned = changes.plan(&change("new"), "because", Some(Duration::from_secs(60))).await.unwrap();
    scene.memory.values.lock().unwrap().insert("t".to_owned(), "new".to_owned());
    assert_eq!(changes.undo_if_late(planned.number, false).await.unwrap(), None);
    assert_eq!(changes.undo_if_late(planned.number, true).await.unwrap(), Some(Undone::Now));
    let verified = apply(&changes, "new").await.unwrap();
    assert_eq!(changes.undo_if_late(verified.number, true).await.unwrap(), None);
    assert_eq!(scene.value(), "new");
}

#[tokio::test]
async fn what_does_not_work_is_given_back_at_once() {
    let scene = Scene::new();
    let changes = scene.changes();
    let planned = changes.plan(&change("new"), "because", Some(Duration::from_secs(60))).await.unwrap();
    let works = async {
        assert_eq!(scene.value(), "new", "it is asked when the new value is there");
        Err(Refusal::new("nobody answers"))
    };
    let refused = changes.apply_if_works(planned.number, Box::pin(works)).await.unwrap_err();
    assert_eq!((refused.to_string().as_str(), scene.value().as_str()), ("nobody answers", "old"));
    assert_eq!(scene.journal.entry(planned.number).unwrap().state, State::Undone);
}

#[tokio::test]
async fn a_kind_releases_what_it_holds_however_a_change_ends() {
    let scene = Scene::new();
    let changes = scene.changes();
    let released = || *scene.memory.released.lock().unwrap();
    let confirmed = apply(&changes, "new").await.unwrap().number;
    changes.confirm(confirmed).await.unwrap();
    assert_eq!(released(), 1);
    changes.keep(confirmed).await.unwrap();
    assert_eq!(released(), 1, "it was over before");
    changes.undo(apply(&changes, "newer").await.unwrap().number).await.unwrap();
    assert_eq!(released(), 2);
    changes.keep(apply(&changes, "newest").await.unwrap().number).await.unwrap();
    assert_eq!(released(), 3);
}

#[tokio::test]
async fn what_is_gone_may_have_another_name() {
    let scene = Scene::new();
    let changes = scene.changes();
    let made = Change { target: "u".to_owned(), ..change("new") };
    let planned = changes.plan(&made, "because", None).await.unwrap().number;
    assert_eq!(changes.undo(planned).await.unwrap().1, Undone::Already, "it was never there");
    let applied = changes.plan(&made, "because", None).await.unwrap().number;
    changes.apply(applied).await.unwrap();
    scene.memory.values.lock().unwrap().remove("u");
    assert_eq!(changes.undo(applied).await.unwrap().1, Undone::Gone);
    let other = apply(&changes, "new").await.unwrap().number;
    scene.memory.values.lock().unwrap().insert("t".to_owned(), "old".to_owned());
    assert_eq!(changes.undo(other).await.unwrap().1, Undone::Already, "it is there, with its old value");
}

#[tokio::test]
async fn a_line_that_somebody_else_has_changed_stays() {
    let scene = Scene::new();
    let changes = scene.changes();
    let entry = apply(&changes, "new").await.unwrap();
    changes.confirm(entry.number).await.unwrap();
    std::fs::write(&scene.memory.file, "t = theirs\n").unwrap();
    changes.undo(entry.number).await.unwrap();
    assert_eq!((scene.value(), scene.lasting()), ("old".to_owned(), "t = theirs\n".to_owned()));
}

#[tokio::test]
async fn a_line_that_was_there_before_stays() {
    let scene = Scene::new();
    let changes = scene.changes();
    std::fs::write(&scene.memory.file, "t = new\n").unwrap();
    let entry = apply(&changes, "new").await.unwrap();
    changes.confirm(entry.number).await.unwrap();
    changes.undo(entry.number).await.unwrap();
    assert_eq!((scene.value(), scene.lasting()), ("old".to_owned(), "t = new\n".to_owned()));
}

#[tokio::test]
async fn what_a_later_change_has_made_last_stays_although_an_earlier_one_wrote_the_same() {
    let scene = Scene::new();
    let changes = scene.changes();
    for value in ["new", "second", "new"] {
        let number = apply(&changes, value).await.unwrap().number;
        changes.confirm(number).await.unwrap();
    }
    for refused in [changes.keep(1).await, changes.undo(1).await] {
        let refused = refused.unwrap_err();
        assert!(refused.problem.contains("change 3 lasts by the same file"), "{refused}");
        assert_eq!(refused.hint, Some(WayOut::UndoFirst(Number("doctor", 3)).to_string()));
    }
    assert_eq!((scene.value(), scene.lasting()), ("new".to_owned(), "t = new\n".to_owned()));
    assert_eq!(changes.keep(2).await.unwrap().1, Undone::Kept { is_back: false }, "nothing of it is there");
    changes.undo(3).await.unwrap();
    assert_eq!((scene.value(), scene.lasting()), ("second".to_owned(), "t = second\n".to_owned()));
    assert_eq!(changes.keep(1).await.unwrap().1, Undone::Kept { is_back: false });
    assert_eq!(scene.lasting(), "t = second\n");
}

#[tokio::test]
async fn one_process_at_a_time_writes_lines() {
    let scene = Scene::new();
    let changes = scene.changes();
    let entry = apply(&changes, "new").await.unwrap();
    let held = scene.journal.lock(None).await.unwrap();
    let waiting = tokio::time::timeout(Duration::from_millis(200), changes.confirm(entry.number)).await;
    assert!(waiting.is_err() && scene.lasting().is_empty(), "it waits");
    drop(held);
    changes.confirm(entry.number).await.unwrap();
    assert_eq!(scene.lasting(), "t = new\n");
}

#[tokio::test]
async fn what_is_so_already_is_no_change() {
    let scene = Scene::new();
    let changes = scene.changes();
    let refused = apply(&changes, "old").await.unwrap_err().to_string();
    assert_eq!(refused, "t is old already");
    assert!(scene.journal.open_entries().unwrap().is_empty());
}

#[tokio::test]
async fn an_entry_that_names_a_file_of_another_kind_is_neither_undone_nor_closed() {
    let scene = Scene::new();
    let changes = scene.changes();
    let entry = apply(&changes, "new").await.unwrap();
    let victim = scene.memory.file.with_file_name("victim");
    std::fs::write(&victim, "root::0:0\n").unwrap();
    scene.journal.write_beside(1, "file-0", "evil::0:0\n").unwrap();
    scene.journal.write_beside(1, "file-0.new", "root::0:0\n").unwrap();
    let file = |file: &std::path::Path| vec![LastingFile { file: file.to_owned(), had_before: true }];
    let line = |file: &std::path::Path, line: &str, before: &str| LastingLine {
        file: file.to_owned(),
        beginning: "root".to_owned(),
        line: line.to_owned(),
        before: Some(before.to_owned()),
    };
    let own = &scene.memory.file;
    std::fs::write(own, "root::0:0\n").unwrap();
    for (line, files, named) in [
        (None, file(&victim), victim.display().to_string()),
        (Some(line(&victim, "root::0:0", "evil::0:0")), Vec::new(), victim.display().to_string()),
        (Some(line(own, "root::0:0", "evil::0:0")), Vec::new(), format!("a line of {}", own.display())),
        (Some(line(own, "root::0:0", "root\nevil::0:0")), Vec::new(), format!("a line of {}", own.display())),
    ] {
        scene.journal.write(&Entry { line, files, ..entry.clone() }).unwrap();
        for refused in [changes.undo(1).await.unwrap_err(), changes.keep(1).await.unwrap_err()] {
            let says = format!("change 1 names {named}, which no change of the kind memory writes");
            assert_eq!(refused.to_string(), says);
        }
        assert_eq!((scene.value().as_str(), scene.lasting().as_str()), ("new", "root::0:0\n"));
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "root::0:0\n");
    }
    scene.journal.write(&Entry { files: file(own), ..entry }).unwrap();
    assert_eq!(changes.undo(1).await.unwrap().1, Undone::Now);
    assert_eq!((scene.value().as_str(), scene.lasting().as_str()), ("old", "evil::0:0\n"), "its own file it may write");
}
