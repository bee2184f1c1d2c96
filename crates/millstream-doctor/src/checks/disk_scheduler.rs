//! Check `disk-scheduler`: a scheduler that orders requests for a disk that needs no order.

use crate::check::{Check, Look, Looked, Seen, Task};
use crate::host::Host;
use millstream_host::kernel::file::choice;
use millstream_model::{Change, Class, Level, shell_word};

pub(super) const CHECK: Check = Check {
    id: "disk-scheduler",
    about: "a scheduler that orders and delays requests, at a disk that needs no order",
    class: Class::Hypothesis,
    thresholds: &[],
    manual: include_str!("disk_scheduler.md"),
    looks: &[Look::Host(look)],
};

/// Schedulers that delay requests for the sake of order and fairness.
const ORDERING: &[&str] = &["bfq", "cfq", "anticipatory"];

/// Whether the chosen one of these schedulers orders requests.
pub(super) fn orders(all: &str) -> bool {
    ORDERING.contains(&choice(all))
}

/// The schedulers of a disk that does not rotate, and a better one than the one that is chosen, if that orders requests.
pub(crate) fn better(host: &Host, disk: &str) -> Option<(String, &'static str)> {
    let all = host.word(&format!("/sys/block/{disk}/queue/scheduler"))?;
    let rotates = host.number(&format!("/sys/block/{disk}/queue/rotational"))? != 0.0;
    if rotates || !orders(&all) {
        return None;
    }
    let is_there = |name: &&str| all.split_whitespace().any(|one| one == *name);
    let other = ["none", "mq-deadline", "noop", "deadline"].into_iter().find(is_there)?;
    Some((all, other))
}

fn look(host: &Host, task: &Task) -> Looked {
    let found = host.disks().into_iter().filter_map(|(role, disk)| {
        let file = format!("/sys/block/{disk}/queue/scheduler");
        let (all, other) = better(host, &disk)?;
        let scheduler = choice(&all);
        let sentence = format!(
            "the scheduler {scheduler} orders and delays requests of the disk of the {role}, which does not rotate"
        );
        Some(
            task.finding(Level::Info, disk, sentence)
                .with("schedulers", &all, &file)
                .unless("it keeps another program from taking the whole disk")
                .repaired(
                    format!("choose {other}, and measure before and after"),
                    "a backup beside the server may take more of the disk",
                )
                .run([format!("$ echo {other} > {}", shell_word(&file))])
                .changes(Change::new("sysfs", &file, other)),
        )
    });
    Ok(found.collect::<Seen>().but(host.blind_to_devices()))
}
