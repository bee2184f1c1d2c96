//! Waits for what somebody else does: one try after the other at a steady pace, for a limited time.

use std::time::Duration;
use tokio::time::Instant;

/// The pace of the tries and their end.
///
/// ```ignore
/// let poll = Poll::new(every, longest);
/// while !try_it().await? {
///     if !poll.again().await {
///         return Err(it_took_too_long);
///     }
/// }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Poll {
    every: Duration,
    deadline: Option<Instant>,
}

impl Poll {
    /// Tries until `longest` has passed from now.
    pub fn new(every: Duration, longest: Duration) -> Self {
        Self { every, deadline: Some(Instant::now() + longest) }
    }

    /// Tries until `deadline`.
    pub fn until(every: Duration, deadline: Instant) -> Self {
        Self { every, deadline: Some(deadline) }
    }

    /// Tries for ever.
    pub fn forever(every: Duration) -> Self {
        Self { every, deadline: None }
    }

    /// Whether the time is over.
    pub fn is_over(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() > deadline)
    }

    /// Waits before the next try. False, without waiting, if the time is over.
    pub async fn again(&self) -> bool {
        if self.is_over() {
            return false;
        }
        tokio::time::sleep(self.every).await;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn polling_ends_when_time_is_up() {
        let poll = Poll::new(Duration::from_millis(1), Duration::from_millis(20));
        let mut tries = 0;
        while poll.again().await {
            tries += 1;
        }
        assert!((1..=21).contains(&tries), "{tries}");
        assert!(poll.is_over() && !poll.again().await);
    }

    #[tokio::test]
    async fn polling_for_ever_does_not_end() {
        let poll = Poll::forever(Duration::ZERO);
        assert!(poll.again().await && !poll.is_over());
        assert!(!Poll::until(Duration::ZERO, Instant::now() - Duration::from_millis(1)).again().await);
    }
}
