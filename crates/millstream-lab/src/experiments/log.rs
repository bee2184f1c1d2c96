//! The log of pgbench, a line for each transaction, as percentiles and values per second.

use crate::core::latency::Durations;
use crate::core::{Measures, Series};
use crate::limits::{LOG_LINE_BYTES_MAX, LOG_TRANSACTIONS_MAX, RUN_SECONDS_MAX};
use std::io::{self, BufRead, Read};

/// What the transactions of a run took.
///
/// A line of the log is `client transaction time script epoch microseconds [lag]`; the time is in microseconds, or
/// `skipped`, `failed` or the kind of the failure. The epoch is that of the end. See pgbench's manual, "Per-Transaction
/// Logging".
#[derive(Debug)]
pub(crate) struct Log {
    /// Seconds of the warm-up that are cut.
    warm_up: f64,
    lines: Vec<Kept>,
}

/// What the measures need of a transaction, in little room: a run has up to [`LOG_TRANSACTIONS_MAX`]. The numbers keep seven
/// digits, more than the clocks are good for.
#[derive(Debug, Clone, Copy)]
struct Kept {
    /// Seconds since the epoch.
    end: f64,
    /// Microseconds; below zero, the transaction was skipped or failed.
    us: f32,
    /// Microseconds; not a number where the log has none.
    lag_us: f32,
}

const _: () = assert!(size_of::<Kept>() == 16);

const SKIPPED: f32 = -1.0;
const FAILED: f32 = -2.0;

/// The series of transactions that were later than the limit, second by second.
const LATE: &str = "late";

/// The series of those that pgbench skipped.
const SKIPPED_SERIES: &str = "skipped";

/// A transaction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Line {
    /// Seconds since the epoch.
    pub(crate) end: f64,
    /// The number of its script, from 0.
    pub(crate) script: usize,
    pub(crate) done: Done,
    /// Microseconds between the scheduled start and the real one.
    pub(crate) lag_us: Option<f64>,
}

/// How a transaction ended.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Done {
    /// After this many microseconds.
    After(f64),
    Skipped,
    Failed,
}

impl Log {
    /// An empty log. Its measures leave out the first seconds.
    pub(crate) fn new(warm_up: f64) -> Self {
        Self { warm_up, lines: Vec::new() }
    }

    /// Cuts these first seconds.
    pub(crate) fn cut(&mut self, warm_up: f64) {
        self.warm_up = warm_up;
    }

    /// Adds a file, one of each thread.
    ///
    /// # Errors
    /// It cannot be read, a line is not one of a log, or there are too many.
    pub(crate) fn read(&mut self, file: impl BufRead) -> io::Result<()> {
        self.read_at_most(file, LOG_TRANSACTIONS_MAX)
    }

    fn read_at_most(&mut self, file: impl BufRead, most: usize) -> io::Result<()> {
        for line in lines(file) {
            let line = line?;
            let refused = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
            let parsed =
                parse_line(&line).ok_or_else(|| refused(format!("unexpected line in pgbench's log: {line}")))?;
            if self.lines.len() == most {
                return Err(refused(format!("the run has more than {most} transactions; make it shorter")));
            }
            self.lines.push(Kept::of(&parsed));
        }
        Ok(())
    }

    /// Transactions per second, second by second, of all whole seconds, with the warm-up.
    pub(crate) fn per_second(&self) -> Series {
        self.count_per_second(|line| line.us().is_some())
    }

    /// How many transactions of each second are of a kind.
    fn count_per_second(&self, is_of_it: impl Fn(&Kept) -> bool) -> Series {
        let Some((begin, end)) = self.span() else { return Series::default() };
        let mut counts = vec![0.0; whole(end - begin)];
        for line in self.lines.iter().filter(|line| is_of_it(line)) {
            if let Some(count) = counts.get_mut(whole(line.end - begin)) {
                *count += 1.0;
            }
        }
        Series::each_second(counts.into_iter().map(Some))
    }

    /// Latency that 99 % of the transactions of a second do not exceed, in milliseconds.
    pub(crate) fn p99_per_second(&self) -> Series {
        let Some((begin, end)) = self.span() else { return Series::default() };
        let mut times: Vec<Vec<f32>> = vec![Vec::new(); whole(end - begin)];
        for line in self.lines.iter().filter(|line| line.us().is_some()) {
            if let Some(times) = times.get_mut(whole(line.end - begin)) {
                times.push(line.us);
            }
        }
        let p99 = |times: &mut Vec<f32>| {
            times.sort_unstable_by(f32::total_cmp);
            times.get((times.len() * 99).div_ceil(100).saturating_sub(1)).map(|us| f64::from(*us) / 1e3)
        };
        Series::each_second(times.iter_mut().map(p99))
    }

    /// The values of the measured time. `limit_ms` is the latency above which a transaction is late.
    pub(crate) fn measures(&self, limit_ms: Option<f64>) -> Measures {
        let mut measures = Measures::default();
        let Some((begin, end)) = self.span() else { return measures };
        let from = begin + self.warm_up.min((end - begin) / 2.0);
        let seconds = end - from;
        let lines = || self.lines.iter().filter(|line| line.end >= from);
        let times = || lines().filter_map(Kept::us);
        let count = |of: f32| lines().filter(|line| line.us.total_cmp(&of).is_eq()).count() as f64;
        let (done, scheduled) = (times().count() as f64, lines().count() as f64);
        let (failed, skipped) = (count(FAILED), count(SKIPPED));
        let late = limit_ms.map_or(0.0, |ms| times().filter(|us| *us > ms * 1e3).count() as f64);
        let mut put = |name: &str, value: f64| measures.set(name, Some(value));
        put("transactions", done);
        put("seconds", seconds);
        put("tps", done / seconds);
        let missed = 100.0 * (late + skipped + failed) / scheduled.max(1.0);
        put("in_time_percent", 100.0 - missed);
        put("miss_percent", missed);
        put("failed_percent", 100.0 * failed / scheduled.max(1.0));
        put("skipped_percent", 100.0 * skipped / scheduled.max(1.0));
        if done > 0.0 {
            let mean = times().sum::<f64>() / done;
            let squares: f64 = times().map(|us| (us - mean).powi(2)).sum();
            put("latency_ms", mean / 1e3);
            put("latency_sd_ms", (squares / (done - 1.0).max(1.0)).sqrt() / 1e3);
            // pgbench skips a transaction that cannot end within the limit any more, and logs no time for it: it would
            // have taken at least the limit.
            let skipped =
                lines().filter(|line| line.us.total_cmp(&SKIPPED).is_eq()).filter_map(|_| Some(limit_ms? * 1e3));
            let mut durations = Durations::new();
            times().chain(skipped).for_each(|us| durations.record_us(us));
            for (name, percent) in PERCENTILES {
                put(name, durations.percentile_ms(*percent));
            }
            put("max_ms", times().fold(0.0, f64::max) / 1e3);
        }
        // Where nothing was sent, pgbench writes 0 for the lag.
        let sent = lines().filter(|line| line.us().is_some() && !line.lag_us.is_nan());
        let (lags, sum) = sent.fold((0.0, 0.0), |(lags, sum), line| (lags + 1.0, sum + f64::from(line.lag_us)));
        if lags > 0.0 {
            put("lag_ms", sum / lags / 1e3);
        }
        let per_second = self.per_second();
        let skip = whole(self.warm_up.ceil());
        let steady = Series::each_second(per_second.values.iter().skip(skip).copied());
        if let Some(deviation) = steady.deviation() {
            put("tps_sd", deviation);
        }
        if skipped > 0.0 {
            // Without the share, which differs from run to run: `skipped_percent` has it.
            let note = "some transactions were skipped: percentiles count each as if it had just reached the limit, the mean \
                        leaves it out";
            measures.notes.push(note.to_owned());
        }
        measures.series.insert("tps".to_owned(), per_second);
        measures.series.insert("p99_ms".to_owned(), self.p99_per_second());
        if let Some(ms) = limit_ms {
            let late = self.count_per_second(|line| line.us().is_some_and(|us| us > ms * 1e3));
            let skipped = self.count_per_second(|line| line.us.total_cmp(&SKIPPED).is_eq());
            measures.series.extend([(LATE.to_owned(), late), (SKIPPED_SERIES.to_owned(), skipped)]);
        }
        measures
    }

    /// Begin of the first transaction and end of the last.
    fn span(&self) -> Option<(f64, f64)> {
        let begin = |line: &Kept| line.end - line.us().unwrap_or(0.0) / 1e6;
        let first = self.lines.iter().map(begin).reduce(f64::min)?;
        let last = self.lines.iter().map(|line| line.end).reduce(f64::max)?;
        (last > first && last - first < 2.0 * f64::from(RUN_SECONDS_MAX)).then_some((first, last))
    }
}

impl Kept {
    #[expect(clippy::cast_possible_truncation, reason = "seven digits are enough")]
    fn of(line: &Line) -> Self {
        let us = match line.done {
            // Below zero means something else.
            Done::After(us) => us.max(0.0) as f32,
            Done::Skipped => SKIPPED,
            Done::Failed => FAILED,
        };
        Self { end: line.end, us, lag_us: line.lag_us.map_or(f32::NAN, |us| us as f32) }
    }

    /// The time of a transaction that was done, in microseconds.
    fn us(&self) -> Option<f64> {
        (self.us >= 0.0).then_some(self.us.into())
    }
}

/// The percentiles of a report.
const PERCENTILES: &[(&str, f64)] =
    &[("p50_ms", 50.0), ("p90_ms", 90.0), ("p95_ms", 95.0), ("p99_ms", 99.0), ("p999_ms", 99.9)];

/// The lines of a log. One that is too long comes in pieces.
pub(crate) fn lines(mut file: impl BufRead) -> impl Iterator<Item = io::Result<String>> {
    std::iter::from_fn(move || {
        let mut line = String::new();
        match file.by_ref().take(LOG_LINE_BYTES_MAX).read_line(&mut line) {
            Ok(0) => None,
            Ok(_) => Some(Ok(line.trim_end_matches('\n').to_owned())),
            Err(error) => Some(Err(error)),
        }
    })
}

/// A line of a log. `None` if it is not one.
pub(crate) fn parse_line(line: &str) -> Option<Line> {
    let mut words = line.split(' ');
    let time = words.nth(2)?;
    let done = match time {
        "skipped" => Done::Skipped,
        "failed" | "serialization" | "deadlock" => Done::Failed,
        us => Done::After(us.parse().ok()?),
    };
    let script = words.next()?.parse().ok()?;
    let seconds: f64 = words.next()?.parse().ok()?;
    let micros: f64 = words.next()?.parse().ok()?;
    let lag_us = words.next().map(str::parse).transpose().ok()?;
    Some(Line { end: seconds + micros / 1e6, script, done, lag_us })
}

#[expect(clippy::cast_possible_truncation, reason = "seconds of a run")]
fn whole(seconds: f64) -> usize {
    seconds.max(0.0) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ten transactions a second for four seconds: 1 ms each, in the first second 9 ms.
    fn log() -> String {
        let line = |n: u32| {
            let us = if n <= 10 { 9_000 } else { 1_000 };
            format!("0 {n} {us} 0 {} {}\n", 100 + n / 10, n % 10 * 100_000)
        };
        (1..=40).map(line).collect()
    }

    #[test]
    fn the_warm_up_does_not_count() {
        let mut log_ = Log::new(0.0);
        log_.read(log().as_bytes()).unwrap();
        let all = log_.measures(Some(5.0));
        assert!((all.values["latency_ms"] - 3.0).abs() < 1e-9 && (all.values["miss_percent"] - 25.0).abs() < 1e-9);
        assert!((all.values["p50_ms"] - 1.0).abs() < 0.01 && (all.values["p99_ms"] - 9.0).abs() < 0.01, "{all:?}");
        log_.cut(1.0);
        let steady = log_.measures(Some(5.0));
        assert_eq!((steady.values["max_ms"], steady.values["miss_percent"]), (1.0, 0.0));
        assert!((steady.values["tps"] - 10.0).abs() < 0.8, "{steady:?}");
        assert_eq!(steady.series["tps"].values.len(), 3);
    }

    #[test]
    fn what_was_skipped_or_failed_is_a_miss_and_said() {
        let text = "0 1 1000 0 100 0 50\n0 2 skipped 0 100 500000 0\n0 3 deadlock 0 101 0 0\n0 4 1000 0 102 0 150\n";
        let mut log = Log::new(0.0);
        log.read(text.as_bytes()).unwrap();
        let measures = log.measures(Some(20.0));
        assert_eq!((measures.values["miss_percent"], measures.values["in_time_percent"]), (50.0, 50.0));
        assert_eq!(measures.values["transactions"], 2.0);
        assert_eq!(measures.values["skipped_percent"], 25.0);
        assert!(measures.notes[0].starts_with("some transactions were skipped"), "{measures:?}");
        assert!((measures.values["lag_ms"] - 0.1).abs() < 1e-9, "only of what was sent: {measures:?}");
        assert!((measures.values["p50_ms"] - 1.0).abs() < 0.01 && (measures.values["p99_ms"] - 20.0).abs() < 0.1);
    }

    #[test]
    fn late_and_skipped_transactions_are_counted_second_by_second() {
        let text = "0 1 1000 0 100 0 50\n0 2 30000 0 100 500000 0\n0 3 skipped 0 101 100000 0\n\
            0 4 skipped 0 101 200000 0\n0 5 1000 0 102 900000 0\n";
        let mut log = Log::new(0.0);
        log.read(text.as_bytes()).unwrap();
        let series = log.measures(Some(20.0)).series;
        let of = |name: &str| series[name].values.iter().map(|one| one.unwrap()).collect::<Vec<f64>>();
        assert_eq!((of("late"), of("skipped")), (vec![1.0, 0.0], vec![0.0, 2.0]));
        assert!(!log.measures(None).series.contains_key("late"), "there is no limit");
    }

    #[test]
    fn a_run_may_have_only_so_many_transactions() {
        let mut log_ = Log::new(0.0);
        log_.read_at_most(log().as_bytes(), 40).unwrap();
        let error = log_.read_at_most(log().as_bytes(), 40).unwrap_err().to_string();
        assert_eq!(error, "the run has more than 40 transactions; make it shorter");
    }

    #[test]
    fn a_line_that_is_not_of_a_log_is_refused() {
        let mut log = Log::new(0.0);
        let error = log.read("0 1 x 0 100 0\n".as_bytes()).unwrap_err().to_string();
        assert!(error.contains("0 1 x"), "{error}");
        let endless = "0".repeat(1 << 20);
        let error = log.read(endless.as_bytes()).unwrap_err().to_string();
        assert!(error.len() < 2_000, "{}", error.len());
        assert!(log.measures(None).values.is_empty(), "an empty log has no values");
    }
}
