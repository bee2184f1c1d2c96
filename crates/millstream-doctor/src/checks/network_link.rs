//! Checks of network links: a finding for each link that works worse than it should.

use crate::check::{Looked, Task};
use crate::host::Host;
use millstream_host::kernel::link::{Degraded, LINKS, degraded};
use millstream_model::Finding;

/// The findings of a check, which picks what it is about.
pub(super) fn seen(host: &Host, task: &Task, finding: fn(&Degraded<'_>, &Task) -> Option<Finding>) -> Looked {
    let links = host.links().ok_or_else(|| Host::hidden("the network links", LINKS))?;
    Ok(degraded(&links).iter().filter_map(|one| finding(one, task)).collect())
}
