//! A report as text: plain tables that fit a terminal, goals, conditions, doubts and legends.

use crate::core::{Spread, number};
use crate::ingest::column::{Column, between, rate, short};
use crate::ingest::durability::mark;
use crate::ingest::experiment::Experiment;
use crate::ingest::goal::Reached;
use crate::ingest::line::Line;
use crate::ingest::report::{Report, Section};
use crate::ingest::subject::Subject;
use std::fmt::{Display, Formatter, Result, Write};
use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm, fill};

/// Width of the text in characters.
const WIDTH: usize = 80;

/// Printed below all tables.
const VERIFIED: &str = "Every result was verified: rows, the sum of the numbers in all documents, each under its own key; of an answer, \
     every value.";

/// What the columns of the table of goals mean.
const GOALS_LEGEND: &str = "must, aim: what is to be reached, + the aim is, = what must be is, - it is not. measured: \
    documents of 150 B or as said, median (min-max) over the rounds. 2 kb, 20 kb: the same with larger documents. 5 ms: \
    the same with a round trip of 5 ms to the server.";

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        for condition in &self.conditions {
            wrap(f, "", condition)?;
        }
        for (at, section) in self.sections.iter().enumerate() {
            let name = &section.experiment;
            let same = |other: Option<&Section>| other.is_some_and(|other| other.experiment == *name);
            section.fmt(f)?;
            if !same(self.sections.get(at + 1)) {
                let own = self.sections.iter().filter(|other| other.experiment == *name);
                legend(f, &own.collect::<Vec<_>>())?;
            }
        }
        writeln!(f)?;
        wrap(f, "", VERIFIED)?;
        goals(f, &self.goals)?;
        if !self.absent.is_empty() || !self.doubts.is_empty() {
            writeln!(f)?;
        }
        for absent in &self.absent {
            wrap(f, "not measured: ", absent)?;
        }
        for doubt in &self.doubts {
            wrap(f, "doubt: ", doubt)?;
        }
        Ok(())
    }
}

impl Display for Section {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let megabytes = number(self.source_bytes) / 1e6;
        let Self { experiment, data_set, documents, .. } = self;
        writeln!(f, "\n{experiment}, {data_set}: {documents} keys, their documents {megabytes:.1} MB")?;
        let columns = self.columns();
        let mut headings = vec!["SUBJECT".to_owned(), "ROWS/S".to_owned()];
        headings.extend(columns.iter().map(|column| heading(column, self.definition)));
        let mut rows = vec![headings];
        for (at, line) in self.lines.iter().enumerate() {
            if at > 0 && self.begins(at) {
                rows.push(Vec::new());
            }
            rows.push(line.cells(&columns));
        }
        table(f, &rows)?;
        for error in &self.errors {
            wrap(f, "error: ", error)?;
        }
        Ok(())
    }
}

impl Section {
    /// The columns next to the rate.
    fn columns(&self) -> Vec<&'static Column> {
        let columns = self.definition.map_or(&[][..], |one| one.columns);
        let has = |column: &Column| self.lines.iter().any(|line| (column.cell)(line).is_some());
        columns.iter().filter(|column| !column.optional || has(column)).collect()
    }

    /// Whether a line begins another group of compared lines.
    fn begins(&self, at: usize) -> bool {
        let leader = self.definition.is_some_and(Experiment::has_leader);
        let group = |line: &Line| (line.round_trip_ms, leader.then(|| (line.durability, line.phase.clone())));
        group(&self.lines[at]) != group(&self.lines[at - 1])
    }
}

impl Line {
    fn cells(&self, columns: &[&Column]) -> Vec<String> {
        let mark = mark(self.durability, self.round_trip_ms);
        let mut cells = vec![format!("{} {}{mark}", self.subject, self.phase), rate(self.rows_per_second.median)];
        cells.extend(columns.iter().map(|column| (column.cell)(self).unwrap_or_else(|| "-".to_owned())));
        cells
    }
}

/// The heading of a column. That of the ratio names what it is compared with.
fn heading(column: &Column, experiment: Option<&Experiment>) -> String {
    let comparison =
        experiment.and_then(|one| one.comparison).filter(|_| column.heading == crate::ingest::column::RATIO.heading);
    comparison.map_or(column.heading, |comparison| comparison.heading).to_owned()
}

/// Explains the columns of an experiment's tables and, if one subject leads, the other subjects.
fn legend(f: &mut Formatter<'_>, sections: &[&Section]) -> Result {
    let Some(experiment) = sections.iter().find_map(|section| section.definition) else { return Ok(()) };
    let shown = |heading: &str| sections.iter().any(|one| one.columns().iter().any(|one| one.heading == heading));
    let columns = experiment.columns.iter().filter(|column| shown(column.heading) && !column.legend.is_empty());
    let mut text = experiment.legend.to_vec();
    let shared = columns.map(|column| column.legend).collect::<Vec<_>>().join(" ");
    text.push(&shared);
    for line in text {
        wrap(f, "", line)?;
    }
    let measured = |name: &str| sections.iter().flat_map(|section| &section.lines).any(|line| line.subject == name);
    let subjects = experiment.subjects.iter().filter_map(|name| Subject::by_name(name));
    for subject in subjects.filter(|subject| experiment.has_leader() && measured(subject.name)) {
        wrap(f, &format!("{}: ", subject.name), subject.about)?;
    }
    Ok(())
}

fn goals(f: &mut Formatter<'_>, goals: &[Reached]) -> Result {
    if goals.is_empty() {
        return Ok(());
    }
    let row = |cells: [&str; 7]| cells.map(str::to_owned).to_vec();
    let mut rows = vec![row(["  GOAL", "MUST", "AIM", "MEASURED", "2 KB", "20 KB", "5 MS"])];
    for goal in goals {
        let mark = match goal.verdict() {
            Some("aim") => "+",
            Some("must") => "=",
            Some(_) => "-",
            None => " ",
        };
        let cell = |spread: Option<Spread>| spread.map_or_else(String::new, |spread| short(spread.median));
        let target = |number: Option<f64>| number.map_or_else(String::new, |number| format!("{number}"));
        rows.push(vec![
            format!("{mark} {}", goal.goal),
            target(goal.target.map(|target| target.must)),
            target(goal.target.map(|target| target.aim)),
            between(&goal.measured, short),
            cell(goal.at_2_kb),
            cell(goal.at_20_kb),
            cell(goal.at_5_ms),
        ]);
    }
    writeln!(f)?;
    table(f, &rows)?;
    wrap(f, "", GOALS_LEGEND)
}

/// Prints rows of cells: the first column left-aligned, the others right-aligned. An empty row separates groups.
fn table(f: &mut Formatter<'_>, rows: &[Vec<String>]) -> Result {
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(String::len).max().unwrap_or(0);
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    // Two spaces, or one if the table is otherwise too wide. After the first column there are always two.
    let wide = (0..columns).map(|column| width(column) + 2).sum::<usize>() > WIDTH + 2;
    for row in rows {
        let Some((first, rest)) = row.split_first() else {
            writeln!(f)?;
            continue;
        };
        let mut line = format!("{first:<width$}", width = width(0));
        for (column, cell) in (1..).zip(rest) {
            let gap = if wide && column > 1 { " " } else { "  " };
            write!(line, "{gap}{cell:>width$}", width = width(column))?;
        }
        writeln!(f, "{}", line.trim_end())?;
    }
    Ok(())
}

/// Writes a text in lines of at most [`WIDTH`] characters. All but the first are indented.
fn wrap(f: &mut Formatter<'_>, mark: &str, text: &str) -> Result {
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let options = Options::new(WIDTH).initial_indent(mark).subsequent_indent("  ");
    let options = options.word_splitter(WordSplitter::NoHyphenation).word_separator(WordSeparator::AsciiSpace);
    writeln!(f, "{}", fill(&words, options.wrap_algorithm(WrapAlgorithm::FirstFit).break_words(false)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::record::tests::fixture;
    use crate::core::{Outcome, Record};
    use crate::ingest::report::tests::rivals;

    #[test]
    fn the_text_is_a_plain_table_that_fits_a_terminal() {
        let text = Report::of(&fixture()).to_string();
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        let line = text.lines().find(|line| line.starts_with("millstream fresh")).unwrap();
        let cells: Vec<&str> = line.split_whitespace().collect();
        let expected = ["millstream", "fresh", "125k", "0.85", "(0.80-0.90)", "0.80", "40", "400", "250", "-"];
        assert_eq!(cells, expected);
        assert!(text.contains("error: millstream changed 3, round 2"), "{text}");
        assert!(text.contains("doubt: "), "{text}");
        let goal = text.lines().find(|line| line.starts_with("- new / COPY, random keys")).unwrap();
        let cells: Vec<&str> = goal.split_whitespace().skip(6).collect();
        assert_eq!(cells, ["1", "1.3", "0.85", "(0.80-0.90)"]);
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains("fdatasync 46 us") && words.contains("commit 0123456789ab and changes"), "{text}");
    }

    #[test]
    fn the_text_separates_groups_and_lists_missing_subjects() {
        let record = rivals();
        let text = Report::of(&record).to_string();
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
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
    fn a_column_without_values_is_left_out_and_a_wide_table_gets_narrow() {
        let mut record = fixture();
        assert!(!Report::of(&record).to_string().contains("SERVER"));
        for run in &mut record.runs {
            if let Outcome::Measured(measures) = &mut run.outcome {
                measures.set("server_cpu_seconds", Some(0.5));
                measures.set("autovacuums", Some(3.0));
            }
        }
        let text = Report::of(&record).to_string();
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        let line = text.lines().find(|line| line.starts_with("millstream fresh")).unwrap();
        let expected = "millstream fresh        125k 0.85 (0.80-0.90) 0.80   5.00  40 400  250   3";
        assert_eq!(line, expected);
        assert!(text.contains(" server: processor"), "{text}");
    }
}
