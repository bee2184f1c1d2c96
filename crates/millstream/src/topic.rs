//! A topic of Kafka as the source of a load: its options, and what the load is asked then.

use crate::args::duration;
use crate::failure::Failure;
use jiff::Timestamp;
use millstream_engine::{LoadRequest, Tombstone};
use millstream_host::read_at_most;
use millstream_kafka::{Address, Begin, Group, Messages, Properties, SCHEME, TopicRequest, Until, limits};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How a topic is loaded.
#[derive(Debug, clap::Args)]
pub struct TopicArgs {
    /// Kafka: where a partition begins if nothing of it is committed: `start`, `end`, or a time such as
    /// 2026-11-28T00:00:00Z [default: start]
    #[arg(long, value_name = "WHERE", value_parser = begin)]
    from: Option<Begin>,

    /// Kafka: when to end [default: when the load is stopped]
    #[arg(long, value_name = "WHEN")]
    until: Option<When>,

    /// Kafka: partitions to load, such as 0-63,70 [default: all, 64 at most]
    #[arg(long, value_name = "LIST", value_parser = partitions)]
    partitions: Option<Partitions>,

    /// Kafka: consumer group whose members divide the partitions; run the same command on several machines
    ///
    /// When a member ends, is cut off or joins, the partitions move. Each continues behind what is committed of it.
    /// `millstream loads --group NAME` shows who loads which.
    #[arg(long, value_name = "NAME")]
    group: Option<String>,

    /// Kafka: with --group, how long to commit what was read of a partition that goes to another member [default: 5s]
    ///
    /// What takes longer is rolled back, and the next owner reads it.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    drain: Option<Duration>,

    /// Kafka: with --group, a name of this member alone, which then keeps its partitions while it is started again
    #[arg(long, value_name = "NAME")]
    group_instance: Option<String>,

    /// Kafka: continue behind records that were removed before they were loaded
    ///
    /// Without it, the load ends with the number of those records.
    #[arg(long)]
    allow_gap: bool,

    /// Kafka: columns of the key that the message's key gives, separated by commas; empty messages then delete
    ///
    /// The message's key is text, or JSON: a string, or an object with members of these names. The document gets
    /// them as members.
    #[arg(long, value_name = "COLUMN", value_delimiter = ',')]
    message_key: Vec<String>,

    /// Kafka: add a member with the topic, partition, offset, timestamp, key and headers of the message
    #[arg(long, value_name = "MEMBER")]
    with_message: Option<String>,

    /// Kafka: file with settings of the client, one NAME=VALUE a line, with librdkafka's names
    #[arg(long, value_name = "FILE")]
    properties: Option<PathBuf>,
}

/// When a load of a topic ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum When {
    /// At the offsets that the topic has when the load begins
    End,
}

/// Numbers of partitions as typed.
#[derive(Debug, Clone)]
struct Partitions(BTreeSet<i32>);

/// The topic that is named instead of files, if one is.
pub fn address(files: &[PathBuf]) -> Result<Option<Address>, Failure> {
    let is_topic = |file: &PathBuf| file.to_str().is_some_and(|text| text.starts_with(SCHEME));
    if !files.iter().any(is_topic) {
        return Ok(None);
    }
    let [only] = files else {
        return Err(
            Failure::user("a topic is loaded alone").hint("load files, and other topics, by commands of their own")
        );
    };
    Ok(Some(only.to_str().unwrap_or_default().parse()?))
}

impl TopicArgs {
    /// Refuses options of topics for a load of files.
    pub fn require_none(&self) -> Result<(), Failure> {
        let Self { from, until, partitions, allow_gap, message_key, with_message, properties, .. } = self;
        let typed = [
            (from.is_some(), "--from"),
            (until.is_some(), "--until"),
            (partitions.is_some(), "--partitions"),
            (self.group.is_some(), "--group"),
            (self.drain.is_some(), "--drain"),
            (self.group_instance.is_some(), "--group-instance"),
            (*allow_gap, "--allow-gap"),
            (!message_key.is_empty(), "--message-key"),
            (with_message.is_some(), "--with-message"),
            (properties.is_some(), "--properties"),
        ];
        match typed.iter().find(|(typed, _)| *typed) {
            Some((_, option)) => {
                let hint = "leave it out, or name a topic: kafka://HOST/TOPIC";
                Err(Failure::user(format!("{option} goes with a topic of Kafka")).hint(hint))
            }
            None => Ok(()),
        }
    }

    /// The settings of the client.
    pub fn properties(&self) -> Result<Properties, Failure> {
        let of_group = [(self.drain.is_some(), "--drain"), (self.group_instance.is_some(), "--group-instance")];
        if let Some((_, option)) = of_group.iter().find(|(typed, _)| *typed && self.group.is_none()) {
            return Err(Failure::user(format!("{option} goes with --group")).hint("add --group NAME, or leave it out"));
        }
        if self.group_instance.as_deref() == Some("") {
            return Err(Failure::user("--group-instance is empty").hint("write a name, or leave it out"));
        }
        let mut properties = properties(self.properties.as_deref(), self.group.as_deref())?;
        if self.group_instance.is_some() {
            properties.instance.clone_from(&self.group_instance);
        }
        Ok(properties)
    }

    /// What is asked of a topic. `load` is asked of each of its partitions.
    pub fn request(
        &self,
        address: Address,
        mut load: LoadRequest,
        delete_when: Option<&Tombstone>,
        properties: &Properties,
    ) -> Result<TopicRequest, Failure> {
        let with = self.with_message.as_deref();
        let messages = Messages::new(&address.topic, &load.key, &self.message_key, with, delete_when)?;
        if messages.deletes() && delete_when.is_none() {
            load.mode = load.mode.with_tombstone(Some(Messages::deletes_by_itself()));
        }
        let name = load.source_name.take();
        let mut request = TopicRequest::new(address, load, messages);
        request.name = name;
        request.from = self.from.unwrap_or_default();
        request.until = if self.until.is_some() { Until::End } else { Until::Stopped };
        request.partitions = self.partitions.as_ref().map(|partitions| partitions.0.clone());
        request.group = self.group.clone().map(|name| Group {
            drain: self.drain.unwrap_or(limits::DRAIN),
            patience: properties.patience(),
            name,
        });
        if let Some(group) = &request.group {
            properties.check_drain(group.drain)?;
        }
        request.allow_gap = self.allow_gap;
        Ok(request)
    }
}

/// The settings of a client of this group, from a file if there is one.
pub fn properties(file: Option<&Path>, group: Option<&str>) -> Result<Properties, Failure> {
    let mut properties = match file {
        Some(file) => {
            let text = read_at_most(file, limits::PROPERTIES_BYTES_MAX, None)?;
            Properties::parse(&text, &file.display().to_string())?
        }
        None => Properties::default(),
    };
    if group == Some("") {
        return Err(Failure::user("--group is empty").hint("write the name of the group"));
    }
    if let (Some(group), Some(other)) = (group, properties.group.as_deref().filter(|other| Some(*other) != group)) {
        let problem = format!("--group {group} and group.id={other} are two groups");
        return Err(Failure::user(problem).hint("leave one of them out"));
    }
    if let Some(group) = group {
        properties.group = Some(group.to_owned());
    }
    Ok(properties)
}

fn begin(text: &str) -> Result<Begin, String> {
    match text {
        "start" => Ok(Begin::Start),
        "end" => Ok(Begin::End),
        text => match text.parse::<Timestamp>() {
            Ok(time) => Ok(Begin::Time(time.as_millisecond())),
            Err(_) => Err("it is start, end, or a time with its offset, such as 2026-11-28T00:00:00Z".into()),
        },
    }
}

fn partitions(text: &str) -> Result<Partitions, String> {
    let mut numbers = BTreeSet::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| text.trim().parse::<i32>().ok().filter(|number| (0..100_000).contains(number));
        match (number(first), number(last)) {
            (Some(first), Some(last)) if first <= last => numbers.extend(first..=last),
            _ => return Err("it takes numbers and ranges of them, such as 0-63,70".into()),
        }
    }
    Ok(Partitions(numbers))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_and_partitions_are_read() {
        assert_eq!(begin("start"), Ok(Begin::Start));
        assert_eq!(begin("1970-01-01T00:00:01.5Z"), Ok(Begin::Time(1_500)));
        assert!(begin("yesterday").is_err() && begin("2026-11-28").is_err());
        let of = |text| partitions(text).map(|partitions| partitions.0.into_iter().collect::<Vec<_>>());
        assert_eq!(of("0-2,7, 9"), Ok(vec![0, 1, 2, 7, 9]));
        for text in ["", "a", "3-1", "-1", "1-", "0-100000"] {
            assert!(of(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_group_is_that_of_the_option_or_of_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("client.properties");
        std::fs::write(&file, "group.id=a\n").unwrap();
        let group = |file, group| properties(file, group).map(|properties| properties.group);
        assert_eq!(group(None, None).unwrap(), None);
        assert_eq!(group(None, Some("b")).unwrap().as_deref(), Some("b"));
        for same in [None, Some("a")] {
            assert_eq!(group(Some(file.as_path()), same).unwrap().as_deref(), Some("a"));
        }
        assert!(group(Some(file.as_path()), Some("b")).is_err() && group(None, Some("")).is_err());
        let absent = dir.path().join("absent");
        assert!(group(Some(absent.as_path()), None).is_err());
        // A part of the settings is not read in silence.
        let rest = usize::try_from(limits::PROPERTIES_BYTES_MAX).unwrap();
        std::fs::write(&file, format!("{}\ngroup.id=a\n", "#".repeat(rest))).unwrap();
        assert!(group(Some(file.as_path()), None).is_err());
    }

    #[test]
    fn a_topic_is_loaded_alone() {
        let of = |files: &[&str]| address(&files.iter().map(PathBuf::from).collect::<Vec<_>>());
        assert!(of(&["a.ndjson", "b"]).is_ok_and(|found| found.is_none()));
        assert!(of(&["kafka://a/t"]).is_ok_and(|found| found.is_some_and(|address| address.topic == "t")));
        assert!(of(&["kafka://a/t", "b"]).is_err() && of(&["kafka://a"]).is_err());
    }
}
