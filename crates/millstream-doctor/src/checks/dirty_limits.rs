//! Check `dirty-limits`: the kernel may collect much written data before it writes it to the disk.

use super::number::size;
use crate::check::{Check, Look, Looked, Seen, Task};
use crate::host::Host;
use millstream_model::{Change, Class, Level};

pub(super) const CHECK: Check = Check {
    id: "dirty-limits",
    about: "the kernel may collect gigabytes of written data, which a flush then has to wait for",
    class: Class::Hypothesis,
    thresholds: &[("background_mb", 1024.0)],
    manual: include_str!("dirty_limits.md"),
    looks: &[Look::Host(look)],
};

/// What the repair sets, in bytes: the upper end of EDB's recommendation.
pub(crate) const RECOMMENDED_BYTES: &str = "268435456";

/// From how much written data on the kernel begins to write it.
pub(crate) struct Limit {
    own: f64,
    ratio: f64,
    memory: f64,
    /// In bytes.
    pub(crate) bytes: f64,
}

impl Limit {
    /// Reads it.
    ///
    /// # Errors
    /// What cannot be read.
    pub(crate) fn read(host: &Host) -> Result<Self, String> {
        let [bytes_file, ratio_file] = ["bytes", "ratio"].map(|unit| format!("/proc/sys/vm/dirty_background_{unit}"));
        let (Some(own), Some(ratio)) = (host.number(&bytes_file), host.number(&ratio_file)) else {
            return Err(Host::hidden("how much written data the kernel collects", &bytes_file));
        };
        let memory =
            host.available_bytes().ok_or_else(|| Host::hidden("the memory that is available", "/proc/meminfo"))?;
        // Of the two settings the kernel keeps one, and the other is 0.
        let bytes = if own > 0.0 { own } else { ratio / 100.0 * memory };
        Ok(Self { own, ratio, memory, bytes })
    }
}

fn look(host: &Host, task: &Task) -> Looked {
    let Limit { own, ratio, memory, bytes: limit } = Limit::read(host)?;
    if limit < task.threshold("background_mb") * 1e6 {
        return Ok(Seen::default());
    }
    let [limit, memory] = [limit, memory].map(size);
    let sentence = format!("up to {limit} of written data collect before the kernel begins to write them");
    Ok(task
        .finding(Level::Info, "vm.dirty_background_bytes", sentence)
        .with("dirty_background_bytes", own, "/proc/sys/vm")
        .with("dirty_background_ratio", ratio, "/proc/sys/vm")
        .with("available memory", memory, "/proc/meminfo")
        .unless("PostgreSQL has its pages written early (checkpoint_flush_after), and nothing else writes much")
        .repaired(
            "let the kernel begin to write after 256 MiB",
            "a large load that rewrites the same pages writes more often",
        )
        .run([format!("$ sysctl -w vm.dirty_background_bytes={RECOMMENDED_BYTES}")])
        .changes(Change::new("sysctl", "vm.dirty_background_bytes", RECOMMENDED_BYTES))
        .into())
}
