//! Check `disk-full`: the disk of data or WAL is almost full.

use crate::check::{Check, Look, Seen, Task, Threshold};
use crate::host::Host;
use millstream_host::disk_space;
use millstream_model::quantity::bytes;
use millstream_model::{Class, Level, Repair, Restart};

pub(super) const CHECK: Check = Check {
    id: "disk-full",
    about: "the disk of data or WAL is almost full, after which the server stops",
    class: Class::Arithmetic,
    thresholds: &[Threshold { name: "percent", default: 85.0 }, Threshold { name: "critical_percent", default: 95.0 }],
    manual: include_str!("disk_full.md"),
    looks: &[Look::Host(look)],
};

fn look(host: &Host, task: &Task) -> Seen {
    let found = host.mounts().into_iter().filter_map(|(role, dir, mount)| {
        let space = disk_space(dir)?;
        let used = 100.0 * (space.all.saturating_sub(space.free)) as f64 / space.all.max(1) as f64;
        let files = 100.0 * (space.files.saturating_sub(space.free_files)) as f64 / space.files.max(1) as f64;
        let (percent, what) = if used >= files { (used, "space") } else { (files, "files") };
        let (least, critical) = (task.threshold("percent"), task.threshold("critical_percent"));
        if percent < least {
            return None;
        }
        let level = if percent >= critical { Level::Critical } else { Level::Warning };
        let sentence = format!("the disk of the {role} is {percent:.0} % full, by {what}");
        let mut finding = task
            .finding(level, mount.point.display().to_string(), sentence)
            .with("free", bytes(space.free), "statvfs")
            .with("size", bytes(space.all), "statvfs");
        finding.alternative = Some("something else on this disk, such as logs, can be deleted".to_owned());
        finding.repair = Some(Repair {
            sentence: "make room: look for replication slots that hold WAL, old logs, and tables that can be shrunk"
                .to_owned(),
            commands: Vec::new(),
            risk: "never delete files of pg_wal by hand".to_owned(),
            restart: Restart::Nothing,
            change: None,
        });
        Some(finding)
    });
    let seen: Seen = found.collect();
    seen.but(host.blind_to_disks())
}
