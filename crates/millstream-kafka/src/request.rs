//! What a topic is asked for.

use crate::address::Address;
use crate::error::Error;
use crate::limits::{DRAIN, PARTITIONS_MAX, PATIENCE, TOPIC_EVERY};
use crate::message::Messages;
use millstream_engine::LoadRequest;
use std::collections::BTreeSet;
use std::time::Duration;

/// Where a partition begins of which nothing is committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Begin {
    /// At the first record that is left.
    #[default]
    Start,
    /// Behind the last record.
    End,
    /// At the first record of this time, in milliseconds since 1970.
    Time(i64),
}

/// When a load of a topic ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Until {
    /// When it is stopped.
    #[default]
    Stopped,
    /// At the offsets that the topic had when the load began.
    End,
}

/// A consumer group whose members divide the partitions of a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// How long what was read of a partition may be committed when the group takes the partition back. What takes longer is
    /// rolled back, and read by the next owner.
    pub drain: Duration,
    /// How long a member waits, beyond that, for another one to release a partition that was assigned to it. Then it takes the
    /// partition over.
    pub patience: Duration,
}

impl Group {
    /// A group of this name, with defaults for everything else.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), drain: DRAIN, patience: PATIENCE }
    }
}

/// A topic, and what it is loaded into.
#[derive(Debug, Clone)]
pub struct TopicRequest {
    /// The topic.
    pub address: Address,
    /// What is asked of each partition's load. It has no sources. If empty messages delete, its mode says what deletes.
    pub load: LoadRequest,
    /// What tells topics of one name apart.
    pub name: Option<String>,
    /// How messages become documents.
    pub messages: Messages,
    /// The partitions to load; all if it is `None`, also those that are added while it runs.
    pub partitions: Option<BTreeSet<i32>>,
    /// The group that decides which of them are loaded here, and when. It takes the place of `partitions`.
    pub group: Option<Group>,
    /// Where new partitions begin.
    pub from: Begin,
    /// When it ends.
    pub until: Until,
    /// Whether it continues behind records that were removed before they were loaded.
    pub allow_gap: bool,
    /// How often the topic is looked at for new partitions.
    pub topic_every: Duration,
}

impl TopicRequest {
    /// All of a topic into a collection, with defaults for everything else.
    pub fn new(address: Address, load: LoadRequest, messages: Messages) -> Self {
        Self {
            address,
            load,
            name: None,
            messages,
            partitions: None,
            group: None,
            from: Begin::default(),
            until: Until::default(),
            allow_gap: false,
            topic_every: TOPIC_EVERY,
        }
    }

    /// Refuses what does not go with a group.
    ///
    /// # Errors
    /// [`Error::Refused`].
    pub(crate) fn check(&self) -> Result<(), Error> {
        let all = "leave it out: a group divides all partitions among its members, until they are stopped";
        // A partition is opened again whenever it moves.
        let anew = "leave it out: every partition that moves would begin anew, and count again what others have loaded; \
                    to start over, name the topic anew: --source-name NAME";
        let options = [
            (self.partitions.is_some(), "--partitions", all),
            (self.until == Until::End, "--until end", all),
            (!self.load.resume, "--resume off", anew),
        ];
        match options.iter().find(|(is_asked, ..)| *is_asked && self.group.is_some()) {
            Some((_, option, hint)) => Err(Error::refused(format!("{option} does not go with --group"), *hint)),
            None => Ok(()),
        }
    }

    /// The partitions that are loaded here, of those that a topic has. Of a group, all that may be.
    ///
    /// # Errors
    /// [`Error::Refused`] when it lacks one, or has too many.
    pub(crate) fn chosen(&self, there: &[i32]) -> Result<Vec<i32>, Error> {
        let there: BTreeSet<i32> = there.iter().copied().collect();
        let topic = &self.address.topic;
        if let Some(missing) = self.partitions.iter().flatten().find(|number| !there.contains(*number)) {
            let problem = format!("topic {topic} has no partition {missing}");
            return Err(Error::refused(problem, format!("it has {}; correct --partitions", counted(there.len()))));
        }
        let chosen: Vec<i32> = self.partitions.clone().unwrap_or(there).into_iter().collect();
        if chosen.is_empty() {
            return Err(Error::refused(format!("topic {topic} has no partitions"), "check its name"));
        }
        if chosen.len() > PARTITIONS_MAX && self.group.is_none() {
            return Err(Error::refused(
                format!("{} of topic {topic} are more than one process loads", counted(chosen.len())),
                format!(
                    "divide them among processes of {PARTITIONS_MAX} at most: --group NAME, or --partitions 0-{}",
                    PARTITIONS_MAX - 1
                ),
            ));
        }
        Ok(chosen)
    }
}

/// A number of partitions.
pub(crate) fn counted(partitions: usize) -> String {
    format!("{partitions} partition{}", if partitions == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_model::KeyRequest;
    use millstream_pg::Explained as _;

    #[test]
    fn partitions_are_those_of_the_topic_or_those_that_are_named() {
        let key = KeyRequest::parse_list("id:text").unwrap();
        let load = LoadRequest::new("t".parse().unwrap(), key.clone(), Vec::new());
        let messages = Messages::new("t", &key, &[], None, None).unwrap();
        let mut request = TopicRequest::new("kafka://a/t".parse().unwrap(), load, messages);
        assert_eq!(request.chosen(&[2, 0, 1]).unwrap(), [0, 1, 2]);
        assert!(request.chosen(&[]).is_err());
        let many: Vec<i32> = (0..=i32::try_from(PARTITIONS_MAX).unwrap()).collect();
        let error = request.chosen(&many).unwrap_err();
        assert!(error.hint().is_some_and(|hint| hint.contains("--partitions 0-63")), "{error}");
        request.partitions = Some(BTreeSet::from([1, 2]));
        assert_eq!(request.chosen(&[0, 1, 2]).unwrap(), [1, 2]);
        assert!(request.check().is_ok());
        assert_eq!(request.chosen(&many).unwrap(), [1, 2]);
        assert!(request.chosen(&[0, 1]).unwrap_err().to_string().contains("no partition 2"));
        request.group = Some(Group::new("g"));
        assert!(request.check().unwrap_err().to_string().contains("--partitions does not go with --group"));
        (request.partitions, request.until) = (None, Until::End);
        assert!(request.check().unwrap_err().to_string().contains("--until end does not go with --group"));
        (request.until, request.load.resume) = (Until::Stopped, false);
        let error = request.check().unwrap_err();
        assert!(error.to_string().contains("--resume off does not go with --group"), "{error}");
        assert!(error.hint().is_some_and(|hint| hint.contains("--source-name")), "{error}");
        request.load.resume = true;
        assert!(request.check().is_ok());
        assert_eq!(request.chosen(&many).unwrap(), many, "its members divide them");
    }
}
