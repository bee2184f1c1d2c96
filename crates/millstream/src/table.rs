//! Plain aligned tables that fit the terminal.

use crate::screen::visible;
use std::borrow::Cow;
use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm};

/// Least width of the wrapped column beside the others. Where there is less room, it stands below them.
const WRAPPED_WIDTH_MIN: usize = 24;

/// How far it is indented there.
const BELOW: usize = 4;

const GAP: &str = "  ";

/// How the cells of a column are aligned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Text.
    Left,
    /// Numbers.
    Right,
    /// Text that continues on the next line, or begins there, if the terminal is too narrow. Only for the last column.
    Wrap,
}

/// A column of a table of items: its heading, and the cell of an item.
pub type Column<T> = (&'static str, Align, fn(&T) -> String);

/// A heading and rows of the same length.
#[derive(Debug)]
pub struct Table {
    columns: Vec<(&'static str, Align)>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub fn new(columns: &[(&'static str, Align)]) -> Self {
        Self { columns: columns.to_vec(), rows: Vec::new() }
    }

    /// A table with a row for each item.
    pub fn of<T>(items: &[T], columns: &[Column<T>]) -> Self {
        let mut table = Self::new(&columns.iter().map(|(name, align, _)| (*name, *align)).collect::<Vec<_>>());
        for item in items {
            table.row(columns.iter().map(|(.., cell)| cell(item)));
        }
        table
    }

    /// Adds a row with a cell for each column. A cell is one line, and as wide as it is printed: its control characters are
    /// shown as marks.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let row: Vec<String> = cells.into_iter().map(|cell| visible(&cell)).collect();
        assert_eq!(row.len(), self.columns.len(), "a cell for each column");
        self.rows.push(row);
    }

    fn widths(&self) -> Vec<usize> {
        let mut widths: Vec<usize> = self.columns.iter().map(|c| width(c.0)).collect();
        for row in &self.rows {
            for (w, cell) in widths.iter_mut().zip(row) {
                *w = (*w).max(width(cell));
            }
        }
        widths
    }

    /// Where the last column stands, if it is one that is wrapped.
    fn wrapped(&self, widths: &[usize], columns: Option<usize>) -> Option<Wrapped> {
        let (last, others) = widths.split_last().filter(|_| self.columns.last().is_some_and(|c| c.1 == Align::Wrap))?;
        let beside: usize = others.iter().map(|w| w + GAP.len()).sum();
        let room = columns.map_or(*last, |columns| columns.saturating_sub(beside).min(*last));
        Some(match columns {
            Some(columns) if room < WRAPPED_WIDTH_MIN.min(*last) && beside > BELOW => {
                Wrapped { is_below: true, indent: BELOW, room: columns.saturating_sub(BELOW) }
            }
            _ => Wrapped { is_below: false, indent: beside, room },
        })
    }

    /// The table as lines, on a terminal of this many columns. Without a terminal nothing is wrapped, so that a program
    /// reads one line for each row.
    pub fn text(&self, columns: Option<usize>) -> String {
        let mut text = String::new();
        let widths = self.widths();
        let wrapped = self.wrapped(&widths, columns);
        let plain = widths.len() - usize::from(wrapped.is_some());
        let heading: Vec<String> = self.columns.iter().map(|c| c.0.to_uppercase()).collect();
        for row in std::iter::once(&heading).chain(&self.rows) {
            let cells = row.iter().zip(&self.columns).zip(&widths).take(plain).map(|((cell, (_, align)), &w)| {
                // A width in a format panics from 65,536 on.
                let pad = " ".repeat(w.saturating_sub(width(cell)));
                if *align == Align::Right { format!("{pad}{cell}") } else { format!("{cell}{pad}") }
            });
            let mut cells: Vec<String> = cells.collect();
            let parts = wrapped.as_ref().zip(row.last()).map(|(wrapped, cell)| wrap(cell, wrapped.room));
            let mut parts = parts.unwrap_or_default().into_iter().filter(|part| !part.is_empty());
            if wrapped.as_ref().is_some_and(|wrapped| !wrapped.is_below) {
                cells.extend(parts.next());
            }
            text.push_str(cells.join(GAP).trim_end());
            text.push('\n');
            let indent = " ".repeat(wrapped.as_ref().map_or(0, |wrapped| wrapped.indent));
            parts.for_each(|part| text.extend([indent.as_str(), &part, "\n"]));
        }
        text
    }
}

/// Where the last column stands if its text continues on the next line.
struct Wrapped {
    /// Whether it begins below the others.
    is_below: bool,
    indent: usize,
    room: usize,
}

fn width(text: &str) -> usize {
    text.chars().count()
}

/// Lines of at most `room` characters, cut at spaces where there are any.
pub fn wrap(text: &str, room: usize) -> Vec<String> {
    let options = Options::new(room.max(1)).word_splitter(WordSplitter::NoHyphenation);
    let options = options.word_separator(WordSeparator::AsciiSpace).wrap_algorithm(WrapAlgorithm::FirstFit);
    textwrap::wrap(text, options).into_iter().map(Cow::into_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&[("name", Align::Left), ("rows", Align::Right)]);
        table.row(["events".to_owned(), "7".to_owned()]);
        table.row(["x\ny\u{1b}[0m".to_owned(), "1,200".to_owned()]);
        assert_eq!(
            table.text(Some(80)),
            "NAME            ROWS\n\
             events             7\n\
             x\\ny\\u001b[0m  1,200\n"
        );
    }

    #[test]
    fn the_last_column_wraps_where_the_terminal_ends() {
        let mut table = Table::new(&[("id", Align::Right), ("detail", Align::Wrap)]);
        table.row(["1".to_owned(), "word ".repeat(40).trim_end().to_owned()]);
        table.row(["2".to_owned(), "x".repeat(100)]);
        for (columns, lines) in [(80, 7), (120, 4), (30, 16)] {
            let text = table.text(Some(columns));
            assert!(text.lines().all(|line| width(line) <= columns), "{text}");
            assert_eq!(text.matches("word").count(), 40);
            assert_eq!(text.matches('x').count(), 100);
            assert!(text.lines().count() <= lines, "{columns}: {text}");
        }
        assert_eq!(table.text(None).lines().count(), 3, "a program gets a line for each row");
    }

    #[test]
    fn a_wrapped_column_stands_below_the_others_where_it_has_no_room_beside_them() {
        let mut table = Table::new(&[("collection", Align::Left), ("read", Align::Right), ("sources", Align::Wrap)]);
        table.row(["events".to_owned(), "5,000".to_owned(), "/srv/drop/one.ndjson /srv/drop/two.ndjson".to_owned()]);
        table.row(["others".to_owned(), "7".to_owned(), String::new()]);
        let below = "COLLECTION   READ\n    SOURCES\n\
                     events      5,000\n    /srv/drop/one.ndjson\n    /srv/drop/two.ndjson\n\
                     others          7\n";
        assert_eq!(table.text(Some(30)), below);
        assert!(
            table.text(Some(43)).starts_with("COLLECTION   READ  SOURCES\nevents      5,000  /srv/drop/one.ndjson\n  ")
        );
        let mut short = Table::new(&[("collection", Align::Left), ("key", Align::Wrap)]);
        short.row(["events".to_owned(), "id".to_owned()]);
        assert_eq!(short.text(Some(15)), "COLLECTION  KEY\nevents      id\n", "it is narrow enough");
    }

    #[test]
    fn a_table_without_rows_prints_its_heading() {
        let table = Table::new(&[("name", Align::Left), ("size", Align::Right)]);
        assert_eq!(table.text(None), "NAME  SIZE\n");
    }
}
