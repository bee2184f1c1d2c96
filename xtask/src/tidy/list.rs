//! Rule `list`: the items of a folder stand in one list, complete and in order.

use super::{Report, Rule};
use crate::tree::{File, Tree};

pub(super) const RULE: Rule = Rule {
    name: "list",
    says: "the slice in a folder's mod.rs names every item file of the folder, by name or in the order its comment states",
    check,
};

/// Folders (of any crate) that hold a list of items; each must have its slice.
const LIST_FOLDERS: &[&str] = &["source", "merge", "write", "checks", "tidy"];

/// The words by which the comment above a list states that its order has a meaning.
const ORDERED: &str = "in the order of";

/// A slice in a `mod.rs`, such as `pub const SOURCES: &[&dyn Source] = &[ .. ];`.
pub(super) struct Slice<'a> {
    pub(super) name: &'a str,
    line: usize,
    /// Last word of the type of its elements.
    pub(super) element: &'a str,
    /// The modules its entries come from, in order.
    entries: Vec<&'a str>,
    /// Whether the comment above it states an order of its own.
    ordered: bool,
}

impl Slice<'_> {
    /// Whether one of its entries comes from this module.
    pub(super) fn has(&self, module: &str) -> bool {
        self.entries.contains(&module)
    }
}

fn check(tree: &Tree, report: &mut Report) {
    for file in tree.with_extension("rs") {
        let folder = file.folder();
        let name = folder.rsplit('/').next().unwrap_or_default();
        if file.name() != "mod.rs" || !folder.contains("/src/") {
            continue;
        }
        let slices = slices(&file.text);
        let siblings: Vec<&File> =
            tree.with_extension("rs").filter(|other| other.folder() == folder && other.path != file.path).collect();
        let has_list = slices.iter().any(|slice| !slice.entries.is_empty());
        if LIST_FOLDERS.contains(&name) && !has_list && !siblings.is_empty() {
            let says = "the folder has no list, add a slice of its items";
            report.broken(&file.path, 1, says);
        }
        for slice in &slices {
            judge(file, slice, &siblings, report);
        }
    }
}

fn judge(file: &File, slice: &Slice<'_>, siblings: &[&File], report: &mut Report) {
    let known: Vec<&str> =
        slice.entries.iter().copied().filter(|entry| siblings.iter().any(|sibling| sibling.stem() == *entry)).collect();
    if known.is_empty() {
        return;
    }
    for sibling in siblings {
        let stem = sibling.stem();
        if defines(&sibling.text, slice.element) && !known.contains(&stem) {
            let says = format!("{stem} defines an item that {} lacks, add it", slice.name);
            report.broken(&file.path, slice.line, says);
        }
    }
    if !slice.ordered && !known.is_sorted() {
        let says = format!("{} is out of order, sort it by file name or say `{ORDERED} ..` above it", slice.name);
        report.broken(&file.path, slice.line, says);
    }
}

/// Whether the text holds a constant of the type or an implementation of the trait.
pub(super) fn defines(text: &str, element: &str) -> bool {
    text.lines().any(|line| {
        let line = line.trim();
        let constant = line.contains("const ") || line.contains("static ");
        let typed = line
            .split_once(": ")
            .and_then(|(_, right)| right.split(['=', '{']).next())
            .is_some_and(|kind| kind.trim().trim_start_matches(['&', '(']) == element);
        let implemented = line.starts_with("impl")
            && line.split(" for ").next().is_some_and(|left| left.rsplit([' ', ':']).next() == Some(element))
            && line.contains(" for ");
        (constant && typed) || implemented
    })
}

pub(super) fn slices(text: &str) -> Vec<Slice<'_>> {
    let mut slices = Vec::new();
    for (at, _) in text.match_indices(": &[") {
        let before = &text[text[..at].rfind('\n').map_or(0, |n| n + 1)..at];
        let declares = before.contains("const ") || before.contains("static ");
        let name = before.rsplit(' ').next().unwrap_or_default();
        let rest = &text[at + 4..];
        let Some((element, rest)) = rest.split_once("] =").filter(|_| declares) else {
            continue;
        };
        let body = rest.split("];").next().unwrap_or_default();
        slices.push(Slice {
            name,
            line: text[..at].matches('\n').count() + 1,
            element: element.rsplit([' ', '&', ':']).next().unwrap_or_default(),
            entries: entries(body),
            ordered: comment_above(text, at).contains(ORDERED),
        });
    }
    slices
}

/// The comment lines right above the line that holds byte `at`.
fn comment_above(text: &str, at: usize) -> String {
    let start = text[..at].rfind('\n').map_or(0, |n| n + 1);
    let lines = text[..start].lines().rev().map(str::trim);
    let mut comment: Vec<&str> = lines.map_while(|line| line.strip_prefix("//")).collect();
    comment.reverse();
    comment.iter().flat_map(|line| line.trim_start_matches('/').split_whitespace()).collect::<Vec<_>>().join(" ")
}

/// The module of every entry of a slice's body: `a::X`, `&b::X`, `c::item()`.
fn entries(body: &str) -> Vec<&str> {
    let body = body.trim_start().trim_start_matches("&[");
    body.split([',', '\n'])
        .filter_map(|entry| {
            let entry = entry.split("//").next().unwrap_or_default();
            let (module, _) = entry.trim().trim_start_matches('&').split_once("::")?;
            Some(module)
        })
        .collect()
}
