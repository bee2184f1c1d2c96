//! A topic in memory, and a client that reads it. What brokers do to topics is done to it: transactions that are aborted,
//! compaction, retention, a topic that is made again, partitions that are added.

use bytes::Bytes;
use millstream_kafka::{Client, ClientError, Lot, Marks, Record, Topic};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;
use tokio::sync::Notify;

/// A topic and its reader.
#[derive(Default)]
pub(crate) struct Fake {
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    id: u8,
    logs: BTreeMap<i32, Log>,
    /// What a client reads, and from where on.
    reading: BTreeMap<i32, Reading>,
    /// Offsets that the client has written.
    told: BTreeMap<i32, u64>,
    /// Errors that the next polls return.
    errors: Vec<ClientError>,
    /// Why the topic cannot be seen, if so.
    unseen: Option<ClientError>,
    /// A partition whose records nobody gets.
    withheld: Option<i32>,
    /// Most records of a lot.
    lot: usize,
    polls: u64,
}

#[derive(Default)]
struct Log {
    /// By offset; `None` for what no client sees.
    records: BTreeMap<u64, Option<Record>>,
    first: u64,
    end: u64,
}

#[derive(Clone, Copy)]
struct Reading {
    next: u64,
    paused: bool,
    /// The offset that the client knows of.
    seen: u64,
}

impl Fake {
    /// A topic with so many partitions.
    pub(crate) fn new(partitions: i32) -> Self {
        let logs = (0..partitions).map(|number| (number, Log::default())).collect();
        Self { state: Mutex::new(State { id: 1, logs, lot: 100, ..State::default() }), changed: Notify::new() }
    }

    fn state<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let changed = change(&mut self.state.lock().unwrap());
        self.changed.notify_one();
        changed
    }

    /// Appends a message.
    pub(crate) fn push(&self, partition: i32, key: Option<&str>, value: Option<&[u8]>) {
        self.state(|state| {
            let log = state.logs.get_mut(&partition).unwrap();
            let bytes = Bytes::copy_from_slice;
            let record = Record {
                offset: log.end,
                timestamp_ms: i64::try_from(log.end).unwrap() * 10,
                key: key.map(|key| bytes(key.as_bytes())),
                value: value.map(bytes),
                headers: Vec::new(),
            };
            log.records.insert(log.end, Some(record));
            log.end += 1;
        });
    }

    /// Appends a document `{"id": id, "value": value}`.
    pub(crate) fn document(&self, partition: i32, id: &str, value: i64) {
        let document = format!("{{\"id\":\"{id}\",\"value\":{value}}}");
        self.push(partition, Some(id), Some(document.as_bytes()));
    }

    /// Appends offsets that no client sees: a control record, or messages of an aborted transaction.
    pub(crate) fn hidden(&self, partition: i32, offsets: u64) {
        self.state(|state| {
            let log = state.logs.get_mut(&partition).unwrap();
            (0..offsets).for_each(|n| drop(log.records.insert(log.end + n, None)));
            log.end += offsets;
        });
    }

    /// Compaction removes a record.
    pub(crate) fn compact(&self, partition: i32, offset: u64) {
        self.state(|state| state.logs.get_mut(&partition).unwrap().records.remove(&offset));
    }

    /// Retention removes what is before an offset.
    pub(crate) fn retain_from(&self, partition: i32, first: u64) {
        self.state(|state| {
            let log = state.logs.get_mut(&partition).unwrap();
            log.records.retain(|offset, _| *offset >= first);
            log.first = first;
        });
    }

    /// Messages come, and retention removes them before anybody has read them.
    pub(crate) fn outrun(&self, partition: i32, offsets: u64) {
        self.state(|state| {
            let log = state.logs.get_mut(&partition).unwrap();
            log.end += offsets;
            log.first = log.end;
            log.records.clear();
        });
    }

    /// The topic is deleted and made again, with nothing in it.
    pub(crate) fn make_again(&self, known: bool) {
        self.state(|state| {
            state.id = if known { state.id + 1 } else { 0 };
            state.logs.values_mut().for_each(|log| *log = Log::default());
        });
    }

    /// A partition is added.
    pub(crate) fn add_partition(&self, number: i32) {
        self.state(|state| state.logs.insert(number, Log::default()));
    }

    /// The log loses its end, as when a broker takes over that had not copied it.
    pub(crate) fn cut_off(&self, partition: i32, end: u64) {
        self.state(|state| {
            let log = state.logs.get_mut(&partition).unwrap();
            log.records.retain(|offset, _| *offset < end);
            log.end = end;
            if let Some(reading) = state.reading.get_mut(&partition) {
                reading.next = reading.next.min(end);
            }
        });
    }

    /// The next poll fails like this.
    pub(crate) fn fail(&self, error: ClientError) {
        self.state(|state| state.errors.push(error));
    }

    /// From now on, the topic is not seen for this reason.
    pub(crate) fn hide(&self, why: Option<ClientError>) {
        self.state(|state| state.unseen = why);
    }

    /// Brokers return no records of this partition, and no error.
    pub(crate) fn withhold(&self, partition: Option<i32>) {
        self.state(|state| state.withheld = partition);
    }

    /// Most records of a lot.
    pub(crate) fn lots_of(&self, records: usize) {
        self.state(|state| state.lot = records);
    }

    /// Offsets that the client has written.
    pub(crate) fn told(&self) -> BTreeMap<i32, u64> {
        self.state.lock().unwrap().told.clone()
    }

    /// How often the client was polled.
    pub(crate) fn polls(&self) -> u64 {
        self.state.lock().unwrap().polls
    }

    /// What is there of a partition.
    pub(crate) fn end(&self, partition: i32) -> u64 {
        self.state.lock().unwrap().logs[&partition].end
    }
}

impl State {
    fn poll(&mut self) -> Result<Vec<Lot>, ClientError> {
        self.polls += 1;
        if let Some(error) = self.errors.pop() {
            return Err(error);
        }
        let mut lots = Vec::new();
        for (number, reading) in self.reading.iter_mut().filter(|(_, reading)| !reading.paused) {
            let Some(log) = self.logs.get(number).filter(|_| self.withheld != Some(*number)) else { continue };
            if reading.next < log.first || reading.next > log.end {
                return Err(ClientError::OutOfRange { partition: *number });
            }
            let found: Vec<Record> =
                log.records.range(reading.next..).filter_map(|(_, record)| record.clone()).take(self.lot).collect();
            let more = found.len() == self.lot;
            reading.next = if more { found.last().map_or(log.end, |last| last.offset + 1) } else { log.end };
            if reading.next != reading.seen || !found.is_empty() {
                reading.seen = reading.next;
                lots.push(Lot { partition: *number, records: found, next: reading.next });
            }
        }
        Ok(lots)
    }
}

impl Client for Fake {
    async fn topic(&self) -> Result<Topic, ClientError> {
        let state = self.state.lock().unwrap();
        if let Some(why) = &state.unseen {
            return Err(why.clone());
        }
        let id = (state.id > 0).then_some([state.id; 16]);
        Ok(Topic { id, partitions: state.logs.keys().copied().collect() })
    }

    async fn marks(&self, partition: i32) -> Result<Marks, ClientError> {
        let state = self.state.lock().unwrap();
        let log = state.logs.get(&partition).ok_or_else(|| ClientError::Final("no such partition".into()))?;
        Ok(Marks { first: log.first, end: log.end })
    }

    async fn offset_at(&self, partition: i32, time_ms: i64) -> Result<Option<u64>, ClientError> {
        let state = self.state.lock().unwrap();
        let mut records = state.logs[&partition].records.values().flatten();
        Ok(records.find(|record| record.timestamp_ms >= time_ms).map(|record| record.offset))
    }

    async fn assign(&self, places: &[(i32, Option<u64>)]) -> Result<(), ClientError> {
        self.state(|state| {
            let before = std::mem::take(&mut state.reading);
            for (number, place) in places {
                let reading = match place {
                    Some(next) => Reading { next: *next, paused: false, seen: *next },
                    None => before[number],
                };
                state.reading.insert(*number, reading);
            }
        });
        Ok(())
    }

    async fn seek(&self, partition: i32, offset: u64) -> Result<(), ClientError> {
        self.state(|state| {
            let reading = state.reading.get_mut(&partition).unwrap();
            (reading.next, reading.seen) = (offset, offset);
        });
        Ok(())
    }

    async fn pause(&self, partition: i32, paused: bool) {
        self.state(|state| {
            if let Some(reading) = state.reading.get_mut(&partition) {
                reading.paused = paused;
            }
        });
    }

    async fn poll(&self, wait: Duration) -> Result<Vec<Lot>, ClientError> {
        // Until something changes, and not for as long as a broker would wait.
        let answer = self.state.lock().unwrap().poll();
        if answer.as_ref().is_ok_and(Vec::is_empty) {
            let _ = tokio::time::timeout(wait, self.changed.notified()).await;
            return self.state.lock().unwrap().poll();
        }
        answer
    }

    async fn commit(&self, offsets: &[(i32, u64)]) -> Result<(), ClientError> {
        self.state(|state| state.told.extend(offsets.iter().copied()));
        Ok(())
    }
}
