//! Whether a confirmation proves something. A connection that is older than the rules does not, because stateless rules let
//! every old session live on.

use millstream_host::{Ssh, ancestors};
use millstream_model::Refusal;

/// Names of the process that serves a connection of ssh.
const SERVERS: [&str; 2] = ["sshd", "sshd-session"];

/// What to do about it.
const WAY_OUT: &str = "open a new connection to this host, and confirm there";

/// Refuses unless this process was started at the machine itself, or over a connection of ssh that began after a time, in
/// seconds since 1970.
///
/// # Errors
/// The connection is older or comes from this host, or this shell has outlived its own, as in a terminal multiplexer.
pub(crate) fn is_newer(since: u64) -> Result<(), Refusal> {
    // The nearest one serves this connection; the one above listens for all of them.
    let server = ancestors().into_iter().find(|process| SERVERS.contains(&process.name.as_str()));
    let why = match (server, Ssh::here()) {
        (Some(_), Some(ssh)) if ssh.is_local() => "this connection comes from the host itself",
        (Some(server), _) if server.started > since => return Ok(()),
        (Some(_), _) => "this connection is older than the rules",
        (None, Some(_)) => "this shell has outlived its connection",
        (None, None) => return Ok(()),
    };
    Err(Refusal::new(format!("{why}, so it does not prove that new ones come in")).hint(WAY_OUT))
}
