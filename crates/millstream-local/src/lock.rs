//! The lock that prevents two processes from starting or stopping the same server at the same time.

use crate::error::Error;
use crate::home::Home;
use crate::limits::{LOCK_SECONDS_MAX, POLL};
use crate::options::Progress;
use millstream_host::wait_until;
use std::fs::{File, Permissions, TryLockError};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::time::Duration;

/// The lock is held until this is dropped or the process ends.
#[derive(Debug)]
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    /// Waits for the lock, and reports the wait if there is one.
    pub(crate) async fn take(home: &Home, progress: Progress<'_>) -> Result<Self, Error> {
        let path = home.lock();
        // The file is private: whoever can open it could hold the lock for ever.
        let open = File::options().create(true).truncate(false).write(true).mode(0o600).open(&path);
        let file = open.map_err(Error::io("open", &path))?;
        let private = file.set_permissions(Permissions::from_mode(0o600));
        private.map_err(Error::io("make private", &path))?;
        let mut reported = false;
        let taken = wait_until(Duration::from_secs(LOCK_SECONDS_MAX), POLL, || match file.try_lock() {
            Ok(()) => Some(Ok(())),
            Err(TryLockError::Error(error)) => Some(Err(Error::io("lock", &path)(error))),
            Err(TryLockError::WouldBlock) => {
                if !std::mem::replace(&mut reported, true) {
                    progress("waiting for another process that starts or stops the server");
                }
                None
            }
        });
        taken.await.unwrap_or_else(|| Err(Error::Locked { home: home.dir.clone() }))?;
        Ok(Self { _file: file })
    }
}
