//! Programs of XDP, instruction by instruction, so that nobody needs a compiler for them.

use super::bpf::Instruction;
use millstream_model::range::Family;

/// What a program says about a frame, numbered as in the kernel's `enum xdp_action`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// The frame ends here.
    Drop = 1,
    /// It goes on to the filters.
    Pass = 2,
}

/// The number of the kernel's function `bpf_redirect`.
const REDIRECT: i32 = 23;

/// The number of UDP among protocols.
const UDP: i32 = 17;

/// Bytes of a frame before its packet.
const ETHERNET: i16 = 14;

/// A program that says the same of every frame.
pub(super) fn constant(action: Action) -> [Instruction; 2] {
    [set(0, action as i32), exit()]
}

/// A program that counts the packets of UDP to a port, in a map of one number, and says this of them. All others pass.
pub(super) fn counting(map: i32, family: Family, port: u16, action: Action) -> Vec<Instruction> {
    // The type of the frame, where the packet names its protocol, and how long its header is without options.
    let (kind, protocol, header) = match family {
        Family::V4 => (0x0800_u16, 9, 20),
        Family::V6 => (0x86dd, 6, 40),
    };
    let target = ETHERNET + header + 2;
    let [map_begin, map_end] = value_address(1, map);
    let [say, end] = constant(action);
    let [pass, pass_end] = constant(Action::Pass);
    vec![
        // Register 1 comes with the context, which begins with the addresses of the frame and of its end.
        load(WORD, 2, 1, 4),
        load(WORD, 1, 1, 0),
        copy(3, 1),
        add(3, i32::from(target) + 2),
        // The kernel refuses a program that reads a frame without having asked how long it is.
        jump_if_above(3, 2, 12),
        load(HALF, 3, 1, ETHERNET - 2),
        jump_unless(3, kind.to_be().into(), 10),
        load(BYTE, 3, 1, ETHERNET + protocol),
        jump_unless(3, UDP, 8),
        load(HALF, 3, 1, target),
        jump_unless(3, port.to_be().into(), 6),
        map_begin,
        map_end,
        set(2, 1),
        add_in_memory(1, 2),
        say,
        end,
        // All jumps lead here.
        pass,
        pass_end,
    ]
}

/// A program that sends every frame out of a device.
pub(super) fn redirecting(device: u32) -> [Instruction; 4] {
    [set(1, device.cast_signed()), set(2, 0), instruction(0x85, 0, 0, 0, REDIRECT), exit()]
}

const WORD: u8 = 0x61;
const HALF: u8 = 0x69;
const BYTE: u8 = 0x71;

/// The codes are those of RFC 9669.
fn instruction(code: u8, to: u8, from: u8, offset: i16, value: i32) -> Instruction {
    Instruction { code, registers: from << 4 | to, offset, value }
}

fn load(width: u8, to: u8, from: u8, offset: i16) -> Instruction {
    instruction(width, to, from, offset, 0)
}

fn copy(to: u8, from: u8) -> Instruction {
    instruction(0xbf, to, from, 0, 0)
}

fn set(to: u8, value: i32) -> Instruction {
    instruction(0xb7, to, 0, 0, value)
}

fn add(to: u8, value: i32) -> Instruction {
    instruction(0x07, to, 0, 0, value)
}

/// Another processor may add at the same time.
fn add_in_memory(address: u8, from: u8) -> Instruction {
    instruction(0xdb, address, from, 0, 0)
}

/// The address of the value in a map of one, which takes the room of two instructions.
fn value_address(to: u8, map: i32) -> [Instruction; 2] {
    [instruction(0x18, to, 2, 0, map), instruction(0, 0, 0, 0, 0)]
}

fn jump_if_above(left: u8, right: u8, over: i16) -> Instruction {
    instruction(0x2d, left, right, over, 0)
}

fn jump_unless(left: u8, value: i32, over: i16) -> Instruction {
    instruction(0x55, left, 0, over, value)
}

fn exit() -> Instruction {
    instruction(0x95, 0, 0, 0, 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_jump_of_a_program_leads_to_where_packets_pass() {
        for family in [Family::V4, Family::V6] {
            let program = counting(7, family, 9, Action::Drop);
            let jumps = program.iter().enumerate().filter(|(_, one)| [0x2d, 0x55].contains(&one.code));
            let targets: Vec<usize> = jumps.map(|(at, one)| at + 1 + usize::try_from(one.offset).unwrap()).collect();
            assert_eq!(targets, [17; 4]);
            assert_eq!(program[15..], [constant(Action::Drop), constant(Action::Pass)].concat());
        }
    }

    /// As `llvm-mc -triple=bpfel` assembles the same program.
    #[cfg(target_endian = "little")]
    #[test]
    fn instructions_have_the_bytes_that_an_assembler_gives_them() {
        let bytes = |one: &Instruction| {
            let value = u64::from(one.value.cast_unsigned()) << 32 | u64::from(one.offset.cast_unsigned()) << 16;
            (value | u64::from(one.registers) << 8 | u64::from(one.code)).swap_bytes()
        };
        let program: Vec<u64> = counting(7, Family::V4, 9, Action::Drop).iter().map(bytes).collect();
        let assembled = [
            0x6112_0400_0000_0000,
            0x6111_0000_0000_0000,
            0xbf13_0000_0000_0000,
            0x0703_0000_2600_0000,
            0x2d23_0c00_0000_0000,
            0x6913_0c00_0000_0000,
            0x5503_0a00_0800_0000,
            0x7113_1700_0000_0000,
            0x5503_0800_1100_0000,
            0x6913_2400_0000_0000,
            0x5503_0600_0009_0000,
            0x1821_0000_0700_0000,
            0x0000_0000_0000_0000,
            0xb702_0000_0100_0000,
            0xdb21_0000_0000_0000,
            0xb700_0000_0100_0000,
            0x9500_0000_0000_0000,
            0xb700_0000_0200_0000,
            0x9500_0000_0000_0000,
        ];
        assert_eq!(program, assembled);
        assert_eq!(bytes(&redirecting(0)[2]), 0x8500_0000_1700_0000);
    }
}
