//! The whole command line, and what is printed if it is wrong.

use crate::commands::Command;
use crate::exit::Exit;
use crate::failure::{self, Failure};
use crate::key_values;
use crate::output::Output;
use crate::screen;
use crate::secret::masked;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser};
use millstream_model::nearest;
use std::ffi::OsString;
use std::io::Write;

/// Most columns of the help, also on a wider terminal.
const HELP_WIDTH: usize = 80;

/// Place of `--output` among the flags: after the command's own, before `--help`.
const OUTPUT_ORDER: usize = 900;

const EXAMPLES: &str = "\
Examples:
  millstream load events.ndjson --into events --key id
  millstream collections
  millstream get cities 2950159
  millstream loads --output json
  millstream help load

Exit codes:
  0    done
  1    done, and there is something to look at, such as rejects, a missing
       key, a difference, a finding, or a query that no index serves
  2    an error: change the command, the configuration or the database
  70   a bug in millstream
  129  SIGHUP: the terminal was closed (ignored under nohup)
  130  Ctrl-C
  143  SIGTERM";

/// Load JSON documents into PostgreSQL at full speed
///
/// Millstream loads documents into plain tables, under a key you name, and accounts for every document. Data
/// goes to stdout; the target, progress and errors go to stderr.
#[derive(Debug, clap::Parser)]
#[command(
    name = "millstream",
    version,
    max_term_width = HELP_WIDTH,
    after_help = EXAMPLES,
    arg_required_else_help = true,
    disable_help_subcommand = true
)]
pub struct Args {
    /// Format of the data on stdout: text or json; with json, an error is one line of JSON on stderr
    #[arg(
        long,
        global = true,
        value_name = "FORMAT",
        default_value = "text",
        hide_possible_values = true,
        display_order = OUTPUT_ORDER
    )]
    pub output: Output,

    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The words of the command line; `help COMMAND` is read as `COMMAND --help`. Keys of `get` may begin like flags.
pub fn typed(mut words: Vec<OsString>) -> Vec<OsString> {
    if words.get(1).is_some_and(|word| word == "help") {
        words.remove(1);
        words.push("--help".into());
    }
    let global = ["--output", "--output=text", "--output=json", "text", "json"];
    let before = words.iter().skip(1).take_while(|word| global.iter().any(|flag| *word == flag)).count();
    if words.get(before + 1).is_some_and(|word| word == "get") {
        let keys = words.iter_mut().skip(before + 2).take_while(|word| word.as_os_str() != "--");
        keys.for_each(key_values::mark);
    }
    words
}

/// Whether `--output json` is among the words. This must be known even if the command line is wrong.
pub fn asks_for_json(words: &[OsString]) -> bool {
    asks(words, "--output")
}

/// Whether `--progress json` is among the words. This must be known before the first message.
pub fn asks_for_lines(words: &[OsString]) -> bool {
    asks(words, "--progress")
}

/// Whether an option is among the words with the value `json`.
fn asks(words: &[OsString], option: &str) -> bool {
    let words = words.iter().take_while(|word| *word != "--");
    let pairs = words.clone().zip(words.clone().skip(1));
    let together = format!("{option}=json");
    pairs.into_iter().any(|(flag, value)| flag == option && value == "json")
        || words.into_iter().any(|word| *word == *together)
}

/// Prints help and version on stdout, a wrong command line on stderr.
pub fn explain(error: clap::Error, words: &[OsString]) -> std::process::ExitCode {
    // Clap puts words into coloured text as they are, and drops escape sequences from plain text. So it is given the words
    // as they are printed.
    let shown = words.iter().map(|word| screen::visible(&word.to_string_lossy()));
    let visible = Args::try_parse_from(shown).err().filter(|visible| visible.kind() == error.kind());
    let is_coloured = visible.is_some() && coloured();
    let mut error = visible.unwrap_or(error);
    name_option(&mut error, words);
    if !error.use_stderr() {
        // It is not an error if the reader has closed stdout.
        let _ = error.print();
        return Exit::Done.into();
    }
    if failure::prints_as_json() {
        wrong_use(&error.render().to_string()).print();
        return Exit::Error.into();
    }
    let text = error.render();
    if is_coloured {
        screen::print_coloured(&masked(&text.ansi().to_string()));
    } else {
        // If stderr is closed, nobody can read the text.
        let _ = screen::stderr().write_all(masked(&text.to_string()).as_bytes());
    }
    Exit::Error.into()
}

/// Names the option that was probably meant, if clap does not: for its measure, a short word has nothing in common with one in
/// which two letters are swapped.
fn name_option(error: &mut clap::Error, words: &[OsString]) {
    let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidArg) else { return };
    if error.kind() != ErrorKind::UnknownArgument || error.get(ContextKind::SuggestedArg).is_some() {
        return;
    }
    let mut program = Args::command();
    program.build();
    let before = words.iter().take_while(|word| !word.to_string_lossy().starts_with(unknown.as_str()));
    let command = before.fold(&program, |command, word| command.find_subcommand(word).unwrap_or(command));
    let options = command.get_arguments().filter(|option| !option.is_hide_set()).filter_map(clap::Arg::get_long);
    if let Some(option) = nearest(unknown.trim_start_matches('-'), options) {
        error.insert(ContextKind::SuggestedArg, ContextValue::String(format!("--{option}")));
        // That it may be a value.
        error.remove(ContextKind::Suggested);
    }
}

/// Clap's error for a wrong command line, as a failure: its first lines are the message, its tips and the usage are the
/// hint.
fn wrong_use(text: &str) -> Failure {
    let (problem, rest) = text.split_once("\n\n").unwrap_or((text, ""));
    let problem = problem.trim_start_matches("error: ").split_whitespace().collect::<Vec<_>>().join(" ");
    let rest: Vec<&str> = rest.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    Failure::user(problem).hint(rest.join("; "))
}

/// Whether stderr is a terminal with colours, and `NO_COLOR` is not set: <https://no-color.org>.
fn coloured() -> bool {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let knows = set("TERM").is_some_and(|term| term != "dumb");
    screen::stderr_columns().is_some() && knows && set("NO_COLOR").is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_command(command: &clap::Command, found: &mut Vec<clap::Command>) {
        for sub in command.get_subcommands() {
            found.push(sub.clone());
            every_command(sub, found);
        }
    }

    /// Commands of a shell line: what stands between `|`, `&&` and `||`, without redirections.
    fn commands(line: &str) -> Vec<Vec<OsString>> {
        let words = shlex::split(line).unwrap_or_else(|| panic!("not a shell line: {line}"));
        let commands = words.split(|word| ["|", "&&", "||"].contains(&word.as_str()));
        let command = |words: &[String]| {
            let words = words.iter().take_while(|word| ![">", ">>", "<", "2>"].contains(&word.as_str()));
            words.map(OsString::from).collect()
        };
        commands.map(command).collect()
    }

    #[test]
    fn every_command_in_readme_and_guides_is_right() {
        let mut seen = 0;
        for line in crate::guide_line::pages().into_iter().flat_map(|(_, lines, _)| lines) {
            for words in
                commands(&line.text).into_iter().filter(|words| words.first().is_some_and(|w| w == "millstream"))
            {
                seen += 1;
                if let Err(error) = Args::try_parse_from(typed(words)) {
                    assert!(!error.use_stderr(), "{}: {}\n{error}", line.at, line.text);
                }
            }
        }
        assert!(seen > 50, "the guides were not found");
    }

    #[test]
    fn keys_may_begin_like_flags() {
        for words in ["get t -5 3,1 -5,1 -.5 --count", "--output json get t -5 3,1 -5,1 --count -- -.5"] {
            let words = std::iter::once("millstream").chain(words.split(' ')).map(OsString::from).collect();
            let args = Args::try_parse_from(typed(words)).unwrap();
            let shown = format!("{:?}", args.command);
            assert!(shown.contains(r#"keys: ["-5", "3,1", "-5,1", "-.5"], count: true"#), "{shown}");
        }
        let flags = ["millstream", "get", "t", "-5", "-x"].map(OsString::from).to_vec();
        assert!(Args::try_parse_from(typed(flags)).is_err());
    }

    #[test]
    fn an_option_with_swapped_letters_is_named() {
        for (line, option) in [
            ("load x --kye id", Some("--key")),
            ("--output json load x --into t --kye=id", Some("--key")),
            ("load x --into t --moed merge", Some("--mode")),
            ("loads prune --older-than 1d --bd url", None),
            ("load x --zzz", None),
            // Before the command there are only options of all commands.
            ("--kye id load x", None),
        ] {
            let words: Vec<OsString> =
                std::iter::once("millstream").chain(line.split(' ')).map(OsString::from).collect();
            let mut error = Args::try_parse_from(&words).unwrap_err();
            name_option(&mut error, &words);
            let text = error.render().to_string();
            let named = text.split("tip: a similar argument exists: '").nth(1).and_then(|rest| rest.split('\'').next());
            assert_eq!(named, option, "{text}");
            assert!(option.is_none() || !text.contains("as a value"), "{text}");
        }
    }

    #[test]
    fn json_is_asked_for_before_the_words_are_checked() {
        let words = |line: &str| line.split(' ').map(OsString::from).collect::<Vec<_>>();
        for (line, output, progress) in [
            ("millstream load - --output json --progress=json", true, true),
            ("millstream load - --progress json --nonsense", false, true),
            ("millstream load --output text -- --progress json", false, false),
        ] {
            assert_eq!((asks_for_json(&words(line)), asks_for_lines(&words(line))), (output, progress), "{line}");
        }
    }

    #[test]
    fn the_command_line_definition_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn every_command_and_flag_is_explained_without_final_period() {
        let mut commands = Vec::new();
        every_command(&Args::command(), &mut commands);
        assert!(!commands.is_empty());
        for command in commands {
            let name = command.get_name();
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            assert!(!about.is_empty() && !about.ends_with('.'), "{name}: {about}");
            for arg in command.get_arguments() {
                let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
                assert!(!help.is_empty() && !help.ends_with('.'), "{name} {}", arg.get_id());
            }
        }
    }

    #[test]
    fn every_leaf_command_shows_an_example() {
        let mut commands = Vec::new();
        every_command(&Args::command(), &mut commands);
        for command in commands.iter().filter(|c| !c.has_subcommands()) {
            let name = command.get_name();
            let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(after.contains("Example") && after.contains(name), "{name} has no example");
            assert!(after.lines().all(|line| line.len() <= HELP_WIDTH), "{name}: too wide");
        }
    }
}
