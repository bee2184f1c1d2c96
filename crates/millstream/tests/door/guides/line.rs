//! The shell lines of README and the guides.
//!
//! They stand in blocks that begin with three backticks and `sh`. A comment right before a block says how it is tested:
//!
//! - `<!-- test: parsed only, WHY -->`: the lines are not run, but their `millstream` commands must be right;
//! - `<!-- test: ends with 1 -->`: the lines may end with exit code 1.
//!
//! Below `<!-- test: commands in tables -->`, what stands in backquotes in a table and begins with `millstream` is such a
//! line, and is not run.
//!
//! Lines between `<!-- test: setup` and `-->` are run, too, and make what the reader has. A page that holds
//! `<!-- test: needs PROGRAM .. -->` is left out where one of these programs is missing.

use std::path::Path;

/// A command of a page, with its continuation lines.
#[derive(Debug, PartialEq, Eq)]
pub struct Line {
    /// The page and the number of its first line.
    pub at: String,
    pub text: String,
    pub runs: bool,
    /// Exit code 1 is what the page expects.
    pub may_find: bool,
}

/// The pages, each with its lines and with the programs that it needs.
pub fn pages() -> Vec<(String, Vec<Line>, Vec<String>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut names = vec!["README.md".to_owned()];
    add_pages(&root, "docs", &mut names);
    names.sort();
    let read = |name: &String| std::fs::read_to_string(root.join(name)).expect("a page can be read");
    let page = |name: &String| {
        let text = read(name);
        (name.clone(), lines(name, &text), needs(&text))
    };
    names.iter().map(page).collect()
}

/// Adds the pages below a folder, by their paths from the root.
fn add_pages(root: &Path, folder: &str, names: &mut Vec<String>) {
    for entry in std::fs::read_dir(root.join(folder)).expect("docs is there") {
        let path = format!("{folder}/{}", entry.expect("an entry").file_name().display());
        if root.join(&path).is_dir() {
            add_pages(root, &path, names);
        } else if path.ends_with(".md") {
            names.push(path);
        }
    }
}

/// The programs that a page needs.
pub fn needs(text: &str) -> Vec<String> {
    let notes = text.lines().filter_map(|line| line.strip_prefix("<!-- test: needs ")?.strip_suffix(" -->"));
    notes.flat_map(str::split_whitespace).map(str::to_owned).collect()
}

/// The shell lines of a page.
pub fn lines(page: &str, text: &str) -> Vec<Line> {
    let mut found: Vec<Line> = Vec::new();
    let (mut note, mut end, mut continued) = ("", None, false);
    let mut has_tables = false;
    for (number, line) in (1..).zip(text.lines().map(str::trim)) {
        match end {
            None if line == "```sh" => end = Some("```"),
            None if line == "<!-- test: setup" => end = Some("-->"),
            None if line == "<!-- test: commands in tables -->" => has_tables = true,
            None if has_tables && line.starts_with('|') => {
                note = "";
                found.extend(quoted(line).map(|text| Line {
                    at: format!("{page}:{number}"),
                    text: text.to_owned(),
                    runs: false,
                    may_find: false,
                }));
            }
            None if !line.is_empty() => note = line.strip_prefix("<!-- test: ").unwrap_or_default(),
            Some(last) if line == last => (note, end) = ("", None),
            Some(_) if continued => {
                let command = found.last_mut().expect("a line is continued");
                command.text = format!("{} {line}", command.text.trim_end_matches('\\'));
            }
            Some(last) if !line.is_empty() && !line.starts_with('#') => found.push(Line {
                at: format!("{page}:{number}"),
                text: line.to_owned(),
                runs: last == "-->" || !note.starts_with("parsed only"),
                may_find: note.starts_with("ends with 1"),
            }),
            _ => {}
        }
        continued = end.is_some() && line.ends_with('\\');
    }
    assert!(end.is_none(), "{page}: a block is not closed");
    found
}

/// The commands in the cells of a table's row.
fn quoted(row: &str) -> impl Iterator<Item = &str> {
    row.split('`').skip(1).step_by(2).filter(|text| text.starts_with("millstream "))
}
