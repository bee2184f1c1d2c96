//! Changes of a machine and its servers, which can be taken back.
//!
//! A change is planned, applied, verified, and then confirmed or undone. [`Changes`] does that and knows no kind of
//! change: a [`Kind`] says how its targets are read and written, how a value lasts, and which experiment would decide
//! about it. The [`Journal`] holds the old value before anything is touched. So a change can be undone after a kill, and
//! by another process. A [`Proposal`] goes the whole way of a change that undoes itself unless it is confirmed: nothing is
//! touched before a [`Watchdog`] watches over it.
//!
//! What somebody else has set since is kept. A person decides about a change that a kill has left. An experiment of the
//! lab holds kernel settings in another way, [`millstream_host::HostChanges`]: for the time of a run, and gives them back
//! without asking. While it holds settings, nothing here touches those.

mod changes;
mod journal;
mod kernel;
mod kind;
mod lasting;
pub mod limits;
mod place;
mod proposal;
mod sides;
mod sysctl;
mod sysfs_attribute;
mod watchdog;
mod way_out;

pub use changes::{Changes, Undone};
pub use journal::{Entry, Journal, LastingFile, LastingLine, State};
pub use kind::{Answer, Breakable, Kind, Large, Lasting, Lasts, Measurable, Values, WayBack, find};
pub use place::Place;
pub use proposal::{Proposal, Step};
pub use sides::Sides;
pub use sysctl::Sysctl;
pub use sysfs_attribute::SysfsAttribute;
pub use watchdog::Watchdog;
pub use way_out::{Number, WayOut};
