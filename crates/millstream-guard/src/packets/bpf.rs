//! The system call `bpf`: programs of XDP, and frames for them.
//!
//! All unsafe code of this crate is here. Each command takes a structure of its own, the beginning of the kernel's
//! `union bpf_attr`; what is missing at its end counts as zero. No structure has padding.

#![expect(unsafe_code, reason = "neither the standard library nor rustix has this system call")]

use std::ffi::{CStr, c_int, c_long};
use std::io;
use std::mem::offset_of;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;

/// Commands, numbered as in the kernel's `enum bpf_cmd`.
const MAP_CREATE: c_int = 0;
const MAP_LOOKUP_ELEM: c_int = 1;
const PROG_LOAD: c_int = 5;
const PROG_TEST_RUN: c_int = 10;
const LINK_CREATE: c_int = 28;

const MAP_TYPE_ARRAY: u32 = 2;
const PROG_TYPE_XDP: u32 = 6;
/// The attach type `BPF_XDP`.
const XDP: u32 = 37;
/// What the program does with a frame happens to it (Linux 5.18). Otherwise the kernel would only report it.
const F_TEST_XDP_LIVE_FRAMES: u32 = 2;

/// Our programs call nothing that is reserved for another licence.
const LICENSE: &CStr = c"MIT";

/// One instruction: the kernel's `struct bpf_insn`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Instruction {
    pub(super) code: u8,
    /// The destination in the lower half, the source in the upper one.
    pub(super) registers: u8,
    pub(super) offset: i16,
    pub(super) value: i32,
}

#[repr(C)]
struct MapCreate {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries: u32,
}

#[repr(C)]
struct MapLookup {
    map: u32,
    unused: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
struct ProgLoad {
    kind: u32,
    count: u32,
    instructions: u64,
    license: u64,
}

#[repr(C)]
struct LinkCreate {
    program: u32,
    device: u32,
    attach_type: u32,
    flags: u32,
}

#[derive(Default)]
#[repr(C)]
struct TestRun {
    program: u32,
    verdict: u32,
    input_bytes: u32,
    output_bytes: u32,
    input: u64,
    output: u64,
    times: u32,
    duration: u32,
    context_sizes: [u32; 2],
    contexts: [u64; 2],
    flags: u32,
    processor: u32,
    batch: u32,
    unused: u32,
}

// Where the kernel's structure has the same fields.
const _: () =
    assert!(offset_of!(TestRun, flags) == 64 && offset_of!(TestRun, batch) == 72 && size_of::<TestRun>() == 80);
const _: () = assert!(offset_of!(MapLookup, value) == 16 && offset_of!(ProgLoad, license) == 16);
const _: () = assert!(size_of::<Instruction>() == 8);

/// A map of one number, which programs can change.
pub(super) struct Counter(OwnedFd);

impl Counter {
    /// Makes one that is 0.
    pub(super) fn new() -> io::Result<Self> {
        let mut attributes = MapCreate { kind: MAP_TYPE_ARRAY, key_bytes: 4, value_bytes: 8, entries: 1 };
        // SAFETY: MAP_CREATE reads numbers, and opens a file.
        unsafe { opened(MAP_CREATE, &mut attributes) }.map(Self)
    }

    /// The file by which a program finds the map.
    pub(super) fn file(&self) -> RawFd {
        self.0.as_raw_fd()
    }

    /// The number now.
    pub(super) fn count(&self) -> io::Result<u64> {
        let (key, mut value) = (0_u32, 0_u64);
        let [key, value_address] = [address(&raw const key), address(&raw mut value)];
        let mut attributes = MapLookup { map: number(&self.0), unused: 0, key, value: value_address, flags: 0 };
        // SAFETY: MAP_LOOKUP_ELEM reads a key and writes a value of the sizes that the map was made with. Only `new`
        // makes a `Counter`, so these are 4 and 8 bytes, as the two variables have. They live until it returns.
        unsafe { bpf(MAP_LOOKUP_ELEM, &mut attributes)? };
        Ok(value)
    }
}

/// Loads a program of XDP.
pub(super) fn load(instructions: &[Instruction]) -> io::Result<OwnedFd> {
    let mut attributes = ProgLoad {
        kind: PROG_TYPE_XDP,
        count: u32::try_from(instructions.len()).map_err(io::Error::other)?,
        instructions: address(instructions.as_ptr()),
        license: address(LICENSE.as_ptr()),
    };
    // SAFETY: PROG_LOAD reads `count` instructions, which are laid out as the kernel's and live until it returns, and a
    // text with a zero at its end. It opens a file. The kernel refuses a program that could do harm.
    unsafe { opened(PROG_LOAD, &mut attributes) }
}

/// Lets a program see every frame that a device receives, until the file that is returned is closed.
pub(super) fn attach(program: &OwnedFd, device: u32) -> io::Result<OwnedFd> {
    let mut attributes = LinkCreate { program: number(program), device, attach_type: XDP, flags: 0 };
    // SAFETY: LINK_CREATE reads numbers, and opens a file.
    unsafe { opened(LINK_CREATE, &mut attributes) }
}

/// Runs a program on copies of a frame. After each `batch`, the kernel does what the program has decided.
pub(super) fn inject(program: &OwnedFd, frame: &[u8], times: u32, batch: u32) -> io::Result<()> {
    let mut attributes = TestRun {
        program: number(program),
        input_bytes: u32::try_from(frame.len()).map_err(io::Error::other)?,
        input: address(frame.as_ptr()),
        times,
        flags: F_TEST_XDP_LIVE_FRAMES,
        batch,
        ..TestRun::default()
    };
    // SAFETY: PROG_TEST_RUN reads `input_bytes` of a frame that lives until it returns. The other addresses are null,
    // so it writes only numbers, into `attributes`.
    unsafe { bpf(PROG_TEST_RUN, &mut attributes)? };
    Ok(())
}

fn number(file: &OwnedFd) -> u32 {
    file.as_raw_fd().cast_unsigned()
}

/// An address as the kernel takes it: 64 bits on every machine.
fn address<T>(pointer: *const T) -> u64 {
    pointer.expose_provenance() as u64
}

/// Runs a command that opens a file.
// SAFETY: the caller keeps what `bpf` asks for, and the command's result is a file that it has opened.
unsafe fn opened<A>(command: c_int, attributes: &mut A) -> io::Result<OwnedFd> {
    // SAFETY: the caller keeps what `bpf` asks for.
    let file = unsafe { bpf(command, attributes)? };
    let file = c_int::try_from(file).map_err(io::Error::other)?;
    // SAFETY: the kernel has just opened this file for us, so it is open and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(file) })
}

/// Runs a command. Returns its result.
// SAFETY: the caller gives a structure that the command takes, without padding. Each address in it is null, or that of
// as many bytes as the command reads or writes there.
unsafe fn bpf<A>(command: c_int, attributes: &mut A) -> io::Result<c_long> {
    // SAFETY: the kernel gets the size of `attributes` and stays within it. The reference is exclusive, so nobody else
    // uses it during the call. The caller answers for the addresses in it.
    let done = unsafe { libc::syscall(libc::SYS_bpf, command, ptr::from_mut(attributes), size_of::<A>()) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(done) }
}
