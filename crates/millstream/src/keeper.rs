//! Keeps the local server up under a command that takes long.

use crate::args::TargetArgs;
use crate::output::note;
use crate::target;
use millstream_local::LocalOptions;
use millstream_pg::{ErrorKind, may_pass};

/// Starts the local server again when it dies, until dropped; does nothing for any other target.
#[derive(Debug)]
pub struct Keeper(Option<millstream_local::Keeper>);

impl Keeper {
    /// Starts watching.
    pub fn watch(args: &TargetArgs) -> Self {
        let keep = || millstream_local::Keeper::watch(&LocalOptions::default(), note);
        Self(target::is_local_server(args).then(keep))
    }

    /// Whether a failed command should run again, because the server died and was started again. Waits until it runs.
    pub async fn revived(&self, failure: ErrorKind) -> bool {
        match &self.0 {
            Some(keeper) if may_pass(failure) => keeper.revived().await,
            _ => false,
        }
    }
}
