//! Keeps the server up: starts it again when it dies.

use crate::limits::{KEEPER_LOOK, KEEPER_LOOKS_MAX, KEEPER_RESTARTS_MAX};
use crate::options::LocalOptions;
use crate::server::{restart, status};
use millstream_host::wait_until;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::task::JoinHandle;

/// Starts the server again when it dies, until this is dropped. A server that was asked to stop stays down.
#[derive(Debug)]
pub struct Keeper {
    options: LocalOptions,
    task: JoinHandle<()>,
    /// It was started again since this was last asked.
    restarted: Arc<AtomicBool>,
}

impl Keeper {
    /// Begins to watch. `report` gets lines for the user.
    pub fn watch(options: &LocalOptions, report: fn(&str)) -> Self {
        let restarted = Arc::default();
        let task = tokio::spawn(keep_up(options.clone(), report, Arc::clone(&restarted)));
        Self { options: options.clone(), task, restarted }
    }

    /// Whether work that failed is worth another try, because the server died and runs again. Waits for it.
    pub async fn revived(&self) -> bool {
        // If the server keeps running, the work failed for another reason.
        let mut looks_left = KEEPER_LOOKS_MAX;
        let revived = wait_until(Duration::MAX, KEEPER_LOOK, || {
            let over = self.task.is_finished() || looks_left == 0;
            looks_left -= u32::from(!over && status(&self.options).is_ok_and(|it| it.running.is_some()));
            let restarted = self.restarted.swap(false, Ordering::SeqCst);
            (restarted || over).then_some(restarted)
        });
        revived.await.unwrap_or(false)
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn keep_up(options: LocalOptions, report: fn(&str), restarted: Arc<AtomicBool>) {
    let mut port = status(&options).ok().and_then(|status| status.running).map(|server| server.port);
    for number in 1..=KEEPER_RESTARTS_MAX {
        wait_until(Duration::MAX, KEEPER_LOOK, || has_died(&options).then_some(())).await;
        match restart(&options, &mut |line| report(line)).await {
            Ok(Some(server)) => {
                let old = port.replace(server.port).filter(|old| *old != server.port);
                let count = format!("{number} of {KEEPER_RESTARTS_MAX}");
                report(&format!("warning: the local server had died and was started again ({count})"));
                if let Some(old) = old {
                    report(&format!(
                        "warning: another program has taken port {old}, so the server is on port {} now, and this command \
                         cannot follow it: press Ctrl-C twice and run it again",
                        server.port
                    ));
                }
                restarted.store(true, Ordering::SeqCst);
            }
            Ok(None) => {
                return report("the local server was stopped; start it with: millstream db start");
            }
            Err(error) => report(&format!("warning: the local server has died and cannot be started: {error}")),
        }
    }
}

/// Whether there is a server that should run and does not.
fn has_died(options: &LocalOptions) -> bool {
    status(options).is_ok_and(|status| status.major.is_some() && status.phase.is_none())
}
