//! Rule `link`: links of pages, and pages that a text names, lead to what is there.

use super::{Report, Rule};
use crate::tree::{File, Tree};
use std::collections::BTreeSet;

pub(super) const RULE: Rule = Rule {
    name: "link",
    says: "a link of a page leads to a file and a heading that are there, and so does a page that a text names",
    check,
};

/// Folders whose pages other texts name by the path from the root.
const FOLDERS: &[&str] = &["docs/", "internals/"];

fn check(tree: &Tree, report: &mut Report) {
    for page in tree.with_extension("md") {
        for (line, target) in links(&page.text) {
            if let Some(says) = misled(tree, page, target) {
                report.broken(&page.path, line, says);
            }
        }
    }
    for file in &tree.files {
        for (line, text) in file.lines() {
            for path in named(text).filter(|path| tree.file(path).is_none()) {
                report.broken(&file.path, line, format!("there is no page {path}, name the right one"));
            }
        }
    }
}

/// Why a link of a page leads nowhere; `None` if it does not, or if it leaves the repository.
fn misled(tree: &Tree, page: &File, target: &str) -> Option<String> {
    if target.contains("://") {
        return None;
    }
    let (path, heading) = target.split_once('#').unwrap_or((target, ""));
    let path = if path.is_empty() { page.path.clone() } else { joined(page.folder(), path) };
    let Some(file) = tree.file(&path) else {
        let below = format!("{path}/");
        let is_there = tree.paths.iter().any(|known| *known == path || known.starts_with(&below));
        return (!is_there).then(|| format!("the link leads to {path}, which is not there, correct it"));
    };
    let is_known = heading.is_empty() || !file.is("md") || headings(&file.text).contains(heading);
    (!is_known).then(|| format!("{path} has no heading #{heading}, correct the link"))
}

/// The path from the root that a link in a folder leads to.
fn joined(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in folder.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The lines of a page with their numbers, without blocks of code.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    (1..).zip(text.lines()).filter(move |(_, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// The targets of a page's links with their lines.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        for piece in line.split('`').step_by(2) {
            let targets = piece.match_indices("](").filter_map(|(at, open)| piece[at + open.len()..].split_once(')'));
            found.extend(targets.map(|(target, _)| (number, target)));
        }
    }
    found
}

/// The anchors of a page's headings. Of headings that are the same, all but the first get a number.
fn headings(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (_, line) in prose(text) {
        let Some((marks, title)) = line.split_once(' ') else { continue };
        if marks.is_empty() || !marks.trim_start_matches('#').is_empty() {
            continue;
        }
        let kept = title.trim().to_lowercase();
        let kept = kept.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let numbered = (1..).map(|n| format!("{anchor}-{n}"));
        let free = std::iter::once(anchor.clone()).chain(numbered).find(|name| !found.contains(name));
        found.extend(free);
    }
    found
}

/// Pages that a line names by their paths from the root.
fn named(line: &str) -> impl Iterator<Item = &str> {
    let words = line.split(|c: char| !(c.is_alphanumeric() || matches!(c, '/' | '.' | '-' | '_')));
    let words = words.map(|word| word.trim_end_matches('.'));
    words.filter(|word| word.ends_with(".md") && FOLDERS.iter().any(|folder| word.starts_with(folder)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_stand_outside_code() {
        let page = "a [b](c.md) `[d](e.md)` [`f`](g.md#h)\n\n```text\n[i](j.md)\n```\n[k\nl](m)\n";
        assert_eq!(links(page), [(1, "c.md"), (1, "g.md#h"), (7, "m")]);
    }

    #[test]
    fn headings_have_the_anchors_of_github() {
        let page = "# A page\n\n## `load`: what, and why?\n\n```sh\n# no heading\n```\n#none\n## A page\n";
        let expected = ["a-page", "a-page-1", "load-what-and-why"].map(str::to_owned);
        assert_eq!(headings(page), BTreeSet::from(expected));
    }

    #[test]
    fn paths_are_joined() {
        assert_eq!(joined("a/b", "../c/./d.md"), "a/c/d.md");
        assert_eq!(joined("", "../c"), "../c");
    }

    #[test]
    fn pages_are_named_from_the_root() {
        let line = concat!("see doc", "s/a/b.md. Not ../doc", "s/c.md, doc", "s/d.rs or other/doc", "s/e.md");
        assert_eq!(named(line).collect::<Vec<_>>(), [concat!("doc", "s/a/b.md")]);
    }
}
