//! `load`: puts documents into a collection.

use super::refresh::{Ended, refresh_now, show};
use super::rejects::export;
use crate::args::{TargetArgs, hinted, one_of};
use crate::enrich::EnrichArgs;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::keeper::Keeper;
use crate::missing_args::MissingArgs;
use crate::origin_args::OriginArgs;
use crate::output::{Output, note};
use crate::progress::{Progress, ProgressChoice};
use crate::quantity::{self, Size};
use crate::screen::visible;
use crate::signal::Signals;
use crate::source_args::{Key, SourceArgs, key, sources};
use crate::target::{self, Database, Purpose};
use crate::topic::{self, TopicArgs};
use crate::{dump, preview, receipt};
use clap::builder::TypedValueParser;
use millstream_document::source::{self, Objects, SourceError};
use millstream_document::transform::Transform;
use millstream_engine::limits::{REJECT_BYTES_TOTAL_MAX, REJECTS_MAX};
use millstream_engine::{
    AskedColumns, DURABILITIES, DryRun, Durability, Error, LAYOUTS, Layout, LoadRequest, MODES, Mode, Outcome,
    SkipUnchanged, Stop, StopReason, Surroundings, Tally, Tombstone,
};
use millstream_host::shell_word;
use millstream_kafka::Address;
use millstream_model::{CollectionName, Counters, DocumentForm, Receipt, TransformCounts, WalScope};
use millstream_pg::ConnInfo;
use millstream_publish::{RefreshRequest, estimate};
use millstream_store::TypedColumn;
use millstream_store::rejects::RejectFilter;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const EXAMPLES: &str = "\
Examples:
  millstream load events.ndjson.gz --into events --key id
  millstream load *.csv --into cities --key country,id=name:text
  millstream load a.csv --delimiter ';' --encoding latin1 --into a --key id
  millstream load 'pages/*.json' --root data.items --into items --key id
  zstdcat day.zst | millstream load - --into raw.day --key device,ts:timestamptz
  millstream load 's3://logs/2026/*.json.gz' --into logs --key id
  millstream load macs.csv --into macs --key mac --check \"mac ~ '^[0-9a-f]+$'\"
  millstream load s.ndjson --into s --key id --column price:numeric=offer.price
  millstream load dump/shop/orders.bson.gz --into orders
  millstream load orders.json --extended-json --into orders
  millstream load events.ndjson --into events --key id --dry-run
  millstream load events.ndjson --into events --key id --publish events_read
  millstream load dump.ndjson.gz --into users --key id --delete-missing
  millstream load 'drop/*.json.gz' --into events --key id --skip-loaded
  millstream load kafka://broker.example.com/orders --into orders --key id
  millstream load kafka://broker.example.com/orders --into orders --key id \\
      --group loaders

KEY is [COLUMN=]PATH[:TYPE]; a comma separates several. PATH is a.b.c or a JSON
Pointer (/a~1b). TYPE is text, varchar(N), bigint, integer, smallint, numeric,
uuid, timestamptz, timestamp, date or boolean. If you leave out the type,
Millstream takes it from the collection. For a new collection it infers the type
from the first 1,000 documents.

Write a timestamptz as in RFC 3339, in whole microseconds. For other spellings,
use the type timestamptz:epoch (seconds since 1970), timestamptz:epoch_ms
(milliseconds) or timestamptz:lenient (also +0530, +05, and times without
seconds). The collection remembers the spelling.

If a JSON object has the same member twice, the last one counts, as in jsonb.
This also holds for the key.

If a load was stopped or killed, or failed, run the same command again. It
resumes after the last commit.";

/// Load documents from files, standard input or Kafka into a collection
///
/// The files are NDJSON, JSON, CSV, TSV, Parquet, Arrow, Avro, BSON or files of rejects. Millstream recognises gzip and
/// zstd by their content. The collection is a plain table: the key's columns and `doc jsonb`. The load creates it if it
/// is missing.
///
/// A document that cannot be stored becomes a reject, and the load continues. At the end the load prints a
/// receipt, which accounts for every document.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct LoadArgs {
    /// Files, in the order in which they take effect; - is standard input
    ///
    /// You can give a pattern in quotes, such as 'logs/*.json.gz'. It stands for the files that match it,
    /// sorted by name. A folder that mongodump wrote stands for the one collection in it.
    ///
    /// A file may also be an object: s3://BUCKET/KEY, gs://BUCKET/KEY, az://CONTAINER/KEY or https://HOST/PATH. All but
    /// the last may be patterns. Credentials are looked for where the store's own tools look. AWS_ENDPOINT_URL names a
    /// server of your own that speaks as S3 does.
    ///
    /// In place of files, kafka://HOST[:PORT][,..]/TOPIC names a topic, which is loaded until the load is stopped. Each
    /// record is loaded once.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// Collection to load into
    #[arg(long, value_name = "[SCHEMA.]NAME")]
    into: CollectionName,

    /// Where to find the key: [COLUMN=]PATH[:TYPE][,..]; for dumps of MongoDB, you can leave it out
    #[arg(long, value_name = "KEY", value_parser = key)]
    key: Option<Key>,

    #[command(flatten)]
    source: SourceArgs,

    #[command(flatten)]
    topic: TopicArgs,

    #[command(flatten)]
    enrich: EnrichArgs,

    #[command(flatten)]
    origin: OriginArgs,

    /// What a new document does to the stored document of the same key
    #[arg(long, value_name = "MODE", default_value = "replace", long_help = modes())]
    mode: Mode,

    /// Documents with the text VALUE at PATH delete what is stored under their key
    ///
    /// If nothing is stored under the key, the document counts as unchanged.
    ///
    /// With --mode newest, Millstream remembers the version of a deleted document, so that older documents stay
    /// out. This also holds for later loads without --delete-when. The first load of a collection that deletes
    /// by version is refused while another load with newest runs.
    #[arg(long, value_name = "PATH=VALUE")]
    delete_when: Option<Tombstone>,

    /// With --mode newest: forget the versions of documents that were deleted longer ago than this (90m, 12h,
    /// 30d, 8w)
    #[arg(long, value_name = "AGE")]
    forget_deletes: Option<quantity::Age>,

    #[command(flatten)]
    missing: MissingArgs,

    /// Leave out files that a finished load into this table has read and that have not changed
    ///
    /// A file has not changed if its absolute path, its size and its bytes are the same; an object, if its address, its
    /// size and its ETag are. So the same command in a timer loads the new files of a folder. A file that grew is loaded
    /// again from its start; in mode sum it is refused, because what was added would count twice. If the table has no row,
    /// all files are loaded.
    ///
    /// A load that stopped resumes with its files first, in its order. If all files are left out, nothing is loaded, and
    /// the receipt has the load_id 0. `millstream loads prune` and `loads forget` also forget which files were loaded.
    #[arg(long)]
    skip_loaded: bool,

    /// What a committed batch survives
    #[arg(long, value_name = "PROMISE", default_value = DURABILITIES[0].name, value_parser = durabilities())]
    durability: &'static Durability,

    /// Reject documents for which this SQL expression is false; can be given several times
    ///
    /// The expression may use the key's columns and doc. A document for which it is null passes.
    ///
    /// The table gets the expression as a CHECK constraint. So it also holds for later loads and for plain SQL.
    /// Stored rows that break it stay, and the load reports them. `millstream collections` lists the
    /// constraints; `alter table .. drop constraint ..` removes one.
    #[arg(long, value_name = "SQL")]
    check: Vec<String>,

    /// Typed column of the table for a value in the documents; can be given several times
    ///
    /// TYPE is text, bigint, integer, numeric, double precision, boolean, uuid, jsonb, timestamptz, timestamp or
    /// date. PostgreSQL computes the column from doc, which stays whole. A document whose value does not fit
    /// becomes a reject that names the column. If the value is missing or null, the column is null. Times and
    /// dates are written as in RFC 3339: a timestamptz with an offset, a timestamp without.
    ///
    /// The table keeps its columns for later loads and for other programs. If an existing table lacks a column
    /// that you name, the load is refused and prints the statement that adds it. `millstream collections` lists the
    /// columns.
    #[arg(long, value_name = "NAME:TYPE=PATH", value_parser = hinted::<TypedColumn>, conflicts_with = "columns")]
    column: Vec<TypedColumn>,

    /// Typed columns for all members of the documents
    ///
    /// Parquet, Arrow and Avro say the types themselves: Millstream takes those of the schema, and of several files the
    /// types that fit all. Of other documents it looks at the first 1,000: objects and arrays become jsonb, members of
    /// several types text; a member that is always null gets no column. It prints its choice. If the table has typed
    /// columns already, it keeps those.
    #[arg(long, value_name = "WHICH")]
    columns: Option<Columns>,

    /// Where to write documents
    #[arg(long, value_name = "LAYOUT", default_value = LAYOUTS[0].name, value_parser = layouts())]
    layout: &'static Layout,

    /// What the column doc holds [default: as in the collection; whole in a new one]
    ///
    /// `without-key` saves the bytes of members that columns of the key have too. `millstream get` and read models show
    /// whole documents. In SQL of your own, read the columns, or put the members back: jsonb_build_object('id', id) || doc.
    /// The collection remembers it, and it cannot be changed later.
    #[arg(long, value_name = "WHAT", value_parser = one_of(DocumentForm::ALL))]
    doc: Option<DocumentForm>,

    /// In mode replace: skip a document that equals the stored one, without a lock or a write
    #[arg(long, value_name = "WHETHER", default_value = "auto", value_parser = one_of(SKIPS))]
    skip_unchanged: SkipUnchanged,

    /// Load into a table that exists already and that no load has made
    #[arg(long)]
    adopt: bool,

    /// On a coordinator of Citus: distribute the table that the load makes over the workers, by the first column of its key
    ///
    /// It gets as many shards as citus.shard_count says. A table that is distributed already needs no option. Each shard is
    /// loaded at the worker that has it, with one connection, so the workers must be reachable from here by the names that
    /// the coordinator knows them by, with the same role and password. Such a table takes no --mode sum, --layout log,
    /// --check, --column, --delete-missing, --skip-loaded or --lanes.
    #[arg(long)]
    distribute: bool,

    /// Connections that write, 64 at most [default: up to 4]
    ///
    /// By default a load uses up to 4 connections: no more than the cores of a local server, and at most half
    /// of the server's free connections. With --max-rejects 0 or --strict it uses one connection.
    #[arg(long, value_name = "N")]
    lanes: Option<u16>,

    /// Documents that a connection commits at once, 1,000,000 at most [default: 100,000; with --layout log as
    /// many as fill 64 MiB]
    ///
    /// A batch is also committed when it reaches 16 MiB of documents, or earlier if --memory is small for the
    /// number of connections. With --layout log the limit is 64 MiB.
    #[arg(long, value_name = "N")]
    batch_rows: Option<usize>,

    /// Source data to hold in memory, at least 32MiB and less than 4GiB; a number without a unit is in bytes
    #[arg(long, value_name = "SIZE", default_value = "128MiB")]
    memory: Size,

    /// Also write the rejects of this load to FILE when it ends
    ///
    /// FILE cannot be -, because the receipt goes to standard output. `millstream rejects NAME` prints rejects.
    #[arg(long, value_name = "FILE")]
    rejects: Option<PathBuf>,

    /// Stop the load at this number of rejects
    ///
    /// The load stops soon after it reaches N rejects, with exit code 2. It also stops when the rejected documents
    /// exceed 64 MiB in all; a higher N raises this limit, to 64 MiB for each 10,000. Of a long document at most
    /// 1 MiB is kept and counted.
    ///
    /// With 0, the load stops at the first bad document. It commits only documents before that one, and nothing of
    /// its batch. It does not keep the document as a reject.
    #[arg(long, value_name = "N", default_value_t = REJECTS_MAX)]
    max_rejects: u64,

    /// Read and check all files first, and write nothing if one document is bad
    ///
    /// The files are read twice, so you cannot use --strict with standard input or pipes. The server checks
    /// constraints and triggers only in the load itself. If it refuses a document there, the load ends as with
    /// --max-rejects 0.
    #[arg(long, conflicts_with = "max_rejects")]
    strict: bool,

    /// Refresh this read model at the end of the load; can be given several times
    ///
    /// Several models show the same moment afterwards. The output of `millstream refresh` follows the receipt;
    /// with --output json it is a second JSON value. If the load ends early, no model is refreshed. If the
    /// refresh fails, the command ends with exit code 2, but the load is committed.
    #[arg(long, value_name = "[SCHEMA.]MODEL")]
    publish: Vec<CollectionName>,

    /// Name for standard input or a pipe; the load resumes if you give the same stream with the same name again
    ///
    /// For a topic, it tells topics of one name apart, such as those of two clusters.
    #[arg(long, value_name = "NAME")]
    source_name: Option<String>,

    /// Whether to resume an unfinished load of the same files
    ///
    /// A finished load runs again as a new load. In mode sum it adds nothing if the files are the same, and
    /// prints the old receipt. With --resume off it adds them again.
    #[arg(long, value_name = "WHETHER", default_value = "auto")]
    resume: Resume,

    /// Read and check the input, print the key, the table and the first rejects, and write nothing
    ///
    /// The server casts the values of typed columns. Documents are not tried against --check.
    #[arg(long)]
    dry_run: bool,

    /// How to show progress
    #[arg(long, value_name = "HOW", default_value = "auto")]
    progress: ProgressChoice,

    #[command(flatten)]
    target: TargetArgs,
}

/// Which members become typed columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Columns {
    /// Every member of the first documents
    All,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Resume {
    /// Resume after the last commit
    Auto,
    /// Start over, and abandon all unfinished loads of the same files
    Off,
}

const SKIPS: [(SkipUnchanged, &str, &str); 3] = [
    (SkipUnchanged::Auto, "auto", "Compare documents while a sample of each batch says that most are unchanged"),
    (SkipUnchanged::On, "on", "Compare every document"),
    (SkipUnchanged::Off, "off", "Write every document"),
];

/// The help of an option that takes a mode.
pub(super) fn modes() -> String {
    let modes = MODES.iter().map(|m| format!("\n- {}{}: {}", m.name, m.arguments, m.about));
    let version = "\n\nTYPE is the type of the version: a type that a key can have, except varchar. If you leave it \
                   out, Millstream uses the type by which the collection already compares versions, or infers one \
                   from the first 1,000 documents.";
    std::iter::once("What a new document does to the stored document of the same key\n".to_owned())
        .chain(modes)
        .chain([version.to_owned()])
        .collect()
}

fn layouts() -> impl TypedValueParser<Value = &'static Layout> {
    one_of(LAYOUTS.iter().map(|layout| (*layout, layout.name, layout.about)))
}

fn durabilities() -> impl TypedValueParser<Value = &'static Durability> {
    one_of(DURABILITIES.iter().map(|durability| (*durability, durability.name, durability.about)))
}

/// Runs the command.
pub async fn run(args: &LoadArgs, output: Output, signals: Signals) -> Result<Exit, Failure> {
    if let Some(address) = topic::address(&args.files)? {
        return load_topic(args, address, output, signals).await;
    }
    args.topic.require_none()?;
    let mut request = request(args, sources(&args.files)?)?;
    args.source.apply(&mut request);
    request.dialect.strict_quotes = args.strict;
    request.check()?;
    look_for(&request)?;
    if let Some(collections) = dump::several(&request.sources) {
        note(&visible(&format!(
            "dumps of several collections go into one table: {collections}. Of documents with the same key, the last one counts"
        )));
    }
    refuse_rejects_on_stdout(args)?;
    let db = target::resolve(&args.target, Purpose::Work).await?;
    look_for_models(args, &db).await?;
    let skipped = if args.skip_loaded { skip_loaded(&mut request, &db).await? } else { 0 };
    if request.sources.is_empty() {
        let outcome = nothing_new(&request, skipped);
        let shown = output.print(&outcome.receipt, &receipt::text(&outcome.receipt));
        return match publish(args, &outcome, &db, output, &signals).await? {
            Exit::Done => shown.map(|()| Exit::Done),
            stopped => Ok(stopped),
        };
    }
    args.origin.apply(&mut request, &args.enrich)?;
    request.check()?;
    if args.dry_run {
        if request.delete_missing.is_some() {
            note("rows that the files lack are not looked for; `millstream verify FILE .. --exact` lists them");
        }
        let dry = millstream_engine::dry_run(&request, &db).await?;
        return show_dry_run(&dry, &request, output);
    }
    if args.strict {
        check_everything(&request, &db).await?;
    }
    let _keeper = Keeper::watch(&args.target);
    let create = |path: &PathBuf| Ok::<_, Failure>((path.clone(), export::create(path, export::is_reject)?));
    let rejects_file = args.rejects.as_ref().map(create).transpose()?;
    let mut outcome = match run_load(&request, &db, args.progress, signals.clone()).await {
        Err(error) => {
            let began = began_with(&error).and_then(|(load_id, transforms)| {
                let others = transforms.strip_suffix(args.origin.names().as_slice())?;
                Some((load_id, transforms_of(args, others)?))
            });
            let Some((load_id, transforms)) = began else { return Err(error.into()) };
            request.transforms = transforms.map_err(|failure| failure.of_load(load_id))?;
            args.origin.apply(&mut request, &args.enrich)?;
            note(&format!("load {load_id} began with an earlier generation of its ranges, and resumes with it"));
            run_load(&request, &db, args.progress, signals.clone()).await?
        }
        Ok(outcome) => outcome,
    };
    outcome.receipt.skipped_files = skipped;
    let shown = output.print(&outcome.receipt, &receipt::text(&outcome.receipt));
    let unread = outcome.stopped.is_some() && outcome.receipt.counters.read == 0;
    if let Some((path, file)) = rejects_file.filter(|_| !unread) {
        let database = Database::connect(&args.target, &db).await?;
        let collection = database.collection(&request.collection).await?;
        if collection.distributed {
            note("the file of rejects is empty: those of a distributed table lie at the nodes of its shards");
        } else {
            let load_id = Some(outcome.receipt.load_id);
            let filter = RejectFilter { table_oid: collection.table_oid, load_id, ..RejectFilter::default() };
            let written = export::write(file, &database, &filter).await?;
            note(&format!("{} in {}", quantity::things(written, "reject"), path.display()));
        }
    }
    // Report how the load ended, and refresh the models, even if the receipt could not be printed.
    let published = publish(args, &outcome, &db, output, &signals).await;
    let exit = end(&outcome, &request).map_err(|failure| failure.of_load(outcome.receipt.load_id))?;
    let signalled = matches!(exit, Exit::HungUp | Exit::Interrupted | Exit::Terminated);
    if unread && signalled {
        note("no document was read, and no load is recorded");
    } else if signalled {
        note(&format!("what the receipt counts is committed; {}", again(&request)));
    }
    match published? {
        Exit::Done if exit == Exit::Done => shown.map(|()| exit),
        Exit::Done => Ok(exit),
        stopped => Ok(stopped),
    }
}

/// Leaves out the files that were loaded before, says how many, and returns that.
async fn skip_loaded(request: &mut LoadRequest, db: &ConnInfo) -> Result<u64, Failure> {
    let files = request.sources.len() as u64;
    let skipped = millstream_engine::skip_loaded(request, db).await?;
    note(&format!("skipped {} of {}: loaded before", quantity::count(skipped), quantity::things(files, "file")));
    Ok(skipped)
}

/// The outcome of a load all of whose files were loaded before.
fn nothing_new(request: &LoadRequest, skipped_files: u64) -> Outcome {
    let receipt = Receipt {
        collection: request.collection.to_string(),
        load_id: 0,
        counters: Counters::default(),
        rejected_lines: 0,
        deleted_missing: 0,
        skipped_files,
        wal_bytes: 0,
        wal_scope: WalScope::Unknown,
        seconds: 0.0,
        rows_per_second: 0.0,
        lanes: 0,
        durability: request.durability.name.to_owned(),
        layout: request.layout.name.to_owned(),
        writers: BTreeMap::new(),
        transforms: Vec::new(),
        retries: 0,
        deadlocks: 0,
        resumed_from: None,
        finished: true,
    };
    Outcome { receipt, stopped: None, error: None, recalled: false }
}

/// Checks the models to refresh before anything is loaded: each must be a model of this role, and one must belong to
/// the collection.
async fn look_for_models(args: &LoadArgs, db: &ConnInfo) -> Result<(), Failure> {
    if args.publish.is_empty() {
        return Ok(());
    }
    let request = RefreshRequest::new(args.publish.clone());
    let models = estimate(db, &target::schema(&args.target), &request).await?;
    let [first, ..] = models.as_slice() else { return Ok(()) };
    if models.iter().any(|model| model.collection == args.into) {
        return Ok(());
    }
    let problem = format!("{} is a model of {}, not of {}", first.model, first.collection, args.into);
    Err(Failure::user(problem).hint("see `millstream models`; another collection's models: millstream refresh MODEL"))
}

/// Refreshes the named models, unless the load ended early. A signal interrupts the refresh.
async fn publish(
    args: &LoadArgs,
    outcome: &Outcome,
    db: &ConnInfo,
    output: Output,
    signals: &Signals,
) -> Result<Exit, Failure> {
    if args.publish.is_empty() {
        return Ok(Exit::Done);
    }
    let names: Vec<String> = args.publish.iter().map(shell_word).collect();
    let later = format!("bring them up to date: millstream refresh {}", names.join(" "));
    if outcome.stopped.is_some() {
        note(&format!("the load ended early, so no model was refreshed; {later}"));
        return Ok(Exit::Done);
    }
    let schema = target::schema(&args.target);
    match refresh_now(db, &schema, &args.publish, signals).await {
        Ok(Ended::Refreshed(refreshed)) => show(output, &refreshed).map(|()| Exit::Done),
        Ok(Ended::Stopped(exit)) => {
            note(&format!("the load is committed, but the refresh was interrupted; {later}"));
            Ok(exit)
        }
        Err(failure) => {
            note(&format!("the load is committed, but the refresh failed; {later}"));
            Err(failure)
        }
    }
}

fn refuse_rejects_on_stdout(args: &LoadArgs) -> Result<(), Failure> {
    if args.rejects.as_deref() != Some(Path::new("-")) {
        return Ok(());
    }
    let later = format!("name a file, or print them afterwards: millstream rejects {}", shell_word(&args.into));
    Err(Failure::user("--rejects takes no -: standard output takes the receipt").hint(later))
}

/// Reports a mistyped file name before a server is started.
fn look_for(request: &LoadRequest) -> Result<(), Failure> {
    let is_path = |name: &&String| *name != "-" && request.objects.get(name).is_none();
    for name in request.sources.iter().filter(is_path) {
        millstream_input::metadata(&source::path(name)).map_err(|error| Error::from(SourceError::from(error)))?;
    }
    Ok(())
}

/// Refuses what was typed for files and does not go with a topic.
fn refuse_for_topic(args: &LoadArgs) -> Result<(), Failure> {
    args.source.require_plain()?;
    args.origin.require_none()?;
    let refused = [
        (args.strict, "--strict", "leave it out: messages are read once"),
        (args.dry_run, "--dry-run", "leave it out"),
        (args.lanes.is_some(), "--lanes", "leave it out: each partition has one lane"),
        (args.distribute, "--distribute", "leave it out: a topic is loaded into a table of one server"),
        (args.rejects.is_some(), "--rejects", "leave it out; `millstream rejects` prints rejects"),
        (!args.publish.is_empty(), "--publish", "leave it out; `millstream refresh` refreshes models"),
        (args.skip_loaded, "--skip-loaded", "leave it out: a partition continues behind what is committed"),
        (args.missing.is_asked(), "--delete-missing", "leave it out; with --message-key, empty messages delete"),
        (args.enrich.is_asked(), "--enrich", "leave it out: documents of a topic are not changed on the way"),
    ];
    match refused.iter().find(|(typed, ..)| *typed) {
        Some((_, option, hint)) => Err(Failure::user(format!("{option} does not go with a topic")).hint(*hint)),
        None => Ok(()),
    }
}

/// Loads a topic of Kafka, until it is stopped or up to the offsets that it has now.
async fn load_topic(args: &LoadArgs, address: Address, output: Output, signals: Signals) -> Result<Exit, Failure> {
    refuse_for_topic(args)?;
    let load = request(args, (Vec::new(), Objects::default()))?;
    let properties = args.topic.properties()?;
    let wanted = args.topic.request(address, load, args.delete_when.as_ref(), &properties)?;
    let client = Arc::new(millstream_kafka::connect(&wanted.address, &properties).await?);
    let db = target::resolve(&args.target, Purpose::Work).await?;
    let _keeper = Keeper::watch(&args.target);
    let loading = async |around: &Surroundings| millstream_kafka::load(&wanted, Arc::clone(&client), around).await;
    let (outcome, _) = watched(&db, args.progress, signals, loading).await;
    let millstream_kafka::Outcome { account, stopped, error } = outcome?;
    let shown = output.print(&account, &receipt::topic(&account));
    let name = shell_word(&wanted.load.collection);
    if account.counters.rejected > 0 {
        note(&format!("hint: millstream rejects {name}"));
    }
    let exit = match (stopped, error) {
        (_, Some(error)) => return Err(error.into()),
        (Some(StopReason::Interrupted), None) => Exit::Interrupted,
        (Some(StopReason::Terminated), None) => Exit::Terminated,
        (Some(StopReason::HungUp), None) => Exit::HungUp,
        (Some(StopReason::Rejects), None) => {
            let see = format!("see `millstream rejects {name}`; the same command with a higher --max-rejects resumes");
            return Err(Failure::user("stopped: too many messages of a partition were rejected").hint(see));
        }
        (Some(reason), None) => return Err(Failure::bug(format!("a topic's load ended without an error: {reason}"))),
        (None, None) if account.counters.rejected > 0 => Exit::Findings,
        (None, None) => Exit::Done,
    };
    if matches!(exit, Exit::Interrupted | Exit::Terminated | Exit::HungUp) {
        note("what the receipt counts is committed; run the same command again to continue behind it");
    }
    shown.map(|()| exit)
}

/// Runs a load with progress on stderr; the first signal ends it in good order.
pub(super) async fn run_load(
    request: &LoadRequest,
    db: &ConnInfo,
    progress: ProgressChoice,
    signals: Signals,
) -> Result<Outcome, Error> {
    let loading = async |around: &Surroundings| millstream_engine::load(request, around).await;
    let (outcome, tally) = watched(db, progress, signals, loading).await;
    // Those say themselves what became of the documents.
    let truncated = |error: &Error| {
        matches!(error, Error::Emptied { .. } | Error::PartitionEmptied { .. } | Error::PerhapsTruncated { .. })
    };
    if outcome.as_ref().is_err_and(|error| !truncated(error)) && tally.documents() > 0 {
        let committed = quantity::things(tally.documents(), "document");
        note(&format!(
            "{committed} of this run are committed, but their load could not be closed, so there is no receipt; {}",
            again(request)
        ));
    }
    outcome
}

/// Does what loads, with progress on stderr; the first signal ends it in good order. Also returns what it has counted.
async fn watched<T>(
    db: &ConnInfo,
    progress: ProgressChoice,
    signals: Signals,
    load: impl AsyncFnOnce(&Surroundings) -> T,
) -> (T, Arc<Tally>) {
    let (stop, tally) = (Stop::default(), Arc::new(Tally::default()));
    let progress = Progress::start(progress, Arc::clone(&tally));
    let asked = stop.clone();
    signals.cancel_sessions_of(db);
    let watch = tokio::spawn(async move {
        let reason = match signals.stop_asked().await {
            Exit::Terminated => StopReason::Terminated,
            Exit::HungUp => StopReason::HungUp,
            _ => StopReason::Interrupted,
        };
        note("stopping: committing what was read; a second signal stops at once");
        asked.stop(reason);
        signals.hurried().await;
        asked.hurry();
    });
    let around =
        Surroundings { db: db.clone(), stop, observer: Arc::new(progress.printer()), tally: Arc::clone(&tally) };
    let loaded = Box::pin(load(&around)).await;
    watch.abort();
    progress.finish();
    (loaded, tally)
}

/// The unfinished load that a run was to resume, and the transforms that it began with, if they differ.
fn began_with(error: &Error) -> Option<(i64, &[String])> {
    match error {
        Error::LoadChanged { load_id, transforms: Some(transforms), .. } => Some((*load_id, transforms)),
        _ => None,
    }
}

/// The transforms of these names, if they are those that were typed, but for the generation of a store.
fn transforms_of(args: &LoadArgs, recorded: &[String]) -> Option<Result<Vec<Arc<dyn Transform>>, Failure>> {
    let first = args.source.transforms();
    let names: Vec<String> = first.iter().map(|transform| transform.name()).collect();
    let enriching = args.enrich.transforms_of(recorded.strip_prefix(names.as_slice())?)?;
    Some(enriching.map(|enriching| [first, enriching].concat()))
}

/// Reads and checks all sources before a load with `--strict`.
async fn check_everything(request: &LoadRequest, db: &ConnInfo) -> Result<(), Failure> {
    if !request.is_repeatable() {
        return Err(Failure::user("--strict reads everything twice, and a stream can be read only once")
            .hint("write it to a file first, or use --max-rejects 0: it stops before the first bad document"));
    }
    let dry = millstream_engine::dry_run(request, db).await?;
    for reject in &dry.first_rejects {
        let name = request.sources.get(reject.position.source as usize).map_or("-", String::as_str);
        note(&visible(&format!("{name}:{}: {}: {}", reject.line, reject.reason, reject.detail)));
    }
    if dry.rejected == 0 {
        return Ok(());
    }
    let bad = quantity::things(dry.rejected, "document");
    Err(Failure::user(format!("{bad} of {} cannot be stored; nothing was written", quantity::count(dry.read)))
        .hint("mend them, or leave out --strict to load the others; --dry-run shows the documents"))
}

/// What to do after a load that ended early.
fn again(request: &LoadRequest) -> &'static str {
    match request.is_resumable() {
        true => "run the same command again to resume after the last commit",
        false => "a stream without --source-name cannot be resumed",
    }
}

/// Says which enrichments gave no document anything, and what to do. `true`: no enrichment gave a document anything.
fn nothing_was_enriched(transforms: &[TransformCounts]) -> bool {
    let idle: Vec<_> = transforms.iter().filter_map(|one| Some((one, receipt::nothing_added(one)?))).collect();
    for (transform, reasons) in &idle {
        note(&visible(&format!("nothing was enriched by `{}`: {reasons}", transform.name)));
    }
    if !idle.is_empty() {
        note(
            "hint: check the path of the address, and ask the store: millstream ranges get STORE IP; then run the corrected \
             command",
        );
    }
    let enriching = transforms.iter().filter(|transform| transform.documents.contains_key("enriched")).count();
    !idle.is_empty() && idle.len() == enriching
}

/// What to do about rejects of several lines: a quote that is data may have swallowed the lines behind it.
fn several_lines(receipt: &Receipt) -> Option<&'static str> {
    (receipt.rejected_lines > 0)
        .then_some("some rejects hold several lines; if quotes are data in this file, add --quote none --resume off")
}

/// The exit of a load, after its receipt was printed.
pub(super) fn end(outcome: &Outcome, request: &LoadRequest) -> Result<Exit, Failure> {
    match (&outcome.stopped, &outcome.error) {
        // The run before has said it.
        (None, _) if outcome.recalled => Ok(Exit::Done),
        (None, _) => {
            let has_rejects = outcome.receipt.counters.rejected > 0;
            if has_rejects {
                note(&format!("hint: millstream rejects {}", shell_word(&request.collection)));
                if let Some(hint) = several_lines(&outcome.receipt) {
                    note(&format!("hint: {hint}"));
                }
            }
            let has_findings = nothing_was_enriched(&outcome.receipt.transforms) || has_rejects;
            Ok(if has_findings { Exit::Findings } else { Exit::Done })
        }
        (Some(StopReason::Suspended), _) => Ok(Exit::Done),
        (Some(StopReason::Interrupted), _) => Ok(Exit::Interrupted),
        (Some(StopReason::Terminated), _) => Ok(Exit::Terminated),
        (Some(StopReason::HungUp), _) => Ok(Exit::HungUp),
        (Some(StopReason::Rejects), _) => {
            let rejected = quantity::things(outcome.receipt.counters.rejected, "document");
            let name = shell_word(&request.collection);
            let see = format!("see `millstream rejects {name}`; the same command with a higher --max-rejects resumes");
            let hints: Vec<&str> = [see.as_str()].into_iter().chain(several_lines(&outcome.receipt)).collect();
            Err(Failure::user(format!("stopped: {rejected} rejected")).hint(hints.join("; ")))
        }
        (Some(StopReason::Damage { source, line, offset, detail }), _) => {
            let name = request.sources.get(*source as usize).map_or("-", String::as_str);
            Err(Failure::user(format!("the source is damaged: {detail}"))
                .at(format!("{name}:{line} (byte {offset})"))
                .hint(
                    "everything before it is committed; mend the file and run the same command again. If the mended file \
                     differs before this place, add --resume off, and let `millstream verify FILE .. --exact` list what \
                     the damaged file left",
                ))
        }
        (Some(StopReason::Failed), Some(error @ Error::Rejected { position, line, .. })) => {
            let name = request.sources.get(position.source as usize).map_or("-", String::as_str);
            Err(Failure::explained(error)
                .at(format!("{name}:{line} (byte {})", position.offset))
                .hint("everything committed is before it; mend it and run the same command again, or leave out --strict and --max-rejects 0 to have it rejected"))
        }
        (Some(StopReason::Failed), Some(error)) => {
            let failure = Failure::explained(error);
            if outcome.receipt.counters.read > 0 {
                note(&format!("what the receipt counts is committed; {}", again(request)));
            }
            Err(failure)
        }
        (Some(StopReason::Failed), None) => Err(Failure::bug("a load failed without an error")),
    }
}

fn request(args: &LoadArgs, (sources, objects): (Vec<String>, Objects)) -> Result<LoadRequest, Failure> {
    let key = args.source.key(args.key.as_ref(), &sources)?;
    let mut request = LoadRequest::new(args.into.clone(), key, sources);
    request.objects = objects;
    request.transforms = [args.source.transforms(), args.enrich.transforms(&request.key)?].concat();
    request.source_name.clone_from(&args.source_name);
    request.mode = args.mode.clone().with_tombstone(args.delete_when.clone());
    args.missing.apply(&mut request);
    request.forget_deletes = args.forget_deletes.map(|age| std::time::Duration::from_secs(age.seconds));
    request.durability = args.durability;
    request.layout = args.layout;
    request.doc = args.doc;
    request.skip_unchanged = args.skip_unchanged;
    request.checks.clone_from(&args.check);
    request.columns = match args.columns {
        Some(Columns::All) => AskedColumns::All,
        None if args.column.is_empty() => AskedColumns::Any,
        None => AskedColumns::Named(args.column.clone()),
    };
    request.adopt = args.adopt;
    request.distribute = args.distribute;
    request.resume = args.resume == Resume::Auto;
    request.lanes = args.lanes;
    if let Some(rows) = args.batch_rows {
        (request.batch_rows, request.segment_rows_max) = (rows, rows);
    }
    request.memory_bytes = args.memory.bytes;
    request.rejects_max = if args.strict { 0 } else { args.max_rejects };
    // A higher `--max-rejects` also raises the limit of bytes. Otherwise long documents would hit that limit first.
    request.reject_bytes_max = REJECT_BYTES_TOTAL_MAX.saturating_mul(args.max_rejects.div_ceil(REJECTS_MAX).max(1));
    request.schema = target::schema(&args.target);
    Ok(request)
}

fn show_dry_run(dry: &DryRun, request: &LoadRequest, output: Output) -> Result<Exit, Failure> {
    output.print(dry, &preview::text(dry, request))?;
    let has_findings = nothing_was_enriched(&dry.transforms) || dry.rejected > 0;
    Ok(if has_findings { Exit::Findings } else { Exit::Done })
}
