//! Check `conntrack-full`: the table of connections of the packet filter is almost full.

use crate::check::{Check, Look, Seen, Task, Threshold};
use crate::host::Host;
use millstream_model::{Class, Level, Repair, Restart};

pub(super) const CHECK: Check = Check {
    id: "conntrack-full",
    about: "the packet filter's table of connections is almost full, after which new ones are dropped",
    class: Class::Arithmetic,
    thresholds: &[Threshold { name: "percent", default: 80.0 }, Threshold { name: "critical_percent", default: 95.0 }],
    manual: include_str!("conntrack_full.md"),
    looks: &[Look::Host(look)],
};

/// The setting that bounds the table.
const SETTING: &str = "net.netfilter.nf_conntrack_max";

fn look(host: &Host, task: &Task) -> Seen {
    let number = |name: &str| host.number(&format!("/proc/sys/net/netfilter/{name}"));
    let (Some(used), Some(most)) = (number("nf_conntrack_count"), number("nf_conntrack_max")) else {
        return Seen::default();
    };
    // 0 means no limit.
    if most == 0.0 {
        return Seen::default();
    }
    let percent = 100.0 * used / most;
    if percent < task.threshold("percent") {
        return Seen::default();
    }
    let level = if percent >= task.threshold("critical_percent") { Level::Critical } else { Level::Warning };
    let sentence = format!(
        "{percent:.0} % of the packet filter's table of connections is used; when it is full, new ones are dropped"
    );
    let twice = format!("{:.0}", 2.0 * most);
    let mut finding = task
        .finding(level, SETTING, sentence)
        .with("entries", used, "/proc/sys/net/netfilter/nf_conntrack_count")
        .with("most", most, "/proc/sys/net/netfilter/nf_conntrack_max");
    finding.alternative = Some("many short connections have just ended, and their entries expire soon".to_owned());
    finding.repair = Some(Repair {
        sentence: "let the table be twice as large; fewer and longer connections need less".to_owned(),
        commands: vec![format!("$ sysctl -w {SETTING}={twice}")],
        risk: "each entry takes about 400 bytes of the kernel's memory; a line in sysctl.d works only if the module \
               nf_conntrack is loaded before it is read"
            .to_owned(),
        restart: Restart::Nothing,
        change: Some(Host::sysctl(SETTING, &twice)),
    });
    [finding].into_iter().collect()
}
