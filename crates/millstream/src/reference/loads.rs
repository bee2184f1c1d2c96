//! `docs/reference/loads.md`: the words that a load takes, why it rejects a document, and what it reports.

use super::commands::{escaped, fill};
use super::{Page, table};
use crate::command_line::Args;
use crate::event_line::EVENTS;
use clap::CommandFactory;
use millstream_engine::MODES;
use millstream_model::REASONS;

pub(super) const PAGE: Page = Page { file: "loads.md", heading: "Modes, formats and reasons of a load", text };

/// Options of `load` whose values have a table, each with its heading.
const OPTIONS: &[(&str, &str)] = &[
    ("format", "Formats"),
    ("encoding", "Encodings"),
    ("durability", "Durability"),
    ("layout", "Layouts"),
    ("doc", "What is stored of documents"),
    ("skip-unchanged", "Unchanged documents"),
];

fn text() -> String {
    let mut page = String::new();
    fill(
        &mut page,
        "",
        "The words that `millstream load` takes, and the reasons for which it rejects a document. \
         [loading.md](../guides/loading.md) explains them; [commands.md](commands.md#millstream-load) lists all options.",
    );
    page.push_str("\n## Modes\n\n");
    let modes = MODES.iter().map(|mode| row(&format!("{}{}", mode.name, mode.arguments), mode.about));
    page.push_str(&table(&["`--mode`", "what a new document does to the stored one"], &modes.collect::<Vec<_>>()));
    for (option, heading) in OPTIONS {
        page.push_str(&format!("\n## {heading}\n\n"));
        let column = format!("`--{option}`");
        page.push_str(&table(&[column.as_str(), "meaning"], &values(option)));
    }
    page.push_str("\n## Reasons of rejects\n\n");
    let reasons: Vec<_> = REASONS.iter().map(|reason| row(reason.code(), reason.about())).collect();
    page.push_str(&table(&["reason", "why a document is rejected"], &reasons));
    page.push_str("\n## Events\n\n");
    fill(
        &mut page,
        "",
        "With `--progress json`, everything on stderr is a line of JSON: an event, whose member `event` is its name, or an \
         error. New names and members may come; skip those that you do not know. If nobody reads stderr any more, the \
         command ends as after SIGTERM, because the program that started it is gone.",
    );
    page.push('\n');
    // These texts are Markdown already.
    let events: Vec<_> = EVENTS.iter().map(|(name, about)| vec![format!("`{name}`"), (*about).to_owned()]).collect();
    page + &table(&["`event`", "what happened, and the members that say more"], &events)
}

/// The values that an option of `load` has.
fn values(option: &str) -> Vec<Vec<String>> {
    let root = Args::command();
    let load = root.find_subcommand("load").expect("there is a command load");
    let arg = load.get_arguments().find(|arg| arg.get_long() == Some(option)).expect("load has the option");
    let values = arg.get_possible_values();
    assert!(!values.is_empty(), "--{option} has no list of values");
    let about = |value: &clap::builder::PossibleValue| value.get_help().map(ToString::to_string).unwrap_or_default();
    values.iter().filter(|value| !value.is_hide_set()).map(|value| row(value.get_name(), &about(value))).collect()
}

fn row(word: &str, about: &str) -> Vec<String> {
    vec![format!("`{word}`"), escaped(about)]
}
