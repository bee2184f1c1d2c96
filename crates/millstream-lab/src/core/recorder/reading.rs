//! What a source reads at one moment, and the values that two readings give.

use std::collections::BTreeMap;

/// Numbers by name.
pub(super) type Values = BTreeMap<String, f64>;

/// The state of a source at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Sample {
    /// Numbers that only grow. Two readings give rates and means.
    pub(super) counters: Values,
    /// Numbers that are values already.
    pub(super) gauges: Values,
}

impl Sample {
    /// Counters alone.
    pub(super) fn counters(counters: Values) -> Self {
        Self { counters, gauges: Values::new() }
    }
}

/// Two readings of counters, some time apart.
#[derive(Debug, Clone, Copy)]
pub(super) struct Delta<'a> {
    /// The earlier reading.
    pub(super) before: &'a Values,
    /// The later one.
    pub(super) after: &'a Values,
    /// Seconds between them.
    pub(super) seconds: f64,
}

impl Delta<'_> {
    /// By how much a counter grew. `None` if a reading lacks it, or if it began anew between them.
    pub(super) fn growth(&self, name: &str) -> Option<f64> {
        let growth = self.after.get(name)? - self.before.get(name)?;
        (growth >= 0.0).then_some(growth)
    }

    /// Growth per second.
    pub(super) fn rate(&self, name: &str) -> Option<f64> {
        (self.seconds > 0.0).then_some(self.growth(name)? / self.seconds)
    }

    /// Growth of a total for each of what is counted; `None` if nothing was counted.
    pub(super) fn mean(&self, total: &str, count: &str) -> Option<f64> {
        let count = self.growth(count)?;
        (count > 0.0).then_some(self.growth(total)? / count)
    }
}

/// Adds the values that there are.
pub(super) fn add<'a>(values: &mut Values, found: impl IntoIterator<Item = (&'a str, Option<f64>)>) {
    values.extend(found.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))));
}

/// Values from a list, for tests.
#[cfg(test)]
pub(super) fn values(list: &[(&str, f64)]) -> Values {
    list.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_give_rates_and_means() {
        let (before, after) = (values(&[("n", 2.0), ("ms", 10.0)]), values(&[("n", 6.0), ("ms", 30.0)]));
        let delta = Delta { before: &before, after: &after, seconds: 2.0 };
        assert_eq!((delta.rate("n"), delta.mean("ms", "n"), delta.growth("other")), (Some(2.0), Some(5.0), None));
        let still = Delta { before: &after, after: &after, seconds: 2.0 };
        assert_eq!((still.rate("n"), still.mean("ms", "n")), (Some(0.0), None));
    }

    #[test]
    fn a_counter_that_began_anew_has_no_value() {
        let (before, after) = (values(&[("n", 6.0)]), values(&[("n", 2.0)]));
        assert_eq!(Delta { before: &before, after: &after, seconds: 1.0 }.rate("n"), None);
    }
}
