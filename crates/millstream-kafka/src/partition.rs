//! A partition while it is loaded: its stream, how far the client has come, and what waits for the stream.

use crate::client::{Lot, Place};
use crate::error::Error;
use crate::fingerprint::Fingerprint;
use crate::limits::LOTS_MAX;
use crate::start::{Last, Obstacle, Start};
use millstream_engine::Stream;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

/// A partition while it is loaded.
pub(crate) struct Partition {
    pub(crate) number: i32,
    /// The number of its opening: it may be closed and opened again.
    opening: u64,
    load_id: i64,
    /// Whether an earlier run has begun with it.
    pub(crate) resumed: bool,
    /// Its stream, until it is closed.
    pub(crate) stream: Option<Stream>,
    /// The way to its worker. `None` if nothing more comes.
    lots: Option<mpsc::Sender<Lot>>,
    /// Lots that the worker cannot take yet. The client is paused meanwhile, so they are few.
    waiting: VecDeque<Lot>,
    /// Whether the client is paused.
    pub(crate) paused: bool,
    /// The number of the reading whose records are taken; 0 while the client is not asked to read it.
    reading: u64,
    /// Whether the client has said that it reads it.
    is_read: bool,
    /// The offset from which the client reads on.
    next: u64,
    /// The first offset that is loaded.
    load: u64,
    /// What must be found before that.
    last: Option<Last>,
    /// Where it ends.
    until: Option<u64>,
    /// Records that were removed before they were loaded, at most so many.
    pub(crate) gap: u64,
    /// The place up to which the worker has, or will get, everything.
    handed: u64,
    committed: Arc<AtomicU64>,
    /// The offset that was written to Kafka.
    pub(crate) told: u64,
    /// Where the client was when it was last asked whether it has moved.
    stood_at: Option<u64>,
    /// Looks in a row at which there were records that the client did not get.
    stalls: u32,
}

impl Partition {
    /// A partition that begins like this. Returns what its worker receives.
    pub(crate) fn new(number: i32, stream: Stream, start: Start, until: Option<u64>) -> (Self, mpsc::Receiver<Lot>) {
        let (lots, received) = mpsc::channel(LOTS_MAX);
        let Start { read, load, last, gap } = start;
        let partition = Self {
            number,
            opening: 0,
            load_id: stream.load_id(),
            resumed: stream.watermark().is_some(),
            stream: Some(stream),
            lots: Some(lots),
            waiting: VecDeque::new(),
            paused: false,
            reading: 0,
            is_read: false,
            next: read,
            load,
            last,
            until,
            gap,
            handed: load,
            committed: Arc::new(AtomicU64::new(load)),
            told: 0,
            stood_at: None,
            stalls: 0,
        };
        (partition, received)
    }

    /// The partition, as this opening of it.
    pub(crate) fn opened_as(self, opening: u64) -> Self {
        Self { opening, ..self }
    }

    /// Whether it is the partition of that opening.
    pub(crate) fn is_opening(&self, opening: u64) -> bool {
        self.opening == opening
    }

    /// Where the client is to begin, if it does not read it yet, in a reading of this number.
    pub(crate) fn begin(&mut self, reading: u64) -> Option<Place> {
        if self.is_read {
            return None;
        }
        (self.reading, self.paused) = (reading, false);
        Some(Place { offset: self.next, reading })
    }

    /// The client reads it.
    pub(crate) fn begun(&mut self) {
        self.is_read = true;
    }

    /// The client must begin a new reading: nobody knows where the one that it has goes on.
    pub(crate) fn begin_again(&mut self) {
        self.is_read = false;
    }

    /// Whether the client reads it.
    pub(crate) fn is_read(&self) -> bool {
        self.is_read
    }

    /// Where the client is: the number of its reading, and the offset of the next record to load.
    pub(crate) fn place(&self) -> Place {
        Place { offset: self.next(), reading: self.reading }
    }

    /// Where its worker notes how far it is committed.
    pub(crate) fn committed(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.committed)
    }

    /// What an earlier run has noted of its last record.
    pub(crate) fn last(&self) -> Option<Fingerprint> {
        self.last.map(Last::print)
    }

    /// The place up to which everything is committed.
    pub(crate) fn offset(&self) -> u64 {
        self.committed.load(Relaxed)
    }

    /// The offset of the next record to load.
    pub(crate) fn next(&self) -> u64 {
        self.next.max(self.load)
    }

    /// The offset that Kafka may be told: if all records are committed, it lies behind offsets without one.
    pub(crate) fn tellable(&self) -> u64 {
        let committed = self.offset();
        if committed >= self.handed { self.next() } else { committed }
    }

    /// Whether the client has come to its end.
    pub(crate) fn is_done(&self) -> bool {
        self.last.is_none() && self.until.is_some_and(|until| self.next >= until)
    }

    /// Whether the client may read and has not moved since it was last asked.
    pub(crate) fn stands(&mut self) -> bool {
        let stood = self.stood_at.replace(self.next) == Some(self.next);
        let stands = stood && self.is_read && !self.paused && self.lots.is_some() && !self.is_done();
        if !stands {
            self.stalls = 0;
        }
        stands
    }

    /// Notes whether there are records while the client stands. Returns whether the user must know: a record may have
    /// come in this moment, so it takes two looks.
    pub(crate) fn stalls(&mut self, stalls: bool) -> bool {
        self.stalls = if stalls { self.stalls.saturating_add(1) } else { 0 };
        self.stalls > 1 && self.stalls.is_power_of_two()
    }

    /// Whether lots wait for the worker.
    pub(crate) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Takes what the client has read.
    pub(crate) fn accept(&mut self, lot: Lot) -> Result<(), Obstacle> {
        // What an earlier reading has left on its way may lie anywhere.
        if self.is_done() || self.lots.is_none() || lot.reading != self.reading {
            return Ok(());
        }
        let Lot { mut records, next, .. } = lot;
        let first = records.first().map_or(next, |record| record.offset);
        if first < self.next || next < self.next {
            return Err(Obstacle::Replaced("its last records were removed, and others took their offsets"));
        }
        if let Some(last) = self.last {
            if records.is_empty() && next < self.load {
                return Ok(());
            }
            last.found(records.first())?;
            self.last = None;
        }
        records.retain(|record| record.offset >= self.load && self.until.is_none_or(|until| record.offset < until));
        self.next = next;
        let next = self.until.map_or(next, |until| next.min(until));
        if next > self.handed {
            self.handed = next;
            self.waiting.push_back(Lot { partition: self.number, reading: self.reading, records, next });
        }
        Ok(())
    }

    /// Continues at this offset, because what was before it is gone.
    pub(crate) fn skip_to(&mut self, first: u64) {
        self.gap += first.saturating_sub(self.next());
        (self.next, self.load, self.last) = (first, first, None);
    }

    /// Hands lots to the worker, as many as it takes.
    pub(crate) fn hand_over(&mut self) {
        while let (Some(lots), Some(lot)) = (&self.lots, self.waiting.pop_front()) {
            match lots.try_send(lot) {
                Ok(()) => {}
                Err(TrySendError::Full(lot)) => {
                    self.waiting.push_front(lot);
                    return;
                }
                // The worker has ended and says why.
                Err(TrySendError::Closed(_)) => return self.end(),
            }
        }
        if self.is_done() {
            self.end();
        }
    }

    /// Takes nothing more. What the worker has is sent.
    pub(crate) fn end(&mut self) {
        self.lots = None;
        self.waiting.clear();
    }

    /// What an obstacle means for this partition of a topic.
    pub(crate) fn error(&self, topic: &str, obstacle: Obstacle, first: u64) -> Error {
        obstacle_error(topic, (self.number, self.load_id), obstacle, (self.next(), first))
    }
}

/// What an obstacle means: `next` is the offset of the next record to load, `first` the first that is left.
pub(crate) fn obstacle_error(
    topic: &str,
    (partition, load_id): (i32, i64),
    obstacle: Obstacle,
    (next, first): (u64, u64),
) -> Error {
    let topic = topic.to_owned();
    match obstacle {
        Obstacle::Gap => Error::Gap { topic, partition, next, first },
        Obstacle::Replaced(reason) => Error::Replaced { topic, partition, load_id, next, reason },
    }
}
