//! `cat`: prints files as a load reads them.

use crate::exit::Exit;
use crate::failure::Failure;
use crate::limits::CAT_BYTES;
use crate::output::{Output, note};
use crate::quantity;
use crate::source_args::{nans, sources};
use millstream_document::source::{Location, Nan};
use millstream_input::{End, NANS, Window};
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  millstream cat sales.parquet
  millstream cat 'sales/*.parquet' --nan string
  millstream cat dump/shop/orders.bson.gz | head -n 3
  millstream cat 's3://sales/2026/*.json.gz'";

/// The command to which another program's output is given.
const READER: &str = "millstream cat -";

/// Print files as a load reads them: Parquet, Arrow, Avro and BSON as NDJSON, and gzip and zstd opened
///
/// A row of Parquet or Arrow, a record of Avro, or a document of BSON, is one line, a JSON object. Positions and line
/// numbers of a load are those of this text. Text stays as it is. A document of BSON that is malformed is a line that
/// begins with an exclamation mark; it says what is wrong, and has the document's bytes in base64.
///
/// If a file is damaged, what stands before the damage is printed, and then the command fails.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct CatArgs {
    /// Files, or objects such as s3://BUCKET/KEY; - is standard input
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// Parquet, Arrow, Avro and BSON: what becomes of NaN and infinity, which JSON lacks
    #[arg(long, value_name = "HOW", default_value = NANS[0].1, value_parser = nans())]
    nan: Nan,
}

/// Runs the command.
pub fn run(args: &CatArgs, output: Output) -> Result<Exit, Failure> {
    let (sources, objects) = sources(&args.files)?;
    for name in sources {
        if !print(&Location::of(&name, &objects), args.nan, output)? {
            break;
        }
    }
    Ok(Exit::Done)
}

/// Prints a file. `false`: nobody reads the output any more.
fn print(location: &Location, nan: Nan, output: Output) -> Result<bool, Failure> {
    let failed = |error: millstream_input::Error| Failure::of(&error).hint(error.hint(READER));
    let mut window = Window::new(location.open(nan).map_err(failed)?, CAT_BYTES);
    let progress = window.progress();
    let mark = window.begin_text(None).map_err(failed)?;
    window.skip(mark);
    if window.bytes().is_empty() {
        window.fill().map_err(failed)?;
    }
    // No text that a load reads has such a byte, and almost every other file has one soon.
    if window.made().is_none() && window.bytes().contains(&0) {
        return Err(Failure::user(format!("{} is not text", window.name())).hint("`file FILE` shows what it is"));
    }
    loop {
        let bytes = window.bytes().len();
        if bytes > 0 && !output.bytes(window.bytes())? {
            return Ok(false);
        }
        window.skip(bytes);
        if !window.fill().map_err(failed)? {
            break;
        }
    }
    if let Some(End::Damaged(why)) = window.end() {
        return Err(Failure::user(format!("{} is damaged: {why}", window.name())).hint("what stands before is printed"));
    }
    if progress.not_finite() > 0 {
        let numbers = quantity::things(progress.not_finite(), "number");
        note(&format!("{numbers} that JSON does not have became null; --nan string keeps their words"));
    }
    Ok(true)
}
