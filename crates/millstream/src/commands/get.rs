//! `get`: prints documents by key.

use crate::args::TargetArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::key_values;
use crate::output::{Output, note};
use crate::target::Database;
use millstream_engine::store::collections::{self, Collection};
use millstream_model::CollectionName;
use serde::Serialize;
use serde_json::value::RawValue;

const EXAMPLES: &str = "\
Examples:
  millstream get cities 2950159
  millstream get telemetry device-7,2026-01-01T00:00:00Z
  millstream get telemetry '[\"device, the 7th\", \"2026-01-01T00:00:00Z\"]'";

/// Print documents by key, one line of JSON each
///
/// Each KEY is one key. Where the key has one column, KEY is its value as it stands. Where it has
/// several, KEY holds their values in order, with commas between (\, is a comma inside a value,
/// \\ a backslash), or is a JSON array of them. Values are spelled as PostgreSQL reads the
/// column's type. With --output json the answer is an array of {key, found, doc}.
///
/// Exit code 1 when a key has no document.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct GetArgs {
    /// Collection, as listed
    #[arg(value_name = "[SCHEMA.]NAME")]
    name: CollectionName,

    /// Keys to look up
    #[arg(value_name = "KEY", required = true)]
    keys: Vec<String>,

    #[command(flatten)]
    target: TargetArgs,
}

#[derive(Debug, Serialize)]
struct Answer {
    key: Vec<String>,
    found: bool,
    doc: Option<Box<RawValue>>,
}

/// Runs the command.
pub async fn run(args: &GetArgs, output: Output) -> Result<Exit, Failure> {
    let (database, collection) = Database::open_table(&args.target, &args.name).await?;
    let keys: Vec<Vec<String>> = args.keys.iter().map(|key| parts(key, &collection)).collect::<Result<_, _>>()?;
    let mut answers = Vec::new();
    let mut missing = 0;
    for (text, key) in args.keys.iter().zip(keys) {
        let found = collections::document(&database.connection.client, &collection, &key).await?;
        if found.is_none() {
            note(&format!("missing: {text}"));
            missing += 1;
        }
        match found {
            doc if output.is_json() => answers.push(answer(key, doc)?),
            Some(doc) => output.line(&doc)?,
            None => {}
        }
    }
    if output.is_json() {
        output.json(&answers)?;
    }
    Ok(if missing == 0 { Exit::Done } else { Exit::Findings })
}

fn answer(key: Vec<String>, doc: Option<String>) -> Result<Answer, Failure> {
    let doc = doc
        .map(RawValue::from_string)
        .transpose()
        .map_err(|error| Failure::bug("a jsonb value is not JSON").because(&error))?;
    Ok(Answer { key, found: doc.is_some(), doc })
}

/// The values of the key's columns.
fn parts(text: &str, collection: &Collection) -> Result<Vec<String>, Failure> {
    let columns: Vec<&str> = collection.key.iter().map(|column| column.name.as_str()).collect();
    if columns.len() == 1 {
        return Ok(vec![text.to_owned()]);
    }
    let parts = key_values::parse(text);
    if parts.len() == columns.len() {
        return Ok(parts);
    }
    Err(Failure::user(format!(
        "\"{text}\" has {} of the {} values of a key of {}",
        parts.len(),
        columns.len(),
        collection.name
    ))
    .hint(format!("give the values as {}", columns.join(","))))
}
