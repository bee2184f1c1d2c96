//! A kernel that a test boots.

use crate::skip;
use millstream_host::Command;
use std::path::PathBuf;

/// Programs without which no kernel boots in a guest.
const PROGRAMS: &[&str] = &["qemu-system-x86_64", "busybox"];

/// The package of a kernel that `MILLSTREAM_TEST_KERNEL` names. `None`, after [`skip`], without one, or on a machine
/// that cannot boot it in a guest.
pub fn kernel_package() -> Option<PathBuf> {
    let Some(package) = std::env::var_os("MILLSTREAM_TEST_KERNEL") else {
        skip("MILLSTREAM_TEST_KERNEL names no package of a kernel");
        return None;
    };
    if let Some(missing) = PROGRAMS.iter().find(|name| Command::new(name).arg("--help").run_blocking().is_err()) {
        skip(&format!("it needs {missing}"));
        return None;
    }
    Some(package.into())
}

/// The directory in which NetworkManager is unpacked, which `MILLSTREAM_TEST_NETWORKMANAGER` names. `None`, after [`skip`],
/// without one.
pub fn networkmanager() -> Option<PathBuf> {
    let unpacked = std::env::var_os("MILLSTREAM_TEST_NETWORKMANAGER").map(PathBuf::from);
    if unpacked.is_none() {
        skip("MILLSTREAM_TEST_NETWORKMANAGER names no directory with NetworkManager");
    }
    unpacked
}
