//! The ratio of a report: a rate compared with another of the same round.

use crate::core::Run;
use crate::ingest::durability::Durability;

/// What a run's rate is compared with: the run of the same round that differs only in what is set here.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Comparison {
    /// Subject of the other rate; `None` for the same subject.
    pub(crate) subject: Option<&'static str>,
    pub(crate) phase: Option<&'static str>,
    durability: Option<Durability>,
    round_trip_ms: Option<u32>,
    /// The other rate is divided by the run's, which shows how far the other subject leads.
    pub(crate) is_lead: bool,
    /// The heading of its column.
    pub(crate) heading: &'static str,
}

impl Comparison {
    const NONE: Self =
        Self { subject: None, phase: None, durability: None, round_trip_ms: None, is_lead: false, heading: "" };

    /// Compares every phase with that phase of a yardstick in which all keys are new.
    pub(crate) const fn with_subject(subject: &'static str, heading: &'static str) -> Self {
        Self { subject: Some(subject), phase: Some("fresh"), heading, ..Self::NONE }
    }

    /// Compares with another subject in the same phase.
    pub(crate) const fn beside(subject: &'static str, heading: &'static str) -> Self {
        Self { subject: Some(subject), heading, ..Self::NONE }
    }

    /// Compares with a subject that leads the others, in the same phase.
    pub(crate) const fn lead_of(subject: &'static str) -> Self {
        Self { subject: Some(subject), is_lead: true, heading: "LEAD", ..Self::NONE }
    }

    /// Compares with another phase of the same subject.
    pub(crate) const fn with_phase(phase: &'static str, heading: &'static str) -> Self {
        Self { phase: Some(phase), heading, ..Self::NONE }
    }

    /// Compares with another durability.
    pub(crate) const fn with_durability(durability: Durability, heading: &'static str) -> Self {
        Self { durability: Some(durability), heading, ..Self::NONE }
    }

    /// Compares with another round trip.
    pub(crate) const fn with_round_trip(round_trip_ms: u32, heading: &'static str) -> Self {
        Self { round_trip_ms: Some(round_trip_ms), heading, ..Self::NONE }
    }

    /// The ratio of a run; `runs` are those of its data set.
    pub(crate) fn ratio(self, one: &Run, runs: &[&Run]) -> Option<f64> {
        let subject = self.subject.unwrap_or(&one.arm);
        let phase = self.phase.unwrap_or(one.phase());
        let durability = self.durability.unwrap_or(one.durability());
        let round_trip_ms = self.round_trip_ms.or(one.round_trip_ms());
        let alike = |other: &&&Run| {
            (other.block, other.durability(), other.round_trip_ms()) == (one.block, durability, round_trip_ms)
                && (other.arm.as_str(), other.phase()) == (subject, phase)
        };
        let base = runs.iter().find(alike)?.rows_per_second()?;
        let own = one.rows_per_second()?;
        Some(if self.is_lead { base / own } else { own / base })
    }
}
