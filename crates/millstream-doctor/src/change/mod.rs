//! Kinds of changes of a server, which can be taken back.

mod index;
mod profile;
mod role_setting;
mod session;
mod setting;
mod table_option;

pub use index::IndexKind;
pub use profile::ProfileKind;
pub(crate) use profile::together;
pub use role_setting::RoleSettingKind;
pub use setting::SettingKind;
pub use table_option::TableOptionKind;
