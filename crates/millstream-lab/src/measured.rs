//! Tables of measurements in the documents, and reports beside records: both are written from the records.
//!
//! `lab/measured.toml` says what is in a table:
//!
//! ```text
//! [copy]
//! heading = "documents"
//! all = "value=rows_per_second"
//! columns = ["new :: arm=millstream/fresh range=yes", "of COPY :: arm=millstream/fresh /arm=copy/fresh"]
//! rows = ["150 B, random keys :: record=2026-01-31-2x-example-ingest"]
//! ```
//!
//! In a document, it stands between `<!-- table copy -->` and `<!-- end -->`. A cell is found by the words of its column,
//! its row and of `all`, of which the first counts. A value is a metric by its name, one of [`DERIVED`], or one of
//! [`FACTS`]. Each cell is the median over the blocks. With `range=yes` it comes with the lowest and the highest. With
//! `/arm` it is a ratio of two arms, and with `-arm` the median of their differences in each block. In the name of an
//! arm, `{row}`, `{by}` and `{than}` stand for these words. With `optional=yes`, a cell of an arm without values is empty.
//!
//! In the text of a section, every number must be in one of the section's tables, or in a comment
//! `<!-- by hand: 1.8 (why, or under which conditions) -->`.

use crate::core::Spread;
use crate::core::statistics::{Comparison, Criteria, Verdict};
use crate::experiments::{AGAIN, Analysis, Arm, Record, pairs, report};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The command that writes the tables and the reports again.
const UPDATE: &str = "MILLSTREAM_UPDATE_SNAPSHOTS=1 cargo test -p millstream-lab -- measured::";

const BEGIN: &str = "<!-- table ";
const END: &str = "<!-- end -->";
const BY_HAND: &str = "<!-- by hand:";

/// A document with such tables, and whether its sections without a table are checked, too.
const DOCUMENTS: &[(&str, bool)] = &[("README.md", false), ("docs/measured.md", true)];

/// Name of the report beside a record.
const REPORT: &str = "report.md";

/// Values that are computed from metrics of a run, each with the metrics, and what one is multiplied with.
const DERIVED: &[(&str, &[&str], Option<&str>, f64)] = &[
    ("milliseconds", &["wall_seconds"], None, 1e3),
    ("first-milliseconds", &["first_seconds"], None, 1e3),
    ("cpu-per-million", &["client_cpu_seconds"], Some("rows"), 1e6),
    ("peak-mib", &["client_peak_bytes"], None, 1.0 / 1_048_576.0),
    ("wal-per-document", &["wal_bytes"], Some("rows"), 1.0),
    ("bytes-per-row", &["heap_bytes", "index_bytes", "toast_bytes"], Some("stored"), 1.0),
];

/// Words that stand for a part of an arm's name.
const PARTS: &[&str] = &["row", "by", "than"];

type Words = BTreeMap<String, String>;
type Fact = fn(&Record) -> String;

/// Facts of a record, which are the same for all of its arms.
const FACTS: &[(&str, Fact)] = &[
    ("blocks", |record| record.finished_blocks().to_string()),
    ("postgresql", |record| {
        let versions = record.conditions.servers.values();
        versions.map(|version| version.split(' ').nth(1).unwrap_or("?")).collect::<Vec<_>>().join(", ")
    }),
    ("fdatasync", |record| record.disk().flush_us.map_or_else(|| "?".to_owned(), |us| format!("{us:.0} us"))),
    ("load", |record| record.machine.load_average.map_or_else(|| "?".to_owned(), |load| format!("{load:.1}"))),
    ("pairs", |record| equal_pairs(record, 1.0).len().to_string()),
    ("found-1.00", |record| found(record, 1.0)),
    ("found-1.03", |record| found(record, 1.03)),
    ("found-1.10", |record| found(record, 1.1)),
    ("covered-1.10", |record| {
        let all = equal_pairs(record, 1.1);
        let holds = |one: &&Comparison| one.interval.is_some_and(|interval| interval.contains(1.1));
        format!("{} of {}", all.iter().filter(holds).count(), all.len())
    }),
    ("noise", |record| {
        let noise = Analysis::of(record).noise.and_then(|noise| noise.comparison);
        noise.map_or_else(|| "?".to_owned(), |noise| quotient(&noise, &[]))
    }),
];

/// `lab/measured.toml`.
#[derive(Deserialize)]
struct Asked {
    /// Records beside which a report lies.
    reports: Vec<String>,
    #[serde(flatten)]
    tables: BTreeMap<String, Table>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    heading: String,
    #[serde(default)]
    all: String,
    columns: Vec<String>,
    rows: Vec<String>,
}

/// Records, each read once.
#[derive(Default)]
struct Records(BTreeMap<String, Record>);

impl Records {
    fn get(&mut self, name: &str) -> Result<&Record, String> {
        if !self.0.contains_key(name) {
            let path = root().join("lab/records").join(name);
            self.0.insert(name.to_owned(), Record::read(&path).map_err(|error| error.to_string())?);
        }
        Ok(&self.0[name])
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn asked() -> Asked {
    toml::from_str(&std::fs::read_to_string(root().join("lab/measured.toml")).unwrap()).unwrap()
}

/// A number with as many decimals as fit four characters; small ones keep two digits.
fn short(number: f64) -> String {
    match number {
        tiny if tiny > 0.0 && tiny < 0.0995 => format!("{tiny:.3}"),
        small if small < 9.995 => format!("{small:.2}"),
        middle if middle < 99.95 => format!("{middle:.1}"),
        large => format!("{large:.0}"),
    }
}

/// A number with three digits: `812`, `43.2k`, `213k`, `12.2M`.
fn rate(number: f64) -> String {
    match number {
        small if small < 999.5 => format!("{small:.0}"),
        middle if middle < 99_950.0 => format!("{:.1}k", middle / 1e3),
        large if large < 9_995_000.0 => format!("{:.0}k", large / 1e3),
        huge => format!("{:.1}M", huge / 1e6),
    }
}

fn shown(number: f64) -> String {
    if number >= 1_000.0 { rate(number) } else { short(number) }
}

/// A line of a table: what is left of `::`, and the words right of it.
fn labelled(line: &str) -> Result<(&str, Words), String> {
    let (label, words) = line.split_once("::").ok_or_else(|| format!("there is no :: in {line}"))?;
    let parsed = words.split_whitespace().map(|word| {
        let (name, value) = word.split_once('=').ok_or_else(|| format!("no value in {word}"))?;
        Ok((name.to_owned(), value.to_owned()))
    });
    Ok((label.trim(), parsed.collect::<Result<Words, String>>()?))
}

/// The text of a table.
fn table(asked: &Table, records: &mut Records) -> Result<String, String> {
    let (_, all) = labelled(&format!("::{}", asked.all))?;
    let columns: Vec<(&str, Words)> = asked.columns.iter().map(|line| labelled(line)).collect::<Result<_, _>>()?;
    let headings = std::iter::once(asked.heading.as_str()).chain(columns.iter().map(|(label, _)| *label));
    let mut table = line(&headings.map(str::to_owned).collect::<Vec<_>>());
    // A label of several cells has their headings in its own.
    table += &format!("|{}\n", "---|".repeat(table.matches(" |").count()));
    for row in &asked.rows {
        let (label, row) = labelled(row)?;
        let mut cells = vec![label.to_owned()];
        for (heading, column) in &columns {
            let mut words = all.clone();
            words.extend(row.clone());
            words.extend(column.clone());
            let record = words.get("record").ok_or("no record")?;
            let found = records.get(record).and_then(|record| cell(record, &words));
            cells.push(found.map_err(|why| format!("{label}, {heading}: {why}"))?);
        }
        table += &line(&cells);
    }
    Ok(table)
}

fn line(cells: &[String]) -> String {
    let shown = cells.iter().map(|cell| if cell.is_empty() { " ".to_owned() } else { format!(" {cell} ") });
    format!("|{}|\n", shown.collect::<Vec<_>>().join("|"))
}

/// The values of an arm, block by block.
fn values(record: &Record, arm: &str, value: &str) -> BTreeMap<u32, f64> {
    let derived = DERIVED.iter().find(|(name, ..)| *name == value);
    let own = record.runs.iter().filter(|run| run.arm == arm);
    own.filter_map(|run| {
        let found = match derived {
            None => run.value(value)?,
            Some((_, metrics, by, factor)) => {
                let sum = metrics.iter().map(|metric| run.value(metric)).sum::<Option<f64>>()?;
                factor * sum / by.map_or(Some(1.0), |by| run.value(by))?
            }
        };
        Some((run.block, found))
    })
    .collect()
}

/// The text of a cell.
fn cell(record: &Record, words: &Words) -> Result<String, String> {
    let filled = |text: &str| {
        let word = |text: String, name: &&str| {
            text.replace(&format!("{{{name}}}"), words.get(*name).map_or("", String::as_str))
        };
        PARTS.iter().fold(text.to_owned(), word)
    };
    let words: Words = words.iter().map(|(name, value)| (name.clone(), filled(value))).collect();
    let word = |name: &str| words.get(name).map(String::as_str);
    let known = ["record", "arm", "value", "range", "optional", "/arm", "-arm"];
    if let Some(other) = words.keys().find(|name| !known.iter().chain(PARTS).any(|one| *one == name.as_str())) {
        return Err(format!("nothing is called {other}"));
    }
    let value = word("value").ok_or("no value")?;
    if let Some((_, fact)) = FACTS.iter().find(|(name, _)| *name == value) {
        return Ok(fact(record));
    }
    let name = word("arm").ok_or("no arm")?;
    let arms = &record.conditions.experiment.arms;
    if let Some(other) = [Some(name), word("/arm"), word("-arm")]
        .into_iter()
        .flatten()
        .find(|name| *name != AGAIN && !arms.iter().any(|arm| arm.name == *name))
    {
        return if word("optional") == Some("yes") {
            Ok(String::new())
        } else {
            Err(format!("there is no arm {other}"))
        };
    }
    let own = values(record, name, value);
    if let Some(base) = word("/arm") {
        let both = pairs(&values(record, base, value), &own);
        let (a, b): (Vec<f64>, Vec<f64>) = both.iter().copied().unzip();
        let compared = Comparison::paired(&a, &b, Criteria::default()).map_err(|error| error.to_string())?;
        return Ok(quotient(&compared, &both));
    }
    if let Some(base) = word("-arm") {
        let differences = pairs(&values(record, base, value), &own).into_iter().map(|(base, own)| own - base);
        let difference = Spread::of(differences).ok_or("the arms have no block in common")?.median;
        return Ok(if difference < 0.0 { format!("-{}", shown(-difference)) } else { shown(difference) });
    }
    match Spread::of(own.into_values()) {
        Some(Spread { median, min, max }) if word("range") == Some("yes") => {
            Ok(format!("{} ({}-{})", shown(median), shown(min), shown(max)))
        }
        Some(Spread { median, .. }) => Ok(shown(median)),
        None if word("optional") == Some("yes") => Ok(String::new()),
        None => Err("the arm has no such value".to_owned()),
    }
}

/// The estimate of a ratio with its interval, or with the extremes of the blocks if these are too few for one.
fn quotient(compared: &Comparison, both: &[(f64, f64)]) -> String {
    let extremes = Spread::of(both.iter().map(|(a, b)| b / a)).filter(|_| both.len() > 1);
    let ends = compared.interval.map(|one| (one.low, one.high)).or(extremes.map(|one| (one.min, one.max)));
    short(compared.ratio) + &ends.map_or_else(String::new, |(low, high)| format!(" ({}-{})", short(low), short(high)))
}

/// The comparisons of a record of equal arms, as if the second arm of each pair were faster by a factor.
fn equal_pairs(record: &Record, factor: f64) -> Vec<Comparison> {
    let experiment = &record.conditions.experiment;
    let metric = experiment.metric.as_str();
    let arms = experiment.arms.iter().filter_map(|arm| Some((*experiment.against(arm).first()?, arm)));
    let compared = |(with, arm): (&Arm, &Arm)| {
        let both = pairs(&values(record, &with.name, metric), &values(record, &arm.name, metric));
        let (a, b): (Vec<f64>, Vec<f64>) = both.into_iter().map(|(a, b)| (a, b * factor)).unzip();
        Comparison::paired(&a, &b, Criteria::default()).ok()
    };
    arms.filter_map(compared).collect()
}

/// How many of them find a difference.
fn found(record: &Record, factor: f64) -> String {
    let all = equal_pairs(record, factor);
    let found = all.iter().filter(|one| matches!(one.verdict, Verdict::Differs { .. })).count();
    format!("{found} of {}", all.len())
}

/// The document with every table written again.
fn generated(document: &str, asked: &Asked, records: &mut Records) -> Result<String, String> {
    let mut page = String::new();
    let mut rest = document;
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let (name, after) = after.split_once(" -->\n").ok_or("a comment of a table is not closed")?;
        let (_, after) = after.split_once(END).ok_or("a table has no end")?;
        let wanted = asked.tables.get(name).ok_or_else(|| format!("there is no table {name}"))?;
        let table = table(wanted, records).map_err(|why| format!("{name}: {why}"))?;
        page.extend([before, BEGIN, name, " -->\n", &table, END]);
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
            in_table |= line.starts_with(BEGIN);
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

/// Compares a file with what it should hold, or writes it.
fn settle(path: &Path, text: &str) {
    if std::env::var_os("MILLSTREAM_UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(path, text).unwrap();
    } else {
        let found = std::fs::read_to_string(path).unwrap_or_default();
        assert!(found == text, "{} is stale, write it again: {UPDATE}", path.display());
    }
}

#[test]
fn the_tables_are_up_to_date() {
    let (asked, mut records) = (asked(), Records::default());
    let mut documents = String::new();
    for (name, _) in DOCUMENTS {
        let path = root().join(name);
        let document = std::fs::read_to_string(&path).unwrap();
        let page = generated(&document, &asked, &mut records).unwrap_or_else(|why| panic!("{name}: {why}"));
        settle(&path, &page);
        documents += &page;
    }
    let unused = asked.tables.keys().find(|name| !documents.contains(&format!("{BEGIN}{name} -->")));
    assert_eq!(unused, None, "no document has this table");
}

#[test]
fn the_reports_beside_records_are_up_to_date() {
    let (asked, mut records) = (asked(), Records::default());
    for name in &asked.reports {
        let record = records.get(name).unwrap();
        settle(&root().join("lab/records").join(name).join(REPORT), &report::markdown(record, &Analysis::of(record)));
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
    let documents =
        ["README.md", "docs/measured.md", "docs/guides/doctor.md", "internals/measuring.md", "lab/measured.toml"];
    let documents = documents.map(|name| std::fs::read_to_string(root().join(name)).unwrap()).join("\n");
    for entry in std::fs::read_dir(root().join("lab/records")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        let quoted = documents.split(|one: char| !(one.is_alphanumeric() || one == '-')).any(|word| word == name);
        assert!(quoted || name == "tmp", "no document quotes lab/records/{name}, remove it");
    }
}

#[test]
fn a_table_of_missing_runs_is_an_error() {
    let mut records = Records([("a".to_owned(), report::fixture::record(2, 10, 5))].into());
    let mut cells = |words: &str| {
        let asked = Table {
            heading: "r".to_owned(),
            all: "record=a".to_owned(),
            columns: vec![format!("c :: {words}")],
            rows: vec!["l ::".to_owned()],
        };
        table(&asked, &mut records)
    };
    let good = cells("value=tps arm=arm-<1>").unwrap();
    assert!(good.starts_with("| r | c |\n|---|---|\n| l | "), "{good}");
    assert!(cells("value=tps arm=arm-<1> /arm=arm-<1>").unwrap().ends_with("| l | 1.00 (1.00-1.00) |\n"));
    assert_eq!(cells("value=tps arm=nobody optional=yes").unwrap().lines().last(), Some("| l | |"));
    for (words, why) in [
        ("value=tps arm=nobody", "there is no arm nobody"),
        ("value=nothing arm=arm-<1>", "the arm has no such value"),
        ("value=tps ram=slow", "nothing is called ram"),
        ("arm=arm-<1>", "no value"),
        ("x", "no value in x"),
    ] {
        let error = cells(words).unwrap_err();
        assert!(error.contains(why), "{error}");
    }
}

#[test]
fn numbers_have_three_digits() {
    let rates = [0.4, 812.0, 999.4, 999.6, 43_210.0, 99_960.0, 213_400.0, 12_211_000.0].map(rate);
    assert_eq!(rates, ["0", "812", "999", "1.0k", "43.2k", "100k", "213k", "12.2M"]);
    assert_eq!([0.012_34, 1.234, 12.34, 123.4].map(short), ["0.012", "1.23", "12.3", "123"]);
}

#[test]
fn a_number_without_a_table_is_found() {
    let page = "# A\n\n## B\n\n<!-- table b -->\n| 1.10 (1.08-1.11) |\n<!-- end -->\n\n1.10, 1.08 and `7`, \
                [9](8.md), [a-20k](b).\n\n```sh\n6\n```\n\n<!-- by hand: 1.8 (top) -->\n1.8; 2.5k of 20,000.\n\n## C\n\n1.10\n";
    assert_eq!(unproved(page, true), ["9: B", "2.5: B", "20000: B", "1.10: C"]);
    assert_eq!(unproved(page, false).len(), 3);
}
