//! Check `disk-read-ahead`: much data is read ahead.

use crate::check::{Check, Look, Looked, Seen, Task};
use crate::host::Host;
use millstream_model::{Change, Class, Level, shell_word};

pub(super) const CHECK: Check = Check {
    id: "disk-read-ahead",
    about: "the kernel reads megabytes ahead, which random reads throw away",
    class: Class::Hypothesis,
    thresholds: &[("kb", 4096.0)],
    manual: include_str!("disk_read_ahead.md"),
    looks: &[Look::Host(look)],
};

fn look(host: &Host, task: &Task) -> Looked {
    let found = host.devices().into_iter().filter_map(|(role, device)| {
        let file = format!("/sys/block/{device}/queue/read_ahead_kb");
        let kilobytes = host.number(&file).filter(|kilobytes| *kilobytes > task.threshold("kb"))?;
        let sentence = format!("the kernel may read {kilobytes} kB ahead from the device of the {role}");
        Some(
            task.finding(Level::Info, device, sentence)
                .with("read_ahead_kb", kilobytes, &file)
                .unless("most reads here scan whole tables")
                .repaired(
                    "set it to 128 kB, the default, and measure before and after",
                    "scans of large tables and backups may become slower",
                )
                .run([format!("$ echo 128 > {}", shell_word(&file))])
                .changes(Change::new("sysfs", &file, "128")),
        )
    });
    Ok(found.collect::<Seen>().but(host.blind_to_devices()))
}
