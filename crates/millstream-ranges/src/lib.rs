//! Ranges of IP addresses: stores in LMDB that other programs read, built, looked up, verified, compared and exported.

mod builder;
mod column_type;
mod diff;
mod error;
pub mod export;
mod index;
pub mod input;
mod jsonb;
pub mod limits;
mod logged;
mod pick;
mod store;
mod value;
mod verify;

pub use builder::{BuildRequest, Observer, Overlap, Progress, Reject, Silent, build};
pub use column_type::{ColumnType, ColumnTypes};
pub use diff::{Difference, Differences, diff};
pub use error::Error;
pub use index::Index;
pub use logged::{Which, addresses};
pub use millstream_model::range::{AddressReading, FAMILIES, Family, Range};
pub use pick::{Pick, words};
pub use store::{FORMAT, Found, Generation, Layout, Receipt, current, generations};
pub use value::braced;
pub use verify::{Verification, verify};
