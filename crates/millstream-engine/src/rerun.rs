//! A load, run again until its sources have ended or it cannot go on.

use crate::error::Error;
use crate::limits::{EMPTIED_MAX, TABLE_CHANGES_MAX};
use crate::observe::Event;
use crate::outcome::{Next, Outcome, Surroundings};
use crate::pass::load_once;
use crate::request::LoadRequest;
use millstream_pg::{Explained, Failures};

/// Loads the sources of a request. If its sources are files, the load starts over when a crash of the server empties the
/// unlogged collection, or a TRUNCATE empties the table; and it resumes when the table is changed so that documents must
/// be written in another way.
///
/// # Errors
/// When the load fails before this run has written anything; when the server is gone for good, so that there is no
/// receipt; [`Error::Emptied`] when the sources cannot be read again, or the table is emptied again and again. Every
/// other failure is part of the [`Outcome`].
pub async fn load(request: &LoadRequest, around: &Surroundings) -> Result<Outcome, Error> {
    around.attended(request.standstill_after, Box::pin(load_to_end(request, around))).await
}

async fn load_to_end(request: &LoadRequest, around: &Surroundings) -> Result<Outcome, Error> {
    let mut request = request.clone();
    let (mut emptied, mut changed) = (0, 0);
    let (mut interrupted, mut unbegun) = (Interrupted::default(), Failures::default());
    loop {
        let ended = Box::pin(load_once(&request, around, interrupted.load_id)).await;
        let ended = ended.map_err(|error| match error {
            Error::Emptied { documents, by } => {
                Error::Emptied { documents: documents.max(around.tally.documents()), by }
            }
            error => error,
        });
        if let Err(Error::Postgres(error)) = &ended
            && request.is_repeatable()
            && around.tally.documents() == 0
            && interrupted.load_id.is_none()
        {
            // The server ended the session in which the load was to begin. Nothing is written yet.
            if !unbegun.wait_for_session(error).await {
                return ended;
            }
            if unbegun.count() == 1 {
                around.observer.warn([format!("the load cannot begin yet, and tries again: {error}")]);
            }
            around.tally.clear();
            continue;
        }
        let ended = match Next::after(&request, &ended) {
            Next::Done => Some(ended),
            Next::Resume => interrupted.wait(ended, around).await,
            Next::StartOver(error) => {
                // With another key, it is another load.
                interrupted.load_id = None;
                if around.tally.documents() > 0 {
                    // It gets on, however many shards of its table are moved meanwhile.
                    changed = 0;
                }
                let (times, times_max, then) = match error {
                    Error::Emptied { .. } => (&mut emptied, EMPTIED_MAX, ""),
                    _ => (&mut changed, TABLE_CHANGES_MAX, ": it looks at the table anew, and resumes"),
                };
                *times += 1;
                if *times > times_max {
                    Some(ended)
                } else {
                    around.observer.event(Event::Warning(format!("{error}{then}")));
                    None
                }
            }
        };
        if let Some(ended) = ended {
            return interrupted.counted(ended);
        }
        around.tally.clear();
        // Even if the request forbids to resume: the load to resume is now our own.
        request.resume = true;
        // The table was there. If somebody has dropped it, another one must not take its place.
        request.distribute = false;
    }
}

/// Runs that were interrupted. A segment keeps no bytes of its documents, so another run must read them again.
#[derive(Default)]
struct Interrupted {
    /// Failures since the last progress.
    failures: Failures,
    read: u64,
    runs: u64,
    /// The load that the next run resumes.
    load_id: Option<i64>,
}

impl Interrupted {
    /// Waits before the next run. Returns how the load ended if what interrupted it has not passed for too long.
    async fn wait(&mut self, ended: Result<Outcome, Error>, around: &Surroundings) -> Option<Result<Outcome, Error>> {
        let error = match &ended {
            Ok(Outcome { error: Some(error), receipt, .. }) => {
                self.load_id = Some(receipt.load_id);
                if receipt.counters.read > self.read {
                    (self.read, self.failures) = (receipt.counters.read, Failures::default());
                }
                error
            }
            // A load whose first run cannot begin fails at once.
            Err(error) if self.runs > 0 => error,
            _ => return Some(ended),
        };
        let Some(after) = self.failures.next(error.kind()) else { return Some(ended) };
        self.runs += 1;
        around.observer.event(Event::Again { attempt: self.failures.count(), after, error: error.to_string() });
        tokio::select! {
            biased;
            _ = around.stop.wait() => Some(ended),
            () = tokio::time::sleep(after) => None,
        }
    }

    /// Counts the additional runs as retries.
    fn counted(&self, ended: Result<Outcome, Error>) -> Result<Outcome, Error> {
        ended.map(|mut outcome| {
            outcome.receipt.retries += self.runs;
            outcome
        })
    }
}
