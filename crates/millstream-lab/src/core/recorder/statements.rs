//! Source `statements`: all statements together, where the extension `pg_stat_statements` is installed.

use super::reading::{Delta, Values, add};
use super::{Read, Source};

pub(super) const SOURCE: Source =
    Source { name: "statements", read: Read::Server(|_| Some(include_str!("statements.sql"))), values };

fn values(delta: &Delta<'_>, values: &mut Values) {
    let found = [
        ("statements.calls_per_second", delta.rate("calls")),
        ("statements.rows_per_second", delta.rate("rows")),
        ("statements.execution_ms", delta.mean("execution_ms", "calls")),
        // How many statements ran at once, on average.
        ("statements.running", delta.rate("execution_ms").map(|ms| ms / 1e3)),
        ("statements.wal_mb_per_second", delta.rate("wal_bytes").map(|bytes| bytes / 1e6)),
    ];
    add(values, found);
}

#[cfg(test)]
mod tests {
    use super::super::reading::values as list;
    use super::*;

    #[test]
    fn time_in_statements_is_per_call_and_per_second() {
        let (before, after) =
            (list(&[("calls", 0.0), ("execution_ms", 0.0)]), list(&[("calls", 8.0), ("execution_ms", 4e3)]));
        let mut found = Values::new();
        values(&Delta { before: &before, after: &after, seconds: 2.0 }, &mut found);
        assert_eq!((found["statements.execution_ms"], found["statements.running"]), (500.0, 2.0));
    }
}
