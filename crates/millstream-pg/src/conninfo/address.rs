//! Where a server of a connection string listens.

use std::net::IpAddr;
use std::path::PathBuf;

/// Where a server listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// The directory of a Unix socket.
    Socket(PathBuf),
    /// A name to be resolved.
    Name(String),
    /// A numeric address (`hostaddr`).
    Ip(IpAddr),
}
