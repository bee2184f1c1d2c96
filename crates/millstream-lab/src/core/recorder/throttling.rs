//! Source `throttling`: how often heat slowed the processors down, and cgroup quotas stopped tasks.

use super::reading::{Delta, Sample, Values, add};
use super::{Read, Source};
use millstream_host::kernel::file::{self, numbers};
use std::fs;
use std::path::Path;

pub(super) const SOURCE: Source = Source {
    name: "throttling",
    read: Read::Kernel(|place| {
        let mut counters = heat(Path::new("/sys/devices/system/cpu"));
        for text in place.cgroups.iter().filter_map(|dir| file::text(dir.join("cpu.stat"))) {
            quota(&text).for_each(|(name, number)| *counters.entry(name).or_default() += number);
        }
        Sample::counters(counters)
    }),
    values,
};

/// Events of all processors. A package reports its events once for each of its processors; only growth counts here.
fn heat(processors: &Path) -> Values {
    let mut values = Values::new();
    for entry in fs::read_dir(processors).into_iter().flatten().flatten() {
        for file in ["core_throttle_count", "package_throttle_count"] {
            let count = file::word(entry.path().join("thermal_throttle").join(file));
            if let Some(count) = count.and_then(|count| count.parse::<f64>().ok()) {
                *values.entry("heat".to_owned()).or_default() += count;
            }
        }
    }
    values
}

/// From a group's `cpu.stat`: version 1 counts nanoseconds, version 2 microseconds.
fn quota(text: &str) -> impl Iterator<Item = (String, f64)> {
    numbers(text).filter_map(|(name, number)| match name {
        "nr_throttled" => Some(("quota".to_owned(), number)),
        "throttled_time" => Some(("quota_seconds".to_owned(), number / 1e9)),
        "throttled_usec" => Some(("quota_seconds".to_owned(), number / 1e6)),
        _ => None,
    })
}

fn values(delta: &Delta<'_>, values: &mut Values) {
    let found = [
        ("throttling.heat_per_second", delta.rate("heat")),
        ("throttling.quota_per_second", delta.rate("quota")),
        ("throttling.quota_percent", delta.rate("quota_seconds").map(|share| share * 100.0)),
    ];
    add(values, found);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heat_is_summed_over_the_processors() {
        let dir = tempfile::tempdir().unwrap();
        for (processor, count) in [("cpu0", "3\n"), ("cpu1", "4\n")] {
            let folder = dir.path().join(processor).join("thermal_throttle");
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("core_throttle_count"), count).unwrap();
        }
        assert_eq!(heat(dir.path()), super::super::reading::values(&[("heat", 7.0)]));
        assert!(heat(Path::new("/nowhere")).is_empty());
    }

    #[test]
    fn both_versions_of_cgroups_report_their_quota() {
        let of = |text: &str| quota(text).collect::<Values>();
        let expected = super::super::reading::values(&[("quota", 3.0), ("quota_seconds", 2.0)]);
        assert_eq!(of("nr_periods 9\nnr_throttled 3\nthrottled_time 2000000000\n"), expected);
        assert_eq!(of("usage_usec 9\nnr_throttled 3\nthrottled_usec 2000000\n"), expected);
    }

    #[test]
    fn time_under_a_quota_is_a_share() {
        let before = super::super::reading::values(&[("quota_seconds", 1.0)]);
        let after = super::super::reading::values(&[("quota_seconds", 1.5)]);
        let mut found = Values::new();
        values(&Delta { before: &before, after: &after, seconds: 2.0 }, &mut found);
        assert_eq!(found["throttling.quota_percent"], 25.0);
    }
}
