//! Source `disks`: what the devices of data and WAL do, from `/proc/diskstats`.
//!
//! A latency is the mean over the requests that ended in the second, with their time in the queue. Flushes are counted
//! by the disks below a composed device.

use super::reading::{Delta, Sample, Values, add};
use super::{Read, Source};
use millstream_host::kernel::{BlockDevice, diskstats, file};

pub(super) const SOURCE: Source = Source {
    name: "disks",
    read: Read::Kernel(|place| {
        let text = file::text("/proc/diskstats").unwrap_or_default();
        Sample::counters(counters(&text, &place.disks))
    }),
    values,
};

/// What is read of a device.
const OWN: &[&str] = &["reads", "read_sectors", "read_ms", "writes", "write_sectors", "write_ms", "busy_ms"];

/// What is read of the disks below it.
const BELOW: &[&str] = &["flushes", "flush_ms"];

/// The kernel counts in sectors of 512 bytes, whatever the device has.
const SECTORS_PER_MB: f64 = 1e6 / 512.0;

fn counters(text: &str, disks: &[(&str, BlockDevice)]) -> Values {
    let mut values = Values::new();
    for (name, numbers) in diskstats::devices(text) {
        for (role, device) in disks {
            let (is_own, is_below) = (device.name == name, device.disks.iter().any(|disk| disk == name));
            for (what, number) in &numbers {
                if (is_own && OWN.contains(what)) || (is_below && BELOW.contains(what)) {
                    *values.entry(format!("{role}.{what}")).or_default() += number;
                }
            }
        }
    }
    values
}

fn values(delta: &Delta<'_>, values: &mut Values) {
    for role in ["data", "wal"] {
        let of = |what: &str| format!("{role}.{what}");
        let megabytes = |what: &str| Some(delta.rate(&of(what))? / SECTORS_PER_MB);
        let mean = |what: &str, count: &str| delta.mean(&of(what), &of(count));
        // Rounding to a millisecond can give a little more than the time itself.
        let busy = delta.rate(&of("busy_ms")).map(|ms| (ms / 10.0).min(100.0));
        let found = [
            ("reads_per_second", delta.rate(&of("reads"))),
            ("writes_per_second", delta.rate(&of("writes"))),
            ("flushes_per_second", delta.rate(&of("flushes"))),
            ("read_mb_per_second", megabytes("read_sectors")),
            ("write_mb_per_second", megabytes("write_sectors")),
            ("read_ms", mean("read_ms", "reads")),
            ("write_ms", mean("write_ms", "writes")),
            ("flush_ms", mean("flush_ms", "flushes")),
            ("utilisation_percent", busy),
        ];
        let found = found.map(|(name, value)| (format!("disk.{role}.{name}"), value));
        add(values, found.iter().map(|(name, value)| (name.as_str(), *value)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    const BEFORE: &str = "\
 254 0 vda 100 5 8000 50 200 10 4000 400 0 900 850 7 0 0 0 10 30
 254 1 vda1 1 1 1 1 1 1 1 1 1 1 1
 253 0 dm-0 10 0 0 0 20 0 0 0 0 100 0 0 0 0 0 0 0
";
    const AFTER: &str = "\
 254 0 vda 110 5 12000 70 240 10 8000 440 0 1900 850 7 0 0 0 30 40
 253 0 dm-0 20 0 0 10 20 0 0 0 0 3200 0 0 0 0 0 0 0
";

    fn device(name: &str, disks: &[&str]) -> BlockDevice {
        let disks = disks.iter().map(|disk| (*disk).to_owned()).collect();
        BlockDevice { name: name.to_owned(), dir: PathBuf::new(), disks }
    }

    #[test]
    fn a_disk_has_rates_latencies_and_utilisation() {
        let disks = [("data", device("vda", &["vda"]))];
        let (before, after) = (counters(BEFORE, &disks), counters(AFTER, &disks));
        let mut found = Values::new();
        values(&Delta { before: &before, after: &after, seconds: 2.0 }, &mut found);
        let of = |name: &str| found[&format!("disk.data.{name}")];
        assert_eq!((of("reads_per_second"), of("read_ms")), (5.0, 2.0));
        assert_eq!((of("writes_per_second"), of("write_ms")), (20.0, 1.0));
        assert_eq!((of("flushes_per_second"), of("flush_ms")), (10.0, 0.5));
        assert_eq!((of("read_mb_per_second"), of("write_mb_per_second")), (1.024, 1.024));
        assert_eq!(of("utilisation_percent"), 50.0);
        assert_eq!(found.len(), 9, "{found:?}");
    }

    #[test]
    fn flushes_of_a_composed_device_are_those_of_its_disks() {
        let disks = [("wal", device("dm-0", &["vda"]))];
        let (before, after) = (counters(BEFORE, &disks), counters(AFTER, &disks));
        let mut found = Values::new();
        values(&Delta { before: &before, after: &after, seconds: 2.0 }, &mut found);
        assert_eq!((found["disk.wal.reads_per_second"], found["disk.wal.flush_ms"]), (5.0, 0.5));
        assert_eq!(found["disk.wal.utilisation_percent"], 100.0);
        assert!(!found.contains_key("disk.wal.write_ms"), "nothing was written: {found:?}");
    }

    #[test]
    fn old_kernels_count_no_flushes() {
        let disks = [("data", device("vda1", &["vda1"]))];
        let found = counters(BEFORE, &disks);
        assert!(found.contains_key("data.reads") && !found.contains_key("data.flushes"), "{found:?}");
    }
}
