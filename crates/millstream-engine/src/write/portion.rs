//! How much of a lane's queue goes into one commit.

use crate::batch::Part;
use millstream_model::Position;
use std::pin::pin;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// Limits of one commit. The part that reaches one of them is its last.
#[derive(Clone, Copy)]
pub(super) struct PortionLimits {
    /// Documents.
    pub(super) rows_max: usize,
    /// Bytes of documents.
    pub(super) bytes_max: usize,
    /// Bytes of the sources over which its parts reach, whether or not they have documents.
    pub(super) span_bytes_max: usize,
    /// Rejected documents.
    pub(super) rejects_max: usize,
    /// Bytes of memory, as `held_by` counts them.
    pub(super) held_bytes_max: usize,
    /// How many bytes of memory a part keeps.
    pub(super) held_by: fn(&Part) -> usize,
}

/// The parts of one commit, counted while they come.
pub(super) struct Portion {
    limits: PortionLimits,
    /// When it is committed even if it is not full.
    deadline: Option<Instant>,
    rows: usize,
    bytes: u64,
    /// Where its last part ends, and the bytes of the sources from the end of its first part to there.
    end: Option<Position>,
    span_bytes: u64,
    rejects: usize,
    held_bytes: usize,
}

impl Portion {
    /// A portion that begins with parts that have come already.
    pub(super) fn new(limits: PortionLimits, deadline: Option<Instant>, parts: &[Part]) -> Self {
        let mut portion =
            Self { limits, deadline, rows: 0, bytes: 0, end: None, span_bytes: 0, rejects: 0, held_bytes: 0 };
        parts.iter().for_each(|part| portion.count(part));
        portion
    }

    /// Waits for its next part. `None` if it is full, if its time is over, or if no more parts come.
    pub(super) async fn next(&mut self, queue: &mut mpsc::Receiver<Part>) -> Option<Part> {
        if self.is_full() {
            return None;
        }
        let part = match self.deadline {
            Some(deadline) => tokio::time::timeout_at(deadline, queue.recv()).await.ok()??,
            None => queue.recv().await?,
        };
        self.count(&part);
        Some(part)
    }

    /// Adds parts that come before `work` is done, unless it is full, and whether or not its time is over.
    pub(super) async fn grow<T>(
        &mut self,
        parts: &mut Vec<Part>,
        queue: &mut mpsc::Receiver<Part>,
        work: impl Future<Output = T>,
    ) -> T {
        let mut work = pin!(work);
        let mut ended = false;
        loop {
            tokio::select! {
                biased;
                done = &mut work => return done,
                part = queue.recv(), if !ended && !self.is_full() => match part {
                    Some(part) => {
                        self.count(&part);
                        parts.push(part);
                    }
                    None => ended = true,
                },
            }
        }
    }

    fn count(&mut self, part: &Part) {
        self.rows += part.documents();
        self.bytes += part.bytes_read;
        let mark = part.mark();
        self.span_bytes += match self.end.replace(mark) {
            None => 0,
            Some(before) if before.source == mark.source => mark.offset.saturating_sub(before.offset),
            Some(_) => mark.offset,
        };
        self.rejects += part.rejects.len();
        self.held_bytes += (self.limits.held_by)(part);
    }

    fn is_full(&self) -> bool {
        let limits = &self.limits;
        self.rows >= limits.rows_max
            || self.bytes >= limits.bytes_max as u64
            || self.span_bytes >= limits.span_bytes_max as u64
            || self.rejects >= limits.rejects_max
            || self.held_bytes >= limits.held_bytes_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_portion_without_documents_ends_after_its_span_of_the_sources() {
        let limits = PortionLimits {
            rows_max: usize::MAX,
            bytes_max: usize::MAX,
            span_bytes_max: 100,
            rejects_max: usize::MAX,
            held_bytes_max: usize::MAX,
            held_by: Part::held_bytes,
        };
        let part = |source, end| Part { source, end, ..Part::default() };
        let (sender, mut queue) = mpsc::channel(8);
        for (source, end) in [(0, 60), (1, 10), (1, 69), (1, 70), (1, 80)] {
            sender.send(part(source, end)).await.expect("there is room");
        }
        drop(sender);
        let mut portion = Portion::new(limits, None, &[part(0, 30)]);
        let mut last = None;
        while let Some(part) = portion.next(&mut queue).await {
            last = Some(part.mark());
        }
        assert_eq!(last, Some(Position { source: 1, offset: 70 }), "30 bytes of the first source, 70 of the second");
    }

    #[tokio::test]
    async fn a_portion_grows_until_it_is_full_while_it_waits() {
        let limits = PortionLimits {
            rows_max: usize::MAX,
            bytes_max: 30,
            span_bytes_max: usize::MAX,
            rejects_max: usize::MAX,
            held_bytes_max: usize::MAX,
            held_by: Part::held_bytes,
        };
        let part = |bytes_read| Part { bytes_read, ..Part::default() };
        for (come, taken) in [(1, 2), (2, 3), (5, 3)] {
            let (sender, mut queue) = mpsc::channel(8);
            let mut parts = vec![part(10)];
            // Its time is over.
            let mut portion = Portion::new(limits, Some(Instant::now()), &parts);
            let works = async {
                for _ in 0..come {
                    sender.send(part(10)).await.expect("there is room");
                }
                tokio::task::yield_now().await;
                drop(sender);
                tokio::task::yield_now().await;
                "done"
            };
            assert_eq!(portion.grow(&mut parts, &mut queue, works).await, "done");
            assert_eq!(parts.len(), taken);
        }
    }
}
