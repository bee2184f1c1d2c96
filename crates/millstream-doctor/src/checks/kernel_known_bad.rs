//! Check `kernel-known-bad`: a kernel that is known to slow databases down.

use crate::check::{Check, Look, Seen, Task};
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

fn look(host: &Host, task: &Task) -> Seen {
    let Some(release) = host.word(Host::RELEASE) else {
        return Seen::default().but(Some(Host::hidden("the version of the kernel", Host::RELEASE)));
    };
    let Some((major, minor)) = host.kernel() else {
        return Seen::default().but(Some(format!("the version of the kernel, which {release} does not name")));
    };
    // Distributions with long support have corrected these kernels, and keep their numbers.
    let corrected = [".el", ".amzn"].iter().any(|mark| release.contains(mark));
    if major != 3 || minor > 8 || corrected {
        return Seen::default();
    }
    let sentence =
        format!("the kernel {release} writes to disks and frees memory worse than those before and after it");
    task.finding(Level::Warning, "", sentence)
        .with("release", release, Host::RELEASE)
        .unless("your distribution has corrected it and kept the number")
        .repaired("install a newer kernel", "the machine is restarted")
        .needs(Restart::Machine)
        .into()
}
