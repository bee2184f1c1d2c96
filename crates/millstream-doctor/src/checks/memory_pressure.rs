//! Check `memory-pressure`: processes wait because memory is short.

use super::number::size;
use crate::check::{Check, Look, Looked, Seen, Task};
use crate::host::Host;
use millstream_model::{Class, Level};
use std::path::PathBuf;

pub(super) const CHECK: Check = Check {
    id: "memory-pressure",
    about: "processes wait for memory, because the kernel has to free or swap pages first",
    class: Class::Arithmetic,
    thresholds: &[("percent", 5.0), ("pages_per_second", 100.0)],
    manual: include_str!("memory_pressure.md"),
    looks: &[Look::Later(look)],
};

const PRESSURE: &str = "/proc/pressure/memory";
const SWAPPED: &str = "/proc/vmstat";

fn look(host: &Host, task: &Task) -> Looked {
    let waited = waited(host);
    let twice = host.twice(&host.path(SWAPPED));
    let per_second = |name: &str| twice.as_ref().and_then(|twice| Some(twice.growth(name)? / twice.seconds));
    let (read, written) = (per_second("pswpin"), per_second("pswpout"));
    let unseen = waited.is_none().then(|| Host::hidden("how long processes wait for memory", PRESSURE));
    let sentence = match (&waited, read) {
        // Reading back from swap counts as waiting. Without the kernel's account of it, the pages must do.
        (Some((percent, _)), _) if *percent >= task.threshold("percent") => {
            format!("processes waited for memory {percent:.0} % of the last minute")
        }
        (None, Some(read)) if read >= task.threshold("pages_per_second") => {
            format!("the kernel reads {read:.0} pages a second back from swap, which processes wait for")
        }
        _ => return Ok(Seen::default().but(unseen)),
    };
    let (percent, file) = waited.unzip();
    let file = file.map(|file| file.display().to_string()).unwrap_or_default();
    let source = format!("{SWAPPED}, two looks in {:.0} s", twice.as_ref().map_or(0.0, |twice| twice.seconds));
    let shown = |pages: f64| format!("{pages:.0} a second");
    let finding = task
        .finding(Level::Warning, "", sentence)
        .with_known("waiting for memory", percent.map(|percent| format!("{percent:.1} %")), &file)
        .with_known("pages read from swap", read.map(shown), &source)
        .with_known("pages written to swap", written.map(shown), &source)
        .with_known("available memory", host.available_bytes().map(size), "/proc/meminfo")
        .unless("another program on this machine takes the memory")
        .repaired(
            "use less: work_mem counts for each sort of each session, shared_buffers once; or give the machine, or the \
             server's control group, more memory",
            "with less work_mem, sorts go to the disk; with less shared_buffers, more pages come from the system",
        );
    Ok(Seen::from(finding).but(unseen))
}

/// How much of the last minute processes waited for memory, in percent, and the file that says so. The machine, the
/// server's control group and those above it count each for itself; the largest share is returned.
fn waited(host: &Host) -> Option<(f64, PathBuf)> {
    let groups = host.cgroup("memory").map(|group| group.dirs).unwrap_or_default();
    let files = groups.iter().map(|dir| dir.join("memory.pressure")).chain([host.path(PRESSURE)]);
    let shares = files.filter_map(|file| Host::waited(&file).map(|percent| (percent, file)));
    shares.max_by(|(one, _), (other, _)| one.total_cmp(other))
}
