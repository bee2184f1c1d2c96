//! The verdict of a comparison.

use serde::Serialize;

/// One of the two arms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Arm {
    /// The base: ratios are relative to it.
    A,
    /// The arm that is compared with the base.
    B,
}

/// What the samples say about two arms.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Every value of one arm equals that of the other, however few there are.
    Identical,
    /// The interval excludes equality.
    Differs {
        /// Whether the whole interval is within the difference that matters.
        negligible: bool,
    },
    /// The interval holds equality, and lies within the difference that matters.
    NoDifference,
    /// Neither: the interval is too wide, or there are too few samples for any interval.
    CannotTell {
        /// About how many more blocks, or records a side, would be enough; `None` if more than the lab compares, or if
        /// fewer than 20 blocks cannot say it.
        more: Option<u32>,
    },
}
