//! The words of Millstream as types: no I/O, no SQL text, no printing.

mod collection;
mod date;
mod decimal;
mod fault;
mod finding;
mod key;
pub mod key_bytes;
mod key_error;
mod key_literal;
mod key_request;
mod key_type;
pub mod limits;
mod machine;
mod ordered;
mod path_text;
mod position;
mod prefix;
pub mod quantity;
mod receipt;
mod slot;
mod version_type;

pub use collection::{CollectionName, NameError};
pub use decimal::{is_decimal, put_decimal};
pub use fault::{Fault, REASONS, Reason};
pub use finding::{Change, Class, Evidence, Finding, Level, Repair, Restart};
pub use key::{KeyColumn, KeySpec};
pub use key_error::KeyError;
pub use key_literal::{LiteralError, put_literal, put_version};
pub use key_request::KeyRequest;
pub use key_type::{KEY_TYPES, KeyType, KeyTypeError};
pub use machine::MachineFacts;
pub use position::Position;
pub use prefix::Prefix;
pub use receipt::{COUNTERS, Counters, Receipt, StageCounts, WalScope};
pub use slot::{SLOT_HASH_VERSION, Slot};
pub use version_type::{VersionType, VersionTypeError};
