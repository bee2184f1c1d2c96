//! What happened between two snapshots of a server.

use crate::limits::DIFFERENCES_MAX;
use crate::snapshot::{Snapshot, StatementCount, TableSize};
use serde::{Deserialize, Serialize};

/// From so many times their mean time on, statements have grown slower: our own choice.
const SLOWER_TIMES: f64 = 1.5;

/// Fewer calls before or since say nothing about a mean.
const CALLS_MIN: u64 = 5;

/// A statement matters from this share of the time of all statements since the earlier look on, in percent.
const SHARE_MIN: f64 = 1.0;

/// Nor does one that has taken less time since then, in milliseconds: chance decides.
const SPENT_MIN: f64 = 20.0;

/// From this growth on a table has grown: as a factor, in bytes and in rows.
const GROWN_TIMES: f64 = 1.1;
const GROWN_BYTES_MIN: u64 = 10 << 20;
const GROWN_ROWS_MIN: u64 = 10_000;

/// What happened between two snapshots.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// Seconds between them.
    pub seconds: f64,
    /// Statements whose calls take longer than before, those that cost most first.
    pub slower: Vec<Slower>,
    /// Tables that have grown, those that grew most first.
    pub grown: Vec<Grown>,
    /// Settings whose values for new sessions are others.
    pub settings: Vec<SettingChanged>,
    /// Why nothing is known of the statements.
    pub unknown: Option<String>,
}

/// A statement whose calls take longer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Slower {
    /// Its database.
    pub database: String,
    /// Its text without constants, shortened.
    pub text: String,
    /// Mean time of a call until the earlier look.
    pub before_ms: f64,
    /// Mean time of a call since then.
    pub since_ms: f64,
    /// Calls since then.
    pub calls: u64,
    /// Share of the time of all statements since then, in percent.
    pub percent: f64,
}

/// A table that has grown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grown {
    /// Its size before.
    pub before: TableSize,
    /// Its size now.
    pub now: TableSize,
}

/// A setting that was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SettingChanged {
    /// Its name.
    pub name: String,
    /// Its value before. `None`: the default.
    pub before: Option<String>,
    /// Its value now. `None`: the default.
    pub now: Option<String>,
    /// Number of the doctor's change that did it, if one did.
    pub change: Option<u32>,
}

impl Difference {
    /// What happened from one snapshot to a later one of the same server.
    pub fn between(before: &Snapshot, now: &Snapshot) -> Self {
        let (slower, unknown) = match slower(before, now) {
            Ok(slower) => (slower, None),
            Err(why) => (Vec::new(), Some(why)),
        };
        Self {
            seconds: now.at - before.at,
            slower,
            grown: grown(before, now),
            settings: settings(before, now),
            unknown,
        }
    }

    /// Whether nothing happened.
    pub fn is_empty(&self) -> bool {
        self.slower.is_empty() && self.grown.is_empty() && self.settings.is_empty() && self.unknown.is_none()
    }
}

fn slower(before: &Snapshot, now: &Snapshot) -> Result<Vec<Slower>, String> {
    if before.statements.is_empty() || now.statements.is_empty() {
        return Err("statements, because they are not counted, or this role may not see them".to_owned());
    }
    let pairs = now.statements.iter().filter_map(|one| Some((before.statement(&one.database, one.id)?, one)));
    let pairs: Vec<(&StatementCount, &StatementCount)> = pairs.collect();
    // The one that took most is dropped by no server that makes room for others.
    let is_gone = before.statements.first().is_some_and(|first| now.statement(&first.database, first.id).is_none());
    if is_gone || pairs.iter().any(|(before, now)| now.calls < before.calls) {
        return Err("statements, because their counters began anew since then".to_owned());
    }
    let spent = |one: &StatementCount| (one.milliseconds - before.milliseconds_of(&one.database, one.id)).max(0.0);
    let all: f64 = now.statements.iter().map(spent).sum();
    let slower = pairs.into_iter().filter_map(|(before, now)| {
        let calls = now.calls - before.calls;
        let milliseconds = now.milliseconds - before.milliseconds;
        let (before_ms, since_ms) = (before.milliseconds / before.calls as f64, milliseconds / calls as f64);
        let percent = 100.0 * milliseconds / all;
        let is_known = before.calls >= CALLS_MIN && calls >= CALLS_MIN && milliseconds >= SPENT_MIN;
        (is_known && since_ms >= SLOWER_TIMES * before_ms && percent >= SHARE_MIN).then(|| Slower {
            database: now.database.clone(),
            text: now.text.clone(),
            before_ms,
            since_ms,
            calls,
            percent,
        })
    });
    let mut slower: Vec<Slower> = slower.collect();
    slower.sort_by(|one, other| other.percent.total_cmp(&one.percent));
    slower.truncate(DIFFERENCES_MAX);
    Ok(slower)
}

fn grown(before: &Snapshot, now: &Snapshot) -> Vec<Grown> {
    let more = |before: u64, now: u64, least: u64| {
        now >= before.saturating_add(least) && now as f64 >= GROWN_TIMES * before as f64
    };
    let grown = now.tables.iter().filter_map(|now| {
        let is_same = |one: &&TableSize| one.table == now.table && one.database == now.database;
        let before = before.tables.iter().find(is_same)?;
        let has_grown = more(before.bytes, now.bytes, GROWN_BYTES_MIN) || more(before.rows, now.rows, GROWN_ROWS_MIN);
        has_grown.then(|| Grown { before: before.clone(), now: now.clone() })
    });
    let mut grown: Vec<Grown> = grown.collect();
    let bytes = |one: &Grown| one.now.bytes.saturating_sub(one.before.bytes);
    let rows = |one: &Grown| one.now.rows.saturating_sub(one.before.rows);
    grown.sort_by_key(|one| std::cmp::Reverse((bytes(one), rows(one))));
    grown.truncate(DIFFERENCES_MAX);
    grown
}

fn settings(before: &Snapshot, now: &Snapshot) -> Vec<SettingChanged> {
    let names: std::collections::BTreeSet<&String> = before.settings.keys().chain(now.settings.keys()).collect();
    let value = |snapshot: &Snapshot, name: &str| snapshot.settings.get(name).cloned();
    let changed = names.into_iter().filter(|name| before.settings.get(*name) != now.settings.get(*name));
    let changed = changed.map(|name| SettingChanged {
        name: name.clone(),
        before: value(before, name),
        now: value(now, name),
        change: None,
    });
    changed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn statement(id: i64, calls: u64, milliseconds: f64) -> StatementCount {
        StatementCount { database: "shop".to_owned(), id, text: format!("select {id}"), calls, milliseconds }
    }

    fn table(name: &str, bytes: u64, rows: u64) -> TableSize {
        TableSize { database: "shop".to_owned(), table: name.to_owned(), bytes, rows }
    }

    fn snapshot(at: f64, statements: Vec<StatementCount>, tables: Vec<TableSize>, work_mem: &str) -> Snapshot {
        let settings = BTreeMap::from([("work_mem".to_owned(), work_mem.to_owned())]);
        Snapshot { at, statements, tables, settings, ..Snapshot::default() }
    }

    #[test]
    fn it_names_what_became_slower_larger_and_another() {
        let before = snapshot(
            0.0,
            vec![statement(1, 100, 100.0), statement(2, 100, 1_000.0), statement(3, 2, 1.0)],
            vec![table("calm", 1 << 30, 1_000_000), table("busy", 20 << 20, 100)],
            "4096 kB",
        );
        let now = snapshot(
            60.0,
            vec![statement(1, 200, 1_100.0), statement(2, 200, 2_000.0), statement(3, 4, 900.0)],
            vec![table("calm", (1 << 30) + 8192, 1_000_100), table("busy", 40 << 20, 200), table("new", 1 << 30, 5)],
            "8192 kB",
        );
        let found = Difference::between(&before, &now);
        let [slower] = found.slower.as_slice() else { panic!("{found:?}") };
        assert_eq!((slower.text.as_str(), slower.calls), ("select 1", 100));
        assert!((slower.before_ms - 1.0).abs() < 1e-9 && (slower.since_ms - 10.0).abs() < 1e-9);
        let [grown] = found.grown.as_slice() else { panic!("{found:?}") };
        assert_eq!(grown.now.table, "busy");
        let [setting] = found.settings.as_slice() else { panic!("{found:?}") };
        assert_eq!((setting.before.as_deref(), setting.now.as_deref()), (Some("4096 kB"), Some("8192 kB")));
        assert!(Difference::between(&now, &now).is_empty());
    }

    #[test]
    fn after_a_reset_nothing_is_known_of_the_statements() {
        let before = snapshot(0.0, vec![statement(1, 100, 100.0)], Vec::new(), "");
        let now = snapshot(60.0, vec![statement(1, 10, 1_000.0)], Vec::new(), "");
        let found = Difference::between(&before, &now);
        assert!(found.slower.is_empty() && found.unknown.is_some_and(|why| why.contains("began anew")));
        let others = snapshot(60.0, vec![statement(2, 10, 1_000.0)], Vec::new(), "");
        assert!(Difference::between(&before, &others).unknown.is_some());
    }
}
