//! Check `atime`: a file system that writes the time of each read.

use crate::check::{Check, Look, Looked, Seen, Task};
use crate::host::Host;
use millstream_model::{Class, Level, shell_word};

pub(super) const CHECK: Check = Check {
    id: "atime",
    about: "a file system that records the time of each read of a file",
    class: Class::Fact,
    thresholds: &[],
    manual: include_str!("atime.md"),
    looks: &[Look::Host(look)],
};

fn look(host: &Host, task: &Task) -> Looked {
    let found = host.mounts().into_iter().filter_map(|(role, _, mount)| {
        // The kernel has no word for it: neither of the other options stands there.
        let has = |name| mount.options.split(',').chain(mount.super_options.split(',')).any(|one| one == name);
        if ["noatime", "relatime", "ro", "lazytime"].into_iter().any(has) {
            return None;
        }
        let point = mount.point.display().to_string();
        let sentence = format!("the file system of the {role} records the time of each read of a file");
        Some(
            task.finding(Level::Info, point.clone(), sentence)
                .with("mount options", &mount.options, "/proc/self/mountinfo")
                .repaired(
                    format!("put noatime into /etc/fstab, and mount {point} again"),
                    "programs that look at the time of the last read, such as some mail readers, miss it",
                )
                .run([format!("$ mount -o remount,noatime {}", shell_word(&point))]),
        )
    });
    Ok(found.collect::<Seen>().but(host.blind_to_disks()))
}
