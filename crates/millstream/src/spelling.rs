//! How the command line spells the options and commands that messages of the libraries name.

use millstream_model::words::{self, Spelling};

/// Lets messages name options and commands as they are typed here.
pub fn install() {
    words::spell(Spelling {
        option: |name, value| match value {
            Some(value) => format!("--{name} {value}"),
            None => format!("--{name}"),
        },
        command: |words| format!("millstream {words}"),
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::changes::KINDS;
    use crate::command_line::Args;
    use clap::{Command, CommandFactory};
    use std::collections::BTreeSet;
    use std::path::Path;

    /// Every option that a command has, with those of the commands below it.
    fn options(command: &Command, found: &mut BTreeSet<String>) {
        found.extend(command.get_arguments().filter_map(|argument| argument.get_long()).map(str::to_owned));
        command.get_subcommands().for_each(|below| options(below, found));
    }

    /// The first words that a call of one of these functions begins with, in all sources of the libraries.
    fn named(functions: &[&str]) -> BTreeSet<String> {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let beside = std::fs::read_dir(here.join("..")).unwrap().map(|entry| entry.unwrap().path());
        let mut dirs: Vec<_> = beside.filter(|dir| dir.file_name() != here.file_name()).collect();
        let mut found = BTreeSet::new();
        while let Some(dir) = dirs.pop() {
            for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
                let path = entry.path();
                if path.is_dir() && entry.file_name() != "tests" {
                    dirs.push(path);
                } else if path.extension().is_some_and(|kind| kind == "rs") {
                    let text = std::fs::read_to_string(path).unwrap();
                    let text = text.split("#[cfg(test)]").next().unwrap();
                    for function in functions {
                        let call = format!("{function}(\"");
                        let calls = text.split(&call).skip(1);
                        found.extend(calls.filter_map(|call| Some(call.split_once('"')?.0.to_owned())));
                    }
                }
            }
        }
        found
    }

    #[test]
    fn every_option_that_a_message_names_is_there() {
        let mut there = BTreeSet::new();
        let mut command = Args::command();
        command.build();
        options(&command, &mut there);
        let named = named(&[" option", "(option", " set", "(set"]);
        assert!(named.len() > 20, "{named:?}");
        let missing: Vec<_> = named.difference(&there).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }

    #[test]
    fn every_command_that_a_message_names_is_there() {
        let named = named(&[" command", "(command", " command(format!", "(command(format!"]);
        assert!(named.len() > 10, "{named:?}");
        let rooms: BTreeSet<_> = KINDS.iter().map(|kind| kind.commands()).collect();
        let each = |words: &String| rooms.iter().map(|room| words.replace("{room}", room)).collect::<BTreeSet<_>>();
        for words in named.iter().flat_map(each) {
            let mut command = Args::command();
            for word in words.split(' ') {
                let Some(below) = command.find_subcommand(word) else {
                    let is_command = word.bytes().all(|one| one.is_ascii_lowercase() || one == b'-');
                    assert!(!command.has_subcommands() || !is_command, "{words}");
                    break;
                };
                command = below.clone();
            }
            assert!(command.get_name() != Args::command().get_name(), "{words}");
        }
    }

    #[test]
    fn options_and_commands_are_spelled_as_they_are_typed() {
        install();
        assert_eq!(words::option("lanes").to_string(), "--lanes");
        assert_eq!(words::set("resume", "off").to_string(), "--resume off");
        assert_eq!(words::command("db start").to_string(), "millstream db start");
    }
}
