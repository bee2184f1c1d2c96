//! nft, asked about the filter of this host.

use crate::limits::{NFT_MAX, RULES_BYTES_MAX, TABLE_BYTES_MAX};
use millstream_host::{Command, Ended, Error};
use millstream_model::Refusal;

/// Gives nft a script.
///
/// # Errors
/// It is missing, late or refuses, or this account may not change the filter.
pub(crate) async fn load(script: String) -> Result<(), Refusal> {
    ended(&["-f", "-"], script).await?.succeeded()?;
    Ok(())
}

/// What nft answers about a table, a set or its elements. `None`: there is none.
///
/// # Errors
/// As [`load`]; or it prints too much.
pub(crate) async fn asked(args: &[&str]) -> Result<Option<String>, Refusal> {
    let ended = ended(args, String::new()).await?;
    // The second is said of intervals.
    if ["No such file or directory", "element does not exist"].iter().any(|none| ended.stderr.contains(none)) {
        return Ok(None);
    }
    Ok(Some(ended.succeeded()?.stdout))
}

async fn ended(args: &[&str], input: String) -> Result<Ended, Refusal> {
    let most = if args.contains(&"ruleset") { RULES_BYTES_MAX } else { TABLE_BYTES_MAX };
    let ended = printed("nft", args, input, most).await?;
    if ended.stderr.contains("Operation not permitted") {
        return Err(Refusal::new("only root can read and change the filter of this host"));
    }
    Ok(ended)
}

/// Runs a program that prints rules, at most so many bytes of them.
///
/// # Errors
/// It is missing or late, or prints more.
pub(crate) async fn printed(program: &str, args: &[&str], input: String, most: u64) -> Result<Ended, Refusal> {
    let ended = Command::new(program).args(args).input(input).output_max(most).run(NFT_MAX).await;
    ended.map_err(|error| match error {
        Error::TooMuch { .. } => {
            let mebibytes = most >> 20;
            Refusal::new(format!("{program} prints more than {mebibytes} MiB of rules, and so many are not read"))
                .hint("move what the rules list, such as addresses, into sets of nft or ipset")
        }
        error => error.into(),
    })
}
