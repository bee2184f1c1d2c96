//! `lab documents`, `lab copy`, `lab check-table` and `lab ask`: what the experiments that load documents run.

use crate::args::TargetArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::limits::LAB_FILE_BYTES_MAX;
use crate::output::Output;
use crate::target::{self, Purpose};
use millstream_host::{make_folder, read_at_most};
use millstream_lab::load::{
    DataSet, Expected, Keys, Question, Stream, ask, check_receipt, check_sent, check_stored, send_streams, sizes,
    write_streams,
};
use millstream_pg::{ConnInfo, SessionSettings};
use std::path::{Path, PathBuf};

const DOCUMENTS_EXAMPLES: &str = "\
Example:
  millstream lab documents waves --documents 1000 fresh=wave:1 changed=wave:2";

const COPY_EXAMPLES: &str = "\
Example:
  millstream lab copy waves events";

const CHECK_EXAMPLES: &str = "\
Example:
  millstream lab check-table events --expect waves/fresh.json";

const ASK_EXAMPLES: &str = "\
Example:
  millstream lab ask 'select distinct kind from events' --values 7";

/// Write the documents of an experiment, and what a table holds after each file
#[derive(Debug, clap::Args)]
#[command(hide = true, after_help = DOCUMENTS_EXAMPLES)]
pub struct DocumentsArgs {
    /// Directory of the files NAME.ndjson and NAME.json
    #[arg(value_name = "DIR")]
    dir: PathBuf,

    /// What is loaded, one after the other into one table, each with a name: wave:2 has all keys, with changed documents
    #[arg(value_name = "NAME=STREAM", required = true, value_parser = named_stream)]
    streams: Vec<(String, Stream)>,

    /// Number of keys
    #[arg(long, value_name = "N")]
    documents: u64,

    /// Length of a document in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 150)]
    bytes: usize,

    /// Kind of keys
    #[arg(long, value_name = "KEYS", value_parser = ["random", "sequential"], default_value = "random")]
    keys: String,

    /// Order of the later waves
    #[arg(long, value_name = "ORDER", value_parser = ["shuffled", "first"], default_value = "shuffled")]
    order: String,

    /// Write the first wave for so many connections of COPY, too
    #[arg(long, value_name = "N", default_value_t = 0)]
    lanes: u16,

    /// Seed for the data and its order
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
}

/// Send a first wave by COPY
#[derive(Debug, clap::Args)]
#[command(hide = true, after_help = COPY_EXAMPLES)]
pub struct CopyArgs {
    /// Directory in which `lab documents --lanes` wrote
    #[arg(value_name = "DIR")]
    dir: PathBuf,

    /// Table
    #[arg(value_name = "TABLE")]
    table: String,
}

/// Check what a table holds, and print its bytes as metrics
#[derive(Debug, clap::Args)]
#[command(hide = true, after_help = CHECK_EXAMPLES)]
pub struct CheckTableArgs {
    /// Table
    #[arg(value_name = "TABLE")]
    table: String,

    /// What it must hold, as `lab documents` wrote it
    #[arg(long, value_name = "FILE")]
    expect: PathBuf,

    /// The table refuses the documents whose number ends with 0
    #[arg(long)]
    refuses: bool,

    /// The order of the documents is unknown: each must be one of this file
    #[arg(long, value_name = "FILE")]
    sent: Option<PathBuf>,

    /// Documents are stored without their key
    #[arg(long, conflicts_with = "sent")]
    without_key: bool,

    /// Receipt of the load, which must count every document
    #[arg(long, value_name = "FILE")]
    receipt: Option<PathBuf>,

    /// Counters of the receipt that count all documents which were not rejected
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_value = "inserted")]
    counters: Vec<String>,
}

/// Ask for distinct values several times, and print the seconds of the median answer
#[derive(Debug, clap::Args)]
#[command(hide = true, after_help = ASK_EXAMPLES)]
pub struct AskArgs {
    /// Query
    #[arg(value_name = "QUERY")]
    query: String,

    /// The answer of the query is the query to run
    #[arg(long, conflicts_with = "command")]
    generated: bool,

    /// It is no query, but a shell command, which prints a line for each value
    #[arg(long)]
    command: bool,

    /// SQL to run first in the session
    #[arg(long, value_name = "SQL")]
    settings: Option<String>,

    /// How many values there must be
    #[arg(long, value_name = "N")]
    values: usize,
}

fn named_stream(text: &str) -> Result<(String, Stream), String> {
    let (name, stream) = text.split_once('=').ok_or("give NAME=STREAM")?;
    Ok((name.to_owned(), stream.parse()?))
}

pub fn documents(args: &DocumentsArgs) -> Result<Exit, Failure> {
    let keys = if args.keys == "sequential" { Keys::Sequential } else { Keys::Random };
    let set = DataSet {
        keys,
        document_bytes: args.bytes,
        documents: args.documents,
        seed: args.seed,
        in_first_order: args.order == "first",
    };
    make_folder(&args.dir)
        .map_err(|error| Failure::user(format!("cannot create {}", args.dir.display())).because(&error))?;
    write_streams(&set, &args.streams, args.lanes, &args.dir)?;
    Ok(Exit::Done)
}

pub async fn copy(args: &CopyArgs) -> Result<Exit, Failure> {
    send_streams(&db().await?, &args.dir, &quoted(&args.table)).await?;
    Ok(Exit::Done)
}

pub async fn check_table(args: &CheckTableArgs, output: Output) -> Result<Exit, Failure> {
    let expected: Expected = json(&args.expect)?;
    let connection = millstream_pg::connect(&db().await?, &SessionSettings::named("millstream lab")).await?;
    let (client, table) = (&connection.client, quoted(&args.table));
    let stored = if args.refuses { &expected.accepted } else { &expected.all };
    check_stored(client, &table, stored, (args.sent.is_none(), !args.without_key)).await?;
    if let Some(file) = &args.sent {
        check_sent(client, &table, file).await?;
    }
    if let Some(receipt) = &args.receipt {
        check_receipt(&json(receipt)?, &expected, args.refuses, &args.counters)?;
    }
    let mut metrics = sizes(client, &table).await?;
    metrics.insert("rows", expected.documents as f64);
    print(&metrics, output)?;
    connection.close().await;
    Ok(Exit::Done)
}

pub async fn answer(args: &AskArgs, output: Output) -> Result<Exit, Failure> {
    let query = args.query.clone();
    let question = match (args.generated, args.command) {
        (true, _) => Question::Generated(query),
        (_, true) => Question::Command(query),
        (false, false) => Question::Query(query),
    };
    let found = ask(&db().await?, args.settings.as_deref(), &question, args.values).await?;
    print(&found, output)?;
    Ok(Exit::Done)
}

/// Prints metrics as the last line of the output, where the lab looks for them.
fn print(metrics: &impl serde::Serialize, output: Output) -> Result<(), Failure> {
    output.line(&serde_json::json!(metrics).to_string())
}

/// The database that the lab names in `MILLSTREAM_DB`.
async fn db() -> Result<ConnInfo, Failure> {
    target::resolve(&TargetArgs::default(), Purpose::Work).await
}

/// A table's name, with or without its schema, quoted.
fn quoted(name: &str) -> String {
    match name.split_once('.') {
        Some((schema, table)) => millstream_pg::quote_qualified(schema, table),
        None => millstream_pg::quote_identifier(name),
    }
}

fn json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, Failure> {
    let text = read_at_most(path, LAB_FILE_BYTES_MAX, None)?;
    serde_json::from_str(&text).map_err(Failure::cannot("read", path))
}
