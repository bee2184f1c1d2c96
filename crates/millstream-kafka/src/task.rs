//! A task that works beside others.

use tokio::task::JoinHandle;

/// A task that ends when it is dropped.
pub(crate) struct Task(JoinHandle<()>);

impl Task {
    /// Begins it.
    pub(crate) fn begin(work: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(tokio::spawn(work))
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}
