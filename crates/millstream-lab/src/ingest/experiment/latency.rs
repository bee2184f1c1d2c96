//! `latency`: what a slow network to the server costs.

use super::{Comparison, Experiment, SIZES};
use crate::ingest::column;
use crate::ingest::phase::Phase;
use crate::ingest::stream::Stream;
use crate::limits::ROUND_TRIP_MS;

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "latency",
    about: "what a round trip of 5 ms to the server costs, compared with the same proxy without delay",
    subjects: &["copy", "millstream"],
    phases: &[
        Phase::FRESH,
        Phase::CHANGED,
        Phase::new("changed 3", Stream::wave(3), &["updated"]),
        Phase::new("unchanged", Stream::again(3, 4), &["unchanged"]),
    ],
    round_trips_ms: &[Some(0), Some(ROUND_TRIP_MS)],
    sizes: SIZES,
    comparison: Some(Comparison::with_round_trip(0, "OF 0 MS")),
    columns: &[column::RATIO, column::CPU, column::SERVER],
    legend: &[
        "of 0 ms: the rate divided by that of the same subject and phase through a proxy that delays nothing, in the \
         same round, median (min-max). 5 ms: the proxy holds each byte for 2.5 ms in each direction.",
    ],
    ..Experiment::PLAIN
};
