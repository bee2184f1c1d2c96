//! The command line: what every command shares, and how a wrong one is explained.

use crate::commands::Command;
use crate::exit::Exit;
use crate::failure::{self, Failure};
use crate::output::Format;
use crate::secret::masked;
use clap::builder::RangedU64ValueParser;
use std::ffi::OsString;
use std::io::Write;
use std::time::Duration;

/// Columns that help fits, also on a wider terminal.
const HELP_WIDTH: usize = 80;

/// Place of `--output` among the flags: behind the command's own, before `--help`.
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
  1    done, but there is something to look at: rejects, a missed index
  2    the user, the configuration or the database stood in the way
  70   a bug in millstream
  129  SIGHUP: the terminal was closed (not under nohup)
  130  Ctrl-C
  143  SIGTERM";

/// Puts JSON documents into PostgreSQL at full speed, keeps them queryable, loses nothing.
///
/// Data goes to stdout; the target, progress and errors go to stderr.
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
    /// Form of the data on stdout: text or json; with json an error is one line of JSON on stderr
    #[arg(
        long,
        global = true,
        value_name = "FORMAT",
        default_value = "text",
        hide_possible_values = true,
        display_order = OUTPUT_ORDER
    )]
    pub output: Format,

    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Where a command works.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Target")]
pub struct TargetArgs {
    /// Database to work on, as postgres://USER@HOST:PORT/DB or "host=.. dbname=.."
    /// [default: MILLSTREAM_DB, then DATABASE_URL, then the local server]
    ///
    /// A password is better kept in ~/.pgpass, PGPASSWORD or one of the variables: command lines
    /// can be read by other users of the machine.
    #[arg(long, value_name = "URL")]
    pub db: Option<String>,

    /// Schema of Millstream's own tables [default: MILLSTREAM_SCHEMA, then millstream]
    #[arg(long, value_name = "NAME")]
    pub schema: Option<String>,
}

/// The words of the command line; `help COMMAND` is read as `COMMAND --help`.
pub fn typed(mut words: Vec<OsString>) -> Vec<OsString> {
    if words.get(1).is_some_and(|word| word == "help") {
        words.remove(1);
        words.push("--help".into());
    }
    words
}

/// Whether `--output json` is among the words, which has to be known also where they are wrong.
pub fn asks_for_json(words: &[OsString]) -> bool {
    let words = words.iter().take_while(|word| *word != "--");
    let pairs = words.clone().zip(words.clone().skip(1));
    pairs.into_iter().any(|(flag, value)| flag == "--output" && value == "json")
        || words.into_iter().any(|word| word == "--output=json")
}

/// Prints help and version on stdout, a wrong command line on stderr.
pub fn explain(error: &clap::Error) -> std::process::ExitCode {
    if !error.use_stderr() {
        // A reader that has gone is no error.
        let _ = error.print();
        return Exit::Done.into();
    }
    if failure::prints_as_json() {
        wrong_use(&error.render().to_string()).print();
        return Exit::Error.into();
    }
    let text = error.render();
    let shown = if coloured() { text.ansi().to_string() } else { text.to_string() };
    let _ = std::io::stderr().write_all(masked(&shown).as_bytes());
    Exit::Error.into()
}

/// What clap says of a wrong command line, as a failure: its first lines, and its tips and the usage as the way out.
fn wrong_use(text: &str) -> Failure {
    let (problem, rest) = text.split_once("\n\n").unwrap_or((text, ""));
    let problem = problem.trim_start_matches("error: ").split_whitespace().collect::<Vec<_>>().join(" ");
    let rest: Vec<&str> = rest.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    Failure::user(problem).hint(rest.join("; "))
}

/// Whether stderr is a terminal that knows colours, and nobody asked for none: <https://no-color.org>.
fn coloured() -> bool {
    let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let knows = set("TERM").is_some_and(|term| term != "dumb");
    std::io::IsTerminal::is_terminal(&std::io::stderr()) && knows && set("NO_COLOR").is_none()
}

/// A number of connections that work side by side.
pub fn workers(max: usize) -> RangedU64ValueParser<usize> {
    RangedU64ValueParser::new().range(1..=max as u64)
}

/// A time such as `30s`, `500ms` or `5m`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let number = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit_ms = match &text[number.len()..] {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err("expected a number with ms, s, m or h, as in 30s".into()),
    };
    if number.trim_start_matches('0').is_empty() {
        return Err("expected more than nothing, as in 30s".into());
    }
    let count: u64 = number.parse().map_err(|_| "expected a whole number with its unit, as in 30s")?;
    count.checked_mul(unit_ms).map(Duration::from_millis).ok_or_else(|| "that is too long".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn every_command(command: &clap::Command, found: &mut Vec<clap::Command>) {
        for sub in command.get_subcommands() {
            found.push(sub.clone());
            every_command(sub, found);
        }
    }

    #[test]
    fn the_command_line_holds_together() {
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
