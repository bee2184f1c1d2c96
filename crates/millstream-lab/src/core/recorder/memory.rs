//! Source `memory`: free, cached and dirty memory of the machine, from `/proc/meminfo`, and pages swapped.

use super::reading::{Delta, Sample, Values, add};
use super::{Read, Source};
use millstream_host::kernel::file::{self, numbers};

pub(super) const SOURCE: Source = Source {
    name: "memory",
    read: Read::Kernel(|_| {
        let [meminfo, vmstat] = ["/proc/meminfo", "/proc/vmstat"].map(|path| file::text(path).unwrap_or_default());
        reading(&meminfo, &vmstat)
    }),
    values,
};

/// Lines of `meminfo`, and their names in a recording.
const GAUGES: &[(&str, &str)] = &[
    ("MemFree", "memory.free_mb"),
    ("MemAvailable", "memory.available_mb"),
    ("Cached", "memory.cached_mb"),
    ("Dirty", "memory.dirty_mb"),
    ("Writeback", "memory.writeback_mb"),
];

/// Lines of `vmstat`: pages.
const COUNTERS: &[(&str, &str)] = &[("pswpin", "memory.swap_in_per_second"), ("pswpout", "memory.swap_out_per_second")];

fn reading(meminfo: &str, vmstat: &str) -> Sample {
    // A kernel's kB has 1024 bytes.
    let megabytes = |kilobytes: f64| kilobytes * 1024.0 / 1e6;
    Sample {
        counters: named(vmstat, COUNTERS).collect(),
        gauges: named(meminfo, GAUGES).map(|(name, kilobytes)| (name, megabytes(kilobytes))).collect(),
    }
}

fn named(text: &str, names: &[(&str, &str)]) -> impl Iterator<Item = (String, f64)> {
    let of = |found: &str| names.iter().find(|(line, _)| *line == found).map(|(_, name)| (*name).to_owned());
    numbers(text).filter_map(move |(line, number)| Some((of(line)?, number)))
}

fn values(delta: &Delta<'_>, values: &mut Values) {
    add(values, COUNTERS.iter().map(|(_, name)| (*name, delta.rate(name))));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_in_megabytes_and_swapping_is_a_rate() {
        let meminfo = "MemTotal:  9 kB\nMemFree:    1000000 kB\nDirty:   500 kB\nHugePages_Total:  0\n";
        let before = reading(meminfo, "pswpin 10\nnr_free_pages 3\n");
        let expected = [("memory.dirty_mb", 0.512), ("memory.free_mb", 1024.0)];
        assert_eq!(before.gauges, super::super::reading::values(&expected));
        let after = reading(meminfo, "pswpin 30\n");
        let mut found = Values::new();
        values(&Delta { before: &before.counters, after: &after.counters, seconds: 2.0 }, &mut found);
        assert_eq!(found, super::super::reading::values(&[("memory.swap_in_per_second", 10.0)]));
    }
}
