//! Rule `item_name`: an item answers for itself, so nobody asks for its name to know what it does.

use super::list::{defines, slices};
use super::{Report, Rule};
use crate::pieces::{Piece, PieceKind, pieces, tests_begin};
use crate::tree::{File, Tree};

pub(super) const RULE: Rule = Rule {
    name: "item_name",
    says: "no code outside an item's file compares with the item's name; the item has a field or method for the question",
    check,
};

/// An item of a list.
struct Item<'a> {
    name: &'a str,
    file: &'a File,
    /// What a variable that holds its name is called, beside `name`.
    word: String,
}

fn check(tree: &Tree, report: &mut Report) {
    for one in &tree.crates {
        let prefix = format!("{}/src/", one.folder);
        let files: Vec<&File> = tree.with_extension("rs").filter(|file| file.path.starts_with(&prefix)).collect();
        let items: Vec<Item<'_>> = files.iter().flat_map(|file| items(file, &files)).collect();
        for file in &files {
            let tests = tests_begin(&file.text).unwrap_or(usize::MAX);
            let pieces = pieces(&file.text);
            for three in pieces.windows(3) {
                let [code, text, after] = three else { continue };
                if code.kind != PieceKind::Code || text.kind != PieceKind::Text || text.line >= tests {
                    continue;
                }
                let asked = items.iter().find(|item| {
                    let asks = || compares(code.text, &item.word) || is_matched(code.text, after.text, &item.word);
                    item.name == text.text && item.file.path != file.path && asks()
                });
                if let Some(item) = asked {
                    let says = format!("asks for the name of {}, let the item itself answer", item.file.path);
                    report.broken(&file.path, text.line, says);
                }
            }
        }
    }
}

/// The items that the lists of a file name.
fn items<'a>(list: &File, files: &[&'a File]) -> Vec<Item<'a>> {
    let mut items = Vec::new();
    for slice in slices(&list.text) {
        let word = slice.name.trim_start_matches('*').to_lowercase().trim_end_matches('s').to_owned();
        for file in files.iter().filter(|file| slice.has(file.stem()) && defines(&file.text, slice.element)) {
            let names = pieces(&file.text);
            let found = names.windows(2).find_map(|pair| match pair {
                [Piece { kind: PieceKind::Code, text: code, .. }, Piece { kind: PieceKind::Text, text, .. }]
                    if code.trim_end().ends_with("name:") =>
                {
                    Some(*text)
                }
                _ => None,
            });
            items.extend(found.map(|name| Item { name, file, word: word.clone() }));
        }
    }
    items
}

/// Whether a text is the first arm of a `match` for a name. Its code ends before the text and goes on behind it.
fn is_matched(before: &str, after: &str, word: &str) -> bool {
    let asked = before.trim_end().strip_suffix('{').and_then(|rest| rest.rsplit_once("match "));
    let is_arm = after.trim_start_matches('"').trim_start().starts_with("=>");
    is_arm && asked.is_some_and(|(_, asked)| ends_in_name(asked.trim_end(), word))
}

/// Whether code that stands before a text compares a name with it.
fn compares(code: &str, word: &str) -> bool {
    let Some(left) = ["==", "!="].iter().find_map(|sign| code.trim_end().strip_suffix(sign)) else { return false };
    ends_in_name(left.trim_end(), word)
}

fn ends_in_name(code: &str, word: &str) -> bool {
    [word, "name", "name()"].iter().any(|name| {
        code.strip_suffix(name).is_some_and(|rest| !rest.ends_with(|last: char| last.is_alphanumeric() || last == '_'))
    })
}
