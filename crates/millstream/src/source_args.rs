//! Which sources a command reads, and how they are written.

use crate::args::{named, one_of, one_path};
use crate::dump;
use crate::failure::Failure;
use crate::file_pattern::{matching, refuse_braces};
use crate::output::note;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use millstream_document::source::{
    AUTO, Dialect, ENCODINGS, Encoding, NANS, Nan, Objects, Quote, SOURCES, Takes, own_key, spelling,
};
use millstream_document::transform::{ExtendedJson, Transform};
use millstream_engine::LoadRequest;
use millstream_kafka::SCHEME;
use millstream_model::{KeyError, KeyRequest};
use millstream_objects::{Finder, is_object};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How the sources are written.
#[derive(Debug, clap::Args)]
pub struct SourceArgs {
    /// Format of the files
    #[arg(long, value_name = "FORMAT", default_value = AUTO, value_parser = formats())]
    format: String,

    /// JSON: path of the array of documents inside an object, such as data.items or /data/items
    ///
    /// If a member on the path is repeated, on any level, each of them must lead to an array, and all are read.
    #[arg(long, value_name = "PATH", value_parser = root)]
    root: Option<Root>,

    /// Encoding of the text
    ///
    /// Offsets, for example those of rejects, count bytes of the text in UTF-8. A document with malformed text
    /// becomes a reject.
    #[arg(long, value_name = "ENCODING", default_value = ENCODINGS[0].name, value_parser = encodings())]
    encoding: &'static Encoding,

    /// Skip this many lines at the beginning of every file
    #[arg(long, value_name = "N", default_value_t = 0)]
    skip_lines: u64,

    /// CSV and TSV: character between fields, one ASCII character or `tab` [default: a comma, for tsv a tab]
    #[arg(long, value_name = "CHAR", value_parser = delimiter)]
    delimiter: Option<u8>,

    /// CSV and TSV: character that may enclose a field, one ASCII character or `none` [default: "]
    #[arg(long, value_name = "CHAR", value_parser = quote)]
    quote: Option<Quote>,

    /// CSV and TSV: unquoted fields with this text become null; without this option no field does, and an empty
    /// field is ""
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    null: Option<String>,

    /// CSV, TSV and rejects of them: names of the columns, separated by commas; the files then have no header line
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    header: Vec<String>,

    /// CSV and TSV: remove spaces and tabs around unquoted fields
    #[arg(long)]
    trim: bool,

    /// CSV and TSV: types of unquoted fields
    #[arg(long, value_name = "TYPES", default_value = "text")]
    types: Types,

    /// Parquet, Arrow, Avro, BSON and Extended JSON: what becomes of NaN and infinity, which JSON lacks
    #[arg(long, value_name = "HOW", default_value = NANS[0].1, value_parser = nans())]
    nan: Nan,

    /// JSON of mongoexport: values such as {"$oid": ".."} become what they are in BSON
    ///
    /// It reads all forms of Extended JSON: canonical, relaxed and those of version 1. A malformed value makes the
    /// document a reject. The default key is _id. Positions and rejects refer to the file's documents.
    #[arg(long)]
    extended_json: bool,
}

/// The key of the documents that mongoexport writes.
const MONGOEXPORT_KEY: &str = "_id";

/// A path as typed.
#[derive(Debug, Clone)]
struct Root(Vec<String>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Types {
    /// Every field is a string
    Text,
    /// Fields that look like JSON numbers, true or false become those; 007 stays a string
    Infer,
}

impl SourceArgs {
    /// Refuses options that say how files are written, for messages.
    pub fn require_plain(&self) -> Result<(), Failure> {
        let Self {
            format,
            root,
            encoding,
            skip_lines,
            delimiter,
            quote,
            null,
            header,
            trim,
            types,
            nan,
            extended_json,
        } = self;
        let typed = [
            (![AUTO, "ndjson"].contains(&format.as_str()), "--format"),
            (root.is_some(), "--root"),
            (encoding.name != ENCODINGS[0].name, "--encoding"),
            (*skip_lines > 0, "--skip-lines"),
            (delimiter.is_some(), "--delimiter"),
            (quote.is_some(), "--quote"),
            (null.is_some(), "--null"),
            (!header.is_empty(), "--header"),
            (*trim, "--trim"),
            (*types != Types::Text, "--types"),
            (*nan != NANS[0].0, "--nan"),
            (*extended_json, "--extended-json"),
        ];
        match typed.iter().find(|(typed, _)| *typed) {
            Some((_, option)) => {
                Err(Failure::user(format!("{option} does not go with a topic: its messages are JSON"))
                    .hint("leave it out: it says how files are written"))
            }
            None => Ok(()),
        }
    }

    /// Puts what was typed into a request.
    pub fn apply(&self, request: &mut LoadRequest) {
        request.format.clone_from(&self.format);
        request.dialect = Dialect {
            delimiter: self.delimiter,
            quote: self.quote,
            null: self.null.clone(),
            header: (!self.header.is_empty()).then(|| self.header.clone()),
            skip_lines: self.skip_lines,
            encoding: Some(self.encoding),
            trim: self.trim,
            infer_types: self.types == Types::Infer,
            root: self.root.as_ref().map(|root| root.0.clone()).unwrap_or_default(),
            strict_quotes: false,
            // Of text, the transform converts such numbers.
            nan: if self.extended_json && !self.takes_nan() { Nan::default() } else { self.nan },
        };
    }

    /// Whether the format has numbers that are not finite. If the content decides about it, it may.
    fn takes_nan(&self) -> bool {
        let named = SOURCES.iter().find(|format| format.name == self.format);
        named.is_none_or(|format| format.takes.contains(&Takes::Nan))
    }

    /// The transforms that come before all others.
    pub fn transforms(&self) -> Vec<Arc<dyn Transform>> {
        let extended = self.extended_json.then(|| Arc::new(ExtendedJson::new(self.nan)) as Arc<dyn Transform>);
        extended.into_iter().collect()
    }

    /// The key as typed, or the one that all such documents have.
    ///
    /// # Errors
    /// None was typed, and other documents have no such key.
    pub fn key(&self, typed: Option<&Key>, sources: &[String]) -> Result<Vec<KeyRequest>, Failure> {
        if let Some(Key(key)) = typed {
            return Ok(key.clone());
        }
        let own = self.extended_json.then_some(MONGOEXPORT_KEY).or_else(|| own_key(&self.format, sources));
        let missing = || {
            Failure::user("--key is missing: only documents of MongoDB have a key by default")
                .hint("name the path of the key, such as --key id; `millstream cat FILE | head` shows documents")
        };
        let own = own.ok_or_else(missing)?;
        Ok(vec![KeyRequest { column: own.to_owned(), path: vec![own.to_owned()], key_type: None }])
    }
}

/// A key as typed.
#[derive(Debug, Clone)]
pub struct Key(pub Vec<KeyRequest>);

/// Reads a key.
pub fn key(text: &str) -> Result<Key, KeyError> {
    KeyRequest::parse_list(text).map(Key)
}

/// The sources that were typed, by their names, and the objects among them. A pattern is replaced by the files or objects
/// that match it, sorted by name. A path that names an existing file is not a pattern. A folder stands for the dump of a
/// collection in it. Beside dumps, what describes them is no source.
pub fn sources(typed: &[PathBuf]) -> Result<(Vec<String>, Objects), Failure> {
    let (mut sources, mut objects, mut finder) = (Vec::new(), Objects::default(), Finder::default());
    for path in typed {
        if let Some(address) = path.to_str().filter(|text| is_object(text)) {
            let found = finder.find(address, &|waits| note(&waits));
            for object in found.map_err(|error| Failure::of(&error).hint(error.hint()))? {
                sources.push(object.name().to_owned());
                objects.add(object);
            }
            continue;
        }
        if path.to_str().is_some_and(|text| text.starts_with(SCHEME)) {
            let hint = "name files; to compare, load the topic once more, with another --into and --source-name";
            return Err(Failure::user("a topic of Kafka is read by `millstream load` alone").hint(hint));
        }
        match pattern(path) {
            Some(pattern) => sources.extend(matching(pattern)?.iter().map(|path| spelling(path))),
            None if path.is_dir() => sources.push(spelling(&dump::of_folder(path)?)),
            None => {
                refuse_braces(path)?;
                sources.push(spelling(path));
            }
        }
    }
    dump::leave_descriptions(&mut sources);
    Ok((sources, objects))
}

/// The path as a pattern; `None` if it is not one, or if a file has that name.
fn pattern(path: &Path) -> Option<&str> {
    let text = path.to_str().filter(|text| text.contains(['*', '?', '[']))?;
    path.symlink_metadata().is_err().then_some(text)
}

fn formats() -> PossibleValuesParser {
    named(std::iter::once((AUTO, "look at the content")).chain(SOURCES.iter().map(|f| (f.name, f.about))))
}

/// What becomes of numbers that are not finite.
pub fn nans() -> impl TypedValueParser<Value = Nan> {
    one_of(NANS.iter().copied())
}

fn encodings() -> impl TypedValueParser<Value = &'static Encoding> {
    one_of(ENCODINGS.iter().map(|encoding| (encoding, encoding.name, encoding.about)))
}

fn root(text: &str) -> Result<Root, String> {
    let path = one_path(text).map_err(|error| error.to_string())?;
    path.map(Root).ok_or_else(|| "it takes one path, such as data.items".into())
}

/// A character between fields as typed.
pub fn delimiter(text: &str) -> Result<u8, String> {
    match text {
        "tab" | "\\t" => Ok(b'\t'),
        text => character(text),
    }
}

fn quote(text: &str) -> Result<Quote, String> {
    match text {
        "none" => Ok(Quote::None),
        text => character(text).map(Quote::Byte),
    }
}

fn character(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        [byte] if byte.is_ascii() => Ok(*byte),
        _ => Err("it takes one ASCII character".into()),
    }
}
