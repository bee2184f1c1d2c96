//! Work that the first signal interrupts, and that says why if it stands still.

use crate::exit::Exit;
use crate::output::note;
use crate::signal::Signals;
use millstream_engine::limits::{STANDSTILL_AFTER, STOP_WAIT};
use millstream_pg::standstill::{Patience, attend};
use millstream_pg::{ConnInfo, Standstill};
use std::pin::pin;

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

/// Cleans up after an interruption, as far as that is quick and no second signal comes.
pub async fn clean_up(signals: &Signals, work: impl Future<Output = ()>) {
    tokio::select! {
        () = work => {}
        () = signals.hurried() => {}
        () = tokio::time::sleep(STOP_WAIT) => {}
    }
}
