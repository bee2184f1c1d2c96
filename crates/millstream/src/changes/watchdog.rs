//! The process that undoes a change in time, whatever happens to the one that made it.

use super::{KINDS, journal, place_of};
use crate::args::TargetArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::limits::{CHANGE_LATE_SECONDS_MAX, CHANGE_LOOK, CHANGE_PAUSE_MAX, VARIABLES_BYTES_MAX, WATCH_READY_MAX};
use crate::output::Output;
use millstream_change::{Changes, State, find};
use millstream_host::{Command, leave_terminal};
use millstream_model::Change;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::time::Duration;

/// What is there while systemd runs. Source: sd_booted(3).
const SYSTEMD: &str = "/run/systemd/system";

/// The option with which the process reads variables from its input.
const READS_VARIABLES: &str = "--read-variables";

/// Watch over a change until it is confirmed, or undo it in time
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  millstream doctor undo-in-time 3")]
pub struct UndoInTimeArgs {
    /// Number of the change
    number: u32,

    /// Read the variables that name the server from stdin
    #[arg(long)]
    read_variables: bool,

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
    let is_of_server = find(KINDS, &change.kind).is_some_and(|kind| kind.is_of_server());
    let handed = if is_of_server { handed(std::env::vars_os(), db) } else { Vec::new() };
    if let Err(failure) = watch(number, &handed).await {
        let _ = made.undo(number).await;
        return Err(failure);
    }
    Ok(number)
}

/// Starts a process that undoes the change in time, whatever happens to this one. `handed`: the variables that it needs.
async fn watch(number: u32, handed: &[u8]) -> Result<(), Failure> {
    let program = std::env::current_exe().map_err(|error| Failure::user("cannot find this program").because(&error))?;
    let start = async |mut command: Command| {
        command.args(["doctor", "undo-in-time", &number.to_string(), READS_VARIABLES]).input(handed);
        for (name, _) in std::env::vars_os().filter(|(name, _)| names_server(name)) {
            command.env_remove(name);
        }
        command.leave(WATCH_READY_MAX).await
    };
    // The end of a session may end all of its processes, but not a unit of its own.
    if Path::new(SYSTEMD).is_dir() {
        let mut unit = Command::new("systemd-run");
        if is_where_systemd_is() {
            unit.args(unit_words(&program, |name| std::env::var_os(name).is_some()));
        } else {
            // As a process of ours, with our network and files, in a unit of its own.
            unit.args(["--quiet", "--collect", "--scope"]).arg(&program);
        }
        if start(unit).await.is_ok() {
            return Ok(());
        }
    }
    start(Command::new(program)).await.map_err(|error| {
        Failure::user("the process that would undo the change does not start; nothing was changed").because(&error)
    })
}

/// The program as a unit that ends by itself. Every user of the machine can read the variables of a unit, so it gets those
/// alone that hold no secret, and the others by its input.
fn unit_words(program: &Path, is_set: impl Fn(&str) -> bool) -> Vec<OsString> {
    let mut words: Vec<OsString> = ["--quiet", "--collect", "--pipe"].map(OsString::from).to_vec();
    let named = ["MILLSTREAM_HOME", "HOME"].into_iter().filter(|name| is_set(name));
    words.extend(named.map(|name| OsString::from(format!("--setenv={name}"))));
    words.push(program.into());
    words
}

/// Whether a variable decides which server is meant, or how to log in there.
fn names_server(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b"PG") || name == "MILLSTREAM_DB" || name == "DATABASE_URL"
}

/// The variables that lead to the server, as `NAME=VALUE`, each with a zero byte behind it. `db`: what was typed instead.
fn handed(variables: impl Iterator<Item = (OsString, OsString)>, db: Option<&str>) -> Vec<u8> {
    let is_replaced = |name: &OsStr| db.is_some() && name == "MILLSTREAM_DB";
    let typed = db.map(|db| (OsString::from("MILLSTREAM_DB"), OsString::from(db)));
    let needed = variables.filter(|(name, _)| names_server(name) && !is_replaced(name)).chain(typed);
    needed.flat_map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes(), &[0]].concat()).collect()
}

/// Reads what [`handed`] has written.
fn received(input: impl Read) -> io::Result<Vec<(OsString, OsString)>> {
    let mut bytes = Vec::new();
    input.take(VARIABLES_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > VARIABLES_BYTES_MAX {
        return Err(io::Error::other(format!("they have more than {VARIABLES_BYTES_MAX} bytes")));
    }
    let text = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
    let pair = |entry: &[u8]| {
        let at = entry.iter().position(|byte| *byte == b'=')?;
        Some((text(&entry[..at]), text(&entry[at + 1..])))
    };
    Ok(bytes.split(|byte| *byte == 0).filter_map(pair).filter(|(name, _)| names_server(name)).collect())
}

/// Becomes the same process with the variables that it reads. Returns only if that fails.
fn begin_again_with_variables() -> Failure {
    let variables = match received(io::stdin()) {
        Ok(variables) => variables,
        Err(error) => return Failure::user("cannot read the variables that name the server").because(&error),
    };
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(error) => return Failure::user("cannot find this program").because(&error),
    };
    let mut command = Command::new(program);
    command.args(std::env::args_os().skip(1).filter(|word| word != READS_VARIABLES));
    for (name, value) in variables {
        command.env(name, value);
    }
    Failure::user("cannot start this program again").because(&command.exec())
}

/// Whether a unit would have the network and the files of this process. Otherwise it would undo the change elsewhere.
fn is_where_systemd_is() -> bool {
    let namespace = |process: &str, kind: &str| fs::read_link(format!("/proc/{process}/ns/{kind}")).ok();
    ["net", "mnt"].iter().all(|kind| {
        let own = namespace("self", kind);
        own.is_some() && own == namespace("1", kind)
    })
}

/// Runs `undo-in-time`.
pub async fn undo_in_time(args: &UndoInTimeArgs, output: Output) -> Result<Exit, Failure> {
    if args.read_variables {
        return Err(begin_again_with_variables());
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
        pairs.iter().map(|(name, value)| (name.into(), value.into())).collect()
    }

    #[test]
    fn a_unit_gets_no_variable_that_may_hold_a_secret() {
        let words = unit_words(Path::new("/bin/millstream"), |_| true);
        let expected =
            ["--quiet", "--collect", "--pipe", "--setenv=MILLSTREAM_HOME", "--setenv=HOME", "/bin/millstream"];
        assert_eq!(words, expected);
        assert!(!unit_words(Path::new("/bin/millstream"), |_| false).iter().any(|word| word == "--setenv=HOME"));
    }

    #[test]
    fn variables_that_lead_to_the_server_are_read_as_they_were_handed_over() {
        let ours = [("PGPASSWORD", "a=b\nc"), ("DATABASE_URL", "postgres://me:x@h/d"), ("PGHOST", "")];
        let mut all = variables(&ours);
        all.extend(variables(&[("HOME", "/root"), ("LD_PRELOAD", "/tmp/x.so")]));
        let read = |db: Option<&str>| received(&handed(all.clone().into_iter(), db)[..]).unwrap();
        assert_eq!(read(None), variables(&ours));
        all.extend(variables(&[("MILLSTREAM_DB", "old")]));
        let read = |db: Option<&str>| received(&handed(all.clone().into_iter(), db)[..]).unwrap();
        assert_eq!(read(Some("new")).last(), variables(&[("MILLSTREAM_DB", "new")]).last());
        assert_eq!(read(Some("new")).len(), ours.len() + 1);
        assert!(received(&b"LD_PRELOAD=/tmp/x.so\0odd\0"[..]).unwrap().is_empty());
        assert!(received(io::repeat(b'x')).is_err());
    }
}
