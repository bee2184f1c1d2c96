//! Folds the documents of each key into one: what a load with the mode would store in an empty table.

use super::record::KeyedDocument;
use crate::limits::FOLD_BYTES;
use crate::merge::{Effect, Member, Mode};
use millstream_input::Sorted;
use std::io;

/// Folds sorted records by key.
#[derive(Debug)]
pub(super) struct Folding {
    sorted: Sorted,
    mode: Mode,
    /// The first record of the next key.
    ahead: Option<KeyedDocument>,
}

impl Folding {
    pub(super) fn new(sorted: Sorted, mode: Mode) -> io::Result<Self> {
        let mut folding = Self { sorted, mode, ahead: None };
        folding.ahead = folding.read()?;
        Ok(folding)
    }

    /// The next key that the table should have, and its document; `None` after the last. A document made of several has
    /// the place of the last one.
    pub(super) fn next(&mut self) -> io::Result<Option<KeyedDocument>> {
        while let Some(first) = self.ahead.take() {
            let folded = self.fold_key(first)?;
            if !folded.tombstone {
                return Ok(Some(folded));
            }
        }
        Ok(None)
    }

    /// Folds all records of a key, some at a time. The result of the earlier ones replaces them.
    fn fold_key(&mut self, first: KeyedDocument) -> io::Result<KeyedDocument> {
        let (mut records, mut bytes) = (vec![first], 0);
        while let Some(next) = self.read()? {
            if next.key != records[0].key {
                self.ahead = Some(next);
                break;
            }
            bytes += next.bytes();
            records.push(next);
            if bytes > FOLD_BYTES {
                records = vec![fold(&self.mode, records)];
                bytes = 0;
            }
        }
        Ok(fold(&self.mode, records))
    }

    fn read(&mut self) -> io::Result<Option<KeyedDocument>> {
        let mut record = millstream_input::SortRecord::default();
        Ok(self.sorted.next(&mut record)?.then(|| KeyedDocument::of(record)))
    }
}

/// The result of records of a key, oldest first, if nothing was stored before.
fn fold(mode: &Mode, mut records: Vec<KeyedDocument>) -> KeyedDocument {
    if records.len() > 1 {
        let members: Vec<Member<'_>> = records.iter().map(member).collect();
        let folded = mode.fold(&members);
        // The place is that of the document that was taken unchanged. Pointers show which one it is, because several
        // may be equal.
        let taken = members.iter().rposition(|member| std::ptr::eq(member.document, &*folded.document));
        let place = records[taken.unwrap_or(records.len() - 1)].place;
        let (version, tombstone) = (folded.version.to_vec(), folded.effect == Effect::Delete);
        let document = folded.document.into_owned();
        records.truncate(1);
        records[0] = KeyedDocument { key: std::mem::take(&mut records[0].key), version, tombstone, place, document };
    }
    records.swap_remove(0)
}

fn member(record: &KeyedDocument) -> Member<'_> {
    Member { document: &record.document, version: &record.version, tombstone: record.tombstone }
}

#[cfg(test)]
mod tests {
    use super::super::record::{Origin, head};
    use super::*;
    use crate::merge::MODES;
    use millstream_input::Sorter;
    use millstream_testkit::Cases;

    fn folded(mode: &Mode, records: &[KeyedDocument]) -> Vec<KeyedDocument> {
        let mut sorter = Sorter::new(&std::env::temp_dir(), 1 << 20);
        for record in records {
            let head = head(&record.version, record.tombstone, record.place);
            sorter.push(&record.key, &[&head, &record.version, &record.document]).unwrap();
        }
        let mut folding = Folding::new(sorter.finish().unwrap(), mode.clone()).unwrap();
        std::iter::from_fn(|| folding.next().unwrap()).collect()
    }

    fn record(key: u8, line: u64, document: &str, version: u8, tombstone: bool) -> KeyedDocument {
        let place = Origin { source: 0, line };
        KeyedDocument { key: vec![key], version: vec![version], tombstone, place, document: document.into() }
    }

    #[test]
    fn folding_keeps_the_place_of_the_document_that_wins() {
        let records =
            [record(2, 1, "{\"a\":1}", 3, false), record(1, 2, "{}", 0, false), record(2, 3, "{\"a\":3}", 2, false)];
        for (mode, line) in [("replace", 3), ("keep", 1), ("newest:v", 1)] {
            let found = folded(&mode.parse().unwrap(), &records);
            assert_eq!(
                found.iter().map(|e| (e.key[0], e.place.line)).collect::<Vec<_>>(),
                [(1, 2), (2, line)],
                "{mode}"
            );
        }
        let deleted = [record(1, 1, "{}", 0, false), record(1, 2, "{\"d\":1}", 0, true), record(2, 3, "{}", 0, true)];
        assert_eq!(folded(&Mode::default(), &deleted), []);
        let again = [&deleted[..], &[record(1, 4, "{\"a\":4}", 0, false)]].concat();
        assert_eq!(folded(&Mode::default(), &again)[0].place.line, 4);
    }

    #[test]
    fn folding_in_groups_equals_folding_one_by_one() {
        for mut rng in Cases::new(20) {
            for kind in MODES {
                let arguments = if kind.arguments.is_empty() { "" } else { ":n" };
                let mode: Mode = format!("{}{arguments}", kind.name).parse().unwrap();
                let filler = "x".repeat(FOLD_BYTES / 7);
                let records: Vec<KeyedDocument> = (0..rng.u64(1..40))
                    .map(|line| {
                        let (n, name) = (rng.u8(..9), rng.char('a'..'e'));
                        let document = format!("{{\"n\":{n},\"m\":{{\"{name}\":{n}}},\"{name}\":\"{filler}\"}}");
                        let tombstone = rng.u8(..8) == 0;
                        record(7, line, &document, n, tombstone)
                    })
                    .collect();
                let one_by_one = records.iter().cloned().reduce(|before, next| fold(&mode, vec![before, next]));
                let expected = one_by_one.filter(|record| !record.tombstone);
                let found = folded(&mode, &records).pop();
                assert_eq!(
                    found.map(|e| String::from_utf8(e.document).unwrap()),
                    expected.map(|r| String::from_utf8(r.document).unwrap()),
                    "{mode}"
                );
            }
        }
    }
}
