//! Changes of a machine and its servers, which can be taken back.
//!
//! Two ways, for two purposes.
//!
//! - [`Engine`] makes changes that are meant to stay: each is planned, applied, verified, and then confirmed or undone.
//!   It keeps what somebody else has set since. A person decides about a change that a kill has left.
//! - [`HostChanges`] holds kernel settings for the time of a run. It gives one setting many values, keeps other runs
//!   away meanwhile, and gives everything back without asking, also after a panic.
//!
//! While the second way holds settings, the first one touches none of the kernel.

mod engine;
mod held;
mod journal;
mod kernel;
mod kind;
mod line;
mod setting;
mod sysctl;
mod sysfs_attribute;

pub use engine::{Engine, Undone};
pub use held::HostChanges;
pub use journal::{Entry, Journal, LastingLine, State};
pub use kernel::KERNEL_KINDS;
pub use kind::{Answer, Kind, Lasting, Refusal};
pub use setting::sysctl_file;
pub use sysctl::Sysctl;
pub use sysfs_attribute::SysfsAttribute;
