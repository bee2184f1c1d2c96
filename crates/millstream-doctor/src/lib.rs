//! Diagnoses with evidence and repair: what is wrong with a server, and whether a query uses an index.

mod activity;
mod change;
mod check;
mod checks;
mod examination;
mod host;
pub mod index;
pub mod limits;
mod one_line;
mod partition;
pub mod preset;
mod profile;
mod recent;
mod refusal;
mod report;
mod server;
mod settings;
mod snapshot;
mod statement;
mod tables;

pub use activity::{Activity, Tables, Work, work_between};
pub use change::{IndexKind, ProfileKind, RoleSettingKind, SettingKind, TableOptionKind};
pub use check::Check;
pub use checks::CHECKS;
pub use examination::{Request, examine};
pub use profile::{Profile, ProfileLine, ProfileStep, database_profile};
pub use report::{
    Changes, Counters, Difference, Grown, Report, RunOptions, SettingChanged, Skip, Slower, html, list, manual, text,
};
pub use settings::{Settings, Silence};
pub use snapshot::{Snapshot, StatementCount, TableSize};
pub use tables::{FreeSource, FreeSpace, TableList, TableState, tables};
