//! Check `cpu-taken`: the hypervisor, or a quota of a control group, takes processor time away.

use crate::check::{Check, Look, Looked, Seen, Task};
use crate::host::{Host, Twice};
use millstream_host::kernel::processor;
use millstream_model::{Class, Finding, Level, Restart};

pub(super) const CHECK: Check = Check {
    id: "cpu-taken",
    about: "the hypervisor, or a quota of the control group, takes processor time away from the server",
    class: Class::Arithmetic,
    thresholds: &[("steal_percent", 2.0), ("throttled_percent", 1.0)],
    manual: include_str!("cpu_taken.md"),
    looks: &[Look::Later(look)],
};

const TICKS: &str = "/proc/stat";

fn look(host: &Host, task: &Task) -> Looked {
    let ticks = host.twice(&host.path(TICKS));
    let unseen = ticks.is_none().then(|| Host::hidden("what the hypervisor takes", TICKS));
    let stolen = ticks.and_then(|twice| stolen(host, task, &twice));
    let seen: Seen = stolen.into_iter().chain(throttled(host, task)).collect();
    Ok(seen.but(unseen))
}

/// Ticks that the hypervisor gave to others, and all ticks.
fn steal(text: &str) -> (f64, f64) {
    processor::ticks(text).fold((0.0, 0.0), |(steal, all), (what, ticks)| {
        (if what == "steal" { steal + ticks } else { steal }, all + ticks)
    })
}

fn stolen(host: &Host, task: &Task, twice: &Twice) -> Option<Finding> {
    let ((steal_before, before), (steal_after, after)) = (steal(&twice.before), steal(&twice.after));
    let percent = 100.0 * (steal_after - steal_before) / (after - before);
    if after <= before || percent < task.threshold("steal_percent") {
        return None;
    }
    let sentence = format!("the hypervisor gave {percent:.0} % of the processors' time to other machines");
    let source = format!("{TICKS}, two looks in {:.0} s", twice.seconds);
    Some(
        task.finding(Level::Warning, "steal", sentence)
            .with("stolen now", format!("{percent:.1} %"), &source)
            .with("stolen since the start of the machine", format!("{:.1} %", 100.0 * steal_after / after), TICKS)
            .costs(percent)
            .counted(twice.seconds)
            .unless(match host.container() {
                Some(_) => "another container of this machine keeps its processors busy".to_owned(),
                None => "a neighbour on the same hardware is busy for a moment; look again later".to_owned(),
            })
            .repaired(
                "take a plan with processors of its own, or another size; a plan with credits may have used them up",
                "it costs more",
            )
            .needs(Restart::Machine),
    )
}

/// A finding if a quota of the server's control group, or of one above it, stopped processes between the two looks.
fn throttled(host: &Host, task: &Task) -> Option<Finding> {
    let groups = host.cgroup("cpu")?.dirs;
    let counted = groups.iter().filter_map(|dir| {
        let twice = host.twice(&dir.join("cpu.stat"))?;
        let (stops, periods) = (twice.growth("nr_throttled")?, twice.growth("nr_periods")?);
        (periods > 0.0).then_some((stops, periods, dir, twice.seconds))
    });
    let worst = counted.max_by(|one, other| (one.0 / one.1).total_cmp(&(other.0 / other.1)));
    let (stops, periods, dir, seconds) = worst?;
    let percent = 100.0 * stops / periods;
    if stops == 0.0 || percent < task.threshold("throttled_percent") {
        return None;
    }
    let sentence = format!("the quota of the control group stopped its processes in {percent:.0} % of the periods");
    let file = dir.join("cpu.stat").display().to_string();
    let source = format!("{file}, two looks in {seconds:.0} s");
    Some(
        task.finding(Level::Warning, "quota", sentence)
            .with("periods in which the quota was used up", format!("{stops:.0} of {periods:.0}"), &source)
            .costs(percent)
            .counted(seconds)
            .unless("the quota is meant to hold the server back")
            .repaired(
                "raise the quota (cpu.max; in Kubernetes the processor limit of the pod), or take it away",
                "the server may take more from what runs beside it",
            ),
    )
}
