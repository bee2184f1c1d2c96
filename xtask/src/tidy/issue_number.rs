//! Rule `issue_number`: a comment explains itself without a tracker.

use super::{Report, Rule};
use crate::pieces::{PieceKind, lines_of};
use crate::tree::{File, Tree};

pub(super) const RULE: Rule = Rule { name: "issue_number", says: "no comment points to an issue by number", check };

/// Words before a number that make it a pointer.
const POINTERS: &[&str] = &["issue ", "issues ", "ticket ", "pull request ", "pr "];

/// Extensions of files whose comments begin with this mark.
const LINE_COMMENTS: &[(&str, &str)] = &[("sql", "--"), ("toml", "# "), ("sh", "# ")];

fn check(tree: &Tree, report: &mut Report) {
    for file in tree.with_extension("rs") {
        lines_of(&file.text, PieceKind::Comment).for_each(|(line, text)| judge(file, line, text, report));
    }
    for (extension, mark) in LINE_COMMENTS {
        for file in tree.with_extension(extension) {
            for (line, text) in file.lines() {
                if let Some(at) = text.find(mark) {
                    judge(file, line, &text[at..], report);
                }
            }
        }
    }
}

fn judge(file: &File, line: usize, comment: &str, report: &mut Report) {
    if points_to_issue(comment) {
        let says = "the comment points to an issue, say the reason itself";
        report.broken(&file.path, line, says);
    }
}

fn points_to_issue(comment: &str) -> bool {
    let lower = comment.to_lowercase();
    let digit_at = |at: usize| lower[at..].starts_with(|c: char| c.is_ascii_digit());
    let after = |at: usize| lower[..at].chars().next_back();
    let named = POINTERS.iter().any(|pointer| {
        lower
            .match_indices(pointer)
            .any(|(at, _)| !after(at).is_some_and(char::is_alphanumeric) && digit_at(at + pointer.len()))
    });
    let hashed = lower.match_indices('#').any(|(at, _)| matches!(after(at), Some(' ' | '(')) && digit_at(at + 1));
    named || hashed
}

#[cfg(test)]
mod tests {
    use super::points_to_issue;

    #[test]
    fn numbers_alone_do_not_point_to_issues() {
        for comment in ["// 1 of 2", "// # Errors", "// page #top", "// tissue 4", "// r#2"] {
            assert!(!points_to_issue(comment), "{comment}");
        }
    }
}
