//! Objects in stores, as sources of a load.
//!
//! A [`Finder`] turns an address, or a pattern of them, into objects in the version that is there now: name, size and tag.
//! Every read of an object demands that version, so what a load reads is of one version, and another run of the load knows
//! by the tag what it need not read again.
//!
//! The stores are behind the feature `objects`. Without it, addresses are known and cannot be read. What is async stays
//! inside: all that others call blocks.

mod address;
#[cfg(feature = "objects")]
mod cause;
mod error;
#[cfg(feature = "objects")]
mod finder;
pub mod limits;
#[cfg(feature = "objects")]
mod object;
#[cfg(feature = "objects")]
mod pattern;
#[cfg(feature = "objects")]
mod places;
#[cfg(feature = "objects")]
mod ranges;
#[cfg(feature = "objects")]
mod runtime;
#[cfg(feature = "objects")]
mod stored;
#[cfg(feature = "objects")]
mod stores;
#[cfg(not(feature = "objects"))]
mod unbuilt;

pub use address::{is_object, shown};
pub use error::Error;
#[cfg(feature = "objects")]
pub use finder::Finder;
#[cfg(not(feature = "objects"))]
pub use unbuilt::Finder;
