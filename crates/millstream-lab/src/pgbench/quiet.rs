//! Whether the machine let a run work undisturbed.

use crate::limits::STEAL_PERCENT_MAX;
use std::fs;

/// Counters of the machine at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Quiet {
    /// Ticks of all processors, and those that the hypervisor gave to others.
    ticks: Option<(f64, f64)>,
    /// How often our cgroup or the processor was throttled.
    throttled: u64,
}

impl Quiet {
    /// The counters now. What the system does not report counts as undisturbed.
    pub(crate) fn look() -> Self {
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let group = fs::read_to_string("/sys/fs/cgroup/cpu.stat").unwrap_or_default();
        Self { ticks: ticks(&stat), throttled: throttled(&group) + thermal() }
    }

    /// Why a run between these two moments is void, if it is.
    pub(crate) fn disturbance(&self, after: &Self) -> Option<String> {
        if let (Some((all, steal)), Some((all_after, steal_after))) = (self.ticks, after.ticks) {
            let percent = 100.0 * (steal_after - steal) / (all_after - all).max(1.0);
            if percent > STEAL_PERCENT_MAX {
                return Some(format!("the hypervisor took {percent:.1} % of the processor's time"));
            }
        }
        (after.throttled > self.throttled).then(|| "the processor was throttled".to_owned())
    }
}

/// The first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal, guest, guest_nice. Guests are
/// counted in user and nice too.
fn ticks(stat: &str) -> Option<(f64, f64)> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<f64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
    Some((ticks.iter().take(8).sum(), *ticks.get(7)?))
}

fn throttled(stat: &str) -> u64 {
    let line = stat.lines().find_map(|line| line.strip_prefix("nr_throttled "));
    line.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

/// How often the processors were too hot.
fn thermal() -> u64 {
    let count = |entry: fs::DirEntry| {
        let path = entry.path().join("thermal_throttle/core_throttle_count");
        fs::read_to_string(path).ok()?.trim().parse::<u64>().ok()
    };
    let entries = fs::read_dir("/sys/devices/system/cpu").into_iter().flatten().flatten();
    entries.filter_map(count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_and_throttling_make_a_run_void() {
        let before = Quiet { ticks: ticks("cpu  100 0 100 700 0 0 0 100 50 0\ncpu0 1\n"), throttled: 3 };
        assert_eq!(before.ticks, Some((1000.0, 100.0)));
        let after = |stat: &str, throttled| Quiet { ticks: ticks(stat), throttled };
        assert_eq!(before.disturbance(&after("cpu  150 0 140 800 0 0 0 102 0 0\n", 3)), None);
        let stolen = before.disturbance(&after("cpu  150 0 140 790 0 0 0 120 0 0\n", 3)).unwrap();
        assert_eq!(stolen, "the hypervisor took 10.0 % of the processor's time");
        assert_eq!(
            before.disturbance(&after("cpu  1 0 1 1 0 0 0 100 0 0\n", 4)).unwrap(),
            "the processor was throttled"
        );
        assert_eq!(throttled("nr_periods 5\nnr_throttled 7\n"), 7);
        assert_eq!(ticks(""), None);
        assert!(Quiet::look().ticks.is_some());
    }
}
