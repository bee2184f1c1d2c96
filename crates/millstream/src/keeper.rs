//! Keeps the local server up under a command that takes long.

use crate::args::TargetArgs;
use crate::limits::{LOCAL_LOOK_EVERY, LOCAL_LOOKS_MAX, LOCAL_RESTARTS_MAX};
use crate::output::note;
use crate::target;
use millstream_engine::Error;
use millstream_local::LocalOptions;
use millstream_pg::retry_delay;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Starts the local server again when it dies, until dropped; does nothing for any other target.
#[derive(Debug)]
pub struct Keeper {
    task: Option<JoinHandle<()>>,
    restarts: watch::Receiver<u32>,
}

impl Keeper {
    /// Begins to watch.
    pub fn watch(args: &TargetArgs) -> Self {
        let (restarted, restarts) = watch::channel(0);
        Self { task: target::is_local_server(args).then(|| tokio::spawn(keep_up(restarted))), restarts }
    }

    /// Whether a command that failed is worth another try, because the server has died and is up again. Waits for it.
    pub async fn revived(&mut self, error: &Error) -> bool {
        let Some(task) = self.task.as_ref().filter(|_| retry_delay(1, error.kind()).is_some()) else { return false };
        // A server that runs, and goes on running, has failed in some other way.
        let mut looks_left = LOCAL_LOOKS_MAX;
        while !self.restarts.has_changed().unwrap_or(false) {
            let runs = millstream_local::status(&LocalOptions::default()).is_ok_and(|status| status.running.is_some());
            looks_left -= u32::from(runs);
            if task.is_finished() || looks_left == 0 {
                return false;
            }
            tokio::time::sleep(LOCAL_LOOK_EVERY).await;
        }
        self.restarts.mark_unchanged();
        true
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

async fn keep_up(restarted: watch::Sender<u32>) {
    for restart in 1..=LOCAL_RESTARTS_MAX {
        while !has_died() {
            tokio::time::sleep(LOCAL_LOOK_EVERY).await;
        }
        // On a thread of its own: what it tells goes through a closure that cannot change threads.
        let handle = tokio::runtime::Handle::current();
        let restart_it =
            move || handle.block_on(millstream_local::restart(&LocalOptions::default(), &mut |line| note(line)));
        let Ok(restarted_now) = tokio::task::spawn_blocking(restart_it).await else { return };
        match restarted_now {
            Ok(Some(_)) => {
                note(&format!(
                    "warning: the local server had died and was started again ({restart} of {LOCAL_RESTARTS_MAX})"
                ));
                restarted.send_replace(restart);
            }
            Ok(None) => return note("the local server was stopped; start it with: millstream db start"),
            Err(error) => note(&format!("warning: the local server has died and cannot be started: {error}")),
        }
    }
}

/// Whether there is a server that should run and does not.
fn has_died() -> bool {
    millstream_local::status(&LocalOptions::default())
        .is_ok_and(|status| status.major.is_some() && status.phase.is_none())
}
