//! Check `kernel-known-bad`: a kernel that is known to slow databases down.

use crate::check::{Check, Look, Looked, Seen, Task};
use crate::host::Host;
use millstream_model::{Class, Level, Restart};

pub(super) const CHECK: Check = Check {
    id: "kernel-known-bad",
    about: "a kernel whose versions are known to slow databases down",
    class: Class::Fact,
    thresholds: &[],
    manual: include_str!("kernel_known_bad.md"),
    looks: &[Look::Host(look)],
};

fn look(host: &Host, task: &Task) -> Looked {
    let hidden = || Host::hidden("the version of the kernel", Host::RELEASE);
    let release = host.word(Host::RELEASE).ok_or_else(hidden)?;
    let nameless = || format!("the version of the kernel, which {release} does not name");
    let (major, minor) = host.kernel().ok_or_else(nameless)?;
    // Distributions with long support have corrected these kernels, and keep their numbers.
    let corrected = [".el", ".amzn"].iter().any(|mark| release.contains(mark));
    if major != 3 || minor > 8 || corrected {
        return Ok(Seen::default());
    }
    let sentence =
        format!("the kernel {release} writes to disks and frees memory worse than those before and after it");
    Ok(task
        .finding(Level::Warning, "", sentence)
        .with("release", release, Host::RELEASE)
        .unless("your distribution has corrected it and kept the number")
        .repaired("install a newer kernel", "the machine is restarted")
        .needs(Restart::Machine)
        .into())
}
