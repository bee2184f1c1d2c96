//! How slow a disk is, and when it is done with what it is asked.

use std::time::{Duration, Instant};

/// How slow a disk is. The default is as fast as what lies below it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Slowness {
    /// Milliseconds of a read.
    pub read_ms: f64,
    /// Milliseconds of a write into the disk's cache.
    pub write_ms: f64,
    /// Milliseconds of a flush of that cache, at least.
    pub flush_ms: f64,
    /// Reads and writes that the disk can begin in a second; 0: as many as are asked.
    pub iops: f64,
}

/// What a disk is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    Read,
    Write,
    Flush,
}

impl Slowness {
    /// Milliseconds of a write with its flush, if nothing else uses the disk.
    pub fn written_ms(&self) -> f64 {
        (self.write_ms + self.flush_ms).max(1e3 * self.gap().as_secs_f64())
    }

    /// Time between the beginnings of two reads or writes.
    fn gap(&self) -> Duration {
        if self.iops > 0.0 { Duration::from_secs_f64(1.0 / self.iops) } else { Duration::ZERO }
    }

    /// A line that [`Slowness::parsed`] reads.
    pub(super) fn line(&self) -> String {
        let Self { read_ms, write_ms, flush_ms, iops } = self;
        format!("{read_ms} {write_ms} {flush_ms} {iops}\n")
    }

    pub(super) fn parsed(line: &str) -> Option<Self> {
        let numbers: Vec<f64> = line.split_whitespace().map(|word| word.parse().ok()).collect::<Option<_>>()?;
        let &[read_ms, write_ms, flush_ms, iops] = numbers.as_slice() else { return None };
        let sound = numbers.iter().all(|number| number.is_finite() && *number >= 0.0);
        sound.then_some(Self { read_ms, write_ms, flush_ms, iops })
    }
}

/// When the disk can begin with the next read or write.
#[derive(Debug)]
pub(super) struct Schedule(Instant);

impl Schedule {
    pub(super) fn new(now: Instant) -> Self {
        Self(now)
    }

    /// When what is asked now is done. The disk begins with reads and writes in their order, so a flush has to wait for
    /// all that were asked before it.
    pub(super) fn due(&mut self, work: Work, now: Instant, slowness: &Slowness) -> Instant {
        let free = self.0.max(now);
        let after = |ms: f64| Duration::from_secs_f64(ms / 1e3);
        match work {
            Work::Flush => free.max(now + after(slowness.flush_ms)),
            Work::Read | Work::Write => {
                self.0 = free + slowness.gap();
                let ms = if work == Work::Read { slowness.read_ms } else { slowness.write_ms };
                free + after(ms)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn each_work_takes_its_time_and_only_the_rate_makes_one_wait_for_another() {
        let slowness = Slowness { read_ms: 4.0, write_ms: 1.0, flush_ms: 8.0, iops: 0.0 };
        let now = Instant::now();
        let mut schedule = Schedule::new(now);
        let due = [Work::Read, Work::Write, Work::Flush, Work::Read].map(|work| schedule.due(work, now, &slowness));
        assert_eq!(due, [now + ms(4), now + ms(1), now + ms(8), now + ms(4)]);

        let slowness = Slowness { iops: 100.0, ..slowness };
        let due = [Work::Write, Work::Write, Work::Write, Work::Flush, Work::Read]
            .map(|work| schedule.due(work, now, &slowness));
        assert_eq!(due, [now + ms(1), now + ms(11), now + ms(21), now + ms(30), now + ms(34)]);
        let later = now + ms(1_000);
        assert_eq!(schedule.due(Work::Flush, later, &slowness), later + ms(8), "an idle disk has no queue");
    }

    #[test]
    fn a_write_with_its_flush_takes_both_unless_the_rate_allows_fewer() {
        let slowness = Slowness { read_ms: 4.0, write_ms: 1.0, flush_ms: 8.0, iops: 0.0 };
        assert!((slowness.written_ms() - 9.0).abs() < 1e-9);
        let rare = Slowness { iops: 50.0, ..slowness };
        assert!((rare.written_ms() - 20.0).abs() < 1e-9);
        assert_eq!(Slowness::parsed(&rare.line()), Some(rare));
        for wrong in ["", "1 2 3", "1 2 3 4 5", "1 2 3 x", "1 2 3 -4", "1 2 3 inf"] {
            assert_eq!(Slowness::parsed(wrong), None, "{wrong}");
        }
    }
}
