//! Check `rotational-flag`: the kernel takes a fast disk for one that rotates, or the other way round.

use super::disk_scheduler::orders;
use crate::check::{Check, Look, Looked, Seen, Task};
use crate::host::Host;
use crate::limits::{DISK_READ_TIME_MAX, DISK_READS_MAX, DISKS_READ_MAX};
use millstream_host::disk_latency;
use millstream_model::{Change, Class, Finding, Level, shell_word};
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

pub(super) const CHECK: Check = Check {
    id: "rotational-flag",
    about: "a disk that the kernel takes for one that rotates, although it answers too fast for that, or the other way round",
    class: Class::Hypothesis,
    thresholds: &[("fast_ms", 1.0), ("slow_ms", 4.0)],
    manual: include_str!("rotational_flag.md"),
    looks: &[Look::Measured(look)],
};

fn look(host: &Host, task: &Task) -> Looked {
    let disks = host.disks();
    let mut unseen: Vec<String> = host.blind_to_devices().into_iter().collect();
    if disks.len() > DISKS_READ_MAX {
        unseen.push(format!("all but the first {DISKS_READ_MAX} disks"));
    }
    let mut seen = Seen::default();
    for (role, disk) in disks.iter().take(DISKS_READ_MAX) {
        let flag = format!("/sys/block/{disk}/queue/rotational");
        let Some(says) = host.number(&flag) else { continue };
        let scheduler = host.word(&format!("/sys/block/{disk}/queue/scheduler")).unwrap_or_default();
        if says != 0.0 && is_virtual(disk) && !orders(&scheduler) {
            continue;
        }
        // `/sys` has `!` where the name has a slash.
        let device = host.path(&format!("/dev/{}", disk.replace('!', "/")));
        let latency = |path: &Path| disk_latency(path, DISK_READS_MAX, DISK_READ_TIME_MAX);
        // In a container not even root may read a device. Several disks may hold the file.
        let file = || (*role == "data" && disks.len() == 1).then(|| host.data_file()).flatten();
        match latency(&device).or_else(|error| file().map_or(Err(error), |file| latency(&file))) {
            Ok(latency) => seen.findings.extend(finding(task, role, disk, &flag, says != 0.0, latency)),
            Err(error) => unseen.push(format!("how fast {disk} answers: {}", why(&error))),
        }
    }
    Ok(seen.but((!unseen.is_empty()).then(|| unseen.join("; "))))
}

/// Virtual machines show such disks as rotating, whatever is below them. The names are those of virtio and of Xen.
fn is_virtual(disk: &str) -> bool {
    ["vd", "xvd"].iter().any(|beginning| disk.starts_with(beginning))
}

/// Why a disk could not be read, with what would allow it.
fn why(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::PermissionDenied => {
            "this account may not read it; run the doctor as root, outside a container".to_owned()
        }
        ErrorKind::NotFound => "there is no such device here; run the doctor outside the container".to_owned(),
        _ => error.to_string(),
    }
}

/// A finding if the flag disagrees with the time of a read.
fn finding(task: &Task, role: &str, disk: &str, flag: &str, rotates: bool, latency: Duration) -> Option<Finding> {
    let milliseconds = latency.as_secs_f64() * 1e3;
    let is_fast = milliseconds < task.threshold("fast_ms");
    let is_slow = milliseconds > task.threshold("slow_ms");
    if (rotates && !is_fast) || (!rotates && !is_slow) {
        return None;
    }
    let (says, now, value, alternative) = match rotates {
        true => (
            "rotates",
            1,
            "0",
            "a cache in front of a disk that rotates has answered, or the blocks were never written",
        ),
        false => ("does not rotate", 0, "1", "the disk is busy, far away, or still being filled from a snapshot"),
    };
    let sentence =
        format!("the kernel says that the disk of the {role} {says}, but a random read takes {milliseconds:.2} ms");
    let (median, source) = (format!("{milliseconds:.2} ms"), "reads of the device, or of a data file");
    Some(
        task.finding(Level::Info, disk, sentence)
            .with("rotational", now, flag)
            .with("median of random reads of 4 KiB", median, source)
            .unless(alternative)
            .repaired(
                "correct the flag, and measure before and after: the kernel orders and delays requests by it",
                "none for the data; requests are ordered in another way",
            )
            .run([format!("$ echo {value} > {}", shell_word(flag))])
            .changes(Change::new("sysfs", flag, value)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn disks_of_virtual_machines_are_known_by_their_names() {
        assert!(is_virtual("vda") && is_virtual("xvdb") && !is_virtual("sda") && !is_virtual("loop3"));
    }

    #[test]
    fn a_flag_is_wrong_only_if_the_reads_disagree() {
        let task = Task::of(&CHECK, BTreeMap::new());
        let found = |rotates, micros| {
            finding(&task, "data", "sda", "/sys/block/sda/queue/rotational", rotates, Duration::from_micros(micros))
                .is_some()
        };
        assert!(found(true, 120) && !found(true, 8_000) && !found(true, 2_000));
        assert!(found(false, 8_000) && !found(false, 120) && !found(false, 2_000));
    }
}
