//! An alarm: a timer that is exact to some ten microseconds.

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use std::io;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe::Receiver;

/// A timer of the kernel that the runtime waits for as for a socket. The timers of the runtime itself count whole
/// milliseconds: each request would be late by half of one and more.
///
/// The runtime reads it as it reads a pipe, which needs no unsafe code, unlike its type for other descriptors.
#[derive(Debug)]
pub(super) struct Alarm(Receiver);

/// Bytes to read: more than the eight of a timer, so that the runtime knows that there are no more.
const READ_BYTES: usize = 16;

impl Alarm {
    /// Creates the timer in the current runtime.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn new() -> io::Result<Self> {
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
        Ok(Self(Receiver::from_owned_fd_unchecked(timer)?))
    }

    /// Waits for a time. An earlier alarm that was abandoned is forgotten.
    ///
    /// # Errors
    /// The system's.
    pub(super) async fn after(&mut self, wait: Duration) -> io::Result<()> {
        let once = Itimerspec { it_interval: timespec(Duration::ZERO), it_value: timespec(wait.max(SHORTEST)) };
        timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &once)?;
        match self.0.read(&mut [0; READ_BYTES]).await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }
}

/// The kernel takes no time at all for "never".
const SHORTEST: Duration = Duration::from_nanos(1);

fn timespec(duration: Duration) -> Timespec {
    let seconds = i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    Timespec { tv_sec: seconds, tv_nsec: duration.subsec_nanos().into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[tokio::test]
    async fn an_alarm_comes_after_its_time_and_again() {
        let mut alarm = Alarm::new().unwrap();
        for wait in [Duration::from_millis(3), Duration::ZERO, Duration::from_micros(300)] {
            let start = Instant::now();
            alarm.after(wait).await.unwrap();
            assert!(start.elapsed() >= wait);
        }
    }

    #[tokio::test]
    async fn an_alarm_that_was_abandoned_is_forgotten() {
        let mut alarm = Alarm::new().unwrap();
        tokio::select! {
            biased;
            () = std::future::ready(()) => {}
            _ = alarm.after(Duration::from_micros(1)) => {}
        }
        let (start, wait) = (Instant::now(), Duration::from_millis(5));
        alarm.after(wait).await.unwrap();
        assert!(start.elapsed() >= wait);
    }
}
