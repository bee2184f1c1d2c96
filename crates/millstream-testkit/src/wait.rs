//! Waits for events that fail when the event does not come.

use crate::limits::{EVENT_TIME_MAX, LOOK_EVERY};
use std::panic::Location;
use std::time::{Duration, Instant};

/// Waits until something has happened. `what` is a clause, such as "a session waits for the lock of t".
///
/// A spawned task cannot wait in this way, because the compiler does not see that it may change its thread.
///
/// # Panics
/// If it has not happened in two minutes.
#[track_caller]
pub fn until(what: &str, mut happened: impl AsyncFnMut() -> bool) -> impl Future<Output = ()> {
    within(EVENT_TIME_MAX, what, async move || happened().await.then_some(()))
}

/// The same for something that is then used: looks until there is a value.
///
/// # Panics
/// If there is none in two minutes.
#[track_caller]
pub fn until_some<T>(what: &str, look: impl AsyncFnMut() -> Option<T>) -> impl Future<Output = T> {
    within(EVENT_TIME_MAX, what, look)
}

/// The same without a runtime.
///
/// # Panics
/// If it has not happened in two minutes.
#[track_caller]
pub fn until_blocking(what: &str, mut happened: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !happened() {
        assert!(begun.elapsed() < EVENT_TIME_MAX, "waited {EVENT_TIME_MAX:?}, and it did not happen that {what}");
        std::thread::sleep(LOOK_EVERY);
    }
}

/// The limit also ends a look that does not end, such as a query of a server that is stopped.
#[track_caller]
fn within<T>(limit: Duration, what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> impl Future<Output = T> {
    // A panic inside a future does not name its caller.
    let place = Location::caller();
    async move {
        let looking = async {
            loop {
                if let Some(found) = look().await {
                    return found;
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        let Ok(found) = tokio::time::timeout(limit, looking).await else {
            panic!("{place}: waited {limit:?}, and it did not happen that {what}");
        };
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_wait_ends_with_what_it_waited_for() {
        let mut looks = 0..;
        until("the second look is made", async || looks.next() == Some(1)).await;
        until_blocking("the fourth look is made", || looks.next() == Some(3));
        assert_eq!(until_some("the sixth look is made", async || looks.next().filter(|n| *n == 5)).await, 5);
    }

    #[tokio::test]
    #[should_panic(expected = ": waited 20ms, and it did not happen that it rains")]
    async fn a_wait_for_what_does_not_happen_fails() {
        within(Duration::from_millis(20), "it rains", async || None::<()>).await;
    }

    #[tokio::test]
    #[should_panic(expected = "and it did not happen that somebody answers")]
    async fn a_look_that_does_not_end_fails() {
        within(Duration::from_millis(20), "somebody answers", std::future::pending::<Option<()>>).await;
    }
}
