//! What pgbench prints at its end.

use std::collections::BTreeMap;

/// The numbers in pgbench's summary that its log does not hold.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Summary {
    /// Mean milliseconds to open a session: of the first ones, or with `-C` of each transaction's.
    pub(crate) connect_ms: Option<f64>,
    /// Transactions per second, as pgbench counts them.
    pub(crate) tps: Option<f64>,
    /// With `-r`: milliseconds of each statement, by its text.
    pub(crate) statements: BTreeMap<String, f64>,
}

impl Summary {
    /// Reads the text. `clients` opened the first sessions together.
    pub(crate) fn parse(text: &str, clients: u32) -> Self {
        let after = |start: &str| {
            let line = text.lines().find_map(|line| line.trim().strip_prefix(start))?;
            line.split_whitespace().next()?.parse::<f64>().ok()
        };
        let first = after("initial connection time = ").map(|ms| ms / f64::from(clients.max(1)));
        let each = after("average connection time = ");
        Self { connect_ms: each.or(first), tps: after("tps = "), statements: statements(text) }
    }
}

/// Lines such as `         0.025           0  update t set a = 1;` after `statement latencies in milliseconds`. Before
/// version 15 they have no count of failures.
fn statements(text: &str) -> BTreeMap<String, f64> {
    let lines = text.lines().skip_while(|line| !line.starts_with("statement latencies in milliseconds")).skip(1);
    let parse = |line: &str| {
        let (ms, rest) = line.trim_start().split_once(' ')?;
        let rest = rest.trim_start();
        let text = match rest.split_once(' ') {
            Some((count, text)) if count.parse::<u64>().is_ok() => text.trim_start(),
            _ => rest,
        };
        Some((text.to_owned(), ms.parse().ok()?))
    };
    lines.map_while(parse).filter(|(text, _)| !text.starts_with('\\')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connection_times_and_statements_are_found() {
        let text = "number of failed transactions: 0 (0.000%)\nlatency average = 0.300 ms\n\
            initial connection time = 8.000 ms\ntps = 3333.5 (without initial connection time)\n\
            statement latencies in milliseconds and failures:\n         0.001           0  \\set aid random(1, 10)\n\
            \x20        0.025           0  update t set a = 1;\n         0.150           0  end;\n";
        let summary = Summary::parse(text, 4);
        assert_eq!((summary.connect_ms, summary.tps), (Some(2.0), Some(3333.5)));
        let statements: Vec<(&str, f64)> = summary.statements.iter().map(|(text, ms)| (text.as_str(), *ms)).collect();
        assert_eq!(statements, [("end;", 0.15), ("update t set a = 1;", 0.025)]);
        let each = "average connection time = 1.5 ms\ntps = 400 (including reconnection times)\n";
        assert_eq!(Summary::parse(each, 4).connect_ms, Some(1.5));
        assert_eq!(Summary::parse("", 1), Summary::default());
    }
}
