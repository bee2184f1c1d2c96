//! `doctor tables`: lists the tables of a database, by their dead rows and by their free space.

use crate::args::{TargetArgs, duration};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::limits::TABLES_SHOWN;
use crate::output::{Output, note};
use crate::quantity::{Size, age, bytes, things};
use crate::screen::stdout_columns;
use crate::table::{Align, Table, wrap};
use crate::target::resolve_running;
use millstream_doctor::{FreeSource, TableList, TableState, tables};
use std::cmp::Reverse;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  millstream doctor tables
  millstream doctor tables --db postgres://monitor@db1/shop --measure 1m
  millstream doctor tables --output json > tables.json";

/// List all tables with their dead rows, their vacuums and their free space
///
/// Prints two lists of the tables of one database. The first is sorted by dead rows. A star marks a table with more of them than
/// autovacuum waits for, by the table's own settings. The second is sorted by free space, and says what a rewrite (vacuum full)
/// gives back at least, and how long it locks the table. Partitions stand below their table, which has their sums. Tables in which
/// Millstream keeps its own records come behind yours.
///
/// Free space is measured if the extension pgstattuple or pg_freespacemap is in the database and this role may use it;
/// otherwise it is estimated from the statistics of the columns. It reads only. What it cannot see comes last, with what
/// would show it.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct TablesArgs {
    /// Print at most so many lines of each list; JSON has all tables [default: 20 on a terminal, else all]
    #[arg(long, value_name = "N")]
    limit: Option<usize>,

    /// Measure free space for so long, and estimate the rest
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
    measure: Duration,

    /// How many bytes a rewrite is assumed to read and write in a second
    #[arg(long, value_name = "SIZE", default_value = "100MiB")]
    pace: Size,

    #[command(flatten)]
    target: TargetArgs,
}

/// What stands before the name of a partition.
const BELOW: &str = "  ";

/// Runs `doctor tables`.
pub async fn list(args: &TablesArgs, output: Output) -> Result<Exit, Failure> {
    let db = resolve_running(&args.target).await?;
    let found = tables(&db, args.measure, args.pace.bytes as u64).await?;
    if output.is_json() {
        output.json(&found)?;
        return Ok(Exit::Done);
    }
    let columns = stdout_columns();
    let say = |text: &str| {
        let lines = columns.map_or_else(|| vec![text.to_owned()], |columns| wrap(text, columns));
        lines.iter().try_for_each(|line| output.line(line))
    };
    let limit = args.limit.or(columns.map(|_| TABLES_SHOWN)).unwrap_or(usize::MAX);
    if found.tables.is_empty() {
        note(&format!("no tables in {}", found.database));
    } else {
        let (dead, dead_left) = by_dead_rows(&found, limit);
        let (free, free_left) = by_free_space(&found, limit);
        say("Dead rows (* more than autovacuum waits for):")?;
        output.table(&dead)?;
        if found.tables.iter().any(|one| one.free.is_some()) {
            let pace = bytes(found.rewrite_bytes_per_second);
            output.line("")?;
            say(&format!("Free space (~ estimated, + found by the last vacuum), with a rewrite at {pace} a second:"))?;
            output.table(&free)?;
        }
        let left = dead_left.max(free_left);
        if left > 0 {
            let all = limit.saturating_add(left);
            note(&format!("{} more; --limit {all} prints all", things(left as u64, "line")));
        }
    }
    found.unseen.iter().try_for_each(|why| say(&format!("not seen: {why}")))?;
    Ok(Exit::Done)
}

/// The tables with their partitions, sorted by dead rows, and how many lines are left out.
fn by_dead_rows(list: &TableList, limit: usize) -> (Table, usize) {
    let columns = [
        ("rows", Align::Right),
        ("dead", Align::Right),
        ("%", Align::Right),
        ("starts at", Align::Right),
        ("vacuum", Align::Right),
        ("autovacuum", Align::Right),
        ("table", Align::Wrap),
    ];
    let mut table = Table::new(&columns);
    let all = list.tables.iter().flat_map(|one| with_partitions(one, one.partitions.iter().collect()));
    let all: Vec<(&TableState, &str)> = all.collect();
    for (one, indent) in all.iter().take(limit) {
        table.row([
            short(one.rows),
            short(one.dead),
            format!("{:.0}", one.dead_percent),
            starts_at(one),
            ago(one.last_vacuum_seconds),
            autovacuum(one),
            format!("{indent}{}", one.table),
        ]);
    }
    (table, all.len().saturating_sub(limit))
}

/// Those whose free space is known, sorted by it, and how many lines are left out.
fn by_free_space(list: &TableList, limit: usize) -> (Table, usize) {
    let columns = [
        ("size", Align::Right),
        ("free", Align::Right),
        ("%", Align::Right),
        ("gives back", Align::Right),
        ("locks", Align::Right),
        ("table", Align::Wrap),
    ];
    let mut table = Table::new(&columns);
    let all = sorted(&list.tables).into_iter().flat_map(|one| with_partitions(one, sorted(&one.partitions)));
    let all: Vec<(&TableState, &str)> = all.collect();
    for (one, indent) in all.iter().take(limit) {
        let Some(free) = &one.free else { continue };
        table.row([
            bytes(one.bytes),
            marked(free.bytes, free.source),
            format!("{:.0}", free.percent),
            bytes(free.rewrite_gives_bytes),
            locks(free.rewrite_locks_seconds),
            format!("{indent}{}", one.table),
        ]);
    }
    (table, all.len().saturating_sub(limit))
}

fn with_partitions<'a>(
    table: &'a TableState,
    partitions: Vec<&'a TableState>,
) -> impl Iterator<Item = (&'a TableState, &'static str)> + use<'a> {
    std::iter::once((table, "")).chain(partitions.into_iter().map(|one| (one, BELOW)))
}

fn sorted(tables: &[TableState]) -> Vec<&TableState> {
    let mut known: Vec<&TableState> = tables.iter().filter(|one| one.free.is_some()).collect();
    known.sort_by_key(|one| (one.is_own, Reverse(one.free.as_ref().map(|free| free.bytes))));
    known
}

/// From how many dead rows on autovacuum comes, with the star.
fn starts_at(table: &TableState) -> String {
    let at = table.vacuum_from.map(short).unwrap_or_default();
    let star = if table.is_due { "*" } else { " " };
    format!("{at}{star}")
}

/// When autovacuum was there last, or that it does not come.
fn autovacuum(table: &TableState) -> String {
    if table.autovacuum { ago(table.last_autovacuum_seconds) } else { "off".to_owned() }
}

fn ago(seconds: Option<f64>) -> String {
    seconds.map_or_else(|| "-".to_owned(), age)
}

/// Bytes of free space, with a mark that says how they are known.
pub(in super::super) fn marked(free: u64, source: FreeSource) -> String {
    let mark = match source {
        FreeSource::Pgstattuple => "",
        FreeSource::PgFreespacemap => "+",
        FreeSource::Estimate | FreeSource::Several => "~",
    };
    format!("{mark}{}", bytes(free))
}

fn locks(seconds: f64) -> String {
    if seconds < 1.0 { "<1s".to_owned() } else { age(seconds) }
}

/// A count in at most five characters: `9999`, `12k`, `1.2M`.
fn short(n: u64) -> String {
    const UNITS: [&str; 5] = ["k", "M", "G", "T", "P"];
    if n < 10_000 {
        return n.to_string();
    }
    let (mut value, mut unit) = (n as f64 / 1_000.0, 0);
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1_000.0;
        unit += 1;
    }
    let digits = usize::from(value < 9.95);
    format!("{value:.digits$}{}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_doctor::FreeSpace;

    fn table(name: &str, dead: u64, free: Option<u64>) -> TableState {
        let free = free.map(|bytes| FreeSpace {
            bytes,
            percent: 92.4,
            source: FreeSource::Estimate,
            rewrite_gives_bytes: bytes,
            rewrite_needs_bytes: bytes,
            rewrite_locks_seconds: 75.0,
        });
        TableState {
            table: name.to_owned(),
            rows: 1_234_567_890,
            dead,
            dead_percent: 33.3,
            vacuum_from: Some(246_913_628),
            is_due: dead > 100,
            autovacuum: true,
            last_vacuum_seconds: Some(1e9),
            bytes: 1_100_000_000_000,
            free,
            ..TableState::default()
        }
    }

    #[test]
    fn both_lists_fit_80_columns_and_are_cut_where_the_terminal_ends() {
        let long = "x".repeat(63);
        let mut parted = table(&format!("{long}.{long}"), 900, Some(1_100_000_000_000));
        parted.partitions = vec![table("s.p1", 800, None), table("s.p2", 100, Some(1_000_000))];
        let tables = vec![parted, table("s.other", 7, Some(2_000_000_000_000)), table("s.unknown", 5, None)];
        let list = TableList { database: "shop".to_owned(), tables, ..TableList::default() };
        let (dead, left) = by_dead_rows(&list, 4);
        let text = dead.text(Some(80));
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert_eq!(left, 1);
        let line = |name: &str| text.lines().find(|line| line.ends_with(name)).unwrap();
        assert!(line("  s.p1").contains("1.2G   800  33      247M*   1653w           -    s.p1"), "{text}");
        assert!(line(" s.other").contains(" 247M   "), "no star: {text}");

        let mut own = table("millstream.load", 9_000, Some(3_000_000_000_000));
        own.is_own = true;
        let list = TableList { tables: [list.tables, vec![own]].concat(), ..list };
        let (free, left) = by_free_space(&list, 20);
        let text = free.text(Some(80));
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert_eq!(left, 0);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].ends_with("75s  s.other") && lines[1].contains("~1.8 TiB  92     1.8 TiB"), "{text}");
        let [.., before, last] = lines.as_slice() else { panic!("{text}") };
        assert!(before.ends_with("    s.p2") && last.ends_with("  millstream.load"), "ours come last: {text}");
        assert!(!text.contains("unknown"), "{text}");
    }

    #[test]
    fn a_table_that_autovacuum_leaves_alone_says_so() {
        let off = TableState { autovacuum: false, ..table("s.t", 500, None) };
        assert_eq!((autovacuum(&off).as_str(), starts_at(&off).as_str()), ("off", "247M*"));
        let on = table("s.t", 5, None);
        assert_eq!((autovacuum(&on).as_str(), starts_at(&on).as_str()), ("-", "247M "));
        assert_eq!(starts_at(&TableState { vacuum_from: None, ..off }), "*");
    }

    #[test]
    fn counts_are_short() {
        for (n, text) in
            [(0, "0"), (9_999, "9999"), (12_345, "12k"), (999_499, "999k"), (1_234_567, "1.2M"), (9_960_000, "10M")]
        {
            assert_eq!(short(n), text);
        }
        assert!(short(u64::MAX).len() <= 6);
    }
}
