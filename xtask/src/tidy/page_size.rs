//! Rule `page_size`: the pages that everybody reads first stay short.

use super::{Report, Rule};
use crate::tree::Tree;

pub(super) const RULE: Rule =
    Rule { name: "page_size", says: "ARCHITECTURE.md has at most 1,500 words, README.md at most 130 lines", check };

const MAP: &str = "ARCHITECTURE.md";
const MAP_WORDS_MAX: usize = 1_500;

const README: &str = "README.md";
const README_LINES_MAX: usize = 130;

fn check(tree: &Tree, report: &mut Report) {
    let words = tree.file(MAP).map_or(0, |page| page.text.split_whitespace().count());
    if words > MAP_WORDS_MAX {
        let says = format!("{words} words, move what explains a part to internals/ ({MAP_WORDS_MAX} at most)");
        report.broken(MAP, 1, says);
    }
    let lines = tree.file(README).map_or(0, |page| page.lines().count());
    if lines > README_LINES_MAX {
        let says = format!("{lines} lines, move what a first look does not need to docs/ ({README_LINES_MAX} at most)");
        report.broken(README, lines, says);
    }
}
