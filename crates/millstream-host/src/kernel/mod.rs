//! What the kernel says of this machine: its text files, mounts, block devices and control groups.

pub mod cgroup;
pub mod device;
pub mod file;
pub mod mount;

pub use cgroup::Cgroup;
pub use device::BlockDevice;
pub use mount::Mount;
