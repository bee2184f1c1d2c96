//! The made-up stream behind the demo's telemetry: which device sends when, and what.

use crate::limits::DEMO_DOCUMENTS_MAX;

/// Devices; a few of them send most of the documents.
pub const DEVICES: u32 = 1_000;

/// One in this many documents corrects the last reading of its device: it has the same key.
pub const CORRECTION_EVERY: u64 = 32;

/// Longest time between two documents.
const STEP_MS_MAX: u64 = 6;

const MS_PER_DAY: u64 = 86_400_000;

// Timestamps stay within January, even for a wave that begins where another ends.
const _: () = assert!(2 * DEMO_DOCUMENTS_MAX * STEP_MS_MAX < 31 * MS_PER_DAY);

/// Temperature from which a pump is in alarm, in hundredths of a degree.
const ALARM_HUNDREDTHS: u64 = 9_000;

/// A document of the stream, without its values.
#[derive(Debug, Clone, Copy)]
pub struct Reading {
    /// Its place in the stream.
    pub number: u64,
    /// Its device, below [`DEVICES`].
    pub device: u32,
    /// Milliseconds since the stream began.
    pub at_ms: u64,
    /// Whether its key is new in the stream.
    pub fresh: bool,
}

/// The stream from its beginning.
pub struct Stream {
    number: u64,
    clock_ms: u64,
    /// When each device sent its last reading.
    last_ms: Vec<Option<u64>>,
}

impl Default for Stream {
    fn default() -> Self {
        Self { number: 0, clock_ms: 0, last_ms: vec![None; DEVICES as usize] }
    }
}

impl Iterator for Stream {
    type Item = Reading;

    fn next(&mut self) -> Option<Reading> {
        let number = self.number;
        self.number += 1;
        let draw = draw(number, 0);
        let device = device(draw >> 32);
        // The clock never stands still, so no two fresh readings share a timestamp.
        self.clock_ms += 1 + draw % STEP_MS_MAX;
        let corrects = (draw >> 8).is_multiple_of(CORRECTION_EVERY);
        let last = &mut self.last_ms[device as usize];
        let corrected = last.filter(|_| corrects);
        let at_ms = corrected.unwrap_or(self.clock_ms);
        *last = Some(at_ms);
        Some(Reading { number, device, at_ms, fresh: corrected.is_none() })
    }
}

/// The values of a reading.
#[derive(Debug, Clone, Copy)]
pub struct Value {
    /// Temperature in hundredths of a degree.
    pub hundredths: u64,
    rpm: u64,
    vibration: u64,
}

impl Value {
    /// The values of a reading. Another version has other values.
    pub fn of(reading: &Reading, version: u64) -> Self {
        let draw = draw(reading.number, 1 + version);
        let usual = 2_000 + u64::from(reading.device) * 3;
        Self { hundredths: usual + power(draw >> 32, 2, 6_000), rpm: 900 + (draw >> 16) % 1_200, vibration: draw % 500 }
    }

    /// Whether the pump is too hot.
    pub fn alarm(self) -> bool {
        self.hundredths >= ALARM_HUNDREDTHS
    }
}

/// A random number that depends on nothing but its two names (SplitMix64's finaliser).
fn draw(number: u64, of: u64) -> u64 {
    let mut x = (number * 4 + of + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// A number below `below` with the density of a power of the uniform `draw`, of 32 bits.
fn power(draw: u64, exponent: u32, below: u64) -> u64 {
    ((1..exponent).fold(draw, |product, _| (product * draw) >> 32) * below) >> 32
}

/// The third power gives the busiest device a tenth of all documents, the next one a quarter of
/// that; the ranks are spread over the names.
fn device(draw: u64) -> u32 {
    let rank = power(draw, 3, u64::from(DEVICES));
    u32::try_from((rank * 617 + 417) % u64::from(DEVICES)).expect("a remainder of a u32")
}

/// The device's name.
pub fn name(device: u32) -> String {
    format!("pump-{device:04}")
}

/// Adds the document and a line end.
pub fn push_document(out: &mut Vec<u8>, reading: &Reading, value: Value) {
    let (device, ms) = (u64::from(reading.device), reading.at_ms % MS_PER_DAY);
    out.extend_from_slice(b"{\"device\":\"pump-");
    push_digits(out, device, 4);
    out.extend_from_slice(b"\",\"ts\":\"2026-01-");
    push_digits(out, 1 + reading.at_ms / MS_PER_DAY, 2);
    for (before, number, width) in
        [(b'T', ms / 3_600_000, 2), (b':', ms / 60_000 % 60, 2), (b':', ms / 1_000 % 60, 2), (b'.', ms % 1_000, 3)]
    {
        out.push(before);
        push_digits(out, number, width);
    }
    out.extend_from_slice(b"Z\",\"temperature\":");
    push_hundredths(out, value.hundredths);
    out.extend_from_slice(b",\"rpm\":");
    push_number(out, value.rpm);
    out.extend_from_slice(b",\"vibration\":");
    push_hundredths(out, value.vibration);
    let state: &[u8] = if value.alarm() { b"alarm" } else { b"ok" };
    out.extend_from_slice(b",\"state\":\"");
    out.extend_from_slice(state);
    out.extend_from_slice(b"\",\"site\":{\"hall\":");
    push_number(out, 1 + device % 7);
    out.extend_from_slice(b",\"line\":");
    push_number(out, 1 + device % 40);
    out.extend_from_slice(b"}}\n");
}

fn push_hundredths(out: &mut Vec<u8>, value: u64) {
    push_number(out, value / 100);
    out.push(b'.');
    push_digits(out, value % 100, 2);
}

fn push_number(out: &mut Vec<u8>, value: u64) {
    push_digits(out, value, 1 + value.checked_ilog10().unwrap_or(0) as usize);
}

/// The last `width` digits, with leading zeros.
fn push_digits(out: &mut Vec<u8>, value: u64, width: usize) {
    let begin = out.len();
    out.resize(begin + width, b'0');
    let mut rest = value;
    for digit in out[begin..].iter_mut().rev() {
        *digit += (rest % 10) as u8;
        rest /= 10;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_print_all_their_digits() {
        let mut out = Vec::new();
        push_number(&mut out, 0);
        push_number(&mut out, 1_990);
        push_digits(&mut out, 7, 3);
        push_hundredths(&mut out, 305);
        assert_eq!(out, b"019900073.05");
    }

    #[test]
    fn the_longest_wave_ends_within_the_month() {
        let mut out = Vec::new();
        let at_ms = 2 * DEMO_DOCUMENTS_MAX * STEP_MS_MAX;
        let reading = Reading { number: 0, device: 7, at_ms, fresh: true };
        push_document(&mut out, &reading, Value::of(&reading, 0));
        let document: serde_json::Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(document["ts"], "2026-01-14T21:20:00.000Z");
    }
}
