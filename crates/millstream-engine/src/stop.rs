//! Why and how a load ends before its sources do.

use tokio::sync::watch;

/// Why a load ended early. Everything committed stays, and the same command resumes from there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StopReason {
    /// Ctrl-C.
    Interrupted,
    /// SIGTERM.
    Terminated,
    /// SIGHUP.
    HungUp,
    /// Too many rejects.
    Rejects,
    /// The source is damaged.
    Damage {
        /// Index of the source.
        source: u32,
        /// Where, in the uncompressed source.
        offset: u64,
        /// On which line.
        line: u64,
        /// What is wrong.
        detail: String,
    },
    /// An error that retrying does not fix.
    Failed,
}

impl std::fmt::Display for StopReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Interrupted => f.write_str("interrupted"),
            Self::Terminated => f.write_str("terminated"),
            Self::HungUp => f.write_str("hung up"),
            Self::Rejects => f.write_str("too many documents were rejected"),
            Self::Damage { source, offset, line, detail } => {
                write!(f, "source {source} is damaged at byte {offset}, line {line}: {detail}")
            }
            Self::Failed => f.write_str("failed"),
        }
    }
}

/// A switch that ends a load: nothing more is read, and what was read is committed.
#[derive(Debug, Clone)]
pub struct Stop {
    sender: watch::Sender<Option<StopReason>>,
}

impl Default for Stop {
    fn default() -> Self {
        Self { sender: watch::Sender::new(None) }
    }
}

impl Stop {
    /// Ends the load; the first reason stays.
    pub fn stop(&self, reason: StopReason) {
        self.sender.send_if_modified(|current| {
            let first = current.is_none();
            if first {
                *current = Some(reason);
            }
            first
        });
    }

    /// Why somebody has stopped the load.
    pub fn reason(&self) -> Option<StopReason> {
        self.sender.borrow().clone()
    }

    /// Resolves with the reason once somebody stops the load.
    pub async fn wait(&self) -> StopReason {
        let mut receiver = self.sender.subscribe();
        let reason = receiver.wait_for(Option::is_some).await.ok().and_then(|reason| reason.clone());
        match reason {
            Some(reason) => reason,
            // The sender lives as long as this value, so the wait cannot end without a reason.
            None => std::future::pending().await,
        }
    }
}
