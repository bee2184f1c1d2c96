//! `doctor fix --profile`: applies a list of settings as one change, with one undo.

use super::fix::{FixArgs, ProfileName, alone, note_made};
use crate::changes::{self, KINDS, place};
use crate::confirmation::confirmed;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, note};
use crate::screen::stdout_columns;
use crate::table::wrap;
use crate::target::resolve_running;
use millstream_change::{Changes, Entry, Proposal};
use millstream_doctor::{Profile, ProfileKind, ProfileLine, ProfileStep, database_profile};
use millstream_model::{Change, Class};

/// Shows what the profile does, asks, and makes the change.
pub async fn apply(args: &FixArgs, profile: ProfileName, output: Output) -> Result<Exit, Failure> {
    changes::note_open();
    let db = resolve_running(&args.target).await?;
    let found = match profile {
        ProfileName::Database => database_profile(&db, None).await?,
    };
    if output.is_json() {
        output.json(&found)?;
    } else {
        let width = stdout_columns().unwrap_or(usize::MAX);
        output.line(&text(&found, width))?;
    }
    let Some(change) = &found.change else {
        note("the profile has nothing to change");
        return Ok(Exit::Done);
    };
    let (journal, place) = (changes::journal()?, place(Some(db.clone()))?);
    refuse_open(change, &journal.open_entries()?)?;
    let made = Changes::new(&journal, KINDS, &place);
    if let Some(server) = made.server(change)? {
        note(&format!("server: {server}"));
    }
    note("risk: plans, memory and the use of the disk change; measure your own work before and after");
    if !args.yes && !confirmed("Change all of this?", alone)? {
        note("nothing was changed");
        return Ok(Exit::Done);
    }
    let (reason, confirm_within) = (format!("profile:{}", found.name), args.confirm_within);
    let proposal = Proposal { change: change.clone(), from: None, reason, confirm_within };
    let typed = args.target.db.as_deref();
    let number = changes::made(&made, &proposal, typed, Box::pin(async { Ok(()) }), &|_| {}).await?.number;
    note_made(number, confirm_within, &args.target, change);
    Ok(Exit::Done)
}

/// Refuses if another change of a part waits: giving it back later would take a part of the profile away.
fn refuse_open(change: &Change, open: &[Entry]) -> Result<(), Failure> {
    let parts = ProfileKind::parts(&change.target)?;
    let is_part = |entry: &&Entry| parts.contains(&(entry.kind.as_str(), entry.target.as_str()));
    match open.iter().find(is_part) {
        None => Ok(()),
        Some(Entry { number, target, .. }) => {
            let why = format!("change {number} of {target} is neither confirmed nor undone");
            let hint = format!("first run millstream doctor confirm {number} or millstream doctor undo {number}");
            Err(Failure::user(why).hint(hint))
        }
    }
}

/// The lines of a profile in paragraphs, in the order of what becomes of them.
fn text(profile: &Profile, width: usize) -> String {
    let steps = [
        (ProfileStep::Change, "changes"),
        (ProfileStep::ByHand, "yours"),
        (ProfileStep::Fits, "fits"),
        (ProfileStep::LeftOut, "left out"),
    ];
    let mut lines = Vec::new();
    for (step, word) in steps {
        for line in profile.lines.iter().filter(|line| line.step == step) {
            lines.extend(wrap(&format!("{word}: {}", headline(line)), width));
            let why = format!("{}: {}", sureness(line.class), line.why);
            lines.extend(wrap(&why, width.saturating_sub(2)).into_iter().map(|part| format!("  {part}")));
            lines.extend(line.commands.iter().map(|command| format!("    {command}")));
        }
    }
    lines.join("\n")
}

fn headline(line: &ProfileLine) -> String {
    let ProfileLine { setting, now, value, .. } = line;
    match (now, value) {
        (Some(now), Some(value)) => format!("{setting}: {now} -> {value}"),
        (None, Some(value)) => format!("{setting}: {value}"),
        (Some(now), None) => format!("{setting}: {now}"),
        (None, None) => setting.clone(),
    }
}

fn sureness(class: Class) -> &'static str {
    match class {
        Class::Fact => "a fact",
        Class::Arithmetic => "arithmetic",
        Class::Hypothesis => "a hypothesis",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_change_of_a_part_is_refused() {
        let change = Change::new("profile", "sysctl:vm.swappiness,setting:work_mem", "[]");
        let entry = |kind: &str, target: &str| -> Entry {
            serde_json::from_value(serde_json::json!({
                "number": 3, "kind": kind, "target": target, "before": null, "value": null, "reason": "", "state": "verified",
                "planned": 0, "confirm_seconds": null, "deadline": null, "boot": "", "identity": null, "line": null
            }))
            .unwrap()
        };
        assert!(refuse_open(&change, &[entry("setting", "max_wal_size"), entry("sysctl", "work_mem")]).is_ok());
        let refused = refuse_open(&change, &[entry("setting", "work_mem")]).unwrap_err().to_string();
        assert!(refused.contains("change 3 of work_mem is neither confirmed nor undone"), "{refused}");
    }
}
