//! Documents in, committed rows and a receipt out.

pub mod chunk;
