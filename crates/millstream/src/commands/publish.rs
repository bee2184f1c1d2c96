//! `publish`: makes a read model of a collection, or changes its indexes, and builds it.

use super::refresh::{Ended, refresh_now, show, warn};
use crate::args::{TargetArgs, duration, hinted};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::interruption::interruptible;
use crate::output::{Output, note};
use crate::quantity;
use crate::signal::Signals;
use crate::target::Database;
use millstream_host::shell_word;
use millstream_model::CollectionName;
use millstream_pg::{ConnInfo, Failures, SessionSettings};
use millstream_publish::{PublishRequest, Published, become_runner, publish, take_back};
use millstream_store::{Access, Column, Definition, Schema, collections, foreign_code, models};
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  millstream publish events --as events_read --index \"lower(doc->>'name')\"
  millstream publish shop.offers --as shop.offers_read \\
      --column price:numeric=offer.price --index price --where 'price > 0'
  millstream publish events --as events_read --every 30s
  millstream publish events --as sales --materialized --query \\
      \"select doc->>'day' as day, count(*) as sold from events group by 1\"";

/// Make a read model of a collection, with indexes for your queries
///
/// A read model is a view over rows that Millstream derives from the collection: the key's columns, the columns
/// you ask for, and doc. Loads do not pay for its indexes. It shows the collection as it was at the last
/// refresh. `millstream refresh MODEL` brings it up to date. From the first model on, triggers record every
/// change of the collection, whether a load or other SQL made it.
///
/// To change a model, publish it again. Indexes change at once. Other rows and further columns are built while
/// readers see the old model. A column cannot be removed or change its type. Grants and your own views over the
/// model stay. Name everything again: an index or a --where that you leave out is dropped. If you give none of
/// --index, --column, --where, --select and --query, the model stays as it is. `millstream models --output json`
/// shows what it is made of.
///
/// Publishing locks the collection for a moment. It waits up to 5 seconds for writers.
///
/// Do not rename doc or a key column: while it has another name, no refresh is possible. After any `alter
/// column` of the collection, and after one of Millstream's triggers was disabled for a while, as a restore may
/// do, the next refresh builds the model anew.
///
/// Each row of a model is made from one row of the collection. So --where and --select may look at nothing but
/// that row, and may call no volatile function. Some changes reach the model only with `millstream refresh
/// MODEL --way swap`: what a stable function looks up or takes from the clock, and `alter type` of a type that
/// the model uses.
///
/// On a hot standby, a repeatable-read transaction that is older than a swap, and reads the model only after
/// it, finds the model empty.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct PublishArgs {
    /// Name of the collection
    #[arg(value_name = "[SCHEMA.]NAME")]
    name: CollectionName,

    /// Name of the model
    #[arg(long = "as", value_name = "[SCHEMA.]MODEL")]
    model: CollectionName,

    /// Index of the model: an expression, columns, or what follows the table's name in `create index`; can be
    /// given several times
    #[arg(long, value_name = "EXPR")]
    index: Vec<String>,

    /// Typed column for a value in the documents, null where the value does not fit the type; can be given
    /// several times
    #[arg(long, value_name = "NAME:TYPE=PATH", value_parser = hinted::<Column>)]
    column: Vec<Column>,

    /// Leave out rows for which this SQL condition is not true
    ///
    /// The condition may use the key's columns, the columns that you name with --column, and doc. It may look
    /// at nothing but the row.
    #[arg(long = "where", value_name = "SQL")]
    condition: Option<String>,

    /// SQL select list in place of doc
    ///
    /// It may look at nothing but the row. So it takes no aggregate, window function or function that returns a
    /// set. With --materialized it may take window functions. For the others see --query.
    #[arg(long, value_name = "SQL")]
    select: Option<String>,

    /// Make a materialized view of PostgreSQL instead
    ///
    /// Every refresh derives all rows and writes those that differ. Loads record no changes for it, unless it is
    /// made of a --query. Later only its indexes can change.
    #[arg(long)]
    materialized: bool,

    /// With --materialized, a SQL query over the collection in place of the key, columns and doc: a report, with
    /// sums, groups and windows
    ///
    /// It may read the collection and no other table, as often as you like, and call no volatile function. Every
    /// refresh runs all of it and writes the rows that differ, while readers see the old ones.
    #[arg(
        long,
        value_name = "SQL",
        requires = "materialized",
        conflicts_with_all = ["column", "condition", "select"]
    )]
    query: Option<String>,

    /// Columns that tell the rows of the --query apart [default: found]
    ///
    /// They are found where the query groups by columns that it shows, is distinct, makes one row, or shows the
    /// whole key of the collection unsorted. Name them for any other query. If two rows agree in them, the refresh
    /// fails, and readers keep what they saw.
    #[arg(long, value_name = "COLUMN[,COLUMN..]", value_delimiter = ',', requires = "query")]
    unique: Vec<String>,

    /// Refresh again and again, this long after each refresh ends (500ms, 30s, 5m, 1h), until you stop it
    ///
    /// If a refresh fails, the command prints the error and tries again the next time. Only one process at a
    /// time can do this for a model. A signal stops a running refresh, and the model keeps what it showed.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    every: Option<Duration>,

    #[command(flatten)]
    target: TargetArgs,
}

/// Runs the command.
pub async fn run(args: &PublishArgs, output: Output, signals: Signals) -> Result<Exit, Failure> {
    let mut database = Database::reach(&args.target).await?;
    let conninfo = database.conninfo.clone();
    let request = PublishRequest {
        collection: args.name.clone(),
        model: args.model.clone(),
        definition: Definition {
            columns: args.column.clone(),
            indexes: args.index.clone(),
            condition: args.condition.clone(),
            select: args.select.clone(),
            materialized: args.materialized,
            query: args.query.clone(),
            unique: args.unique.clone(),
        },
        warn,
    };
    let mut failures = Failures::default();
    let published = loop {
        let work = Box::pin(publish_now(args, &mut database, &request));
        match interruptible(&signals, &conninfo, work).await {
            Err(exit) => return Ok(exit),
            Ok(Err(millstream_publish::Error::Postgres(error))) if failures.wait_for_session(&error).await => {
                database = Database::connect(&args.target, &conninfo).await?;
            }
            Ok(ended) => break ended?,
        }
    };
    match published {
        Published::Reindexed { made, dropped, in_use } if made + dropped + in_use > 0 => {
            let things = |count: usize| quantity::things(count as u64, "index");
            note(&format!("{}: {} made, {} dropped", args.model, things(made), things(dropped)));
            if in_use > 0 {
                note(&format!(
                    "warning: {}: {} could not be removed, because readers use it; the next publish removes it",
                    args.model,
                    things(in_use)
                ));
            }
        }
        Published::Redefined => note(&format!("{}: shows the old rows until it is rebuilt", args.model)),
        Published::Made | Published::Reindexed { .. } => {}
    }
    let Some(pause) = args.every else {
        // A role may have no more connections than the build needs.
        let Database { connection, schema, .. } = database;
        connection.close().await;
        let refreshed = refresh_now(&conninfo, &schema, std::slice::from_ref(&args.model), &signals).await;
        if refreshed.is_err() && published == Published::Made {
            leave_nothing(&conninfo, &schema, &args.model).await;
        }
        return refreshed?.show(output);
    };
    become_runner(&database.connection.client, &database.schema, &args.model).await?;
    let kept_up = model_now(args, &database).await?;
    loop {
        match next_round(args, &mut database, &signals).await {
            Ok(Ended::Refreshed(refreshed)) => show(output, &refreshed)?,
            Ok(Ended::Stopped(exit)) => return Ok(exit),
            Err(failure) => {
                if model_now(args, &database).await.is_ok_and(|now| now != kept_up) {
                    return Err(failure);
                }
                // At the next refresh the server may be back, or the readers gone.
                failure.print();
            }
        }
        tokio::select! {
            exit = signals.stop_asked() => return Ok(exit),
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Removes the model that could not be built, with what records changes for it.
async fn leave_nothing(conninfo: &ConnInfo, schema: &Schema, name: &CollectionName) {
    // The sessions of the refresh still count for a moment.
    let connected = millstream_pg::connect_when_free(conninfo, &SessionSettings::control()).await;
    let taken_back = match connected {
        Ok(mut connection) => Box::pin(take_back(&mut connection, schema, name)).await,
        Err(error) => Err(error.into()),
    };
    if taken_back.is_err() {
        note(&format!("warning: {name} is left, without rows; remove it: millstream unpublish {}", shell_word(name)));
    }
}

/// Makes or changes the model.
async fn publish_now(
    args: &PublishArgs,
    database: &mut Database,
    request: &PublishRequest,
) -> Result<Published, millstream_publish::Error> {
    let Database { connection, schema, .. } = database;
    let client = &connection.client;
    if schema.exists(client).await?
        && let Some(collection) = collections::find(client, schema, &request.collection).await?
    {
        for text in foreign_code(client, schema, collection.table_oid, Access::Read).await? {
            warn(&collection.name, &text);
        }
    }
    if args.every.is_some() {
        schema.ensure(&mut connection.client).await?;
        if models::find(&connection.client, schema, &args.model).await?.is_some() {
            // Before the model is changed: a session that keeps it up to date now has not asked for the change.
            become_runner(&connection.client, schema, &args.model).await?;
        }
    }
    publish(connection, schema, request).await
}

/// The number of the model that has the name now. After an unpublish it is another one, or none.
async fn model_now(args: &PublishArgs, database: &Database) -> Result<Option<i32>, Failure> {
    let found = models::find(&database.connection.client, &database.schema, &args.model).await?;
    Ok(found.map(|model| model.model_id))
}

/// One refresh by the runner. If its session was lost, it must first become the only runner again.
async fn next_round(args: &PublishArgs, database: &mut Database, signals: &Signals) -> Result<Ended, Failure> {
    if database.connection.client.is_closed() {
        let again = async {
            let again = Database::connect(&args.target, &database.conninfo).await?;
            become_runner(&again.connection.client, &again.schema, &args.model).await?;
            Ok::<_, Failure>(again)
        };
        *database = tokio::select! {
            exit = signals.stop_asked() => return Ok(Ended::Stopped(exit)),
            again = again => again?,
        };
    }
    refresh_now(&database.conninfo, &database.schema, std::slice::from_ref(&args.model), signals).await
}
