//! Rule `test_binary`: a crate links its integration tests once, and the program those that run it three times.

use super::{Report, Rule};
use crate::tree::Tree;

pub(super) const RULE: Rule = Rule {
    name: "test_binary",
    says: "a crate with integration tests links them once, as tests/main.rs; the program has door, kill and load",
    check,
};

/// What a crate may have.
const ONE: &[&str] = &["main"];

/// Crates with so many tests that one binary would be the last to compile, alone on one processor.
const SEVERAL: &[(&str, &[&str])] = &[("millstream", &["door", "kill", "load"])];

fn check(tree: &Tree, report: &mut Report) {
    for package in &tree.crates {
        let several = SEVERAL.iter().find(|(name, _)| *name == package.name);
        let allowed = several.map_or(ONE, |(_, names)| *names);
        for name in package.test_binaries.iter().filter(|name| !allowed.contains(&name.as_str())) {
            let path = format!("{}/tests/{name}.rs", package.folder);
            let says = format!(
                "a further test binary, set `autotests = false` in [package] and make it a module of {}",
                allowed.join(" or ")
            );
            report.broken(&path, 1, says);
        }
        // With `autotests = false`, cargo builds only what the manifest names, and nobody misses the tests of the others.
        let is_due =
            |name: &str| several.is_some() || tree.file(&format!("{}/tests/{name}.rs", package.folder)).is_some();
        let absent = |name: &str| is_due(name) && !package.test_binaries.iter().any(|there| there == name);
        for name in allowed.iter().filter(|name| absent(name)) {
            let says = format!("the test binary {name} is absent, so nobody runs its tests: name it in a [[test]]");
            report.broken(&package.manifest, 1, says);
        }
    }
}
