//! What a copy waits for, by what the kernel counted while it ran. Two signs must agree.

use millstream_host::kernel::{diskstats, pressure, processor};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::time::Instant;

/// What limits a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Bottleneck {
    /// The processors are busy, and tasks wait for them.
    Processors,
    /// A device is busy, and tasks wait for it.
    Disk,
    /// Neither of both, on the way to another machine.
    Network,
    /// The signs do not agree.
    Unknown,
}

/// What the kernel has counted up to a moment.
pub(crate) struct Counters {
    at: Instant,
    processors: f64,
    idle: f64,
    /// Microseconds in which tasks waited.
    processor_wait: Option<f64>,
    disk_wait: Option<f64>,
    /// Milliseconds in which each device was busy.
    devices: BTreeMap<String, f64>,
}

/// Shares of the time between two moments.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Signs {
    processors_busy: f64,
    processor_wait: Option<f64>,
    disk_busy: f64,
    disk_wait: Option<f64>,
}

impl Counters {
    pub(crate) fn now() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let wait = |path: &str| {
            pressure::values(&read(path), "total").find_map(|(kind, total)| (kind == "some").then_some(total))
        };
        let ticks = read("/proc/stat");
        let ticks: Vec<_> = processor::ticks(&ticks).collect();
        let is_idle = |what: &str| what == "idle" || what == "iowait";
        let disks = read("/proc/diskstats");
        let busy =
            |numbers: Vec<(&str, f64)>| numbers.into_iter().find_map(|(what, ms)| (what == "busy_ms").then_some(ms));
        let devices = diskstats::devices(&disks);
        Self {
            at: Instant::now(),
            processors: ticks.iter().map(|(_, ticks)| ticks).sum(),
            idle: ticks.iter().filter(|(what, _)| is_idle(what)).map(|(_, ticks)| ticks).sum(),
            processor_wait: wait("/proc/pressure/cpu"),
            disk_wait: wait("/proc/pressure/io"),
            devices: devices.filter_map(|(name, numbers)| Some((name.to_owned(), busy(numbers)?))).collect(),
        }
    }

    /// What has limited a copy since then. `crosses_network`: on the way to another machine.
    pub(crate) fn bottleneck_since(&self, crosses_network: bool) -> Bottleneck {
        self.signs(&Self::now()).bottleneck(crosses_network)
    }

    fn signs(&self, now: &Self) -> Signs {
        let seconds = now.at.duration_since(self.at).as_secs_f64().max(0.001);
        let share = |before: Option<f64>, now: Option<f64>| Some((now? - before?) / 1e6 / seconds);
        let of_device = |(name, ms): (&String, &f64)| Some((ms - self.devices.get(name)?) / 1e3 / seconds);
        Signs {
            processors_busy: 1.0 - (now.idle - self.idle) / (now.processors - self.processors).max(1.0),
            processor_wait: share(self.processor_wait, now.processor_wait),
            disk_busy: now.devices.iter().filter_map(of_device).fold(0.0, f64::max),
            disk_wait: share(self.disk_wait, now.disk_wait),
        }
    }
}

impl Signs {
    fn bottleneck(self, crosses_network: bool) -> Bottleneck {
        let waits = |wait: Option<f64>| wait.is_some_and(|share| share >= 0.2);
        match self {
            signs if signs.processors_busy >= 0.9 && waits(signs.processor_wait) => Bottleneck::Processors,
            signs if signs.disk_busy >= 0.8 && waits(signs.disk_wait) => Bottleneck::Disk,
            signs if crosses_network && signs.processors_busy < 0.7 && signs.disk_busy < 0.5 => Bottleneck::Network,
            _ => Bottleneck::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bottleneck_is_named_where_two_signs_agree() {
        let idle = Signs { processors_busy: 0.1, processor_wait: Some(0.0), disk_busy: 0.0, disk_wait: Some(0.0) };
        assert_eq!(idle.bottleneck(true), Bottleneck::Network);
        assert_eq!(idle.bottleneck(false), Bottleneck::Unknown);
        let busy = Signs { processors_busy: 0.95, ..idle };
        assert_eq!(busy.bottleneck(true), Bottleneck::Unknown);
        assert_eq!(Signs { processor_wait: Some(0.5), ..busy }.bottleneck(true), Bottleneck::Processors);
        let disk = Signs { disk_busy: 0.9, ..idle };
        assert_eq!(disk.bottleneck(true), Bottleneck::Unknown);
        assert_eq!(Signs { disk_wait: Some(0.3), ..disk }.bottleneck(false), Bottleneck::Disk);
        let later = |ms: f64| Counters {
            at: Instant::now(),
            processors: 100.0 + ms,
            idle: 50.0,
            processor_wait: None,
            disk_wait: None,
            devices: BTreeMap::new(),
        };
        let signs = later(0.0).signs(&later(10.0));
        assert_eq!((signs.processors_busy, signs.disk_wait), (1.0, None));
    }
}
