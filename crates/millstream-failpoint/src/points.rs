//! The points, by the job that passes them.

/// The points of a load, in the order in which it passes them.
pub const LOAD: &[&str] = &[
    "collection-planned",
    "load-recorded",
    "run-begun",
    "lane-attached",
    "chunk-read",
    "chunk-submitted",
    "chunk-decoded",
    "batch-collected",
    "batch-divided",
    "batch-merging",
    "batch-written",
    "batch-advancing",
    "commit-sent",
    "batch-committed",
    "batch-replayed",
    "lane-reattached",
    "lanes-ended",
    "run-settled",
    "run-closed",
];

/// The points that a load passes before `lanes-ended` when it deletes the rows that its sources lack, in order.
pub const MISSING: &[&str] = &["missing-found", "missing-deleted", "missing-advanced", "missing-committed"];

/// The points of publishing and refreshing, in order. Which of them a refresh passes depends on its way.
pub const REFRESH: &[&str] = &[
    "model-made",
    "model-published",
    "refresh-locked",
    "stale-unseen",
    "stale-locked",
    "stale-cleared",
    "snapshot-exported",
    "range-built",
    "rows-built",
    "indexes-built",
    "changes-staged",
    "changes-applied",
    "refresh-committing",
    "refresh-committed",
    "changes-forgotten",
    "refresh-tidied",
];

/// The points that only a load in the log layout passes, in order. Of [`LOAD`], it also passes those of [`COMMIT`].
pub const SEGMENT: &[&str] = &["segment-opened", "segment-filled", "segment-committed"];

/// The points of [`LOAD`] at which a lane of any layout commits, in order.
pub const COMMIT: &[&str] = &["batch-advancing", "commit-sent"];

/// The points of a compaction, in order.
pub const COMPACTION: &[&str] = &[
    "compaction-listed",
    "compaction-begun",
    "range-merged",
    "range-committed",
    "segments-dropping",
    "segments-dropped",
];

/// The points of a rewrite in the order of the key, in order.
pub const COLD: &[&str] = &["cold-locked", "cold-rewritten", "cold-committed"];

/// The points of a change by the doctor, and of taking it back, in order. Only the undo of a confirmed change reopens
/// it first.
pub const CHANGE: &[&str] = &[
    "change-planned",
    "change-written",
    "change-verified",
    "line-recorded",
    "line-written",
    "change-confirmed",
    "change-reopened",
    "line-restored",
    "value-restored",
];

/// The points of a build of ranges, in order.
pub const RANGES: &[&str] = &["ranges-filled", "ranges-hashed", "ranges-written", "ranges-linked", "ranges-current"];

/// The points of a copy, in order. Only a large file passes the third.
pub const COPY: &[&str] = &[
    "copy-listed",
    "folders-made",
    "piece-copied",
    "file-written",
    "file-noted",
    "file-named",
    "deletion-found",
    "folders-dressed",
    "manifest-written",
];

/// The points of a copy to or from another machine, in order, besides those of a copy.
pub const COPY_THERE: &[&str] = &["bucket-copied", "bucket-noted", "buckets-copied"];

/// The points of a copy of a cluster, in order, besides those of a copy.
pub const COPY_CLUSTER: &[&str] = &["cluster-copied", "label-copied", "wal-copied"];

/// Every point.
#[cfg(feature = "armed")]
pub(crate) fn all() -> impl Iterator<Item = &'static str> {
    [LOAD, MISSING, SEGMENT, COMPACTION, REFRESH, COLD, CHANGE, RANGES, COPY, COPY_THERE, COPY_CLUSTER]
        .into_iter()
        .flatten()
        .copied()
}
