//! A kernel that a test boots.

use crate::cases::is_night;
use crate::need::{Need, machine_has};
use crate::{aloud, skip};
use std::path::PathBuf;

/// The package of a kernel that `MILLSTREAM_TEST_KERNEL` names. `None` by day, because a boot takes minutes; and, after
/// [`skip`], without one, or on a machine that cannot boot it in a guest.
pub fn kernel_package() -> Option<PathBuf> {
    if !is_night() {
        // This is no skip: it says nothing about the machine.
        aloud("left to the night", "it boots a kernel");
        return None;
    }
    let package = named("MILLSTREAM_TEST_KERNEL", "package of a kernel")?;
    machine_has(&[Need::QEMU, Need::BUSYBOX]).then_some(package)
}

/// The directory in which NetworkManager is unpacked, which `MILLSTREAM_TEST_NETWORKMANAGER` names. `None`, after [`skip`],
/// without one.
pub fn networkmanager() -> Option<PathBuf> {
    named("MILLSTREAM_TEST_NETWORKMANAGER", "directory with NetworkManager")
}

/// The path that a variable names; `None`, after [`skip`], if it names none.
pub(crate) fn named(variable: &str, what: &str) -> Option<PathBuf> {
    let path = std::env::var_os(variable).map(PathBuf::from);
    if path.is_none() {
        skip(&format!("{variable} names no {what}"));
    }
    path
}

/// The path that a variable names of what few machines have. `None` without one: this is said aloud, and is no failure
/// where skips are.
pub fn seldom(variable: &str, what: &str) -> Option<PathBuf> {
    let path = std::env::var_os(variable).map(PathBuf::from);
    if path.is_none() {
        aloud("skipped", &format!("{variable} names no {what}"));
    }
    path
}
