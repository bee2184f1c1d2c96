//! `verify`: compares a collection with the files that it was loaded from.

use super::load::modes;
use crate::args::TargetArgs;
use crate::enrich::EnrichArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::interruption::attended;
use crate::keeper::Keeper;
use crate::origin_args::OriginArgs;
use crate::output::{Output, note};
use crate::progress::{Progress, ProgressChoice};
use crate::quantity::{Size, count, things};
use crate::screen::visible;
use crate::source_args::{Key, SourceArgs, key, sources};
use crate::target::{self, Purpose};
use millstream_engine::{Difference, Finding, LoadRequest, Mode, Tally, Tombstone, Verification, VerifyRequest};
use millstream_model::CollectionName;
use millstream_pg::Explained;
use std::path::PathBuf;
use std::sync::Arc;

const EXAMPLES: &str = "\
Examples:
  millstream verify events.ndjson.gz --into events --key id
  millstream verify 2026-*.ndjson --into raw.day --key device,ts --exact
  millstream verify first.csv second.csv --into cities --key id --mode keep

Exit code 0 if the table holds what the files say, 1 if it does not.

Give all files of all loads, in their order, with the --mode that you loaded
them with. Documents are equal if jsonb says so: 1 and 1.00 are equal.

While the command runs, it keeps sorted documents in TMPDIR (or /tmp). They take
about as much room as the uncompressed files, at most twice as much.";

/// Compare a table with the files that it was loaded from
///
/// Folds the documents of the files by key, reads the table row by row in key order, and lists the keys that
/// are missing or different in the table. With --exact it also lists the rows that have no document in the
/// files. Memory is bounded, whatever the size.
///
/// You need only the right to select from the table. Any program may have loaded it, as long as it has key
/// columns and a column doc of type jsonb.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct VerifyArgs {
    /// Files, in the order in which they were loaded; - is standard input
    ///
    /// You can give a pattern in quotes, such as 'logs/*.json.gz'. It stands for the files that match it,
    /// sorted by name. A folder that mongodump wrote stands for the one collection in it. A file may also be an object,
    /// such as s3://BUCKET/KEY.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// Table to compare with the files
    #[arg(long, value_name = "[SCHEMA.]NAME")]
    into: CollectionName,

    /// Where to find the key: [COLUMN=]PATH[:TYPE][,..]; the types are the table's; for dumps of MongoDB, you can leave
    /// it out
    #[arg(long, value_name = "KEY", value_parser = key)]
    key: Option<Key>,

    #[command(flatten)]
    source: SourceArgs,

    #[command(flatten)]
    enrich: EnrichArgs,

    #[command(flatten)]
    origin: OriginArgs,

    /// Name under which standard input or a pipe was loaded, if --with-source has added it
    #[arg(long, value_name = "NAME")]
    source_name: Option<String>,

    /// What a new document did to the stored document of the same key
    #[arg(long, value_name = "MODE", default_value = "replace", long_help = modes())]
    mode: Mode,

    /// Documents with the text VALUE at PATH deleted what was stored under their key
    #[arg(long, value_name = "PATH=VALUE")]
    delete_when: Option<Tombstone>,

    /// Count rows without a document in the files as differences, too
    #[arg(long)]
    exact: bool,

    /// List at most this many differences; all are counted
    #[arg(long, value_name = "N", default_value_t = millstream_engine::limits::FINDINGS_LISTED)]
    limit: usize,

    /// Memory for sorting documents, at least 256KiB and less than 4GiB; a number without a unit is in bytes
    #[arg(long, value_name = "SIZE", default_value = "64MiB")]
    memory: Size,

    /// How to show progress
    #[arg(long, value_name = "HOW", default_value = "auto")]
    progress: ProgressChoice,

    #[command(flatten)]
    target: TargetArgs,
}

/// Runs the command.
pub async fn run(args: &VerifyArgs, output: Output) -> Result<Exit, Failure> {
    let request = request(args)?;
    let db = target::resolve(&args.target, Purpose::Work).await?;
    let tally = Arc::new(Tally::default());
    let progress = Progress::start(args.progress, Arc::clone(&tally));
    let (keeper, printer) = (Keeper::watch(&args.target), progress.printer());
    let found = loop {
        let work = Box::pin(millstream_engine::verify(&request, &db, Arc::clone(&tally), &printer));
        match attended(&db, |text| printer.line(text), work).await {
            Err(error) if request.load.is_repeatable() && keeper.revived(error.kind()).await => tally.clear(),
            found => break found,
        }
    };
    progress.finish();
    let found = found?;
    let lines: Vec<String> = found.findings.iter().map(line).chain([summary(&found)]).collect();
    output.print(&found, &lines.join("\n"))?;
    if found.rejected > 0 {
        let rejected = things(found.rejected, "document");
        note(&format!("skipped {rejected} that a load rejects; `load --dry-run` shows what is wrong"));
    }
    Ok(if found.differences() == 0 { Exit::Done } else { Exit::Findings })
}

fn request(args: &VerifyArgs) -> Result<VerifyRequest, Failure> {
    let (sources, objects) = sources(&args.files)?;
    let key = args.source.key(args.key.as_ref(), &sources)?;
    let mut load = LoadRequest::new(args.into.clone(), key, sources);
    load.objects = objects;
    args.source.apply(&mut load);
    load.source_name.clone_from(&args.source_name);
    load.transforms = [args.source.transforms(), args.enrich.transforms(&load.key)?].concat();
    args.origin.apply(&mut load, &args.enrich)?;
    load.mode = args.mode.clone().with_tombstone(args.delete_when.clone());
    load.schema = target::schema(&args.target);
    let mut request = VerifyRequest::new(load, std::env::temp_dir());
    request.exact = args.exact;
    request.findings_max = args.limit;
    request.memory_bytes = args.memory.bytes;
    request.check()?;
    Ok(request)
}

/// `different: KEY (FILE:LINE)`, the key as `get` takes it.
fn line(finding: &Finding) -> String {
    let what = match finding.difference {
        Difference::Missing => "missing",
        Difference::Different => "different",
        Difference::Extra => "extra",
    };
    let place = finding.source.as_ref().zip(finding.line).map(|(file, line)| format!(" ({file}:{line})"));
    visible(&format!("{what}: {}{}", key_text(&finding.key), place.unwrap_or_default()))
}

fn key_text(values: &[Option<String>]) -> String {
    let escaped = |value: &String| value.replace('\\', "\\\\").replace(',', "\\,");
    match values {
        [Some(value)] => value.clone(),
        values => values.iter().map(|v| v.as_ref().map_or("null".into(), escaped)).collect::<Vec<_>>().join(","),
    }
}

fn summary(found: &Verification) -> String {
    let Verification { collection, keys, read, equal, missing, different, .. } = found;
    let extra = found.extra.map_or(String::new(), |extra| format!(", {} extra", count(extra)));
    let unlisted = found.differences().saturating_sub(found.findings.len() as u64);
    let more = if unlisted > 0 { format!("\n{} not listed", things(unlisted, "difference")) } else { String::new() };
    format!(
        "{collection}: {} in {}: {} equal, {} missing, {} different{extra}{more}",
        things(*keys, "key"),
        things(*read, "document"),
        count(*equal),
        count(*missing),
        count(*different),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_print_as_get_accepts_them_without_control_characters() {
        let finding = |key: &[Option<&str>]| Finding {
            difference: Difference::Different,
            key: key.iter().map(|value| value.map(str::to_owned)).collect(),
            source: Some("a.ndjson".into()),
            line: Some(7),
        };
        assert_eq!(line(&finding(&[Some("a,b\\")])), "different: a,b\\ (a.ndjson:7)");
        assert_eq!(line(&finding(&[Some("a,b\\"), Some("1")])), "different: a\\,b\\\\,1 (a.ndjson:7)");
        assert_eq!(line(&finding(&[None, Some("\u{1b}")])), "different: null,\\u001b (a.ndjson:7)");
    }
}
