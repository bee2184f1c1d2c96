//! What the demo loads, asks and expects.

pub mod cities;
pub mod question;
pub mod scratch;
pub mod stream;
pub mod telemetry;
