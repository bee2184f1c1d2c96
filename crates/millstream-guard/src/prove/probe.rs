//! Sending the packets of a proof, and seeing which of them pass. It runs in the host's network, in a process of its own.

use super::bytes::{bytes, protocol};
use super::exchange::{Exchange, which_work};
use super::network::{CLIENT, Cable, HOST, Nets, ROUTER};
use super::talk::Talk;
use crate::limits::{ARRIVAL_MAX, SEEN_BYTES_MAX};
use crate::policy::{Content, Direction, Packet};
use crate::prober::Prober;
use millstream_host::Sandbox;
use millstream_model::Refusal;
use millstream_model::range::{FAMILIES, Family};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, bind, eth, ipproto, recv, sendto,
    socket_with,
};
use serde::{Deserialize, Serialize};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Instant;

/// A number for experiments, which no filter of a policy accepts. Source: RFC 3692.
const MARK: u8 = 253;

/// What is to be sent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Task {
    /// The networks of client, router and host.
    pub(super) networks: [PathBuf; 3],
    pub(super) cables: Vec<Cable>,
    pub(super) packets: Vec<Packet>,
    pub(super) talks: Vec<Talk>,
    pub(super) exchanges: Vec<Exchange>,
}

impl Task {
    /// Lets a prober do it in the network of the host.
    pub(super) fn passed(&self, sandbox: &Sandbox, prober: &Prober) -> Result<Passed, Refusal> {
        let input = serde_json::to_string(self).map_err(|error| Refusal::new(error.to_string()))?;
        prober.send(sandbox, HOST, |command| {
            command.input(input);
        })
    }
}

/// What passed, in the order of the task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Passed {
    /// Packets.
    pub packets: Vec<bool>,
    /// Conversations.
    pub talks: Vec<bool>,
    /// Exchanges with services.
    pub exchanges: Vec<bool>,
    /// The time that the packets took.
    pub seconds: f64,
}

/// What sees every packet of a protocol that the host's filter lets through.
struct Witness {
    family: Family,
    protocol: u8,
    socket: OwnedFd,
}

struct Probing {
    witnesses: Vec<Witness>,
    /// Sees every packet that arrives at the host, before its filter.
    arrivals: OwnedFd,
    /// What sends any packet: from the client, and from the router.
    outside: [[OwnedFd; 2]; 2],
    /// The same from the host, by each of its interfaces.
    host: Vec<[OwnedFd; 2]>,
    /// Marks that were sent.
    marks: u32,
}

/// Does a task.
///
/// # Errors
/// The system refuses a socket, or a packet that should arrive does not.
pub fn send(task: &Task) -> io::Result<Passed> {
    // One processor handles all that is sent and forwarded, so that packets keep their order.
    crate::packets::stay_on_one_processor()?;
    let nets = Nets::open(&task.networks)?;
    let mut probing = Probing::open(&nets, &task.cables)?;
    let begun = Instant::now();
    let packets = task.packets.iter().map(|packet| probing.passes(packet, &task.cables)).collect::<io::Result<_>>()?;
    let seconds = begun.elapsed().as_secs_f64();
    drop(probing);
    let talks = task.talks.iter().map(|talk| talk.succeeds(&nets)).collect::<io::Result<_>>()?;
    let exchanges = which_work(&task.exchanges, &nets)?;
    Ok(Passed { packets, talks, exchanges, seconds })
}

fn raw(family: Family, protocol: Protocol) -> io::Result<OwnedFd> {
    let family = if family == Family::V4 { AddressFamily::INET } else { AddressFamily::INET6 };
    Ok(socket_with(family, SocketType::RAW, SocketFlags::NONBLOCK, Some(protocol))?)
}

fn numbered(number: u8) -> io::Result<Protocol> {
    let number = std::num::NonZeroU32::new(number.into()).ok_or(Errno::INVAL)?;
    Ok(Protocol::from_raw(number))
}

impl Probing {
    fn open(nets: &Nets, cables: &[Cable]) -> io::Result<Self> {
        let senders =
            || -> io::Result<[OwnedFd; 2]> { Ok([raw(Family::V4, ipproto::RAW)?, raw(Family::V6, ipproto::RAW)?]) };
        nets.enter(HOST)?;
        let mut witnesses = Vec::new();
        for family in FAMILIES {
            for number in super::probes::PROTOCOLS[family as usize] {
                witnesses.push(Witness { family, protocol: *number, socket: raw(family, numbered(*number)?)? });
            }
        }
        let arrivals = socket_with(AddressFamily::PACKET, SocketType::DGRAM, SocketFlags::NONBLOCK, Some(eth::ALL))?;
        let mut host = Vec::new();
        for cable in cables {
            let of_cable = senders()?;
            for family in FAMILIES {
                bind(&of_cable[family as usize], &SocketAddr::new(cable.host(family), 0))?;
            }
            host.push(of_cable);
        }
        nets.enter(CLIENT)?;
        let client = senders()?;
        nets.enter(ROUTER)?;
        Ok(Self { witnesses, arrivals, outside: [client, senders()?], host, marks: 0 })
    }

    /// Whether a packet passes the host's filter.
    fn passes(&mut self, packet: &Packet, cables: &[Cable]) -> io::Result<bool> {
        let to = SocketAddr::new(packet.destination, 0);
        let bytes = bytes(packet);
        if packet.direction == Direction::Out {
            let cable = cables.iter().position(|cable| cable.interface == packet.interface).unwrap_or(0);
            let socket = &self.host[cable][packet.family() as usize];
            return match sendto(socket, &bytes, SendFlags::empty(), &to) {
                Ok(_) => Ok(true),
                Err(Errno::PERM) => Ok(false),
                Err(error) => Err(error.into()),
            };
        }
        // The hop limit says whether a router has forwarded a packet.
        let from = usize::from(matches!(packet.content, Content::Icmp { is_of_neighbour: true, .. }));
        sendto(&self.outside[from][packet.family() as usize], &bytes, SendFlags::empty(), &to)?;
        let cable = cables.iter().find(|cable| cable.host.contains(&packet.destination));
        self.wait_for_mark(from, cable.ok_or(Errno::INVAL)?)?;
        let header = if packet.source.is_ipv4() { 20 } else { 40 };
        self.has_seen(packet, &bytes[header..])
    }

    /// Sends a packet behind the others, and waits until it has arrived before the filter. Then they have passed it, or not.
    fn wait_for_mark(&mut self, from: usize, cable: &Cable) -> io::Result<()> {
        self.marks += 1;
        // A router takes no packet with a source that is its own.
        let source = if from == 0 { cable.outside().host(Family::V4) } else { cable.router(Family::V4) };
        let destination = cable.host(Family::V4);
        let mark = Packet {
            direction: Direction::In,
            interface: cable.interface.clone(),
            source,
            destination,
            content: Content::Other(MARK),
            text: Vec::new(),
            is_established: false,
        };
        let mut bytes = bytes(&mark);
        let at = bytes.len() - 4;
        bytes[at..].copy_from_slice(&self.marks.to_be_bytes());
        sendto(&self.outside[from][0], &bytes, SendFlags::empty(), &SocketAddr::new(destination, 0))?;
        let mut arrived = [0; 64];
        loop {
            match recv(&self.arrivals, &mut arrived[..], RecvFlags::empty()) {
                Ok((length, _)) => {
                    if length >= bytes.len() && arrived[9] == MARK && arrived[at..at + 4] == bytes[at..] {
                        return Ok(());
                    }
                }
                Err(Errno::AGAIN) => {
                    let mut wait = [PollFd::new(&self.arrivals, PollFlags::IN)];
                    let limit = Timespec { tv_sec: ARRIVAL_MAX.as_secs().try_into().unwrap_or(60), tv_nsec: 0 };
                    if poll(&mut wait, Some(&limit))? == 0 {
                        return Err(io::Error::other("a packet did not arrive at the host"));
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Whether a witness has seen this packet since it was last asked.
    fn has_seen(&self, packet: &Packet, payload: &[u8]) -> io::Result<bool> {
        let fits = |witness: &&Witness| (witness.family, witness.protocol) == (packet.family(), protocol(packet));
        let witness = self.witnesses.iter().find(fits).ok_or(Errno::PROTONOSUPPORT)?;
        let (mut seen, mut is_seen) = ([0; SEEN_BYTES_MAX], false);
        loop {
            match recv(&witness.socket, &mut seen[..], RecvFlags::empty()) {
                Ok((length, _)) => is_seen |= seen[..length].ends_with(payload),
                Err(Errno::AGAIN) => return Ok(is_seen),
                Err(error) => return Err(error.into()),
            }
        }
    }
}
