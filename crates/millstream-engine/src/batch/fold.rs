//! A batch: parts folded by key and sorted in the database's key order.

use super::met::Met;
use super::part::{Part, Row};
use crate::limits::{CACHE_LINE_BYTES, COMPARED_BYTES_MAX, KEY_TURNS_MAX, WARMED_GROUPS, WARMED_LINES};
use crate::merge::{Folded, Folding, Member, Mode, Written};
use millstream_document::decode::LeftOut;
use millstream_model::Counters;
use millstream_store::RejectedDocument;
use std::hint::black_box;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

/// What a lane commits at once. It keeps every document folded into a key until the commit, so that a refused key can
/// be retried one document at a time.
#[derive(Debug)]
pub(crate) struct Batch {
    parts: Vec<Part>,
    /// All rows ordered by key, then by position.
    order: Vec<Ordered>,
    /// One entry per distinct key, in key order.
    groups: Vec<Group>,
    tombstones: bool,
    /// Bytes of the longest document.
    longest: u32,
    /// For each group whether its key was met before, once [`meet`](Self::meet) was called.
    met: Vec<bool>,
}

#[derive(Debug, Clone, Copy)]
struct Ordered {
    /// Bytes of the key, big-endian, from the first that is not the same in all keys. They decide most comparisons.
    prefix: u64,
    part: u32,
    row: u32,
}

/// The documents of one key within a batch.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    /// Their places in the batch's order, oldest first.
    members: Range<usize>,
}

impl Group {
    /// Documents folded into this key.
    pub(crate) fn len(&self) -> usize {
        self.members.len()
    }
}

impl Batch {
    /// Sorts and folds the parts, which are in the order of their positions.
    pub(crate) fn new(parts: Vec<Part>) -> Self {
        let rows = parts.iter().map(|p| p.rows.len()).sum();
        let mut order = Vec::with_capacity(rows);
        let same = same_in_all(&parts);
        for (p, part) in (0u32..).zip(&parts) {
            let prefixes = part.rows.iter().map(|row| prefix(&part.key(row)[same..]));
            order.extend((0u32..).zip(prefixes).map(|(row, prefix)| Ordered { prefix, part: p, row }));
        }
        let key = |o: &Ordered| {
            let part = &parts[o.part as usize];
            part.key(&part.rows[o.row as usize])
        };
        order.sort_unstable_by(|a, b| {
            a.prefix.cmp(&b.prefix).then_with(|| key(a).cmp(key(b))).then_with(|| (a.part, a.row).cmp(&(b.part, b.row)))
        });
        let mut groups: Vec<Group> = Vec::with_capacity(rows);
        for (n, o) in order.iter().enumerate() {
            match groups.last_mut() {
                Some(g) if order[g.members.start].prefix == o.prefix && key(&order[g.members.start]) == key(o) => {
                    g.members.end = n + 1;
                }
                _ => groups.push(Group { members: n..n + 1 }),
            }
        }
        let tombstones = parts.iter().any(|part| part.rows.iter().any(|row| row.tombstone));
        let longest = parts.iter().flat_map(|part| &part.rows).map(|row| row.doc_len).max().unwrap_or(0);
        let batch = Self { parts, order, groups, tombstones, longest, met: Vec::new() };
        assert_eq!(
            batch.groups.iter().map(Group::len).sum::<usize>(),
            rows,
            "every row of a batch is in exactly one group"
        );
        batch
    }

    /// Adds its keys to those that were met.
    pub(crate) fn meet(&mut self, all: &mut Met) {
        // In the order of memory. So the oldest document of a key comes first, and that one counts.
        let (mut met, mut firsts) = (Vec::with_capacity(self.order.len()), Vec::with_capacity(self.parts.len()));
        for part in &self.parts {
            firsts.push(met.len());
            all.add_all(part.rows.iter().map(|row| part.key(row)), &mut met);
        }
        let oldest = |group: &Group| self.order[group.members.start];
        self.met = self.groups.iter().map(oldest).map(|o| met[firsts[o.part as usize] + o.row as usize]).collect();
    }

    /// For each group whether its key was met before; empty if nobody asked.
    pub(crate) fn met(&self) -> &[bool] {
        &self.met
    }

    /// The keys to write, in key order.
    pub(crate) fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// Whether any of the documents deletes.
    pub(crate) fn has_tombstones(&self) -> bool {
        self.tombstones
    }

    /// The key of a group.
    pub(crate) fn key(&self, group: &Group) -> &[u8] {
        let (part, row) = self.member(group.members.start);
        part.key(row)
    }

    /// The key of a group and what it writes under a mode. Documents are folded whole: one may spell the key otherwise than
    /// the last. What is stored leaves something out, if anything.
    pub(crate) fn winner(&self, group: &Group, mode: &Mode, left_out: Option<&LeftOut>) -> (&[u8], Folded<'_>) {
        let (part, row) = self.member(group.members.start);
        let mut folded = match group.len() {
            1 => mode.fold(&[part.member(row)]),
            _ => mode.fold(&self.list(group)),
        };
        if let Some(left_out) = left_out {
            let mut left = Vec::with_capacity(folded.document.len());
            left_out.put(&folded.document, &mut left);
            folded.document = left.into();
        }
        (part.key(row), folded)
    }

    /// Whether a document of the batch is too long to be compared before it is sent.
    pub(crate) fn has_large(&self) -> bool {
        self.longest as usize > COMPARED_BYTES_MAX
    }

    /// How many bytes of documents are sent for these groups at most. If the mode stores documents unchanged, one
    /// document of each group is sent, else at most as much as all of them together.
    pub(crate) fn bytes_sent_max(&self, groups: &[Group], mode: &Mode) -> usize {
        let bytes = |group: &Group| {
            let lengths = self.members(group).map(|(_, row)| row.doc_len as usize);
            if mode.stores_documents() { lengths.max().unwrap_or(0) } else { lengths.sum() }
        };
        groups.iter().map(bytes).sum()
    }

    /// Key and [`winner`](Self::winner) of each group. In key order the documents are scattered in memory. So those of
    /// several groups are loaded into the cache together, instead of waiting for one after another.
    pub(crate) fn winners(
        &self,
        groups: &[Group],
        mode: &Mode,
        left_out: Option<&LeftOut>,
    ) -> impl Iterator<Item = (&[u8], Folded<'_>)> {
        groups.chunks(WARMED_GROUPS).flat_map(move |groups| {
            self.warm(groups);
            groups.iter().map(move |group| self.winner(group, mode, left_out))
        })
    }

    /// Loads the keys and beginnings of documents into the cache.
    fn warm(&self, groups: &[Group]) {
        let mut touched = 0;
        for group in groups {
            let (part, row) = self.member(group.members.start);
            touched ^= part.key(row).first().unwrap_or(&0);
            let document = part.member(row).document;
            touched = document.iter().step_by(CACHE_LINE_BYTES).take(WARMED_LINES).fold(touched, |t, byte| t ^ byte);
        }
        black_box(touched);
    }

    fn list(&self, group: &Group) -> Vec<Member<'_>> {
        self.members(group).map(|(part, row)| part.member(row)).collect()
    }

    /// What is known before these groups are written: documents, keys, and documents that are stale or kept.
    pub(crate) fn written(&self, groups: &[Group], mode: &Mode) -> Written {
        let documents = groups.iter().map(|g| g.len() as u64).sum();
        let mut written = Written { documents, keys: groups.len() as u64, ..Written::default() };
        for group in groups.iter().filter(|g| g.len() > 1 && mode.may_keep_stored()) {
            let (stale, kept) = mode.count_skipped(&self.list(group));
            written.stale += stale;
            written.kept += kept;
        }
        written
    }

    /// Whether each document of a group is written by itself.
    fn is_alone(&self, group: &Group, folding: Folding) -> bool {
        let deletes = || self.tombstones && self.members(group).any(|(_, row)| row.tombstone);
        group.len() > 1 && (folding.is_alone(false) || folding.is_alone(true) && deletes())
    }

    /// The documents of groups whose documents are folded, each as a group of its own, oldest first, with its place in
    /// its group. Groups of one document are left out.
    pub(crate) fn folded_away(&self, groups: &[Group], folding: Folding) -> impl Iterator<Item = (Group, i32)> {
        let folded = groups.iter().filter(move |group| group.len() > 1 && !self.is_alone(group, folding));
        folded.flat_map(move |group| self.singles(group).into_iter().zip(0..))
    }

    /// How often the batch writes one key at most. A key whose documents are folded is written once, or once for each
    /// part into which the mode cuts them. The parts are counted only for groups of more than [`KEY_TURNS_MAX`]
    /// documents.
    pub(crate) fn turns(&self, mode: &Mode, folding: Folding) -> usize {
        let turns = |group: &Group| match self.is_alone(group, folding) {
            true => group.len(),
            false if mode.may_cut() && group.len() > KEY_TURNS_MAX => mode.cuts(&self.list(group)).len() + 1,
            false => 1,
        };
        self.groups.iter().map(turns).max().unwrap_or(1)
    }

    /// Splits the groups into parts whose documents can be folded: first the first parts of all keys, then the second
    /// parts, and so on. `None` when every group is one such part.
    pub(crate) fn rounds(&self, groups: &[Group], mode: &Mode, folding: Folding) -> Option<Vec<Vec<Group>>> {
        if !(folding.is_alone(self.tombstones) || mode.may_cut()) || groups.iter().all(|g| g.len() == 1) {
            return None;
        }
        let mut rounds: Vec<Vec<Group>> = Vec::new();
        for group in groups {
            let cuts = match self.is_alone(group, folding) {
                true => (1..group.len()).collect(),
                false => mode.cuts(&self.list(group)),
            };
            let mut start = group.members.start;
            let ends = cuts.into_iter().map(|cut| group.members.start + cut).chain([group.members.end]);
            for (n, end) in ends.enumerate() {
                if rounds.len() == n {
                    rounds.push(Vec::new());
                }
                rounds[n].push(Group { members: start..end });
                start = end;
            }
        }
        (rounds.len() > 1).then_some(rounds)
    }

    /// The documents of a group, oldest first.
    pub(crate) fn members(&self, group: &Group) -> impl Iterator<Item = (&Part, &Row)> {
        group.members.clone().map(|n| self.member(n))
    }

    /// Each document of a group as a group of its own, oldest first.
    pub(crate) fn singles(&self, group: &Group) -> Vec<Group> {
        group.members.clone().map(|n| Group { members: n..n + 1 }).collect()
    }

    fn member(&self, n: usize) -> (&Part, &Row) {
        let o = &self.order[n];
        let part = &self.parts[o.part as usize];
        (part, &part.rows[o.row as usize])
    }

    /// Rejects that the decoder found.
    pub(crate) fn rejects(&self) -> impl Iterator<Item = &RejectedDocument> {
        self.parts.iter().flat_map(|p| &p.rejects)
    }

    /// The part whose end is the watermark of this batch.
    pub(crate) fn last_part(&self) -> &Part {
        self.parts.last().expect("a batch has at least one part")
    }

    /// Counts known before writing: what was read and what the decoder rejected.
    pub(crate) fn counters(&self) -> Counters {
        let rejected = self.parts.iter().map(|p| p.rejects.len() as u64).sum();
        Counters {
            read: self.order.len() as u64 + rejected,
            rejected,
            bytes_read: self.parts.iter().map(|p| p.bytes_read).sum(),
            ..Counters::default()
        }
    }

    /// What became of its documents in the transforms of the load; empty if it has none.
    pub(crate) fn outcomes(&self) -> Vec<u64> {
        let mut sum = Vec::new();
        self.parts.iter().for_each(|part| part.add_outcomes(&mut sum));
        sum
    }

    /// How many parts of chunks the batch has.
    pub(crate) fn parts(&self) -> usize {
        self.parts.len()
    }

    /// The older and the newer half of the parts.
    pub(crate) fn halves(mut self) -> Vec<Vec<Part>> {
        let newer = self.parts.split_off(self.parts.len() / 2);
        vec![self.parts, newer]
    }

    /// Whether the producers know of a commit that the server has lost since.
    pub(crate) fn acknowledged(&self) -> bool {
        self.last_part().acknowledged
    }

    /// Counts for each part what the server has refused in this try, for the report to its producer.
    pub(crate) fn refuse(&self, refused: &[RejectedDocument]) {
        for part in &self.parts {
            part.refused.store(0, Relaxed);
        }
        for reject in refused {
            // The parts are in the order of their positions.
            let part = self.parts.partition_point(|part| part.mark() <= reject.position);
            self.parts[part].refused.fetch_add(1, Relaxed);
        }
    }

    /// Reports to the producers that their documents are committed, unless they know already. The memory is freed when
    /// the parts are dropped.
    pub(crate) fn committed(mut self) -> Vec<Part> {
        self.parts.iter_mut().for_each(Part::committed);
        self.parts
    }

    /// The parts of the batch.
    pub(crate) fn into_parts(self) -> Vec<Part> {
        self.parts
    }
}

/// Length of the prefix that all keys share.
fn same_in_all(parts: &[Part]) -> usize {
    let mut keys = parts.iter().flat_map(|part| part.rows.iter().map(|row| part.key(row)));
    let Some(first) = keys.next() else { return 0 };
    keys.fold(first.len(), |same, key| match key.starts_with(&first[..same]) {
        true => same,
        false => first.iter().zip(key).take_while(|(a, b)| a == b).count(),
    })
}

/// The first eight bytes as a number. Numbers are ordered as the bytes are.
fn prefix(bytes: &[u8]) -> u64 {
    let head = bytes.first_chunk().copied().unwrap_or_else(|| {
        let mut head = [0; 8];
        head[..bytes.len()].copy_from_slice(bytes);
        head
    });
    u64::from_be_bytes(head)
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_model::{DocumentForm, KeyRequest, KeySpec};

    #[test]
    fn prefixes_sort_like_their_bytes() {
        let sorted: [&[u8]; 8] = [b"", b"\0", b"a", b"a\0", b"aaaaaaa", b"aaaaaaaa", b"aaaaaaab", b"b"];
        assert!(sorted.is_sorted());
        assert!(sorted.iter().map(|bytes| prefix(bytes)).is_sorted());
        assert_eq!(prefix(b"12345678"), prefix(b"123456789"), "the rest decides");
    }
    /// A part whose documents are these bytes, all of the key that is their first one.
    fn part(documents: &[&'static str]) -> Part {
        let place = |n: usize| u32::try_from(n).expect("few bytes");
        let (mut bytes, mut rows) = (Vec::new(), Vec::new());
        for document in documents {
            let start = place(bytes.len());
            rows.push(Row {
                offset: u64::from(start),
                line: 1,
                key_start: start,
                key_len: 1,
                version_len: 0,
                doc_start: start,
                doc_len: place(document.len()),
                tombstone: false,
            });
            bytes.extend_from_slice(document.as_bytes());
        }
        let (keys, bytes_read) = (bytes.clone(), bytes.len() as u64);
        let (bytes, rejects, refused) = (bytes::Bytes::from(bytes), Vec::new(), 0.into());
        let (source, end, prefix_hash, hold, acknowledged) = (0, bytes_read, 0, None, false);
        let (original, outcomes) = (None, Vec::new());
        Part {
            source,
            end,
            prefix_hash,
            bytes,
            keys,
            rows,
            rejects,
            original,
            outcomes,
            refused,
            bytes_read,
            hold,
            acknowledged,
        }
    }

    #[test]
    fn a_key_with_a_tombstone_is_not_folded_where_a_document_before_it_may_be_refused() {
        let mut deleting = part(&["a1", "a2", "b", "c1", "c2"]);
        deleting.rows[4].tombstone = true;
        let batch = Batch::new(vec![deleting]);
        let mode: Mode = "merge".parse().unwrap();
        for (folding, rounds, folded_away) in [
            (Folding::Always, Vec::new(), 4),
            (Folding::ByKey, vec![3, 1], 2),
            (Folding::Tried, vec![3, 1], 2),
            (Folding::Never, vec![3, 2], 0),
        ] {
            let found = batch.rounds(batch.groups(), &mode, folding).unwrap_or_default();
            let groups: Vec<usize> = found.iter().map(Vec::len).collect();
            assert_eq!(groups, rounds, "{folding:?}");
            assert_eq!(batch.turns(&mode, folding), rounds.len().max(1), "{folding:?}");
            assert_eq!(batch.folded_away(batch.groups(), folding).count(), folded_away, "{folding:?}");
        }
    }

    #[test]
    fn what_is_left_out_is_decided_after_folding() {
        let key = KeySpec::from_requests(&KeyRequest::parse_list("id:text").unwrap()).unwrap();
        let left_out = LeftOut::of(DocumentForm::WithoutKey, &key.columns).unwrap();
        let (number, text) = (r#"{"id":7,"a":1}"#, r#"{"id":"7","b":2}"#);
        for (mode, documents, sent) in [
            ("merge", [number, text], r#"{"a":1,"b":2}"#),
            ("merge", [text, number], r#"{"a":1,"b":2,"id":7}"#),
            ("replace", [number, text], r#"{"b":2}"#),
            ("keep", [number, text], number),
        ] {
            let batch = Batch::new(vec![part(&documents)]);
            let mode: Mode = mode.parse().unwrap();
            let found: Vec<_> = batch.winners(batch.groups(), &mode, Some(&left_out)).collect();
            assert_eq!(found.len(), 1, "both are of one key");
            assert_eq!(String::from_utf8_lossy(&found[0].1.document), sent, "{mode}");
        }
    }

    #[test]
    fn only_documents_that_may_be_sent_count() {
        let batch = Batch::new(vec![part(&["a1", "b12", "a123", "a12", "c"])]);
        for (mode, all, last) in [("replace", 4 + 3 + 1, 1), ("merge", 9 + 3 + 1, 1)] {
            let mode: Mode = mode.parse().unwrap();
            assert_eq!(batch.bytes_sent_max(batch.groups(), &mode), all, "{mode}");
            assert_eq!(batch.bytes_sent_max(&batch.groups()[2..], &mode), last, "{mode}");
        }
    }
}
