//! Inputs turn files and queries into ranges with their members. One file per format; a new format is one file and two
//! lines here.
//!
//! Bad entries are data, not errors: they come out with a reason. An [`Error`] ends the input.

mod columns;
mod csv;
mod join;
mod later;
mod listed;
mod members;
mod mmdb;
mod ndjson;
mod objects;
mod query;
mod records;
mod repeated;
mod tsv;

pub use join::JoinOptions;
pub use later::{open_later, refuse_repeated};
pub use listed::Listed;
pub use mmdb::MmdbFile;
pub use query::{RowReceiver, RowSender, query, refuse_repeated_columns, row_queue, send_query};

use crate::column_type::{ColumnType, ColumnTypes};
use crate::error::Error;
use crate::limits::{MMDB_BYTES_MAX, READ_BYTES, RECOGNISED_BYTES, SHOWN_BYTES};
use memchr::memchr;
use millstream_input::{End, MARK, Window};
use millstream_model::range::{AddressReading, Range};
use std::path::Path;

/// Ranges of one file or query, in order.
pub trait Input: Send {
    /// Reads the next entry and puts its members into `members`, as JSON without the braces; whatever was there is
    /// removed first. `None` at the end.
    ///
    /// # Errors
    /// The input cannot be read on.
    fn next(&mut self, members: &mut String) -> Result<Option<Read>, Error>;

    /// The name for messages and the receipt: the path as it was given, or the query.
    fn name(&self) -> &str;

    /// Bytes read so far, compressed as they are, and how many there are, if that is known.
    fn progress(&self) -> (u64, Option<u64>);

    /// The types of members that have one.
    fn types(&self) -> ColumnTypes {
        ColumnTypes::new()
    }

    /// After the end: names of members to keep that no entry had.
    fn unseen(&self) -> Vec<String> {
        Vec::new()
    }
}

/// One entry of an input.
#[derive(Debug)]
pub struct Read {
    /// Where it stands: the line on which it begins, from 1, or its number where there are no lines. It is greater than
    /// that of the entry before.
    pub line: u64,
    /// Its range, or why it has none.
    pub range: Result<Range, Rejected>,
}

/// Why an entry cannot be used.
#[derive(Debug)]
pub struct Rejected {
    /// What is wrong.
    pub reason: String,
    /// The entry as it was read, cut if it is long.
    pub text: String,
}

/// How inputs are read.
#[derive(Debug, Clone)]
pub struct InputOptions {
    /// `auto`, or the name of one of [`FORMATS`].
    pub format: String,
    /// Columns or members that hold the range: one with `a/length`, `a-b` or a single address, or two with the first
    /// and the last address. Empty: found by well-known names, such as `network`, or `start_ip` and `end_ip`. The
    /// networks of an mmdb file are its ranges, whatever stands here.
    pub range: Vec<String>,
    /// Columns or members to keep. Empty: all that do not hold the range.
    pub keep: Vec<String>,
    /// Where the names of the columns of CSV and TSV are.
    pub header: Header,
    /// Types of columns by name; for CSV and TSV, where all other values are strings.
    pub types: Vec<(String, ColumnType)>,
    /// What separates columns, if not the format's own character.
    pub delimiter: Option<u8>,
    /// How addresses are read.
    pub reading: AddressReading,
    /// More members from another file; for CSV and TSV.
    pub join: Option<JoinOptions>,
    /// Bytes of an mmdb file at most. Such a file is held in memory.
    pub mmdb_bytes_max: usize,
}

impl Default for InputOptions {
    fn default() -> Self {
        Self {
            format: "auto".into(),
            range: Vec::new(),
            keep: Vec::new(),
            header: Header::default(),
            types: Vec::new(),
            delimiter: None,
            reading: AddressReading::default(),
            join: None,
            mmdb_bytes_max: MMDB_BYTES_MAX,
        }
    }
}

/// Where the names of columns are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Header {
    /// In the first record.
    #[default]
    Record,
    /// Nowhere: the columns have the names 1, 2 and so on.
    Absent,
    /// Here: the files have none.
    Names(Vec<String>),
}

type Open = fn(Window, &InputOptions) -> Result<Box<dyn Input>, Error>;

/// A format of files.
#[derive(Debug)]
pub struct Format {
    /// Its name on the command line.
    pub name: &'static str,
    /// What it is, in one line.
    pub about: &'static str,
    open: Open,
}

/// All formats.
pub const FORMATS: &[&Format] = &[&csv::FORMAT, &mmdb::FORMAT, &ndjson::FORMAT, &tsv::FORMAT];

/// Opens a file, or standard input if the path is `-`. Gzip and zstd are recognised by their first bytes.
///
/// # Errors
/// The file cannot be opened, its header is of no use, or an option does not fit it.
pub fn open(path: &Path, options: &InputOptions) -> Result<Box<dyn Input>, Error> {
    let mut window = window(path)?;
    let format = match options.format.as_str() {
        "auto" => recognise(&mut window, options)?,
        name => FORMATS.iter().copied().find(|format| format.name == name).ok_or_else(|| {
            let names: Vec<&str> = FORMATS.iter().map(|format| format.name).collect();
            let problem = format!("there is no format {name:?}");
            Error::refused(problem, format!("choose one of auto, {}", names.join(", ")))
        })?,
    };
    (format.open)(window, options)
}

/// The content of a file, or of standard input.
fn window(path: &Path) -> Result<Window, Error> {
    // Rejects name an input as it was given.
    let input = millstream_input::Input::open(path)?.named(path.display().to_string());
    Ok(Window::new(input, READ_BYTES))
}

/// Reads more. `false`: there is no more.
///
/// # Errors
/// The file cannot be read, or is damaged. What came before the damage has been read by then.
fn fill(window: &mut Window) -> Result<bool, Error> {
    let has_more = window.fill()?;
    if !has_more {
        require_whole(window)?;
    }
    Ok(has_more)
}

/// Refuses what ends in damage: a build takes all of an input or nothing.
fn require_whole(window: &Window) -> Result<(), Error> {
    match window.end() {
        Some(End::Damaged(why)) => Err(Error::Input { name: window.name().to_owned(), problem: why.clone() }),
        _ => Ok(()),
    }
}

/// Bytes read so far, and how many there are.
fn so_far(window: &Window) -> (u64, Option<u64>) {
    let progress = window.progress();
    (progress.bytes_read(), progress.bytes_total())
}

/// Ends of file names and what they say.
const EXTENSIONS: &[(&str, &Format)] = &[
    (".csv", &csv::FORMAT),
    (".mmdb", &mmdb::FORMAT),
    (".json", &ndjson::FORMAT),
    (".jsonl", &ndjson::FORMAT),
    (".ndjson", &ndjson::FORMAT),
    (".tsv", &tsv::FORMAT),
];

/// The format that a file's name says.
fn named(name: &str) -> Option<&'static Format> {
    let name = name.to_lowercase();
    let name = [".gz", ".zst", ".zstd"].iter().find_map(|end| name.strip_suffix(*end)).unwrap_or(&name);
    EXTENSIONS.iter().find(|(end, _)| name.ends_with(*end)).map(|(_, format)| *format)
}

/// The format that the file's name says, or else the beginning of its content.
fn recognise(window: &mut Window, options: &InputOptions) -> Result<&'static Format, Error> {
    if let Some(format) = named(window.name()) {
        return Ok(format);
    }
    let line_end = loop {
        match memchr(b'\n', window.bytes()) {
            Some(end) => break end,
            None if window.bytes().len() < RECOGNISED_BYTES && fill(window)? => {}
            None => break window.bytes().len(),
        }
    };
    let line = &window.bytes()[..line_end];
    let begins = line.strip_prefix(MARK).unwrap_or(line).trim_ascii_start();
    Ok(if memchr(0, line).is_some() {
        &mmdb::FORMAT
    } else if begins.first() == Some(&b'{') {
        &ndjson::FORMAT
    } else if options.delimiter.is_none() && memchr(b'\t', line).is_some() && memchr(b',', line).is_none() {
        &tsv::FORMAT
    } else {
        &csv::FORMAT
    })
}

/// Refuses options for columns of text: an input that has none brings its own names and types.
fn refuse_columns(name: &str, options: &InputOptions) -> Result<(), Error> {
    let given = [
        (options.join.is_some(), "--join", "cannot be joined with another file"),
        (!options.types.is_empty(), "--types", "brings the types of its values itself"),
        (matches!(options.header, Header::Names(_)), "--header", "brings the names of its members itself"),
    ];
    let Some((_, unfit, why)) = given.into_iter().find(|(is_given, ..)| *is_given) else { return Ok(()) };
    let problem = format!("{name} {why}: it is neither CSV nor TSV");
    let hint = format!("leave {unfit} out, or say what the file is with --format");
    Err(Error::refused(problem, hint))
}

/// A reject of an entry, given its bytes or the beginning of them that is more than a reject shows.
#[cold]
fn rejected(reason: String, entry: &[u8]) -> Rejected {
    // A reason may name a member of any length.
    let reason = if reason.len() > SHOWN_BYTES { shown(reason.as_bytes()) } else { reason };
    Rejected { reason, text: shown(entry.trim_ascii_end()) }
}

/// The bytes as text, cut if they are many.
fn shown(bytes: &[u8]) -> String {
    let shown = &bytes[..bytes.len().min(SHOWN_BYTES)];
    let mut text = String::from_utf8_lossy(shown).into_owned();
    if shown.len() < bytes.len() {
        // The cut may have gone through a character.
        text.truncate(text.trim_end_matches('\u{fffd}').len());
        text.push('…');
    }
    text
}

#[cfg(test)]
mod transcript;

#[cfg(test)]
mod tests {
    use super::transcript::{COMPRESS, read, read_named, transcribe};
    use super::*;
    use millstream_pg::Explained as _;
    use millstream_testkit::{gzip, zstd};
    use std::fs;

    #[test]
    fn formats_are_recognised() {
        let csv = "network,cc\n1.0.0.0/24,AU\n";
        let tsv = "network\tcc\n1.0.0.0/24\tAU\n";
        let ndjson = "{\"network\":\"1.0.0.0/24\",\"cc\":\"AU\"}\n";
        for (name, content, line) in [
            ("a.csv", csv, 2),
            ("a", csv, 2),
            ("A.CSV", csv, 2),
            ("a.TSV", tsv, 2),
            ("a", tsv, 2),
            ("a.ndjson", ndjson, 1),
            ("a.jsonl", ndjson, 1),
            ("a.txt", ndjson, 1),
            ("a", "\u{feff} {\"network\":\"1.0.0.0/24\",\"cc\":\"AU\"}", 1),
        ] {
            let expected = format!("{line} 1.0.0.0-1.0.0.255 \"cc\":\"AU\"");
            let plain = content.as_bytes();
            for (end, content) in [("", plain.to_vec()), (".gz", gzip(plain)), (".zst", zstd(plain))] {
                let lines = read_named(&format!("{name}{end}"), &content, &InputOptions::default());
                assert_eq!(lines.unwrap(), [expected.as_str()], "{name}{end}");
            }
        }
        let bars = InputOptions { delimiter: Some(b'|'), ..InputOptions::default() };
        assert_eq!(read_named("a", b"network|a\tb\n1.2.3.4|1", &bars).unwrap(), ["2 1.2.3.4-1.2.3.4 \"a\\tb\":\"1\""]);
    }

    #[test]
    fn the_content_decides_about_compression_not_the_name() {
        let content = gzip(b"network\n1.2.3.4\n");
        assert_eq!(read_named("a.csv", &content, &InputOptions::default()).unwrap(), ["2 1.2.3.4-1.2.3.4 "]);
        assert_eq!(read_named("a.csv.gz", b"network\n1.2.3.4\n", &InputOptions::default()).unwrap().len(), 1);
        // gzip(1) takes zeros behind the data for padding, too.
        let padded = [gzip(b"network\n1.2.3.4\n"), vec![0; 1_000]].concat();
        assert_eq!(read("csv", &padded, &InputOptions::default()).unwrap(), ["2 1.2.3.4-1.2.3.4 "]);
        // Members of gzip and frames of zstd follow each other.
        for (_, compress) in COMPRESS {
            let content = [compress(b"network\n1.2.3."), compress(b"4\n")].concat();
            assert_eq!(read("csv", &content, &InputOptions::default()).unwrap(), ["2 1.2.3.4-1.2.3.4 "]);
        }
    }

    #[test]
    fn data_that_is_cut_off_or_damaged_is_an_error() {
        let text: String = (0..20_000).map(|n: u32| format!("{}\n", std::net::Ipv4Addr::from_bits(n * 7919))).collect();
        let text = format!("ip\n{text}");
        for (name, compress) in COMPRESS {
            let whole = compress(text.as_bytes());
            for length in [5, 20, whole.len() / 2, whole.len() - 9, whole.len() - 1] {
                let error = read("csv", &whole[..length], &InputOptions::default()).unwrap_err();
                assert!(matches!(error, Error::Input { .. }), "{name} {length}: {error}");
                assert!(error.to_string().ends_with(": the compressed data ends too early"), "{error}");
            }
            let mut damaged = whole.clone();
            let middle = whole.len() / 2;
            damaged[middle..middle + 40].fill(0xff);
            let error = read("csv", &damaged, &InputOptions::default()).unwrap_err().to_string();
            assert!(error.contains(&format!("the {name} data is damaged")), "{error}");
        }
    }

    #[test]
    fn progress_counts_bytes_as_they_are_in_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.csv.gz");
        let content = gzip("ip\n1.2.3.4\n".repeat(1_000).as_bytes());
        fs::write(&path, &content).unwrap();
        let mut input = open(&path, &InputOptions::default()).unwrap();
        let size = content.len() as u64;
        let (read, total) = input.progress();
        assert!(read <= size);
        assert_eq!(total, Some(size));
        assert_eq!(input.name(), path.to_str().unwrap());
        let mut members = String::new();
        while input.next(&mut members).unwrap().is_some() {}
        assert_eq!(input.progress(), (size, Some(size)));
        assert!(input.next(&mut members).unwrap().is_none());
    }

    #[test]
    fn what_cannot_be_opened_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let error = |path: &Path, options: &InputOptions| open(path, options).and_then(transcribe).unwrap_err();
        let missing = error(&folder.path().join("a.csv"), &InputOptions::default());
        assert!(missing.to_string().starts_with("cannot open "), "{missing}");
        let opened = error(folder.path(), &InputOptions::default());
        assert!(opened.to_string().ends_with(" is a directory"), "{opened}");
        let path = folder.path().join("a");
        fs::write(&path, "ip\n").unwrap();
        let unknown = error(&path, &InputOptions { format: "xml".into(), ..InputOptions::default() });
        assert_eq!(unknown.to_string(), "there is no format \"xml\"");
        assert_eq!(unknown.hint().unwrap(), "choose one of auto, csv, mmdb, ndjson, tsv");
        let join = InputOptions {
            format: "ndjson".into(),
            join: Some(JoinOptions::new(path.clone())),
            ..InputOptions::default()
        };
        assert!(error(&path, &join).to_string().contains("cannot be joined"));
        let plain = || InputOptions { format: "ndjson".into(), ..InputOptions::default() };
        let types = InputOptions { types: vec![("a".into(), ColumnType::Double)], ..plain() };
        assert!(error(&path, &types).to_string().contains("brings the types of its values itself"));
        let names = InputOptions { header: Header::Names(vec!["ip".into()]), ..plain() };
        let named = error(&path, &names);
        assert!(named.to_string().contains("brings the names of its members itself"), "{named}");
        assert_eq!(named.hint().unwrap(), "leave --header out, or say what the file is with --format");
    }

    #[test]
    fn a_long_entry_is_cut_between_characters() {
        let Rejected { text, .. } = rejected("why".into(), "é".repeat(SHOWN_BYTES).as_bytes());
        assert_eq!(text, format!("{}…", "é".repeat(SHOWN_BYTES / 2)));
        let Rejected { text, .. } = rejected("why".into(), format!("x{}", "é".repeat(SHOWN_BYTES)).as_bytes());
        assert_eq!(text, format!("x{}…", "é".repeat(SHOWN_BYTES / 2 - 1)));
        assert_eq!(rejected("why".into(), b"a,b\r\n").text, "a,b");
        assert_eq!(rejected("é".repeat(SHOWN_BYTES), b"").reason, format!("{}…", "é".repeat(SHOWN_BYTES / 2)));
    }
}
