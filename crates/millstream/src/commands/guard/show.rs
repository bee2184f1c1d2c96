//! `guard show`: the rules of a policy.

use super::PolicyArg;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;
use millstream_guard::prove::json;
use millstream_guard::rules::Rules;

/// Print the rules of a policy, for nft or iptables
///
/// All forms decide in the same way; millstream guard prove shows it.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  millstream guard show host.toml\n  millstream guard show examples/guard/host.toml --as iptables > host.sh"
)]
pub struct ShowArgs {
    #[command(flatten)]
    policy: PolicyArg,

    /// Form of the rules: nft (a script for nft -f), nft-json, or iptables (a shell script, to run with sh)
    ///
    /// The script for iptables replaces all rules of the tables raw and filter; that for nft replaces the table
    /// inet millstream alone.
    #[arg(long = "as", value_name = "FORM", value_parser = ["nft", "nft-json", "iptables"], default_value = "nft", hide_possible_values = true)]
    form: String,
}

/// Runs the command.
pub fn run(args: &ShowArgs, output: Output) -> Result<Exit, Failure> {
    let rules = Rules::of(&args.policy.read()?);
    let text = match args.form.as_str() {
        "nft-json" => json(&rules)?,
        "iptables" => rules.iptables(),
        _ => {
            rules.fit_nft()?;
            rules.nft()
        }
    };
    output.data(&text)?;
    Ok(Exit::Done)
}
