//! Where a run becomes steady.

use crate::core::Series;
use crate::core::statistics::WarmUp;

/// Seconds of the warm-up in a series of transactions per second. A series that is too short to tell has none; `None` if
/// it never becomes steady.
pub(crate) fn warm_up(per_second: &Series) -> Option<f64> {
    match WarmUp::of(per_second) {
        WarmUp::Ends { seconds, .. } => Some(seconds),
        WarmUp::TooShort => Some(0.0),
        WarmUp::NeverSteady => None,
    }
}
