//! nft, asked about the filter of this host.

use crate::limits::NFT_MAX;
use millstream_host::Command;
use millstream_model::Refusal;

/// Runs nft with an input. `None`: it says that there is no such table or set.
///
/// # Errors
/// It is missing, late or refuses, or this account may not ask.
pub(crate) async fn nft(args: &[&str], input: impl Into<Vec<u8>>) -> Result<Option<String>, Refusal> {
    let ended = Command::new("nft").args(args).input(input).run(NFT_MAX).await?;
    if ended.stderr.contains("No such file or directory") {
        return Ok(None);
    }
    if ended.stderr.contains("Operation not permitted") {
        return Err(Refusal::new("only root can read and change the filter of this host"));
    }
    Ok(Some(ended.succeeded()?.stdout))
}

/// What nft lists.
///
/// # Errors
/// As [`nft`].
pub(crate) async fn listed(args: &[&str]) -> Result<Option<String>, Refusal> {
    nft(args, Vec::new()).await
}
