//! How many samples a comparison has.

use super::{rank_sum, signed_rank};
use crate::limits::{BLOCKS_MAX, ESTIMATE_BLOCKS_MIN, RECORDS_MAX};
use serde::Serialize;
use std::fmt;

/// How many samples a comparison has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Samples {
    /// Blocks, each with a run of either arm.
    Blocks(u32),
    /// Records of two sides: of A, then of B. A record is one sample, whatever runs it holds.
    Records(u32, u32),
}

impl Samples {
    /// The number of blocks, or of the records of the smaller side.
    pub(super) fn count(self) -> u32 {
        match self {
            Self::Blocks(count) => count,
            Self::Records(a, b) => a.min(b),
        }
    }

    /// As many blocks, or records on each side.
    pub(super) fn of_count(self, count: u32) -> Self {
        match self {
            Self::Blocks(_) => Self::Blocks(count),
            Self::Records(..) => Self::Records(count, count),
        }
    }

    /// The most that are compared.
    pub(super) fn most(self) -> Self {
        match self {
            Self::Blocks(_) => self.of_count(BLOCKS_MAX),
            Self::Records(..) => self.of_count(RECORDS_MAX),
        }
    }

    /// The smallest p-value that the test of so many can have.
    pub(super) fn least_p(self) -> f64 {
        match self {
            Self::Blocks(count) => signed_rank::least_p(count),
            Self::Records(a, b) => rank_sum::least_p(a, b),
        }
    }

    /// Whether there are too few blocks to say how many more would decide.
    pub(super) fn are_too_few_to_estimate(self) -> bool {
        matches!(self, Self::Blocks(count) if count < ESTIMATE_BLOCKS_MIN)
    }

    /// What is counted by `count`, in the singular or the plural.
    pub(super) fn unit(self) -> &'static str {
        match self {
            Self::Blocks(1) => "block",
            Self::Blocks(_) => "blocks",
            Self::Records(..) if self.count() == 1 => "record a side",
            Self::Records(..) => "records a side",
        }
    }
}

impl fmt::Display for Samples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Blocks(count) => write!(f, "{count} {}", self.unit()),
            Self::Records(a, b) => write!(f, "{a} and {b} records"),
        }
    }
}
