//! The statistics of a comparison: exact rank tests, intervals, verdicts in words, and the end of a warm-up.
//!
//! The run is the unit: the seconds of a run depend on each other and are not samples. No outlier is deleted: benchstat
//! removed its own rejection of outliers, because it has to begin with an assumption about the distribution. Ranks
//! bound what an outlier can do, and need no such assumption.
//!
//! The tests are our own code. No library that we know is exact when there are ties: `statrs` refuses ties in its
//! rank-sum test and has no signed-rank test, `anofox-statistics` changes to a normal approximation.

mod changepoint;
mod comparison;
mod criteria;
mod differences;
mod interval;
mod multiplicity;
mod rank_sum;
mod ranks;
mod sample_size;
mod samples;
mod sentence;
mod signed_rank;
#[cfg(test)]
mod simulation;
mod tails;
mod verdict;

pub use changepoint::WarmUp;
pub use comparison::{Comparison, Incomparable, estimate};
pub use criteria::Criteria;
pub(super) use differences::median;
pub use interval::Interval;
pub use multiplicity::Multiplicity;
pub use samples::Samples;
pub use sentence::{Arms, Sentence};
pub use verdict::{Arm, Verdict};
