//! How long what is in flight may take when a load ends before its sources do.

use crate::error::Error;
use crate::limits::SETTLE_WAIT;
use crate::stop::{Stop, StopReason};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};

/// Bounds what is in flight: it may be committed for a while after the end has begun, and is then cancelled.
#[derive(Debug, Clone)]
pub(crate) struct Drain {
    stop: Stop,
    /// When what is in flight is cancelled, once the engine ends for a reason of its own, such as too many rejects.
    early: watch::Sender<Option<Instant>>,
    longest: Duration,
}

impl Drain {
    pub(crate) fn new(stop: &Stop, longest: Duration) -> Self {
        Self { stop: stop.clone(), early: watch::Sender::new(None), longest }
    }

    /// Begins the end. The first call counts.
    pub(crate) fn begin(&self) {
        self.begin_within(self.longest);
    }

    /// Begins the end, which takes no longer than this. Of several calls, the one whose time is over first counts.
    pub(crate) fn begin_within(&self, longest: Duration) {
        let over = Instant::now() + longest;
        self.early.send_if_modified(|known| {
            let is_sooner = known.is_none_or(|known| over < known);
            if is_sooner {
                *known = Some(over);
            }
            is_sooner
        });
    }

    /// Does `work`. `None` if it is dropped because what is in flight takes too long.
    pub(crate) async fn bounds<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            done = work => Some(done),
            () = self.stop_is_over() => None,
            () = self.early_is_over() => None,
        }
    }

    /// Does `work`, which records how the load ended. The reason of the stop if it takes too long even after
    /// everything in flight was cancelled.
    pub(crate) async fn settles<T>(&self, work: impl Future<Output = T>) -> Result<T, StopReason> {
        let over = async {
            self.stop_is_over().await;
            sleep(SETTLE_WAIT).await;
            self.stop.wait().await
        };
        tokio::select! {
            biased;
            done = work => Ok(done),
            reason = over => Err(reason),
        }
    }

    /// Why somebody has stopped the load.
    pub(crate) fn reason(&self) -> Option<StopReason> {
        self.stop.reason()
    }

    /// The end of something that was cancelled.
    pub(crate) fn ended(&self) -> Error {
        self.reason().map_or(Error::BrokenOff("what was in flight took too long"), Error::Stopped)
    }

    /// Resolves when an end that has begun early takes too long.
    async fn early_is_over(&self) {
        let mut ends = self.early.subscribe();
        loop {
            let over = *ends.borrow_and_update();
            let waited = async {
                match over {
                    Some(over) => sleep_until(over).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = waited => return,
                // The sender lives as long as this value, so something has changed.
                _ = ends.changed() => {}
            }
        }
    }

    /// Resolves when somebody has stopped the load so long ago, or a second time.
    async fn stop_is_over(&self) {
        let stopped = async { sleep_until(self.stop.stopped_at().await + self.longest).await };
        tokio::select! {
            () = self.stop.hurried() => {}
            () = stopped => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::{pending, ready};

    #[tokio::test]
    async fn an_end_bounds_what_is_in_flight() {
        let hour = Duration::from_secs(3_600);
        let short = || Drain::new(&Stop::default(), Duration::from_millis(1));
        assert_eq!(short().bounds(ready(1)).await, Some(1));
        let drain = short();
        drain.begin();
        assert_eq!(drain.bounds(pending::<()>()).await, None, "too many rejects, or an error");
        let drain = short();
        drain.stop.stop(StopReason::Terminated);
        assert_eq!(drain.bounds(pending::<()>()).await, None);
        let drain = Drain::new(&Stop::default(), hour);
        drain.stop.stop(StopReason::Terminated);
        drain.stop.hurry();
        assert_eq!(drain.bounds(pending::<()>()).await, None, "the second stop waits for nothing");
        assert_eq!(drain.bounds(ready(1)).await, Some(1));
    }

    #[tokio::test]
    async fn an_end_that_has_begun_can_be_made_shorter_and_not_longer() {
        let hour = Duration::from_secs(3_600);
        let drain = Drain::new(&Stop::default(), hour);
        drain.begin();
        let shortening = async {
            tokio::task::yield_now().await;
            drain.begin_within(Duration::ZERO);
        };
        let (bounded, ()) = tokio::join!(drain.bounds(pending::<()>()), shortening);
        assert_eq!(bounded, None);
        drain.begin_within(hour);
        assert_eq!(drain.bounds(pending::<()>()).await, None);
        assert_eq!(drain.bounds(ready(1)).await, Some(1), "what is done is done");
    }
}
