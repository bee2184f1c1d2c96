//! What pgbench prints at its end.

use super::arm::Setup;
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
    /// Reads the text. Threads open the first sessions at the same time, each one its own one after the other.
    pub(crate) fn parse(text: &str, setup: &Setup) -> Self {
        let after = |start: &str| {
            let line = text.lines().find_map(|line| line.trim().strip_prefix(start))?;
            line.split_whitespace().next()?.parse::<f64>().ok()
        };
        let (clients, threads) = (f64::from(setup.clients().max(1)), f64::from(setup.threads()));
        let first = after("initial connection time = ").map(|ms| ms * threads.min(clients) / clients);
        let each = after("average connection time = ");
        Self { connect_ms: each.or(first), tps: after("tps = "), statements: statements(text) }
    }
}

/// Lines such as `         0.025           0  update t set a = 1;` after `statement latencies in milliseconds`, of each
/// script. Before version 15 they have no count of failures. A statement that is there again gets a number.
fn statements(text: &str) -> BTreeMap<String, f64> {
    let parse = |line: &str| {
        let (ms, rest) = line.trim_start().split_once(' ')?;
        let rest = rest.trim_start();
        let text = match rest.split_once(' ') {
            Some((count, text)) if count.parse::<u64>().is_ok() => text.trim_start(),
            _ => rest,
        };
        Some((text.to_owned(), ms.parse().ok()?))
    };
    let mut found = BTreeMap::new();
    let mut lines = text.lines();
    while lines.any(|line| line.trim_start_matches(" - ").starts_with("statement latencies in milliseconds")) {
        for (text, ms) in lines.by_ref().map_while(parse).filter(|(text, _)| !text.starts_with('\\')) {
            let again = (2..).map(|number| format!("{text} ({number})"));
            let name = std::iter::once(text.clone()).chain(again).find(|name| !found.contains_key(name));
            found.extend(name.map(|name| (name, ms)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::Number;

    #[test]
    fn connection_times_and_statements_are_found() {
        let text = "number of failed transactions: 0 (0.000%)\nlatency average = 0.300 ms\n\
            initial connection time = 8.000 ms\ntps = 3333.5 (without initial connection time)\n\
            statement latencies in milliseconds and failures:\n         0.001           0  \\set aid random(1, 10)\n\
            \x20        0.025           0  update t set a = 1;\n         0.150           0  end;\n";
        let setup = |clients: f64, threads: f64| Setup {
            clients: Some(Number::Plain(clients)),
            threads: Some(Number::Plain(threads)),
            ..Setup::default()
        };
        let summary = Summary::parse(text, &setup(4.0, 1.0));
        assert_eq!(Summary::parse(text, &setup(8.0, 2.0)).connect_ms, Some(2.0), "two threads connect at once");
        assert_eq!((summary.connect_ms, summary.tps), (Some(2.0), Some(3333.5)));
        let statements: Vec<(&str, f64)> = summary.statements.iter().map(|(text, ms)| (text.as_str(), *ms)).collect();
        assert_eq!(statements, [("end;", 0.15), ("update t set a = 1;", 0.025)]);
        let each = "average connection time = 1.5 ms\ntps = 400 (including reconnection times)\n";
        assert_eq!(Summary::parse(each, &setup(4.0, 1.0)).connect_ms, Some(1.5));
        assert_eq!(Summary::parse("", &Setup::default()), Summary::default());
    }

    #[test]
    fn statements_of_every_script_are_found_and_those_that_are_there_again_numbered() {
        let text = "tps = 1000.0 (without initial connection time)\nSQL script 1: a.sql\n - weight: 1 (targets 50.0% of total)\n\
            \x20- latency average = 1.000 ms\n - statement latencies in milliseconds and failures:\n\
            \x20        0.1           0  begin;\n         0.2           0  select 1;\n         0.3           0  select 1;\n\
            SQL script 2: b.sql\n - weight: 1 (targets 50.0% of total)\n\
            \x20- statement latencies in milliseconds and failures:\n\
            \x20        0.4           0  begin;\n         0.5           0  select 2;\n";
        let found = Summary::parse(text, &Setup::default()).statements;
        let found: Vec<(&str, f64)> = found.iter().map(|(text, ms)| (text.as_str(), *ms)).collect();
        let expected =
            [("begin;", 0.1), ("begin; (2)", 0.4), ("select 1;", 0.2), ("select 1; (2)", 0.3), ("select 2;", 0.5)];
        assert_eq!(found, expected);
    }
}
