//! Keeps the local server up under a command that takes long.

use crate::args::TargetArgs;
use crate::limits::{LOCAL_LOOK_EVERY, LOCAL_LOOKS_MAX, LOCAL_RESTARTS_MAX};
use crate::output::note;
use crate::target;
use millstream_local::LocalOptions;
use millstream_pg::{ErrorKind, may_pass};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Starts the local server again when it dies, until dropped; does nothing for any other target.
#[derive(Debug)]
pub struct Keeper {
    task: Option<JoinHandle<()>>,
    state: watch::Receiver<State>,
    /// Restarts that were reported.
    seen: u32,
}

/// What the keeper did, and does.
#[derive(Debug, Clone, Copy, Default)]
struct State {
    restarts: u32,
    /// The server has died and is being started.
    starting: bool,
}

impl Keeper {
    /// Begins to watch.
    pub fn watch(args: &TargetArgs) -> Self {
        let (sender, state) = watch::channel(State::default());
        Self { task: target::is_local_server(args).then(|| tokio::spawn(keep_up(sender))), state, seen: 0 }
    }

    /// Whether a command that failed is worth another try, because the server died and runs again. Waits for it.
    pub async fn revived(&mut self, failure: ErrorKind) -> bool {
        let Some(task) = self.task.as_ref().filter(|_| may_pass(failure)) else { return false };
        // If the server keeps running, the command failed for another reason.
        let mut looks_left = LOCAL_LOOKS_MAX;
        loop {
            let State { restarts, starting } = *self.state.borrow();
            if restarts > self.seen {
                self.seen = restarts;
                return true;
            }
            let runs = || millstream_local::status(&LocalOptions::default()).is_ok_and(|it| it.running.is_some());
            looks_left -= u32::from(!starting && runs());
            if task.is_finished() || looks_left == 0 {
                return false;
            }
            tokio::time::sleep(LOCAL_LOOK_EVERY).await;
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

async fn keep_up(state: watch::Sender<State>) {
    for restart in 1..=LOCAL_RESTARTS_MAX {
        while !has_died() {
            tokio::time::sleep(LOCAL_LOOK_EVERY).await;
        }
        state.send_modify(|state| state.starting = true);
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
                state.send_replace(State { restarts: restart, starting: false });
            }
            Ok(None) => return note("the local server was stopped; start it with: millstream db start"),
            Err(error) => {
                note(&format!("warning: the local server has died and cannot be started: {error}"));
                state.send_modify(|state| state.starting = false);
            }
        }
    }
}

/// Whether there is a server that should run and does not.
fn has_died() -> bool {
    millstream_local::status(&LocalOptions::default())
        .is_ok_and(|status| status.major.is_some() && status.phase.is_none())
}
