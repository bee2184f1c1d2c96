//! The course of one source: its first and its last reading, and the values between them.

use super::Source;
use super::reading::{Delta, Sample, Values};

/// A source and its readings so far.
pub(super) struct Track {
    /// The source.
    pub(super) source: &'static Source,
    /// It cannot be read on this server.
    pub(super) disabled: bool,
    first: Option<(f64, Values)>,
    last: Option<(f64, Values)>,
    gauges: Values,
    readings: u32,
}

impl Track {
    /// A source that was not read yet.
    pub(super) fn of(source: &'static Source) -> Self {
        Self { source, disabled: false, first: None, last: None, gauges: Values::new(), readings: 0 }
    }

    /// Takes a reading of the moment `at`, in seconds, and adds the values since the reading before.
    pub(super) fn take(&mut self, at: f64, reading: Sample, values: &mut Values) {
        let after = reading.counters;
        if let Some((then, before)) = &self.last {
            (self.source.values)(&Delta { before, after: &after, seconds: at - then }, values);
        } else {
            self.first = Some((at, after.clone()));
        }
        self.last = Some((at, after));
        self.readings += 1;
        for (name, value) in &reading.gauges {
            *self.gauges.entry(name.clone()).or_default() += value;
        }
        values.extend(reading.gauges);
    }

    /// Adds the values between the first and the last reading, and the means of what is a value at each reading.
    pub(super) fn summary(&self, values: &mut Values) {
        if let (Some((begin, before)), Some((end, after))) = (&self.first, &self.last)
            && end > begin
        {
            (self.source.values)(&Delta { before, after, seconds: end - begin }, values);
        }
        let readings = f64::from(self.readings);
        values.extend(self.gauges.iter().map(|(name, sum)| (name.clone(), sum / readings)));
    }
}

#[cfg(test)]
mod tests {
    use super::super::reading::{add, values as list};
    use super::super::{Read, Source};
    use super::*;

    fn source() -> &'static Source {
        let values: fn(&Delta<'_>, &mut Values) = |delta, values| add(values, [("rate", delta.rate("n"))]);
        Box::leak(Box::new(Source { name: "test", read: Read::Kernel(|_| Sample::default()), values }))
    }

    #[test]
    fn a_summary_spans_the_recording_and_averages_gauges() {
        let mut track = Track::of(source());
        let mut values = Values::new();
        for (at, n, gauge) in [(0.0, 0.0, 1.0), (1.0, 10.0, 2.0), (3.0, 60.0, 6.0)] {
            values.clear();
            let reading = Sample { counters: list(&[("n", n)]), gauges: list(&[("gauge", gauge)]) };
            track.take(at, reading, &mut values);
        }
        assert_eq!(values, list(&[("gauge", 6.0), ("rate", 25.0)]), "the last two seconds");
        let mut summary = Values::new();
        track.summary(&mut summary);
        assert_eq!(summary, list(&[("gauge", 3.0), ("rate", 20.0)]));
    }

    #[test]
    fn one_reading_gives_no_rates() {
        let (mut track, mut values) = (Track::of(source()), Values::new());
        track.take(0.0, Sample::counters(list(&[("n", 1.0)])), &mut values);
        track.summary(&mut values);
        assert!(values.is_empty(), "{values:?}");
    }
}
