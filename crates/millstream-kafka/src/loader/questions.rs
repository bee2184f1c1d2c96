//! What the client is asked while a topic is loaded, and its answers. Nothing waits for them.

use super::Loader;
use crate::client::{Client, ClientError, Marks, Place, Topic};
use crate::error::Error;
use crate::fingerprint::Fingerprint;
use crate::limits::PARTITIONS_MAX;
use crate::opening::{Plan, Tries};
use crate::partition::Partition;
use crate::request::{Begin, Until};
use crate::start::Obstacle;
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::task::JoinSet;

/// What the client has answered.
pub(super) enum Heard {
    Topic(Result<Topic, ClientError>),
    /// Of a partition that has no record at the offset that it reads next.
    Absent(Marked),
    /// Of partitions that stand still.
    Standing(Vec<Marked>),
    /// That these offsets were written.
    Offsets(Vec<(i32, u64)>, Result<(), ClientError>),
}

/// The marks of a partition, and where the client was in it when they were asked for.
pub(super) struct Marked {
    number: i32,
    place: Place,
    marks: Result<Marks, ClientError>,
}

/// What the client is being asked.
#[derive(Default)]
pub(super) struct Asked {
    topic: bool,
    offsets: bool,
    standing: bool,
    absent: BTreeSet<i32>,
}

impl<C: Client> Loader<'_, C> {
    /// Takes an answer to a question.
    pub(super) fn heard(&mut self, heard: Heard) -> Result<(), Error> {
        match heard {
            Heard::Topic(topic) => {
                self.asked.topic = false;
                match topic {
                    Ok(topic) => self.see_topic(topic),
                    Err(error) => self.not_seen(error),
                }
            }
            Heard::Absent(Marked { number, place, marks }) => {
                self.asked.absent.remove(&number);
                match marks {
                    Ok(marks) => self.find_again(number, place, marks),
                    // The next poll says it again.
                    Err(ClientError::Passing(_)) => Ok(()),
                    Err(error) => Err(error.into()),
                }
            }
            Heard::Standing(marked) => {
                self.asked.standing = false;
                self.say_who_stands(marked);
                Ok(())
            }
            Heard::Offsets(offsets, written) => {
                self.asked.offsets = false;
                self.offsets_written(&offsets, written);
                Ok(())
            }
        }
    }

    /// A partition that has no record at the offset that it reads next has these marks.
    fn find_again(&mut self, number: i32, place: Place, Marks { first, end, .. }: Marks) -> Result<(), Error> {
        let (topic, allow_gap) = (&self.request.address.topic, self.request.allow_gap);
        // If it has moved since, what the client has said is out of date, and so are the marks.
        let Some(partition) = self.partitions.get_mut(&number).filter(|partition| partition.place() == place) else {
            return Ok(());
        };
        if place.offset > end {
            return Err(partition.error(topic, Obstacle::Replaced("it ends before that"), first));
        }
        let gap = (place.offset < first).then(|| partition.error(topic, Obstacle::Gap, first));
        match gap {
            Some(gap) if !allow_gap => return Err(gap),
            Some(gap) => {
                partition.skip_to(first);
                partition.begin_again();
                self.warn(gap.to_string());
            }
            None => partition.begin_again(),
        }
        Ok(())
    }

    /// Asks where the records of a partition are that has none at the offset that it reads next.
    pub(super) fn ask_marks(&mut self, number: i32) {
        if let Some(partition) = self.partitions.get(&number)
            && self.asked.absent.insert(number)
        {
            let marked = marked(&self.client, partition);
            self.asking.spawn(async move { Heard::Absent(marked.await) });
        }
    }

    /// Looks for new partitions, and whether the topic was made again.
    pub(super) fn look_at_topic(&mut self) {
        if !std::mem::replace(&mut self.asked.topic, true) {
            let client = Arc::clone(&self.client);
            self.asking.spawn(async move { Heard::Topic(client.topic().await) });
        }
    }

    /// Loads partitions that were added, and finds out whether the topic was made again.
    fn see_topic(&mut self, Topic { id, partitions }: Topic) -> Result<(), Error> {
        self.unseen = 0;
        let topic = &self.request.address.topic;
        if self.print.is_other_topic(Fingerprint::of_topic(id))
            && let Some(partition) = self.partitions.values().next()
        {
            return Err(partition.error(topic, Obstacle::Replaced("the topic was made again"), 0));
        }
        self.ask_who_stands();
        // A group sees new ones itself.
        if self.request.partitions.is_some() || self.request.group.is_some() || self.request.until == Until::End {
            return Ok(());
        }
        let mut added: Vec<i32> = partitions.into_iter().filter(|number| !self.known.contains(number)).collect();
        let room = PARTITIONS_MAX.saturating_sub(self.known.len());
        if added.len() > room && !std::mem::replace(&mut self.said.too_many_partitions, true) {
            self.warn(format!(
                "topic {topic} has more than {PARTITIONS_MAX} partitions now; divide them among processes: --group NAME"
            ));
        }
        added.truncate(room);
        for number in added {
            self.known.insert(number);
            self.warn(format!("topic {topic} has a new partition, which is loaded too: {number}"));
            let opener = Arc::clone(&self.opener);
            // They were empty when the others began, wherever that was.
            let plan = Plan { begin: Begin::Start, others_resumed: true, until: None, tries: Tries::Many };
            self.opening.spawn(async move { (number, opener.open(number, plan).await) });
        }
        Ok(())
    }

    /// The topic cannot be seen. It may be deleted, or this user may not see it any more.
    fn not_seen(&mut self, error: ClientError) -> Result<(), Error> {
        self.unseen = self.unseen.saturating_add(1);
        match error {
            // A broker that has just started may say so once.
            ClientError::Final(_) if self.unseen > 1 => Err(error.into()),
            error => {
                if self.unseen.is_power_of_two() {
                    let topic = &self.request.address.topic;
                    self.warn(format!("topic {topic} cannot be looked at, and is looked at again: {error}"));
                }
                Ok(())
            }
        }
    }

    /// Asks where the records of partitions are whose client has not moved since the last look.
    fn ask_who_stands(&mut self) {
        if self.asked.standing {
            return;
        }
        let mut marks = JoinSet::new();
        for partition in self.partitions.values_mut() {
            if partition.stands() {
                marks.spawn(marked(&self.client, partition));
            }
        }
        if !marks.is_empty() {
            self.asked.standing = true;
            self.asking.spawn(async move { Heard::Standing(marks.join_all().await) });
        }
    }

    /// Says of partitions that they have records, but the client gets none. It does not say why, and tries again.
    fn say_who_stands(&mut self, mut all: Vec<Marked>) {
        all.sort_by_key(|one| one.number);
        let (mut first, mut others) = (None, 0);
        for Marked { number, place, marks } in all {
            let Some(partition) = self.partitions.get_mut(&number) else { continue };
            let next = place.offset;
            let why = match marks {
                // It has moved since.
                _ if partition.place() != place => None,
                Ok(Marks { end, .. }) if end > next => Some(format!(
                    "has records from offset {next} to {end}, and the brokers return none: look whether it has a leader, \
                     and whether this user may read it"
                )),
                Ok(Marks { end, written, .. }) => (written > end).then(|| {
                    format!(
                        "waits at offset {end} for a transaction that is open; records behind it: {}",
                        written - end
                    )
                }),
                Err(error) => Some(format!("does not answer, and is asked again: {error}")),
            };
            if !partition.stalls(why.is_some()) {
                continue;
            }
            match first {
                None => first = why.map(|why| format!("partition {number} of {} {why}", self.request.address.topic)),
                Some(_) => others += 1,
            }
        }
        if let Some(first) = first {
            let others = if others > 0 { format!("; others like it: {others}") } else { String::new() };
            self.warn(format!("{first}{others}"));
        }
    }

    /// What Kafka does not know yet of how far partitions are committed.
    pub(super) fn news(&self) -> Vec<(i32, u64)> {
        let news = self.partitions.values().chain(self.done.values());
        let news = news.filter(|partition| partition.tellable() > partition.told);
        news.map(|partition| (partition.number, partition.tellable())).collect()
    }

    /// Writes to Kafka how far the partitions are committed. It matters to nobody but tools that show this.
    pub(super) fn write_offsets(&mut self) {
        let news = self.news();
        if news.is_empty() || std::mem::replace(&mut self.asked.offsets, true) {
            return;
        }
        let client = Arc::clone(&self.client);
        self.asking.spawn(async move {
            let written = client.commit(&news).await;
            Heard::Offsets(news, written)
        });
    }

    pub(super) fn offsets_written(&mut self, offsets: &[(i32, u64)], written: Result<(), ClientError>) {
        match written {
            Ok(()) => {
                for (number, offset) in offsets {
                    let known = self.partitions.get_mut(number).or_else(|| self.done.get_mut(number));
                    if let Some(partition) = known {
                        partition.told = *offset;
                    }
                }
            }
            // A group that divides its partitions anew takes no offsets until it has.
            Err(ClientError::Passing(_)) if self.request.group.is_some() => {}
            Err(error) => {
                if !std::mem::replace(&mut self.said.offsets_not_written, true) {
                    self.warn(format!(
                        "offsets cannot be written to Kafka, which only tools read that show lag: {error}"
                    ));
                }
            }
        }
    }
}

/// Asks for the marks of a partition.
fn marked<C: Client>(client: &Arc<C>, partition: &Partition) -> impl Future<Output = Marked> + Send + use<C> {
    let (client, number, place) = (Arc::clone(client), partition.number, partition.place());
    async move { Marked { number, place, marks: client.marks(number).await } }
}
