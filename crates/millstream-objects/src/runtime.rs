//! The threads that speak with stores, and how others wait for them.

use crate::limits::{SILENT_WAIT, WORKERS};
use std::io;
use std::sync::LazyLock;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use tokio::runtime::{Builder, Runtime};
use tokio::task::AbortHandle;

/// It lives as long as the process, because connections that are kept open belong to it. Who waits for it may be within
/// another runtime, and so must not end it.
static RUNTIME: LazyLock<io::Result<Runtime>> = LazyLock::new(|| {
    // Another part of the program may have installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    Builder::new_multi_thread().worker_threads(WORKERS).thread_name("objects").enable_all().build()
});

/// Work in progress. Dropping this cancels it.
pub(crate) struct Pending<T> {
    done: Receiver<T>,
    task: AbortHandle,
}

/// Begins work on the threads for stores.
///
/// # Errors
/// There are no threads.
pub(crate) fn begin<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> io::Result<Pending<T>> {
    let runtime = RUNTIME.as_ref().map_err(|error| io::Error::new(error.kind(), error.to_string()))?;
    let (sender, done) = mpsc::sync_channel(1);
    let task = runtime.spawn(async move {
        // If nobody waits any more, nobody needs it.
        let _ = sender.send(work.await);
    });
    Ok(Pending { done, task: task.abort_handle() })
}

impl<T> Pending<T> {
    /// Waits for its end. Says for what from time to time.
    ///
    /// # Errors
    /// It ended without a result, which is a bug.
    pub(crate) fn wait(&self, says: &dyn Fn()) -> io::Result<T> {
        loop {
            match self.done.recv_timeout(SILENT_WAIT) {
                Ok(done) => return Ok(done),
                Err(RecvTimeoutError::Timeout) => says(),
                Err(RecvTimeoutError::Disconnected) => return Err(io::Error::other("the work ended without a result")),
            }
        }
    }
}

impl<T> Drop for Pending<T> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Makes what cryptography needs, for clients that are made before any work begins.
pub(crate) fn prepare() {
    let _ = LazyLock::force(&RUNTIME);
}
