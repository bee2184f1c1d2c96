//! `loads`: lists recorded loads, shows a group of loaders, forgets a load, prunes old ones.

use crate::args::{TargetArgs, hinted};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::limits::LOADS_LISTED;
use crate::output::{Output, note};
use crate::quantity::{self, Age};
use crate::standing::{self, standings};
use crate::table::{Align, Column};
use crate::target::Database;
use crate::topic;
use millstream_engine::DURABILITIES;
use millstream_kafka::{Address, Client as _};
use millstream_store::loads::{self, LoadSummary};
use millstream_store::recorded_mode::adds_up;
use serde_json::json;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  millstream loads
  millstream loads --limit 10000
  millstream loads --output json | jq '.[0].receipt'
  millstream loads --group loaders --topic kafka://broker.example.com/orders
  millstream loads forget 17
  millstream loads prune --older-than 30d";

const FORGET_EXAMPLES: &str = "\
Examples:
  millstream loads forget 17";

const PRUNE_EXAMPLES: &str = "\
Examples:
  millstream loads prune --older-than 30d
  millstream loads prune --older-than 30d --stopped";

/// List loads, newest first; remove records of loads
///
/// A load is running, finished, stopped or crashed. A stopped load ended early, in good order. A crashed load
/// is recorded as running, but no process runs it. To resume a stopped or crashed load, run its command again.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, args_conflicts_with_subcommands = true)]
pub struct LoadsArgs {
    /// Most loads to list
    #[arg(long, value_name = "N", default_value_t = LOADS_LISTED, value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,

    /// Show a consumer group instead: the partitions of a topic, who loads each, and how far behind it is
    ///
    /// The owners are those that Kafka knows. The offsets are those of the database, before which all is committed.
    #[arg(long, value_name = "NAME", requires = "topic", conflicts_with = "limit")]
    group: Option<String>,

    /// With --group: the topic, as kafka://HOST[:PORT][,..]/TOPIC
    #[arg(long, value_name = "ADDRESS", requires = "group", value_parser = hinted::<Address>)]
    topic: Option<Address>,

    /// With --group: file with settings of Kafka's client, as for `millstream load`
    #[arg(long, value_name = "FILE", requires = "group")]
    properties: Option<PathBuf>,

    /// Only loads of the stream of this name; with --group, the name with which the topic is loaded, if it has one
    #[arg(long, value_name = "NAME")]
    source_name: Option<String>,

    #[command(flatten)]
    target: TargetArgs,

    #[command(subcommand)]
    action: Option<Action>,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Remove the record of one load, with its rejects
    ///
    /// The documents that it loaded stay. You cannot resume an unfinished load afterwards: the same command
    /// starts over. Refused while the load runs.
    #[command(after_help = FORGET_EXAMPLES)]
    Forget {
        /// Load, by its id in `millstream loads`
        #[arg(value_name = "ID")]
        load_id: i64,

        #[command(flatten)]
        target: TargetArgs,
    },
    /// Remove the records of loads that finished long ago, with their rejects
    ///
    /// The documents that they loaded stay. Unfinished loads stay, too, because you can resume them, but see
    /// --stopped. Loads in mode sum are never removed, because running one again would count its documents twice.
    #[command(after_help = PRUNE_EXAMPLES)]
    Prune {
        /// Only loads that finished longer ago than this (90m, 12h, 30d, 8w)
        #[arg(long, value_name = "AGE")]
        older_than: Age,

        /// Also loads that stopped longer ago than that
        ///
        /// You cannot resume them afterwards: the same command starts over. Crashed loads stay.
        #[arg(long)]
        stopped: bool,

        #[command(flatten)]
        target: TargetArgs,
    },
}

/// Runs the command.
pub async fn run(args: &LoadsArgs, output: Output) -> Result<Exit, Failure> {
    match &args.action {
        None if args.group.is_some() => Box::pin(group(args, output)).await,
        None => list(args, output).await,
        Some(Action::Forget { load_id, target }) => forget(*load_id, target, output).await,
        Some(Action::Prune { older_than, stopped, target }) => prune(*older_than, *stopped, target, output).await,
    }
}

async fn list(args: &LoadsArgs, output: Output) -> Result<Exit, Failure> {
    let mut found = match Database::open(&args.target).await? {
        // One more, to know whether there are more.
        Some(database) => {
            let (client, schema) = (&database.connection.client, &database.schema);
            let limit = args.limit.saturating_add(1);
            match &args.source_name {
                Some(name) => loads::list_of(client, schema, limit, name).await?,
                None => loads::list(client, schema, limit).await?,
            }
        }
        None => Vec::new(),
    };
    let shown = usize::try_from(args.limit).unwrap_or(usize::MAX);
    let more = found.len() > shown;
    found.truncate(shown);
    output.rows(&found, COLUMNS, "no loads yet")?;
    if more {
        note(&format!("older loads are not listed; to list more: --limit {}", args.limit.saturating_mul(10)));
    }
    Ok(Exit::Done)
}

/// Shows a group of loaders.
async fn group(args: &LoadsArgs, output: Output) -> Result<Exit, Failure> {
    let address = args.topic.as_ref().ok_or_else(|| Failure::bug("a group without a topic"))?;
    let properties = topic::properties(args.properties.as_deref(), args.group.as_deref())?;
    let client = millstream_kafka::connect(address, &properties).await?;
    let mut numbers = client.topic().await.map_err(millstream_kafka::Error::from)?.partitions;
    numbers.sort_unstable();
    let (mut partitions, mut silent) = (Vec::new(), Vec::new());
    for number in numbers {
        let marks = client.marks(number).await.map_err(|error| silent.push((number, error))).ok();
        partitions.push((number, address.source(args.source_name.as_deref(), number), marks));
    }
    if let [(number, error), others @ ..] = silent.as_slice() {
        let others = if others.is_empty() { String::new() } else { format!("; others like it: {}", others.len()) };
        note(&format!("warning: partition {number} does not say where it ends: {error}{others}"));
    }
    let members = client.members().await.map_err(millstream_kafka::Error::from)?;
    let names: Vec<String> = partitions.iter().map(|(_, name, _)| name.clone()).collect();
    let loads = match Database::open(&args.target).await? {
        Some(database) => loads::of_streams(&database.connection.client, &database.schema, &names).await?,
        None => Vec::new(),
    };
    output.rows(&standings(&partitions, &members, &loads), standing::COLUMNS, "the topic has no partitions")?;
    Ok(Exit::Done)
}

const COLUMNS: &[Column<LoadSummary>] = &[
    ("id", Align::Right, |load| load.load_id.to_string()),
    ("collection", Align::Left, collection),
    ("state", Align::Left, |load| load.state.clone()),
    ("read", Align::Right, |load| quantity::count(load.read)),
    ("rejected", Align::Right, |load| quantity::count(load.rejected)),
    ("started (utc)", Align::Left, |load| quantity::minute(&load.started_at)),
    ("sources", Align::Wrap, |load| load.sources.join(" ")),
];

/// The collection, with the load's durability if that is not the default.
fn collection(load: &LoadSummary) -> String {
    if load.durability == DURABILITIES[0].name {
        load.collection.clone()
    } else {
        format!("{} ({})", load.collection, load.durability)
    }
}

async fn forget(load_id: i64, target: &TargetArgs, output: Output) -> Result<Exit, Failure> {
    let unknown = || Failure::user(format!("there is no load {load_id}")).hint("millstream loads");
    let mut database = Database::open(target).await?.ok_or_else(unknown)?;
    let client = &mut database.connection.client;
    let load = loads::find(client, &database.schema, load_id).await?.ok_or_else(unknown)?;
    if !loads::forget(client, &database.schema, load_id).await? {
        return Err(unknown());
    }
    if output.is_json() {
        output.json(&json!({ "forgotten": [load_id] }))?;
        return Ok(Exit::Done);
    }
    output.line(&format!("forgot load {load_id} into {}", load.collection))?;
    let message = match load.is_finished() {
        true => "its documents stay; the same load command loads its sources again",
        false => {
            "the documents it committed stay; it cannot be resumed: the same load command begins \
             at the start of its sources"
        }
    };
    note(&format!("{message}{}", if adds_up(&load.mode) { ", and adds their values again" } else { "" }));
    Ok(Exit::Done)
}

async fn prune(age: Age, stopped: bool, target: &TargetArgs, output: Output) -> Result<Exit, Failure> {
    let mut forgotten = Vec::new();
    if let Some(mut database) = Database::open(target).await? {
        let (client, schema) = (&mut database.connection.client, &database.schema);
        forgotten.extend(loads::prune(client, schema, age.seconds).await?);
        if stopped {
            forgotten.extend(loads::prune_stopped(client, schema, age.seconds).await?);
        }
    }
    let forgot = format!("forgot {}", quantity::things(forgotten.len() as u64, "load"));
    output.print(&json!({ "forgotten": forgotten }), &forgot)?;
    Ok(Exit::Done)
}
