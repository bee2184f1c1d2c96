//! Check `conntrack-full`: the table of connections of the packet filter is almost full.

use crate::check::{Check, Look, Looked, Seen, Task};
use crate::host::{Host, Twice};
use millstream_model::{Change, Class, Level};

pub(super) const CHECK: Check = Check {
    id: "conntrack-full",
    about: "the packet filter's table of connections is almost full, after which new ones are dropped",
    class: Class::Arithmetic,
    thresholds: &[("percent", 80.0), ("critical_percent", 95.0), ("dropped", 1.0)],
    manual: include_str!("conntrack_full.md"),
    looks: &[Look::Later(look)],
};

/// The setting that bounds the table.
const SETTING: &str = "net.netfilter.nf_conntrack_max";

/// What happened to packets since the start of the machine, for each processor.
const COUNTERS: &str = "/proc/net/stat/nf_conntrack";

fn look(host: &Host, task: &Task) -> Looked {
    let file = |name: &str| format!("/proc/sys/net/netfilter/{name}");
    let (count, max) = (file("nf_conntrack_count"), file("nf_conntrack_max"));
    let (Some(used), Some(most)) = (host.number(&count), host.number(&max)) else {
        let what = Host::hidden("the packet filter's table of connections", &count);
        return Err(format!("{what}; the module nf_conntrack may not be loaded").into());
    };
    let twice = host.twice(&host.path(COUNTERS));
    // How much a counter grew between the two looks, and where it is now.
    let counted = |name: &str| {
        let Twice { before, after, .. } = twice.as_ref()?;
        let now = counter(after, name)?;
        Some((now - counter(before, name)?, now))
    };
    let seconds = twice.as_ref().map_or(0.0, |twice| twice.seconds);
    let dropped = counted("drop");
    let unseen = dropped.is_none().then(|| Host::hidden("packets that the packet filter dropped", COUNTERS));
    // 0 means no limit.
    let percent = if most == 0.0 { 0.0 } else { 100.0 * used / most };
    let lost = dropped.map(|(lost, _)| lost).filter(|lost| *lost > 0.0 && *lost >= task.threshold("dropped"));
    let is_full = most > 0.0 && percent >= task.threshold("percent");
    let (level, sentence) = if is_full {
        let level = if percent >= task.threshold("critical_percent") { Level::Critical } else { Level::Warning };
        let what = "of the packet filter's table of connections is used; when it is full, new ones are dropped";
        (level, format!("{percent:.0} % {what}"))
    } else if let Some(lost) = lost {
        let why = "as it does when its table of connections is full";
        (Level::Info, format!("the packet filter dropped {lost:.0} packets in {seconds:.0} s, {why}"))
    } else {
        return Ok(Seen::default().but(unseen));
    };
    let shown =
        |(grown, now): (f64, f64)| format!("{grown:.0} in {seconds:.0} s, {now:.0} since the start of the machine");
    let finding = task
        .finding(level, SETTING, sentence)
        .with("entries", used, &count)
        .with("most", most, &max)
        .with_known("dropped packets", dropped.map(shown), COUNTERS)
        .with_known("entries that could not be made", counted("insert_failed").map(shown), COUNTERS);
    let risk = "each entry takes about 400 bytes of the kernel's memory; a line in sysctl.d works only if the module \
                nf_conntrack is loaded before it is read";
    let larger = format!("{:.0}", 2.0 * most);
    // A larger table is not a repair for one that has room.
    let finding = if is_full {
        finding
            .unless("many short connections have just ended, and their entries expire soon")
            .repaired("let the table be twice as large; fewer and longer connections need less", risk)
            .run([format!("$ sysctl -w {SETTING}={larger}")])
            .changes(Change::new("sysctl", SETTING, &larger))
    } else {
        let look = "look for \"table full, dropping packet\" in the kernel's log; if it is there, set";
        finding
            .counted(seconds)
            .unless("the packets were broken, or a helper of the packet filter dropped them")
            .repaired(format!("{look} {SETTING} higher"), risk)
    };
    Ok(Seen::from(finding).but(unseen))
}

/// The sum of a counter over the processors: a line with names, and one with hexadecimal numbers for each of them.
fn counter(text: &str, name: &str) -> Option<f64> {
    let mut lines = text.lines();
    let at = lines.next()?.split_whitespace().position(|one| one == name)?;
    let number = |line: &str| u32::from_str_radix(line.split_whitespace().nth(at)?, 16).ok();
    Some(lines.filter_map(number).map(f64::from).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_all_processors_are_added_up() {
        let text = "entries  found drop\n00000010  00000000 0000000a\n00000010  00000001 00000002\n";
        assert_eq!((counter(text, "drop"), counter(text, "entries")), (Some(12.0), Some(32.0)));
        assert_eq!((counter(text, "insert_failed"), counter("", "drop")), (None, None));
    }
}
