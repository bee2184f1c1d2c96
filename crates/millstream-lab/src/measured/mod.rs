//! Tables of measurements in the documents, generated from the records that they name.
//!
//! A table stands between two comments. The first one says what is in the table:
//!
//! ```text
//! <!-- measured
//! all :: record=2026-01-31-2x-example experiment=ingest subject=millstream
//! columns
//! new, per second :: phase=fresh value=rate
//! third wave, of COPY :: phase="changed 3" value=rate /subject=copy /phase=fresh
//! rows documents
//! 150 B, random keys :: set=random-150
//! -->
//! | documents | new, per second | third wave, of COPY |
//! <!-- end -->
//! ```
//!
//! A cell is found by the words of its column, its row and of `all`, of which the first counts. Words that begin with
//! `/` change the others for a sample of the same round, by which the value is divided. Each cell is the median over
//! the rounds. A quotient comes with the lowest and the highest, and so does a value with `range=yes`. A column with
//! `optional=yes` may have empty cells.
//!
//! In the text of a section, every number must be in one of the section's tables, or in a comment
//! `<!-- by hand: 1.8 (why, or under which conditions) -->`.

mod pgbench;

use crate::core::{DataSet, Record, Run, Spread, number};
use crate::ingest::column::rate;
use crate::limits::MEBIBYTE;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The command that writes the tables again.
const UPDATE: &str = "MILLSTREAM_UPDATE_SNAPSHOTS=1 cargo test -p millstream-lab -- measured::";

const BEGIN: &str = "<!-- measured\n";
const END: &str = "<!-- end -->";
const BY_HAND: &str = "<!-- by hand:";

/// A document with such tables, and whether its sections without a table are checked, too.
const DOCUMENTS: &[(&str, bool)] = &[("README.md", false), ("docs/measured.md", true)];

/// Values of a sample; the last word says how one is shown.
const VALUES: &[(&str, Value, Show)] = &[
    ("rate", |one, _| one.rows_per_second(), rate),
    ("seconds", |one, _| one.wall_seconds(), short),
    ("milliseconds", |one, _| Some(one.wall_seconds()? * 1e3), short),
    ("first-milliseconds", |one, _| Some(one.first_seconds()? * 1e3), short),
    ("cpu-per-million", |one, _| Some(one.per_row("client_cpu_seconds")? * 1e6), short),
    ("server-cpu-per-million", |one, _| Some(one.per_row("server_cpu_seconds")? * 1e6), short),
    ("cpu-seconds", |one, _| one.value("client_cpu_seconds"), short),
    ("peak-mib", |one, _| Some(one.value("client_peak_bytes")? / MEBIBYTE), whole),
    ("wal-per-document", |one, _| one.per_row("wal_bytes"), whole),
    ("wal-per-byte", |one, bytes| Some(one.per_row("wal_bytes")? / bytes), short),
    ("bytes-per-row", |one, _| one.stored_bytes_per_row(), whole),
];

type Value = fn(&Run, f64) -> Option<f64>;
type Fact = fn(&Record) -> String;
type Show = fn(f64) -> String;
type Words = BTreeMap<String, String>;

/// Facts of a record, which are the same for all of its samples.
const FACTS: &[(&str, Fact)] = &[
    ("rounds", |record| rounds(record).to_string()),
    ("postgresql", |record| record.server.version.split(' ').nth(1).unwrap_or("?").to_owned()),
    ("fdatasync", |record| record.machine.disk.flush_us.map_or_else(|| "?".to_owned(), |us| format!("{us:.0} us"))),
    ("load", |record| record.machine.load_average.map_or_else(|| "?".to_owned(), |load| format!("{load:.1}"))),
    ("commit", |record| {
        let changes = if record.build.dirty == Some(true) { " and changes" } else { "" };
        record.build.commit.as_ref().map_or_else(|| "?".to_owned(), |commit| format!("{}{changes}", &commit[..12]))
    }),
];

fn rounds(record: &Record) -> u32 {
    record.ingest.as_ref().map_or(0, |ingest| ingest.rounds)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn whole(number: f64) -> String {
    format!("{number:.0}")
}

/// As in the report, but small numbers keep two digits.
fn short(number: f64) -> String {
    if number > 0.0 && number < 0.0995 { format!("{number:.3}") } else { crate::ingest::column::short(number) }
}

/// A record of either kind.
enum Kept {
    Ingest(Box<Record>),
    Pgbench(Box<crate::pgbench::Record>),
}

/// Records, each read once.
#[derive(Default)]
struct Records(BTreeMap<String, Kept>);

impl Records {
    fn get(&mut self, name: &str) -> Result<&Kept, String> {
        if !self.0.contains_key(name) {
            let path = root().join("lab/records").join(name);
            let read = match crate::pgbench::Record::read(&path).map_err(|error| error.to_string())? {
                Some(record) => Kept::Pgbench(Box::new(record)),
                None => Kept::Ingest(Box::new(Record::read(&path).map_err(|error| error.to_string())?)),
            };
            self.0.insert(name.to_owned(), read);
        }
        Ok(&self.0[name])
    }
}

/// The table that this text asks for.
fn table(asked: &str, records: &mut Records) -> Result<String, String> {
    let (mut all, mut columns, mut rows, mut heading) = (Words::new(), Vec::new(), Vec::new(), None);
    for line in asked.lines() {
        match (line, line.split_once(" :: ").or_else(|| Some((line.strip_suffix(" ::")?, "")))) {
            ("columns", _) => {}
            (_, None) if line.starts_with("rows") => heading = Some(line.trim_start_matches("rows").trim()),
            (_, None) => return Err(format!("this line says nothing: {line}")),
            (_, Some(("all", words))) => all = parsed(words)?,
            (_, Some((label, words))) if heading.is_none() => columns.push((label, parsed(words)?)),
            (_, Some((label, words))) => rows.push((label, parsed(words)?)),
        }
    }
    let heading = heading.ok_or("there is no line `rows`")?;
    let headings: Vec<&str> = std::iter::once(heading).chain(columns.iter().map(|(label, _)| *label)).collect();
    let head = line(&headings);
    let cells = head.matches(" |").count();
    let mut table = format!("{head}|{}\n", "---|".repeat(cells));
    for (label, row) in &rows {
        let mut cells = vec![(*label).to_owned()];
        for (heading, column) in &columns {
            let mut words = all.clone();
            words.extend(row.clone());
            words.extend(column.clone());
            let found = cell(&words, records).map_err(|why| format!("{label}, {heading}: {why}"))?;
            cells.push(found);
        }
        table += &line(&cells);
    }
    Ok(table)
}

fn line<S: AsRef<str>>(cells: &[S]) -> String {
    let cells = cells.iter().map(AsRef::as_ref);
    let shown = cells.map(|cell: &str| if cell.is_empty() { " ".to_owned() } else { format!(" {cell} ") });
    format!("|{}|\n", shown.collect::<Vec<_>>().join("|"))
}

/// Reads `name=value name="two words"`.
fn parsed(words: &str) -> Result<Words, String> {
    let mut found = Words::new();
    let mut rest = words.trim();
    while !rest.is_empty() {
        let (name, after) = rest.split_once('=').ok_or_else(|| format!("no value in `{rest}`"))?;
        let (value, after) = match after.strip_prefix('"') {
            Some(after) => after.split_once('"').ok_or("a quote is not closed")?,
            None => after.split_once(' ').unwrap_or((after, "")),
        };
        found.insert(name.to_owned(), value.to_owned());
        rest = after.trim();
    }
    Ok(found)
}

fn cell(words: &Words, records: &mut Records) -> Result<String, String> {
    let word = |name: &str| words.get(name).map(String::as_str);
    let record = match records.get(word("record").ok_or("no record")?)? {
        Kept::Ingest(record) => record,
        Kept::Pgbench(record) => return pgbench::cell(record, words),
    };
    let known =
        ["record", "experiment", "set", "subject", "phase", "durability", "delay", "value", "range", "optional"];
    if let Some(other) = words.keys().find(|name| !known.contains(&name.trim_start_matches('/'))) {
        return Err(format!("nothing is called {other}"));
    }
    let wanted = word("value").ok_or("no value")?;
    if let Some((_, fact)) = FACTS.iter().find(|(name, _)| *name == wanted) {
        return Ok(fact(record));
    }
    let (_, value, show) = VALUES.iter().find(|(name, ..)| *name == wanted).ok_or("there is no such value")?;
    let bytes = |one: &Run| {
        let own = |set: &&DataSet| (&*set.experiment, &*set.name) == (&*one.experiment, one.data_set());
        record.data_sets().iter().find(own).map_or(0.0, |set| number(set.document_bytes as u64))
    };
    let divided = words.keys().any(|name| name.starts_with('/'));
    let mut divisor = words.clone();
    divisor.extend(words.iter().filter_map(|(name, value)| Some((name.strip_prefix('/')?.to_owned(), value.clone()))));
    let own = record.runs.iter().filter(|one| is(one, words));
    let spread = Spread::of(own.filter_map(|one| {
        let own = value(one, bytes(one))?;
        if !divided {
            return Some(own);
        }
        let base = record.runs.iter().find(|base| base.block == one.block && is(base, &divisor))?;
        Some(own / value(base, bytes(base))?)
    }));
    let show = if divided { short } else { *show };
    match spread {
        Some(Spread { median, min, max }) if divided || word("range") == Some("yes") => {
            // One round has no spread.
            let range = format!(" ({}-{})", show(min), show(max));
            Ok(show(median) + if rounds(record) > 1 { &range } else { "" })
        }
        Some(spread) => Ok(show(spread.median)),
        None if word("optional") == Some("yes") => Ok(String::new()),
        None => Err("the record has no such sample".to_owned()),
    }
}

/// Whether a sample is the one that the words name. Where they say nothing, commits are durable and nothing is delayed.
fn is(one: &Run, words: &Words) -> bool {
    let word = |name: &str| words.get(name).map(String::as_str);
    let delay = one.round_trip_ms().map(|ms| ms.to_string());
    let own = [
        ("experiment", one.experiment.as_str()),
        ("set", one.data_set()),
        ("subject", one.arm.as_str()),
        ("phase", one.phase()),
    ];
    own.iter().all(|(name, value)| word(name) == Some(*value))
        && word("durability").unwrap_or("durable") == one.durability().name()
        && word("delay") == delay.as_deref()
}

/// The document with every table written again.
fn generated(document: &str, records: &mut Records) -> Result<String, String> {
    let mut page = String::new();
    let mut rest = document;
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let (asked, after) = after.split_once("-->\n").ok_or("a comment of a table is not closed")?;
        let (_, after) = after.split_once(END).ok_or("a table has no end")?;
        page.extend([before, BEGIN, asked, "-->\n", &table(asked, records)?, END]);
        rest = after;
    }
    Ok(page + rest)
}

/// Numbers in the text of a document that neither a table of their section nor a comment there holds.
fn unproved(document: &str, every_section: bool) -> Vec<String> {
    let mut found = Vec::new();
    for section in document.split("\n## ") {
        if !every_section && !section.contains(BEGIN) {
            continue;
        }
        let mut proved = BTreeSet::new();
        let mut text = String::new();
        let (mut in_table, mut in_comment, mut in_code) = (false, false, false);
        for line in section.lines() {
            in_code ^= line.trim_start().starts_with("```");
            in_table |= line == BEGIN.trim_end();
            in_comment |= line.starts_with(BY_HAND);
            if in_comment || in_table && line.starts_with('|') {
                proved.extend(numbers(line));
            } else if !in_table && !in_code {
                text += &(without_code_and_links(line) + "\n");
            }
            in_table &= line != END;
            in_comment &= !line.ends_with("-->");
        }
        let title = section.lines().next().unwrap_or_default();
        found.extend(
            numbers(&text).into_iter().filter(|one| !proved.contains(one)).map(|one| format!("{one}: {title}")),
        );
    }
    found
}

/// A line without what stands in backticks and without the targets of links.
fn without_code_and_links(line: &str) -> String {
    let text: String = line.split('`').step_by(2).collect::<Vec<_>>().join(" ");
    let mut pieces = text.split("](");
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |text, piece| text + " " + piece.split_once(')').map_or("", |(_, rest)| rest))
}

/// The numbers of a text, without thousands separators and units. Those in a name such as `rivals-20k` do not count.
fn numbers(text: &str) -> Vec<String> {
    let begins = |word: &&str| word.starts_with(|one: char| one.is_ascii_digit());
    let words = text.split(|one: char| !(one.is_alphanumeric() || ".,-".contains(one))).filter(begins);
    let pieces = words.flat_map(|word| word.split('-')).filter(begins);
    pieces.map(|word| word.trim_end_matches(|one: char| !one.is_ascii_digit()).replace(',', "")).collect()
}

#[test]
fn the_tables_are_up_to_date() {
    let mut records = Records::default();
    for (name, _) in DOCUMENTS {
        let path = root().join(name);
        let document = std::fs::read_to_string(&path).unwrap();
        let page = generated(&document, &mut records).unwrap_or_else(|why| panic!("{name}: {why}"));
        if std::env::var_os("MILLSTREAM_UPDATE_SNAPSHOTS").is_some() {
            std::fs::write(&path, &page).unwrap();
        } else {
            assert!(
                page.contains(BEGIN) && page == document,
                "the tables of {name} are stale, write them again: {UPDATE}"
            );
        }
    }
}

#[test]
fn every_number_of_the_text_is_in_a_table_or_marked() {
    for (name, every_section) in DOCUMENTS {
        let document = std::fs::read_to_string(root().join(name)).unwrap();
        let found = unproved(&document, *every_section);
        assert!(found.is_empty(), "{name}: numbers that no table of their section holds: {found:#?}");
    }
}

#[test]
fn every_kept_record_is_quoted() {
    let documents = ["README.md", "docs/measured.md", "lab/README.md"];
    let documents = documents.map(|name| std::fs::read_to_string(root().join(name)).unwrap()).join("\n");
    for entry in std::fs::read_dir(root().join("lab/records")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let quoted = documents.split(|one: char| !(one.is_alphanumeric() || one == '-')).any(|word| word == name);
        assert!(quoted || name == "tmp", "no document quotes lab/records/{name}, remove it");
    }
}

#[test]
fn a_table_of_missing_samples_is_an_error() {
    let records = || Records([("a".to_owned(), Kept::Ingest(Box::new(crate::core::record::tests::fixture())))].into());
    let asked = |words: &str| {
        format!(
            "all :: record=a experiment=ingest set=random-150 phase=fresh {words}\ncolumns\nc :: value=rate\nrows r\nl :: \n"
        )
    };
    let good = table(&asked("subject=millstream"), &mut records()).unwrap();
    assert_eq!(good, "| r | c |\n|---|---|\n| l | 125k |\n");
    let good = table(&asked("subject=millstream /subject=copy"), &mut records()).unwrap();
    assert!(good.ends_with("| l | 0.85 (0.80-0.90) |\n"), "{good}");
    for (words, why) in
        [("subject=other", "no such sample"), ("subjekt=copy", "nothing is called subjekt"), ("x", "no value")]
    {
        let error = table(&asked(words), &mut records()).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn a_number_without_a_table_is_found() {
    let page = "# A\n\n## B\n\n<!-- measured\nall :: x=1\n-->\n| 1.10 (1.08-1.11) |\n<!-- end -->\n\n1.10, 1.08 and `7`, \
                [9](8.md), [a-20k](b).\n\n```sh\n6\n```\n\n<!-- by hand: 1.8 (top) -->\n1.8; 2.5k of 20,000.\n\n## C\n\n1.10\n";
    assert_eq!(unproved(page, true), ["9: B", "2.5: B", "20000: B", "1.10: C"]);
    assert_eq!(unproved(page, false).len(), 3);
}
