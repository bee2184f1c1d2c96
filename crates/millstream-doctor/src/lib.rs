//! Diagnoses with evidence and repair: what is wrong with a server, and whether a query uses an index.

mod activity;
mod change;
mod check;
mod checks;
mod examination;
mod host;
pub mod index;
pub mod limits;
mod partition;
mod report;
mod server;
mod settings;
mod statement;

pub use activity::{Activity, Tables, Work, work_between};
pub use change::{IndexKind, RoleSettingKind, SettingKind, TableOptionKind};
pub use check::{Check, Threshold};
pub use checks::CHECKS;
pub use examination::{Request, examine};
pub use report::{Changes, Counters, Report, Skip, html, list, manual, text};
pub use settings::{Settings, Silence};
