//! The process that undoes a change in time, whatever happens to the one that made it.

use super::{KINDS, journal, place_of};
use crate::args::TargetArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::limits::{CHANGE_LATE_SECONDS_MAX, CHANGE_LOOK, CHANGE_PAUSE_MAX, WATCH_READY_MAX};
use crate::output::Output;
use millstream_change::{Changes, State};
use millstream_host::{Command, leave_terminal};
use millstream_model::Change;
use std::path::Path;
use std::time::Duration;

/// What is there while systemd runs. Source: sd_booted(3).
const SYSTEMD: &str = "/run/systemd/system";

/// Watch over a change until it is confirmed, or undo it in time
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  millstream doctor undo-in-time 3")]
pub struct UndoInTimeArgs {
    /// Number of the change
    number: u32,

    #[command(flatten)]
    target: TargetArgs,
}

/// Plans a change, and starts the process that undoes it in time. Returns its number.
///
/// # Errors
/// It cannot be planned, or nobody would watch over it: then it is closed again.
pub async fn watched(
    made: &Changes<'_>,
    change: &Change,
    reason: &str,
    confirm_within: Duration,
    db: Option<&str>,
) -> Result<u32, Failure> {
    let number = made.plan(change, reason, Some(confirm_within)).await?.number;
    if let Err(failure) = watch(number, db).await {
        let _ = made.undo(number).await;
        return Err(failure);
    }
    Ok(number)
}

/// Starts a process that undoes the change in time, whatever happens to this one.
async fn watch(number: u32, db: Option<&str>) -> Result<(), Failure> {
    let program = std::env::current_exe().map_err(|error| Failure::user("cannot find this program").because(&error))?;
    let start = async |mut command: Command| {
        command.args(["doctor", "undo-in-time", &number.to_string()]);
        if let Some(db) = db {
            // It may hold a password, which arguments would show to everybody.
            command.env("MILLSTREAM_DB", db);
        }
        command.leave(WATCH_READY_MAX).await
    };
    // The end of a session may end all of its processes, but not a unit of its own.
    if Path::new(SYSTEMD).is_dir() && start(unit(&program, db.is_some())).await.is_ok() {
        return Ok(());
    }
    start(Command::new(program)).await.map_err(|error| {
        Failure::user("the process that would undo the change does not start; nothing was changed").because(&error)
    })
}

/// The program as a unit that ends by itself. It gets our variables by name, so that no argument shows a value.
fn unit(program: &Path, has_db: bool) -> Command {
    let mut command = Command::new("systemd-run");
    command.args(["--quiet", "--collect", "--pipe"]);
    let named = |name: &&str| std::env::var_os(name).is_some() || (has_db && *name == "MILLSTREAM_DB");
    let variables = ["MILLSTREAM_HOME", "MILLSTREAM_DB", "DATABASE_URL", "PGPASSFILE", "PGPASSWORD", "HOME"];
    command.args(variables.iter().filter(|name| named(name)).map(|name| format!("--setenv={name}")));
    command.arg(program);
    command
}

/// Runs `undo-in-time`.
pub async fn undo_in_time(args: &UndoInTimeArgs, output: Output) -> Result<Exit, Failure> {
    leave_terminal();
    let journal = journal()?;
    let place = place_of(&journal.entry(args.number)?, Some(&args.target)).await?;
    let changes = Changes::new(&journal, KINDS, &place);
    output.line("watching")?;
    let mut pause = CHANGE_LOOK;
    let mut was_held = false;
    loop {
        let is_held = journal.try_lock(args.number)?.is_none();
        was_held |= is_held;
        let entry = journal.entry(args.number)?;
        // Without a deadline, nothing is undone by itself.
        if entry.state.is_over() || entry.deadline.is_none() {
            return Ok(Exit::Done);
        }
        // Whoever applied it has ended before the change was verified.
        let is_left = was_held && !is_held && entry.state == State::Planned;
        match entry.late_seconds().or(is_left.then_some(0)) {
            None => pause = CHANGE_LOOK,
            Some(late) => match changes.undo_if_late(args.number, is_left).await {
                // Another process works on it, or has given it another deadline.
                Ok(None) => pause = CHANGE_LOOK,
                // What somebody else has set stays. The next run of the doctor shows that the change is open.
                Ok(Some(_)) => return Ok(Exit::Done),
                Err(refusal) if late >= CHANGE_LATE_SECONDS_MAX => return Err(refusal.into()),
                // For example the server restarts.
                Err(_) => pause = (2 * pause).min(CHANGE_PAUSE_MAX),
            },
        }
        tokio::time::sleep(pause).await;
    }
}
