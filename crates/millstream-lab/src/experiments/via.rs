//! Ways to a server, of which an arm takes one.

use serde::{Deserialize, Serialize};

/// The way to the server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Via {
    /// The unix socket.
    #[default]
    Socket,
    /// The loopback address, unencrypted.
    Tcp,
    /// The loopback address, encrypted.
    Ssl,
    /// A virtual cable from a network namespace of its own, in which pgbench runs.
    Veth,
}
