//! What a load works with besides its request, and how it ended.

use crate::error::Error;
use crate::observe::{Event, Observer, Silent, Tally};
use crate::request::LoadRequest;
use crate::stop::{Stop, StopReason};
use millstream_model::Receipt;
use millstream_pg::standstill::{Patience, attend};
use millstream_pg::{ConnInfo, Explained, Standstill, may_pass};
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

/// What follows a run of a load.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Next<'a> {
    /// Nothing: the load ends as the run did.
    Done,
    /// Another run of the load, which reads again what this one had in flight.
    Resume,
    /// Another run, which looks at the table anew because of this error. It may open another load: the table is empty, or
    /// has another key.
    StartOver(&'a Error),
}

impl<'a> Next<'a> {
    /// What follows a run that ended like this.
    pub(crate) fn after(request: &LoadRequest, ended: &'a Result<Outcome, Error>) -> Self {
        match ended {
            Err(error @ (Error::Emptied { .. } | Error::TableChanged { .. }))
            | Ok(Outcome { error: Some(error @ Error::TableChanged { .. }), .. })
                if request.is_repeatable() =>
            {
                Self::StartOver(error)
            }
            Err(error) | Ok(Outcome { error: Some(error), .. }) if may_pass(error.kind()) && request.reads_again() => {
                Self::Resume
            }
            _ => Self::Done,
        }
    }
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
        attend(&self.db, patience, || self.tally.progress(), say, work).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::EmptiedBy;
    use crate::layout::Layout;

    type Is = fn(&Next<'_>) -> bool;

    #[test]
    fn what_follows_a_run_is_decided_by_its_error_and_by_what_can_be_read_again() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        let emptied = || Error::Emptied { documents: 1, by: EmptiedBy::Crash };
        let changed = || Error::TableChanged { collection: "a".parse().unwrap(), what: "indexes" };
        let lost = || Error::Postgres(millstream_pg::Error::Lost { message: "cut".into() });
        let fenced = || Error::fenced(1);
        let done: Is = |next| matches!(next, Next::Done);
        let resume: Is = |next| matches!(next, Next::Resume);
        let start_over: Is = |next| matches!(next, Next::StartOver(Error::Emptied { .. } | Error::TableChanged { .. }));
        for (source, layout, error, is_expected) in [
            (file, "table", emptied(), start_over),
            (file, "log", changed(), start_over),
            ("-", "table", emptied(), done),
            ("-", "log", changed(), done),
            // The lanes of the layout `table` have tried it again themselves.
            (file, "table", lost(), done),
            (file, "log", lost(), resume),
            ("-", "log", lost(), done),
            (file, "log", fenced(), done),
        ] {
            let mut request = LoadRequest::new("a".parse().unwrap(), Vec::new(), vec![source.into()]);
            request.layout = Layout::by_name(layout).unwrap();
            let ended = Err(error);
            let next = Next::after(&request, &ended);
            assert!(is_expected(&next), "{source} {layout} {ended:?}: {next:?}");
        }
    }
}
