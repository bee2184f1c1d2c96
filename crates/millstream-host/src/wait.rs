//! Waits until something on the machine has happened.

use std::time::{Duration, Instant};

/// Calls `look` until it returns something. `None` if it has returned nothing within the limit.
pub async fn wait_until<T>(limit: Duration, every: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let begun = Instant::now();
    loop {
        let found = look();
        if found.is_some() || begun.elapsed() > limit {
            return found;
        }
        tokio::time::sleep(every).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn waiting_ends_with_a_result_or_when_time_is_up() {
        let mut looks = 0..;
        let third = wait_until(Duration::MAX, Duration::ZERO, || looks.next().filter(|n| *n == 2)).await;
        assert_eq!(third, Some(2));
        let never = wait_until(Duration::from_millis(5), Duration::from_millis(1), || None::<()>).await;
        assert_eq!(never, None);
    }
}
