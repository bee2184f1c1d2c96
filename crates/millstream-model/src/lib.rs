//! The words of Millstream as types: no I/O, no SQL text, no printing.

mod collection;
mod date;
mod fault;
mod key;
pub mod key_bytes;
mod key_literal;
pub mod limits;
mod position;
mod receipt;
mod slot;

pub use collection::{CollectionName, NameError};
pub use fault::{Fault, REASONS, Reason};
pub use key::{KEY_TYPES, KeyColumn, KeyError, KeyRequest, KeySpec, KeyType};
pub use key_literal::{LiteralError, put_literal};
pub use position::Position;
pub use receipt::{COUNTERS, Counters, Receipt, WalScope};
pub use slot::{SLOT_HASH_VERSION, Slot};
