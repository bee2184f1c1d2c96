//! The whole way of a change, by a kind that records its steps: nothing is touched before somebody can give the old value
//! back, and whatever fails gives it back.

use millstream_change::{Answer, Changes, Entry, Journal, Kind, Place, Proposal, State, Step, Values, WayBack};
use millstream_model::{Change, Refusal};
use std::sync::Mutex;
use std::time::Duration;

/// A value that another program can give back, too.
#[derive(Debug)]
struct Recorded {
    value: Mutex<String>,
    /// What happened, in order.
    steps: Mutex<Vec<String>>,
    /// The step that fails.
    fails: &'static str,
}

impl Recorded {
    fn step(&self, step: impl Into<String>) -> Result<(), Refusal> {
        let step = step.into();
        let fails = step == self.fails;
        self.steps.lock().unwrap().push(step);
        if fails { Err(Refusal::new(format!("{} fails", self.fails))) } else { Ok(()) }
    }
}

impl Kind for Recorded {
    fn name(&self) -> &'static str {
        "recorded"
    }

    fn read<'a>(&'a self, _: &'a Place, _: &'a str) -> Answer<'a, Option<String>> {
        Box::pin(async move {
            let value = self.value.lock().unwrap().clone();
            self.step(format!("read {value}"))?;
            Ok(Some(value))
        })
    }

    /// Where this fails, the new value is there all the same.
    fn write<'a>(&'a self, _: &'a Place, _: &'a str, value: Option<&'a str>) -> Answer<'a, ()> {
        Box::pin(async move {
            let value = value.unwrap_or_default();
            *self.value.lock().unwrap() = value.to_owned();
            self.step(format!("write {value}"))
        })
    }

    fn may_confirm(&self, since: u64) -> Result<(), Refusal> {
        assert!(since > 1_600_000_000, "it took effect then");
        self.step("may confirm")
    }

    fn way_back(&self) -> Option<&dyn WayBack> {
        Some(self)
    }
}

impl WayBack for Recorded {
    fn checkpoint<'a>(&'a self, _: &'a Place, values: [Option<&'a str>; 2], _: Duration) -> Answer<'a, ()> {
        assert_eq!(values, [Some("old"), Some("new")]);
        Box::pin(async move { self.step("checkpoint") })
    }

    fn extend<'a>(&'a self, _: &'a Place, _: Duration) -> Answer<'a, ()> {
        Box::pin(async move { self.step("extend") })
    }

    fn recall(&self, _: &Place, values: Values<'_>) -> Result<(), Refusal> {
        assert_eq!(values()?, ["old", "new"].map(|value| Some(value.to_owned())));
        self.step("recall")
    }

    fn release<'a>(&'a self, _: &'a Place) -> Answer<'a, ()> {
        Box::pin(async move { self.step("release") })
    }
}

/// A machine with one such value, and its journal.
struct Scene {
    kind: Recorded,
    journal: Journal,
    place: Place,
    _dir: tempfile::TempDir,
}

impl Scene {
    /// One on which a step fails.
    fn failing(fails: &'static str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let kind = Recorded { value: Mutex::new("old".to_owned()), steps: Mutex::default(), fails };
        Self { kind, journal: Journal::new(&dir.path().join("changes")), place: Place::default(), _dir: dir }
    }

    /// Proposes the new value.
    async fn make(&self, confirm_within: Option<Duration>) -> Result<Entry, Refusal> {
        let kinds: [&dyn Kind; 1] = [&self.kind];
        let changes = Changes::new(&self.journal, &kinds, &self.place);
        let change = Change { kind: "recorded".to_owned(), target: "t".to_owned(), value: Some("new".to_owned()) };
        let from = Some("old".to_owned());
        let proposal = Proposal { change, from, reason: "a test".to_owned(), confirm_within };
        let watch = async |number: u32| {
            let entry = self.journal.entry(number)?;
            assert!(entry.state == State::Planned && entry.deadline.is_some(), "nobody would undo it: {entry:?}");
            self.kind.step("watchdog")
        };
        let works: Answer<'_, ()> = Box::pin(async { self.kind.step("works") });
        let say = |step| {
            let said = match step {
                Step::Applying => "say applying",
                Step::GivenBack => "say given back",
            };
            self.kind.steps.lock().unwrap().push(said.to_owned());
        };
        proposal.make(&changes, watch, works, &say).await
    }

    /// The steps since this was asked last.
    fn steps(&self) -> Vec<String> {
        std::mem::take(&mut *self.kind.steps.lock().unwrap())
    }

    async fn ends(&self, number: u32, step: &str) -> Vec<String> {
        let kinds: [&dyn Kind; 1] = [&self.kind];
        let changes = Changes::new(&self.journal, &kinds, &self.place);
        match step {
            "confirm" => changes.confirm(number).await.map(|_| ()).unwrap(),
            "undo" => changes.undo(number).await.map(|_| ()).unwrap(),
            _ => changes.keep(number).await.map(|_| ()).unwrap(),
        }
        self.steps()
    }
}

const DEADLINE: Option<Duration> = Some(Duration::from_secs(3_600));

/// All steps of a change that works, until it waits for a confirmation.
const MADE: [&str; 8] =
    ["checkpoint", "read old", "watchdog", "say applying", "write new", "read new", "works", "extend"];

#[tokio::test]
async fn a_change_is_watched_over_before_it_is_applied_and_waits_only_if_it_works() {
    let ends: [(&str, &[&str], State); 3] = [
        ("confirm", &["may confirm", "read new", "release"], State::Confirmed),
        ("undo", &["recall", "read new", "read new", "write old", "read old", "release"], State::Undone),
        ("keep", &["release"], State::Closed),
    ];
    for (end, steps, state) in ends {
        let scene = Scene::failing("nothing");
        let made = scene.make(DEADLINE).await.unwrap();
        assert_eq!(made.state, State::Verified);
        assert!(made.deadline.unwrap() >= made.planned + 3_600, "it begins when the value is verified: {made:?}");
        assert_eq!(scene.steps(), MADE);
        assert_eq!(scene.ends(made.number, end).await, steps, "{end}");
        assert_eq!(scene.journal.entry(made.number).unwrap().state, state, "{end}");
    }
}

#[tokio::test]
async fn without_a_deadline_nobody_watches_and_no_way_back_is_made() {
    let scene = Scene::failing("nothing");
    let made = scene.make(None).await.unwrap();
    assert_eq!((made.state, made.deadline), (State::Verified, None));
    assert_eq!(scene.steps(), ["read old", "say applying", "write new", "read new", "works"]);
}

/// What fails, and what is done after it. The steps before are those of [`MADE`].
#[tokio::test]
async fn what_fails_gives_the_old_value_back_and_ends_the_way_back() {
    let back = ["read new", "write old", "read old", "release", "say given back"];
    let unwatched = ["recall", "read old", "read old", "release", "release"];
    for (fails, then) in [
        ("checkpoint", &[][..]),
        ("read old", &["release"]),
        ("watchdog", &unwatched),
        ("write new", &back),
        ("works", &back),
        ("extend", &back),
    ] {
        let scene = Scene::failing(fails);
        let refused = scene.make(DEADLINE).await.unwrap_err();
        assert_eq!(refused.to_string(), format!("{fails} fails"));
        let failed = MADE.iter().position(|step| *step == fails).unwrap();
        let expected: Vec<&str> = MADE[..=failed].iter().chain(then).copied().collect();
        assert_eq!(scene.steps(), expected, "{fails}");
        assert_eq!(*scene.kind.value.lock().unwrap(), "old", "{fails}");
        let states: Vec<State> = scene.journal.entries().unwrap().into_iter().map(|entry| entry.state).collect();
        let is_recorded = !matches!(fails, "checkpoint" | "read old");
        assert_eq!(states, vec![State::Undone; usize::from(is_recorded)], "{fails}");
    }
}

#[tokio::test]
async fn without_a_deadline_what_fails_is_given_back_too() {
    for fails in ["write new", "works"] {
        let scene = Scene::failing(fails);
        assert_eq!(scene.make(None).await.unwrap_err().to_string(), format!("{fails} fails"));
        let steps = scene.steps();
        assert_eq!(steps[steps.len() - 5..], ["read new", "write old", "read old", "release", "say given back"]);
        assert_eq!(*scene.kind.value.lock().unwrap(), "old", "{fails}");
    }
}

#[tokio::test]
async fn a_confirmation_that_proves_nothing_lets_the_change_wait() {
    let scene = Scene::failing("may confirm");
    let kinds: [&dyn Kind; 1] = [&scene.kind];
    let changes = Changes::new(&scene.journal, &kinds, &scene.place);
    let made = scene.make(DEADLINE).await.unwrap();
    assert_eq!(changes.confirm(made.number).await.unwrap_err().to_string(), "may confirm fails");
    assert_eq!(scene.steps(), [&MADE[..], &["may confirm"]].concat());
    assert_eq!(scene.journal.entry(made.number).unwrap(), made, "it is undone in time all the same");
}

/// The other program may still take its way back.
#[tokio::test]
async fn a_change_whose_way_back_cannot_be_ended_stays_open() {
    let scene = Scene::failing("release");
    let kinds: [&dyn Kind; 1] = [&scene.kind];
    let changes = Changes::new(&scene.journal, &kinds, &scene.place);
    let made = scene.make(DEADLINE).await.unwrap();
    assert_eq!(changes.undo(made.number).await.unwrap_err().to_string(), "release fails");
    assert_eq!(scene.journal.entry(made.number).unwrap().state, State::Verified, "it is still shown");
    assert_eq!(changes.confirm(made.number).await.unwrap_err().to_string(), "t is old, and not new");
}

/// The process that watches over a change.
#[tokio::test]
async fn a_watchdog_undoes_what_is_late_or_left_and_ends_with_the_change() {
    let scene = Scene::failing("nothing");
    let kinds: [&dyn Kind; 1] = [&scene.kind];
    let changes = Changes::new(&scene.journal, &kinds, &scene.place);
    // It is late.
    let made = scene.make(DEADLINE).await.unwrap();
    scene.journal.write(&Entry { deadline: Some(1), ..made.clone() }).unwrap();
    changes.watch_over(made.number).await.unwrap();
    assert_eq!(scene.journal.entry(made.number).unwrap().state, State::Undone);
    assert_eq!(*scene.kind.value.lock().unwrap(), "old");
    // Whoever applied it has ended before it was verified.
    let change = Change { kind: "recorded".to_owned(), target: "t".to_owned(), value: Some("new".to_owned()) };
    let left = changes.plan(&change, "a test", DEADLINE).await.unwrap();
    let at_work = scene.journal.lock(Some(left.number)).await.unwrap();
    *scene.kind.value.lock().unwrap() = "new".to_owned();
    // The watchdog looks first, and finds the lock held.
    let (watched, ()) = tokio::join!(changes.watch_over(left.number), async { drop(at_work) });
    watched.unwrap();
    assert_eq!(scene.journal.entry(left.number).unwrap().state, State::Undone);
    assert_eq!(*scene.kind.value.lock().unwrap(), "old");
    // It is confirmed, or has no deadline.
    let confirmed = scene.make(DEADLINE).await.unwrap();
    changes.confirm(confirmed.number).await.unwrap();
    changes.watch_over(confirmed.number).await.unwrap();
    changes.undo(confirmed.number).await.unwrap();
    let unlimited = scene.make(None).await.unwrap();
    changes.watch_over(unlimited.number).await.unwrap();
    assert_eq!(*scene.kind.value.lock().unwrap(), "new");
}
