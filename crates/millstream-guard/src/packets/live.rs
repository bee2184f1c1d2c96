//! Frames that a virtual cable receives although nobody has sent them, and what sees frames before all filters.

use super::bpf;
use super::frame::frame;
use super::generator::{FROM, Generator, PORT};
use super::program::{Action, constant, counting, redirecting};
use millstream_host::{Error, Sandbox};
use millstream_model::range::Family;
use rustix::net::{AddressFamily, SocketType, netdevice::name_to_index, socket};
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

/// The end of the cable where frames enter. The other end receives them.
const ENTRY: &str = "entry";

/// The hardware address of the end that receives: one that nobody has bought.
const HARDWARE: [u8; 6] = [2, 0, 0, 0, 0, 9];

/// Why this account cannot run programs of XDP, or not with live frames.
pub(super) fn missing(generator: Generator) -> Option<String> {
    let tried = bpf::load(&constant(Action::Drop)).and_then(|program| match generator {
        Generator::Send => Ok(()),
        // The program drops it, so no device gets it.
        Generator::Live => bpf::inject(&program, &[0; 64], 1, 1),
    });
    tried.err().map(|error| format!("XDP needs root, and live frames Linux 5.18: {error}"))
}

/// Lays the cable.
pub(super) fn prepare(sandbox: &Sandbox, family: Family) -> Result<(), Error> {
    let received = Generator::Live.device();
    let [address, hardware] = [Generator::Live.target(family).to_string(), text(HARDWARE)];
    let (length, at_once) = if family == Family::V4 { (24, "") } else { (64, "nodad") };
    // Without addresses of their own, the ends have nothing to say: only our frames are received.
    let lines = format!(
        "link add {ENTRY} type veth peer name {received} address {hardware}\n\
         link set {ENTRY} addrgenmode none\n\
         link set {received} addrgenmode none\n\
         address add {address}/{length} dev {received} {at_once}\n\
         link set {ENTRY} up\n\
         link set {received} up\n"
    );
    sandbox.feed(0, "ip", ["-batch", "-"], lines)?;
    Ok(())
}

fn text(hardware: [u8; 6]) -> String {
    hardware.map(|byte| format!("{byte:02x}")).join(":")
}

/// A program of XDP that sees what a device receives before all filters, until this value ends.
pub(super) struct Watch {
    /// Packets that it has seen so far.
    pub(super) counter: bpf::Counter,
    _link: OwnedFd,
}

impl Watch {
    /// Begins to count the packets that come to the port, and does this to them.
    pub(super) fn begin(generator: Generator, family: Family, action: Action) -> io::Result<Self> {
        let counter = bpf::Counter::new()?;
        let program = bpf::load(&counting(counter.file(), family, PORT, action))?;
        let link = bpf::attach(&program, index(generator.device())?)?;
        Ok(Self { counter, _link: link })
    }
}

/// Copies of one frame.
pub(super) struct Frames {
    frame: Vec<u8>,
    program: OwnedFd,
}

impl Frames {
    /// Frames with this payload, for the end of the cable that receives.
    pub(super) fn new(family: Family, payload: &[u8]) -> io::Result<Self> {
        let program = bpf::load(&redirecting(index(ENTRY)?))?;
        let from = SocketAddr::new(Generator::Live.source(0, 1, family), FROM);
        let to = SocketAddr::new(Generator::Live.target(family), PORT);
        Ok(Self { frame: frame([[2; 6], HARDWARE], [from, to], payload), program })
    }

    /// Lets the cable receive so many of them, in groups.
    pub(super) fn inject(&self, count: usize, group: usize) -> io::Result<()> {
        let [count, group] = [count, group].map(|number| u32::try_from(number).unwrap_or(u32::MAX));
        bpf::inject(&self.program, &self.frame, count, group)
    }
}

fn index(device: &str) -> io::Result<u32> {
    let any = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    Ok(name_to_index(any, device)?)
}
