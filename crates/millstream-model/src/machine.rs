//! Facts of a machine, as far as settings and measurements depend on them.

/// A machine and the disk of one directory, as a program there sees them.
#[derive(Debug, Clone, PartialEq)]
pub struct MachineFacts {
    /// Operating system and its kernel's release.
    pub kernel: String,
    /// Model of the processor, if known.
    pub processor: Option<String>,
    /// Processors that we may use; a cgroup's quota counts.
    pub cores: u32,
    /// Memory of the machine, in bytes.
    pub memory_bytes: u64,
    /// The tightest memory limit of our cgroups, in bytes, if there is one.
    pub cgroup_bytes: Option<u64>,
    /// Load average of the last minute, if known: processes that ran or waited to run.
    pub load_average: Option<f64>,
    /// Name of the disk's file system, if known.
    pub file_system: Option<String>,
    /// Free space on the disk, in bytes.
    pub disk_free_bytes: u64,
    /// The disk rotates.
    pub rotational: bool,
}

impl MachineFacts {
    /// Memory that all programs together can use, in bytes.
    pub fn usable_bytes(&self) -> u64 {
        self.cgroup_bytes.map_or(self.memory_bytes, |limit| limit.min(self.memory_bytes))
    }
}
