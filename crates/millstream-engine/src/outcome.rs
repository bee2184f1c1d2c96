//! What a load works with besides its request, and how it ended.

use crate::error::Error;
use crate::observe::{Event, Observer, Silent, Tally};
use crate::stop::{Stop, StopReason};
use millstream_model::Receipt;
use millstream_pg::standstill::{Patience, attend};
use millstream_pg::{ConnInfo, Standstill};
use std::sync::Arc;
use std::time::Duration;

/// How a load ended. The receipt is right in every case.
#[derive(Debug)]
pub struct Outcome {
    /// The account of the load.
    pub receipt: Receipt,
    /// Why it ended before the end of its sources, if it did.
    pub stopped: Option<StopReason>,
    /// The error behind [`StopReason::Failed`].
    pub error: Option<Error>,
    /// Whether nothing was loaded, and the receipt is that of a finished load that has already added up the sources.
    pub recalled: bool,
}

/// What a load works with besides its request.
#[derive(Clone)]
pub struct Surroundings {
    /// The database.
    pub db: ConnInfo,
    /// Ends the load early.
    pub stop: Stop,
    /// Receives the events.
    pub observer: Arc<dyn Observer>,
    /// Counts for a progress bar.
    pub tally: Arc<Tally>,
}

impl Surroundings {
    /// A database, without an observer.
    pub fn new(db: ConnInfo) -> Self {
        Self { db, stop: Stop::default(), observer: Arc::new(Silent), tally: Arc::default() }
    }

    /// Does `work`, which belongs to a load, and reports why if nothing was committed for so long.
    pub(crate) async fn attended<T>(&self, after: Duration, work: impl Future<Output = T>) -> T {
        let patience = Patience { after, statement: Duration::ZERO };
        let say = |seconds: u64, reason: Standstill| self.observer.event(Event::Standstill { seconds, reason });
        attend(&self.db, patience, || self.tally.documents(), say, work).await
    }
}
