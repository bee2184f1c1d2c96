//! Rule `forbidden_word`: no text file names the machine that it was written on.

use super::{Report, Rule};
use crate::tree::Tree;

pub(super) const RULE: Rule = Rule {
    name: "forbidden_word",
    says: "no path, tool or package registry of one machine stands in a text file",
    check,
};

/// Forbidden words and what they are. Each is written in two parts, so that this file keeps its own rule.
const WORDS: &[(&str, &str)] = &[
    (concat!("/wo", "rk/"), "a path of one machine"),
    (concat!("/fa", "rm/"), "a path of one machine"),
    (concat!("farm", "-bench"), "a tool of one workplace"),
    (concat!("farm", "-studio"), "a tool of one workplace"),
    (concat!("crates", ".io"), "a package registry"),
    (concat!("pypi", ".org"), "a package registry"),
    (concat!("python", "hosted.org"), "a package registry"),
    (concat!("npm", "js.org"), "a package registry"),
    (concat!("npm", "js.com"), "a package registry"),
    (concat!("proxy.", "golang.org"), "a package registry"),
    (concat!("maven", ".org"), "a package registry"),
    (concat!("maven", ".apache.org"), "a package registry"),
    (concat!("deb.", "debian.org"), "a package registry"),
    (concat!("arti", "factory"), "a package registry"),
];

fn check(tree: &Tree, report: &mut Report) {
    for file in &tree.files {
        for (line, text) in file.lines() {
            for (word, what) in WORDS {
                if text.contains(word) {
                    let says = format!("\"{word}\" is {what}, remove it or read it from a setting");
                    report.broken(&file.path, line, says);
                }
            }
        }
    }
}
