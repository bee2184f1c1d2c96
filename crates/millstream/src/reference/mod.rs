//! The pages of `docs/reference/` that are generated from the program's own definitions: one file a page.

mod checks;
mod commands;
mod loads;
mod metrics;

use std::path::Path;

/// The command that writes the pages again.
const UPDATE: &str = "MILLSTREAM_UPDATE_SNAPSHOTS=1 cargo test -p millstream -- reference::";

/// A generated page.
struct Page {
    /// Its file.
    file: &'static str,
    heading: &'static str,
    /// What stands below the heading.
    text: fn() -> String,
}

/// Every generated page, by its file.
const PAGES: &[Page] = &[checks::PAGE, commands::PAGE, loads::PAGE, metrics::PAGE];

impl Page {
    /// The whole page.
    fn whole(&self) -> String {
        let Self { heading, text, .. } = self;
        format!("# {heading}\n\n<!-- Generated; do not edit. Write it again with:\n     {UPDATE} -->\n\n{}", text())
    }
}

/// A table. Cells may hold Markdown.
fn table(columns: &[&str], rows: &[Vec<String>]) -> String {
    let line = |cells: &[String]| {
        let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
        format!("| {} |\n", cells.join(" | "))
    };
    let columns: Vec<String> = columns.iter().map(|name| (*name).to_owned()).collect();
    let rows: String = rows.iter().map(|cells| line(cells)).collect();
    format!("{}|{}\n{rows}", line(&columns), "---|".repeat(columns.len()))
}

#[test]
fn the_pages_are_up_to_date() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference");
    let mut stale = Vec::new();
    for page in PAGES {
        let path = folder.join(page.file);
        let whole = page.whole();
        if std::env::var_os("MILLSTREAM_UPDATE_SNAPSHOTS").is_some() {
            std::fs::write(&path, &whole).unwrap();
        }
        if std::fs::read_to_string(&path).unwrap_or_default() != whole {
            stale.push(page.file);
        }
    }
    assert!(stale.is_empty(), "pages of docs/reference are stale: {stale:?}; write them again: {UPDATE}");
}

#[test]
fn a_table_keeps_its_columns() {
    let rows = [vec!["`a|b`".to_owned(), "c".to_owned()]];
    assert_eq!(table(&["x", "y"], &rows), "| x | y |\n|---|---|\n| `a\\|b` | c |\n");
}
