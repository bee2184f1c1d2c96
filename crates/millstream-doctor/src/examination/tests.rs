//! Tests of an examination: how its time is shared, and the faults of a machine, which a folder stands for.

mod counted;
#[path = "../../tests/machine.rs"]
mod machine;
mod states;

use self::machine::{Files, machine};
use super::*;
use millstream_model::Level;
use millstream_pg::Environment;
use std::path::Path;

/// A request for these checks. Nobody asks its server.
fn request(checks: &[&str], settings: &str) -> Request {
    Request {
        db: ConnInfo::parse("postgres://a@b/c", &Environment::from_variables([])).unwrap(),
        checks: checks.iter().map(|check| (*check).to_owned()).collect(),
        one_database: true,
        key: None,
        budget: Duration::from_secs(60),
        settings: Settings::parse(settings).unwrap(),
        planner: None,
        looks_apart: None,
        earlier: None,
        today: "2027-01-31".to_owned(),
        kinds: &[],
        root: None,
    }
}

/// A folder that stands for a machine whose files cannot be read.
fn nothing() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// What checks find in a folder that stands for a machine, what they cannot see, and which of them have passed.
async fn looked(root: &Path, checks: &[&str], settings: &str) -> (Vec<Finding>, Vec<Skip>, Vec<String>) {
    let (request, host) = (request(checks, settings), Host::in_folder(root));
    let mut course = Course::of(&request, Instant::now());
    for check in course.checks.clone() {
        for look in check.looks {
            match look {
                Look::Host(look) | Look::Measured(look) => course.run_at(&host, check, *look).await,
                Look::Later(_) => {}
                _ => panic!("{} asks the server", check.id),
            }
        }
    }
    course.later(&Ok(host)).await;
    course.keep_grounded();
    let passed = course.passed();
    (course.findings, course.skipped, passed)
}

/// What a check finds, if it sees all.
async fn found(root: &Path, check: &str, settings: &str) -> Vec<(String, Level)> {
    let (findings, skipped, _) = looked(root, &[check], settings).await;
    assert_eq!(skipped.first(), None);
    findings.into_iter().map(|finding| (finding.subject, finding.level)).collect()
}

/// A fault of a machine, which a check finds.
struct Fault {
    check: &'static str,
    subject: &'static str,
    level: Level,
    alike: Files,
    has: Files,
    repaired: Files,
}

/// A fault that is a warning about this subject.
fn fault(check: &'static str, subject: &'static str) -> Fault {
    Fault { check, subject, level: Level::Warning, alike: &[], has: &[], repaired: &[] }
}

impl Fault {
    /// Another level.
    fn at(self, level: Level) -> Self {
        Self { level, ..self }
    }

    /// Files that only look like it.
    fn alike(self, alike: Files) -> Self {
        Self { alike, ..self }
    }

    /// Files that have it.
    fn has(self, has: Files) -> Self {
        Self { has, ..self }
    }

    /// Other files instead of these, on a machine on which it was repaired.
    fn repaired(self, repaired: Files) -> Self {
        Self { repaired, ..self }
    }
}

/// Plants faults on a machine that has these files.
async fn are_found(files: Files, settings: &str, faults: Vec<Fault>) {
    for Fault { check, subject, level, alike, has, repaired } in faults {
        let of = async |others: &[Files]| {
            let all: Vec<(&str, &str)> = files.iter().chain(others.iter().copied().flatten()).copied().collect();
            found(machine(&all).path(), check, settings).await
        };
        if !alike.is_empty() {
            assert_eq!(of(&[alike]).await, [], "{check} looks alike: {alike:?}");
        }
        assert_eq!(of(&[has]).await, [(subject.to_owned(), level)], "{check}: {has:?}");
        if !repaired.is_empty() {
            assert_eq!(of(&[has, repaired]).await, [], "{check} is repaired: {repaired:?}");
        }
    }
}

#[test]
fn databases_with_large_tables_share_the_time_for_measuring_them() {
    let seconds = Duration::from_secs;
    assert_eq!(measure_time(seconds(30), 1), seconds(10));
    assert_eq!(measure_time(seconds(3_600), 1), MEASURE_TIME_MAX);
    // Both checks of both databases take all that they may.
    let first = measure_time(seconds(30), 2);
    let second = measure_time(seconds(30) - 2 * first, 1);
    assert_eq!(first, seconds(5));
    assert!(2 * first + 2 * second < seconds(25), "there is time for the other checks");
    assert_eq!(measure_time(Duration::ZERO, 3), Duration::ZERO);
}

#[test]
fn a_key_names_the_database_of_its_finding() {
    for (key, database, is_named) in [
        ("unused-index:shop:public.i", "shop", true),
        ("temporary-files:shop", "shop", true),
        ("unused-index:a:b:public.i", "a:b", true),
        ("unused-index:shop2:public.i", "shop", false),
        ("unused-index:public.shop", "shop", false),
        ("durability-off", "durability-off", false),
    ] {
        assert_eq!(is_in(key, database), is_named, "{key} in {database}");
    }
}

#[tokio::test]
async fn what_a_look_has_kept_stays_when_its_time_is_up() {
    let request = Request { budget: Duration::ZERO, ..request(&[], "") };
    let mut course = Course::of(&request, Instant::now());
    let [first, second, ..] = CHECKS else { panic!("there are checks") };
    let endless = |keeps: bool| {
        move |task: Task| -> Looking<'static> {
            Box::pin(async move {
                if keeps {
                    task.keep(task.finding(Level::Info, "one", "it was found in time"));
                }
                std::future::pending().await
            })
        }
    };
    course.run(first, None, endless(true)).await;
    course.run(second, None, endless(false)).await;
    let keys: Vec<&str> = course.findings.iter().map(|finding| finding.key.as_str()).collect();
    assert_eq!(keys, [format!("{}:one", first.id)]);
    let skipped: Vec<(&str, &str)> =
        course.skipped.iter().map(|skip| (skip.check.as_str(), skip.why.as_str())).collect();
    let why = "the time of 0ns was used up; --budget gives more";
    assert_eq!(skipped, [(first.id, format!("the rest: {why}").as_str()), (second.id, why)]);
}
