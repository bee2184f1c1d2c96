//! Source `database`: transactions, blocks, temporary files and deadlocks of the database, from `pg_stat_database`.
//!
//! The recorder's own transactions are contained: about 15 each second.

use super::reading::{Delta, Values, add};
use super::{Read, Source};

pub(super) const SOURCE: Source =
    Source { name: "database", read: Read::Server(|_| Some(include_str!("database.sql"))), values };

fn values(delta: &Delta<'_>, values: &mut Values) {
    let found = [
        ("database.commits_per_second", delta.rate("commits")),
        ("database.rollbacks_per_second", delta.rate("rollbacks")),
        ("database.blocks_read_per_second", delta.rate("blocks_read")),
        ("database.blocks_hit_per_second", delta.rate("blocks_hit")),
        ("database.temporary_mb_per_second", delta.rate("temporary_bytes").map(|bytes| bytes / 1e6)),
        // A number of the interval.
        ("database.deadlocks", delta.growth("deadlocks")),
    ];
    add(values, found);
}

#[cfg(test)]
mod tests {
    use super::super::reading::values as list;
    use super::*;

    #[test]
    fn temporary_files_are_in_megabytes() {
        let (before, after) = (list(&[("temporary_bytes", 0.0)]), list(&[("temporary_bytes", 4e6)]));
        let mut found = Values::new();
        values(&Delta { before: &before, after: &after, seconds: 2.0 }, &mut found);
        assert_eq!(found, list(&[("database.temporary_mb_per_second", 2.0)]));
    }
}
