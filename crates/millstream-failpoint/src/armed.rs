//! What an armed point does.

use crate::points;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

fn known(point: &str) -> Option<&'static str> {
    points::all().find(|known| *known == point)
}

const VARIABLE: &str = "MILLSTREAM_FAILPOINTS";
/// Time between two looks at the file that a point waits for.
const LOOK_EVERY: Duration = Duration::from_millis(2);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Action {
    Kill,
    Wait(PathBuf),
    Error,
}

#[derive(Debug)]
struct Armed {
    point: &'static str,
    action: Action,
    /// Passes left until the action happens.
    left: AtomicU32,
}

/// The error of a point whose action is `error`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Failed(pub &'static str);

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "failpoint {}", self.0)
    }
}

static ARMED: LazyLock<Vec<Armed>> = LazyLock::new(|| {
    let text = std::env::var(VARIABLE).unwrap_or_default();
    parse(&text).unwrap_or_else(|problem| panic!("{VARIABLE}: {problem}"))
});

/// Passes a point in a task.
///
/// # Errors
/// [`Failed`] if the action is `error`.
///
/// # Panics
/// If the point is in no list, or the environment variable cannot be read.
pub async fn hit(point: &'static str) -> Result<(), Failed> {
    let held_by = act(point)?;
    while held_by.is_some_and(Path::exists) {
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(())
}

/// Passes a point on a thread of its own, where a test can kill or hold the program, but not fail it.
///
/// # Panics
/// If the action is `error`, or the point is in no list.
pub fn hit_on_thread(point: &'static str) {
    let Ok(held_by) = act(point) else { panic!("{point} is passed on a thread, which cannot fail there") };
    while held_by.is_some_and(Path::exists) {
        std::thread::sleep(LOOK_EVERY);
    }
}

/// Does what is due at a point. Returns the file to wait for, if the point is to be held.
fn act(point: &'static str) -> Result<Option<&'static Path>, Failed> {
    match due(point) {
        None => Ok(None),
        Some(Action::Kill) => kill(),
        Some(Action::Error) => Err(Failed(point)),
        Some(Action::Wait(file)) => {
            std::fs::write(file, "").unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            Ok(Some(file))
        }
    }
}

fn due(point: &str) -> Option<&'static Action> {
    assert!(known(point).is_some(), "{point} is in no list");
    let armed = ARMED.iter().find(|armed| armed.point == point)?;
    let last = armed.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1));
    (last == Ok(1)).then_some(&armed.action)
}

fn kill() -> ! {
    let own = rustix::process::getpid();
    rustix::process::kill_process(own, rustix::process::Signal::KILL).expect("a process may kill itself");
    loop {
        std::thread::park();
    }
}

fn parse(text: &str) -> Result<Vec<Armed>, String> {
    text.split(';').filter(|part| !part.is_empty()).map(parse_one).collect()
}

fn parse_one(text: &str) -> Result<Armed, String> {
    let (name, rest) = text.split_once('=').ok_or(format!("\"{text}\" is not POINT=ACTION"))?;
    let point = known(name).ok_or(format!("there is no point {name}"))?;
    let (action, count) = rest.split_once('@').unwrap_or((rest, "1"));
    let action = match action.split_once(':') {
        None if action == "kill" => Action::Kill,
        None if action == "error" => Action::Error,
        Some(("wait", file)) => Action::Wait(file.into()),
        _ => return Err(format!("there is no action {action}")),
    };
    let left = count.parse().ok().filter(|n| *n > 0).ok_or(format!("\"{count}\" is not a count"))?;
    Ok(Armed { point, action, left: AtomicU32::new(left) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn point_names_are_unique() {
        let names: std::collections::BTreeSet<_> = points::all().collect();
        assert_eq!(names.len(), points::all().count());
    }

    #[test]
    fn a_list_of_points_is_parsed_and_wrong_ones_are_refused() {
        let armed = parse("commit-sent=kill@3;chunk-read=wait:/tmp/x;batch-written=error").unwrap();
        let parsed: Vec<_> = armed.iter().map(|a| (a.point, a.action.clone(), a.left.load(Relaxed))).collect();
        let wait = Action::Wait("/tmp/x".into());
        assert_eq!(
            parsed,
            [("commit-sent", Action::Kill, 3), ("chunk-read", wait, 1), ("batch-written", Action::Error, 1)]
        );
        for wrong in ["kill", "nowhere=kill", "chunk-read=stop", "chunk-read=kill@0", "chunk-read=kill@x"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
