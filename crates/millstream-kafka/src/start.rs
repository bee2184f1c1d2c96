//! Where a partition is read from, and what is compared there first.

use crate::client::{Marks, Record};
use crate::fingerprint::Fingerprint;
use millstream_engine::Watermark;

/// Where reading begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Start {
    /// The first offset that the client reads.
    pub(crate) read: u64,
    /// The first offset that is loaded.
    pub(crate) load: u64,
    /// What the client must find before that, if it is read.
    pub(crate) last: Option<Last>,
    /// Records that are gone and were not loaded, at most so many.
    pub(crate) gap: u64,
}

/// The record that was committed last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Last {
    offset: u64,
    print: Fingerprint,
    /// Whether the topic is another one than when it was committed.
    other_topic: bool,
}

/// Why a partition cannot continue where it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// Records after the last committed one were removed.
    Gap,
    /// It is not the partition that was read.
    Replaced(&'static str),
}

/// Where a partition begins. `watermark` is what is committed of it; without one, it begins at `from`. `topic` is the topic
/// as it is now.
pub(crate) fn start(
    watermark: Option<Watermark>,
    from: u64,
    marks: Marks,
    topic: Fingerprint,
    allow_gap: bool,
) -> Result<Start, Obstacle> {
    let Some(Watermark { offset, hash }) = watermark else {
        return Ok(Start { read: from, load: from, last: None, gap: 0 });
    };
    let print = hash.map_or(Fingerprint::of_topic(None), Fingerprint::from_bits);
    let other_topic = print.is_other_topic(topic);
    if offset > marks.end {
        return Err(Obstacle::Replaced("it ends before that"));
    }
    let last = offset.checked_sub(1 + u64::from(print.passed));
    let last = last.filter(|last| print.record != 0 && *last >= marks.first);
    if last.is_none() && other_topic {
        return Err(Obstacle::Replaced("the topic was made again"));
    }
    if offset < marks.first {
        let gap = marks.first - offset;
        let start = Start { read: marks.first, load: marks.first, last: None, gap };
        return if allow_gap { Ok(start) } else { Err(Obstacle::Gap) };
    }
    let last = last.map(|offset| Last { offset, print, other_topic });
    Ok(Start { read: last.map_or(offset, |last| last.offset), load: offset, last, gap: 0 })
}

impl Last {
    /// What is known of it.
    pub(crate) fn print(self) -> Fingerprint {
        self.print
    }

    /// Compares what the client has found first: a record, or that it has come to an offset without any. Returns whether
    /// the record is the one that was committed.
    pub(crate) fn found(self, first: Option<&Record>) -> Result<bool, Obstacle> {
        match first.filter(|record| record.offset == self.offset) {
            Some(record) if self.print.with(record).record == self.print.record => Ok(true),
            Some(_) => Err(Obstacle::Replaced("the last record that was loaded from it is another one now")),
            None if self.other_topic => Err(Obstacle::Replaced("the topic was made again")),
            // Compaction has removed it.
            None => Ok(false),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(offset: u64) -> Record {
        Record { offset, timestamp_ms: 1, ..Record::default() }
    }

    fn topic(id: u8) -> Fingerprint {
        Fingerprint::of_topic((id > 0).then_some([id; 16]))
    }

    fn watermark(offset: u64, print: Fingerprint) -> Option<Watermark> {
        Some(Watermark { offset, hash: Some(print.bits()) })
    }

    const MARKS: Marks = Marks { first: 100, end: 200, written: 200 };

    #[test]
    fn a_partition_without_a_watermark_begins_where_it_is_asked_to() {
        let begun = Start { read: 150, load: 150, last: None, gap: 0 };
        assert_eq!(start(None, 150, MARKS, topic(1), false), Ok(begun));
    }

    #[test]
    fn a_partition_continues_with_its_last_record_to_compare() {
        let print = topic(1).with(&record(149));
        let found = start(watermark(150, print), 0, MARKS, topic(1), false).unwrap();
        assert_eq!((found.read, found.load, found.gap), (149, 150, 0));
        let last = found.last.unwrap();
        assert_eq!(last.found(Some(&record(149))), Ok(true));
        let other = Record { timestamp_ms: 2, ..record(149) };
        assert!(matches!(last.found(Some(&other)), Err(Obstacle::Replaced(_))));
        // Compaction has removed it; the topic is the same.
        assert_eq!((last.found(Some(&record(151))), last.found(None)), (Ok(false), Ok(false)));
    }

    #[test]
    fn the_last_record_is_looked_for_before_the_offsets_that_have_none() {
        let print = topic(1).with(&record(147)).behind(2);
        let found = start(watermark(150, print), 0, MARKS, topic(1), false).unwrap();
        assert_eq!((found.read, found.load), (147, 150));
        assert_eq!(found.last.unwrap().found(Some(&record(147))), Ok(true));
        // It is gone, and the offsets that have no record are not, or all of them are.
        for offset in [101, 100] {
            let print = topic(1).with(&record(offset - 3)).behind(2);
            let found = start(watermark(offset, print), 0, MARKS, topic(1), false);
            assert_eq!(found, Ok(Start { read: offset, load: offset, last: None, gap: 0 }));
        }
    }

    #[test]
    fn a_topic_that_was_made_again_is_found_out() {
        let print = topic(1).with(&record(149));
        let of = |offset, topic| start(watermark(offset, print), 0, MARKS, topic, false);
        assert_eq!(of(201, topic(1)), Err(Obstacle::Replaced("it ends before that")));
        // The record is gone, so only the topic itself tells.
        assert!(of(100, topic(1)).is_ok_and(|start| start.read == 100 && start.last.is_none()));
        assert_eq!(of(100, topic(2)), Err(Obstacle::Replaced("the topic was made again")));
        assert!(of(100, topic(0)).is_ok(), "brokers that do not say so");
        let last = of(150, topic(2)).unwrap().last.unwrap();
        assert!(matches!(last.found(Some(&record(160))), Err(Obstacle::Replaced(_))));
        // A copy of the topic with the same records at the same offsets is as good.
        assert_eq!(last.found(Some(&record(149))), Ok(true));
        // Nothing was loaded yet.
        let begun = |topic| start(watermark(150, self::topic(1)), 0, MARKS, topic, false);
        assert!(begun(topic(1)).is_ok_and(|start| start.read == 150));
        assert!(begun(topic(2)).is_err());
    }

    #[test]
    fn removed_records_are_an_obstacle_unless_they_are_allowed() {
        let print = topic(1).with(&record(89));
        let of = |topic, allow_gap| start(watermark(90, print), 0, MARKS, topic, allow_gap);
        assert_eq!(of(topic(1), false), Err(Obstacle::Gap));
        assert_eq!(of(topic(1), true), Ok(Start { read: 100, load: 100, last: None, gap: 10 }));
        assert!(matches!(of(topic(2), true), Err(Obstacle::Replaced(_))), "none of it is what was loaded");
        let none = Some(Watermark { offset: 150, hash: None });
        assert!(start(none, 0, MARKS, topic(1), false).is_ok_and(|start| start.read == 150), "lanes that disagree");
    }
}
