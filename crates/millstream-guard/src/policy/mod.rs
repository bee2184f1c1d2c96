//! The policy of a host: what may come in, what may go out, and how connections are followed.

mod known;
mod line;
mod list;
mod meaning;
mod packet;
mod resolver;
mod text;

pub(crate) use known::UNPRIVILEGED;
pub use line::{LINES, reason};
pub(crate) use list::range;
pub use meaning::{Decision, meaning};
pub use packet::{Content, Direction, Flags, Packet};

use crate::limits::POLICY_BYTES_MAX;
use millstream_host::read_at_most;
use millstream_model::Refusal;
use millstream_model::range::{Family, Range};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// What a host accepts and sends. All else is dropped. Forwarded packets are not its concern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// How connections are followed.
    pub mode: Mode,
    /// Whether what no line accepts is logged, at a bounded rate.
    pub log: bool,
    /// Whether the host answers echo requests.
    pub ping: bool,
    /// Whether this host may send everything.
    pub send_all: bool,
    /// Sources that `deny` and limits leave alone.
    pub allow: Addresses,
    /// Sources of which nothing is accepted but neighbour discovery.
    pub deny: Addresses,
    /// What may come in, by name.
    pub services: Vec<Service>,
    /// What may go out, by name.
    pub clients: Vec<Client>,
    /// Ranges by the name of their list, merged and in order.
    pub lists: BTreeMap<String, Vec<Range>>,
    /// The file from which the resolvers were read, if the policy names none.
    pub resolvers_of: Option<PathBuf>,
    /// A resolver of this host that the same file names, too: whom it asks is not known.
    pub own_resolver: Option<IpAddr>,
}

/// How connections are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Not at all: each packet is decided by itself.
    Stateless,
    /// By the kernel's connection tracking.
    Stateful,
    /// By tracking, but for services that are `hot`.
    Hybrid,
}

/// Something that may come in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// Its name.
    pub name: String,
    /// Its ports.
    pub ports: Ports,
    /// Who may reach it.
    pub from: Addresses,
    /// The interface by which they come; `None`: any.
    pub interface: Option<String>,
    /// How often a source may begin.
    pub limit: Option<Limit>,
    /// The text with which a datagram is dropped.
    pub deny_text: Option<DeniedText>,
    /// Whether its packets are not tracked in mode `hybrid`.
    pub hot: bool,
}

/// Something that may go out, and its answers come in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    /// Its name.
    pub name: String,
    /// Ports of the servers.
    pub ports: Ports,
    /// The servers.
    pub to: Addresses,
    /// The interface by which they are reached; `None`: any.
    pub interface: Option<String>,
    /// The ports of this host that ask, each as the first and the last of a range.
    pub own_ports: Vec<(u16, u16)>,
    /// Whether answers may come from an address that was not asked, as when a question goes to all servers. Tracking does
    /// not know them, so their ports decide in every mode.
    pub asks_all: bool,
}

/// Ports of TCP and of UDP, each as the first and the last of a range.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ports {
    /// Of TCP.
    pub tcp: Vec<(u16, u16)>,
    /// Of UDP.
    pub udp: Vec<(u16, u16)>,
}

/// Addresses on the other side.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Addresses {
    /// Whether these are all addresses: then there are no ranges and no lists.
    pub is_all: bool,
    /// Ranges, merged and in order.
    pub ranges: Vec<Range>,
    /// Names of lists.
    pub lists: Vec<String>,
}

/// How often a source may begin: new connections of TCP, packets of UDP. A source is a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    /// How often in a `unit`.
    pub count: u32,
    /// A unit of time.
    pub unit: Unit,
    /// So many more at once.
    pub burst: u32,
    /// Length of the prefix in IPv4.
    pub v4: u32,
    /// Length of the prefix in IPv6.
    pub v6: u32,
}

/// A text in a datagram.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeniedText {
    /// The text, of which each byte counts.
    pub text: String,
    /// The byte of the datagram at which it stands; `None`: anywhere.
    pub at: Option<u16>,
}

/// A unit of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A second.
    Second,
    /// A minute.
    Minute,
    /// An hour.
    Hour,
}

/// The policy of a text that names no files.
pub(crate) fn of_text(text: &str) -> Result<Policy, Refusal> {
    text::policy(text, Path::new(""), &|_| Ok(Vec::new()))
}

/// Reads the ranges of a store of IP ranges.
pub type ReadStore<'a> = &'a dyn Fn(&Path) -> Result<Vec<Range>, Refusal>;

impl Policy {
    /// Reads a policy and the lists that it names. Their paths are relative to the policy's file.
    ///
    /// # Errors
    /// A file cannot be read, or says what cannot be done. The message names the place.
    pub fn read(file: &Path, store: ReadStore<'_>) -> Result<Self, Refusal> {
        let hint = "addresses belong in a list, which may be a file of its own";
        let text = read_at_most(file, POLICY_BYTES_MAX, Some(hint))?;
        let dir = file.parent().unwrap_or(Path::new(""));
        text::policy(&text, dir, store).map_err(Refusal::at(file.display()))
    }

    /// Whether packets of a service are tracked.
    pub fn tracks(&self, service: &Service) -> bool {
        match self.mode {
            Mode::Stateless => false,
            Mode::Stateful => true,
            Mode::Hybrid => !service.hot,
        }
    }

    /// Whether these are no addresses at all.
    pub fn is_nobody(&self, addresses: &Addresses) -> bool {
        let has_none = |list: &String| self.lists.get(list).is_none_or(Vec::is_empty);
        !addresses.is_all && addresses.ranges.is_empty() && addresses.lists.iter().all(has_none)
    }

    /// Whether an address is one of these.
    pub fn has(&self, addresses: &Addresses, address: IpAddr) -> bool {
        let within = |ranges: &[Range]| {
            let after = ranges.partition_point(|range| (range.family, range.first()) <= (Family::of(address), address));
            after > 0 && ranges[after - 1].contains(address)
        };
        addresses.is_all
            || within(&addresses.ranges)
            || addresses.lists.iter().filter_map(|list| self.lists.get(list)).any(|ranges| within(ranges))
    }
}

impl Addresses {
    /// All addresses.
    pub fn all() -> Self {
        Self { is_all: true, ..Self::default() }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        !self.is_all && self.ranges.is_empty() && self.lists.is_empty()
    }
}

impl Ports {
    /// Whether a port of TCP or of UDP is one of these.
    pub fn has(ports: &[(u16, u16)], port: u16) -> bool {
        ports.iter().any(|(first, last)| (*first..=*last).contains(&port))
    }
}

impl DeniedText {
    /// Whether a datagram holds it.
    pub fn is_in(&self, payload: &[u8]) -> bool {
        let text = self.text.as_bytes();
        match self.at {
            Some(at) => payload.get(usize::from(at)..).is_some_and(|rest| rest.starts_with(text)),
            None => payload.windows(text.len().max(1)).any(|part| part == text),
        }
    }
}

impl Unit {
    /// Its seconds.
    pub fn seconds(self) -> u32 {
        match self {
            Self::Second => 1,
            Self::Minute => 60,
            Self::Hour => 3_600,
        }
    }

    /// Its name in nft and iptables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Second => "second",
            Self::Minute => "minute",
            Self::Hour => "hour",
        }
    }
}
