//! Work that says why it stands still, and that the first signal interrupts or asks to stop.

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::note;
use crate::progress::{Counts, Printer, Progress, ProgressChoice};
use crate::signal::Signals;
use millstream_engine::limits::{STANDSTILL_AFTER, STOP_WAIT};
use millstream_pg::standstill::{Patience, attend};
use millstream_pg::{ConnInfo, Standstill};
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use tokio::task::{JoinHandle, spawn_blocking};

/// Does `work`, which reads with sessions of `db`. If they wait for a lock, says who holds it.
pub async fn attended<T>(db: &ConnInfo, say: impl Fn(&str), work: impl Future<Output = T>) -> T {
    let say = |_: u64, standstill: Standstill| {
        // A long answer is no standstill.
        if matches!(standstill, Standstill::Lock { .. }) {
            say(&format!("waits: {standstill}"));
        }
    };
    // A statement begins a moment after its command.
    let patience = Patience { after: STANDSTILL_AFTER, statement: STANDSTILL_AFTER / 2 };
    attend(db, patience, || 0, say, work).await
}

/// Does `work` with sessions of `db`, and says why if it stands still. The first signal cancels their statements; what
/// is not committed is rolled back. Returns the exit then.
pub async fn interruptible<T>(signals: &Signals, db: &ConnInfo, work: impl Future<Output = T>) -> Result<T, Exit> {
    let say = |_: u64, standstill: Standstill| note(&format!("waits: {standstill}"));
    let patience = Patience { after: STANDSTILL_AFTER, statement: STANDSTILL_AFTER };
    // Not dropped before the statements are cancelled: the roster forgets a session that is dropped.
    let mut work = pin!(attend(db, patience, || 0, say, work));
    signals.cancel_sessions_of(db);
    tokio::select! {
        biased;
        exit = signals.stop_asked() => {
            db.roster.cancel().await;
            Err(exit)
        }
        done = &mut work => Ok(done),
    }
}

/// Work that is being watched: its progress is shown, and the first signal asks it to stop.
pub struct Watched {
    progress: Progress,
    stopped: Arc<OnceLock<Exit>>,
    watch: JoinHandle<()>,
}

impl Watched {
    /// Starts watching. `stop` asks the work to stop.
    pub fn start(
        choice: ProgressChoice,
        counts: Arc<impl Counts>,
        signals: &Signals,
        stop: impl FnOnce() + Send + 'static,
    ) -> Self {
        let stopped = Arc::new(OnceLock::new());
        // Before the work begins, which a first signal must not break off.
        let (stop_asked, asked) = (signals.stop_asked(), Arc::clone(&stopped));
        let watch = tokio::spawn(async move {
            let _ = asked.set(stop_asked.await);
            stop();
            note("stopping; a second signal stops at once");
        });
        Self { progress: Progress::start(choice, counts), stopped, watch }
    }

    /// Prints lines beside the progress.
    pub fn printer(&self) -> Printer {
        self.progress.printer()
    }

    /// Does the work on a thread that may block. Returns its result, and the exit that a signal has asked for.
    pub async fn run<T: Send + 'static>(
        self,
        what: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<(T, Option<Exit>), Failure> {
        let done = spawn_blocking(work).await;
        let stopped = self.finish();
        let done = done.map_err(|error| Failure::bug(format!("{what} did not end")).because(&error))?;
        Ok((done, stopped))
    }

    /// Ends watching. Returns the exit that a signal has asked for.
    pub fn finish(self) -> Option<Exit> {
        self.watch.abort();
        self.progress.finish();
        self.stopped.get().copied()
    }
}

/// Cleans up after an interruption, as far as that is quick and no second signal comes.
pub async fn clean_up(signals: &Signals, work: impl Future<Output = ()>) {
    tokio::select! {
        () = work => {}
        () = signals.hurried() => {}
        () = tokio::time::sleep(STOP_WAIT) => {}
    }
}
