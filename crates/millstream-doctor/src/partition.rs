//! Partitions: what a check finds of several partitions of a table or an index is one finding, about the root.

use crate::limits::{PARTITIONS_MAX, PARTITIONS_SHOWN_MAX};
use crate::refusal::or_refusal;
use millstream_model::Finding;
use millstream_pg::Error;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use tokio_postgres::Client;

/// The names of the partitions in a database, each with that of its root. Names are as SQL needs them.
#[derive(Debug, Default)]
pub(crate) struct Roots(BTreeMap<String, String>);

impl Roots {
    /// Reads the partitions in the database of the session.
    ///
    /// # Errors
    /// A lost connection.
    pub(crate) async fn read(client: &Client) -> Result<Self, Error> {
        let rows = or_refusal(client.query(include_str!("partition.sql"), &[&PARTITIONS_MAX]).await)?;
        // Without them, each partition has a finding of its own.
        Ok(Self(rows.unwrap_or_default().iter().map(|row| (row.get("name"), row.get("root"))).collect()))
    }

    /// The subject of a finding with the root in the place of a partition, also in `PARTITION.COLUMN`. `None` if it is about
    /// no partition.
    pub(crate) fn root_of(&self, subject: &str) -> Option<String> {
        let ends = subject.match_indices('.').map(|(at, _)| at).chain([subject.len()]);
        let (end, root) = ends.rev().find_map(|end| Some((end, self.0.get(&subject[..end])?)))?;
        Some(format!("{root}{}", &subject[end..]))
    }

    /// The findings of one check, those about partitions of one root together. The order is that of the first of each.
    ///
    /// One partition alone comes under its root, too: so the key of the finding stays when others join it, or when next
    /// month's partition takes its place.
    pub(crate) fn grouped(&self, findings: Vec<Finding>) -> Vec<Finding> {
        let mut groups: Vec<(String, Vec<Finding>)> = Vec::new();
        for finding in findings {
            let subject = self.root_of(&finding.subject).unwrap_or_else(|| finding.subject.clone());
            match groups.iter_mut().find(|(one, _)| *one == subject) {
                Some((_, members)) => members.push(finding),
                None => groups.push((subject, vec![finding])),
            }
        }
        let one_or_all = |(root, members): (String, Vec<Finding>)| match members.iter().all(|one| one.subject == root) {
            true => members,
            false => together(&root, members).into_iter().collect(),
        };
        groups.into_iter().flat_map(one_or_all).collect()
    }
}

/// One finding for several: that of the root itself, if it is among them, or that of the worst partition.
fn together(root: &str, mut members: Vec<Finding>) -> Option<Finding> {
    members.sort_by_key(|one| (one.subject != root, Reverse(one.level)));
    let level = members.iter().map(|one| one.level).max()?;
    let count = members.iter().filter(|one| one.subject != root).count();
    let (first, others) = members.split_first()?;
    let sentence = match others {
        _ if first.subject == root => first.sentence.clone(),
        [] => format!("the partition {}: {}", first.subject, first.sentence),
        _ => format!("{count} partitions; the worst is {}: {}", first.subject, first.sentence),
    };
    let mut finding = Finding { subject: root.to_owned(), level, sentence, ..first.clone() };
    finding = finding.with("partitions", count, "pg_inherits");
    let next = &others[..others.len().min(PARTITIONS_SHOWN_MAX - 1)];
    for one in next {
        finding = finding.with("the next worst", format!("{}: {}", one.subject, one.sentence), &one.check);
    }
    if let Some(repair) = &mut finding.repair
        && others.iter().any(|one| one.repair.as_ref() != Some(&*repair))
    {
        // One change cannot repair them all.
        repair.change = None;
        repair.commands.extend(next.iter().flat_map(|one| &one.repair).flat_map(|one| one.commands.iter().cloned()));
        if others.len() > next.len() {
            repair.commands.push(format!("-- and the same for the other {}", others.len() - next.len()));
        }
    }
    Some(finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_model::{Change, Class, Level};

    fn finding(subject: &str, level: Level) -> Finding {
        Finding::new("dead-tuples", Class::Arithmetic, level, subject, format!("{subject} is bad"))
            .repaired("vacuum it", "none")
            .run([format!("vacuum {subject}")])
            .changes(Change { kind: "k".to_owned(), target: subject.to_owned(), value: None })
    }

    fn roots(names: &[(&str, &str)]) -> Roots {
        Roots(names.iter().map(|(name, root)| ((*name).to_owned(), (*root).to_owned())).collect())
    }

    #[test]
    fn partitions_come_under_their_root_and_the_worst_are_named() {
        let roots = roots(&[("s.a1", "s.a"), ("s.a2", "s.a"), ("s.a3", "s.a"), ("s.a4", "s.a"), ("s.b1", "s.b")]);
        let level = |n: usize| if n == 2 { Level::Warning } else { Level::Info };
        let found = ["s.a1", "s.t", "s.a2", "s.b1", "s.a3", "s.a4"].iter().enumerate();
        let found = roots.grouped(found.map(|(n, subject)| finding(subject, level(n))).collect());
        let subjects: Vec<&str> = found.iter().map(|one| one.subject.as_str()).collect();
        assert_eq!(subjects, ["s.a", "s.t", "s.b"]);
        assert_eq!(found[1], finding("s.t", Level::Info));

        let several = &found[0];
        assert_eq!(several.level, Level::Warning);
        assert_eq!(several.sentence, "4 partitions; the worst is s.a2: s.a2 is bad");
        let evidence: Vec<&str> = several.evidence.iter().map(|one| one.value.as_str()).collect();
        assert_eq!(evidence, ["4", "s.a1: s.a1 is bad", "s.a3: s.a3 is bad"]);
        let repair = several.repair.as_ref().unwrap();
        assert_eq!(repair.change, None);
        assert_eq!(repair.commands, ["vacuum s.a2", "vacuum s.a1", "vacuum s.a3", "-- and the same for the other 1"]);

        let alone = &found[2];
        assert_eq!(alone.sentence, "the partition s.b1: s.b1 is bad");
        assert_eq!(alone.repair, finding("s.b1", Level::Info).repair);
        assert_eq!(several.clone().of_database("shop").key, "dead-tuples:shop:s.a");
    }

    #[test]
    fn a_part_of_a_partition_is_found_and_the_same_repair_stays_one() {
        let roots = roots(&[("s.a1", "s.a"), ("s.\"x.y\"", "s.x")]);
        assert_eq!(roots.root_of("s.a1.column").as_deref(), Some("s.a.column"));
        assert_eq!(roots.root_of("s.\"x.y\".z").as_deref(), Some("s.x.z"));
        assert_eq!((roots.root_of("s.a11"), roots.root_of("")), (None, None));

        let mut both = vec![finding("s.a.c", Level::Info), finding("s.a1.c", Level::Info)];
        both[1].repair = both[0].repair.clone();
        let found = roots.grouped(both);
        assert_eq!((found.len(), found[0].subject.as_str()), (1, "s.a.c"));
        assert_eq!(found[0].sentence, "s.a.c is bad");
        assert_eq!(found[0].repair, finding("s.a.c", Level::Info).repair);
    }
}
