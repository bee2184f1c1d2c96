//! `docs/reference/commands.md`, generated from the definitions of the command line.

use super::Page;
use crate::command_line::Args;
use crate::table::wrap;
use clap::builder::StyledStr;
use clap::{Arg, ArgAction, Command, CommandFactory};
use std::fmt::Write;

pub(super) const PAGE: Page = Page { file: "commands.md", heading: "Commands", text: page };

/// Width of the page's lines, as in the other guides.
const WIDTH: usize = 120;

/// Heading of the options that say which database is meant. They are the same everywhere, and the page has them once.
const TARGET: &str = "Target";

/// Options that every command has.
const SHARED: &[&str] = &["output", "help", "version"];

fn page() -> String {
    let mut root = Args::command();
    root.build();
    let mut commands = Vec::new();
    collect(&root, &mut commands);
    let mut page = String::new();
    paragraphs(
        &mut page,
        "",
        "All commands and options. This page is generated from the program's own definitions, so it says what \
         `millstream COMMAND --help` prints. The guides explain how to use the commands; \
         [loading.md](../guides/loading.md) is the one to begin with.",
    );
    page.push_str("\n| command | what it does |\n|---|---|\n");
    for command in &commands {
        let _ = writeln!(page, "| [`{}`](#{}) | {} |", name(command), anchor(command), text(command.get_about()));
    }
    page.push_str("\n## Options of every command\n\n");
    root.get_arguments().for_each(|arg| option(&mut page, arg));
    page.push_str("\n## Options for the database\n\n");
    page.push_str("Commands that use a database have these options.\n\n");
    page.push_str(&targets(&commands));
    for command in &commands {
        section(&mut page, command);
    }
    let (_, rest) = after_help(&root);
    page.push_str("\n## Exit codes\n\n");
    page.push_str(rest.split_once("Exit codes:\n\n").map_or("", |(_, codes)| codes));
    page
}

/// The commands with their subcommands behind them, in the order of the help, without those that it hides.
fn collect<'a>(command: &'a Command, found: &mut Vec<&'a Command>) {
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
        found.push(sub);
        collect(sub, found);
    }
}

fn name(command: &Command) -> &str {
    command.get_bin_name().unwrap_or_else(|| command.get_name())
}

/// What GitHub makes of a heading with the command's name.
fn anchor(command: &Command) -> String {
    name(command).replace(' ', "-")
}

fn section(page: &mut String, command: &Command) {
    let _ = write!(page, "\n## {}\n\n", name(command));
    let about = text(command.get_long_about().or_else(|| command.get_about()));
    let (about, more) = about.split_once("\n\n").unwrap_or((&about, ""));
    paragraphs(page, "", about);
    let usage = command.clone().render_usage().to_string();
    let usage: Vec<&str> = usage.trim_start_matches("Usage:").lines().map(str::trim).collect();
    let _ = write!(page, "\n```text\n{}\n```\n\n", usage.join("\n"));
    if !more.is_empty() {
        paragraphs(page, "", more);
        page.push('\n');
    }
    let shown = command.get_subcommands().filter(|sub| !sub.is_hide_set());
    let subcommands: Vec<String> = shown.map(|sub| format!("[`{}`](#{})", name(sub), anchor(sub))).collect();
    if !subcommands.is_empty() {
        paragraphs(page, "", &format!("Its commands: {}.", subcommands.join(", ")));
        page.push('\n');
    }
    let own = |arg: &&Arg| !SHARED.contains(&arg.get_id().as_str()) && arg.get_help_heading() != Some(TARGET);
    command.get_positionals().for_each(|arg| option(page, arg));
    command.get_arguments().filter(|arg| !arg.is_positional()).filter(own).for_each(|arg| option(page, arg));
    if !target(command).is_empty() {
        page.push_str("- [`--db`, `--schema`](#options-for-the-database)\n");
    }
    page.push_str("- [`--output`, `--help`](#options-of-every-command)\n");
    let (examples, rest) = after_help(command);
    if !examples.is_empty() {
        let _ = write!(page, "\n<!-- test: parsed only, examples of the help -->\n```sh\n{examples}```\n");
    }
    if !rest.is_empty() {
        let _ = write!(page, "\n{rest}");
    }
}

/// The options of a command under the heading of the target.
fn target(command: &Command) -> String {
    let mut shown = String::new();
    let args = command.get_arguments().filter(|arg| arg.get_help_heading() == Some(TARGET));
    args.for_each(|arg| option(&mut shown, arg));
    shown
}

/// The same for all commands that have such options: they must share them.
fn targets(commands: &[&Command]) -> String {
    let mut all: Vec<String> = commands.iter().map(|command| target(command)).filter(|one| !one.is_empty()).collect();
    all.dedup();
    assert_eq!(all.len(), 1, "commands differ in their options for the database: {all:?}");
    all.remove(0)
}

/// An argument or option, as an item of a list.
fn option(page: &mut String, arg: &Arg) {
    if arg.is_hide_set() {
        return;
    }
    let short = arg.get_short().map(|short| format!("-{short}, ")).unwrap_or_default();
    let long = arg.get_long_help().or_else(|| arg.get_help());
    let (mut help, default) = without_default(&text(long));
    if matches!(arg.get_action(), ArgAction::Help | ArgAction::Version) {
        help = help.split(" (see ").next().unwrap_or_default().to_owned();
    }
    let mut defaults: Vec<String> = arg
        .get_default_values()
        .iter()
        .filter(|_| arg.get_action().takes_values() && !arg.is_hide_default_value_set())
        .map(|value| format!("`{}`", value.to_string_lossy()))
        .collect();
    defaults.extend(default);
    if !defaults.is_empty() {
        help = with_default(&help, &defaults.join(", "));
    }
    let mut item = String::new();
    paragraphs(&mut item, "  ", &format!("**`{short}{arg}`**: {help}"));
    let _ = write!(page, "- {}", item.trim_start());
    if arg.is_hide_possible_values_set() || !arg.get_action().takes_values() {
        return;
    }
    let values = arg.get_possible_values();
    if values.iter().all(clap::builder::PossibleValue::is_hide_set) {
        return;
    }
    page.push_str("\n  Possible values:\n\n");
    for value in values.iter().filter(|value| !value.is_hide_set()) {
        let mut item = String::new();
        fill(&mut item, "    ", &escaped(&format!("`{}`: {}", value.get_name(), text(value.get_help()))));
        let _ = write!(page, "  - {}", item.trim_start());
    }
    page.push('\n');
}

/// A text without terminal codes; its first sentence ends with a period, which help texts leave out.
fn text(styled: Option<&StyledStr>) -> String {
    styled.map(ToString::to_string).unwrap_or_default()
}

/// Takes `[default: ..]` off the end of a text.
fn without_default(help: &str) -> (String, Option<String>) {
    let (first, rest) = help.split_once("\n\n").map_or((help, None), |(first, rest)| (first, Some(rest)));
    let Some((before, default)) = first.split_once(" [default: ") else { return (help.to_owned(), None) };
    let default = default.trim_end_matches(']').to_owned();
    (rest.map_or_else(|| before.to_owned(), |rest| format!("{before}\n\n{rest}")), Some(default))
}

/// Says the default behind the first paragraph.
fn with_default(help: &str, default: &str) -> String {
    let (first, rest) = help.split_once("\n\n").unwrap_or((help, ""));
    let rest = if rest.is_empty() { String::new() } else { format!("\n\n{rest}") };
    format!("{}. Default: {default}.{rest}", first.trim_end_matches('.'))
}

/// Examples of the help as shell lines, and the text around them as Markdown.
fn after_help(command: &Command) -> (String, String) {
    let (mut examples, mut rest) = (String::new(), String::new());
    for block in text(command.get_after_help()).split("\n\n") {
        match block.split_once('\n') {
            Some(("Example:" | "Examples:", lines)) => {
                lines.lines().for_each(|line| examples.extend([line.trim(), "\n"]));
            }
            Some(("Exit codes:", lines)) => {
                let _ = write!(rest, "{}Exit codes:\n\n{}", gap(&rest), table(lines));
            }
            Some((heading, lines)) if heading.ends_with(':') && lines.starts_with("  ") => {
                let file: String = lines.lines().map(|line| format!("{}\n", line.trim())).collect();
                let _ = write!(rest, "{}{heading}\n\n```toml\n{file}```\n", gap(&rest));
            }
            _ if block.trim().is_empty() => {}
            _ => {
                rest.push_str(gap(&rest));
                paragraphs(&mut rest, "", &block.replace('\n', " "));
            }
        }
    }
    (examples, rest)
}

fn gap(before: &str) -> &'static str {
    if before.is_empty() { "" } else { "\n" }
}

/// Indented lines of a word and its meaning, as a table. Lines indented further belong to the one above.
fn table(lines: &str) -> String {
    let mut rows: Vec<(String, String)> = Vec::new();
    for line in lines.lines() {
        match (line.trim().split_once("  "), rows.last_mut()) {
            (Some((word, meaning)), _) => rows.push((word.to_owned(), meaning.trim().to_owned())),
            (None, Some((_, meaning))) => meaning.extend([" ", line.trim()]),
            (None, None) => {}
        }
    }
    let rows: String = rows.iter().map(|(word, meaning)| format!("| {word} | {meaning} |\n")).collect();
    format!("| code | meaning |\n|---|---|\n{rows}")
}

/// Adds paragraphs, indented and filled. A line that begins with `- ` is an item of a list.
fn paragraphs(page: &mut String, indent: &str, text: &str) {
    for (at, paragraph) in text.trim().split("\n\n").enumerate() {
        if at > 0 {
            page.push('\n');
        }
        if !paragraph.starts_with("- ") {
            let end = if paragraph.ends_with(['.', ':', '!', '?']) { "" } else { "." };
            fill(page, indent, &escaped(&format!("{}{end}", paragraph.replace('\n', " "))));
            continue;
        }
        for line in paragraph.lines() {
            let (word, meaning) = line.trim_start_matches("- ").split_once(": ").unwrap_or((line, ""));
            let mut item = String::new();
            fill(&mut item, &format!("{indent}  "), &escaped(&format!("`{word}`: {meaning}")));
            let _ = write!(page, "{indent}- {}", item.trim_start());
        }
    }
}

/// Adds a paragraph in lines of at most [`WIDTH`] characters.
pub(super) fn fill(page: &mut String, indent: &str, text: &str) {
    let words: Vec<&str> = text.split_whitespace().collect();
    for line in wrap(&words.join(" "), WIDTH - indent.len()) {
        let _ = writeln!(page, "{indent}{line}");
    }
}

/// Outside code, escapes what Markdown would not show as it is, and shows options as code.
pub(super) fn escaped(text: &str) -> String {
    let pieces = text.split('`').enumerate();
    let shown = pieces.map(|(at, piece)| {
        if at % 2 == 1 { piece.to_owned() } else { options(&piece.replace('<', "\\<").replace("*.", "\\*.")) }
    });
    shown.collect::<Vec<_>>().join("`")
}

/// Shows options as code, with their value if the next word is one.
fn options(text: &str) -> String {
    let end = |word: &str| word.trim_end_matches(['.', ',', ';', ')', ':']).len();
    let mut shown: Vec<String> = Vec::new();
    let mut words = text.split(' ').peekable();
    while let Some(word) = words.next() {
        let Some(name) = word.strip_prefix("--").filter(|name| end(name) > 0) else {
            shown.push(word.to_owned());
            continue;
        };
        let value = words.next_if(|next| end(word) == word.len() && is_value(name, &next[..end(next)]));
        let whole = [Some(word), value].into_iter().flatten().collect::<Vec<_>>().join(" ");
        let (code, rest) = whole.split_at(end(&whole));
        shown.push(format!("`{code}`{rest}"));
    }
    shown.join(" ")
}

/// Whether a word is a value that an option of some command can have.
fn is_value(option: &str, word: &str) -> bool {
    fn has(command: &Command, option: &str, word: &str) -> bool {
        let own = command.get_arguments().filter(|arg| arg.get_long() == Some(option));
        own.flat_map(Arg::get_possible_values).any(|value| value.get_name() == word)
            || command.get_subcommands().any(|sub| has(sub, option, word))
    }
    let number = word.trim_end_matches(['%', 's']);
    let is_mode = option == "mode" && millstream_engine::MODES.iter().any(|mode| mode.name == word);
    is_mode || number.parse::<u64>().is_ok() || has(&Args::command(), option, word)
}

#[test]
fn defaults_move_behind_the_first_paragraph() {
    let (help, default) = without_default("Connections [default: up to 4]\n\nMore.");
    assert_eq!((help.as_str(), default.as_deref()), ("Connections\n\nMore.", Some("up to 4")));
    assert_eq!(with_default(&help, "up to 4"), "Connections. Default: up to 4.\n\nMore.");
}

#[test]
fn only_text_outside_code_is_escaped() {
    assert_eq!(escaped("a <b> `<c> *.d --e` *.f --g-h, -- i"), "a \\<b> `<c> *.d --e` \\*.f `--g-h`, -- i");
}

#[test]
fn an_option_is_code_with_its_value() {
    let shown = options("With --layout log, or --max-rejects 0; --strict with files, --mode newest.");
    assert_eq!(shown, "With `--layout log`, or `--max-rejects 0`; `--strict` with files, `--mode newest`.");
}
