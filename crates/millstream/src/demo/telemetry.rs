//! A made-up stream of pump telemetry, the same on every machine, and the rows that loading it must give.
//!
//! The stream is endless; a wave is a window of it. The second wave begins a tenth of a wave later than the first, so
//! that nine tenths of it are keys of the first wave and the rest are new. A document's values depend on the wave, its
//! key does not.

use super::stream::{DEVICES, Stream, Value, name, push_document};
use crate::limits::DEMO_DOCUMENTS_MAX;
use std::io::{self, BufWriter, Write};
use std::ops::Range;

/// The second wave begins this part of a wave after the first.
const SHIFT: u64 = 10;

/// Bytes between two writes to the file.
const WRITE_BYTES: usize = 1 << 20;

/// Which part of the stream, and which values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wave {
    /// The beginning of the stream.
    First,
    /// The same a tenth later, with other values.
    Second,
}

/// Two waves of telemetry, each of this many documents.
#[derive(Debug, Clone, Copy)]
pub struct Telemetry {
    documents: u64,
}

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    /// Documents.
    pub documents: u64,
    /// Bytes.
    pub bytes: u64,
    /// The first document.
    pub first: String,
}

/// What a device's rows add up to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Totals {
    /// Rows.
    pub readings: u64,
    /// Rows in alarm.
    pub alarms: u64,
    /// Sum of the temperatures, in hundredths of a degree.
    pub hundredths: u64,
}

/// What the collection holds after both waves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected {
    /// Keys that the first wave brings.
    pub first: u64,
    /// Keys that the second wave adds.
    pub second: u64,
    /// Totals by device, the one with the most readings first.
    pub devices: Vec<(String, Totals)>,
}

impl Totals {
    /// Mean temperature in hundredths of a degree, rounded half up as PostgreSQL's `round` does
    /// for positive numbers.
    pub fn mean_hundredths(&self) -> u64 {
        (2 * self.hundredths + self.readings) / (2 * self.readings).max(1)
    }

    fn add(&mut self, value: Value) {
        self.readings += 1;
        self.alarms += u64::from(value.alarm());
        self.hundredths += value.hundredths;
    }

    fn remove(&mut self, value: Value) {
        self.readings -= 1;
        self.alarms -= u64::from(value.alarm());
        self.hundredths -= value.hundredths;
    }
}

impl Expected {
    /// Totals of all devices.
    pub fn total(&self) -> Totals {
        self.devices.iter().fold(Totals::default(), |sum, (_, device)| Totals {
            readings: sum.readings + device.readings,
            alarms: sum.alarms + device.alarms,
            hundredths: sum.hundredths + device.hundredths,
        })
    }
}

impl Telemetry {
    /// Waves of this many documents, at most [`DEMO_DOCUMENTS_MAX`].
    pub fn new(documents: u64) -> Self {
        assert!(documents <= DEMO_DOCUMENTS_MAX, "timestamps end with the month");
        Self { documents }
    }

    /// Documents of the second wave that lie beyond the first.
    pub fn shift(self) -> u64 {
        self.documents / SHIFT
    }

    /// Writes a wave, a document a line.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write(self, wave: Wave, out: &mut impl Write) -> io::Result<Written> {
        let window = self.window(wave);
        let mut out = BufWriter::with_capacity(WRITE_BYTES, out);
        let mut document = Vec::new();
        let mut written = Written { documents: 0, bytes: 0, first: String::new() };
        for reading in Stream::default().take_while(|r| r.number < window.end).filter(|r| r.number >= window.start) {
            push_document(&mut document, &reading, Value::of(&reading, wave as u64));
            if written.documents == 0 {
                written.first = String::from_utf8_lossy(&document).trim_end().to_owned();
            }
            written.documents += 1;
            written.bytes += document.len() as u64;
            out.write_all(&document)?;
            document.clear();
        }
        out.flush()?;
        Ok(written)
    }

    /// The result of loading both waves in order, when the last document of a key wins.
    pub fn expected(self) -> Expected {
        let (first, second) = (self.window(Wave::First), self.window(Wave::Second));
        let mut totals = vec![Totals::default(); DEVICES as usize];
        let mut last: Vec<Option<Value>> = vec![None; DEVICES as usize];
        let mut keys = [0, 0];
        for reading in Stream::default().take_while(|r| r.number < second.end) {
            // The second wave overwrites the first.
            let wave = if second.contains(&reading.number) { Wave::Second } else { Wave::First };
            let value = Value::of(&reading, wave as u64);
            let device = reading.device as usize;
            if reading.fresh {
                keys[usize::from(!first.contains(&reading.number))] += 1;
            } else if let Some(corrected) = last[device] {
                totals[device].remove(corrected);
            }
            totals[device].add(value);
            last[device] = Some(value);
        }
        let mut devices: Vec<(String, Totals)> =
            (0..DEVICES).zip(totals).filter(|(_, t)| t.readings > 0).map(|(d, t)| (name(d), t)).collect();
        devices.sort_by(|(a, x), (b, y)| y.readings.cmp(&x.readings).then_with(|| a.cmp(b)));
        Expected { first: keys[0], second: keys[1], devices }
    }

    fn window(self, wave: Wave) -> Range<u64> {
        match wave {
            Wave::First => 0..self.documents,
            Wave::Second => self.shift()..self.shift() + self.documents,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value as Json;
    use std::collections::{BTreeMap, HashMap};

    fn wave(telemetry: Telemetry, wave: Wave) -> Vec<Json> {
        let mut out = Vec::new();
        let written = telemetry.write(wave, &mut out).unwrap();
        assert_eq!(written.bytes, out.len() as u64);
        let documents: Vec<Json> =
            out.split(|b| *b == b'\n').filter(|l| !l.is_empty()).map(|l| serde_json::from_slice(l).unwrap()).collect();
        assert_eq!(written.documents, documents.len() as u64);
        documents
    }

    fn key(document: &Json) -> (String, String) {
        let part = |name: &str| document[name].as_str().unwrap().to_owned();
        (part("device"), part("ts"))
    }

    #[test]
    fn the_generated_stream_never_changes() {
        let mut out = Vec::new();
        Telemetry::new(2).write(Wave::First, &mut out).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            concat!(
                r#"{"device":"pump-0530","ts":"2026-01-01T00:00:00.002Z","temperature":47.07,"rpm":1725,"#,
                r#""vibration":2.00,"state":"ok","site":{"hall":6,"line":11}}"#,
                "\n",
                r#"{"device":"pump-0034","ts":"2026-01-01T00:00:00.004Z","temperature":27.44,"rpm":1794,"#,
                r#""vibration":0.90,"state":"ok","site":{"hall":7,"line":35}}"#,
                "\n",
            )
        );
    }

    #[test]
    fn expected_answers_match_a_map_of_the_documents() {
        for documents in [1, 9, 10, 1_000, 30_000] {
            let telemetry = Telemetry::new(documents);
            let expected = telemetry.expected();
            let mut table: HashMap<(String, String), Json> = HashMap::new();
            let mut keys = Vec::new();
            for which in [Wave::First, Wave::Second] {
                let documents_read = wave(telemetry, which);
                assert_eq!(documents_read.len() as u64, documents);
                table.extend(documents_read.into_iter().map(|document| (key(&document), document)));
                keys.push(table.len() as u64);
            }
            assert_eq!((expected.first, expected.second), (keys[0], keys[1] - keys[0]), "{documents}");
            let mut devices: BTreeMap<String, Totals> = BTreeMap::new();
            for ((device, _), document) in table {
                let totals = devices.entry(device).or_default();
                totals.readings += 1;
                totals.alarms += u64::from(document["state"] == "alarm");
                let temperature = document["temperature"].as_f64().unwrap();
                totals.hundredths += (temperature * 100.0).round().to_string().parse::<u64>().unwrap();
            }
            let found: BTreeMap<String, Totals> = expected.devices.iter().cloned().collect();
            assert_eq!(found, devices, "{documents}");
            assert_eq!(expected.total().readings, keys[1]);
        }
    }

    #[test]
    fn waves_repeat_keys_and_change_values() {
        let telemetry = Telemetry::new(20_000);
        let (first, second) = (wave(telemetry, Wave::First), wave(telemetry, Wave::Second));
        let expected = telemetry.expected();
        assert!(expected.first < 20_000 * 99 / 100, "a wave repeats keys: {}", expected.first);
        assert!(expected.second > 1_900 && expected.second < 2_000, "a tenth is new: {}", expected.second);
        assert_eq!(key(&first[2_000]), key(&second[0]));
        let same = first[2_000..].iter().zip(&second).filter(|(a, b)| a == b).count();
        assert_eq!(same, 0, "values change");
        let (_, busiest) = &expected.devices[0];
        assert!(busiest.readings > expected.total().readings / 12, "hot: {busiest:?}");
        assert!(expected.devices.len() > 950, "{} devices", expected.devices.len());
        let alarms = expected.total().alarms;
        assert!(alarms > 20 && alarms < 4_000, "{alarms} alarms");
    }

    #[test]
    fn documents_are_about_150_bytes() {
        let written = Telemetry::new(10_000).write(Wave::First, &mut io::sink()).unwrap();
        let each = written.bytes / written.documents;
        assert!((130..=170).contains(&each), "{each}");
    }

    #[test]
    fn means_are_rounded_half_up() {
        for (hundredths, readings, mean) in [(10, 4, 3), (9, 4, 2), (1, 2, 1), (0, 0, 0)] {
            assert_eq!(Totals { readings, alarms: 0, hundredths }.mean_hundredths(), mean);
        }
    }
}
