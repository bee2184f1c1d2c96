//! Check `dead-sysctl`: settings in the files of sysctl that this kernel does not have.

use crate::check::{Check, Look, Looked, Seen, Task};
use crate::host::Host;
use millstream_host::sysctl_file;
use millstream_model::{Class, Level};
use std::collections::BTreeSet;

pub(super) const CHECK: Check = Check {
    id: "dead-sysctl",
    about: "settings in the files of sysctl that this kernel does not have, so that they do nothing",
    class: Class::Fact,
    thresholds: &[],
    manual: include_str!("dead_sysctl.md"),
    looks: &[Look::Host(look)],
};

/// Prefixes of settings that exist only while a module or a device does.
const SOMETIMES: &[&str] = &[
    "abi.",
    "crypto.",
    "dev.",
    "fs.binfmt_misc.",
    "fs.fuse.",
    "fs.lustre.",
    "fs.nfs",
    "fs.xfs.",
    "lnet.",
    "net.",
    "sunrpc.",
];

fn look(host: &Host, task: &Task) -> Looked {
    // `99-sysctl.conf` is often a link to `sysctl.conf`.
    let (mut seen, mut names) = (Seen::default(), BTreeSet::new());
    let below = host.entries("/etc/sysctl.d").into_iter().filter(|name| name.ends_with(".conf"));
    // The files that administrators write, in the order in which they are read.
    for path in ["/etc/sysctl.conf".to_owned()].into_iter().chain(below.map(|name| format!("/etc/sysctl.d/{name}"))) {
        for name in host.word(&path).unwrap_or_default().lines().filter_map(name_of) {
            let exists = sysctl_file(&name).is_none_or(|file| host.path(&file.to_string_lossy()).exists());
            let may_come = SOMETIMES.iter().any(|prefix| name.starts_with(prefix));
            if exists || may_come || !names.insert(name.clone()) {
                continue;
            }
            let sentence = format!("{path} sets it, but this kernel has no such setting");
            let moved = "; since kernel 5.13 the settings of the scheduler are in /sys/kernel/debug/sched";
            let moved = if name.starts_with("kernel.sched_") { moved } else { "" };
            let finding = task
                .finding(Level::Info, name.clone(), sentence)
                .with("written in", &path, "the file")
                .unless("a kernel module that is not loaded now has it")
                .repaired(format!("delete the line{moved}"), "none: it does nothing");
            seen.findings.push(finding);
        }
    }
    Ok(seen)
}

/// The name that a line sets. One that begins with `-` may be missing.
fn name_of(line: &str) -> Option<String> {
    let line = line.trim();
    let plain = !line.is_empty() && !line.starts_with(['#', ';', '-']) && !line.contains('*');
    let (name, _) = line.split_once('=').filter(|_| plain)?;
    let name = name.trim();
    // In a name with slashes a dot is a part of a name.
    (!(name.contains('/') && name.contains('.'))).then(|| name.replace('/', "."))
}
