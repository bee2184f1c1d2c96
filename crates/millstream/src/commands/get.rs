//! `get`: prints documents by key.

use crate::args::TargetArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::interruption::attended;
use crate::key_values;
use crate::output::{Output, note};
use crate::quantity;
use crate::target::Database;
use millstream_model::CollectionName;
use millstream_pg::{ErrorKind, Explained};
use millstream_store::collections::Collection;
use millstream_store::documents;
use serde::Serialize;
use serde_json::value::RawValue;

const EXAMPLES: &str = "\
Examples:
  millstream get cities 2950159
  millstream get telemetry device-7,2026-01-01T00:00:00Z
  millstream get telemetry '[\"device, the 7th\", \"2026-01-01T00:00:00Z\"]'
  millstream get telemetry device-7 device-8 --count";

/// Print documents by key, one line of JSON each
///
/// If the key has one column, KEY is the value itself. If it has several, KEY is their values in order,
/// separated by commas, or a JSON array of them. Write \, for a comma inside a value and \\ for a backslash.
/// Spell values as PostgreSQL reads the column's type. With --output json the output is an array of {key,
/// found, doc}.
///
/// With --count, KEY may also be the first values of a key. The output is the number of documents whose keys
/// begin with them, a tab, and KEY. With --output json it is an array of {key, count}.
///
/// Exit code 1 if a key has no document.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct GetArgs {
    /// Name of the collection
    #[arg(value_name = "[SCHEMA.]NAME")]
    name: CollectionName,

    /// Keys to look up
    #[arg(value_name = "KEY", required = true, value_parser = key_values::typed)]
    keys: Vec<String>,

    /// Count the documents whose keys begin with KEY instead of printing them
    #[arg(long)]
    count: bool,

    #[command(flatten)]
    target: TargetArgs,
}

#[derive(Debug, Serialize)]
struct Answer {
    key: Vec<String>,
    found: bool,
    doc: Option<Box<RawValue>>,
}

#[derive(Debug, Serialize)]
struct Count {
    key: Vec<String>,
    count: u64,
}

/// Runs the command.
pub async fn run(args: &GetArgs, output: Output) -> Result<Exit, Failure> {
    let (mut database, collection) = Database::open_table(&args.target, &args.name).await?;
    let conninfo = database.conninfo.clone();
    attended(&conninfo, note, Box::pin(answer_all(args, &mut database, &collection, output))).await
}

/// Prints the documents, or how many there are.
async fn answer_all(
    args: &GetArgs,
    database: &mut Database,
    collection: &Collection,
    output: Output,
) -> Result<Exit, Failure> {
    database.warn_of_code(collection.table_oid).await?;
    let parts = |key: &String| parts(key, collection, args.count);
    let keys: Vec<Vec<String>> = args.keys.iter().map(parts).collect::<Result<_, _>>()?;
    if args.count {
        return count(database, collection, &args.keys, keys, output).await;
    }
    let mut answers = Vec::new();
    let mut missing = 0;
    for (text, key) in args.keys.iter().zip(keys) {
        let found = documents::document(&mut database.connection.client, &database.schema, collection, &key).await;
        let found = found.map_err(|error| refused(error, collection))?;
        if found.is_none() {
            note(&format!("missing: {text}"));
            missing += 1;
        }
        match found {
            doc if output.is_json() => answers.push(answer(key, doc)?),
            Some(doc) => output.data(&format!("{doc}\n"))?,
            None => {}
        }
    }
    if output.is_json() {
        output.json(&answers)?;
    }
    Ok(if missing == 0 { Exit::Done } else { Exit::Findings })
}

/// Prints, for each key given, how many documents have keys that begin with it.
async fn count(
    database: &mut Database,
    collection: &Collection,
    texts: &[String],
    keys: Vec<Vec<String>>,
    output: Output,
) -> Result<Exit, Failure> {
    let mut counts = Vec::new();
    for (text, key) in texts.iter().zip(keys) {
        let count = documents::count(&mut database.connection.client, &database.schema, collection, &key).await;
        let count = count.map_err(|error| refused(error, collection))?;
        if !output.is_json() {
            output.line(&format!("{count}\t{text}"))?;
        }
        counts.push(Count { key, count });
    }
    if output.is_json() {
        output.json(&counts)?;
    }
    Ok(if counts.iter().all(|one| one.count > 0) { Exit::Done } else { Exit::Findings })
}

/// The failure of a look-up, which names the types of the key if they do not take a value.
fn refused(error: millstream_store::Error, collection: &Collection) -> Failure {
    let is_value = error.kind() == ErrorKind::DataRefused;
    let columns: Vec<String> = collection.key.iter().map(|c| format!("{} {}", c.name, c.key_type)).collect();
    let failure = Failure::from(error);
    if is_value { failure.hint(format!("the key of {} is {}", collection.name, columns.join(", "))) } else { failure }
}

fn answer(key: Vec<String>, doc: Option<String>) -> Result<Answer, Failure> {
    let doc = doc
        .map(RawValue::from_string)
        .transpose()
        .map_err(|error| Failure::bug("a jsonb value is not JSON").because(&error))?;
    Ok(Answer { key, found: doc.is_some(), doc })
}

/// The values of the key's columns: of all of them, or with `some` of the first ones.
fn parts(text: &str, collection: &Collection, some: bool) -> Result<Vec<String>, Failure> {
    let columns: Vec<&str> = collection.key.iter().map(|column| column.name.as_str()).collect();
    if columns.len() == 1 {
        return Ok(vec![text.to_owned()]);
    }
    let parts = key_values::parse(text);
    if parts.len() == columns.len() || (some && (1..columns.len()).contains(&parts.len())) {
        return Ok(parts);
    }
    let (given, all, name) = (quantity::things(parts.len() as u64, "value"), columns.len(), &collection.name);
    let first = if some { ", or the first of them" } else { "" };
    Err(Failure::user(format!("\"{text}\" has {given}, and a key of {name} has {all}"))
        .hint(format!("give the values as {}{first}", columns.join(","))))
}
