//! Why and how a load ends before its sources do.

use tokio::sync::watch;
use tokio::time::Instant;

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
    /// Its program has closed the stream and may continue it.
    Suspended,
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
            Self::Suspended => f.write_str("suspended"),
            Self::Failed => f.write_str("failed"),
        }
    }
}

/// A switch that ends a load: nothing more is read, and what was read is committed. What is not committed after
/// [`LoadRequest::stop_wait`](crate::LoadRequest::stop_wait) is cancelled; the load resumes there.
#[derive(Debug, Clone)]
pub struct Stop {
    sender: watch::Sender<State>,
}

#[derive(Debug, Default)]
struct State {
    first: Option<(StopReason, Instant)>,
    hurried: bool,
}

impl Default for Stop {
    fn default() -> Self {
        Self { sender: watch::Sender::new(State::default()) }
    }
}

impl Stop {
    /// Ends the load; the first reason stays.
    pub fn stop(&self, reason: StopReason) {
        self.sender.send_if_modified(|state| {
            let first = state.first.is_none();
            state.first.get_or_insert_with(|| (reason, Instant::now()));
            first
        });
    }

    /// Cancels what is in flight at once. Has an effect on a load that is stopped.
    pub fn hurry(&self) {
        self.sender.send_modify(|state| state.hurried = true);
    }

    /// Why somebody has stopped the load.
    pub fn reason(&self) -> Option<StopReason> {
        self.sender.borrow().first.as_ref().map(|(reason, _)| reason.clone())
    }

    /// Resolves with the reason once somebody stops the load.
    pub async fn wait(&self) -> StopReason {
        self.once(|state| state.first.as_ref().map(|(reason, _)| reason.clone())).await
    }

    /// Resolves with the moment at which somebody stopped the load.
    pub(crate) async fn stopped_at(&self) -> Instant {
        self.once(|state| state.first.as_ref().map(|(_, at)| *at)).await
    }

    /// Resolves once what is in flight must be cancelled at once.
    pub(crate) async fn hurried(&self) {
        self.once(|state| (state.hurried && state.first.is_some()).then_some(())).await;
    }

    /// Resolves with what `find` finds in the state as soon as it finds something.
    async fn once<T>(&self, find: impl Fn(&State) -> Option<T>) -> T {
        let mut receiver = self.sender.subscribe();
        let found = receiver.wait_for(|state| find(state).is_some()).await.ok().and_then(|state| find(&state));
        match found {
            Some(found) => found,
            // The sender lives as long as this value, so the wait cannot end without a result.
            None => std::future::pending().await,
        }
    }
}
