//! The Linux machine: facts about it, and processes on it.
//!
//! ```no_run
//! # async fn example() -> Result<(), millstream_host::Error> {
//! use millstream_host::{Command, Ended};
//! use std::time::Duration;
//!
//! let limit = Duration::from_secs(10);
//! let version = Command::new("psql").arg("--version").run(limit).await.and_then(Ended::succeeded)?.stdout;
//!
//! // The same program, measured: its time, and the processor time and memory of all its processes.
//! let measured = Command::new("psql").arg("--version").measure(limit).await?;
//! println!("{:?} s of processor time", measured.cpu_seconds);
//! # Ok(())
//! # }
//! ```

mod account;
mod child;
mod command;
mod disk_latency;
mod error;
mod facts;
mod file_lock;
mod held;
pub mod kernel;
pub mod limits;
mod measured;
mod memory_limit;
mod named_file;
mod new_file;
mod ours;
mod own_file;
mod plain_file;
mod process;
mod sandbox;
pub mod setting;
mod shell;
mod slow_disk;
mod ssh;
mod stream;
mod target_file;
mod wait;
mod whole_file;

pub use account::Account;
pub use child::Child;
pub use command::{Command, Ended, in_path};
pub use disk_latency::disk_latency;
pub use error::Error;
pub use facts::{DiskSpace, cpus, disk_free_bytes, disk_space, facts};
pub use file_lock::FileLock;
pub use held::HostChanges;
pub use measured::Measured;
pub use memory_limit::MemoryLimit;
pub use named_file::{open_named, read_at_most};
pub use ours::{NotOurs, PRIVATE, check_ours, enterable, make_ours};
pub use own_file::{make_folder, own_file, scratch_folder};
pub use plain_file::{create_private, open_plain, open_private, read_note, read_plain, read_plain_bytes};
pub use process::{
    Ancestor, ancestors, cpu_seconds_of, hangup_is_ignored, is_living_in, leave_terminal, living_in, own_cpu_seconds,
    program_of, program_seen_by, signal,
};
pub use sandbox::{End, Sandbox};
pub use setting::sysctl_file;
pub use shell::{shell_line, shell_word};
pub use slow_disk::{FILE_SYSTEMS, FileSystem, Format, SlowDisk, Slowness, serve_slow_disk};
pub use ssh::Ssh;
pub use stream::Stream;
pub use target_file::{TargetFile, write_target};
pub use wait::wait_until;
pub use whole_file::{NEW, read_whole, remove_whole, write_private, write_whole};
