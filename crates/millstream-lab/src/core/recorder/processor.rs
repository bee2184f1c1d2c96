//! Source `processor`: what the machine's processors did, from `/proc/stat`.

use super::reading::{Delta, Sample, Values, add};
use super::{Read, Source};
use millstream_host::kernel::{file, processor};

pub(super) const SOURCE: Source = Source {
    name: "processor",
    read: Read::Kernel(|_| Sample::counters(counters(&file::text("/proc/stat").unwrap_or_default()))),
    values,
};

fn counters(text: &str) -> Values {
    let mut values: Values = processor::ticks(text).map(|(what, ticks)| (what.to_owned(), ticks)).collect();
    if !values.is_empty() {
        let all: f64 = values.values().sum();
        values.insert("all".to_owned(), all);
    }
    let switches = file::numbers(text).find(|(name, _)| *name == "ctxt").map(|(_, number)| number);
    add(&mut values, [("switches", switches)]);
    values
}

fn values(delta: &Delta<'_>, values: &mut Values) {
    let share = |names: &[&str]| {
        let ticks: Option<f64> = names.iter().map(|name| delta.growth(name)).sum();
        let all = delta.growth("all").filter(|all| *all > 0.0)?;
        Some(100.0 * ticks? / all)
    };
    let (user, system) = (&["user", "nice"][..], &["system", "irq", "softirq"][..]);
    let found = [
        ("processor.user_percent", share(user)),
        ("processor.system_percent", share(system)),
        ("processor.busy_percent", share(&[user, system].concat())),
        ("processor.iowait_percent", share(&["iowait"])),
        ("processor.steal_percent", share(&["steal"])),
        ("processor.switches_per_second", delta.rate("switches")),
    ];
    add(values, found);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_become_shares_of_all_processors() {
        let before = counters("cpu  100 10 50 800 20 1 4 15 7 0\ncpu0 1 1 1 1\nctxt 500\n");
        let after = counters("cpu  130 20 60 830 30 2 7 21 9 0\ncpu0 1 1 1 1\nctxt 700\n");
        assert_eq!(before["all"], 1000.0);
        let mut found = Values::new();
        values(&Delta { before: &before, after: &after, seconds: 0.5 }, &mut found);
        let of = |name: &str| found[&format!("processor.{name}")];
        assert_eq!((of("user_percent"), of("system_percent"), of("busy_percent")), (40.0, 14.0, 54.0));
        assert_eq!((of("iowait_percent"), of("steal_percent"), of("switches_per_second")), (10.0, 6.0, 400.0));
    }

    #[test]
    fn no_time_between_two_readings_gives_no_shares() {
        let same = counters("cpu  100 10 50 800 20 1 4 15 7 0\n");
        let mut found = Values::new();
        values(&Delta { before: &same, after: &same, seconds: 0.0 }, &mut found);
        assert!(found.is_empty(), "{found:?}");
    }
}
