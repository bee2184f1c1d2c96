//! Check `out-of-memory-kill`: the kernel ended processes because memory was used up, or will soon refuse some.

use super::number::size;
use crate::check::{Check, Look, Looked, Seen, Task};
use crate::host::Host;
use millstream_model::{Class, Danger, Finding, Level};
use std::path::Path;

pub(super) const CHECK: Check = Check {
    id: "out-of-memory-kill",
    about: "the kernel ended processes because memory was used up, or is about to refuse memory",
    class: Class::Fact,
    thresholds: &[("kills", 1.0), ("promised_percent", 90.0)],
    manual: include_str!("out_of_memory_kill.md"),
    looks: &[Look::Host(look)],
};

const MODE: &str = "/proc/sys/vm/overcommit_memory";
const COUNTERS: &str = "/proc/vmstat";

/// Processes that the kernel has ended.
struct Kills {
    number: f64,
    /// They were in the server's control group. Otherwise they were anybody's.
    ours: bool,
    /// How often the group's own limit was the cause, if that is known.
    at_limit: Option<f64>,
    file: String,
}

fn look(host: &Host, task: &Task) -> Looked {
    let (kills, mode) = (kills(host), host.number(MODE));
    let unseen = [
        kills.is_none().then(|| Host::hidden("which processes the kernel has ended", COUNTERS)),
        mode.is_none().then(|| Host::hidden("how much memory the kernel promises", MODE)),
    ];
    let killed = kills.filter(|kills| kills.number >= task.threshold("kills"));
    let found = [killed.map(|kills| killed_finding(host, task, &kills, mode)), promised(host, task, mode)];
    let seen: Seen = found.into_iter().flatten().collect();
    Ok(unseen.into_iter().fold(seen, Seen::but))
}

fn kills(host: &Host) -> Option<Kills> {
    let counted = |file: &Path| Host::line(file, "oom_kill");
    let own = host.cgroup("memory").filter(|group| group.below_root).and_then(|group| {
        let file = group.dirs.first()?.join(group.file("memory.oom_control", "memory.events"));
        let (number, at_limit) = (counted(&file)?, Host::line(&file, "oom"));
        Some(Kills { number, ours: true, at_limit, file: file.display().to_string() })
    });
    own.or_else(|| {
        let number = counted(&host.path(COUNTERS))?;
        Some(Kills { number, ours: false, at_limit: None, file: COUNTERS.to_owned() })
    })
}

fn killed_finding(host: &Host, task: &Task, kills: &Kills, mode: Option<f64>) -> Finding {
    let Kills { number, ours, at_limit, file } = kills;
    let (level, whose, alternative) = match ours {
        true => (
            Level::Warning,
            "of the server's control group since the service was started",
            "somebody has corrected it since: the counter begins when the service is started",
        ),
        false => (
            Level::Info,
            "of this machine, the server's or others, since it was started",
            "other programs were ended, and the server was not",
        ),
    };
    let sentence = format!("memory was used up, and the kernel ended processes {whose}: {number:.0}");
    let finding = task
        .finding(level, "", sentence)
        .endangers(Danger::Service)
        .with("ended processes", number, file)
        .with_known("times at which the group had reached its own limit", *at_limit, file)
        .with_known("vm.overcommit_memory", mode, MODE)
        .counted(host.uptime().filter(|_| !ours))
        .unless(alternative);
    let is_limit = at_limit.is_some_and(|times| times > 0.0);
    let (sentence, commands): (&str, &[&str]) = match (is_limit, mode) {
        (true, _) => ("give the control group more memory, or set shared_buffers or work_mem lower", &[]),
        (false, Some(2.0)) => ("set shared_buffers or work_mem lower, or let fewer programs run beside it", &[]),
        (false, _) => (
            "let the kernel refuse memory instead: a statement then fails, and the server stays up; first see that \
             CommitLimit of /proc/meminfo is well above Committed_AS with the ratio that you set",
            &[
                "-- in a file in /etc/sysctl.d: vm.overcommit_memory = 2",
                "-- and vm.overcommit_ratio = 80, or what leaves the other programs enough",
            ],
        ),
    };
    let risk = "with too low a ratio, the server and other programs get no memory although some is free";
    finding.repaired(sentence, risk).run(commands.iter().copied())
}

/// A finding if the kernel refuses to promise more than it has, and has promised almost all. With another mode it keeps
/// no such limit, whatever the ratio is.
fn promised(host: &Host, task: &Task, mode: Option<f64>) -> Option<Finding> {
    mode.filter(|mode| *mode == 2.0)?;
    let (promised, limit) = (host.memory("Committed_AS")?, host.memory("CommitLimit")?);
    let percent = 100.0 * promised / limit;
    if limit <= 0.0 || percent < task.threshold("promised_percent") {
        return None;
    }
    let sentence =
        format!("{percent:.0} % of the memory that the kernel may promise is promised; beyond it, memory is refused");
    let mut finding = task
        .finding(Level::Warning, "vm.overcommit_ratio", sentence)
        .with("promised", size(promised * 1_024.0), "/proc/meminfo, Committed_AS")
        .with("limit", size(limit * 1_024.0), "/proc/meminfo, CommitLimit");
    // Of the two settings the kernel keeps one, and the other is 0.
    for name in ["overcommit_ratio", "overcommit_kbytes"] {
        if let Some(value) = host.number(&format!("/proc/sys/vm/{name}")).filter(|value| *value > 0.0) {
            finding = finding.with(&format!("vm.{name}"), value, "/proc/sys/vm");
        }
    }
    Some(finding.unless("a program has reserved much more than it will ever use").repaired(
        "raise vm.overcommit_ratio, add swap, or set shared_buffers or work_mem lower",
        "with too high a ratio, the kernel may end processes again",
    ))
}
