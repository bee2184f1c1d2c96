//! The values of arms block by block, in which verdicts compare them.

use crate::core::Run;
use std::collections::BTreeMap;

/// The value of an arm in each block in which it was measured.
pub(crate) fn block_values(runs: &[Run], arm: &str, metric: &str) -> BTreeMap<u32, f64> {
    let own = runs.iter().filter(|run| run.arm == arm);
    own.filter_map(|run| Some((run.block, run.value(metric)?))).collect()
}

/// The values of two arms in the blocks in which both were measured.
pub(crate) fn pairs(a: &BTreeMap<u32, f64>, b: &BTreeMap<u32, f64>) -> Vec<(f64, f64)> {
    a.iter().filter_map(|(block, a)| Some((*a, *b.get(block)?))).collect()
}
