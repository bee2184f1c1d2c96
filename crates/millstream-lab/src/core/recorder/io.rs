//! Source `io`: reads and writes of tables by who does them, from `pg_stat_io` (PostgreSQL 16 and later).
//!
//! A read that the operating system's cache answers counts too. Times are recorded only with `track_io_timing`.

use super::reading::{Delta, Values, add};
use super::{Read, Source};

pub(super) const SOURCE: Source =
    Source { name: "io", read: Read::Server(|version| (version >= 160_000).then_some(include_str!("io.sql"))), values };

/// Counters, and the totals of their times.
const OPERATIONS: &[(&str, Option<&str>)] = &[
    ("reads", Some("read_ms")),
    ("writes", Some("write_ms")),
    ("fsyncs", Some("fsync_ms")),
    ("extends", None),
    ("evictions", None),
];

fn values(delta: &Delta<'_>, values: &mut Values) {
    let labels = delta.after.keys().filter_map(|name| name.strip_suffix(".hits"));
    for label in labels {
        for (what, time) in OPERATIONS {
            let count = format!("{label}.{what}");
            // Most kinds of processes never do most of this.
            if delta.after.get(&count).is_none_or(|count| *count == 0.0) {
                continue;
            }
            add(values, [(format!("io.{count}_per_second").as_str(), delta.rate(&count))]);
            if let Some(time) = time {
                let total = format!("{label}.{time}");
                let mean = delta.mean(&total, &count).filter(|ms| *ms > 0.0);
                add(values, [(format!("io.{total}").as_str(), mean)]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::reading::values as list;
    use super::*;

    #[test]
    fn each_kind_of_process_has_its_rates_and_times() {
        let before =
            list(&[("client.hits", 0.0), ("client.reads", 10.0), ("client.read_ms", 1.0), ("client.writes", 0.0)]);
        let after =
            list(&[("client.hits", 0.0), ("client.reads", 30.0), ("client.read_ms", 11.0), ("client.writes", 0.0)]);
        let mut found = Values::new();
        values(&Delta { before: &before, after: &after, seconds: 2.0 }, &mut found);
        assert_eq!(found, list(&[("io.client.reads_per_second", 10.0), ("io.client.read_ms", 0.5)]));
    }
}
