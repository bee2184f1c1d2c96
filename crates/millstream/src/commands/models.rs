//! `models`: lists read models.

use crate::args::TargetArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use crate::quantity;
use crate::table::{Align, Column, Table};
use crate::target::Database;
use millstream_publish::{Figures, figures, why_anew};
use millstream_store::models::{self, Model};
use serde::Serialize;

const EXAMPLES: &str = "\
Examples:
  millstream models
  millstream models --output json";

/// List read models with last refresh, waiting changes and indexes
///
/// `waiting` is the number of changed keys that a refresh would bring, and the documents of the log layout that
/// it would merge first; `all` if the next refresh builds the model anew, which a second table explains. For a
/// materialized view, the number of changes is not known, unless it is made of a --query. `lag` is the age of the
/// newest change that the model does not show. `bloat` is the number of bytes of dead rows, and of rows that were
/// replaced or are being built.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct ModelsArgs {
    #[command(flatten)]
    target: TargetArgs,
}

/// A model and its figures, as one object.
#[derive(Debug, Serialize)]
struct Listed {
    #[serde(flatten)]
    model: Model,
    #[serde(flatten)]
    figures: Figures,
    /// Why the next refresh builds all of it anew.
    everything_because: Option<String>,
}

/// Runs the command.
pub async fn run(args: &ModelsArgs, output: Output) -> Result<Exit, Failure> {
    let mut listed = Vec::new();
    if let Some(database) = Database::open(&args.target).await? {
        let (client, schema) = (&database.connection.client, &database.schema);
        for model in models::list(client, schema).await? {
            let figures = figures(client, schema, &model).await?;
            let everything_because =
                if figures.everything_waits { why_anew(client, schema, &model).await? } else { None };
            listed.push(Listed { model, figures, everything_because });
        }
    }
    output.rows(&listed, COLUMNS, "no models yet")?;
    if !output.is_json() && listed.iter().any(|one| one.everything_because.is_some()) {
        output.line("")?;
        output.table(&reasons(&listed))?;
    }
    let indexes = indexes(&listed);
    if !output.is_json() && !indexes.is_empty() {
        let mut table = Table::new(&[("model", Align::Left), ("index", Align::Wrap)]);
        indexes.into_iter().for_each(|row| table.row(row));
        output.line("")?;
        output.table(&table)?;
    }
    Ok(Exit::Done)
}

const COLUMNS: &[Column<Listed>] = &[
    ("model", Align::Left, |one| one.model.name.to_string()),
    ("collection", Align::Left, |one| one.model.collection.as_ref().map_or("gone".into(), ToString::to_string)),
    ("refreshed (utc)", Align::Left, |one| one.model.refreshed_at.as_deref().map_or("never".into(), quantity::minute)),
    ("way", Align::Left, |one| way(&one.model)),
    ("waiting", Align::Right, |one| waiting(&one.figures)),
    ("lag", Align::Right, |one| one.figures.lag_seconds.map_or(String::new(), quantity::age)),
    ("bloat", Align::Right, |one| one.figures.bloat_bytes.map_or("?".into(), quantity::bytes)),
];

/// The way of the last refresh. A materialized view has only one.
fn way(model: &Model) -> String {
    let usual = if model.definition.materialized { "materialized" } else { "" };
    model.way.clone().unwrap_or_else(|| usual.to_owned())
}

/// The changes that a refresh would bring, and the documents that it would merge first.
fn waiting(figures: &Figures) -> String {
    let mut waiting = match figures.waiting_changes {
        _ if figures.everything_waits => "all".to_owned(),
        Some(changes) => quantity::count(changes),
        None => "?".to_owned(),
    };
    if let (Some(segments @ 1..), Some(documents)) = (figures.waiting_segments, figures.waiting_documents) {
        waiting.push_str(&format!(" + {} in {}", quantity::count(documents), quantity::things(segments, "segment")));
    }
    waiting
}

/// Why a model waits for everything.
fn reasons(listed: &[Listed]) -> Table {
    let mut table = Table::new(&[("model", Align::Left), ("all of it waits because", Align::Wrap)]);
    for Listed { model, everything_because, .. } in listed {
        if let Some(because) = everything_because {
            table.row([model.name.to_string(), because.clone()]);
        }
    }
    table
}

/// Each model with each of its indexes, and with the columns that tell the rows of a query apart.
fn indexes(listed: &[Listed]) -> Vec<[String; 2]> {
    let mut rows = Vec::new();
    for Listed { model, .. } in listed {
        if !model.definition.unique.is_empty() {
            rows.push([model.name.to_string(), format!("unique ({})", model.definition.unique.join(", "))]);
        }
        rows.extend(model.definition.indexes.iter().map(|index| [model.name.to_string(), index.clone()]));
    }
    rows
}
