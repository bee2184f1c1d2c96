//! The lock that prevents two processes from starting or stopping the same server at the same time.

use crate::error::Error;
use crate::home::Home;
use crate::limits::{LOCK_SECONDS_MAX, POLL};
use crate::options::Progress;
use millstream_host::{FileLock, wait_until};
use std::time::Duration;

/// The lock is held until this is dropped or the process ends.
#[derive(Debug)]
pub(crate) struct Lock {
    _held: FileLock,
}

impl Lock {
    /// Waits for the lock, and reports the wait if there is one.
    pub(crate) async fn take(home: &Home, progress: Progress<'_>) -> Result<Self, Error> {
        let path = home.lock();
        let mut reported = false;
        let taken = wait_until(Duration::from_secs(LOCK_SECONDS_MAX), POLL, || match FileLock::try_take(&path) {
            Ok(Some(held)) => Some(Ok(held)),
            Err(error) => Some(Err(Error::io("lock", &path)(error))),
            Ok(None) => {
                if !std::mem::replace(&mut reported, true) {
                    progress("waiting for another process that starts or stops the server");
                }
                None
            }
        });
        let held = taken.await.unwrap_or_else(|| Err(Error::Locked { home: home.dir.clone() }))?;
        Ok(Self { _held: held })
    }
}
