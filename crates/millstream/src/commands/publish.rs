//! `publish`: makes a read model of a collection, or changes its indexes, and builds it.

use super::refresh::{Ended, refresh_now, show};
use crate::args::{TargetArgs, duration};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::{Output, note};
use crate::quantity;
use crate::signal::Signals;
use crate::target::{Database, Purpose, resolve};
use millstream_engine::store::models;
use millstream_engine::{Column, Definition, PublishRequest, Published, become_runner, publish};
use millstream_model::CollectionName;
use millstream_pg::ConnInfo;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  millstream publish events --as events_read --index \"lower(doc->>'name')\"
  millstream publish shop.offers --as shop.offers_read \\
      --column price:numeric=offer.price --index price --where 'price > 0'
  millstream publish events --as events_read --every 30s";

/// Make a read model of a collection: a table of its own, with the indexes
///
/// A model is a view, MODEL, over rows that Millstream derives from the collection: the key's columns,
/// the columns asked for, and doc. Loads do not pay for its indexes. `millstream refresh MODEL` brings it
/// up to date from what was changed; until then it shows what it showed, all of one moment. From the
/// first model on, every change of the collection is put on record, whoever makes it.
///
/// Publishing a model again changes it: its indexes at once, its rows by building them anew, and it may get more
/// columns, behind those it has, but lose none. Readers see what it was until all is there; grants and your views over it
/// stay. Without any --index, --column, --where or --select it stays what it is; with one of them, say all of it again: an
/// index that is left out is dropped, and so is --where. `millstream models --output json` shows what it is made of.
/// The collection is locked for a moment, for which its writers are waited for 5 s.
///
/// While a column of the collection's key, or doc, has another name, no refresh is possible; the one after that builds the
/// model anew, and so does the one after any `alter column` of them. Enable none of Millstream's triggers by hand
/// that was disabled: what was changed meanwhile is on no record. The next refresh does it and builds the model anew.
///
/// Changes of rows reach the model, nothing else. So --where and --select may call no volatile function and read no
/// table but the row. What a stable function looks up or makes of the clock, and `alter type` of a type that is used,
/// reach the model only by `millstream refresh MODEL --way swap`. On a hot standby a repeatable-read
/// transaction that is older than a swap, and reads the model only afterwards, finds it empty.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct PublishArgs {
    /// Collection, as listed
    #[arg(value_name = "[SCHEMA.]NAME")]
    name: CollectionName,

    /// Name of the model
    #[arg(long = "as", value_name = "[SCHEMA.]MODEL")]
    model: CollectionName,

    /// Index of the model: an expression, columns, or what follows the table's name in `create index`;
    /// may be given several times
    #[arg(long, value_name = "EXPR")]
    index: Vec<String>,

    /// Column of its own for a value in the documents; null where the value is none of the type
    #[arg(long, value_name = "NAME:TYPE=PATH", value_parser = column)]
    column: Vec<Column>,

    /// Leave out rows for which this SQL condition on key, columns and doc is not true; it must look at nothing
    /// but the row
    #[arg(long = "where", value_name = "SQL")]
    condition: Option<String>,

    /// SQL select list in place of doc; it must look at nothing but the row, so that it takes no aggregate, window
    /// function or function that returns a set, but with --materialized
    #[arg(long, value_name = "SQL")]
    select: Option<String>,

    /// Make it a materialized view of PostgreSQL's own, of which every refresh derives all rows and writes what
    /// differs; needs no record of the changes, so that loads do not pay for it
    #[arg(long)]
    materialized: bool,

    /// Refresh again and again, so long after each end (500ms, 30s, 5m, 1h), until stopped
    ///
    /// A refresh that fails is told and tried again the next time. One process at a time does this for a
    /// model; a signal breaks a running refresh off, and the model shows what it showed.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    every: Option<Duration>,

    #[command(flatten)]
    target: TargetArgs,
}

fn column(text: &str) -> Result<Column, String> {
    text.parse::<Column>().map_err(|error| match error.hint() {
        Some(hint) => format!("{error}; {hint}"),
        None => error.to_string(),
    })
}

/// Runs the command.
pub async fn run(args: &PublishArgs, output: Output, signals: Signals) -> Result<Exit, Failure> {
    let conninfo = resolve(&args.target, Purpose::Work).await?;
    let mut database = Database::connect(&args.target, &conninfo).await?;
    let request = PublishRequest {
        collection: args.name.clone(),
        model: args.model.clone(),
        definition: Definition {
            columns: args.column.clone(),
            indexes: args.index.clone(),
            condition: args.condition.clone(),
            select: args.select.clone(),
            materialized: args.materialized,
        },
    };
    if args.every.is_some() {
        database.schema.ensure(&mut database.connection.client).await?;
        if model_now(args, &database).await?.is_some() {
            // Before it is changed: who keeps it up now has not asked for that.
            become_runner(&database.connection.client, &database.schema, &args.model).await?;
        }
    }
    let published = Box::pin(publish(&mut database.connection, &database.schema, &request)).await?;
    match published {
        Published::Reindexed { made, dropped, in_use } if made + dropped + in_use > 0 => {
            let things = |count: usize| quantity::things(count as u64, "index");
            note(&format!("{}: {} made, {} dropped", args.model, things(made), things(dropped)));
            if in_use > 0 {
                note(&format!(
                    "warning: {}: {} could not be removed, because readers did not let go; the next publish does it",
                    args.model,
                    things(in_use)
                ));
            }
        }
        Published::Redefined => note(&format!("{}: is what it was until it is built anew", args.model)),
        Published::Made | Published::Reindexed { .. } => {}
    }
    let Some(pause) = args.every else {
        return match refresh_now(&conninfo, &database.schema, std::slice::from_ref(&args.model), &signals).await? {
            Ended::Refreshed(refreshed) => show(output, &refreshed).map(|()| Exit::Done),
            Ended::Stopped(exit) => Ok(exit),
        };
    };
    become_runner(&database.connection.client, &database.schema, &args.model).await?;
    let kept_up = model_now(args, &database).await?;
    loop {
        match next_round(args, &conninfo, &mut database, &signals).await {
            Ok(Ended::Refreshed(refreshed)) => show(output, &refreshed)?,
            Ok(Ended::Stopped(exit)) => return Ok(exit),
            Err(failure) => {
                if model_now(args, &database).await.is_ok_and(|now| now != kept_up) {
                    return Err(failure);
                }
                // The next one may find the server back, or the readers gone.
                failure.print();
            }
        }
        tokio::select! {
            exit = signals.stop_asked() => return Ok(exit),
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// The number of the model that has the name now: another, or none, once it was unpublished.
async fn model_now(args: &PublishArgs, database: &Database) -> Result<Option<i32>, Failure> {
    let found = models::find(&database.connection.client, &database.schema, &args.model).await?;
    Ok(found.map(|model| model.model_id))
}

/// One refresh of the runner, which has to be the only one again where its session was lost.
async fn next_round(
    args: &PublishArgs,
    conninfo: &ConnInfo,
    database: &mut Database,
    signals: &Signals,
) -> Result<Ended, Failure> {
    if database.connection.client.is_closed() {
        let again = async {
            let again = Database::connect(&args.target, conninfo).await?;
            become_runner(&again.connection.client, &again.schema, &args.model).await?;
            Ok::<_, Failure>(again)
        };
        *database = tokio::select! {
            exit = signals.stop_asked() => return Ok(Ended::Stopped(exit)),
            again = again => again?,
        };
    }
    refresh_now(conninfo, &database.schema, std::slice::from_ref(&args.model), signals).await
}
