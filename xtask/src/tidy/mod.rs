//! The house rules that a machine can check: one file a rule, the list, and the command.

mod arrow;
mod changelog;
mod circle;
mod dead_file;
mod file_name;
mod file_size;
mod forbidden_word;
mod heading;
mod issue_number;
mod item_name;
mod limit;
mod link;
mod list;
mod manifest;
mod map;
mod page_size;
mod process;
mod room;
mod screen;
mod spelling;
mod sql_case;
mod sql_length;
mod sql_names;
mod test_binary;
mod unfinished;
mod unsafe_reason;
mod verb;
mod written_file;

use crate::tree::Tree;
use std::path::Path;
use std::process::ExitCode;

/// A house rule.
pub(crate) struct Rule {
    /// Its name, printed with every finding, and the name of its file and of its fixtures' folder.
    pub(crate) name: &'static str,
    /// The rule in one sentence.
    pub(crate) says: &'static str,
    /// Looks at a workspace and reports what breaks the rule.
    pub(crate) check: fn(&Tree, &mut Report),
}

/// Every rule, by name.
const RULES: &[Rule] = &[
    arrow::RULE,
    changelog::RULE,
    circle::RULE,
    dead_file::RULE,
    file_name::RULE,
    file_size::RULE,
    forbidden_word::RULE,
    heading::RULE,
    issue_number::RULE,
    item_name::RULE,
    limit::RULE,
    link::RULE,
    list::RULE,
    manifest::RULE,
    map::RULE,
    page_size::RULE,
    process::RULE,
    room::RULE,
    screen::RULE,
    spelling::RULE,
    sql_case::RULE,
    sql_length::RULE,
    sql_names::RULE,
    test_binary::RULE,
    unfinished::RULE,
    unsafe_reason::RULE,
    verb::RULE,
    written_file::RULE,
];

/// What one run of the rules found.
#[derive(Default)]
pub(crate) struct Report {
    rule: &'static str,
    findings: Vec<Finding>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Finding {
    path: String,
    line: usize,
    rule: &'static str,
    says: String,
    warning: bool,
}

impl Report {
    /// Reports that a rule is broken: what is wrong, and after a comma or colon what to do.
    pub(crate) fn broken(&mut self, path: &str, line: usize, says: impl Into<String>) {
        self.push(path, line, says.into(), false);
    }

    /// Reports a warning, which does not fail the run.
    pub(crate) fn warning(&mut self, path: &str, line: usize, says: impl Into<String>) {
        self.push(path, line, says.into(), true);
    }

    fn push(&mut self, path: &str, line: usize, says: String, warning: bool) {
        self.findings.push(Finding { path: path.to_owned(), line, rule: self.rule, says, warning });
    }

    fn broken_count(&self) -> usize {
        self.findings.iter().filter(|f| !f.warning).count()
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for finding in &self.findings {
            let label = if finding.warning { "warning: " } else { "" };
            writeln!(f, "{}:{}: {}: {label}{}", finding.path, finding.line, finding.rule, finding.says)?;
        }
        Ok(())
    }
}

/// `cargo xtask tidy`: 0 when the workspace keeps every rule, else 1.
pub(crate) fn command() -> Result<ExitCode, String> {
    let report = check(&crate::workspace_root())?;
    let broken = report.broken_count();
    crate::say(&report.to_string())?;
    crate::say(&format!("tidy: {} rules, {broken} broken\n", RULES.len()))?;
    Ok(ExitCode::from(u8::from(broken > 0)))
}

/// `cargo xtask rules`.
pub(crate) fn list() -> Result<ExitCode, String> {
    for rule in RULES {
        crate::say(&format!("{:<16}{}\n", rule.name, rule.says))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn check(root: &Path) -> Result<Report, String> {
    let tree = Tree::read(root)?;
    let mut report = Report::default();
    for rule in RULES {
        report.rule = rule.name;
        (rule.check)(&tree, &mut report);
    }
    report.findings.sort_unstable();
    Ok(report)
}

#[cfg(test)]
mod tests;
