//! Sending packets as fast as one processor can.

use super::generator::{FROM, Generator, PORT};
use super::live::{Frames, Watch};
use super::program::Action;
use super::raw::Raw;
use crate::limits::{BATCH_PACKETS, FRAMES_AT_ONCE, PAYLOAD_BYTES, READER_BYTES};
use millstream_model::range::Family;
use rustix::io::Errno;
use rustix::net::{
    MMsgHdr, RecvFlags, SendAncillaryBuffer, SendFlags, connect, recv, recvfrom, send as send_one, sendmmsg, sendto,
    sockopt::set_socket_recv_buffer_size_force,
};
use rustix::process::getppid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::io::{self, IoSlice};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// The last characters of each packet, which rows look for.
const NEEDLE: &[u8] = b"needle!";

/// What to send.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Traffic {
    /// What makes the packets.
    pub generator: Generator,
    /// The addresses.
    pub family: Family,
    /// Addresses that send in turn.
    pub sources: u32,
    /// Whether a raw socket sends the packets, one by one.
    pub is_raw: bool,
    /// Whether the port is read.
    pub is_read: bool,
    /// Whether each source sends one packet more before all others, and gets an answer.
    pub is_answered: bool,
    /// Whether a program of XDP drops them all.
    pub is_dropped: bool,
    /// When to stop.
    pub limit: Limit,
    /// The process that has started this one. If it is gone, nobody wants the answer, and the network must not stay.
    pub asked_by: u32,
}

/// When to stop sending.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// After exactly so many packets.
    Packets(u64),
    /// After this time.
    Seconds(f64),
}

/// What was sent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Sent {
    /// Packets.
    pub packets: u64,
    /// The time they took.
    pub seconds: f64,
    /// Processor time of the sender. On a loopback device the receiver's work is in it.
    pub cpu_seconds: f64,
    /// Packets that a program of XDP has dropped.
    pub dropped: u64,
}

/// Makes packets of UDP in the network of this process, on one processor.
///
/// # Errors
/// The system refuses a socket or a packet.
pub fn send(traffic: &Traffic) -> io::Result<Sent> {
    if traffic.sources == 0 || traffic.sources > 1 && !traffic.is_raw {
        return Err(io::Error::other("a raw socket sends from 1 source or more, and any other from 1"));
    }
    stay_on_one_processor()?;
    let target = SocketAddr::new(traffic.generator.target(traffic.family), PORT);
    let reader = traffic.is_read.then(|| bound(target)).transpose()?;
    if let (Some(reader), Generator::Live) = (&reader, traffic.generator) {
        set_socket_recv_buffer_size_force(reader, READER_BYTES)?;
    }
    let mut payload = [b'x'; PAYLOAD_BYTES];
    payload[PAYLOAD_BYTES - NEEDLE.len()..].copy_from_slice(NEEDLE);
    let watch = watch(traffic)?;
    let mut sender = Sender::new(traffic, target, &payload)?;
    let (most, time) = match traffic.limit {
        Limit::Packets(packets) => (packets, None),
        Limit::Seconds(seconds) => (u64::MAX, Some(Duration::try_from_secs_f64(seconds).map_err(io::Error::other)?)),
    };
    if let (Some(reader), Sender::Socket(socket), true) = (&reader, &sender, traffic.is_answered) {
        answer(socket, reader, &payload)?;
    }
    let (begun, cpu_before) = (Instant::now(), cpu_time());
    let (mut packets, mut read) = (0, 0);
    loop {
        packets += sender.send(&payload, most - packets)?;
        if let Some(reader) = &reader {
            read += read_all(reader)?;
        }
        let is_wanted = getppid().is_some_and(|parent| parent.as_raw_pid().cast_unsigned() == traffic.asked_by);
        if packets >= most || time.is_some_and(|time| begun.elapsed() >= time) || !is_wanted {
            break;
        }
    }
    let (seconds, cpu) = (begun.elapsed().as_secs_f64(), cpu_time() - cpu_before);
    let seen = watch.map_or(Ok(packets), |watch| watch.counter.count())?;
    let arrived = if reader.is_some() { seen.min(read) } else { seen };
    if arrived != packets {
        return Err(io::Error::other(format!("of {packets} packets, only {arrived} arrived")));
    }
    let dropped = if traffic.is_dropped { seen } else { 0 };
    Ok(Sent { packets, seconds, cpu_seconds: cpu.as_secs_f64(), dropped })
}

/// What sends.
enum Sender {
    Socket(OwnedFd),
    Raw(Raw),
    Cable(Frames),
}

impl Sender {
    fn new(traffic: &Traffic, target: SocketAddr, payload: &[u8]) -> io::Result<Self> {
        let Traffic { generator, family, sources, .. } = *traffic;
        if generator == Generator::Live {
            return Ok(Self::Cable(Frames::new(family, payload)?));
        }
        let from = SocketAddr::new(generator.source(0, sources, family), FROM);
        if traffic.is_raw {
            return Ok(Self::Raw(Raw::new(from, target, sources, payload)?));
        }
        let socket = bound(from)?;
        connect(&socket, &target)?;
        Ok(Self::Socket(socket))
    }

    /// Sends as many packets as are left, or as go in one call. Returns how many were sent.
    fn send(&mut self, payload: &[u8], left: u64) -> io::Result<u64> {
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        match self {
            Self::Socket(socket) => batch(socket, payload, left.min(BATCH_PACKETS)),
            Self::Raw(raw) => raw.send(left.min(BATCH_PACKETS)),
            Self::Cable(frames) => {
                let count = left.min(FRAMES_AT_ONCE);
                frames.inject(count, BATCH_PACKETS)?;
                Ok(count as u64)
            }
        }
    }
}

/// The program of XDP, if there is one.
fn watch(traffic: &Traffic) -> io::Result<Option<Watch>> {
    let Traffic { generator, family, is_dropped, .. } = *traffic;
    let action = if is_dropped { Action::Drop } else { Action::Pass };
    // A cable takes frames only if a program is there to see them come out.
    let is_there = is_dropped || generator == Generator::Live;
    is_there.then(|| Watch::begin(generator, family, action)).transpose()
}

/// The highest processor that this process may use. On a machine with several, the others do the rest.
pub(crate) fn stay_on_one_processor() -> io::Result<()> {
    let allowed = sched_getaffinity(None)?;
    let Some(last) = (0..CpuSet::MAX_CPU).rev().find(|cpu| allowed.is_set(*cpu)) else { return Ok(()) };
    let mut one = CpuSet::new();
    one.set(last);
    Ok(sched_setaffinity(None, &one)?)
}

fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec.try_into().unwrap_or(0), now.tv_nsec.try_into().unwrap_or(0))
}

fn bound(address: SocketAddr) -> io::Result<OwnedFd> {
    Ok(UdpSocket::bind(address)?.into())
}

/// Sends a packet to the reader and an answer back: from then on the connection counts as established.
fn answer(sender: &OwnedFd, reader: &OwnedFd, payload: &[u8]) -> io::Result<()> {
    let mut packet = [0; PAYLOAD_BYTES];
    send_one(sender, payload, SendFlags::empty())?;
    let (_, _, from) = recvfrom(reader, &mut packet[..], RecvFlags::empty())?;
    let from = from.ok_or_else(|| io::Error::other("a packet came from nowhere"))?;
    sendto(reader, payload, SendFlags::empty(), &from)?;
    recv(sender, &mut packet[..], RecvFlags::empty())?;
    Ok(())
}

/// Sends one packet so many times. Returns how many were sent.
fn batch(sender: &OwnedFd, payload: &[u8], count: usize) -> io::Result<u64> {
    let slices = [IoSlice::new(payload)];
    let mut controls: Vec<_> = (0..count).map(|_| SendAncillaryBuffer::default()).collect();
    let mut messages: Vec<_> = controls.iter_mut().map(|control| MMsgHdr::new(&slices, control)).collect();
    let mut sent = 0;
    while sent < count {
        match sendmmsg(sender, &mut messages[sent..], SendFlags::empty()) {
            Ok(more) => sent += more,
            // The answer to an earlier packet: nobody reads the port. Or a filter drops what this process sends.
            Err(Errno::CONNREFUSED | Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(sent as u64)
}

/// Reads what has come. Returns how many packets that were.
fn read_all(reader: &OwnedFd) -> io::Result<u64> {
    let mut packet = [0; PAYLOAD_BYTES];
    let mut read = 0;
    loop {
        match recv(reader, &mut packet[..], RecvFlags::DONTWAIT) {
            Ok(_) => read += 1,
            Err(Errno::AGAIN) => return Ok(read),
            Err(error) => return Err(error.into()),
        }
    }
}
