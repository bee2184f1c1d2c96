//! Source `wal`: WAL written and flushed, from `pg_stat_wal`, and since PostgreSQL 18 from `pg_stat_io`.
//!
//! Backends report what they did about once a second, and not within a transaction. So a second's value is rough, the
//! mean of a minute is not. Times are recorded only with `track_wal_io_timing`.

use super::reading::{Delta, Values, add};
use super::{Read, Source};

pub(super) const SOURCE: Source = Source {
    name: "wal",
    read: Read::Server(|version| {
        Some(if version < 180_000 { include_str!("wal_15.sql") } else { include_str!("wal_18.sql") })
    }),
    values,
};

fn values(delta: &Delta<'_>, values: &mut Values) {
    let timed = |total: &str, count: &str| delta.mean(total, count).filter(|ms| *ms > 0.0);
    let found = [
        ("wal.mb_per_second", delta.rate("bytes").map(|bytes| bytes / 1e6)),
        ("wal.records_per_second", delta.rate("records")),
        ("wal.page_images_per_second", delta.rate("page_images")),
        ("wal.buffers_full_per_second", delta.rate("buffers_full")),
        ("wal.writes_per_second", delta.rate("writes")),
        ("wal.syncs_per_second", delta.rate("syncs")),
        ("wal.write_ms", timed("write_ms", "writes")),
        ("wal.sync_ms", timed("sync_ms", "syncs")),
    ];
    add(values, found);
}

#[cfg(test)]
mod tests {
    use super::super::reading::values as list;
    use super::*;

    #[test]
    fn times_that_the_server_does_not_take_are_missing_not_zero() {
        let before = list(&[("bytes", 0.0), ("syncs", 0.0), ("sync_ms", 0.0), ("writes", 0.0), ("write_ms", 0.0)]);
        let after = list(&[("bytes", 4e6), ("syncs", 10.0), ("sync_ms", 0.0), ("writes", 10.0), ("write_ms", 5.0)]);
        let mut found = Values::new();
        values(&Delta { before: &before, after: &after, seconds: 2.0 }, &mut found);
        assert_eq!((found["wal.mb_per_second"], found["wal.syncs_per_second"], found["wal.write_ms"]), (2.0, 5.0, 0.5));
        assert!(!found.contains_key("wal.sync_ms"), "{found:?}");
    }
}
