//! Check `write-barrier-off`: a file system does not make the disk write.

use crate::check::{Check, Look, Looked, Seen, Task};
use crate::host::Host;
use millstream_model::{Class, Danger, Level, Restart, shell_word};

pub(super) const CHECK: Check = Check {
    id: "write-barrier-off",
    about: "a file system that does not make the disk write what was flushed: a power failure destroys data",
    class: Class::Fact,
    thresholds: &[],
    manual: include_str!("write_barrier_off.md"),
    looks: &[Look::Host(look)],
};

fn look(host: &Host, task: &Task) -> Looked {
    let found = host.mounts().into_iter().filter_map(|(role, _, mount)| {
        let all = format!("{},{}", mount.options, mount.super_options);
        let option = all.split(',').find(|option| ["nobarrier", "barrier=0"].contains(option))?;
        let point = mount.point.display().to_string();
        let sentence = format!("the file system of the {role} does not make the disk write what was flushed");
        let on = if mount.file_system.starts_with("ext") { "barrier=1" } else { "barrier" };
        Some(
            task.finding(Level::Critical, point.clone(), sentence)
                .endangers(Danger::Data)
                .with("mount option", option, "/proc/self/mountinfo")
                .with("file system", &mount.file_system, "/proc/self/mountinfo")
                .unless("the disk's cache survives a power failure, for example by a battery")
                .repaired(
                    format!("remove the option {option} from /etc/fstab, and mount {point} again"),
                    "flushes take as long as the disk needs",
                )
                .run([format!("$ mount -o remount,{on} {}", shell_word(&point))])
                .needs(Restart::Machine),
        )
    });
    Ok(found.collect::<Seen>().but(host.blind_to_disks()))
}
