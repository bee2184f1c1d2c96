//! Rule `spelling`: only the command line knows how options and commands are typed.

use super::{Report, Rule};
use crate::pieces::{PieceKind, pieces, tests_begin};
use crate::tree::{File, Tree};

pub(super) const RULE: Rule = Rule {
    name: "spelling",
    says: "a library's text names an option or a command by millstream_model::words, which the command line spells",
    check,
};

/// What is no library of the program: the command line itself, what only tests use, what runs the program as its users
/// do, and what writes the language of another program.
const OTHERS: &[&str] = &[
    "crates/millstream/",
    "crates/millstream-guard/src/rules/iptables.rs",
    "crates/millstream-lab/src/guest/",
    "crates/millstream-testkit/",
    "xtask/",
];

/// Programs of others, whose options stand behind them.
const PROGRAMS: &[&str] =
    &["firewall-cmd", "initdb", "pg_basebackup", "pg_ctl", "pg_repack", "reindexdb", "useradd", "vacuumdb", "zstd"];

/// The program's commands.
const COMMANDS: &[&str] = &[
    "collections",
    "compact",
    "db",
    "demo",
    "distinct",
    "doctor",
    "drop",
    "explain-index",
    "freeze",
    "get",
    "guard",
    "lab",
    "load",
    "loads",
    "models",
    "network",
    "publish",
    "ranges",
    "refresh",
    "rejects",
    "unpublish",
    "verify",
];

fn check(tree: &Tree, report: &mut Report) {
    let libraries = tree.with_extension("rs").filter(|file| file.path.contains("/src/") && is_library(file));
    for file in libraries {
        let tests = tests_begin(&file.text).unwrap_or(usize::MAX);
        for piece in pieces(&file.text) {
            if piece.kind != PieceKind::Text || piece.line >= tests || is_argument(piece.text) {
                continue;
            }
            for (line, text) in piece.lines() {
                if let Some(option) = option_in(text) {
                    report.broken(&file.path, line, format!("--{option} is typed on the command line, use option()"));
                }
                if let Some(command) = command_in(text) {
                    report.broken(&file.path, line, format!("{command} is typed on the command line, use command()"));
                }
            }
        }
    }
}

fn is_library(file: &File) -> bool {
    !OTHERS.iter().any(|other| file.path.starts_with(other)) && file.name() != "tests.rs"
}

/// Whether a text is one argument of a process, a part of what is recorded about a load, or the name of a session: our
/// name with a few words.
fn is_argument(text: &str) -> bool {
    let words = text.split_whitespace().count();
    let is_name = words <= 3 && text.chars().all(|one| one.is_ascii_lowercase() || one == ' ');
    (text.starts_with("--") && words == 1) || text.starts_with(" --") || (text.starts_with("millstream ") && is_name)
}

/// The first option in a text that is not one of another program.
fn option_in(text: &str) -> Option<&str> {
    let (before, rest) =
        text.match_indices("--").map(|(at, sign)| (&text[..at], &text[at + sign.len()..])).find(|(before, rest)| {
            rest.starts_with(|first: char| first.is_ascii_lowercase())
                && !before.ends_with(|last: char| last.is_alphanumeric() || last == '-')
        })?;
    let is_foreign = PROGRAMS.iter().any(|program| before.contains(program));
    let name = rest.split(|one: char| !(one.is_ascii_alphanumeric() || one == '-')).next()?;
    (!is_foreign).then_some(name)
}

/// The first command of the program in a text.
fn command_in(text: &str) -> Option<String> {
    text.split("millstream ").skip(1).find_map(|rest| {
        let word = rest.split(|one: char| !(one.is_ascii_alphanumeric() || one == '-')).next()?;
        let is_command = COMMANDS.contains(&word) && !rest[word.len()..].starts_with(':');
        is_command.then(|| format!("millstream {word}"))
    })
}
