//! What the kernel says of this machine: its text files, mounts, block devices, control groups
//! and counters.

pub mod cgroup;
pub mod device;
pub mod diskstats;
pub mod file;
pub mod link;
pub mod mount;
pub mod pressure;
pub mod processor;

pub use cgroup::Cgroup;
pub use device::BlockDevice;
pub use mount::Mount;
