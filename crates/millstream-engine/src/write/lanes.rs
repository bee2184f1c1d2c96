//! What the lanes of a run share.

use super::segment_plan::SegmentPlan;
use super::texts::Texts;
use crate::budget::Budget;
use crate::drain::Drain;
use crate::lifecycle::OwnedLoad;
use crate::outcome::Surroundings;
use crate::plan::LoadPlan;
use crate::reject_limits::RejectLimits;
use crate::turns::Turns;
use std::sync::Arc;

/// What the lanes of a run share.
pub(crate) struct Lanes {
    pub(crate) plan: LoadPlan,
    pub(crate) texts: Texts,
    pub(crate) owned: OwnedLoad,
    /// How many they are.
    pub(crate) count: u16,
    /// The memory of what is in flight, which other loads may share.
    pub(crate) budget: Budget,
    pub(crate) around: Surroundings,
    /// Whether they write one at a time, which other loads of the process may share.
    pub(crate) turns: Arc<Turns>,
    /// How segments are made, if the layout makes any.
    pub(crate) segments: SegmentPlan,
    /// How long what is in flight may take at the end.
    pub(crate) drain: Drain,
}

impl Lanes {
    /// The rejects at which they stop.
    pub(crate) fn rejects(&self) -> RejectLimits {
        RejectLimits::new(&self.plan.request, [&self.owned.before])
    }

    /// Whether the server's refusals alone reach a limit.
    pub(crate) fn refused_too_many(&self) -> bool {
        self.rejects().refused_too_many(&self.around.tally)
    }

    /// Bytes of documents that a lane commits at once.
    pub(super) fn batch_bytes_max(&self) -> usize {
        self.plan.request.batch_bytes_max.min(self.plan.batch_memory(self.budget.writers(self.count)))
    }

    /// A lane's share of the words in which the lanes together remember the keys that they have met.
    pub(super) fn met_words(&self) -> usize {
        self.plan.request.met_words / usize::from(self.budget.lanes(self.count))
    }
}
