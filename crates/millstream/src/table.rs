//! Plain aligned tables that fit the terminal.

use crate::screen::visible;
use std::borrow::Cow;
use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm};

/// Least width of the wrapped column. A table that needs more room is wider than the terminal.
const WRAPPED_WIDTH_MIN: usize = 24;

const GAP: &str = "  ";

/// How the cells of a column are aligned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Align {
    /// Text.
    Left,
    /// Numbers.
    Right,
    /// Text that continues on the next line if the terminal is too narrow. Only for the last column.
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

    fn widths(&self, columns: Option<usize>) -> Vec<usize> {
        let mut widths: Vec<usize> = self.columns.iter().map(|c| width(c.0)).collect();
        for row in &self.rows {
            for (w, cell) in widths.iter_mut().zip(row) {
                *w = (*w).max(width(cell));
            }
        }
        let total: usize = widths.iter().sum::<usize>() + GAP.len() * (widths.len() - 1);
        if let (Some(last), Some((_, Align::Wrap)), Some(columns)) = (widths.last_mut(), self.columns.last(), columns)
            && total > columns
        {
            let room = columns.saturating_sub(total - *last);
            *last = (*last).min(room.max(WRAPPED_WIDTH_MIN));
        }
        widths
    }

    /// The table as lines, on a terminal of this many columns. Without a terminal nothing is wrapped, so that a program
    /// reads one line for each row.
    pub fn text(&self, columns: Option<usize>) -> String {
        let mut text = String::new();
        let widths = self.widths(columns);
        let heading: Vec<String> = self.columns.iter().map(|c| c.0.to_uppercase()).collect();
        for row in std::iter::once(&heading).chain(&self.rows) {
            let wrapped = wrap(row.last().map_or("", |cell| cell), *widths.last().unwrap_or(&0));
            let is_wrapped = matches!(self.columns.last(), Some((_, Align::Wrap)));
            let cells = row.iter().zip(&self.columns).zip(&widths).map(|((cell, (_, align)), &w)| {
                // A width in a format panics from 65,536 on.
                let pad = " ".repeat(w.saturating_sub(cell.chars().count()));
                match align {
                    Align::Left => format!("{cell}{pad}"),
                    Align::Right => format!("{pad}{cell}"),
                    Align::Wrap => wrapped.first().cloned().unwrap_or_default(),
                }
            });
            text.push_str(cells.collect::<Vec<_>>().join(GAP).trim_end());
            text.push('\n');
            let indent = widths[..widths.len() - 1].iter().map(|w| w + GAP.len()).sum();
            for part in wrapped.iter().skip(1).filter(|_| is_wrapped) {
                text.extend([" ".repeat(indent).as_str(), part, "\n"]);
            }
        }
        text
    }
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
    fn a_table_without_rows_prints_its_heading() {
        let table = Table::new(&[("name", Align::Left), ("size", Align::Right)]);
        assert_eq!(table.text(None), "NAME  SIZE\n");
    }
}
