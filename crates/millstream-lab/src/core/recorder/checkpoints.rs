//! Source `checkpoints`: checkpoints and the background writer, from `pg_stat_checkpointer` and `pg_stat_bgwriter`.

use super::reading::{Delta, Values, add};
use super::{Read, Source};

pub(super) const SOURCE: Source = Source {
    name: "checkpoints",
    read: Read::Server(|version| {
        Some(if version < 170_000 { include_str!("checkpoints_15.sql") } else { include_str!("checkpoints_17.sql") })
    }),
    values,
};

fn values(delta: &Delta<'_>, values: &mut Values) {
    let found = [
        // These are numbers of the interval and not rates: most seconds have none. The server counts the times of a
        // checkpoint when it ends.
        ("checkpoint.timed", delta.growth("timed")),
        ("checkpoint.requested", delta.growth("requested")),
        ("checkpoint.write_ms", delta.growth("write_ms")),
        ("checkpoint.sync_ms", delta.growth("sync_ms")),
        ("checkpoint.buffers_per_second", delta.rate("buffers")),
        ("writer.buffers_per_second", delta.rate("cleaned")),
        ("writer.halts_per_second", delta.rate("halts")),
    ];
    add(values, found);
}

#[cfg(test)]
mod tests {
    use super::super::reading::values as list;
    use super::*;

    #[test]
    fn checkpoints_are_numbers_and_buffers_are_rates() {
        let before = list(&[("timed", 1.0), ("requested", 0.0), ("buffers", 100.0)]);
        let after = list(&[("timed", 1.0), ("requested", 2.0), ("buffers", 300.0)]);
        let mut found = Values::new();
        values(&Delta { before: &before, after: &after, seconds: 4.0 }, &mut found);
        let expected =
            [("checkpoint.timed", 0.0), ("checkpoint.requested", 2.0), ("checkpoint.buffers_per_second", 50.0)];
        assert_eq!(found, list(&expected));
    }
}
