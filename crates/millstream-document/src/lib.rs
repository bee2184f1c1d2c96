//! Documents in, rows with their keys and rejects out, without a server.
//!
//! [`source`] frames what `millstream-input` reads into documents, [`transform`] changes them on request, and [`decode`]
//! validates each and finds its key, or says why it cannot be stored. Between them goes a [`Chunk`](chunk::Chunk).
//! Nothing here is async, and nothing knows a table: what becomes of a row is up to the caller.

pub mod chunk;
pub mod decode;
mod json_string;
pub mod limits;
pub mod members;
mod original;
mod reject_line;
mod scan;
pub mod source;
pub mod transform;

pub use original::Original;
pub use reject_line::RejectLine;
