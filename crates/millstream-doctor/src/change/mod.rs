//! Kinds of changes of a server, which the change engine applies and takes back.

mod index;
mod session;
mod setting;
mod table_option;

pub use index::IndexKind;
pub use setting::SettingKind;
pub use table_option::TableOptionKind;
