//! `get`: prints documents by key.

use crate::args::TargetArgs;
use crate::exit::Exit;
use crate::failure::{Failure, shell_word};
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
    let (database, collection) = Database::open_at(&args.target, &args.name).await?;
    if !collection.present {
        return Err(Failure::user(format!("the table of {} is gone", collection.name))
            .hint(format!("millstream drop {} --yes", shell_word(&collection.name))));
    }
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
    let parts = json_parts(text).unwrap_or_else(|| comma_parts(text));
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

/// The values of a JSON array of scalars, numbers as they are spelled.
fn json_parts(text: &str) -> Option<Vec<String>> {
    let values: Vec<Box<RawValue>> = serde_json::from_str(text).ok()?;
    values
        .iter()
        .map(|value| match value.get() {
            text if text.starts_with('"') => serde_json::from_str(text).ok(),
            text if text.starts_with(['{', '[']) || text == "null" => None,
            text => Some(text.to_owned()),
        })
        .collect()
}

fn comma_parts(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let next = match c {
            ',' => {
                parts.push(String::new());
                continue;
            }
            '\\' => chars.next_if(|c| matches!(c, ',' | '\\')).unwrap_or(c),
            c => c,
        };
        if let Some(part) = parts.last_mut() {
            part.push(next);
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_separate_unless_escaped() {
        for (text, parts) in [
            ("a,1", vec!["a", "1"]),
            (r"a\,b,1", vec!["a,b", "1"]),
            (r"a\\,1", vec![r"a\", "1"]),
            (r"c:\dir,1", vec![r"c:\dir", "1"]),
            (",", vec!["", ""]),
            (r"a\", vec![r"a\"]),
        ] {
            assert_eq!(comma_parts(text), parts, "{text}");
        }
    }

    #[test]
    fn an_array_keeps_the_spelling_of_numbers() {
        assert_eq!(json_parts(r#"["a,b", 1.50, true]"#).unwrap(), ["a,b", "1.50", "true"]);
        for text in ["a,1", "[1", "[[1]]", "[null]", "{}", "7"] {
            assert_eq!(json_parts(text), None, "{text}");
        }
    }
}
