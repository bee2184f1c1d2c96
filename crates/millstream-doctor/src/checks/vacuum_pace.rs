//! How fast autovacuum may work on a table: after work that costs `cost_limit`, it sleeps for `cost_delay`.

use super::number::number;
use millstream_model::quantity::age;
use tokio_postgres::Row;

/// The longest sleep, in delays. With a limit smaller than the cost of a page, the rest of the cost is free.
const DELAYS_MAX: f64 = 4.0;

/// The pace of autovacuum on a table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Pace {
    /// Cost after which a worker sleeps: its share, if others work at the same time.
    limit: f64,
    /// How long it sleeps, in milliseconds.
    delay: f64,
    /// Cost of reading a page that is not in shared buffers.
    read: f64,
    /// Cost of reading a page and changing it.
    clean: f64,
    /// Size of a page in bytes.
    page: f64,
}

impl Pace {
    /// The pace on a table of `dead_tuples.sql`, among the workers of `autovacuum.sql`. `None` if nothing slows it.
    pub(super) fn of(table: &Row, state: &Row) -> Option<Self> {
        let (limit, delay): (f64, f64) = (table.get("cost_limit"), table.get("delay"));
        // A worker that is not at work yet joins the others.
        let joins = if table.get("in_progress") { 0 } else { 1 };
        let sharing = if table.get("is_shared") { (number(state, "workers") + joins).max(1) } else { 1 };
        let (miss, dirty): (f64, f64) = (state.get("page_miss"), state.get("page_dirty"));
        let pace = Self {
            limit: (limit / sharing as f64).max(1.0),
            delay,
            read: miss,
            clean: miss + dirty,
            page: state.get("block_size"),
        };
        (delay > 0.0 && miss > 0.0).then_some(pace)
    }

    /// Time for so many pages, of which some are changed, in seconds.
    pub(super) fn seconds(&self, pages: f64, changed: f64) -> f64 {
        let read = (pages - changed).max(0.0);
        self.delay / 1e3 * (read * self.delays(self.read) + changed * self.delays(self.clean))
    }

    /// The pace as a person reads it.
    pub(super) fn shown(&self) -> String {
        let rate = |cost: f64| {
            let bytes = self.page / (self.delay / 1e3 * self.delays(cost));
            if bytes < 1e6 { format!("{:.0} kB/s", bytes / 1e3) } else { format!("{:.1} MB/s", bytes / 1e6) }
        };
        format!("at most {} of pages that it reads, {} of those that it changes", rate(self.read), rate(self.clean))
    }

    /// Where it comes from.
    pub(super) fn source(&self) -> String {
        let Self { limit, delay, read, clean, .. } = self;
        format!("cost limit {limit:.0}, cost delay {delay} ms; a page costs {read} or {clean}")
    }

    /// How often it sleeps for a page of that cost.
    fn delays(&self, cost: f64) -> f64 {
        (cost / self.limit).min(DELAYS_MAX)
    }
}

/// What a vacuum of a table needs, and what it has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pass {
    /// Seconds that it needs at its pace.
    needed: f64,
    /// Seconds since the last vacuum, if one is known.
    since: Option<f64>,
    /// Dead rows, as a multiple of the number at which autovacuum starts.
    times: f64,
    /// Seconds for which autovacuum has been working on it, if it is.
    working: Option<f64>,
}

impl Pass {
    /// The pass over a table of `dead_tuples.sql` at a pace. Dead rows count as spread over as many pages as possible.
    pub(super) fn of(table: &Row, pace: &Pace) -> Self {
        let (dead, trigger) = (number(table, "dead") as f64, number(table, "starts_at") as f64);
        let pages = number(table, "bytes") as f64 / pace.page;
        let (index, worked): (f64, Option<f64>) = (table.get("index_pages"), table.get("work_seconds"));
        let changed = dead.min(pages);
        Self {
            needed: pace.seconds(visited(pages, table.get("visible_pages"), changed) + index, changed),
            since: table.get("vacuum_age"),
            times: dead / trigger.max(1.0),
            working: table.get::<_, bool>("in_progress").then(|| worked.unwrap_or(0.0)),
        }
    }

    /// The time that it needs, as a person reads it.
    pub(super) fn shown(&self) -> String {
        age(self.needed.ceil())
    }

    /// Seconds in which as many rows died as autovacuum waits for, on average since the last vacuum.
    fn due(&self) -> Option<f64> {
        self.since.map(|since| since / self.times.max(1.0))
    }

    /// Why the pace explains the dead rows, if it does: a pass takes at least so many seconds, and no less than the
    /// table takes for its next dead rows. Of one at work, the time counts that it has already taken, if that is more.
    pub(super) fn reason(&self, least: f64) -> Option<String> {
        if self.needed < least {
            return None;
        }
        let needed = self.shown();
        match (self.working, self.due()) {
            (Some(working), due) if due.is_none_or(|due| self.needed.max(working) >= due) => {
                let working = age(working);
                Some(format!("autovacuum has been at work on them for {working}, and at its pace it takes {needed}"))
            }
            (None, Some(due)) if self.needed >= due => {
                Some(format!("at its pace a vacuum takes {needed}, and the next one is due after {}", age(due)))
            }
            (None, None) => Some(format!("at its pace the first vacuum takes {needed}")),
            _ => None,
        }
    }
}

/// Pages of a table that a vacuum reads: not those whose rows are visible to everybody. Their number is as old as the
/// last vacuum or analyze, but what a vacuum changes it also reads.
fn visited(pages: f64, visible: f64, changed: f64) -> f64 {
    (pages - visible).max(changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULT: Pace = Pace { limit: 200.0, delay: 2.0, read: 2.0, clean: 22.0, page: 8192.0 };

    #[test]
    fn a_pace_is_a_rate_for_reading_and_one_for_removing() {
        assert_eq!(DEFAULT.shown(), "at most 409.6 MB/s of pages that it reads, 37.2 MB/s of those that it changes");
        // A gigabyte, all of it changed: 131,072 pages of 0.22 ms.
        assert!((DEFAULT.seconds(131_072.0, 131_072.0) - 28.835_84).abs() < 1e-6);
        assert!((DEFAULT.seconds(131_072.0, 0.0) - 2.621_44).abs() < 1e-6);
        // No page makes it sleep longer than four delays.
        let slow = Pace { limit: 1.0, delay: 100.0, ..DEFAULT };
        assert!((slow.seconds(10.0, 10.0) - 4.0).abs() < 1e-9);
        assert!((slow.seconds(10.0, 0.0) - 2.0).abs() < 1e-9);
        assert_eq!(slow.shown(), "at most 41 kB/s of pages that it reads, 20 kB/s of those that it changes");
    }

    #[test]
    fn pages_that_vacuum_skips_do_not_count() {
        // A terabyte of which 1 % was touched: five minutes for those pages, and not three quarters of an hour.
        let (pages, touched) = (134_217_728.0, 1_342_178.0);
        assert!((visited(pages, 0.0, touched) - pages).abs() < 1e-9, "no vacuum has seen it");
        let some = visited(pages, pages - 2_000_000.0, touched);
        assert!((some - 2_000_000.0).abs() < 1e-9, "{some}");
        let few = DEFAULT.seconds(visited(pages, pages, touched), touched);
        assert!((290.0..300.0).contains(&few), "{few}");
    }

    #[test]
    fn the_pace_is_the_reason_only_if_vacuum_cannot_keep_up() {
        let pass = |needed, since, working| Pass { needed, since, times: 4.0, working };
        let reason = |pass: Pass| pass.reason(600.0);
        assert_eq!(reason(pass(599.0, None, Some(5.0))), None, "it is quick");
        let at_work = "autovacuum has been at work on them for 2h, and at its pace it takes 5h";
        assert_eq!(reason(pass(18_000.0, Some(60_000.0), Some(7_200.0))).as_deref(), Some(at_work));
        assert_eq!(reason(pass(18_000.0, None, Some(7_200.0))).as_deref(), Some(at_work));
        // It takes half an hour once a week, and has just begun.
        assert_eq!(reason(pass(1_800.0, Some(604_800.0), Some(3.0))), None);
        // It has worked for longer than its pace explains, and the next one is due already.
        assert!(reason(pass(1_800.0, Some(80_000.0), Some(20_000.0))).is_some());
        // As many rows as it waits for have died in 2,000 s.
        assert_eq!(reason(pass(1_999.0, Some(8_000.0), None)), None);
        let late = "at its pace a vacuum takes 33m, and the next one is due after 33m";
        assert_eq!(reason(pass(2_000.0, Some(8_000.0), None)).as_deref(), Some(late));
        let first = "at its pace the first vacuum takes 10m";
        assert_eq!(reason(pass(600.0, None, None)).as_deref(), Some(first));
    }
}
