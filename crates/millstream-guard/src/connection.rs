//! The connection over which somebody confirms: one that is older than the rules proves nothing, because stateless rules let
//! every old session live on.

use millstream_host::ancestors;
use millstream_model::Refusal;

/// Names of the process that serves a connection of ssh.
const SERVERS: [&str; 2] = ["sshd", "sshd-session"];

/// What to do about it.
const WAY_OUT: &str = "open a new connection to this host, and confirm there";

/// Refuses unless this process was started at the machine itself, or over a connection of ssh that began after a time, in
/// seconds since 1970.
///
/// # Errors
/// The connection is older, or this shell has outlived its own, as in a terminal multiplexer.
pub(crate) fn is_newer(since: u64) -> Result<(), Refusal> {
    // The nearest one serves this connection; the one above listens for all of them.
    let server = ancestors().into_iter().find(|process| SERVERS.contains(&process.name.as_str()));
    match server {
        Some(server) if server.started > since => Ok(()),
        Some(_) => {
            Err(Refusal::new("this connection is older than the rules, so it does not prove that new ones come in")
                .hint(WAY_OUT))
        }
        None if std::env::var_os("SSH_CONNECTION").is_some() => {
            Err(Refusal::new("this shell has outlived its connection, so it does not prove that new ones come in")
                .hint(WAY_OUT))
        }
        None => Ok(()),
    }
}
