//! A topic in memory, and clients that read it. What brokers do to topics is done to it: transactions that are aborted,
//! compaction, retention, a topic that is made again, partitions that are added. What a group decides, a test decides.

use bytes::Bytes;
use millstream_kafka::{Client, ClientError, Decision, Lot, Marks, Member, Place, Record, Released, Topic};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{mpsc, watch};

/// A topic and one of its readers.
pub(crate) struct Fake {
    shared: Arc<Shared>,
    /// Which of the readers it is.
    reader: usize,
    decide: mpsc::Sender<Decided>,
    decided: tokio::sync::Mutex<mpsc::Receiver<Decided>>,
}

type Decided = Result<Decision, ClientError>;

/// Decisions that wait for a reader, at most.
const DECISIONS: usize = 64;

struct Shared {
    state: Mutex<State>,
    changed: watch::Sender<()>,
}

#[derive(Default)]
struct State {
    id: u8,
    logs: BTreeMap<i32, Log>,
    readers: Vec<Reader>,
    /// Offsets that clients have written.
    told: BTreeMap<i32, u64>,
    /// Why the topic cannot be seen, if so.
    unseen: Option<ClientError>,
    /// A partition whose records nobody gets.
    withheld: Option<i32>,
    /// What becomes of questions for marks, and how many there were of each partition since that is so.
    questions: Questions,
    asked: BTreeMap<i32, u64>,
    /// Most records of a lot.
    lot: usize,
}

/// What becomes of questions.
#[derive(Clone, Default)]
pub(crate) enum Questions {
    #[default]
    Answered,
    Unanswered,
    Failed(ClientError),
}

#[derive(Default)]
struct Reader {
    /// What it reads, and from where on.
    reading: BTreeMap<i32, Reading>,
    /// Errors that its next polls return.
    errors: Vec<ClientError>,
    /// Lots that its next poll returns before all others.
    left_over: Vec<Lot>,
    polls: u64,
    is_member: bool,
    /// What the group has assigned to it.
    assigned: BTreeSet<i32>,
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
    number: u64,
    next: u64,
    paused: bool,
    /// The offset that the client knows of.
    seen: u64,
}

impl Fake {
    /// A topic with so many partitions.
    pub(crate) fn new(partitions: i32) -> Self {
        let logs = (0..partitions).map(|number| (number, Log::default())).collect();
        let state = Mutex::new(State { id: 1, logs, lot: 100, ..State::default() });
        Self::reader(Arc::new(Shared { state, changed: watch::Sender::new(()) }))
    }

    /// The reader goes on where it is, as one that was killed while it read.
    pub(crate) fn reads_on(&self) {
        self.own(|reader| reader.reading.values_mut().for_each(|reading| reading.paused = false));
    }

    /// Another reader of the same topic.
    pub(crate) fn another(&self) -> Self {
        Self::reader(Arc::clone(&self.shared))
    }

    fn reader(shared: Arc<Shared>) -> Self {
        let reader = {
            let readers = &mut shared.state.lock().unwrap().readers;
            readers.push(Reader::default());
            readers.len() - 1
        };
        let (decide, decided) = mpsc::channel(DECISIONS);
        Self { shared, reader, decide, decided: tokio::sync::Mutex::new(decided) }
    }

    fn state<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let changed = change(&mut self.shared.state.lock().unwrap());
        self.shared.changed.send_replace(());
        changed
    }

    fn look<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.shared.state.lock().unwrap())
    }

    fn own<T>(&self, change: impl FnOnce(&mut Reader) -> T) -> T {
        self.state(|state| change(&mut state.readers[self.reader]))
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
            for reading in state.readers.iter_mut().filter_map(|reader| reader.reading.get_mut(&partition)) {
                reading.next = reading.next.min(end);
            }
        });
    }

    /// The next poll fails like this.
    pub(crate) fn fail(&self, error: ClientError) {
        self.own(|reader| reader.errors.push(error));
    }

    /// From now on, the topic is not seen for this reason.
    pub(crate) fn hide(&self, why: Option<ClientError>) {
        self.state(|state| state.unseen = why);
    }

    /// Brokers return no records of this partition, and no error.
    pub(crate) fn withhold(&self, partition: Option<i32>) {
        self.state(|state| state.withheld = partition);
    }

    /// What becomes of questions for marks from now on.
    pub(crate) fn questions(&self, questions: Questions) {
        self.state(|state| {
            state.questions = questions;
            state.asked.clear();
        });
    }

    /// How often the marks of a partition were asked for since then.
    pub(crate) fn asked(&self, partition: i32) -> u64 {
        self.look(|state| state.asked.get(&partition).copied().unwrap_or(0))
    }

    /// Most records of a lot.
    pub(crate) fn lots_of(&self, records: usize) {
        self.state(|state| state.lot = records);
    }

    /// Offsets that clients have written.
    pub(crate) fn told(&self) -> BTreeMap<i32, u64> {
        self.look(|state| state.told.clone())
    }

    /// How often this client was polled.
    pub(crate) fn polls(&self) -> u64 {
        self.look(|state| state.readers[self.reader].polls)
    }

    /// What is there of a partition.
    pub(crate) fn end(&self, partition: i32) -> u64 {
        self.look(|state| state.logs[&partition].end)
    }

    /// Whether this client is a member of the group.
    pub(crate) fn is_member(&self) -> bool {
        self.look(|state| state.readers[self.reader].is_member)
    }

    /// The number of the client's reading of a partition, if it reads it.
    pub(crate) fn reading(&self, partition: i32) -> Option<u64> {
        self.look(|state| state.readers[self.reader].reading.get(&partition).map(|reading| reading.number))
    }

    /// Whether the client gets records of a partition.
    pub(crate) fn reads(&self, partition: i32) -> bool {
        self.look(|state| state.readers[self.reader].reading.get(&partition).is_some_and(|reading| !reading.paused))
    }

    /// The next poll also returns this, before everything else, as if it had been on its way for long.
    pub(crate) fn leave_over(&self, lot: Lot) {
        self.own(|reader| reader.left_over.push(lot));
    }

    /// The group decides something, or cannot.
    pub(crate) fn decide(&self, decided: Decided) {
        self.decide.try_send(decided).expect("few decisions wait");
    }

    /// The group assigns partitions to this member.
    pub(crate) fn assigned(&self, partitions: &[i32]) {
        self.own(|reader| reader.assigned.extend(partitions));
        self.decide(Ok(Decision::Assigned(partitions.to_vec())));
    }

    /// The group takes partitions back, and waits for their release.
    pub(crate) fn revoked(&self, partitions: &[i32]) -> impl Future<Output = ()> + use<> {
        self.own(|reader| reader.assigned.retain(|number| !partitions.contains(number)));
        let (release, released) = Released::new();
        self.decide(Ok(Decision::Revoked(partitions.to_vec(), release)));
        released
    }

    /// The group has taken partitions away.
    pub(crate) fn lost(&self, partitions: &[i32]) {
        self.own(|reader| reader.assigned.retain(|number| !partitions.contains(number)));
        self.decide(Ok(Decision::Lost(partitions.to_vec())));
    }
}

impl State {
    fn poll(&mut self, reader: usize) -> Result<Vec<Lot>, ClientError> {
        let reader = &mut self.readers[reader];
        reader.polls += 1;
        if let Some(error) = reader.errors.pop() {
            return Err(error);
        }
        let is_absent = |(number, reading): &(&i32, &Reading)| {
            let log = self.logs.get(*number).filter(|_| !reading.paused);
            log.is_some_and(|log| reading.next < log.first || reading.next > log.end)
        };
        if let Some((number, _)) = reader.reading.iter().find(is_absent) {
            return Err(ClientError::OutOfRange { partition: *number });
        }
        let mut lots = std::mem::take(&mut reader.left_over);
        for (number, reading) in reader.reading.iter_mut().filter(|(_, reading)| !reading.paused) {
            let Some(log) = self.logs.get(number).filter(|_| self.withheld != Some(*number)) else { continue };
            let found: Vec<Record> =
                log.records.range(reading.next..).filter_map(|(_, record)| record.clone()).take(self.lot).collect();
            let more = found.len() == self.lot;
            reading.next = if more { found.last().map_or(log.end, |last| last.offset + 1) } else { log.end };
            if reading.next != reading.seen || !found.is_empty() {
                reading.seen = reading.next;
                lots.push(Lot { partition: *number, reading: reading.number, records: found, next: reading.next });
            }
        }
        Ok(lots)
    }
}

impl Client for Fake {
    async fn topic(&self) -> Result<Topic, ClientError> {
        self.look(|state| match &state.unseen {
            Some(why) => Err(why.clone()),
            None => {
                let id = (state.id > 0).then_some([state.id; 16]);
                Ok(Topic { id, partitions: state.logs.keys().copied().collect() })
            }
        })
    }

    async fn marks(&self, partition: i32) -> Result<Marks, ClientError> {
        let questions = self.state(|state| {
            *state.asked.entry(partition).or_default() += 1;
            state.questions.clone()
        });
        match questions {
            Questions::Answered => {}
            Questions::Unanswered => std::future::pending().await,
            Questions::Failed(why) => return Err(why),
        }
        self.look(|state| {
            let log = state.logs.get(&partition).ok_or_else(|| ClientError::Final("no such partition".into()))?;
            Ok(Marks { first: log.first, end: log.end, written: log.end })
        })
    }

    async fn offset_at(&self, partition: i32, time_ms: i64) -> Result<Option<u64>, ClientError> {
        self.look(|state| {
            let mut records = state.logs[&partition].records.values().flatten();
            Ok(records.find(|record| record.timestamp_ms >= time_ms).map(|record| record.offset))
        })
    }

    async fn assign(&self, places: &[(i32, Option<Place>)]) -> Result<(), ClientError> {
        self.own(|reader| {
            let before = std::mem::take(&mut reader.reading);
            for (number, place) in places {
                let reading = match place {
                    Some(Place { offset, reading }) => {
                        Reading { number: *reading, next: *offset, paused: false, seen: *offset }
                    }
                    None => before[number],
                };
                reader.reading.insert(*number, reading);
            }
        });
        Ok(())
    }

    async fn pause(&self, partition: i32, paused: bool) {
        self.own(|reader| {
            if let Some(reading) = reader.reading.get_mut(&partition) {
                reading.paused = paused;
            }
        });
    }

    async fn poll(&self, wait: Duration) -> Result<Vec<Lot>, ClientError> {
        // Until something changes, and not for as long as a broker would wait.
        let mut changed = self.shared.changed.subscribe();
        let poll = || self.shared.state.lock().unwrap().poll(self.reader);
        let answer = poll();
        if answer.as_ref().is_ok_and(Vec::is_empty) {
            let _ = tokio::time::timeout(wait, changed.changed()).await;
            return poll();
        }
        answer
    }

    async fn commit(&self, offsets: &[(i32, u64)]) -> Result<(), ClientError> {
        self.state(|state| state.told.extend(offsets.iter().copied()));
        Ok(())
    }

    async fn join(&self, _: impl Fn(String) + Send + Sync) -> Result<(), ClientError> {
        self.own(|reader| reader.is_member = true);
        Ok(())
    }

    async fn decision(&self) -> Decided {
        let decided = self.decided.lock().await.recv().await;
        decided.expect("this end is open for as long as the other one")
    }

    async fn leave(&self) {
        self.own(|reader| reader.is_member = false);
    }

    async fn members(&self) -> Result<Vec<Member>, ClientError> {
        self.look(|state| {
            let members = state.readers.iter().enumerate().filter(|(_, reader)| reader.is_member);
            let member = |(number, reader): (usize, &Reader)| Member {
                id: number.to_string(),
                instance: None,
                client: "millstream".into(),
                host: "localhost".into(),
                partitions: reader.assigned.iter().copied().collect(),
            };
            Ok(members.map(member).collect())
        })
    }
}
