//! `ranges build`: makes a generation of a store from files and a query.

use super::receipt;
use super::rejects::Rejects;
use crate::args::{TargetArgs, named, one_of};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::interruption::Watched;
use crate::output::{Output, note};
use crate::progress::{Counts, Printer, ProgressChoice};
use crate::quantity::{self, Size};
use crate::signal::Signals;
use crate::source_args::delimiter;
use crate::store_name::StoreName;
use crate::target::{self, Purpose};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use millstream_pg::SessionSettings;
use millstream_ranges::input::{self, Header, Input, InputOptions, JoinOptions};
use millstream_ranges::limits::REJECTS_MAX;
use millstream_ranges::{
    AddressReading, BuildRequest, ColumnType, Error, Family, Layout, Observer, Overlap, Progress as Step, Reject, build,
};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const EXAMPLES: &str = "\
Examples:
  millstream ranges build cities ranges.csv
  millstream ranges build cities ranges.csv --range first,last --keep country
  millstream ranges build asn asn.tsv.gz --header network,asn --types asn=uint32
  millstream ranges build geo Blocks-IPv4.csv Blocks-IPv6.csv \\
      --join Locations-en.csv:geoname_id
  millstream ranges build offices --query 'select net, name from office'
  zcat feed.gz | millstream ranges build feed - --overlap narrowest --merge

Exit code 1 if entries were rejected. The others are in the store.";

/// Build a store of IP ranges from files, standard input or a query
///
/// Each build writes a new generation. It becomes the current one when it is complete and on the disk; until
/// then, readers see the old one. One older generation is kept. If you stop or kill a build, or if it fails, the
/// store is as it was.
///
/// An entry that cannot be used becomes a reject, and the build continues. At the end the build prints a receipt, which
/// accounts for every entry. Memory is bounded, whatever the size.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct BuildArgs {
    /// Directory of the store; made if it is missing
    #[arg(value_name = "STORE")]
    store: StoreName,

    /// Files with ranges; - is standard input
    #[arg(value_name = "FILE", required_unless_present = "query")]
    files: Vec<PathBuf>,

    /// Read ranges from the result of this query, too; it counts as the last file
    ///
    /// --range and --keep name columns of the result.
    #[arg(long, value_name = "SQL")]
    query: Option<String>,

    /// Format of the files
    #[arg(long, value_name = "FORMAT", default_value = AUTO, value_parser = formats())]
    format: String,

    /// Columns of the first and the last address, or one column with a network (10.0.0.0/8), a range
    /// (10.0.0.0-10.0.0.9) or an address [default: found by name]
    #[arg(long, value_name = "COLUMN[,COLUMN]", value_delimiter = ',')]
    range: Vec<String>,

    /// Columns that make up the value of a range [default: all others]
    #[arg(long, value_name = "COLUMN[,COLUMN..]", value_delimiter = ',')]
    keep: Vec<String>,

    /// CSV and TSV: the files have no header line; columns are numbered from 1
    #[arg(long)]
    no_header: bool,

    /// CSV and TSV: names of the columns, in order; the files then have no header line
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    header: Vec<String>,

    /// CSV and TSV: types of columns; the values of all others are strings
    ///
    /// TYPE is boolean, double, int32, string, uint16, uint32 or uint64. The value is a number, boolean or string in
    /// JSON, has this type in an .mmdb file, and fills a column of the matching type in a table. A field that does not
    /// fit is a reject; an empty one has no value.
    #[arg(long, value_name = "COLUMN=TYPE[,..]", value_delimiter = ',', value_parser = ColumnType::parse_named)]
    types: Vec<(String, ColumnType)>,

    /// CSV and TSV: character between fields, one ASCII character or `tab` [default: a comma, for tsv a tab]
    #[arg(long, value_name = "CHAR", value_parser = delimiter)]
    delimiter: Option<u8>,

    /// CSV and TSV: add the columns of this file's line that has the same value in COLUMN [default COLUMN: geoname_id]
    #[arg(long, value_name = "FILE[:COLUMN]")]
    join: Option<Joined>,

    /// Read whole numbers as addresses of this family, such as 16777216 for 1.0.0.0
    #[arg(long, value_name = "FAMILY", value_parser = families())]
    numbers: Option<Family>,

    /// Read ::ffff:1.2.3.4 as 1.2.3.4
    #[arg(long)]
    unmap: bool,

    /// What happens where ranges overlap
    #[arg(long, value_name = "WHICH", default_value = "error", value_parser = one_of(Overlap::ALL))]
    overlap: Overlap,

    /// Join adjacent ranges with equal values
    #[arg(long)]
    merge: bool,

    /// Keep both families in one database without a name, and no description of the file
    #[arg(long)]
    single: bool,

    /// Memory to sort in, at least 1MiB; a number without a unit is in bytes
    ///
    /// If the ranges need more, sorted parts of them go to nameless files in the directory of the store.
    #[arg(long, value_name = "SIZE", default_value = "512MiB")]
    memory: Size,

    /// Largest .mmdb file to read, uncompressed; a number without a unit is in bytes
    ///
    /// Such a file is held in memory. So is a file with zero bytes in its first line, if its name does not say what it
    /// is.
    #[arg(long, value_name = "SIZE", default_value = MMDB_MAX)]
    mmdb_max: Size,

    /// Also write the rejects to FILE, one line of JSON each
    ///
    /// Rejects that an earlier build wrote there are replaced. Without this option, only the first ten are
    /// printed.
    #[arg(long, value_name = "FILE")]
    rejects: Option<PathBuf>,

    /// Fail if there are more rejects than this
    #[arg(long, value_name = "N", default_value_t = REJECTS_MAX)]
    max_rejects: u64,

    /// How to show progress
    #[arg(long, value_name = "HOW", default_value = "auto")]
    progress: ProgressChoice,

    #[command(flatten)]
    target: TargetArgs,
}

/// The format that is found by the content.
const AUTO: &str = "auto";

/// The largest .mmdb file by default, as it is typed.
const MMDB_MAX: &str = "1GiB";

/// A file to join, as typed.
#[derive(Debug, Clone)]
struct Joined(JoinOptions);

impl From<OsString> for Joined {
    fn from(typed: OsString) -> Self {
        let whole = PathBuf::from(typed);
        match whole.to_str().and_then(|text| text.rsplit_once(':')) {
            // A file may have a colon in its name.
            Some((file, column)) if !whole.exists() => Self(JoinOptions::by(file.into(), column.to_owned())),
            _ => Self(JoinOptions::new(whole)),
        }
    }
}

fn formats() -> PossibleValuesParser {
    let auto = (AUTO, "look at the name, then at the content");
    named(std::iter::once(auto).chain(input::FORMATS.iter().map(|format| (format.name, format.about))))
}

fn families() -> impl TypedValueParser<Value = Family> {
    one_of([(Family::V4, "IPv4"), (Family::V6, "IPv6")].map(|(family, about)| (family, family.name(), about)))
}

/// Runs the command.
pub async fn run(args: &BuildArgs, output: Output, signals: &Signals) -> Result<Exit, Failure> {
    refuse(args)?;
    let request = request(args);
    let inputs = inputs(args).await?;
    let counted = Arc::new(Counted::default());
    let rejects = Rejects::open(args.rejects.as_deref())?;
    let stopping = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&stopping);
    let watched =
        Watched::start(args.progress, Arc::clone(&counted), signals, move || asked.store(true, Ordering::Relaxed));
    let watcher = Arc::new(Watcher { counted, printer: watched.printer(), rejects: Mutex::new(rejects), stopping });
    let observer = Arc::clone(&watcher);
    let (built, stopped) = watched.run("the build", move || build(&request, inputs, &*observer)).await?;
    let kept = watcher.rejects().finish(built.is_ok());
    let receipt = match (built, stopped) {
        (Err(Error::Stopped), Some(exit)) => {
            note("stopped; the store is as it was");
            return Ok(exit);
        }
        // The file of rejects has failed.
        (Err(Error::Stopped), None) => return kept.and(Err(Error::Stopped.into())),
        (built, _) => built?,
    };
    output.print(&receipt, &receipt::text(&receipt))?;
    kept?;
    Ok(if receipt.rejected == 0 { Exit::Done } else { Exit::Findings })
}

/// Refuses what cannot be meant.
fn refuse(args: &BuildArgs) -> Result<(), Failure> {
    if let Some(generation) = args.store.generation {
        return Err(Failure::user(format!(
            "{} names generation {generation}, and a build makes a new one",
            args.store
        ))
        .hint("name the store alone"));
    }
    if args.rejects.as_deref() == Some(Path::new("-")) {
        return Err(Failure::user("--rejects takes no -: standard output takes the receipt").hint("name a file"));
    }
    let joined = args.join.iter().map(|Joined(join)| &join.file);
    if args.files.iter().chain(joined).filter(|file| *file == Path::new("-")).count() > 1 {
        return Err(Failure::user("standard input can be read only once").hint("name - once"));
    }
    if args.target.db.is_some() && args.query.is_none() {
        return Err(Failure::user("--db says where --query runs, and there is no --query")
            .hint("add --query SQL, or leave out --db"));
    }
    Ok(())
}

fn request(args: &BuildArgs) -> BuildRequest {
    let mut request = BuildRequest::new(args.store.path.clone());
    request.overlap = args.overlap;
    request.merge = args.merge;
    request.layout = if args.single { Layout::Single } else { Layout::Named };
    request.memory_bytes = args.memory.bytes;
    request.rejects_max = args.max_rejects;
    request
}

/// How the files are read.
fn options(args: &BuildArgs) -> InputOptions {
    InputOptions {
        format: args.format.clone(),
        range: args.range.clone(),
        keep: args.keep.clone(),
        header: match args.header.as_slice() {
            [] if args.no_header => Header::Absent,
            [] => Header::Record,
            names => Header::Names(names.to_vec()),
        },
        types: args.types.clone(),
        delimiter: args.delimiter,
        reading: AddressReading { unmap: args.unmap, numbers: args.numbers },
        join: args.join.as_ref().map(|Joined(join)| join.clone()),
        mmdb_bytes_max: args.mmdb_max.bytes,
    }
}

async fn inputs(args: &BuildArgs) -> Result<Vec<Box<dyn Input>>, Failure> {
    let options = options(args);
    input::refuse_repeated(&args.files)?;
    let mut inputs = Vec::new();
    for file in &args.files {
        inputs.push(input::open_later(file, &options)?);
    }
    if let Some(sql) = &args.query {
        inputs.push(query(sql, &args.target, &options).await?);
    }
    Ok(inputs)
}

/// Runs a query in a task, which sends its rows to the input.
async fn query(sql: &str, target: &TargetArgs, options: &InputOptions) -> Result<Box<dyn Input>, Failure> {
    let db = target::resolve(target, Purpose::Work).await?;
    let connection = millstream_pg::connect(&db, &SessionSettings::named("millstream ranges")).await?;
    input::refuse_repeated_columns(&connection.client, sql, options).await?;
    let (sender, rows) = input::row_queue();
    let text = sql.to_owned();
    tokio::spawn(async move {
        // The task takes the whole connection; with the client alone, it would be closed.
        let connection = connection;
        input::send_query(&connection.client, &text, sender).await
    });
    Ok(input::query(sql.to_owned(), rows, options)?)
}

/// How far the build is.
#[derive(Debug)]
struct Counted(Mutex<At>);

#[derive(Debug, Clone, Copy)]
struct At {
    phase: &'static str,
    since: Instant,
    ranges: u64,
    bytes: u64,
    total_bytes: Option<u64>,
    rejected: u64,
}

impl Default for Counted {
    fn default() -> Self {
        let since = Instant::now();
        Self(Mutex::new(At { phase: "reading", since, ranges: 0, bytes: 0, total_bytes: None, rejected: 0 }))
    }
}

impl Counted {
    fn at(&self) -> MutexGuard<'_, At> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counts for Counted {
    fn input(&self) -> (u64, Option<u64>) {
        let at = self.at();
        (at.bytes, at.total_bytes)
    }

    fn state(&self, _: Duration) -> String {
        let At { phase, since, ranges, bytes, rejected, .. } = *self.at();
        let rate = quantity::per_second(ranges, since.elapsed().as_secs_f64());
        let mut text = format!("{phase} {} ranges, {}/s", quantity::count(ranges), quantity::rate(rate));
        if bytes > 0 {
            text.push_str(&format!(", {}", quantity::bytes(bytes)));
        }
        if rejected > 0 {
            text.push_str(&format!(", {} rejected", quantity::count(rejected)));
        }
        text
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        let At { ranges, rejected, .. } = *self.at();
        vec![("ranges", ranges), ("rejected", rejected)]
    }
}

/// Watches a build: shows how far it is, keeps its rejects, and stops it after a signal.
struct Watcher {
    counted: Arc<Counted>,
    printer: Printer,
    rejects: Mutex<Rejects>,
    stopping: Arc<AtomicBool>,
}

impl Watcher {
    fn rejects(&self) -> MutexGuard<'_, Rejects> {
        self.rejects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Watcher {
    fn rejected(&self, reject: &Reject) {
        self.counted.at().rejected += 1;
        self.rejects().add(reject, &self.printer);
    }

    fn progress(&self, step: Step) {
        let mut at = self.counted.at();
        if at.phase != step.phase {
            (at.phase, at.since) = (step.phase, Instant::now());
        }
        (at.ranges, at.bytes, at.total_bytes) = (step.ranges, step.bytes, step.total_bytes);
    }

    fn is_stopped(&self) -> bool {
        self.stopping.load(Ordering::Relaxed) || self.rejects().has_failed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;
    use millstream_ranges::limits::MMDB_BYTES_MAX;

    #[test]
    fn a_colon_separates_the_column_unless_a_file_has_it_in_its_name() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a:b"), "").unwrap();
        let usual = "geoname_id";
        for (typed, file, column) in
            [("a", "a", usual), ("a:c", "a", "c"), ("a:b", "a:b", usual), ("a:b:c", "a:b", "c")]
        {
            let Joined(join) = Joined::from(dir.path().join(typed).into_os_string());
            assert_eq!((join.file, join.column.as_str()), (dir.path().join(file), column), "{typed}");
        }
    }

    #[derive(Debug, clap::Parser)]
    struct Typed {
        #[command(flatten)]
        args: BuildArgs,
    }

    fn typed(words: &str) -> BuildArgs {
        Typed::try_parse_from(["build"].into_iter().chain(words.split_whitespace())).unwrap().args
    }

    #[test]
    fn every_option_reaches_the_library() {
        let shown = |args: &BuildArgs| (format!("{:?}", request(args)), format!("{:?}", options(args)));
        let plain = (BuildRequest::new("geo".into()), InputOptions::default());
        assert_eq!(shown(&typed("geo a.csv")), (format!("{:?}", plain.0), format!("{:?}", plain.1)));
        let args = typed(
            "geo a.csv --overlap narrowest --merge --single --memory 1MiB --max-rejects 7 --format tsv --range a,b --keep c \
             --header a,b,c,asn --types asn=uint32 --delimiter ; --unmap --numbers v4 --join l.csv:id --mmdb-max 2MiB",
        );
        let names = |all: &[&str]| all.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let request = BuildRequest {
            overlap: Overlap::Narrowest,
            merge: true,
            layout: Layout::Single,
            memory_bytes: 1 << 20,
            rejects_max: 7,
            ..BuildRequest::new("geo".into())
        };
        let options = InputOptions {
            format: "tsv".into(),
            range: names(&["a", "b"]),
            keep: names(&["c"]),
            header: Header::Names(names(&["a", "b", "c", "asn"])),
            types: vec![("asn".into(), ColumnType::Uint32)],
            delimiter: Some(b';'),
            reading: AddressReading { unmap: true, numbers: Some(Family::V4) },
            join: Some(JoinOptions::by("l.csv".into(), "id".into())),
            mmdb_bytes_max: 2 << 20,
        };
        assert_eq!(shown(&args), (format!("{request:?}"), format!("{options:?}")));
        assert_eq!(super::options(&typed("geo a.csv --no-header")).header, Header::Absent);
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for (words, problem) in [
            ("geo@1 a.csv", "geo@1 names generation 1, and a build makes a new one"),
            ("geo - -", "standard input can be read only once"),
            ("geo - --join -", "standard input can be read only once"),
            ("geo - --join=-:id", "standard input can be read only once"),
            ("geo a.csv --rejects -", "standard output takes the receipt"),
            ("geo a.csv --db postgres://db/x", "there is no --query"),
        ] {
            let refused = refuse(&typed(words)).unwrap_err().to_string();
            assert!(refused.contains(problem), "{words}: {refused}");
        }
    }

    #[test]
    fn the_default_of_mmdb_max_is_that_of_the_library() {
        assert_eq!(MMDB_MAX.parse(), Ok(Size { bytes: MMDB_BYTES_MAX }));
    }

    #[test]
    fn the_state_names_what_is_known() {
        let counted = Counted::default();
        let state = || counted.state(Duration::ZERO);
        assert_eq!(state(), "reading 0 ranges, 0/s");
        counted.at().bytes = 2_048;
        counted.at().rejected = 3;
        assert_eq!(state(), "reading 0 ranges, 0/s, 2.0 KiB, 3 rejected");
    }
}
