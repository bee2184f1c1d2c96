//! Rule `unfinished`: the repository holds no unfinished work.

use super::{Report, Rule};
use crate::pieces::{PieceKind, has_word, lines_of};
use crate::tree::Tree;

pub(super) const RULE: Rule =
    Rule { name: "unfinished", says: "no unfinished code, no test that is switched off", check };

/// Marks looked for in every text file. Written in two parts, so that this file keeps its own rule.
const MARKS: &[&str] = &[concat!("FIX", "ME"), concat!("XX", "X"), concat!("TO", "DO")];

/// Text that must not be in Rust code.
const CODE: &[(&str, &str)] = &[
    (concat!("to", "do!"), "write the code"),
    (concat!("unimple", "mented!"), "write the code"),
    (concat!("#[ig", "nore"), "a test runs or is removed"),
];

fn check(tree: &Tree, report: &mut Report) {
    for file in &tree.files {
        for (line, text) in file.lines() {
            if let Some(mark) = MARKS.iter().find(|mark| has_word(text, mark)) {
                report.broken(&file.path, line, format!("{mark} in the tree, do it or drop it"));
            }
        }
    }
    for file in tree.with_extension("rs") {
        for (line, code) in lines_of(&file.text, PieceKind::Code) {
            if let Some((what, out)) = CODE.iter().find(|(what, _)| code.contains(what)) {
                let what = what.trim_start_matches("#[");
                report.broken(&file.path, line, format!("{what} in the code, {out}"));
            }
        }
    }
}
