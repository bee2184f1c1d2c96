//! PostgreSQL's 64-bit hash of bytes, which compares a text with one on the server without sending it.

/// `hashtextextended(text, seed)` of a text in a deterministic collation, for every seed. Two seeds
/// take little longer than one.
///
/// Source: `hash_bytes_extended` in PostgreSQL's `hashfn.c`, which is Bob Jenkins' lookup3. The
/// words are little-endian. A big-endian server computes other hashes.
pub fn hash_text<const N: usize>(text: &[u8], seeds: [i64; N]) -> [i64; N] {
    let length = u32::try_from(text.len()).expect("a text of PostgreSQL is below 1 GiB");
    let start = 0x9e37_79b9_u32.wrapping_add(length).wrapping_add(3_923_095);
    let mut states = seeds.map(|seed| {
        let [high, low] = halves(seed.cast_unsigned());
        let seeded = State(start.wrapping_add(high), start.wrapping_add(low), start);
        if seed == 0 { State(start, start, start) } else { seeded.mixed() }
    });
    let (blocks, tail) = text.as_chunks::<12>();
    for block in blocks {
        states = states.map(|state| state.plus(block).mixed());
    }
    // The lowest byte of the third word is reserved for the length.
    let mut last = [0_u8; 12];
    for (n, &byte) in tail.iter().enumerate() {
        last[if n < 8 { n } else { n + 1 }] = byte;
    }
    states.map(|state| state.plus(&last).hash())
}

fn halves(seed: u64) -> [u32; 2] {
    let [a, b, c, d, e, f, g, h] = seed.to_be_bytes();
    [u32::from_be_bytes([a, b, c, d]), u32::from_be_bytes([e, f, g, h])]
}

#[derive(Debug, Clone, Copy)]
struct State(u32, u32, u32);

impl State {
    #[inline]
    fn plus(self, &[k0, k1, k2, k3, k4, k5, k6, k7, k8, k9, k10, k11]: &[u8; 12]) -> Self {
        Self(
            self.0.wrapping_add(u32::from_le_bytes([k0, k1, k2, k3])),
            self.1.wrapping_add(u32::from_le_bytes([k4, k5, k6, k7])),
            self.2.wrapping_add(u32::from_le_bytes([k8, k9, k10, k11])),
        )
    }

    #[inline]
    fn mixed(self) -> Self {
        let Self(mut a, mut b, mut c) = self;
        a = a.wrapping_sub(c) ^ c.rotate_left(4);
        c = c.wrapping_add(b);
        b = b.wrapping_sub(a) ^ a.rotate_left(6);
        a = a.wrapping_add(c);
        c = c.wrapping_sub(b) ^ b.rotate_left(8);
        b = b.wrapping_add(a);
        a = a.wrapping_sub(c) ^ c.rotate_left(16);
        c = c.wrapping_add(b);
        b = b.wrapping_sub(a) ^ a.rotate_left(19);
        a = a.wrapping_add(c);
        c = c.wrapping_sub(b) ^ b.rotate_left(4);
        b = b.wrapping_add(a);
        Self(a, b, c)
    }

    #[inline]
    fn hash(self) -> i64 {
        let Self(mut a, mut b, mut c) = self;
        c = (c ^ b).wrapping_sub(b.rotate_left(14));
        a = (a ^ c).wrapping_sub(c.rotate_left(11));
        b = (b ^ a).wrapping_sub(a.rotate_left(25));
        c = (c ^ b).wrapping_sub(b.rotate_left(16));
        a = (a ^ c).wrapping_sub(c.rotate_left(4));
        b = (b ^ a).wrapping_sub(a.rotate_left(14));
        c = (c ^ b).wrapping_sub(b.rotate_left(24));
        (u64::from(b) << 32 | u64::from(c)).cast_signed()
    }
}
