//! Keeps the server up: starts it again when it dies.

use crate::limits::{KEEPER_LOOK, KEEPER_LOOKS_MAX, KEEPER_RESTARTS_MAX};
use crate::options::LocalOptions;
use crate::server::{restart, status};
use millstream_host::wait_until;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Starts the server again when it dies, until this is dropped. A server that was asked to stop stays down.
#[derive(Debug)]
pub struct Keeper {
    options: LocalOptions,
    task: JoinHandle<()>,
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
    /// Begins to watch. `report` gets lines for the user.
    pub fn watch(options: &LocalOptions, report: fn(&str)) -> Self {
        let (sender, state) = watch::channel(State::default());
        let task = tokio::spawn(keep_up(options.clone(), report, sender));
        Self { options: options.clone(), task, state, seen: 0 }
    }

    /// Whether work that failed is worth another try, because the server died and runs again. Waits for it.
    pub async fn revived(&mut self) -> bool {
        // If the server keeps running, the work failed for another reason.
        let mut looks_left = KEEPER_LOOKS_MAX;
        let revived = wait_until(Duration::MAX, KEEPER_LOOK, || {
            let State { restarts, starting } = *self.state.borrow();
            if restarts > self.seen {
                self.seen = restarts;
                return Some(true);
            }
            let runs = || status(&self.options).is_ok_and(|it| it.running.is_some());
            looks_left -= u32::from(!starting && runs());
            (self.task.is_finished() || looks_left == 0).then_some(false)
        });
        revived.await.unwrap_or(false)
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn keep_up(options: LocalOptions, report: fn(&str), state: watch::Sender<State>) {
    for number in 1..=KEEPER_RESTARTS_MAX {
        wait_until(Duration::MAX, KEEPER_LOOK, || has_died(&options).then_some(())).await;
        state.send_modify(|state| state.starting = true);
        match restart(&options, &mut |line| report(line)).await {
            Ok(Some(_)) => {
                report(&format!(
                    "warning: the local server had died and was started again ({number} of {KEEPER_RESTARTS_MAX})"
                ));
                state.send_replace(State { restarts: number, starting: false });
            }
            Ok(None) => return report("the local server was stopped; start it with: millstream db start"),
            Err(error) => {
                report(&format!("warning: the local server has died and cannot be started: {error}"));
                state.send_modify(|state| state.starting = false);
            }
        }
    }
}

/// Whether there is a server that should run and does not.
fn has_died(options: &LocalOptions) -> bool {
    status(options).is_ok_and(|status| status.major.is_some() && status.phase.is_none())
}
