//! Housekeeping commands of the workspace, run as `cargo xtask COMMAND`.

mod arrows;
mod dist;
mod fuzz;
mod lines;
mod paths;
mod pieces;
mod tidy;
mod tree;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

/// A command of `cargo xtask`.
struct Command {
    name: &'static str,
    about: &'static str,
    run: fn() -> Result<ExitCode, String>,
}

/// Every command, in the order of the help.
const COMMANDS: &[Command] = &[
    Command { name: "tidy", about: "check the house rules; exit 1 when one is broken", run: tidy::command },
    Command { name: "rules", about: "list the house rules that tidy checks", run: tidy::list },
    Command {
        name: "fuzz",
        about: "search for inputs that break a fuzz target: [TARGET..] [--seconds N for each]; exit 1 when one does",
        run: fuzz::command,
    },
    Command {
        name: "lines",
        about: "count source lines by crate, without tests, blanks and comments",
        run: lines::command,
    },
    Command { name: "wheel", about: "make the Python wheel in target/packages: [--target TRIPLE]", run: dist::wheel },
    Command {
        name: "deb",
        about: "make the Debian package in target/packages: [--target TRIPLE] [--revision N]",
        run: dist::deb,
    },
    Command {
        name: "dist",
        about: "make every package with checksums and the list of components, as deb does: twice the same bytes",
        run: dist::dist,
    },
    Command { name: "help", about: "show this list", run: help },
];

fn main() -> ExitCode {
    let name = std::env::args().nth(1).unwrap_or_else(|| "help".to_owned());
    let name = if matches!(name.as_str(), "-h" | "--help") { "help" } else { &name };
    let outcome = match COMMANDS.iter().find(|command| command.name == name) {
        Some(command) => (command.run)(),
        None => Err(format!("no command \"{name}\"\n  hint: cargo xtask help lists the commands")),
    };
    outcome.unwrap_or_else(|error| {
        // If stderr is gone too, there is nothing left to do.
        let _ = writeln!(std::io::stderr(), "error: {error}");
        ExitCode::from(2)
    })
}

fn help() -> Result<ExitCode, String> {
    let mut text = String::from("usage: cargo xtask COMMAND\n\n");
    for command in COMMANDS {
        text.push_str(&format!("  {:<8}{}\n", command.name, command.about));
    }
    say(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes to standard output. It is not a failure if the reader has closed it.
fn say(text: &str) -> Result<(), String> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(format!("cannot write to standard output: {error}"))
        }
        _ => Ok(()),
    }
}

/// The root of the workspace this binary was built from.
fn workspace_root() -> PathBuf {
    let manifest =
        std::env::var_os("CARGO_MANIFEST_DIR").map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest.parent().map_or_else(|| manifest.clone(), PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::COMMANDS;

    #[test]
    fn command_names_are_unique() {
        let mut names: Vec<_> = COMMANDS.iter().map(|command| command.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), COMMANDS.len());
    }
}
