//! A report as text: plain tables that fit a terminal, conditions, doubts and what the columns mean.

use crate::durability::Durability;
use crate::experiment::Comparison;
use crate::report::{Line, Report, Section};
use crate::sample::number;
use crate::spread::Spread;
use crate::subject::Subject;
use std::fmt::{Display, Formatter, Result, Write};

/// Columns that the text fits.
const WIDTH: usize = 98;

/// Bytes of the unit in which memory is shown.
pub(crate) const MEBIBYTE: f64 = 1_048_576.0;

/// Headings of the table; what the ratio is called depends on the experiment.
const HEADINGS: [&str; 8] = ["SUBJECT", "ROWS/S", "RECEIPT", "RATIO", "CPU", "MIB", "WAL", "SIZE"];

/// Which of them that is.
const RATIO: usize = 3;

/// What the columns mean in every experiment.
const LEGEND: &[&str] = &[
    "cpu: processor seconds of the client per million documents. mib: its largest resident memory. wal: bytes a row \
     that the whole server logged meanwhile. size: bytes a row of table, indexes and TOAST after the phase.",
    "Every result was verified: rows, the sum of the numbers in all documents, each under its own key.",
];

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        for condition in &self.conditions {
            wrap(f, "", condition)?;
        }
        for section in &self.sections {
            let megabytes = number(section.source_bytes) / 1e6;
            writeln!(f, "\n{}: {} documents a wave, {megabytes:.1} MB", section.data_set, section.documents)?;
            table(f, section, self.experiment.map(|one| one.comparison))?;
            for error in &section.errors {
                wrap(f, "error: ", error)?;
            }
        }
        writeln!(f)?;
        for absent in &self.absent {
            wrap(f, "not measured: ", absent)?;
        }
        for doubt in &self.doubts {
            wrap(f, "doubt: ", doubt)?;
        }
        self.legend(f)
    }
}

impl Report {
    /// What stands in the tables: the columns, and under a leader who the others are.
    fn legend(&self, f: &mut Formatter<'_>) -> Result {
        for line in self.experiment.map_or(&[][..], |one| one.legend) {
            wrap(f, "", line)?;
        }
        for line in LEGEND {
            wrap(f, "", line)?;
        }
        let rivals = self.experiment.filter(|one| matches!(one.comparison, Comparison::Leader(_)));
        let measured = |name: &str| self.sections.iter().flat_map(|section| &section.lines).any(|l| l.subject == name);
        for subject in rivals.iter().flat_map(|one| one.subjects).filter_map(|name| Subject::by_name(name)) {
            if measured(subject.name) {
                wrap(f, &format!("{}: ", subject.name), subject.about)?;
            }
        }
        Ok(())
    }
}

fn table(f: &mut Formatter<'_>, section: &Section, comparison: Option<Comparison>) -> Result {
    let mut headings = HEADINGS.map(str::to_owned);
    if let Some(comparison) = comparison {
        headings[RATIO] = comparison.heading();
    }
    let cells = section.lines.iter().map(|line| line.cells(comparison));
    let rows: Vec<_> = std::iter::once(headings).chain(cells).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let leader = matches!(comparison, Some(Comparison::Leader(_)));
    // Where a row of the table begins another group of what is compared.
    let begins = |at: usize| {
        let group = |line: &Line| (line.durability, line.phase.clone());
        leader && at > 1 && group(&section.lines[at - 1]) != group(&section.lines[at - 2])
    };
    for (at, row) in rows.iter().enumerate() {
        if begins(at) {
            writeln!(f)?;
        }
        let mut line = format!("{:<width$}", row[0], width = width(0));
        for (column, cell) in row.iter().enumerate().skip(1) {
            write!(line, "  {cell:>width$}", width = width(column))?;
        }
        writeln!(f, "{line}")?;
    }
    Ok(())
}

/// Writes a text in lines of at most [`WIDTH`] characters, all but the first indented.
fn wrap(f: &mut Formatter<'_>, mark: &str, text: &str) -> Result {
    let mut line = mark.to_owned();
    let mut empty = true;
    for word in text.split_whitespace() {
        if !empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            writeln!(f, "{line}")?;
            line = "  ".to_owned();
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    writeln!(f, "{line}")
}

/// `MEDIAN (MIN-MAX)`.
fn between(spread: &Spread, show: impl Fn(f64) -> String) -> String {
    format!("{} ({}-{})", show(spread.median), show(spread.min), show(spread.max))
}

/// A number with as many decimals as fit four characters.
fn short(number: f64) -> String {
    match number {
        small if small < 9.995 => format!("{small:.2}"),
        middle if middle < 99.95 => format!("{middle:.1}"),
        large => format!("{large:.0}"),
    }
}

/// A rate with three digits: `812`, `43.2k`, `213k`.
fn rate(rows_per_second: f64) -> String {
    match rows_per_second {
        small if small < 999.5 => format!("{small:.0}"),
        middle if middle < 99_950.0 => format!("{:.1}k", middle / 1e3),
        large => format!("{:.0}k", large / 1e3),
    }
}

impl Line {
    fn cells(&self, comparison: Option<Comparison>) -> [String; HEADINGS.len()] {
        let name = match comparison {
            Some(Comparison::Yardstick(subject)) if self.subject == subject => self.subject.clone(),
            _ => format!("{} {}{}", self.subject, self.phase, mark(self.durability)),
        };
        let cell = |spread: Option<Spread>, show: &dyn Fn(&Spread) -> String| {
            spread.map_or_else(|| "-".to_owned(), |spread| show(&spread))
        };
        [
            name,
            between(&self.rows_per_second, rate),
            cell(self.receipt_rows_per_second, &|spread| rate(spread.median)),
            cell(self.ratio, &|spread| between(spread, short)),
            cell(self.cpu_seconds_per_million, &|spread| short(spread.median)),
            cell(self.peak_bytes, &|spread| format!("{:.0}", spread.median / MEBIBYTE)),
            cell(self.wal_bytes_per_row, &|spread| format!("{:.0}", spread.median)),
            cell(self.table_bytes_per_row, &|spread| format!("{:.0}", spread.median)),
        ]
    }
}

impl Comparison {
    /// The heading of its column.
    fn heading(self) -> String {
        match self {
            Self::Yardstick(subject) => format!("OF {}", subject.to_uppercase()),
            Self::Leader(_) => "LEAD".to_owned(),
        }
    }
}

/// What tells durabilities apart; the usual one goes without saying.
pub(crate) fn mark(durability: Durability) -> &'static str {
    match durability {
        Durability::Durable => "",
        Durability::Async => ", async",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Record;
    use crate::record::tests::fixture;
    use crate::report::tests::rivals;

    #[test]
    fn the_text_is_a_plain_table_that_fits_a_terminal() {
        let text = Report::of(&fixture()).to_string();
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        let line = text.lines().find(|line| line.starts_with("millstream fresh")).unwrap();
        let cells: Vec<&str> = line.split_whitespace().collect();
        let expected =
            ["millstream", "fresh", "125k", "(90.0k-160k)", "132k", "0.85", "(0.80-0.90)", "0.80", "40", "400", "250"];
        assert_eq!(cells, expected);
        assert!(text.contains("error: millstream changed again, round 2"), "{text}");
        assert!(text.contains("doubt: "), "{text}");
        assert!(text.contains("fdatasync 46 us") && text.contains("commit 0123456789ab and changes"), "{text}");
    }

    #[test]
    fn the_text_sets_groups_apart_and_says_who_takes_part_and_who_not() {
        let record = rivals();
        let text = Report::of(&record).to_string();
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        let heads = text.lines().skip_while(|line| !line.starts_with("SUBJECT")).take(9);
        let heads: Vec<&str> = heads.map(|line| line.split("  ").next().unwrap()).collect();
        let durable = ["SUBJECT", "millstream fresh", "merge fresh", "", "millstream changed", ""];
        let rest = ["millstream fresh, async", "merge fresh, async", ""];
        assert_eq!(heads, [&durable[..], &rest[..]].concat(), "{text}");
        assert!(text.contains("LEAD") && !text.contains("OF COPY"), "{text}");
        assert!(text.contains("not measured: mongoimport: it is not in PATH"), "{text}");
        assert!(text.contains("\nmerge: psql: ") && !text.contains("\nbulkwrite: "), "{text}");
        let written = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<Record>(&written).unwrap(), record);
    }

    #[test]
    fn rates_have_three_digits() {
        let rates = [0.4, 812.0, 999.4, 999.6, 43_210.0, 99_960.0, 213_400.0, 1_500_000.0].map(rate);
        assert_eq!(rates, ["0", "812", "999", "1.0k", "43.2k", "100k", "213k", "1500k"]);
    }
}
