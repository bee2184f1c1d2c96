//! Where a group of loaders stands: the partitions of a topic, who loads each, and how far behind it is.

use crate::quantity;
use crate::table::{Align, Column};
use millstream_kafka::{Marks, Member};
use millstream_store::loads::StreamLoad;
use serde::Serialize;

/// Characters of the id of a member that has no name of its own. They are random, so the last ones tell members apart.
const ID_CHARS: usize = 8;

/// A partition, and one load of it.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Standing {
    partition: i32,
    /// What the group calls the member that loads it.
    member: Option<String>,
    /// What that calls itself.
    instance: Option<String>,
    /// Where that is.
    host: Option<String>,
    load_id: Option<i64>,
    collection: Option<String>,
    state: Option<String>,
    /// The offset before which all is committed.
    offset: Option<u64>,
    /// The offset behind the last record. `None` if the partition does not answer.
    end: Option<u64>,
    /// Offsets between the two that the topic still has. Some of them may have no record.
    lag: Option<u64>,
}

/// How partitions are shown to people.
pub const COLUMNS: &[Column<Standing>] = &[
    ("partition", Align::Right, |one| one.partition.to_string()),
    ("lag", Align::Right, |one| one.lag.map_or_else(|| "?".to_owned(), quantity::count)),
    ("offset", Align::Right, |one| one.offset.map_or_else(|| "-".to_owned(), |offset| offset.to_string())),
    ("end", Align::Right, |one| one.end.map_or_else(|| "?".to_owned(), |end| end.to_string())),
    ("owner", Align::Left, owner),
    ("load", Align::Right, |one| one.load_id.map_or_else(|| "-".to_owned(), |load_id| load_id.to_string())),
    ("state", Align::Left, |one| one.state.clone().unwrap_or_else(|| "-".to_owned())),
    ("collection", Align::Left, |one| one.collection.clone().unwrap_or_else(|| "-".to_owned())),
];

fn owner(one: &Standing) -> String {
    let Some(member) = &one.member else { return "nobody".to_owned() };
    let skipped = member.chars().count().saturating_sub(ID_CHARS);
    let name = one.instance.clone().unwrap_or_else(|| member.chars().skip(skipped).collect());
    match &one.host {
        Some(host) => format!("{name} at {host}"),
        None => name,
    }
}

/// A partition of a topic, its name as a stream, and where it begins and ends, if it answers.
pub type Known = (i32, String, Option<Marks>);

/// The partitions of a topic as the members of a group and the database know them.
pub fn standings(partitions: &[Known], members: &[Member], loads: &[StreamLoad]) -> Vec<Standing> {
    let mut standings = Vec::new();
    for (number, name, marks) in partitions {
        let owner = members.iter().find(|member| member.partitions.contains(number));
        let standing = |load: Option<&StreamLoad>| {
            let offset = load.and_then(|load| load.committed);
            Standing {
                partition: *number,
                member: owner.map(|member| member.id.clone()),
                instance: owner.and_then(|member| member.instance.clone()),
                host: owner.map(|member| member.host.clone()).filter(|host| !host.is_empty()),
                load_id: load.map(|load| load.load_id),
                collection: load.map(|load| load.collection.clone()),
                state: load.map(|load| load.state.clone()),
                offset,
                end: marks.map(|marks| marks.end),
                lag: marks.map(|marks| marks.end.saturating_sub(offset.unwrap_or(0).max(marks.first))),
            }
        };
        // The topic may be loaded into several collections.
        let mut of_partition = loads.iter().filter(|load| load.name == *name).peekable();
        if of_partition.peek().is_none() {
            standings.push(standing(None));
        }
        standings.extend(of_partition.map(|load| standing(Some(load))));
    }
    standings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Table;

    #[test]
    fn each_partition_has_its_owner_its_loads_and_its_lag() {
        let marks = |first, end| Marks { first, end, written: end };
        let partition = |number, first, end| (number, format!("kafka:t/{number}"), Some(marks(first, end)));
        let without_leader = (3, "kafka:t/3".to_owned(), None);
        let partitions = [partition(0, 5, 1_205), partition(1, 40, 50), partition(2, 0, 7), without_leader];
        let member = |id: &str, instance: Option<&str>, partitions: &[i32]| Member {
            id: id.to_owned(),
            instance: instance.map(str::to_owned),
            client: "millstream".into(),
            host: "10.0.0.7".into(),
            partitions: partitions.to_vec(),
        };
        let members = [member("millstream-0123-456789abcdef", None, &[0]), member("x", Some("east"), &[1])];
        let load = |load_id, number, collection: &str, committed| StreamLoad {
            load_id,
            collection: collection.to_owned(),
            name: format!("kafka:t/{number}"),
            state: "running".to_owned(),
            committed,
        };
        let loads = [
            load(3, 0, "public.a", Some(205)),
            load(4, 1, "public.a", Some(20)),
            load(9, 0, "public.b", None),
            load(5, 3, "public.a", Some(30)),
        ];
        let standings = standings(&partitions, &members, &loads);
        let lines: Vec<String> = Table::of(&standings, COLUMNS)
            .text(None)
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        let expected = [
            "PARTITION LAG OFFSET END OWNER LOAD STATE COLLECTION",
            "0 1,000 205 1205 89abcdef at 10.0.0.7 3 running public.a",
            "0 1,200 - 1205 89abcdef at 10.0.0.7 9 running public.b",
            "1 10 20 50 east at 10.0.0.7 4 running public.a",
            "2 7 - 7 nobody - - -",
            "3 ? 30 ? nobody 5 running public.a",
        ];
        assert_eq!(lines, expected);
        let json = serde_json::to_value(&standings[2]).unwrap();
        assert_eq!((json["lag"].as_u64(), json["instance"].as_str()), (Some(10), Some("east")));
        let json = serde_json::to_value(&standings[4]).unwrap();
        assert!(json["lag"].is_null() && json["offset"] == 30, "{json}");
    }
}
