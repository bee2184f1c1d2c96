//! Changes of a machine and its servers, which can be taken back.
//!
//! Two ways, for two purposes. [`HostChanges`] holds kernel settings for the time of a run and always gives them back.
//! [`Engine`] makes changes that are meant to stay: each is planned, applied, verified, and then confirmed or undone.

mod engine;
mod held;
mod journal;
mod kernel;
mod kind;
mod line;

pub use engine::{Engine, Undone};
pub use held::{HostChanges, sysctl_file};
pub use journal::{Entry, Journal, LastingLine, State};
pub use kernel::{KERNEL_KINDS, Sysctl, SysfsAttribute};
pub use kind::{Answer, Kind, Lasting, Refusal};
