//! `copy verify`: compares copies with their manifests.

use super::{home, watched};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, note};
use crate::progress::ProgressChoice;
use crate::quantity::{self, things};
use crate::signal::Signals;
use millstream_copy::Verification;
use millstream_copy::limits::WORKERS_MAX;
use std::ffi::OsString;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  millstream copy verify /backup/photos
  millstream copy verify /backup --workers 8 --output json
  millstream copy verify me@host:backup/photos

Exit code 1 if something is not as it was copied.";

/// Compare a copy with what was copied, without the source
///
/// Reads every file and compares its hash with the one that the copy has noted. Also compares the sizes and times of
/// files, rights, and where links lead. What came to the destination in other ways is not looked at.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct VerifyArgs {
    /// Destination of a copy, or a folder that holds several
    #[arg(value_name = "DESTINATION")]
    destination: PathBuf,

    /// Remote shell with its options [default: $RSYNC_RSH, else ssh that asks for no password]
    #[arg(long, value_name = "COMMAND")]
    ssh: Option<OsString>,

    /// Files that are read at once [default: one for each processor]
    #[arg(long, value_name = "N", value_parser = crate::args::workers(WORKERS_MAX))]
    workers: Option<usize>,

    /// How to show progress
    #[arg(long, value_name = "HOW", default_value = "auto")]
    progress: ProgressChoice,
}

/// Runs the command.
pub async fn run(args: &VerifyArgs, output: Output, signals: &Signals) -> Result<Exit, Failure> {
    let (destination, shell, home) = (args.destination.clone(), args.ssh.clone(), home()?);
    let workers = args.workers.unwrap_or_else(millstream_host::cpus);
    let (watched, tally) = watched(args.progress, signals);
    let verify = move || millstream_copy::verify(&destination, shell, &home, workers, &tally);
    let (found, stopped) = watched.run("the comparison", verify).await?;
    let found = found?;
    match output.is_json() {
        true => output.json(&found)?,
        false => found.iter().try_for_each(|found| output.line(&text(found)))?,
    }
    if let Some(exit) = stopped {
        note("stopped; the rest was not compared");
        return Ok(exit);
    }
    Ok(if found.iter().all(|found| found.problems == 0) { Exit::Done } else { Exit::Findings })
}

/// What was found, the problems first.
pub(super) fn text(found: &Verification) -> String {
    let mut lines: Vec<String> =
        found.named.iter().map(|problem| format!("{}: {}", problem.path, problem.reason)).collect();
    let unlisted = found.problems.saturating_sub(found.named.len() as u64);
    if unlisted > 0 {
        lines.push(format!("and {} more", things(unlisted, "problem")));
    }
    let problems = match found.problems {
        0 if found.stopped => "no problem so far; it was stopped".to_owned(),
        0 => "no problem".to_owned(),
        problems => things(problems, "problem"),
    };
    lines.push(format!(
        "{}: {} compared, {} read in {:.1} s: {problems}",
        found.destination,
        things(found.entries, "entry"),
        quantity::bytes(found.bytes),
        found.seconds
    ));
    if found.unhashed > 0 {
        let files = things(found.unhashed, "file");
        lines.push(format!("of {files} no hash is known: only their sizes and times were compared"));
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comparison_says_what_it_could_not_compare() {
        let found = Verification { problems: 6, unhashed: 2, ..Verification::default() };
        let text = text(&found);
        assert!(text.starts_with("and 6 problems more\n") && text.contains(": 6 problems\n"), "{text}");
        assert!(text.contains("of 2 files no hash is known"), "{text}");
    }
}
