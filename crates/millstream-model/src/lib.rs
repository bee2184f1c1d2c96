//! The words of Millstream as types: no I/O, no SQL text, no printing.

mod collection;
mod fault;
mod key;
pub mod limits;
mod position;
mod receipt;
mod slot;

pub use collection::{CollectionName, NameError};
pub use fault::{Fault, REASONS, Reason};
pub use key::{KeyColumn, KeyError, KeyRequest, KeySpec, KeyType};
pub use position::Position;
pub use receipt::{COUNTERS, Counters, Receipt, WalScope};
pub use slot::{SLOT_HASH_VERSION, Slot};
