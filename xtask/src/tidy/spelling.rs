//! Rule `spelling`: what a library's text tells you to type is what the program has.

use super::{Report, Rule};
use crate::pieces::{PieceKind, pieces, tests_begin};
use crate::tree::{File, Tree};
use std::collections::BTreeSet;

pub(super) const RULE: Rule = Rule {
    name: "spelling",
    says: "an option or a command that a library's text names is one that the program has",
    check,
};

/// The page with every command and option. It is generated from the program's own definitions.
const REFERENCE: &str = "docs/reference/commands.md";

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
const PROGRAMS: &[&str] = &[
    "cargo",
    "firewall-cmd",
    "initdb",
    "mongodump",
    "mongorestore",
    "pg_basebackup",
    "pg_ctl",
    "pg_repack",
    "reindexdb",
    "unshare",
    "useradd",
    "vacuumdb",
    "zstd",
];

/// Words behind our name that are no commands, in sentences.
const WORDS: &[&str] = &["at", "begins", "has", "may"];

/// The same in names of sessions and of files, which begin with our name. Behind a sentence they would be commands.
const NAMES: &[&str] = &["build", "control", "drive", "lab recorder", "lane", "manifest", "watch"];

fn check(tree: &Tree, report: &mut Report) {
    let known = Known::read(tree.file(REFERENCE).map_or("", |page| page.text.as_str()));
    let is_other = |file: &File| OTHERS.iter().any(|other| file.path.starts_with(other)) || file.name() == "tests.rs";
    for file in tree.with_extension("rs").filter(|file| file.path.contains("/src/") && !is_other(file)) {
        let tests = tests_begin(&file.text).unwrap_or(usize::MAX);
        for piece in pieces(&file.text) {
            if piece.kind != PieceKind::Text || piece.line >= tests {
                continue;
            }
            for (at, what) in known.absent(piece.text) {
                let line = piece.line + piece.text[..at].matches('\n').count();
                report.broken(&file.path, line, format!("the program has no {what}, name what it has"));
            }
        }
    }
}

/// What the program has.
#[derive(Default)]
struct Known<'a> {
    commands: BTreeSet<&'a str>,
    /// Commands that do nothing without one of theirs behind them.
    groups: BTreeSet<&'a str>,
    options: BTreeSet<&'a str>,
}

impl<'a> Known<'a> {
    fn read(page: &'a str) -> Self {
        let mut known = Self::default();
        for line in page.lines() {
            if let Some(item) = line.strip_prefix("- **`") {
                let words = item.split('`').next().unwrap_or_default().split(' ');
                known.options.extend(words.filter_map(|word| word.strip_prefix("--")).map(name));
            } else if let Some(command) = line.strip_prefix("## millstream ") {
                known.commands.insert(command);
            } else if let Some(usage) = line.strip_prefix("millstream ") {
                known.groups.extend(usage.strip_suffix(" [OPTIONS] <COMMAND>"));
            }
        }
        known
    }

    /// The options and commands in a text that the program does not have, with their places.
    fn absent(&self, text: &str) -> Vec<(usize, String)> {
        let options = text.match_indices("--").filter_map(|(at, sign)| {
            let (before, option) = (&text[..at], name(&text[at + sign.len()..]));
            let begins = !before.ends_with(|last: char| last.is_alphanumeric() || last == '-');
            let is_option = begins && option.starts_with(|first: char| first.is_ascii_lowercase());
            let command = before.rsplit([';', '|']).next().unwrap_or_default();
            let is_foreign = is_argument(text) || PROGRAMS.iter().any(|program| command.contains(program));
            (is_option && !is_foreign && !self.options.contains(option)).then(|| (at, format!("option --{option}")))
        });
        let commands = text.match_indices("millstream ").filter_map(|(at, our_name)| {
            let command = self.absent_command(&text[at + our_name.len()..])?;
            let is_name = at == 0 && NAMES.contains(&command.as_str());
            (!is_name).then(|| (at, format!("command millstream {command}")))
        });
        options.chain(commands).collect()
    }

    /// The command at the beginning of a text, if the program does not have it.
    fn absent_command(&self, text: &str) -> Option<String> {
        let text = continued(text);
        let first = name(text);
        let below = text[first.len()..].strip_prefix(' ').map_or("", |text| name(continued(text)));
        let command = match self.groups.contains(first) && !below.is_empty() {
            true => format!("{first} {below}"),
            false => first.to_owned(),
        };
        let is_known = WORDS.contains(&command.as_str()) || self.commands.contains(command.as_str());
        (!first.is_empty() && !is_known).then_some(command)
    }
}

/// The name of an option or a command at the beginning of a text; empty if there is none.
fn name(text: &str) -> &str {
    let end = text.find(|one: char| !(one.is_ascii_lowercase() || one.is_ascii_digit() || one == '-'));
    &text[..end.unwrap_or(text.len())]
}

/// A text without the end of the line in the source, if it begins with one: it goes on in the next line.
fn continued(text: &str) -> &str {
    text.strip_prefix("\\\n").map_or(text, str::trim_start)
}

/// Whether a text is one argument of a process, or a part of what is recorded about a load.
fn is_argument(text: &str) -> bool {
    (text.starts_with("--") && text.split_whitespace().count() == 1) || text.starts_with(" --")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_program_does_not_have_is_found_with_its_place() {
        let commands =
            "## millstream db\nmillstream db [OPTIONS] <COMMAND>\n## millstream db start\n## millstream loads\n";
        let options = "- **`--db <URL>`**: not --of\n- **`-h, --help`**: help\n- **`--since[=<TIME>]`**: a time\n";
        let page = [commands, options].concat();
        let absent = |text: &str| {
            let found = Known::read(&page).absent(text).into_iter();
            found.map(|(at, what)| format!("{at} {what}")).collect::<Vec<_>>().join(", ")
        };
        for (text, expected) in [
            ("add --db URL or --help, --since 1h; a dash -- and --; see `millstream loads` for --db", ""),
            ("millstream db start starts, millstream {room} undo, millstream db, millstream may know", ""),
            ("zstd -dc --long=31 FILE | millstream db start --db URL", ""),
            ("--quiet", ""),
            ("leave out --of, add --data-base", "10 option --of, 20 option --data-base"),
            ("zstd --long; or --longer", "16 option --longer"),
            ("see millstream load", "4 command millstream load"),
            ("millstream db stop", "0 command millstream db stop"),
            ("millstream watch", ""),
            ("see millstream watch", "4 command millstream watch"),
            ("run millstream \\\n    db \\\n    start", ""),
            ("run millstream \\\n    lods", "4 command millstream lods"),
            ("run millstream db \\\n    stop", "4 command millstream db stop"),
        ] {
            assert_eq!(absent(text), expected, "{text}");
        }
    }
}
