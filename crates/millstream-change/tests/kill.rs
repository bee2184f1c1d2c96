//! A change by a process that is killed, at every point: it is shown, and can be confirmed or undone.

use crate::machine::{BEFORE, DEFAULT, Machine, NEW, SETTINGS};
use millstream_change::{State, Undone};
use millstream_failpoint::CHANGE;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Command;

/// What is done with a change, in order.
const STEPS: [&str; 3] = ["fix", "confirm", "undo"];

/// Run by the test below in a process of its own, which is killed.
#[tokio::test]
async fn takes_a_step_if_the_variable_is_set() {
    let Ok(step) = std::env::var("MILLSTREAM_TEST_STEP") else { return };
    let [kind, root] = ["MILLSTREAM_TEST_KIND", "MILLSTREAM_TEST_ROOT"].map(|name| std::env::var(name).unwrap());
    let setting = SETTINGS.iter().find(|setting| setting.kind == kind).unwrap();
    Machine::at(Path::new(&root), setting).run(&step).await.unwrap();
}

#[tokio::test]
async fn a_change_killed_at_any_point_can_be_confirmed_undone_or_lost_by_a_restart() {
    for setting in &SETTINGS {
        for point in CHANGE {
            for then in ["confirm", "undo", "restart", "keep"] {
                let dir = tempfile::tempdir().unwrap();
                let machine = Machine::new(dir.path(), setting);
                kill(&machine, setting.kind, point).await;
                ends_well(&machine, point, then).await;
            }
        }
    }
}

#[tokio::test]
async fn a_change_whose_closing_is_killed_is_closed_by_the_next_try() {
    for setting in &SETTINGS {
        for point in ["change-reopened", "line-restored"] {
            let dir = tempfile::tempdir().unwrap();
            let machine = Machine::confirmed(dir.path(), setting).await;
            kill_in_step(&machine, setting.kind, "keep", point);
            assert_eq!(machine.journal().open_entries().unwrap().len(), 1, "{point}: {machine:?}");
            let is_back = point == "change-reopened";
            assert_eq!(machine.run("keep").await, Ok(Some(Undone::Kept { is_back })));
            assert_eq!((machine.value().as_str(), machine.lasts()), (NEW, false), "{point}: {machine:?}");
        }
    }
}

/// Takes the change to a point, where the process is killed.
async fn kill(machine: &Machine, kind: &str, point: &str) {
    let place = |name: &str| CHANGE.iter().position(|known| *known == name).unwrap();
    let is_after = |name: &str| usize::from(place(point) > place(name));
    let last = is_after("change-verified") + is_after("change-confirmed");
    for step in &STEPS[..last] {
        machine.run(step).await.unwrap();
    }
    kill_in_step(machine, kind, STEPS[last], point);
}

/// Takes a step in a process that is killed at a point.
fn kill_in_step(machine: &Machine, kind: &str, step: &str, point: &str) {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "kill::takes_a_step_if_the_variable_is_set", "--nocapture"])
        .env("MILLSTREAM_TEST_STEP", step)
        .env("MILLSTREAM_TEST_KIND", kind)
        .env("MILLSTREAM_TEST_ROOT", &machine.root)
        .env("MILLSTREAM_FAILPOINTS", format!("{point}=kill"))
        .output()
        .unwrap();
    assert_eq!(output.status.signal(), Some(9), "{point} is passed: {output:?}");
}

/// Looks at what a kill has left. Then confirms the change or starts the machine again, and undoes it; or closes it.
async fn ends_well(machine: &Machine, point: &str, then: &str) {
    let (journal, place) = (machine.journal(), format!("{point}, then {then}: {machine:?}"));
    let is_new = !matches!(point, "change-planned" | "value-restored");
    let lasts = matches!(point, "line-written" | "change-confirmed" | "change-reopened");
    let value = if is_new { NEW } else { BEFORE };
    assert_eq!((machine.value().as_str(), machine.lasts()), (value, lasts), "{place}");
    let shown = journal.open_entries().unwrap().len();
    assert_eq!(shown, usize::from(point != "change-confirmed"), "{place}");

    if then == "keep" {
        assert_eq!(machine.run("keep").await, Ok(Some(Undone::Kept { is_back: lasts })), "{place}");
        assert_eq!((machine.value().as_str(), machine.lasts()), (value, false), "{place}");
        assert_eq!(journal.entry(1).unwrap().state, State::Closed, "{place}");
        assert_eq!(machine.run("undo").await, Ok(Some(Undone::Before)), "{place}");
        return;
    }
    let by_value = if is_new { Undone::Now } else { Undone::Already };
    let (undone, value) = match then {
        "confirm" => {
            // A change that was only planned is not known to be in effect.
            let can = is_new && point != "change-written";
            assert_eq!(machine.run("confirm").await.is_ok(), can, "{place}");
            assert_eq!(machine.lasts(), can, "{place}");
            (by_value, BEFORE)
        }
        "restart" => {
            machine.restart();
            if lasts { (Undone::Now, BEFORE) } else { (Undone::ByRestart, DEFAULT) }
        }
        _ => (by_value, BEFORE),
    };
    assert_eq!(machine.run("undo").await, Ok(Some(undone)), "{place}");
    assert_eq!((machine.value().as_str(), machine.lasts()), (value, false), "{place}");
    assert_eq!(journal.entry(1).unwrap().state, State::Undone, "{place}");
    assert_eq!(machine.run("undo").await, Ok(Some(Undone::Before)), "{place}");
}
