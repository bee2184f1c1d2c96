//! The backlog: requests that are due and wait for a free session.

use super::schedule::Arrival;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Semaphore;

/// A bounded queue from the schedule to the sessions, first come, first served.
#[derive(Debug)]
pub(super) struct Backlog {
    queue: Mutex<VecDeque<Arrival>>,
    /// A permit for each request in the queue.
    ready: Semaphore,
    /// Sessions that wait for a request. Each takes one that is in the queue already, or the next one.
    idle: AtomicUsize,
    most: usize,
}

impl Backlog {
    /// A queue in which at most that many requests wait for a session.
    pub(super) fn new(most: usize) -> Self {
        Self { queue: Mutex::default(), ready: Semaphore::new(0), idle: AtomicUsize::new(0), most }
    }

    /// Adds a request that is due. False if too many wait, so that it is dropped.
    pub(super) fn add(&self, arrival: Arrival) -> bool {
        let mut queue = self.queue();
        if queue.len() >= self.most.saturating_add(self.idle.load(Ordering::SeqCst)) {
            return false;
        }
        queue.push_back(arrival);
        drop(queue);
        self.ready.add_permits(1);
        true
    }

    /// The next request for a free session. `None` if there will be no more.
    pub(super) async fn next(&self) -> Option<Arrival> {
        let free = Free::new(&self.idle);
        if let Ok(permit) = self.ready.acquire().await {
            permit.forget();
        }
        drop(free);
        // Once it is closed, there are no permits, and what waits is taken without one.
        self.queue().pop_front()
    }

    /// Says that there will be no more requests.
    pub(super) fn close(&self) {
        self.ready.close();
    }

    /// Whether there will be no more requests.
    pub(super) fn is_closed(&self) -> bool {
        self.ready.is_closed()
    }

    /// Requests for which there is no free session.
    pub(super) fn overdue(&self) -> usize {
        self.queue().len().saturating_sub(self.idle.load(Ordering::SeqCst))
    }

    /// Takes out all requests that wait.
    pub(super) fn clear(&self) -> Vec<Arrival> {
        self.queue().drain(..).collect()
    }

    fn queue(&self) -> MutexGuard<'_, VecDeque<Arrival>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts a session as free as long as it lives.
struct Free<'a>(&'a AtomicUsize);

impl<'a> Free<'a> {
    fn new(idle: &'a AtomicUsize) -> Self {
        idle.fetch_add(1, Ordering::SeqCst);
        Self(idle)
    }
}

impl Drop for Free<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use futures_util::future::join_all;

    fn arrival(number: u64) -> Arrival {
        Arrival { at_ns: number, class: 0, number }
    }

    #[tokio::test]
    async fn requests_leave_in_order_and_the_surplus_is_refused() {
        let backlog = Backlog::new(2);
        let added: Vec<bool> = (0..4).map(|number| backlog.add(arrival(number))).collect();
        assert_eq!((added, backlog.overdue()), (vec![true, true, false, false], 2));
        assert_eq!(backlog.next().await, Some(arrival(0)));
        assert!(backlog.add(arrival(4)));
        backlog.close();
        assert_eq!((backlog.next().await, backlog.next().await), (Some(arrival(1)), Some(arrival(4))));
        assert_eq!(backlog.next().await, None);
    }

    #[tokio::test]
    async fn a_request_for_a_free_session_does_not_wait() {
        let backlog = Backlog::new(0);
        assert!(!backlog.add(arrival(0)), "no session is free");
        let mut sessions = Box::pin(join_all([backlog.next(), backlog.next()]));
        assert!(sessions.as_mut().now_or_never().is_none());
        let added: Vec<bool> = (1..4).map(|number| backlog.add(arrival(number))).collect();
        assert_eq!((added, backlog.overdue()), (vec![true, true, false], 0));
        assert_eq!(sessions.await, [Some(arrival(1)), Some(arrival(2))]);
        assert!(!backlog.add(arrival(4)), "both are busy");
        backlog.close();
        assert!(backlog.is_closed() && backlog.clear().is_empty());
    }
}
