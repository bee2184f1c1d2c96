//! Checks of network links: a finding for each link that works worse than it should.

use crate::check::Seen;
use crate::host::Host;
use millstream_host::kernel::link::{Degraded, LINKS, degraded};
use millstream_model::Finding;

/// The findings of a check, which picks what it is about.
pub(super) fn seen(host: &Host, finding: impl Fn(&Degraded<'_>) -> Option<Finding>) -> Seen {
    match host.links() {
        Some(links) => degraded(&links).iter().filter_map(finding).collect(),
        None => Seen::default().but(Some(Host::hidden("the network links", LINKS))),
    }
}
