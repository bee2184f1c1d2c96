//! `cargo xtask lines`: source lines by crate, without tests, blanks and comments.

use crate::pieces::{PieceKind, pieces, tests_begin};
use crate::tree::{Crate, File, Tree};
use std::process::ExitCode;

/// `cargo xtask lines [ROOT]`: prints the table. ROOT names another checkout.
pub(crate) fn command() -> Result<ExitCode, String> {
    let root = std::env::args_os().nth(2).map_or_else(crate::workspace_root, Into::into);
    let tree = Tree::read(&root)?;
    let mut text = format!("{:<22}{:>8}{:>8}{:>8}\n", "CRATE", "RUST", "SQL", "TOTAL");
    let mut sums = (0, 0);
    for package in &tree.crates {
        let (rust, sql) = of_crate(&tree, package);
        sums = (sums.0 + rust, sums.1 + sql);
        text.push_str(&line(&package.name, rust, sql));
    }
    text.push_str(&line("all", sums.0, sums.1));
    crate::say(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn line(name: &str, rust: usize, sql: usize) -> String {
    format!("{name:<22}{rust:>8}{sql:>8}{:>8}\n", rust + sql)
}

fn of_crate(tree: &Tree, package: &Crate) -> (usize, usize) {
    let src = format!("{}/src/", package.folder);
    let own = |file: &&File| file.path.starts_with(&src) && !is_test(&file.path);
    let rust = tree.with_extension("rs").filter(own).map(|file| rust_lines(&file.text)).sum();
    let sql = tree.with_extension("sql").filter(own).map(|file| sql_lines(&file.text)).sum();
    (rust, sql)
}

fn is_test(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.contains("/tests/")
}

fn rust_lines(text: &str) -> usize {
    let end = tests_begin(text).unwrap_or(usize::MAX);
    let mut last = 0;
    let mut count = 0;
    for piece in pieces(text).iter().filter(|piece| piece.kind != PieceKind::Comment) {
        for (n, line) in piece.lines() {
            if n < end && n > last && !line.trim().is_empty() {
                count += 1;
                last = n;
            }
        }
    }
    count
}

fn sql_lines(text: &str) -> usize {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("--")).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_with_code_before_the_tests_count() {
        let text = "//! Words.\n\n/// A word.\npub fn a() -> &'static str { // twice\n    \"x\n\n y\"\n}\n#[cfg(test)]\nmod tests {}\n";
        assert_eq!(rust_lines(text), 4);
        assert_eq!(sql_lines("-- Why.\nselect 1\n\nfrom t\n"), 2);
    }
}
