//! The connection in which somebody types: one that is older than the rules proves nothing, because stateless rules let
//! every old session live on.

use millstream_host::{ancestors, variable_of};
use millstream_model::Refusal;
use std::net::IpAddr;

/// Names of the process that serves a connection of ssh.
const SERVERS: [&str; 2] = ["sshd", "sshd-session"];

/// What ssh tells the programs of a connection: the addresses and ports of its ends.
const VARIABLE: &str = "SSH_CONNECTION";

/// What to do about it.
const WAY_OUT: &str = "open a new connection to this host, and confirm there";

/// A connection of ssh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ssh {
    /// The other end's address.
    pub peer: IpAddr,
    /// Its port.
    pub from: u16,
    /// The address of this host.
    pub host: IpAddr,
    /// The port of ssh here.
    pub to: u16,
}

impl Ssh {
    /// The ends as ssh writes them.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let mut end = || Some((words.next()?.parse().ok()?, words.next()?.parse().ok()?));
        let ((peer, from), (host, to)) = (end()?, end()?);
        Some(Self { peer, from, host, to })
    }

    /// Whether it comes from this host itself.
    fn is_local(self) -> bool {
        self.peer.is_loopback() || self.peer == self.host
    }
}

/// The connection of ssh in which this runs. The processes above are asked too, because sudo hides it.
pub(crate) fn of_ssh() -> Option<Ssh> {
    let own = std::env::var(VARIABLE).ok();
    let above = || ancestors().into_iter().find_map(|process| variable_of(process.pid, VARIABLE));
    Ssh::parse(&own.or_else(above)?)
}

/// Refuses unless this process was started at the machine itself, or over a connection of ssh that began after a time, in
/// seconds since 1970.
///
/// # Errors
/// The connection is older or comes from this host, or this shell has outlived its own, as in a terminal multiplexer.
pub(crate) fn is_newer(since: u64) -> Result<(), Refusal> {
    // The nearest one serves this connection; the one above listens for all of them.
    let server = ancestors().into_iter().find(|process| SERVERS.contains(&process.name.as_str()));
    let why = match (server, of_ssh()) {
        (Some(_), Some(ssh)) if ssh.is_local() => "this connection comes from the host itself",
        (Some(server), _) if server.started > since => return Ok(()),
        (Some(_), _) => "this connection is older than the rules",
        (None, Some(_)) => "this shell has outlived its connection",
        (None, None) => return Ok(()),
    };
    Err(Refusal::new(format!("{why}, so it does not prove that new ones come in")).hint(WAY_OUT))
}
