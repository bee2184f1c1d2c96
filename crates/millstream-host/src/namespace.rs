//! A network namespace of its own, with a pair of virtual cables to this one.

use crate::command::{Command, Ended};
use crate::error::Error;

/// Name of the namespace.
const NAME: &str = "millstream-lab";

/// Names of the two ends of the cable: here and there.
const ENDS: [&str; 2] = ["millstream0", "millstream1"];

/// A second network on this machine, reached by a virtual cable (`veth`). It ends when this is dropped; what a killed
/// process has left is replaced by the next one.
#[derive(Debug)]
pub struct Namespace(());

impl Namespace {
    /// The address of this side, and that of the other side. They are from the range that is kept for measurements of
    /// networks: RFC 2544, appendix C.2.2.
    pub const ADDRESSES: [&str; 2] = ["198.18.231.1", "198.18.231.2"];

    /// Makes the namespace.
    ///
    /// # Errors
    /// There is no program `ip`, or no right to make a namespace.
    pub fn make() -> Result<Self, Error> {
        let _ = ip(&["netns", "del", NAME]);
        let [here, there] = ENDS;
        let [address, peer] = Self::ADDRESSES.map(|address| format!("{address}/30"));
        ip(&["netns", "add", NAME])?;
        // From here on, dropping it removes what was made.
        let made = Self(());
        ip(&["link", "add", here, "type", "veth", "peer", "name", there, "netns", NAME])?;
        ip(&["address", "add", &address, "dev", here])?;
        ip(&["link", "set", here, "up"])?;
        ip(&["-n", NAME, "address", "add", &peer, "dev", there])?;
        ip(&["-n", NAME, "link", "set", there, "up"])?;
        Ok(made)
    }

    /// Whether the namespace is there, perhaps because a process was killed.
    pub fn is_left() -> bool {
        std::path::Path::new("/run/netns").join(NAME).exists()
    }

    /// Removes what a killed process has left. Only for a process that holds the lock of [`crate::HostChanges`]: the
    /// namespace of another run looks alike.
    pub fn remove_left() {
        drop(Self::is_left().then_some(Self(())));
    }

    /// The words before a command line that run it in the namespace.
    pub fn prefix() -> [&'static str; 4] {
        ["ip", "netns", "exec", NAME]
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = ip(&["netns", "del", NAME]);
        // The kernel removes the cable with the namespace, but a little later.
        let _ = ip(&["link", "del", ENDS[0]]);
    }
}

fn ip(args: &[&str]) -> Result<Ended, Error> {
    Command::new("ip").args(args).run_blocking().and_then(Ended::succeeded)
}
