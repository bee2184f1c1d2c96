//! Rule `test_binary`: a crate links its integration tests once.

use super::{Report, Rule};
use crate::tree::Tree;

pub(super) const RULE: Rule =
    Rule { name: "test_binary", says: "a crate has at most one integration test binary, tests/main.rs", check };

fn check(tree: &Tree, report: &mut Report) {
    for package in &tree.crates {
        for name in package.test_binaries.iter().filter(|name| *name != "main") {
            let path = format!("{}/tests/{name}.rs", package.folder);
            let says =
                "a second test binary, set `autotests = false` in [package] and make it a module of tests/main.rs";
            report.broken(&path, 1, says);
        }
    }
}
