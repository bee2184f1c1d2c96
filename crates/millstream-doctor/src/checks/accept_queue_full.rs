//! Check `accept-queue-full`: clients connect faster than programs take their connections.

use crate::check::{Check, Look, Looked, Seen, Task};
use crate::host::Host;
use millstream_model::{Change, Class, Level, Restart};

pub(super) const CHECK: Check = Check {
    id: "accept-queue-full",
    about: "the queue of new connections is full, so that clients wait a second or more and try again",
    class: Class::Arithmetic,
    thresholds: &[("overflows", 1.0)],
    manual: include_str!("accept_queue_full.md"),
    looks: &[Look::Later(look)],
};

const COUNTERS: &str = "/proc/net/netstat";

/// The setting that bounds every queue.
const SETTING: &str = "net.core.somaxconn";

const BOUND: &str = "/proc/sys/net/core/somaxconn";

fn look(host: &Host, task: &Task) -> Looked {
    let twice =
        host.twice(&host.path(COUNTERS)).ok_or_else(|| Host::hidden("connections that were refused", COUNTERS))?;
    let counted = |text: &str| counter(text, "ListenOverflows");
    let (Some(before), Some(after)) = (counted(&twice.before), counted(&twice.after)) else {
        return Err(Host::hidden("ListenOverflows", COUNTERS).into());
    };
    let is_much = |overflows: f64| overflows > 0.0 && overflows >= task.threshold("overflows");
    if !is_much(after) {
        return Ok(Seen::default());
    }
    let clients = host.demands()?.clients;
    let bound = host.number(BOUND);
    let unseen = bound.is_none().then(|| Host::hidden(SETTING, BOUND));
    // The server asks for a queue of twice its connections, and the kernel cuts it at its own bound.
    let wanted = 2.0 * clients as f64;
    let is_cut = bound.is_some_and(|bound| bound < wanted);
    let overflows = after - before;
    let (level, times, seconds) = match (is_much(overflows), is_cut) {
        (true, _) => (Level::Warning, format!("{overflows:.0} times in {:.0} s", twice.seconds), Some(twice.seconds)),
        // They come in bursts, so the next burst finds the short queue again.
        (false, true) => (Level::Info, format!("{after:.0} times since the machine started"), host.uptime()),
        (false, false) => return Ok(Seen::default().but(unseen)),
    };
    let source = format!("{COUNTERS}, two looks in {:.0} s", twice.seconds);
    let finding = task
        .finding(level, SETTING, format!("new connections found a full queue {times}"))
        .with("full queues", format!("{overflows:.0}"), &source)
        .with("full queues since the start of the machine", format!("{after:.0}"), COUNTERS)
        .with("max_connections", clients, "pg_settings")
        .with_known(SETTING, bound, BOUND)
        .counted(seconds)
        .unless("another program of this machine does not take its connections: ss -ltn shows full queues");
    let finding = if is_cut {
        let sentence = format!("let the queue be {wanted:.0} long, and start the server again");
        finding
            .repaired(sentence, "each waiting connection takes a little memory")
            .run([format!("$ sysctl -w {SETTING}={wanted:.0}")])
            .needs(Restart::Server)
            .changes(Change::new("sysctl", SETTING, format!("{wanted:.0}")))
    } else {
        finding.repaired(
            "let clients keep their connections, or share them with a pooler: the server starts a process for each, one \
             after the other",
            "with a transaction pooler, session state does not last",
        )
    };
    Ok(Seen::from(finding).but(unseen))
}

/// A counter of the extended statistics of TCP: a line with names, and one with numbers.
fn counter(text: &str, name: &str) -> Option<f64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("TcpExt:"));
    let at = lines.next()?.split_whitespace().position(|one| one == name)?;
    lines.next()?.split_whitespace().nth(at)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_stands_below_its_name() {
        let text = "TcpExt: TW ListenOverflows ListenDrops\nTcpExt: 1 22 3\nIpExt: ListenOverflows\nIpExt: 7\n";
        assert_eq!(counter(text, "ListenOverflows"), Some(22.0));
        assert_eq!(counter(text, "Other"), None);
        assert_eq!(counter("TcpExt: ListenOverflows\n", "ListenOverflows"), None);
    }
}
