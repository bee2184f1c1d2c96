//! `self completions`: what a shell needs to complete the words of a command line.

use crate::args::one_of;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use clap_complete::Shell;
use serde_json::json;

const EXAMPLES: &str = "\
Examples:
  millstream self completions bash > millstream.bash
  millstream self completions zsh > _millstream
  millstream self completions fish > millstream.fish";

/// Shells, each with the place where it looks for such a file.
const SHELLS: [(Shell, &str, &str); 5] = [
    (Shell::Bash, "bash", "~/.local/share/bash-completion/completions/millstream, or any file that ~/.bashrc sources"),
    (Shell::Elvish, "elvish", "a file that ~/.config/elvish/rc.elv evaluates"),
    (Shell::Fish, "fish", "~/.config/fish/completions/millstream.fish"),
    (Shell::PowerShell, "powershell", "a file that $PROFILE sources"),
    (Shell::Zsh, "zsh", "_millstream in a directory of $fpath"),
];

/// Print what a shell needs to complete millstream's commands and options
///
/// Write it to the file from which your shell reads such a script. The Debian package brings those of bash, fish and
/// zsh.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct CompletionsArgs {
    /// The shell; each stands here with the file from which it reads such a script
    #[arg(value_name = "SHELL", value_parser = one_of(SHELLS))]
    shell: Shell,
}

/// Runs the command.
pub fn run(args: &CompletionsArgs, output: Output, mut definition: clap::Command) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut definition, "millstream", &mut script);
    let script =
        String::from_utf8(script).map_err(|error| Failure::bug("the completions are not UTF-8").because(&error))?;
    if output.is_json() {
        output.json(&json!({ "shell": args.shell.to_string(), "script": script }))?;
    } else {
        output.data(&script)?;
    }
    Ok(Exit::Done)
}
