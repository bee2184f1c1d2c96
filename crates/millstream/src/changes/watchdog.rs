//! The process that undoes a change in time: which command it runs, and how the variables that name the server reach it.

use super::{KINDS, journal, place_of};
use crate::args::TargetArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::limits::VARIABLES_BYTES_MAX;
use crate::output::Output;
use millstream_change::{Answer, Changes, Entry, Proposal, Step, Watchdog, find};
use millstream_host::{Command, leave_terminal};
use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

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

/// Makes a change; a process of this program watches over it if it is to be confirmed in time. `db`: what was typed as the
/// server. `works` and `say` are as for [`Proposal::make`].
pub async fn made(
    changes: &Changes<'_>,
    proposal: &Proposal,
    db: Option<&str>,
    works: Answer<'_, ()>,
    say: &dyn Fn(Step),
) -> Result<Entry, Failure> {
    let is_of_server = find(KINDS, &proposal.change.kind).is_some_and(|kind| kind.is_of_server());
    let handed = if is_of_server { handed(std::env::vars_os(), db) } else { Vec::new() };
    proposal.make(changes, async |number: u32| watch(number, handed).await, works, say).await
}

/// Starts the process that undoes the change in time. `handed`: the variables that it needs.
async fn watch(number: u32, handed: Vec<u8>) -> Result<(), Failure> {
    let program = std::env::current_exe().map_err(|error| Failure::user("cannot find this program").because(&error))?;
    let words = ["doctor", "undo-in-time", &number.to_string(), READS_VARIABLES].map(str::to_owned).to_vec();
    let hidden = std::env::vars_os().map(|(name, _)| name).filter(|name| names_server(name)).collect();
    let open = ["MILLSTREAM_HOME", "HOME"].into_iter().filter(|name| std::env::var_os(name).is_some()).collect();
    let watchdog = Watchdog { program, words, input: handed, hidden, open };
    watchdog.start().await.map_err(|error| {
        Failure::user("the process that would undo the change does not start; nothing was changed").because(&error)
    })
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
    changes.watch_over(args.number).await?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> Vec<(OsString, OsString)> {
        pairs.iter().map(|(name, value)| (name.into(), value.into())).collect()
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
