//! `ranges verify`: checks every entry of a store.

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, note};
use crate::quantity::things;
use crate::screen::visible;
use crate::store_name::StoreName;
use millstream_ranges::{Error, Generation, Verification, verify};

const EXAMPLES: &str = "\
Examples:
  millstream ranges verify cities
  millstream ranges verify cities@6
  millstream ranges verify /var/lib/other/data.mdb --output json

Exit code 1 if there is a problem.";

/// Check every entry of a store
///
/// Checks the hash of the file, its pages, the keys and their order, overlaps, the JSON of the values and whether
/// PostgreSQL can hold it, the last addresses and the counts of the receipt. Lists the first problems and counts all.
/// If the file itself is damaged, that is the only problem.
///
/// STORE may also be an LMDB file of another program, or a directory with data.mdb. Nobody may write it meanwhile.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct VerifyArgs {
    /// Store to check
    #[arg(value_name = "STORE[@N]")]
    store: StoreName,
}

/// Runs the command.
pub fn run(args: &VerifyArgs, output: Output) -> Result<Exit, Failure> {
    let StoreName { path, generation } = &args.store;
    let found = match Generation::open(path, *generation) {
        Ok(generation) => verify(&generation)?,
        // Here the damage is what is asked for.
        Err(Error::Damaged { path, problem }) => {
            let named = vec![format!("{} is damaged: {problem}", path.display())];
            Verification { problems: 1, named, ..Verification::default() }
        }
        Err(error) => return Err(error.into()),
    };
    let summary = summary(&args.store, &found);
    let lines: Vec<String> = found.named.iter().chain([&summary]).map(|line| visible(line)).collect();
    output.print(&found, &lines.join("\n"))?;
    if !found.hashed && found.problems == 0 {
        note("another program wrote the file: there is no hash of it to compare with");
    }
    Ok(if found.problems == 0 { Exit::Done } else { Exit::Findings })
}

fn summary(store: &StoreName, found: &Verification) -> String {
    let problems = match found.problems {
        0 => "no problem".to_owned(),
        problems => things(problems, "problem"),
    };
    let unlisted = found.problems.saturating_sub(found.named.len() as u64);
    let more = if unlisted > 0 { format!(", {} not listed", things(unlisted, "problem")) } else { String::new() };
    let (v4, v6) = (things(found.v4, "range"), things(found.v6, "range"));
    format!("{store}: {v4} of IPv4, {v6} of IPv6: {problems}{more}")
}
