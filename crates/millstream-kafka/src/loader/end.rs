//! The end of partitions while a topic is loaded, and of all of it.

use super::{Loader, joined};
use crate::account::{Account, Outcome, PartitionAccount};
use crate::client::{Client, ClientError};
use crate::error::Error;
use crate::limits::LAST_OFFSETS_WAIT;
use crate::partition::Partition;
use millstream_engine::{Error as EngineError, Outcome as LoadOutcome, StopReason};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// A partition that was closed.
pub(super) struct Closed {
    partition: Partition,
    /// Whether the group has taken it back.
    given_back: bool,
    /// Why its worker ended, if not because everything was done.
    broken: Option<EngineError>,
    ended: Result<LoadOutcome, EngineError>,
}

impl<C: Client> Loader<'_, C> {
    /// A worker has ended: its partition is read and committed, or its stream has ended. Closing the stream says which.
    pub(super) async fn worker_ended(&mut self, (number, opening, ended): (i32, u64, Result<(), EngineError>)) {
        if self.partitions.get(&number).is_some_and(|partition| partition.is_opening(opening)) {
            // Else it is read on, for nobody, until the next list of partitions lacks it.
            self.client.pause(number, true).await;
            self.seats.ended(number);
            self.close_partition(number, None, ended.err());
        }
    }

    /// Closes a partition. With `drain`, it is given back: what was sent is committed only if that takes no longer.
    pub(super) fn close_partition(&mut self, number: i32, drain: Option<Duration>, broken: Option<EngineError>) {
        let Some(mut partition) = self.partitions.remove(&number) else { return };
        partition.end();
        let Some(stream) = partition.stream.take() else { return };
        self.closing.spawn(async move {
            let ended = match drain {
                Some(drain) => Box::pin(stream.close_within(drain)).await,
                None => Box::pin(stream.close()).await,
            };
            Closed { partition, given_back: drain.is_some(), broken, ended }
        });
    }

    /// A partition was closed. Returns why all others must end, if they must.
    pub(super) fn closed(&mut self, closed: Closed) -> Result<Option<StopReason>, Error> {
        let number = closed.partition.number;
        let why = self.account(closed);
        if self.request.group.is_some() {
            // Its next owner tells Kafka how far it is.
            self.done.remove(&number);
            self.seats.free(number);
        }
        match why {
            None => Ok(None),
            Some(Ok(reason)) => Ok(Some(reason)),
            Some(Err(error)) => Err(error.into()),
        }
    }

    /// Takes the account of a partition that was closed. Returns why it ended, if not in good order, and if that matters to
    /// the others.
    fn account(&mut self, closed: Closed) -> Option<Result<StopReason, EngineError>> {
        let Closed { partition, given_back, broken, ended } = closed;
        let number = partition.number;
        let why = match ended {
            Ok(LoadOutcome { receipt, stopped, error, .. }) => {
                self.loaded += receipt.counters.read.saturating_sub(receipt.resumed_from.unwrap_or(0));
                // It may have been here before.
                let gap = partition.gap + self.accounts.get(&number).map_or(0, |before| before.gap);
                let account = PartitionAccount { partition: number, offset: partition.offset(), gap, receipt };
                self.accounts.insert(number, account);
                let stopped = stopped.filter(|why| *why != StopReason::Suspended);
                error.map(Err).or(stopped.map(Ok)).or(broken.map(Err))
            }
            // It was asked to end, and could not record that in time.
            Err(EngineError::Stopped(reason)) => {
                self.warn(format!(
                    "partition {number} could not be closed in time, so what it has committed is in no receipt; the same \
                     command continues behind it"
                ));
                Some(Ok(reason))
            }
            Err(cause) => Some(Err(cause)),
        };
        match why {
            // Only this partition ends: its batch has failed as a whole, and its owner has what was committed before.
            Some(Err(error)) if self.request.group.is_some() && error.is_fenced() => {
                self.warn(format!("partition {number} ends here: {error}"));
                None
            }
            // Whoever has it now finds out the same, if it is not over.
            Some(Err(error)) if given_back => {
                self.warn(format!("partition {number}, which goes to another process, ended here with this: {error}"));
                None
            }
            Some(Ok(_)) if given_back => None,
            why => {
                if !given_back {
                    self.done.insert(number, partition);
                }
                why
            }
        }
    }

    /// Closes all streams, which commits what was read, accounts for everything, and leaves the group.
    pub(super) async fn close(mut self, ended: Result<Option<StopReason>, Error>, begun: Instant) -> Outcome {
        let (mut stopped, mut error) = match ended {
            Ok(stopped) => (stopped, None),
            // Somebody stopped the load while a partition was opened.
            Err(Error::Engine(EngineError::Stopped(reason))) => (Some(reason), None),
            Err(error) => (Some(StopReason::Failed), Some(error)),
        };
        // Nothing more is opened, and what is about to be open is closed with the others.
        self.seats.give_up();
        self.opener.give_up();
        while let Some(opened) = self.opening.join_next().await {
            if let (_, Ok(Some(opened))) = joined(opened) {
                self.insert(opened);
            }
        }
        self.partitions.values_mut().for_each(Partition::end);
        while let Some(ended) = self.workers.join_next().await {
            // Closing its stream says why it has ended.
            let _ = joined(ended);
        }
        let numbers: Vec<i32> = self.partitions.keys().copied().collect();
        numbers.into_iter().for_each(|number| self.close_partition(number, None, None));
        while let Some(closed) = self.closing.join_next().await {
            let why = self.account(joined(closed));
            // A stream that has ended is what others see of the cause.
            let is_vague = matches!(error, None | Some(Error::Engine(EngineError::StreamEnded(_))));
            match why.filter(|_| is_vague) {
                Some(Ok(reason)) if stopped.as_ref().is_none_or(|known| *known == StopReason::Failed) => {
                    (stopped, error) = (Some(reason), None);
                }
                Some(Err(cause)) => (stopped, error) = (Some(StopReason::Failed), Some(Error::Engine(cause))),
                _ => {}
            }
        }
        let news = self.news();
        if error.is_none() && !news.is_empty() {
            let written = timeout(LAST_OFFSETS_WAIT, self.client.commit(&news)).await;
            self.offsets_written(
                &news,
                written.unwrap_or_else(|_| Err(ClientError::Final("Kafka does not answer".into()))),
            );
        }
        if self.request.group.is_some() {
            // Only now: whoever gets its partitions finds them released.
            self.seats.give_back();
            self.client.leave().await;
        }
        let names = (self.request.load.collection.to_string(), self.request.address.topic.clone());
        let accounts = self.accounts.into_values().collect();
        let account = Account::new(names, accounts, self.loaded, begun.elapsed().as_secs_f64());
        Outcome { account, stopped, error }
    }
}
