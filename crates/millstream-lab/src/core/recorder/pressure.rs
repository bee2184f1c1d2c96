//! Source `pressure`: the share of the time in which tasks waited for processor, disk or memory (PSI).
//!
//! "some": at least one task waited; "full": all tasks that are not idle did. The kernel's
//! `Documentation/accounting/psi.rst` describes them. The totals are used, because the averages lag behind.

use super::reading::{Delta, Sample, Values, add};
use super::{Read, Source};
use millstream_host::kernel::{file, pressure};

pub(super) const SOURCE: Source = Source {
    name: "pressure",
    read: Read::Kernel(|_| {
        let mut counters = Values::new();
        for resource in RESOURCES {
            let text = file::text(format!("/proc/pressure/{resource}")).unwrap_or_default();
            counters
                .extend(pressure::values(&text, "total").map(|(kind, total)| (format!("{resource}_{kind}"), total)));
        }
        Sample::counters(counters)
    }),
    values,
};

const RESOURCES: &[&str] = &["cpu", "io", "memory"];

fn values(delta: &Delta<'_>, values: &mut Values) {
    for name in delta.after.keys() {
        let percent = delta.rate(name).map(|micros| (micros / 1e4).min(100.0));
        add(values, [(format!("pressure.{name}_percent").as_str(), percent)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_become_shares_of_the_time() {
        let before = super::super::reading::values(&[("io_some", 1e6)]);
        let after = super::super::reading::values(&[("io_some", 1.5e6)]);
        let mut found = Values::new();
        values(&Delta { before: &before, after: &after, seconds: 2.0 }, &mut found);
        assert_eq!(found["pressure.io_some_percent"], 25.0);
    }
}
