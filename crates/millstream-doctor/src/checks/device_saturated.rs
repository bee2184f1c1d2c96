//! Check `device-saturated`: the disk of data or WAL has more to do than it can.

use crate::check::{Check, Look, Looked, Seen, Task};
use crate::host::{Host, Twice};
use millstream_host::kernel::diskstats;
use millstream_model::{Class, Finding, Level};

pub(super) const CHECK: Check = Check {
    id: "device-saturated",
    about: "the disk of data or WAL has more to do than it can, so that processes wait for it",
    class: Class::Arithmetic,
    thresholds: &[("percent", 10.0), ("latency_ms", 10.0), ("rotating_ms", 50.0), ("requests", 20.0)],
    manual: include_str!("device_saturated.md"),
    looks: &[Look::Later(look)],
};

const PRESSURE: &str = "/proc/pressure/io";
const WORK: &str = "/proc/diskstats";

/// Requests for which processes wait: their name, their count and their time.
const REQUESTS: &[(&str, &str, &str)] =
    &[("a read", "reads", "read_ms"), ("a write", "writes", "write_ms"), ("a flush", "flushes", "flush_ms")];

fn look(host: &Host, task: &Task) -> Looked {
    let devices = host.devices();
    let (waited, work) = (Host::waited(&host.path(PRESSURE)), host.twice(&host.path(WORK)));
    let unseen = Seen::default()
        .but(host.blind_to_devices())
        .but(waited.is_none().then(|| Host::hidden("how long processes wait for disks", PRESSURE)))
        .but(work.is_none().then(|| Host::hidden("how long the disks take", WORK)))
        .unseen;
    // One sign alone does not count: processes may wait for another disk, and a busy disk may make nobody wait.
    let (Some(waited), Some(work)) = (waited.filter(|percent| *percent >= task.threshold("percent")), work) else {
        return Ok(Seen::default().but(unseen));
    };
    let findings = devices.into_iter().filter_map(|(role, name)| {
        let rotates = host.number(&format!("/sys/block/{name}/queue/rotational")) == Some(1.0);
        let most = task.threshold(if rotates { "rotating_ms" } else { "latency_ms" });
        let times = times(&work, &name, task.threshold("requests"));
        let (what, slowest) = times.iter().copied().max_by(|(_, one), (_, other)| one.total_cmp(other))?;
        (slowest >= most).then(|| finding(task, role, &name, waited, &work, (what, slowest), &times))
    });
    Ok(findings.collect::<Seen>().but(unseen))
}

/// By how much a number of a device grew between the two looks.
fn growth(work: &Twice, device: &str, name: &str) -> Option<f64> {
    let of = |text: &str| {
        let (_, numbers) = diskstats::devices(text).find(|(one, _)| *one == device)?;
        numbers.into_iter().find(|(what, _)| *what == name).map(|(_, number)| number)
    };
    let growth = of(&work.after)? - of(&work.before)?;
    (growth >= 0.0).then_some(growth)
}

/// What a request of each kind took in ms, on average between the two looks. Kinds with few requests are left out.
fn times(work: &Twice, device: &str, least: f64) -> Vec<(&'static str, f64)> {
    let mean = |(what, count, time): &(&'static str, &str, &str)| {
        let count = growth(work, device, count).filter(|count| *count > 0.0 && *count >= least)?;
        Some((*what, growth(work, device, time)? / count))
    };
    REQUESTS.iter().filter_map(mean).collect()
}

fn finding(
    task: &Task,
    role: &str,
    name: &str,
    waited: f64,
    work: &Twice,
    (what, slowest): (&str, f64),
    times: &[(&str, f64)],
) -> Finding {
    let sentence = format!(
        "{what} of the disk of the {role} takes {slowest:.0} ms, and processes waited for a disk {waited:.0} % of \
         the last minute"
    );
    let source = format!("{WORK}, two looks in {:.0} s", work.seconds);
    let mut finding =
        task.finding(Level::Warning, name, sentence).with("waiting for disks", format!("{waited:.1} %"), PRESSURE);
    for (what, milliseconds) in times {
        finding = finding.with(&format!("{what}, on average"), format!("{milliseconds:.1} ms"), &source);
    }
    let requests = growth(work, name, "weighted_ms").map(|milliseconds| milliseconds / 1e3 / work.seconds);
    finding
        .with_known("requests at a time, on average", requests.map(|requests| format!("{requests:.1}")), &source)
        .counted(work.seconds)
        .unless("a backup, a large load or a checkpoint runs just now and will end")
        .repaired(
            "find what writes or reads so much: pg_stat_io (16 and later), forced checkpoints, temporary files, dead \
             rows, another program; only then buy a faster disk",
            "none: it only looks",
        )
        .run(["$ millstream doctor watch --for 5m"])
}
