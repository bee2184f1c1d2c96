//! What is kept of the last record of a partition and of its topic, to find out whether they are still there.

use crate::client::Record;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// A topic and its last committed record, in the 128 bits that a load keeps for its producer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fingerprint {
    /// Of the topic, in 48 bits; 0 if the brokers do not identify it.
    pub(crate) topic: u64,
    /// Of the record; 0 if there is none yet.
    pub(crate) record: u64,
    /// How many offsets without a record were passed behind it.
    pub(crate) passed: u16,
}

impl Fingerprint {
    /// Of a topic without a record.
    pub(crate) fn of_topic(id: Option<[u8; 16]>) -> Self {
        Self { topic: id.map_or(0, |id| (xxh3_64(&id) >> 16).max(1)), record: 0, passed: 0 }
    }

    /// Of this topic with a record.
    pub(crate) fn with(self, record: &Record) -> Self {
        Self { record: record_hash(record), passed: 0, ..self }
    }

    /// Of this topic with the record of another fingerprint.
    pub(crate) fn with_record_of(self, other: Self) -> Self {
        Self { topic: self.topic, ..other }
    }

    /// The same, further on by so many offsets without a record. If they are too many to be counted, the record is not
    /// kept, because it could not be found again.
    pub(crate) fn behind(self, offsets: u64) -> Self {
        match u16::try_from(offsets).ok().and_then(|offsets| self.passed.checked_add(offsets)) {
            Some(passed) if self.record != 0 => Self { passed, ..self },
            _ => Self { record: 0, passed: 0, ..self },
        }
    }

    /// Whether both topics are known and are not the same.
    pub(crate) fn is_other_topic(self, other: Self) -> bool {
        self.topic != 0 && other.topic != 0 && self.topic != other.topic
    }

    pub(crate) fn from_bits(bits: u128) -> Self {
        let half = |bits: u128| u64::try_from(bits & u128::from(u64::MAX)).expect("64 bits");
        let (upper, record) = (half(bits >> 64), half(bits));
        Self { topic: upper >> 16, record, passed: u16::try_from(upper & u64::from(u16::MAX)).expect("16 bits") }
    }

    pub(crate) fn bits(self) -> u128 {
        u128::from(self.topic) << 80 | u128::from(self.passed) << 64 | u128::from(self.record)
    }
}

/// A hash of what a record holds, and of its offset; never 0.
fn record_hash(record: &Record) -> u64 {
    let mut hash = Xxh3::new();
    hash.update(&record.offset.to_le_bytes());
    hash.update(&record.timestamp_ms.to_le_bytes());
    for part in [&record.key, &record.value] {
        // A key that is there and empty is another one than none.
        let length = part.as_ref().map_or(u64::MAX, |part| part.len() as u64);
        hash.update(&length.to_le_bytes());
        hash.update(part.as_deref().unwrap_or_default());
    }
    hash.digest().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    #[test]
    fn a_record_is_known_by_all_that_it_holds() {
        let bytes = |text: &'static str| Some(Bytes::from_static(text.as_bytes()));
        let record = Record { offset: 7, timestamp_ms: 9, key: bytes("a"), value: bytes("bc"), headers: Vec::new() };
        let others = [
            Record { offset: 8, ..record.clone() },
            Record { timestamp_ms: 8, ..record.clone() },
            Record { key: bytes("ab"), value: bytes("c"), ..record.clone() },
            Record { key: None, ..record.clone() },
            Record { key: bytes(""), ..record.clone() },
            Record { value: None, ..record.clone() },
        ];
        let mut hashes: Vec<u64> = others.iter().chain([&record]).map(record_hash).collect();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), others.len() + 1);
        assert_eq!(record_hash(&record), record_hash(&record.clone()));
    }

    #[test]
    fn a_fingerprint_is_kept_in_128_bits() {
        let topic = Fingerprint::of_topic(Some([3; 16]));
        let print = topic.with(&Record { offset: 1, ..Record::default() });
        for print in
            [topic, print, print.behind(3), Fingerprint { topic: (1 << 48) - 1, record: u64::MAX, passed: u16::MAX }]
        {
            assert_eq!(Fingerprint::from_bits(print.bits()), print);
        }
        let (other, unknown) = (Fingerprint::of_topic(Some([4; 16])), Fingerprint::of_topic(None));
        assert!(print.is_other_topic(other) && !print.is_other_topic(topic));
        assert!(!print.is_other_topic(unknown) && !unknown.is_other_topic(print));
        assert_eq!(other.with_record_of(print.behind(3)), Fingerprint { topic: other.topic, ..print.behind(3) });
    }

    #[test]
    fn offsets_without_a_record_are_counted_as_far_as_they_can_be() {
        let topic = Fingerprint::of_topic(Some([3; 16]));
        let print = topic.with(&Record { offset: 1, ..Record::default() });
        assert_eq!(print.behind(2).behind(3), Fingerprint { passed: 5, ..print });
        assert_eq!(print.behind(2).with(&Record { offset: 1, ..Record::default() }), print);
        for far in [print.behind(65_536), print.behind(65_535).behind(1), print.behind(u64::MAX), topic.behind(3)] {
            assert_eq!(far, topic, "no record");
        }
    }
}
