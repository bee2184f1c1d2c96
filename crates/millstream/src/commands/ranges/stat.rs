//! `ranges stat`: prints what a store has, and how it was built.

use super::receipt;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::quantity;
use crate::screen::visible;
use crate::store_name::StoreName;
use crate::table::{Align, Column, Table};
use millstream_ranges::{Layout, Receipt};
use serde::Serialize;
use std::fs;
use std::io;
use std::path::Path;

const EXAMPLES: &str = "\
Examples:
  millstream ranges stat cities
  millstream ranges stat cities@6 --output json";

/// Print the receipt, the file and the generations of a store
///
/// A file that another program wrote has no receipt and no generations.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct StatArgs {
    /// Store to look at
    #[arg(value_name = "STORE[@N]")]
    store: StoreName,
}

#[derive(Debug, Serialize)]
struct Stat<'a> {
    file: String,
    bytes: u64,
    layout: Layout,
    generations: Vec<Kept>,
    receipt: Option<&'a Receipt>,
}

/// A generation that is there.
#[derive(Debug, Serialize)]
struct Kept {
    generation: u64,
    current: bool,
    bytes: u64,
    built_at: String,
}

/// Runs the command.
pub fn run(args: &StatArgs, output: Output) -> Result<Exit, Failure> {
    let generation = args.store.open()?;
    let path = generation.path();
    let generations = match generation.receipt().and(path.parent()) {
        Some(store) => kept(store)?,
        None => Vec::new(),
    };
    let stat = Stat {
        file: path.display().to_string(),
        bytes: fs::metadata(path).map_err(Failure::cannot("read", path))?.len(),
        layout: generation.layout(),
        generations,
        receipt: generation.receipt(),
    };
    if output.is_json() {
        output.json(&stat)?;
    } else {
        stat.print(output)?;
    }
    Ok(Exit::Done)
}

/// The generations in the directory of a store, the oldest first.
fn kept(store: &Path) -> Result<Vec<Kept>, Failure> {
    let current = millstream_ranges::current(store)?;
    let mut kept = Vec::new();
    for (generation, file) in millstream_ranges::generations(store)? {
        let failed = Failure::cannot("read", &file);
        let metadata = match fs::metadata(&file) {
            // A build may remove it at any time.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            metadata => metadata.map_err(&failed)?,
        };
        let modified = metadata.modified().map_err(&failed)?;
        let built_at = jiff::Timestamp::try_from(modified).map_err(io::Error::other).map_err(&failed)?;
        kept.push(Kept {
            generation,
            current: generation == current,
            bytes: metadata.len(),
            built_at: built_at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        });
    }
    Ok(kept)
}

impl Stat<'_> {
    fn print(&self, output: Output) -> Result<(), Failure> {
        let layout = match self.layout {
            Layout::Named => "a database for each family",
            Layout::Single => "one database for both families",
        };
        output.line(&visible(&format!("{}: {}, {layout}", self.file, quantity::bytes(self.bytes))))?;
        let Some(receipt) = self.receipt else {
            return output.line("another program wrote it: it has no receipt and no generations");
        };
        for source in &receipt.sources {
            output.line(&visible(&format!("source: {source}")))?;
        }
        output.line(&format!("XXH3-128: {}", receipt.xxh3))?;
        output.line(&receipt::text(receipt))?;
        output.line("")?;
        output.table(&Table::of(&self.generations, COLUMNS))
    }
}

const COLUMNS: &[Column<Kept>] = &[
    ("generation", Align::Right, |kept| kept.generation.to_string()),
    ("built (utc)", Align::Left, |kept| quantity::minute(&kept.built_at)),
    ("size", Align::Right, |kept| quantity::bytes(kept.bytes)),
    ("", Align::Left, |kept| if kept.current { "current".to_owned() } else { String::new() }),
];
