//! nft, asked about the filter of this host.

use crate::limits::NFT_MAX;
use millstream_host::{Command, Ended};
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
/// As [`load`].
pub(crate) async fn asked(args: &[&str]) -> Result<Option<String>, Refusal> {
    let ended = ended(args, String::new()).await?;
    // The second is said of intervals.
    if ["No such file or directory", "element does not exist"].iter().any(|none| ended.stderr.contains(none)) {
        return Ok(None);
    }
    Ok(Some(ended.succeeded()?.stdout))
}

async fn ended(args: &[&str], input: String) -> Result<Ended, Refusal> {
    let ended = Command::new("nft").args(args).input(input).run(NFT_MAX).await?;
    if ended.stderr.contains("Operation not permitted") {
        return Err(Refusal::new("only root can read and change the filter of this host"));
    }
    Ok(ended)
}
