//! PostgreSQL's 64-bit hash of bytes, so that a text can be compared with one the server holds
//! without sending it.

/// `hashtextextended(text, seed)` of a text in a deterministic collation.
///
/// Source: `hash_bytes_extended` in PostgreSQL's `hashfn.c`, which is Bob Jenkins' lookup3. The
/// words are little-endian; a big-endian server finds other hashes.
pub fn hash_text(text: &[u8], seed: i64) -> i64 {
    let [s0, s1, s2, s3, s4, s5, s6, s7] = seed.to_be_bytes();
    let length = u32::try_from(text.len()).expect("a text of PostgreSQL is below 1 GiB");
    let start = 0x9e37_79b9_u32.wrapping_add(length).wrapping_add(3_923_095);
    let (mut a, mut b, mut c) = (start, start, start);
    if seed != 0 {
        a = a.wrapping_add(u32::from_be_bytes([s0, s1, s2, s3]));
        b = b.wrapping_add(u32::from_be_bytes([s4, s5, s6, s7]));
        (a, b, c) = mix(a, b, c);
    }
    let (blocks, tail) = text.as_chunks::<12>();
    for &[k0, k1, k2, k3, k4, k5, k6, k7, k8, k9, k10, k11] in blocks {
        a = a.wrapping_add(u32::from_le_bytes([k0, k1, k2, k3]));
        b = b.wrapping_add(u32::from_le_bytes([k4, k5, k6, k7]));
        c = c.wrapping_add(u32::from_le_bytes([k8, k9, k10, k11]));
        (a, b, c) = mix(a, b, c);
    }
    // The lowest byte of c is left to the length.
    let mut last = [0_u8; 12];
    for (n, &byte) in tail.iter().enumerate() {
        last[if n < 8 { n } else { n + 1 }] = byte;
    }
    let [k0, k1, k2, k3, k4, k5, k6, k7, k8, k9, k10, k11] = last;
    a = a.wrapping_add(u32::from_le_bytes([k0, k1, k2, k3]));
    b = b.wrapping_add(u32::from_le_bytes([k4, k5, k6, k7]));
    c = c.wrapping_add(u32::from_le_bytes([k8, k9, k10, k11]));
    let (b, c) = finish(a, b, c);
    (u64::from(b) << 32 | u64::from(c)).cast_signed()
}

#[inline]
fn mix(mut a: u32, mut b: u32, mut c: u32) -> (u32, u32, u32) {
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
    (a, b, c)
}

fn finish(mut a: u32, mut b: u32, mut c: u32) -> (u32, u32) {
    c = (c ^ b).wrapping_sub(b.rotate_left(14));
    a = (a ^ c).wrapping_sub(c.rotate_left(11));
    b = (b ^ a).wrapping_sub(a.rotate_left(25));
    c = (c ^ b).wrapping_sub(b.rotate_left(16));
    a = (a ^ c).wrapping_sub(c.rotate_left(4));
    b = (b ^ a).wrapping_sub(a.rotate_left(14));
    c = (c ^ b).wrapping_sub(b.rotate_left(24));
    (b, c)
}
